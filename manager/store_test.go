package manager_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
	drivers "github.com/sagestore/sagestore/tiers/all"
)

func TestStoreChosenByTheCaller(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), openEmbedded(t)
	for _, name := range []string{"memory", "cache", "database", "file", "sqlite"} {
		s := m.Store(name)
		must(t, s.Check())
		must(t, s.Save(ctx, "session:123", map[string]int{"n": 1}, manager.TTL(time.Hour)))
		var got map[string]int
		must(t, s.Load(ctx, "session:123", &got))
		i := value[manager.Item](t)(s.Item(ctx, "session:123"))
		if left := i.Expires.Sub(i.Updated); got["n"] != 1 || i.Tier != s.Tier() || left < 59*time.Minute || left > time.Hour {
			t.Errorf("%s: %v in %s for %v", name, got, i.Tier, left)
		}
	}
	must(t, m.Store("").Save(ctx, "k", "v"))
	if ok := value[bool](t)(m.Store("database").Exists(ctx, "k")); !ok {
		t.Error("the empty name is the database when there is no default store")
	}
	err := m.Store("databse").Save(ctx, "k", "v")
	for _, want := range []string{"memory", "cache", "database", "file"} {
		if !contains(err, want) {
			t.Errorf("%v does not list %s", err, want)
		}
	}
	if !errors.Is(err, tiers.ErrCategory) || contains(err, "doctor") {
		t.Errorf("%v should match ErrCategory and send nobody to the doctor", err)
	}
	if m.Store("databse").Check() == nil {
		t.Error("check finds the name")
	}
}

func TestStoreOfTheFileTierReachesItsCategories(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	m := openDir(t, dir)
	defer closeNow(t, m)
	must(t, m.Store("file").Save(ctx, "config/settings", map[string]int{"n": 1}))
	must(t, m.Store("file").Save(ctx, "notes/a", "v"))
	var got map[string]int
	must(t, m.Load(ctx, "config", "settings", &got))
	if got["n"] != 1 {
		t.Errorf("loaded %v", got)
	}
	text, err := os.ReadFile(filepath.Join(dir, "data", "config", "settings.json"))
	if err != nil || !strings.Contains(string(text), "\n") {
		t.Errorf("pretty JSON at the documented place: %q, %v", text, err)
	}
	var keys []string
	for i, err := range m.Store("file").List(ctx) {
		must(t, err)
		keys = append(keys, i.Key)
	}
	if len(keys) != 1 || keys[0] != "notes/a" {
		t.Errorf("the store lists its own category only: %q", keys)
	}
}

func TestDefaultTTLOfTheCache(t *testing.T) {
	t.Parallel()
	ctx, clock := t.Context(), sagetest.NewClock(start)
	cfg := config.Default()
	cfg.DataDir, cfg.Cache.Driver = t.TempDir(), "file"
	cfg.Redis = &config.Redis{URL: "redis://localhost:1", TTLDefault: "3600"}
	cfg.Categories = map[string]config.Category{"app.plain": {Tier: "cache"}, "app.kept": {Tier: "cache", TTL: config.Never}}
	m := sagetest.OpenWith(t, cfg, all(), manager.WithClock(clock))
	cases := []struct {
		why, category string
		opts          []manager.SaveOption
		want          time.Duration
	}{
		{"a category without one takes the default", "app.plain", nil, time.Hour},
		{"never counts as one", "app.kept", nil, 0},
		{"a built-in one has its own", "session.history", nil, 24 * time.Hour},
		{"the call's comes first", "app.plain", []manager.SaveOption{manager.TTL(time.Minute)}, time.Minute},
		{"a store takes the default", "store.cache", nil, time.Hour},
	}
	for _, c := range cases {
		i := value[manager.Item](t)(m.SaveItem(ctx, c.category, "k", "v", c.opts...))
		want := time.Time{}
		if c.want > 0 {
			want = start.Add(c.want)
		}
		if !i.Expires.Equal(want) || i.Tier != "cache" {
			t.Errorf("%s: %s expires %v, want %v", c.why, i.Tier, i.Expires, want)
		}
	}
}

