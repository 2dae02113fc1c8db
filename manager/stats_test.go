package manager_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

func TestStatsCountPerTierAndCategory(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), openEmbedded(t)
	prefs, patterns := manager.For[string](m, "session.preferences"), manager.For[string](m, "learning.patterns")
	must(t, prefs.SaveMany(ctx, map[string]string{"a": "1", "b": "22"}))
	must(t, patterns.Save(ctx, "a", "1"))
	must(t, manager.For[string](m.Namespace("acme"), "session.preferences").Save(ctx, "a", "1"))
	value[string](t)(prefs.Load(ctx, "a"))
	_, err := prefs.Load(ctx, "missing")
	wantError(t, err, tiers.ErrNotFound, "missing")
	value[map[string]string](t)(prefs.LoadMany(ctx, "a", "b", "missing"))

	s := value[manager.Stats](t)(m.Stats(ctx))
	got := s.Categories["session.preferences"]
	if got.Hits != 3 || got.Misses != 2 || got.Errors != 0 || got.Entries != 3 || got.Bytes != 3+3+4+3 || got.P50 <= 0 || got.P99 < got.P50 {
		t.Errorf("session.preferences: %+v", got)
	}
	database := s.Tiers["database"]
	if database.Hits != 3 || database.Entries != 4 || s.Tiers["memory"].Entries != 0 || s.Pending != 0 {
		t.Errorf("tiers: %+v", s.Tiers)
	}
}

func TestErrorsAreCountedAndComplete(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	full := false
	drivers := sagetest.Failing(all(), func(op string, _ tiers.Key) error {
		if full && op == "save" {
			return tiers.ErrFull
		}
		return nil
	})
	m := sagetest.OpenWith(t, config.InMemory(), drivers)
	c := manager.For[string](m, "session.preferences")
	must(t, c.Save(ctx, "k", "old"))
	full = true
	err := c.Save(ctx, "k", "new")
	wantError(t, err, tiers.ErrFull, "save")
	e := asError(t, err)
	if e.Op != "save" || e.Tier != "memory" || e.Category != "session.preferences" || e.Key != "k" || e.Hint == "" {
		t.Errorf("the error is incomplete: %+v", e)
	}
	err = c.SaveMany(ctx, map[string]string{"a": "", "b": ""})
	wantError(t, err, tiers.ErrFull, "save many")
	if got := value[string](t)(c.Load(ctx, "k")); got != "old" {
		t.Errorf("loaded %q", got)
	}
	s := value[manager.Stats](t)(m.Stats(ctx))
	if got := s.Categories["session.preferences"].Errors; got != 2 {
		t.Errorf("counted %d errors", got)
	}
}

func TestHealthTellsWhichTierIsAwaySinceWhen(t *testing.T) {
	t.Parallel()
	ctx, clock := t.Context(), sagetest.NewClock(start)
	var mu sync.Mutex
	var away error
	drivers := sagetest.Failing(all()[:2], func(op string, _ tiers.Key) error {
		mu.Lock()
		defer mu.Unlock()
		if op == "ping" {
			return away
		}
		return nil
	})
	cfg := config.Default()
	cfg.DataDir = t.TempDir()
	m := sagetest.OpenWith(t, cfg, append(drivers, all()[2:]...), manager.WithClock(clock))
	if h := m.Health(ctx); !h.Ready || h.Degraded || !h.Tiers["database"].Up || h.Tiers["database"].Driver != "sqlite" {
		t.Errorf("all is well: %+v", h)
	}
	clock.Advance(1)
	mu.Lock()
	away = tiers.Fail("ping", "cache", tiers.Key{Name: "secret-key"}, tiers.ErrUnavailable)
	mu.Unlock()
	h := m.Health(ctx)
	if h.Tiers["memory"].Up && h.Tiers["cache"].Up {
		t.Skip("the tiers in front give no sign of life")
	}
	text := value[[]byte](t)(json.Marshal(h))
	if !h.Ready || !h.Degraded || strings.Contains(string(text), "secret-key") || !strings.Contains(string(text), `"ready":true`) {
		t.Errorf("a tier is away: %s", text)
	}
}

type watcher struct {
	mu  sync.Mutex
	ops []manager.Op
	err []error
}

type watched struct{}

func (w *watcher) Begin(ctx context.Context, op manager.Op) (context.Context, func(error)) {
	return context.WithValue(ctx, watched{}, true), func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ops, w.err = append(w.ops, op), append(w.err, err)
	}
}

func TestObserverSeesEveryCallAndItsEnd(t *testing.T) {
	t.Parallel()
	ctx, w := t.Context(), &watcher{}
	m := sagetest.Open(t, manager.WithObserver(w))
	c := manager.For[string](m, "session.preferences")
	must(t, c.Save(ctx, "k", "v"))
	_, err := c.Load(ctx, "missing")
	wantError(t, err, tiers.ErrNotFound, "load")
	value[map[string]string](t)(c.LoadMany(ctx, "a", "b"))
	keysOf(t, c)
	names := []string{}
	for _, op := range w.ops {
		names = append(names, op.Name)
		if op.Tier != "memory" || op.Category != "session.preferences" {
			t.Errorf("told of %+v", op)
		}
	}
	if !slices.Equal(names, []string{"save", "load", "load many", "list"}) || !errors.Is(w.err[1], tiers.ErrNotFound) || w.ops[2].Keys != 2 {
		t.Errorf("told of %v, %v", w.ops, w.err)
	}
}

func TestDiagnoseGathersWhatTheTiersFind(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cfg := config.Default()
	cfg.DataDir, cfg.DefaultStore = t.TempDir(), "database"
	m := sagetest.OpenWith(t, cfg, all())
	must(t, m.Save(ctx, "app.unlisted", "k", "v"))
	subjects := []string{}
	for _, f := range m.Diagnose(ctx) {
		subjects = append(subjects, f.Subject)
		if !f.OK && f.Hint == "" {
			t.Errorf("%+v says nothing to do", f)
		}
	}
	for _, want := range []string{"tier memory", "tier database", "tier file", "category app.unlisted"} {
		if !slices.Contains(subjects, want) {
			t.Errorf("found %q, without %s", subjects, want)
		}
	}
	if !slices.ContainsFunc(subjects, func(s string) bool { return strings.HasPrefix(s, "database: ") }) {
		t.Errorf("found %q, without what the database says", subjects)
	}
}

func TestDiagnoseSaysEachThingOnce(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.DataDir = t.TempDir()
	cfg.Backup.Enabled = true // which the configuration warns of
	said := map[string]bool{}
	advice := 0
	for _, f := range sagetest.OpenWith(t, cfg, all()).Diagnose(t.Context()) {
		if said[f.Subject+f.Message] {
			t.Errorf("%+v is said twice", f)
		}
		said[f.Subject+f.Message] = true
		if f.OK && f.Hint != "" {
			advice++
		}
		if !f.OK {
			t.Errorf("%+v, but nothing is broken", f)
		}
	}
	if advice == 0 {
		t.Error("the warnings of the configuration are no advice")
	}
}
