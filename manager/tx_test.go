package manager_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

var fourTiers = []string{"memory", "cache", "database", "file"}

// fourHomes configures one category of integers for each tier.
func fourHomes(dir string) *config.Config {
	cfg := config.Default()
	cfg.DataDir = dir
	cfg.Categories = map[string]config.Category{"app.session": {Tier: "memory", TTL: config.UntilSessionEnds}}
	for _, tier := range fourTiers {
		cfg.Categories["app."+tier] = config.Category{Tier: tier}
	}
	return cfg
}

func openFour(t testing.TB, opts ...manager.OpenOption) *manager.Manager {
	t.Helper()
	m := value[*manager.Manager](t)(manager.Open(t.Context(), fourHomes(t.TempDir()), all(), opts...))
	t.Cleanup(func() { closeNow(t, m) })
	return m
}

// four are the collections of the four tiers.
func four(s manager.Scope) []*manager.Collection[int] {
	cs := make([]*manager.Collection[int], len(fourTiers))
	for i, tier := range fourTiers {
		cs[i] = manager.For[int](s, "app."+tier)
	}
	return cs
}

func saveFour(ctx context.Context, s manager.Scope, key string, v int) error {
	for _, c := range four(s) {
		if err := c.Save(ctx, key, v); err != nil {
			return err
		}
	}
	return nil
}

// wantFour sees that all tiers hold the value of a key, 0 for absent.
func wantFour(ctx context.Context, t testing.TB, s manager.Scope, key string, want int) {
	t.Helper()
	for i, c := range four(s) {
		if got, err := c.LoadOr(ctx, key, 0); got != want || err != nil {
			t.Errorf("%s has %d (%v), want %d", fourTiers[i], got, err, want)
		}
	}
}

func TestTransactionIsCommittedOnNilOverAllTiers(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), openFour(t)
	must(t, saveFour(ctx, m, "k", 1))
	must(t, saveFour(ctx, m, "gone", 1))
	must(t, m.Update(ctx, func(tx *manager.Tx) error {
		for _, c := range four(m) { // taken into it, as collections of the manager are
			if err := c.In(tx).Save(ctx, "k", 2); err != nil {
				return err
			}
			if existed, err := c.In(tx).Delete(ctx, "gone"); !existed || err != nil {
				return errors.Join(errors.New("nothing to delete"), err)
			}
		}
		wantFour(ctx, t, m, "k", 1) // nothing is visible before
		return nil
	}))
	wantFour(ctx, t, m, "k", 2)
	wantFour(ctx, t, m, "gone", 0)
}

func TestTransactionThatIsNotCommittedLeavesNothing(t *testing.T) { //nolint:tparallel // the cases share a store
	t.Parallel()
	ctx, m, own := t.Context(), openFour(t), errors.New("own")
	ended, end := context.WithCancel(ctx)
	cases := []struct {
		why  string
		fn   func() error
		want error
		ctx  context.Context
	}{
		{why: "an error rolls back and is the answer", fn: func() error { return own }, want: own, ctx: ctx},
		{why: "an ended context rolls back", fn: func() error { end(); return nil }, want: context.Canceled, ctx: ended},
		{why: "a panic rolls back and goes on", fn: func() error { panic(own) }, want: own, ctx: ctx},
	}
	for _, c := range cases {
		t.Run(c.why, func(t *testing.T) {
			committed := false
			err := func() (err error) {
				defer func() {
					if p := recover(); p != nil {
						err = p.(error)
					}
				}()
				return m.Update(c.ctx, func(tx *manager.Tx) error {
					tx.OnCommit(func(context.Context) { committed = true })
					must(t, saveFour(ctx, tx, "k", 1))
					wantFour(ctx, t, tx, "k", 1)
					return c.fn()
				})
			}()
			wantError(t, err, c.want, c.why)
			wantFour(ctx, t, m, "k", 0)
			if committed {
				t.Error("OnCommit was called")
			}
		})
	}
}

