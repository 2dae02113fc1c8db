package sagetest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/memory"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOpenIsClosedWithItsTest(t *testing.T) { //nolint:tparallel // the inner test has to be over
	t.Parallel()
	var m *manager.Manager
	t.Run("inner", func(t *testing.T) {
		m = sagetest.Open(t)
		if err := m.Save(t.Context(), "session.preferences", "k", "v"); err != nil {
			t.Error(err)
		}
	})
	if err := m.Save(t.Context(), "session.preferences", "k", "v"); !errors.Is(err, tiers.ErrClosed) {
		t.Errorf("after the test: %v", err)
	}
}

func TestOpenWorksInsideABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := manager.For[string](sagetest.Open(t), "session.preferences")
		if err := c.Save(t.Context(), "k", "v", manager.TTL(time.Hour)); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if _, err := c.Load(t.Context(), "k"); !errors.Is(err, tiers.ErrNotFound) {
			t.Errorf("after its time: %v", err)
		}
	})
}

func TestClockWakesWhoSleptLongEnough(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	clock := sagetest.NewClock(start)
	synctest.Test(t, func(t *testing.T) {
		clock := sagetest.NewClock(start)
		woken := make(chan error, 3)
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { woken <- clock.Sleep(t.Context(), time.Minute) }()
		go func() { woken <- clock.Sleep(t.Context(), time.Hour) }()
		synctest.Wait()
		clock.Advance(time.Minute)
		if err := <-woken; err != nil || len(woken) != 0 {
			t.Errorf("one sleeper wakes after its minute: %v", err)
		}
		own := errors.New("enough")
		go func() { woken <- clock.Sleep(ctx, time.Hour) }()
		synctest.Wait()
		cancel(own)
		if err := <-woken; !errors.Is(err, own) {
			t.Errorf("an ended context wakes its sleeper with the cause: %v", err)
		}
		clock.Advance(time.Hour)
		if err := <-woken; err != nil {
			t.Errorf("the last: %v", err)
		}
	})
	m := sagetest.Open(t, manager.WithClock(clock))
	c := manager.For[string](m, "session.preferences")
	e, err := c.SaveEntry(t.Context(), "k", "v", manager.TTL(time.Minute))
	if err != nil || !e.Updated.Equal(start) {
		t.Errorf("saved %+v, %v", e, err)
	}
	clock.Advance(-time.Hour)
	if _, err := c.Load(t.Context(), "k"); err != nil {
		t.Errorf("a clock that was set back: %v", err)
	}
	clock.Advance(time.Hour + time.Minute)
	if ok, err := c.Exists(t.Context(), "k"); ok || err != nil {
		t.Errorf("after its minute: %v, %v", ok, err)
	}
}

// A wrapper that never fails keeps every promise of the tier inside.
func TestFailingKeepsTheContract(t *testing.T) {
	t.Parallel()
	d := sagetest.Failing(tiers.Drivers{memory.Driver()}, func(string, tiers.Key) error { return nil })[0]
	tiertest.Run(t, tiertest.Config{
		Open: func(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
			return d.Open(ctx, tiers.Env{Name: "memory", Dir: dir, Clock: clock})
		},
		Require: []tiertest.Capability{
			tiertest.Applier, tiertest.Batcher, tiertest.Exister, tiertest.Toucher, tiertest.Sweeper, tiertest.Statser,
			tiertest.Counter, tiertest.Describer, tiertest.Publisher,
		},
	})
}

func TestFailingAnswersWithoutDoing(t *testing.T) {
	t.Parallel()
	ctx, own := t.Context(), errors.New("disk on fire")
	broken := map[string]bool{}
	drivers := sagetest.Failing(tiers.Drivers{memory.Driver()}, func(op string, k tiers.Key) error {
		if broken[op] && k.Name != "fine" {
			return own
		}
		return nil
	})
	m := sagetest.OpenWith(t, config.InMemory(), drivers)
	c := manager.For[string](m, "session.preferences")
	if err := c.SaveMany(ctx, map[string]string{"k": "old", "fine": "old"}); err != nil {
		t.Fatal(err)
	}
	for _, op := range []string{"save", "load", "delete", "exists", "touch", "list", "spaces", "count", "sweep"} {
		broken[op] = true
	}
	calls := map[string]func() error{
		"save":   func() error { return c.Save(ctx, "k", "new") },
		"load":   func() error { _, err := c.Load(ctx, "k"); return err },
		"delete": func() error { _, err := c.Delete(ctx, "k"); return err },
		"exists": func() error { _, err := c.Exists(ctx, "k"); return err },
		"touch":  func() error { _, err := c.Touch(ctx, "k"); return err },
		"list":   func() error { _, err := c.All(ctx); return err },
		"batch":  func() error { return c.SaveMany(ctx, map[string]string{"k": "new", "fine": "new"}) },
		"stats":  func() error { _, err := m.Stats(ctx); return err },
		"sweep":  func() error { _, err := m.Sweep(ctx); return err },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, own) {
			t.Errorf("%s: %v", name, err)
		}
	}
	clear(broken)
	got, err := c.LoadMany(ctx, "k", "fine")
	if err != nil || got["k"] != "old" || got["fine"] == "" {
		t.Errorf("nothing was done: %v, %v", got, err)
	}
}
