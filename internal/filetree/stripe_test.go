package filetree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func newLocks(t *testing.T, dir string) *stripes {
	t.Helper()
	root, err := os.OpenRoot(dir)
	must(t, err)
	s := newStripes(root)
	t.Cleanup(func() {
		must(t, s.close())
		must(t, root.Close())
	})
	return s
}

func TestOneHandleWithManyCallersDoesNotStarveAnother(t *testing.T) {
	dir := t.TempDir()
	busy, light := newLocks(t, dir), newLocks(t, dir)
	ctx, stop := context.WithCancel(t.Context())
	var turns atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				release, err := busy.acquire(context.WithoutCancel(ctx), 3)
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(100 * time.Microsecond)
				turns.Add(1)
				release()
			}
		})
	}
	for turns.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	for range 20 {
		before := turns.Load()
		release, err := light.acquire(t.Context(), 3)
		must(t, err)
		if n := turns.Load() - before; n > 200 {
			t.Errorf("waited for %d turns of the others", n)
		}
		release()
	}
	stop()
	wg.Wait()
}

func TestWaitingForALockEndsWithTheContext(t *testing.T) {
	dir := t.TempDir()
	holder, other := newLocks(t, dir), newLocks(t, dir)
	release, err := holder.acquire(t.Context(), 0)
	must(t, err)
	defer release()
	for what, s := range map[string]*stripes{"in the same handle": holder, "in another one": other} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := s.acquire(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
		cancel()
	}
	if _, ok, err := other.try(0); ok || err != nil {
		t.Errorf("a taken lock was taken: %v", err)
	}
	free, err := other.acquire(t.Context(), 1)
	must(t, err)
	free()
}

func TestALockHasRoomForARemovalBeforeTheDiskIsFull(t *testing.T) {
	for why, take := range map[string]func(s *stripes) (release func(), err error){
		"waited for": func(s *stripes) (func(), error) { return s.acquire(t.Context(), 7) },
		"free": func(s *stripes) (func(), error) {
			release, _, err := s.try(7)
			return release, err
		},
	} {
		dir := t.TempDir()
		s := newLocks(t, dir)
		release, err := take(s)
		must(t, err)
		must(t, s.setRemoved(7, 5))
		release()
		must(t, os.Truncate(filepath.Join(dir, lockDir, "07"), 3))
		again := newLocks(t, dir)
		release, err = take(again)
		must(t, err)
		fi, err := os.Stat(filepath.Join(dir, lockDir, "07"))
		must(t, err)
		if fi.Size() != 8 {
			t.Errorf("%s: the file of a lock has %d bytes before anything is removed", why, fi.Size())
		}
		release()
	}
}

func TestARemovalIsSeenByASaverThatPreparedBefore(t *testing.T) {
	dir := t.TempDir()
	tree := openTree(t, dir, func(c *Config) { c.Form = emptyForm{} })
	c := &change{stem: "k", stripe: 5, dir: dirOf(t, tree)}
	release, err := tree.stripes.acquire(t.Context(), 5)
	must(t, err)
	defer release()
	must(t, tree.unchanged(c, 100))
	must(t, tree.stripes.setRemoved(5, 100))
	must(t, tree.stripes.setRemoved(5, 90))
	if err := tree.unchanged(c, 100); !errors.Is(err, errMoved) {
		t.Errorf("%v; a record with version 100 was there and is gone", err)
	}
	must(t, tree.unchanged(c, 101))
}

// emptyForm never finds anything.
type emptyForm struct{ noForm }

func (emptyForm) Find(*Dir, string, bool) (Found, error) { return Found{}, nil }

func TestCallersOfOneDirectoryShareItsSync(t *testing.T) {
	tree := openTree(t, t.TempDir(), nil)
	synctest.Test(t, func(t *testing.T) {
		// As many as may be are under way, as far as the others can tell.
		syncs := &dirSyncs{root: tree.root, top: tree.top, dirs: map[string]*dirSync{}}
		busy := &dirSync{running: syncsAtOnce}
		syncs.dirs[""] = busy
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { must(t, syncs.sync(t.Context(), "")) })
		}
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			if err := syncs.sync(ctx, ""); !errors.Is(err, tiers.ErrCommitUnknown) || !errors.Is(err, context.Canceled) {
				t.Errorf("leaving early: %v", err)
			}
		})
		synctest.Wait()
		shared := busy.next
		cancel()
		synctest.Wait()
		for range syncsAtOnce {
			syncs.pass("", busy)
		}
		wg.Wait()
		syncs.work.Wait()
		select {
		case <-shared.done:
		default:
			t.Error("the waiting callers were not answered by one sync")
		}
		if len(syncs.dirs) != 0 {
			t.Errorf("still syncing: %v", syncs.dirs)
		}
	})
}

// TestASyncIsNotBelievedWhenAnotherFailed: the system tells of a failure once, and not
// everybody whose change it was.
func TestASyncIsNotBelievedWhenAnotherFailed(t *testing.T) {
	d := dirOf(t, openTree(t, t.TempDir(), nil))
	must(t, d.Sync(t.Context()))
	failed := errors.New("the disk is gone")
	_ = d.tree.broke(failed)
	if err := d.Sync(t.Context()); !errors.Is(err, failed) {
		t.Errorf("%v, want what went wrong", err)
	}
}

func TestASyncOfADirectoryThatIsGoneIsOneOfItsParent(t *testing.T) {
	tree := openTree(t, t.TempDir(), nil)
	must(t, tree.syncs.sync(t.Context(), "was/never/there"))
}
