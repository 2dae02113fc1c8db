// Package routetest routes categories to one tier after the other, for the tests of
// packages that work on any.
package routetest

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers/all"
)

// Start is what the clocks of opened managers begin with.
func Start() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// Route is a place for some categories.
type Route struct {
	Name    string
	Tier    string // "" leaves the built-in rules
	Durable bool   // what is stored outlives the manager
	Server  bool   // expiry follows the server's clock

	categories []string
}

// Routes are the places that the categories can have: every tier, and the built-in
// rules. Redis is among them when it is installed, and with CI=true, where a missing
// one fails.
func Routes(categories ...string) []Route {
	routes := []Route{
		{Name: "memory", Tier: "memory"},
		{Name: "built-in rules", Durable: true},
		{Name: "database", Tier: "database", Durable: true},
		{Name: "cache on files", Tier: "cache", Durable: true},
		{Name: "file", Tier: "file", Durable: true},
	}
	if _, err := exec.LookPath("redis-server"); err == nil || os.Getenv("CI") == "true" {
		routes = append(routes, Route{Name: "cache on Redis", Tier: "cache", Durable: true, Server: true})
	}
	for i := range routes {
		routes[i].categories = categories
	}
	return routes
}

// To routes the categories to the tier; "" leaves the built-in rules.
func To(tier string, categories ...string) Route {
	return Route{Name: tier, Tier: tier, Durable: tier != "memory", categories: categories}
}

// Config answers the configuration of a route below a directory. It starts the
// server that the route needs.
func (r Route) Config(tb testing.TB, dir string) *config.Config {
	tb.Helper()
	cfg := config.InMemory()
	if r.Tier != "memory" {
		cfg = config.Default()
		cfg.DataDir, cfg.SQLite.Synchronous = dir, "normal"
	}
	if r.Server {
		cfg.Redis = &config.Redis{URL: config.Secret(redistest.Start(tb).URL())}
	}
	if r.Tier != "" {
		cfg.Categories = map[string]config.Category{}
		for _, name := range r.categories {
			cfg.Categories[name] = config.Category{Tier: r.Tier}
		}
	}
	return cfg
}

// Open opens a manager of the route in a directory of its own, with a clock of its
// own. The test closes it.
func (r Route) Open(tb testing.TB) (*manager.Manager, *sagetest.Clock) {
	tb.Helper()
	clock := sagetest.NewClock(Start())
	return sagetest.OpenWith(tb, r.Config(tb, tb.TempDir()), Drivers(all.Tiers()), manager.WithClock(clock)), clock
}
