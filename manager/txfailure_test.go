package manager_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

func TestSwallowedFailureIsNotCommitted(t *testing.T) { //nolint:tparallel // the cases share a store
	t.Parallel()
	ctx := t.Context()
	cfg := fourHomes(t.TempDir())
	cfg.Categories["app.small"] = config.Category{Tier: "database", MaxValue: "10"}
	m := sagetest.OpenWith(t, cfg, all())
	must(t, m.Save(ctx, "app.file", "text", "no number"))
	cases := []struct {
		why  string
		call func(tx *manager.Tx) error
		want error
		name string // that the error of the commit tells
	}{
		{"an unknown category", func(tx *manager.Tx) error { return tx.Save(ctx, "nobody.knows", "k", 1) }, tiers.ErrCategory, "nobody.knows"},
		{"an unknown category of a collection", func(tx *manager.Tx) error { return manager.For[int](m, "nobody.knows").In(tx).Save(ctx, "k", 1) }, tiers.ErrCategory, "nobody.knows"},
		{"a value that can't be encoded", func(tx *manager.Tx) error { return tx.Save(ctx, "app.cache", "bad", func() {}) }, tiers.ErrType, "bad"},
		{"a value of another type", func(tx *manager.Tx) error { _, err := four(tx)[3].Load(ctx, "text"); return err }, tiers.ErrType, "text"},
		{"a value that is too long", func(tx *manager.Tx) error { return tx.Save(ctx, "app.small", "long", strings.Repeat("x", 99)) }, tiers.ErrTooLarge, "long"},
		{"a key that can't be one", func(tx *manager.Tx) error { return four(tx)[0].Save(ctx, "", 1) }, tiers.ErrKey, "app.memory"},
		{"a bad entry of a batch", func(tx *manager.Tx) error {
			return manager.For[any](tx, "app.file").SaveMany(ctx, map[string]any{"fine": 1, "bad": func() {}})
		}, tiers.ErrType, "bad"},
		{"an unknown store", func(tx *manager.Tx) error { return m.Store("nowhere").In(tx).Save(ctx, "k", 1) }, tiers.ErrCategory, ""},
	}
	for _, c := range cases {
		t.Run(c.why, func(t *testing.T) {
			id := ""
			err := m.Update(ctx, func(tx *manager.Tx) error {
				id = tx.ID()
				must(t, saveFour(ctx, tx, "k", 1))
				err := c.call(tx)
				wantError(t, err, c.want, c.why)
				if e := asError(t, err); e.Tx != id {
					t.Errorf("the error names the transaction %q", e.Tx)
				}
				must(t, saveFour(ctx, tx, "after", 1))
				return nil // as if nothing had happened
			})
			wantError(t, err, tiers.ErrTxAborted, "the commit")
			wantError(t, err, c.want, "and why")
			if e := asError(t, err); e.Tx != id || e.Hint == "" || !strings.Contains(err.Error(), c.name) {
				t.Errorf("the error of the commit: %v", err)
			}
			wantFour(ctx, t, m, "k", 0)
			wantFour(ctx, t, m, "after", 0)
		})
	}
}

func TestAnswersAreNoFailures(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), openFour(t)
	must(t, saveFour(ctx, m, "there", 1))
	must(t, m.Update(ctx, func(tx *manager.Tx) error {
		for _, c := range four(tx) {
			_, err := c.Load(ctx, "missing")
			wantError(t, err, tiers.ErrNotFound, "load")
			wantError(t, c.Save(ctx, "there", 2, manager.IfAbsent()), tiers.ErrExists, "if absent")
			wantError(t, c.Save(ctx, "there", 2, manager.IfVersion(1)), tiers.ErrConflict, "if version")
			wantError(t, c.SaveMany(ctx, map[string]int{"there": 2, "x": 2}, manager.IfAbsent()), tiers.ErrExists, "batch")
		}
		return saveFour(ctx, tx, "k", 3)
	}))
	wantFour(ctx, t, m, "there", 1)
	wantFour(ctx, t, m, "x", 0)
	wantFour(ctx, t, m, "k", 3)
}

func TestTransactionHasALimit(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m := sagetest.OpenWith(t, config.InMemory(), all())
	big := bytes.Repeat([]byte("x"), 15<<20)
	err := m.Update(ctx, func(tx *manager.Tx) error {
		for _, key := range []string{"a", "b", "c", "d"} {
			must(t, tx.Save(ctx, "session.preferences", key, manager.Encoded{Codec: "raw", Value: big}))
		}
		must(t, tx.Save(ctx, "session.preferences", "a", manager.Encoded{Codec: "raw", Value: big})) // the same key counts once
		return tx.Save(ctx, "session.preferences", "e", manager.Encoded{Codec: "raw", Value: big})
	})
	wantError(t, err, tiers.ErrTooLarge, "more than may be changed at once")
	if value[bool](t)(m.Exists(ctx, "session.preferences", "a")) {
		t.Error("it was stored all the same")
	}
}

