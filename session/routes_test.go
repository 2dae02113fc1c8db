package session_test

import (
	"context"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/all"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// routing is a place for every category of a session.
type routing struct {
	name    string
	tier    string // "" leaves the built-in rules
	durable bool
	server  bool // expiry follows the server's clock
}

func routings() []routing {
	all := []routing{
		{name: "memory", tier: "memory"},
		{name: "built-in rules", durable: true},
		{name: "database", tier: "database", durable: true},
		{name: "cache on files", tier: "cache", durable: true},
		{name: "file", tier: "file", durable: true},
	}
	if _, err := os.Stat("/usr/bin/redis-server"); err == nil || os.Getenv("CI") == "true" {
		all = append(all, routing{name: "cache on Redis", tier: "cache", durable: true, server: true})
	}
	return all
}

var categories = []string{
	"session.state", "session.events", "session.context", "session.history", "session.preferences",
	"knowledge.content", "knowledge.bodies", "knowledge.access", "knowledge.usage", "knowledge.tokens",
}

// config answers the configuration of a routing below a directory.
func (r routing) config(t testing.TB, dir string) *config.Config {
	t.Helper()
	cfg := config.InMemory()
	if r.tier != "memory" {
		cfg = config.Default()
		cfg.DataDir, cfg.SQLite.Synchronous = dir, "normal"
	}
	if r.server {
		cfg.Redis = &config.Redis{URL: config.Secret(redistest.Start(t).URL())}
	}
	if r.tier != "" {
		cfg.Categories = map[string]config.Category{}
		for _, name := range categories {
			cfg.Categories[name] = config.Category{Tier: r.tier}
		}
	}
	return cfg
}

// open opens a manager of the routing with a clock of its own.
func (r routing) open(t testing.TB) (*manager.Manager, *sagetest.Clock) {
	t.Helper()
	clock := sagetest.NewClock(start)
	return sagetest.OpenWith(t, r.config(t, t.TempDir()), drivers(), manager.WithClock(clock)), clock
}

func open(t testing.TB, cfg *config.Config, opts ...manager.OpenOption) *manager.Manager {
	t.Helper()
	m, err := manager.Open(context.WithoutCancel(t.Context()), cfg, all.Tiers(), opts...)
	must(t, err)
	return m
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func value[T any](t testing.TB) func(v T, err error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		must(t, err)
		return v
	}
}

func drivers() tiers.Drivers { return all.Tiers() }
