package manager_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

func TestOnceIsCommittedByOneCallerForAllTime(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	m := value[*manager.Manager](t)(manager.Open(ctx, fourHomes(dir), all()))
	own := errors.New("own")
	ran, err := m.Once(ctx, "import", func(*manager.Tx) error { return own })
	if ran || err != own { //nolint:errorlint // as it is
		t.Errorf("a refusal counts for nothing: %v, %v", ran, err)
	}
	ran, err = m.Once(ctx, "import", func(tx *manager.Tx) error {
		must(t, saveFour(ctx, tx, "k", 5))
		return tiers.ErrExists // of the function, not of the id
	})
	if ran || !errors.Is(err, tiers.ErrExists) {
		t.Errorf("the function's own answer: %v, %v", ran, err)
	}
	step := func(tx *manager.Tx) error {
		for _, c := range four(tx) {
			if _, err := c.Modify(ctx, "k", func(v *int, _ bool) error { *v++; return nil }); err != nil {
				return err
			}
		}
		return nil
	}
	var winners atomic.Int32
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			ran, err := m.Once(ctx, "import", step)
			if must(t, err); ran {
				winners.Add(1)
			}
		})
	}
	work.Wait()
	if winners.Load() != 1 {
		t.Errorf("%d callers were told that they did it", winners.Load())
	}
	wantFour(ctx, t, m, "k", 1)
	var inside sync.WaitGroup
	inside.Add(8)
	winners.Store(0)
	for range 8 {
		work.Go(func() {
			ran, err := m.Once(ctx, "blind", func(tx *manager.Tx) error {
				inside.Done()
				inside.Wait() // all of them look for the id before any is committed
				return saveFour(ctx, tx, "blind", 1)
			})
			if must(t, err); ran {
				winners.Add(1)
			}
		})
	}
	work.Wait()
	if winners.Load() != 1 {
		t.Errorf("%d callers were told that they did what reads nothing", winners.Load())
	}
	if ran := value[bool](t)(m.Namespace("acme").Once(ctx, "import", func(*manager.Tx) error { return nil })); !ran {
		t.Error("another namespace has ids of its own")
	}
	closeNow(t, m)

	m = sagetest.OpenWith(t, fourHomes(dir), all())
	ran, err = m.Once(ctx, "import", func(*manager.Tx) error { t.Error("run again"); return nil })
	if ran || err != nil {
		t.Errorf("in another run: %v, %v", ran, err)
	}
	for _, id := range []string{"", strings.Repeat("x", 2000)} {
		_, err := m.Once(ctx, id, step)
		wantError(t, err, tiers.ErrKey, "an id of "+id)
	}
}

func TestOutcomeTellsWhatBecameOfATransaction(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	m := value[*manager.Manager](t)(manager.Open(ctx, fourHomes(dir), all()))
	var committed, refused string
	must(t, m.Update(ctx, func(tx *manager.Tx) error { committed = tx.ID(); return saveFour(ctx, tx, "k", 1) }))
	own := errors.New("own")
	wantError(t, m.Update(ctx, func(tx *manager.Tx) error { refused = tx.ID(); return own }), own, "refused")
	closeNow(t, m)
	_, err := m.Outcome(ctx, committed)
	wantError(t, err, tiers.ErrClosed, "after Close")

	m = sagetest.OpenWith(t, fourHomes(dir), all())
	for id, want := range map[string]manager.Outcome{committed: manager.Committed, refused: manager.RolledBack} {
		if got := value[manager.Outcome](t)(m.Outcome(ctx, id)); got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
	_, err = m.Outcome(ctx, "never")
	wantError(t, err, tiers.ErrKey, "what is no id of a transaction")
	_, err = m.Outcome(ctx, "0190163d-8694-739b-aea5-966c26f8ad91")
	wantError(t, err, tiers.ErrCommitUnknown, "a transaction of long ago")
}