func TestSavepointTakesBackWhatItDid(t *testing.T) {
	t.Parallel()
	ctx, m, own := t.Context(), openFour(t), errors.New("own")
	var hooks []string
	hook := func(name string) func(context.Context) {
		return func(context.Context) { hooks = append(hooks, name) }
	}
	must(t, m.Update(ctx, func(tx *manager.Tx) error {
		must(t, saveFour(ctx, tx, "k", 1))
		tx.OnCommit(hook("whole"))
		var late *manager.Tx
		err := tx.Update(ctx, func(point *manager.Tx) error {
			late = point
			point.OnCommit(hook("taken back"))
			must(t, saveFour(ctx, point, "k", 2))
			must(t, saveFour(ctx, point, "other", 2))
			wantError(t, point.Save(ctx, "nobody.knows", "k", 1), tiers.ErrCategory, "a failure in it")
			return own
		})
		wantError(t, err, own, "its error is the answer")
		wantFour(ctx, t, tx, "k", 1)
		wantFour(ctx, t, tx, "other", 0)
		wantError(t, late.Save(ctx, "app.file", "k", 9), tiers.ErrTxDone, "a savepoint that is over")
		func() {
			defer func() { _ = recover() }()
			_ = tx.Update(ctx, func(point *manager.Tx) error { must(t, saveFour(ctx, point, "k", 3)); panic(own) })
		}()
		wantFour(ctx, t, tx, "k", 1)
		return manager.Scope(tx).Update(ctx, func(point *manager.Tx) error { // as a library does it
			point.OnCommit(hook("kept"))
			return saveFour(ctx, point, "kept", 4)
		})
	}))
	wantFour(ctx, t, m, "k", 1)
	wantFour(ctx, t, m, "other", 0)
	wantFour(ctx, t, m, "kept", 4)
	if strings.Join(hooks, ",") != "whole,kept" {
		t.Errorf("called: %q", hooks)
	}
}

// A tier that fails at the commit fails the transaction, and one that fails
// after it only lets its part wait in the journal.
func TestTiersThatFailAroundACommit(t *testing.T) {
	t.Parallel()
	ctx, own := t.Context(), errors.New("disk on fire")
	var broken atomic.Value
	broken.Store("")
	drivers := sagetest.Failing(all(), func(op string, k tiers.Key) error {
		switch {
		case broken.Load() != op+" "+k.Category:
		case op == "apply":
			return tiers.ErrFull
		default:
			return own
		}
		return nil
	})
	m := value[*manager.Manager](t)(manager.Open(ctx, fourHomes(t.TempDir()), drivers))
	defer closeNow(t, m)
	for _, at := range []string{"commit app.memory", "commit app.database", "reserve app.file", "reserve app.cache"} {
		broken.Store(at)
		wantError(t, m.Update(ctx, func(tx *manager.Tx) error { return saveFour(ctx, tx, "k", 1) }), own, at)
		broken.Store("")
		wantFour(ctx, t, m, "k", 0)
	}
	for _, tier := range []string{"file", "cache"} {
		broken.Store("apply app." + tier)
		must(t, m.Update(ctx, func(tx *manager.Tx) error { return saveFour(ctx, tx, "k", 2) }))
		wantFour(ctx, t, m, "k", 2)
		var s manager.Stats
		soon(t, "the journal says why "+tier+" waits", func() bool {
			s = value[manager.Stats](t)(m.Stats(ctx))
			return strings.Contains(s.Journal[tier].Cause, tiers.ErrFull.Error())
		})
		if w := s.Journal[tier]; w.Rows != 1 || w.Bytes != 2 || w.Oldest.IsZero() || s.Pending < 1 {
			t.Errorf("it waits: %+v of %d", w, s.Pending)
		}
		if h := m.Health(ctx); h.Pending == 0 || !h.Degraded || !h.Ready {
			t.Errorf("health: %+v", h)
		}
		broken.Store("")
		soon(t, tier+" gets it", func() bool { h := m.Health(ctx); return h.Pending == 0 && !h.Degraded })
		wantFour(ctx, t, m, "k", 2)
	}
}