func TestTransactionSeesItsOwnWrites(t *testing.T) { //nolint:tparallel // the cases share a store
	t.Parallel()
	ctx, m := t.Context(), openFour(t)
	for i, plain := range four(m) {
		t.Run(fourTiers[i], func(t *testing.T) {
			must(t, plain.SaveMany(ctx, map[string]int{"a": 1, "b": 2, "c/1": 3}))
			must(t, m.Update(ctx, func(tx *manager.Tx) error {
				c := plain.In(tx)
				must(t, c.SaveMany(ctx, map[string]int{"b": 20, "c": 30, "d": 40}))
				if n := value[int](t)(c.DeleteMany(ctx, "a", "z")); n != 1 {
					t.Errorf("deleted %d", n)
				}
				if got := keysOf(t, c); !slices.Equal(got, []string{"b", "c", "c/1", "d"}) {
					t.Errorf("listed %q", got)
				}
				if got := keysOf(t, c, manager.Under("c"), manager.Reverse()); !slices.Equal(got, []string{"c/1", "c"}) {
					t.Errorf("listed below c: %q", got)
				}
				got := value[map[string]int](t)(c.LoadMany(ctx, "a", "b", "d"))
				if len(got) != 2 || got["b"] != 20 || got["d"] != 40 {
					t.Errorf("loaded %v", got)
				}
				if value[bool](t)(c.Exists(ctx, "a")) || !value[bool](t)(c.Exists(ctx, "d")) {
					t.Error("exists does not see a delete or a save")
				}
				if v := value[int](t)(c.Modify(ctx, "d", func(v *int, _ bool) error { *v++; return nil })); v != 41 {
					t.Errorf("modified to %d", v)
				}
				if v := value[int](t)(c.Fetch(ctx, "e", func(context.Context) (int, error) { return 50, nil })); v != 50 {
					t.Errorf("fetched %d", v)
				}
				if existed := value[bool](t)(c.Touch(ctx, "b", manager.TTL(-1))); !existed || value[bool](t)(c.Exists(ctx, "b")) {
					t.Error("touched with no life left, it is gone")
				}
				return nil
			}))
			if got := keysOf(t, plain); !slices.Equal(got, []string{"c", "c/1", "d", "e"}) {
				t.Errorf("committed %q", got)
			}
			if v := value[int](t)(plain.Load(ctx, "d")); v != 41 {
				t.Errorf("committed %d", v)
			}
		})
	}
}

func TestTransactionIsUsedByTwoGoroutines(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), openFour(t)
	must(t, m.Update(ctx, func(tx *manager.Tx) error {
		var work sync.WaitGroup
		for _, key := range []string{"a", "b"} {
			work.Go(func() {
				for v := range 50 {
					if err := saveFour(ctx, tx, key, v+1); err != nil {
						t.Error(err)
					}
				}
			})
		}
		work.Wait()
		return nil
	}))
	wantFour(ctx, t, m, "a", 50)
	wantFour(ctx, t, m, "b", 50)
}

func TestTransactionIsOverWithItsFunction(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), openFour(t)
	var kept *manager.Tx
	var c *manager.Collection[int]
	must(t, m.Update(ctx, func(tx *manager.Tx) error {
		kept, c = tx, four(tx)[2]
		return saveFour(ctx, tx, "k", 1)
	}))
	calls := map[string]func() error{
		"save":        func() error { return c.Save(ctx, "k", 2) },
		"load":        func() error { _, err := c.Load(ctx, "k"); return err },
		"exists":      func() error { _, err := c.Exists(ctx, "k"); return err },
		"delete":      func() error { _, err := c.Delete(ctx, "k"); return err },
		"touch":       func() error { _, err := c.Touch(ctx, "k"); return err },
		"list":        func() error { _, err := c.All(ctx); return err },
		"save many":   func() error { return c.SaveMany(ctx, map[string]int{"k": 2}) },
		"load many":   func() error { _, err := c.LoadMany(ctx, "k"); return err },
		"delete many": func() error { _, err := c.DeleteMany(ctx, "k"); return err },
		"modify":      func() error { _, err := c.Modify(ctx, "k", func(*int, bool) error { return nil }); return err },
		"untyped":     func() error { return kept.Save(ctx, "app.session", "s/k", 2) },
		"savepoint":   func() error { return kept.Update(ctx, func(*manager.Tx) error { return nil }) },
	}
	var late sync.WaitGroup
	for name, call := range calls {
		late.Go(func() { wantError(t, call(), tiers.ErrTxDone, name) })
	}
	late.Wait()
	wantFour(ctx, t, m, "k", 1)
	if kept.ID() == "" || kept.Version("app.file", "k") == 0 {
		t.Error("id and versions stay")
	}
	other := openDir(t, t.TempDir())
	must(t, other.Update(ctx, func(tx *manager.Tx) error { kept = tx; return nil }))
	closeNow(t, other)
	wantError(t, kept.Save(ctx, "learning.feedback", "k", 1), tiers.ErrTxDone, "whatever became of the manager")
}
