package txn_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/txn"
)

func waiting(t *testing.T, j *txn.Journaled) (rows []tiers.Row) {
	t.Helper()
	for row, err := range j.Waiting(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

func TestWhatWaitsIsListedInOrderWithTheReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tiers.SystemClock())
	j := w.open()
	w.server.set(true)
	save(t, j, "b", "1")
	save(t, j, "a", "1")
	rows := waiting(t, j)
	if len(rows) != 2 || rows[0].Name != "b" || rows[1].Name != "a" {
		t.Fatalf("rows: %v", rows)
	}
	if why := j.Why(&rows[0]); !errors.Is(why, tiers.ErrUnavailable) {
		t.Errorf("why: %v", why)
	}
	for row, err := range j.Waiting(t.Context()) {
		if err != nil || row.Name != "b" {
			t.Errorf("the first of a loop that ends early: %v, %v", row, err)
		}
		break
	}
}

func TestRetryAppliesAndSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tiers.SystemClock())
	j := w.open()
	if left, err := j.Retry(t.Context(), false); err != nil || left.Rows != 0 {
		t.Errorf("nothing waits: %+v, %v", left, err)
	}
	w.server.refuse = func(r tiers.Record) error {
		if string(r.Value) == "bad" {
			return fmt.Errorf("%w: this one", tiers.ErrTooLarge)
		}
		return nil
	}
	w.server.set(true)
	save(t, j, "a", "1")
	save(t, j, "b", "bad")
	if left, err := j.Retry(t.Context(), false); left.Rows != 2 || !errors.Is(err, tiers.ErrUnavailable) {
		t.Errorf("away: %+v, %v", left, err)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if left, err := j.Retry(short, true); left.Rows != 2 || !errors.Is(err, tiers.ErrUnavailable) {
		t.Errorf("away for longer than the caller waits: %+v, %v", left, err)
	}

	// It waits for the server, and not for a row that is refused.
	done := make(chan error, 1)
	go func() {
		left, err := j.Retry(context.Background(), true)
		if left.Rows != 1 {
			err = fmt.Errorf("%d rows are left: %w", left.Rows, err)
		}
		done <- err
	}()
	w.server.set(false)
	if err := <-done; !errors.Is(err, tiers.ErrTooLarge) {
		t.Errorf("refused: %v", err)
	}
	rows := waiting(t, j)
	if len(rows) != 1 || rows[0].Name != "b" || !errors.Is(j.Why(&rows[0]), tiers.ErrTooLarge) {
		t.Errorf("rows: %v", rows)
	}
}

func TestDroppedRowsAreGoneAndNoOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tiers.SystemClock())
	j := w.open()
	save(t, j, "a", "old")
	w.server.set(true)
	save(t, j, "a", "1")
	save(t, j, "b", "1")
	save(t, j, "c", "1")
	rows := waiting(t, j)
	save(t, j, "b", "2") // is another row than the one that was listed
	dropped, err := j.Drop(t.Context(), rows[:2])
	if err != nil || dropped != 1 {
		t.Errorf("dropped %d, %v", dropped, err)
	}
	if dropped, err := j.Drop(t.Context(), rows[:1]); err != nil || dropped != 0 {
		t.Errorf("a second time: %d, %v", dropped, err)
	}
	if got := shown(t, j, "a"); got != "unavailable" {
		t.Errorf("only the server knows the key now: %s", got)
	}
	w.server.set(false)
	eventually(t, "the others are applied", func() bool { return w.backlog() == 0 })
	if got := listed(t, w.inner, tiers.Query{}); got != "a=old b=2 c=1 " {
		t.Error(got)
	}
}

// asked counts how often something is asked for.
type asked struct {
	tiers.System
	locks, appends atomic.Int64
}

func (a *asked) Lock(ctx context.Context, name string) (func(), bool, error) {
	a.locks.Add(1)
	return a.System.Lock(ctx, name)
}

func (a *asked) Append(ctx context.Context, rows []tiers.Row, conds []tiers.Cond, limit int64) ([]tiers.Row, error) {
	a.appends.Add(1)
	return a.System.Append(ctx, rows, conds, limit)
}

func TestWhoWaitsForAnotherProcessAsksItNowAndThen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tiers.SystemClock())
	system := &asked{System: w.system}
	w.system = system
	j := w.open()
	unlock, ok, err := system.Lock(t.Context(), "cache.applier") // as another process that applies rows
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.server.set(true)
	row := save(t, j, "k", "1")
	w.server.set(false)
	before := system.locks.Load()
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := j.Save(short, rec("k", "2"), tiers.If(row.Version)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a save of a key whose row the other one applies: %v", err)
	}
	if n := system.locks.Load() - before; n > 20 {
		t.Errorf("the lock was asked for %d times", n)
	}
	unlock()
	if _, err := j.Save(t.Context(), rec("k", "2"), tiers.If(row.Version)); err != nil {
		t.Errorf("once the other one is done: %v", err)
	}
}

// aheadClock is ahead of the host's.
type aheadClock struct {
	tiers.Clock
	by time.Duration
}

func (c aheadClock) Now() time.Time { return c.Clock.Now().Add(c.by) }

func TestARowThatHasExpiredByTheStoresClockAloneIsAskedForNowAndThen(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(j *txn.Journaled) (bool, error){
		"delete": func(j *txn.Journaled) (bool, error) { return j.Delete(t.Context(), key("k"), tiers.Cond{}) },
		"touch":  func(j *txn.Journaled) (bool, error) { return j.Touch(t.Context(), key("k"), time.Hour) },
		"delete many": func(j *txn.Journaled) (bool, error) {
			existed, err := j.DeleteMany(t.Context(), []tiers.Key{key("k")}, nil)
			return existed[0], err
		},
	} {
		ahead := newWorld(t, aheadClock{tiers.SystemClock(), time.Minute})
		w := newWorld(t, tiers.SystemClock())
		system := &asked{System: ahead.system}
		w.system = system
		w.server.set(true)
		j := w.open()
		r := rec("k", "1")
		r.TTL = 300 * time.Millisecond
		if _, err := j.Save(t.Context(), r, tiers.Cond{}); err != nil {
			t.Fatal(err)
		}
		before := system.appends.Load()
		if existed, err := call(j); existed || err != nil {
			t.Errorf("%s: %v, %v", name, existed, err)
		}
		if n := system.appends.Load() - before; n > 20 {
			t.Errorf("%s: the journal was asked %d times", name, n)
		}
	}
}
