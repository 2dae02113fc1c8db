package database

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

// holdTurn takes the writers' turn as another process would.
func holdTurn(t *testing.T, path string) (give func()) {
	t.Helper()
	other, err := openTurn(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.take(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		if err := errors.Join(other.give(), other.close()); err != nil {
			t.Error(err)
		}
	})
}

func TestACallerMayLeaveWhileItsWorkIsQueued(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	tier := mustOpen(t, Config{Path: path})
	give := holdTurn(t, path)
	defer give()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no longer wanted")
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	_, err := tier.Save(ctx, plainJSON("u1", `1`), tiers.Cond{})
	if !errors.Is(err, why) || errors.Is(err, tiers.ErrCommitUnknown) {
		t.Fatalf("got %v, want the context's cause as a plain failure", err)
	}
	give()
	if _, err := tier.Save(t.Context(), plainJSON("u2", `1`), tiers.Cond{}); err != nil {
		t.Fatal(err)
	}
	if _, err := tier.Load(t.Context(), key("u1")); !errors.Is(err, tiers.ErrNotFound) {
		t.Fatalf("what had left the queue is stored: %v", err)
	}
}

func TestLeavingOnceTheWorkIsBegunIsUnknown(t *testing.T) {
	tier := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "sage.db")})
	ctx, cancel := context.WithCancelCause(t.Context())
	begun, goOn := make(chan struct{}), make(chan struct{})
	defer close(goOn)
	go func() {
		<-begun
		cancel(errors.New("too slow"))
	}()
	err := tier.writer.do(ctx, &job{run: func(*tx) error {
		close(begun)
		<-goOn
		return nil
	}})
	if !errors.Is(err, tiers.ErrCommitUnknown) || !errors.Is(err, context.Cause(ctx)) {
		t.Fatalf("got %v, want %v with the cause", err, tiers.ErrCommitUnknown)
	}
}

func TestCallersThatLeaveTakeTheirWorkAlong(t *testing.T) {
	tier := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "sage.db")})
	begun, goOn := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		err := tier.writer.do(t.Context(), &job{run: func(*tx) error {
			close(begun)
			<-goOn
			return nil
		}})
		if err != nil {
			t.Error(err)
		}
	})
	<-begun
	ctx, leave := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range 1000 {
		callers.Go(func() {
			_, err := tier.Save(ctx, plainJSON("leaves", `1`), tiers.Cond{})
			if !errors.Is(err, context.Canceled) || errors.Is(err, tiers.ErrCommitUnknown) {
				t.Errorf("got %v, want a plain end of the context", err)
			}
		})
	}
	for queuedJobs(tier) < 1000 {
		time.Sleep(time.Millisecond)
	}
	leave()
	callers.Wait()
	if n := queuedJobs(tier); n > 0 {
		t.Errorf("%d jobs are in the queue whose callers have gone", n)
	}
	close(goOn)
	wg.Wait()
}

func TestAProgramThatTakesNoTurnsIsWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	tier := mustOpen(t, Config{Path: path})
	db := rawDB(t, path)
	db.SetMaxOpenConns(1)
	execRaw(t, db, "BEGIN IMMEDIATE")

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := tier.Save(ctx, plainJSON("u1", `1`), tiers.Cond{}); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, tiers.ErrCommitUnknown) {
		t.Fatalf("got %v, want a plain end of the deadline", err)
	}
	time.AfterFunc(20*time.Millisecond, func() { _, _ = db.Exec("COMMIT") })
	if _, err := tier.Save(t.Context(), plainJSON("u1", `2`), tiers.Cond{}); err != nil {
		t.Fatalf("the lock reached the caller: %v", err)
	}
}

func TestCloseUnderLoadStoresWhatItAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	tier := mustOpen(t, Config{Path: path})
	var wg sync.WaitGroup
	var last [16]atomic.Int64
	started := make(chan struct{}, len(last))
	for c := range last {
		wg.Go(func() {
			for i := int64(1); ; i++ {
				_, err := tier.Save(context.Background(), plainJSON(fmt.Sprint(c), fmt.Sprint(i)), tiers.Cond{})
				if errors.Is(err, tiers.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				last[c].Store(i)
				if i == 3 {
					started <- struct{}{}
				}
			}
		})
	}
	for range last {
		<-started
	}
	if err := tier.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tier.Close(t.Context()); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	wg.Wait()
	again := mustOpen(t, Config{Path: path})
	for c := range last {
		r, err := again.Load(t.Context(), key(fmt.Sprint(c)))
		if want := fmt.Sprint(last[c].Load()); err != nil || string(r.Value) != want {
			t.Errorf("caller %d: %s is stored, %s was acknowledged (%v)", c, r.Value, want, err)
		}
	}
}

