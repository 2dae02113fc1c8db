package manager_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
	drivers "github.com/sagestore/sagestore/tiers/all"
)

func TestCacheWorksOnAMachineWithoutItsServer(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m := sagetest.OpenWith(t, &config.Config{DataDir: t.TempDir(), Redis: &config.Redis{URL: "redis://127.0.0.1:1"}}, drivers.Tiers())
	history := manager.For[string](m, "session.history")
	must(t, history.Save(ctx, "s/1", "question"))
	if got := value[string](t)(history.Load(ctx, "s/1")); got != "question" {
		t.Errorf("loaded %q", got)
	}
	if got := keysOf(t, history); len(got) != 1 {
		t.Errorf("listed %q", got)
	}
	h := m.Health(ctx)
	if !h.Ready || !h.Degraded || h.Tiers["cache"].Up || h.Tiers["cache"].Driver != "redis" || h.Pending != 1 {
		t.Errorf("health: %+v", h)
	}
	s := value[manager.Stats](t)(m.Stats(ctx))
	if s.Pending != 1 || s.OldestPending.IsZero() {
		t.Errorf("stats: %+v", s)
	}
	found := false
	for _, f := range m.Diagnose(ctx) {
		found = found || !f.OK && f.Hint != "" && strings.Contains(f.Message, "redis")
	}
	if !found {
		t.Error("diagnose does not name the server that is away")
	}
}

func TestWritesOfAnOutageReachTheServerWhenItIsBack(t *testing.T) {
	t.Parallel()
	ctx, server, dir := t.Context(), redistest.Start(t), t.TempDir()
	open := func() *manager.Manager {
		return value[*manager.Manager](t)(manager.Open(ctx, &config.Config{DataDir: dir, Redis: &config.Redis{URL: config.Secret(server.URL())}}, drivers.Tiers()))
	}
	m := open()
	history := manager.For[string](m, "session.history")
	must(t, history.Save(ctx, "s/1", "kept"))
	must(t, history.Save(ctx, "s/2", "to be deleted"))
	server.Freeze()
	must(t, history.Save(ctx, "s/3", "saved without the server"))
	if existed, err := history.Delete(ctx, "s/2"); err != nil {
		t.Errorf("delete without the server: %v, %v", existed, err)
	}
	e := asError(t, history.Save(ctx, "s/4", "v", manager.IfAbsent()))
	if !errors.Is(e, tiers.ErrUnavailable) || e.Op != "save" || e.Tier != "cache" || e.Category != "session.history" || e.Key != "s/4" || e.Hint == "" {
		t.Errorf("a condition can't be checked, and the error is complete: %+v", e)
	}
	absent := func(key string) bool { ok, err := history.Exists(ctx, key); return !ok && err == nil }
	if !absent("s/2") {
		t.Error("it reads as deleted meanwhile")
	}
	server.Thaw()
	soon(t, "the journal drains", func() bool { h := m.Health(ctx); return h.Pending == 0 && !h.Degraded })
	closeNow(t, m)

	m = open() // the same epoch: what is on the server counts
	defer closeNow(t, m)
	history = manager.For[string](m, "session.history")
	if got := keysOf(t, history); len(got) != 2 || got[0] != "s/1" || got[1] != "s/3" {
		t.Errorf("on the server: %q", got)
	}
}
