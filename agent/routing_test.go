package agent_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/all"
	"github.com/sagestore/sagestore/tiers/embedded"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(envChildDir); dir != "" {
		_, _ = fmt.Fprintln(os.Stderr, "the child of a test:", childOf(os.Getenv(envChildPlace), dir))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if dir, err := begun(); err == nil && dir != "" {
			_ = os.RemoveAll(dir)
		}
		os.Exit(code)
	}))
}

// routing is a place for the categories of agents.
type routing struct {
	name    string
	durable bool
	config  func(t testing.TB, dir string) *config.Config
}

// routings are the tiers that agents can be routed to.
func routings() []routing {
	on := func(tier string) func(testing.TB, string) *config.Config {
		return func(_ testing.TB, dir string) *config.Config {
			c := config.Default()
			c.DataDir = dir
			c.SQLite.Synchronous = "normal" // no test here is about a loss of power
			c.Categories = map[string]config.Category{}
			for _, name := range []string{"agent.state", "agent.conversations", "agent.checkpoints", "agent.fields"} {
				c.Categories[name] = config.Category{Tier: tier}
			}
			return c
		}
	}
	return []routing{
		{"memory", false, func(testing.TB, string) *config.Config { return config.InMemory() }},
		{"database", true, on("database")},
		{"file", true, on("file")},
		{"cache on files", true, on("cache")},
		{"msgpack and encrypted", true, func(t testing.TB, dir string) *config.Config {
			t.Helper()
			c := on("database")(t, dir)
			c.Encryption.Current = "k1"
			c.Encryption.Keys = map[string]config.Secret{"k1": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}
			for name := range c.Categories {
				c.Categories[name] = config.Category{Tier: "database", Codec: "msgpack", Encrypt: new(true)}
			}
			return c
		}},
		{"mixed", true, func(_ testing.TB, dir string) *config.Config {
			c := on("file")(nil, dir)
			c.Categories["agent.conversations"] = config.Category{Tier: "database"}
			c.Categories["agent.checkpoints"] = config.Category{Tier: "cache"}
			return c
		}},
		{"cache on redis", true, func(t testing.TB, dir string) *config.Config {
			t.Helper()
			server := redistest.Start(t)
			c := on("cache")(t, dir)
			c.Redis = &config.Redis{URL: config.Secret(server.URL()), Prefix: "agents"}
			return c
		}},
	}
}

// house is a store on a routing that can be opened again.
type house struct {
	*agent.Store
	m      *manager.Manager
	reopen func() *house
}

// each runs a test on every routing.
func each(t *testing.T, test func(t *testing.T, h *house)) {
	t.Helper()
	t.Parallel()
	for _, r := range routings() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t, r))
		})
	}
}

// eachAt runs a test on every routing, with a clock that stands at the beginning of
// 2026.
func eachAt(t *testing.T, test func(t *testing.T, h *house, clock *sagetest.Clock)) {
	t.Helper()
	t.Parallel()
	for _, r := range routings() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			clock := sagetest.NewClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			test(t, open(t, r, manager.WithClock(clock)), clock)
		})
	}
}

// inFull tells whether many callers do much, as they do in memory and, with
// SAGESTORE_FULL=true, everywhere, or some of it.
func inFull(t *testing.T) bool {
	t.Helper()
	return strings.HasSuffix(t.Name(), "/memory") || os.Getenv("SAGESTORE_FULL") == "true"
}

func driversOf(cfg *config.Config) tiers.Drivers {
	if cfg.Redis != nil {
		return all.Tiers()
	}
	return embedded.Tiers()
}

func open(t testing.TB, r routing, opts ...manager.OpenOption) *house {
	t.Helper()
	dir := t.TempDir()
	if r.durable {
		ok(t, os.CopyFS(dir, os.DirFS(must(begun())(t))))
	}
	cfg := r.config(t, dir)
	drivers := driversOf(cfg)
	h := &house{}
	start := func() {
		m, err := manager.Open(context.WithoutCancel(t.Context()), cfg, drivers, opts...)
		if err != nil {
			t.Fatal(err)
		}
		h.m, h.Store = m, agent.New(m)
		if err := h.Check(); err != nil {
			t.Fatal(err)
		}
	}
	end := func() {
		if err := h.m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	start()
	t.Cleanup(end)
	h.reopen = func() *house {
		if r.durable {
			end()
			start()
		}
		return h
	}
	return h
}

// begun answers the directory of a store in which nothing was saved yet. To copy it
// costs a fraction of what making its database does. It ends with the tests.
var begun = sync.OnceValues(func() (dir string, err error) {
	dir, err = os.MkdirTemp("", "agents")
	if err != nil {
		return "", err
	}
	cfg := config.Default()
	cfg.DataDir = dir
	m, err := manager.Open(context.Background(), cfg, embedded.Tiers())
	if err != nil {
		return "", err
	}
	return dir, m.Close(context.Background())
})

// inMemory is a store for what does not depend on the routing.
func inMemory(t testing.TB, opts ...manager.OpenOption) *agent.Store {
	t.Helper()
	return agent.New(sagetest.Open(t, opts...))
}
