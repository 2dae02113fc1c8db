package manager_test

import (
	"context"
	"testing"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/memory"
)

func TestVersionsAreThoseOfTheCommit(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), openFour(t)
	must(t, saveFour(ctx, m, "gone", 1))
	acme := manager.For[int](m.Namespace("acme"), "app.file")
	var tx *manager.Tx
	check := func(when string) {
		for i, c := range four(m) {
			e := value[manager.Entry[int]](t)(c.Entry(ctx, "k"))
			if got := tx.Version("app."+fourTiers[i], "k"); got != e.Version {
				t.Errorf("%s, %s: %d, stored is %d", when, fourTiers[i], got, e.Version)
			}
			if got := tx.Version("app."+fourTiers[i], "gone"); got != 0 {
				t.Errorf("%s, %s: a deleted key has version %d", when, fourTiers[i], got)
			}
		}
		if got, want := acme.VersionIn(tx, "k"), value[manager.Entry[int]](t)(acme.Entry(ctx, "k")).Version; got != want {
			t.Errorf("%s: %d in another namespace, stored is %d", when, got, want)
		}
	}
	must(t, m.Update(ctx, func(in *manager.Tx) error {
		tx = in
		for _, c := range four(in) {
			first := value[manager.Entry[int]](t)(c.SaveEntry(ctx, "k", 1))
			second := value[manager.Entry[int]](t)(c.SaveEntry(ctx, "k", 2, manager.IfVersion(first.Version))) // a provisional one
			wantError(t, c.Save(ctx, "k", 3, manager.IfVersion(first.Version)), tiers.ErrConflict, "the version before")
			if second.Version <= first.Version || in.Version(c.Category(), "k") != 0 {
				t.Errorf("versions %d and %d before the commit", first.Version, second.Version)
			}
			value[bool](t)(c.Delete(ctx, "gone"))
		}
		in.OnCommit(func(context.Context) { check("on commit") })
		return acme.In(in).Save(ctx, "k", 1)
	}))
	check("after it")
}

func TestTransactionBelongsToANamespaceAndCollectionsKeepTheirs(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), openFour(t)
	acme := m.Namespace("acme")
	must(t, acme.Update(ctx, func(tx *manager.Tx) error {
		must(t, tx.Save(ctx, "app.file", "k", 1))                     // acme's
		must(t, four(m)[3].In(tx).Save(ctx, "k", 2))                  // the default one's
		must(t, m.Store("database").In(tx).Save(ctx, "k", 3))         // the same
		must(t, acme.Store("file").In(tx).Save(ctx, "app.file/l", 4)) // a record of the category
		return tx.Save(ctx, "app.session", "s/k", 5)
	}))
	var got [5]int
	must(t, acme.Load(ctx, "app.file", "k", &got[0]))
	must(t, m.Load(ctx, "app.file", "k", &got[1]))
	must(t, m.Store("database").Load(ctx, "k", &got[2]))
	must(t, acme.Load(ctx, "app.file", "l", &got[3]))
	must(t, acme.Load(ctx, "app.session", "s/k", &got[4]))
	if got != [5]int{1, 2, 3, 4, 5} {
		t.Errorf("loaded %v", got)
	}
	wantError(t, m.Namespace("NO").Update(ctx, func(*manager.Tx) error { return nil }), tiers.ErrKey, "a bad name")
}

func TestCollectionsOfAnotherStoreAreRefused(t *testing.T) {
	t.Parallel()
	ctx, m, other := t.Context(), openFour(t), sagetest.Open(t)
	err := m.Update(ctx, func(tx *manager.Tx) error {
		must(t, saveFour(ctx, tx, "k", 1))
		c := manager.For[int](other, "session.preferences").In(tx)
		wantError(t, c.Check(), tiers.ErrUnsupported, "check")
		_, err := c.Load(ctx, "k")
		wantError(t, err, tiers.ErrUnsupported, "load")
		wantError(t, c.SaveMany(ctx, map[string]int{"k": 1}), tiers.ErrUnsupported, "save many")
		wantError(t, other.Store("memory").In(tx).Save(ctx, "k", 1), tiers.ErrUnsupported, "store")
		return nil
	})
	wantError(t, err, tiers.ErrTxAborted, "the commit")
	wantFour(ctx, t, m, "k", 0)
	wantError(t, four(m)[0].In(nil).Save(ctx, "k", 1), tiers.ErrUnsupported, "no transaction at all")
}

func TestTierThatCanNotApplyIsRefusedInTransactionsOnly(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	plain := memory.Driver()
	plain.Tier, plain.Name = "archive", "plain"
	open := plain.Open
	plain.Open = func(ctx context.Context, env tiers.Env) (tiers.Tier, error) {
		t, err := open(ctx, env)
		return bare{t}, err
	}
	cfg := fourHomes(t.TempDir())
	cfg.Tiers = map[string]config.Tier{"archive": {Driver: "plain"}}
	cfg.Categories["app.archive"] = config.Category{Tier: "archive"}
	m := sagetest.OpenWith(t, cfg, append(all(), plain))
	c := manager.For[int](m, "app.archive")
	must(t, c.Save(ctx, "k", 1))
	err := m.Update(ctx, func(tx *manager.Tx) error {
		must(t, saveFour(ctx, tx, "k", 1))
		err := c.In(tx).Save(ctx, "k", 2)
		if e := asError(t, err); e.Tier != "archive" || e.Hint == "" {
			t.Errorf("the error is incomplete: %v", err)
		}
		return err
	})
	wantError(t, err, tiers.ErrUnsupported, "in a transaction")
	wantFour(ctx, t, m, "k", 0)
	must(t, m.View(ctx, func(tx *manager.Tx) error {
		if v := value[int](t)(c.In(tx).Load(ctx, "k")); v != 1 {
			t.Errorf("viewed %d", v)
		}
		return nil
	}))
}

// bare has nothing but what a tier must have.
type bare struct{ tiers.Tier }

func (bare) As(any) bool { return false }

func TestTransactionInMemoryAlone(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	a, b := manager.For[int](m, "config"), manager.For[int](m, "session.preferences")
	must(t, m.Update(ctx, func(tx *manager.Tx) error {
		must(t, a.In(tx).Save(ctx, "k", 1))
		return b.In(tx).Save(ctx, "k", 2)
	}))
	if v := value[int](t)(a.Load(ctx, "k")) + value[int](t)(b.Load(ctx, "k")); v != 3 {
		t.Errorf("committed %d", v)
	}
	for _, want := range []bool{true, false} {
		if ran := value[bool](t)(m.Once(ctx, "set-up", func(tx *manager.Tx) error { return a.In(tx).Save(ctx, "once", 1) })); ran != want {
			t.Errorf("once ran: %v", ran)
		}
	}
	_, err := m.Outcome(ctx, "any")
	wantError(t, err, tiers.ErrUnsupported, "nothing is remembered")
	err = m.Update(ctx, func(tx *manager.Tx) error {
		value[int](t)(a.In(tx).Load(ctx, "k"))
		must(t, a.Save(ctx, "k", 7))
		return b.In(tx).Save(ctx, "k", 8)
	})
	wantError(t, err, tiers.ErrConflict, "a read that was changed")
}