func TestBuiltInCategories(t *testing.T) {
	t.Parallel()
	ctx, clock := t.Context(), sagetest.NewClock(start)
	m := openEmbedded(t, manager.WithClock(clock))
	day := 24 * time.Hour
	for _, c := range []struct {
		kind, category, tier string
		ttl                  time.Duration
		session              bool
	}{
		{"context state", "session.context", "memory", 0, true},
		{"loaded content", "knowledge.content", "memory", 0, true},
		{"query history", "session.history", "cache", day, false},
		{"token usage", "knowledge.tokens", "cache", time.Hour, false},
		{"totals of token usage", "knowledge.usage", "database", 0, false},
		{"access patterns", "knowledge.access", "database", 30 * day, false},
		{"preferences", "session.preferences", "database", 0, false},
		{"session state", "session.state", "database", 0, false},
		{"session events", "session.events", "database", 0, false},
		{"user patterns", "learning.patterns", "database", 0, false},
		{"optimizations", "learning.optimizations", "database", 0, false},
		{"feedback", "learning.feedback", "database", 0, false},
		{"settings", "config", "file", 0, false},
		{"agent state", "agent.state", "database", 0, false},
		{"conversations", "agent.conversations", "database", 0, false},
		{"checkpoints", "agent.checkpoints", "database", 0, false},
	} {
		coll := manager.For[string](m, c.category)
		must(t, coll.Save(ctx, "s-1/k", "v"))
		e := value[manager.Entry[string]](t)(coll.Entry(ctx, "s-1/k"))
		want := time.Time{}
		if c.ttl > 0 {
			want = start.Add(c.ttl)
		}
		if e.Tier != c.tier || !e.Expires.Equal(want) {
			t.Errorf("%s: in %s until %v, want %s until %v", c.kind, e.Tier, e.Expires, c.tier, want)
		}
		must(t, m.EndSession(ctx, "s-1"))
		_, err := coll.Load(ctx, "s-1/k")
		if gone := err != nil; gone != c.session {
			t.Errorf("%s: after the session's end: %v", c.kind, err)
		}
		must(t, m.ReopenSession(ctx, "s-1"))
	}
}

func TestTiersSurviveAReopening(t *testing.T) {
	t.Parallel()
	ctx, dir, clock := t.Context(), t.TempDir(), sagetest.NewClock(start)
	m := openDir(t, dir, manager.WithClock(clock))
	for category, tier := range map[string]string{"session.context": "memory", "session.history": "cache", "session.preferences": "database", "config": "file"} {
		i := value[manager.Item](t)(m.SaveItem(ctx, category, "s/k", tier))
		if i.Tier != tier {
			t.Errorf("%s is in %s", category, i.Tier)
		}
	}
	closeNow(t, m)
	m = openDir(t, dir, manager.WithClock(clock))
	defer closeNow(t, m)
	var got string
	wantError(t, m.Load(ctx, "session.context", "s/k", &got), tiers.ErrNotFound, "memory goes with the process")
	for _, category := range []string{"session.history", "session.preferences", "config"} {
		must(t, m.Load(ctx, category, "s/k", &got))
	}
	clock.Advance(24*time.Hour - time.Second)
	must(t, m.Load(ctx, "session.history", "s/k", &got))
	clock.Advance(time.Second)
	wantError(t, m.Load(ctx, "session.history", "s/k", &got), tiers.ErrNotFound, "the cache's entry has had its day")
	clock.Advance(10 * 365 * 24 * time.Hour)
	for _, category := range []string{"session.preferences", "config"} {
		must(t, m.Load(ctx, category, "s/k", &got))
	}
}

func TestDefaultTTLReachesTheServer(t *testing.T) {
	t.Parallel()
	ctx, server := t.Context(), redistest.Start(t)
	m := sagetest.OpenWith(t, &config.Config{
		DataDir: t.TempDir(), Redis: &config.Redis{URL: config.Secret(server.URL()), TTLDefault: "3600", Timeout: "10s"},
		Categories: map[string]config.Category{"app.plain": {Tier: "cache"}, "app.kept": {Tier: "cache", TTL: config.Never}},
	}, drivers.Tiers())
	must(t, m.Save(ctx, "app.plain", "plain", "v"))
	must(t, m.Save(ctx, "app.kept", "kept", "v"))
	must(t, m.Save(ctx, "session.history", "history", "v"))
	must(t, m.Save(ctx, "app.plain", "minute", "v", manager.TTL(time.Minute)))
	must(t, m.Store("cache").Save(ctx, "session:123", "v", manager.TTL(3600*time.Second)))
	must(t, m.Store("redis").Save(ctx, "store", "v"))
	for key, want := range map[string]time.Duration{
		"plain": time.Hour, "kept": 0, "history": 24 * time.Hour, "minute": time.Minute, "session:123": time.Hour, "store": time.Hour,
	} {
		found := strings.Fields(server.Do("KEYS", "*}:"+key))
		left := strings.TrimSpace(server.Do("PTTL", found[len(found)-1]))
		ms, err := strconv.ParseInt(strings.TrimPrefix(left, ":"), 10, 64)
		got := time.Duration(ms) * time.Millisecond
		if err != nil || want == 0 && ms != -1 || want > 0 && (got > want || got < want-10*time.Second) {
			t.Errorf("on the server %s has %v left, %v; want %v", key, got, err, want)
		}
	}
}

func TestEmptyNameIsTheDefaultStore(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, c := range []struct{ store, tier string }{{"", "database"}, {"sqlite", "database"}, {"file", "file"}, {"memory", "memory"}} {
		m := sagetest.OpenWith(t, &config.Config{DataDir: t.TempDir(), DefaultStore: c.store}, all())
		must(t, m.Store("").Save(ctx, "session:123", "v"))
		if s := m.Store(""); s.Tier() != c.tier || !value[bool](t)(m.Store(c.tier).Exists(ctx, "session:123")) {
			t.Errorf("default_store %q is %s, want %s", c.store, s.Tier(), c.tier)
		}
	}
}
