package manager_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

func TestTransactionWritesIntoSessions(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), openFour(t)
	c := manager.For[int](m, "app.session")
	must(t, m.Update(ctx, func(tx *manager.Tx) error {
		must(t, c.In(tx).Save(ctx, "s/1", 1))
		must(t, c.In(tx).SaveMany(ctx, map[string]int{"s/2": 2, "r/1": 3}))
		return saveFour(ctx, tx, "k", 1)
	}))
	if got := keysOf(t, c); len(got) != 3 {
		t.Errorf("listed %q", got)
	}
	must(t, m.EndSession(ctx, "s"))
	if got := keysOf(t, c); len(got) != 1 || got[0] != "r/1" {
		t.Errorf("after the end of one: %q", got)
	}
	err := m.Update(ctx, func(tx *manager.Tx) error {
		must(t, saveFour(ctx, tx, "k", 2))
		err := c.In(tx).Save(ctx, "s/1", 1)
		wantError(t, err, tiers.ErrSessionEnded, "a save")
		if existed := value[bool](t)(c.In(tx).Touch(ctx, "s/1")); existed {
			t.Error("touched what is gone")
		}
		return err
	})
	wantError(t, err, tiers.ErrSessionEnded, "the transaction")
	wantFour(ctx, t, m, "k", 1)
	must(t, m.ReopenSession(ctx, "s"))
	must(t, m.Update(ctx, func(tx *manager.Tx) error { return c.In(tx).Save(ctx, "s/1", 9) }))
}

func TestSessionThatEndsDuringATransactionRefusesTheCommit(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a deadlock fails rather than hangs
	defer cancel()
	m := openFour(t)
	c := manager.For[int](m, "app.session")
	writes := map[string]func(c *manager.Collection[int]) error{
		"save":      func(c *manager.Collection[int]) error { return c.Save(ctx, "s/1", 1) },
		"save many": func(c *manager.Collection[int]) error { return c.SaveMany(ctx, map[string]int{"s/1": 1, "q/1": 1}) },
		"touch":     func(c *manager.Collection[int]) error { _, err := c.Touch(ctx, "s/0"); return err },
		"modify": func(c *manager.Collection[int]) error {
			_, err := c.Modify(ctx, "s/1", func(v *int, _ bool) error { *v++; return nil })
			return err
		},
	}
	for name, write := range writes {
		must(t, m.ReopenSession(ctx, "s"))
		must(t, c.Save(ctx, "s/0", 1))
		err := m.Update(ctx, func(tx *manager.Tx) error {
			must(t, write(c.In(tx)))
			must(t, saveFour(ctx, tx, "k", 1))
			return m.EndSession(ctx, "s") // does not wait for the transaction
		})
		wantError(t, err, tiers.ErrSessionEnded, "the commit of a "+name)
		if e := asError(t, err); e.Op != "commit" || e.Tx == "" || e.Key != "s" || e.Hint == "" {
			t.Errorf("the error is incomplete: %+v", e)
		}
		wantFour(ctx, t, m, "k", 0)
		if got := keysOf(t, c, manager.Under("s")); len(got) != 0 {
			t.Errorf("left by a %s: %q", name, got)
		}
	}

	must(t, m.Update(ctx, func(tx *manager.Tx) error {
		_ = tx.Update(ctx, func(point *manager.Tx) error {
			must(t, c.In(point).Save(ctx, "r/1", 1))
			return tiers.ErrFull
		})
		must(t, m.EndSession(ctx, "r"))
		return saveFour(ctx, tx, "k", 2) // what was taken back asks nothing of its session
	}))
	wantFour(ctx, t, m, "k", 2)
}

// Transactions that write into the same sessions in any order, and whoever ends
// and reopens these, all get on, and nothing stays of a session that has ended.
func TestTransactionsAndEndsOfSessionsGetOn(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m := sagetest.OpenWith(t, fourHomes(t.TempDir()), all())
	c := manager.For[int](m, "app.session")
	ids := []string{"a", "b", "c"}
	var work sync.WaitGroup
	for n := range 6 {
		work.Go(func() {
			for i := range 30 {
				err := m.Update(ctx, func(tx *manager.Tx) error {
					for j := range ids {
						if err := c.In(tx).Save(ctx, manager.Key(ids[(n+i+j)%3], "k"), i); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					wantError(t, err, tiers.ErrSessionEnded, "a transaction")
				}
			}
		})
	}
	for _, id := range ids {
		work.Go(func() {
			for range 10 {
				must(t, m.EndSession(ctx, id))
				must(t, m.ReopenSession(ctx, id))
			}
			must(t, m.EndSession(ctx, id))
		})
	}
	work.Wait()
	if got := keysOf(t, c); len(got) != 0 {
		t.Errorf("left of ended sessions: %q", got)
	}
}
