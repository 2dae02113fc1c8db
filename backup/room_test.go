package backup

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/internal/crashtest"
	"github.com/sagestore/sagestore/tiers"
)

// large is a store that does not get much smaller when it is packed.
func large(t *testing.T) *store {
	t.Helper()
	s := newStore(t, t.TempDir())
	for i := range 6 {
		b := make([]byte, 300_000)
		_, _ = rand.Read(b)
		s.save(t, "agent.state", fmt.Sprint("large-", i), `"`+hex.EncodeToString(b)+`"`)
	}
	return s
}

func TestWorkWithoutRoomIsRefusedBeforeItBegins(t *testing.T) {
	s := large(t)
	backups := filepath.Join(t.TempDir(), "backups")
	r := mustRepo(t, Dir(backups), options(t))
	m := mustCreate(t, r, s)
	s.close(t)
	before := state(t, s.dir)
	s.open(t)
	to := t.TempDir()
	for _, c := range []struct {
		why  string
		work func() error
	}{
		{"a backup", func() error { _, _, err := r.Create(t.Context(), s.source(t)); return err }},
		{"a verification", func() error { _, err := r.Verify(t.Context(), m.ID, false); return err }},
		{"a restore beside", func() error {
			_, err := r.Restore(t.Context(), m.ID, RestoreOptions{To: filepath.Join(to, "to")})
			return err
		}},
		{"a restore in place", func() error {
			s.close(t)
			_, err := r.Restore(t.Context(), m.ID, inPlace(s.dir))
			return err
		}},
	} {
		t.Run(c.why, func(t *testing.T) {
			r.room = func(string) (space, bool) { return space{free: 1 << 20}, true }
			err := c.work()
			if !errors.Is(err, tiers.ErrFull) || !strings.Contains(err.Error(), "1.0 MiB are free") {
				t.Errorf("got %v", err)
			}
			if text := err.Error(); strings.ContainsAny(text, `[]"`) || !strings.Contains(text, "needed in /") {
				t.Errorf("places in it are not written for people: %s", text)
			}
			if len(entries(t, r)) != 1 {
				t.Error("there is another backup")
			}
		})
	}
	if names, err := os.ReadDir(to); err != nil || len(names) > 1 { // the lock of restores
		t.Errorf("left are %v, %v", names, err)
	}
	assertNothingStaged(t, s.dir)
	if d := cmp.Diff(before, state(t, s.dir)); d != "" {
		t.Error(d)
	}
	if _, err := r.Verify(t.Context(), m.ID, false); !errors.Is(err, tiers.ErrFull) {
		t.Errorf("the check is gone: %v", err)
	}
	r.room = nil
	if _, err := r.Verify(t.Context(), m.ID, false); err != nil {
		t.Errorf("with room: %v", err)
	}
}

// TestASmallStoreNeedsTheRoomOfItsOwnBackups: not that of a large one beside it.
func TestASmallStoreNeedsTheRoomOfItsOwnBackups(t *testing.T) {
	r := mustRepo(t, Dir(t.TempDir()), options(t))
	big := newStore(t, t.TempDir())
	big.file(t, "notes/large.json", `"`+strings.Repeat("0123456789", 200_000)+`"`)
	mustCreate(t, r, big)
	r.room = func(string) (space, bool) { return space{free: 1 << 20}, true }
	source := newStore(t, t.TempDir()).source(t)
	source.Store = "store-2"
	if _, _, err := r.Create(t.Context(), source); err != nil {
		t.Error(err)
	}
}

// TestADiskThatFillsUpHalfWayLeavesNoTrace: the room was there when it was looked at.
func TestADiskThatFillsUpHalfWayLeavesNoTrace(t *testing.T) {
	s := large(t)
	plenty := func(string) (space, bool) { return space{}, false }
	whole := Dir(t.TempDir())
	m := mustCreate(t, mustRepo(t, whole, options(t)), s)
	left := func(t *testing.T, dir string) {
		t.Helper()
		names, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if n.Name() != lockName {
				t.Errorf("left is %s", n.Name())
			}
		}
	}
	t.Run("a backup, at its destination", func(t *testing.T) {
		small := crashtest.SmallDisk(t, "1m")
		r := mustRepo(t, Dir(small), options(t))
		r.room = plenty
		if _, _, err := r.Create(t.Context(), s.source(t)); !errors.Is(err, tiers.ErrFull) {
			t.Errorf("got %v", err)
		}
		left(t, small)
	})
	t.Run("a backup, where it is verified", func(t *testing.T) {
		o := options(t)
		o.Temp = crashtest.SmallDisk(t, "1m")
		backups := t.TempDir()
		r := mustRepo(t, Dir(backups), o)
		r.room = plenty
		if _, _, err := r.Create(t.Context(), s.source(t)); !errors.Is(err, tiers.ErrFull) || errors.Is(err, tiers.ErrCorrupt) {
			t.Errorf("got %v", err)
		}
		left(t, backups)
		left(t, o.Temp)
	})
	t.Run("a restore", func(t *testing.T) {
		small := crashtest.SmallDisk(t, "1m")
		r := mustRepo(t, whole, options(t))
		r.room = plenty
		if _, err := r.Restore(t.Context(), m.ID, RestoreOptions{To: filepath.Join(small, "to")}); !errors.Is(err, tiers.ErrFull) || errors.Is(err, tiers.ErrCorrupt) {
			t.Errorf("got %v", err)
		}
		left(t, small)
		if _, err := r.Verify(t.Context(), m.ID, false); err != nil {
			t.Errorf("the backup is to blame: %v", err)
		}
	})
	s.save(t, "agent.state", "goes on", `1`)
}

func TestADestinationThatVanishesHalfWayMakesNoBackup(t *testing.T) {
	s := large(t)
	for _, step := range []string{"write file", "publish", "mark"} {
		backups := filepath.Join(t.TempDir(), "backups")
		r := mustRepo(t, Dir(backups), options(t))
		r.step = func(name string) error {
			if name != step {
				return nil
			}
			return os.Rename(backups, backups+".gone")
		}
		m, _, err := r.Create(t.Context(), s.source(t))
		if err == nil {
			t.Errorf("%s: it is said to be made", step)
		}
		if published := step == "mark"; (m.ID != "") != published {
			t.Errorf("%s: it answers %q and %v", step, m.ID, err)
		}
		r.step = nil
		if err := os.RemoveAll(backups); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(backups+".gone", backups); err != nil {
			t.Fatal(err)
		}
		for _, e := range entries(t, r) {
			if !e.Verified.IsZero() {
				t.Errorf("%s: %s counts", step, e.ID)
			}
		}
		mustCreate(t, r, s)
	}
}

// TestTwoRestoresAtOnceEndInOne waits within the first for the second.
func TestTwoRestoresAtOnceEndInOne(t *testing.T) {
	dir, backups := t.TempDir(), t.TempDir()
	before, _ := changed(t, dir, Dir(backups))
	second := mustRepo(t, Dir(backups), options(t))
	first := mustRepo(t, Dir(backups), options(t))
	first.step = func(name string) error {
		if _, err := second.Restore(context.Background(), Latest, inPlace(dir)); !errors.Is(err, tiers.ErrUnavailable) {
			t.Errorf("at %s another one answers %v", name, err)
		}
		return nil
	}
	if _, err := first.Restore(t.Context(), Latest, inPlace(dir)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, state(t, dir)); d != "" {
		t.Error(d)
	}
}