func TestVersionsGrowWhateverTheClockDoes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	clock := tiertest.NewClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	a := mustOpen(t, Config{Path: path, Clock: clock})
	b := mustOpen(t, Config{Path: path, Clock: clock})
	var last tiers.Version
	save := func(tier *Tier, why string) {
		t.Helper()
		r, err := tier.Save(t.Context(), plainJSON("u1", `1`), tiers.Cond{})
		if err != nil || r.Version <= last {
			t.Fatalf("%s: version %d after %d, %v", why, r.Version, last, err)
		}
		last = r.Version
	}
	save(a, "the first")
	save(a, "the clock stands still")
	save(b, "another handle, the clock stands still")
	clock.Set(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	save(b, "the clock went back")
	save(a, "the clock went back, another handle")
	if _, err := a.Delete(t.Context(), key("u1"), tiers.Cond{}); err != nil {
		t.Fatal(err)
	}
	save(b, "after a delete by another handle")
	if _, err := b.Delete(t.Context(), key("u1"), tiers.Cond{}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Close(t.Context()), b.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	save(mustOpen(t, Config{Path: path, Clock: clock}), "opened again with an empty table")
}

func TestAConflictSpoilsNobodyElseInItsGroup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	tier := mustOpen(t, Config{Path: path})
	if _, err := tier.Save(t.Context(), plainJSON("there", `1`), tiers.Cond{}); err != nil {
		t.Fatal(err)
	}
	give := holdTurn(t, path) // so that all of them become one group
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			_, err := tier.Save(context.Background(), plainJSON(fmt.Sprint(i), `1`), tiers.If(0))
			if err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			rs := []tiers.Record{plainJSON(fmt.Sprint("batch-", i), `1`), plainJSON("there", `2`)}
			_, err := tier.SaveMany(context.Background(), rs, []tiers.Cond{{}, tiers.If(0)})
			if !errors.Is(err, tiers.ErrExists) {
				t.Errorf("got %v, want %v", err, tiers.ErrExists)
			}
		})
	}
	time.Sleep(10 * time.Millisecond) // only makes one group likelier; the outcome is the same for many
	give()
	wg.Wait()
	for i := range 20 {
		if ok, err := tier.Exists(t.Context(), key(fmt.Sprint(i))); !ok || err != nil {
			t.Errorf("%d is missing: %v", i, err)
		}
		if ok, err := tier.Exists(t.Context(), key(fmt.Sprint("batch-", i))); ok || err != nil {
			t.Errorf("half a batch of %d is there: %v", i, err)
		}
	}
}

// limitRoom lets the writer's connection have this many pages beyond those it
// has: a full disk that can be had anywhere.
func limitRoom(t *testing.T, tier *Tier, more int64) {
	t.Helper()
	err := tier.writer.do(t.Context(), &job{run: func(tx *tx) error {
		pages, err := tx.number("PRAGMA page_count")
		if err != nil {
			return err
		}
		_, err = tx.number(fmt.Sprintf("PRAGMA max_page_count = %d", pages+more))
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAFullStoreRefusesOnlyWhatDoesNotFit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	tier := mustOpen(t, Config{Path: path})
	if _, err := tier.Save(t.Context(), plainJSON("before", `1`), tiers.Cond{}); err != nil {
		t.Fatal(err)
	}
	limitRoom(t, tier, 8)
	give := holdTurn(t, path)
	var wg sync.WaitGroup
	big := `"` + strings.Repeat("x", 200_000) + `"`
	for i := range 8 {
		wg.Go(func() {
			if _, err := tier.Save(context.Background(), plainJSON(fmt.Sprint("small-", i), `1`), tiers.Cond{}); err != nil {
				t.Errorf("it would have fitted: %v", err)
			}
		})
		wg.Go(func() {
			_, err := tier.Save(context.Background(), plainJSON(fmt.Sprint("big-", i), big), tiers.Cond{})
			if !errors.Is(err, tiers.ErrFull) || !strings.Contains(err.Error(), "make room") {
				t.Errorf("got %v, want %v and what to do", err, tiers.ErrFull)
			}
		})
	}
	time.Sleep(10 * time.Millisecond) // as above
	give()
	wg.Wait()
	limitRoom(t, tier, 1000)
	if _, err := tier.Save(t.Context(), plainJSON("big-0", big), tiers.Cond{}); err != nil {
		t.Errorf("there is room again: %v", err)
	}
	for _, name := range []string{"before", "small-0", "small-7", "big-0"} {
		if ok, err := tier.Exists(t.Context(), key(name)); !ok || err != nil {
			t.Errorf("%s is missing: %v", name, err)
		}
	}
}

func TestAfterAnIOErrorTheStoreMustBeOpenedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	tier := mustOpen(t, Config{Path: path})
	if _, err := tier.Save(t.Context(), plainJSON("u1", `1`), tiers.Cond{}); err != nil {
		t.Fatal(err)
	}
	tier.writer.spoil(errors.New("input/output error"))
	for op, err := range map[string]error{
		"save":   second(tier.Save(t.Context(), plainJSON("u1", `2`), tiers.Cond{})),
		"delete": second(tier.Delete(t.Context(), key("u1"), tiers.Cond{})),
		"ping":   tier.Ping(t.Context()),
	} {
		if !errors.Is(err, tiers.ErrUnavailable) || !strings.Contains(err.Error(), "open it again") {
			t.Errorf("%s: %v, want an error that says to open it again", op, err)
		}
	}
	if r, err := tier.Load(t.Context(), key("u1")); err != nil || string(r.Value) != `1` {
		t.Errorf("a load answers %s, %v", r.Value, err)
	}
	bad := 0
	for _, f := range tier.Diagnose(t.Context()) {
		if !f.OK && f.Subject == "writes" && f.Hint != "" {
			bad++
		}
	}
	if bad != 1 {
		t.Errorf("Diagnose says so %d times", bad)
	}
}

func second[T any](_ T, err error) error { return err }

func TestTooLargeAValueIsRefusedBeforeItIsQueued(t *testing.T) {
	tier := mustOpen(t, Config{Path: Memory})
	tier.maxValue = 10
	_, err := tier.Save(t.Context(), plainJSON("u1", `"0123456789"`), tiers.Cond{})
	if !errors.Is(err, tiers.ErrTooLarge) || !strings.Contains(err.Error(), "10") {
		t.Fatalf("got %v, want %v with the limit", err, tiers.ErrTooLarge)
	}
}
