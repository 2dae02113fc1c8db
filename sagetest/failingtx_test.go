package sagetest_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/embedded"
)

// offers names the capabilities of a tier that transactions need.
func offers(t tiers.Tier) map[string]bool {
	has := map[string]bool{}
	_, has["system"] = tiers.As[tiers.System](t)
	_, has["committer"] = tiers.As[tiers.Committer](t)
	_, has["publisher"] = tiers.As[tiers.Publisher](t)
	_, has["reserver"] = tiers.As[tiers.Reserver](t)
	_, has["snapshotter"] = tiers.As[tiers.Snapshotter](t)
	_, has["applier"] = tiers.As[tiers.Applier](t)
	return has
}

func TestFailingOffersWhatTheTierInsideDoes(t *testing.T) {
	t.Parallel()
	ctx, some := t.Context(), map[string]bool{}
	failing := sagetest.Failing(embedded.Tiers(), func(string, tiers.Key) error { return nil })
	for i, d := range embedded.Tiers() {
		var has [2]map[string]bool
		for j, d := range []tiers.Driver{d, failing[i]} {
			tier, err := d.Open(ctx, tiers.Env{Name: d.Tier, Dir: t.TempDir(), Clock: tiers.SystemClock(), Options: func(any) error { return nil }})
			if err != nil {
				t.Fatal(err)
			}
			has[j] = offers(tier)
			if err := tier.Close(ctx); err != nil {
				t.Error(err)
			}
		}
		for name, inside := range has[0] {
			some[name] = some[name] || inside
			if has[1][name] != inside {
				t.Errorf("%s of %s: %v, inside %v", name, d.Tier, has[1][name], inside)
			}
		}
	}
	for name, offered := range some {
		if !offered {
			t.Errorf("no tier offers %s", name)
		}
	}
}

func TestFailingIsAskedAboutTransactions(t *testing.T) {
	t.Parallel()
	ctx, own := t.Context(), errors.New("disk on fire")
	var broken atomic.Value // background work asks as well
	broken.Store("")
	drivers := sagetest.Failing(embedded.Tiers(), func(op string, k tiers.Key) error {
		if op == broken.Load() && (k.Name == "" || k.Name == "k") {
			return own
		}
		return nil
	})
	m := sagetest.OpenWith(t, &config.Config{DataDir: t.TempDir()}, drivers)
	for category, ops := range map[string][]string{"session.preferences": {"commit", "load"}, "config": {"reserve", "load"}} {
		c := manager.For[int](m, category)
		for _, op := range ops {
			broken.Store(op)
			err := m.Update(ctx, func(tx *manager.Tx) error {
				_, err := c.In(tx).Modify(ctx, "k", func(v *int, _ bool) error { *v++; return nil })
				return err
			})
			broken.Store("")
			if ok, e := c.Exists(ctx, "k"); !errors.Is(err, own) || ok || e != nil {
				t.Errorf("%s of %s: %v; stored %v, %v", op, category, err, ok, e)
			}
		}
		if err := c.Save(ctx, "k", 1); err != nil {
			t.Error(err)
		}
	}
	prefs := manager.For[int](m, "session.preferences")
	views := map[string]func(c *manager.Collection[int]) error{
		"snapshot": func(c *manager.Collection[int]) error { _, err := c.Load(ctx, "other"); return err },
		"load":     func(c *manager.Collection[int]) error { _, err := c.Load(ctx, "k"); return err },
		"list":     func(c *manager.Collection[int]) error { _, err := c.All(ctx); return err },
	}
	for op, view := range views {
		broken.Store(op)
		if err := m.View(ctx, func(tx *manager.Tx) error { return view(prefs.In(tx)) }); !errors.Is(err, own) {
			t.Errorf("%s in a view: %v", op, err)
		}
		broken.Store("")
	}
	err := m.View(ctx, func(tx *manager.Tx) error {
		broken.Store("load")
		got, err := prefs.In(tx).LoadMany(ctx, "k", "absent")
		broken.Store("")
		if !errors.Is(err, own) || len(got) != 0 {
			t.Errorf("load many in a view: %v, %v", got, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
