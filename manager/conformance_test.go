package manager_test

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

// The manager as a whole keeps the promises of the tier that it routes to. Tiers
// that sync every save take a minute, which only CI has.
func TestManagerKeepsTheContractOfItsTiers(t *testing.T) {
	t.Parallel()
	keepsTheContract(t, homes([]string{"memory", "database"}, "cache", "file"), (*manager.Manager).AsTier, tiertest.Exister, tiertest.Toucher)
}

// A transaction with one call in it is like the call.
func TestTransactionKeepsTheContractOfItsTiers(t *testing.T) {
	t.Parallel()
	keepsTheContract(t, homes([]string{"memory"}, "database"), (*manager.Manager).AsTierOfTransactions, tiertest.Exister)
}

// A near layer in front of a home changes nothing for who uses the store alone.
func TestManagerKeepsTheContractWithNearLayers(t *testing.T) {
	t.Parallel()
	for _, home := range homes(nil, "database") {
		t.Run(home, func(t *testing.T) {
			t.Parallel()
			var opened atomic.Int64
			tiertest.Run(t, tiertest.Config{
				Open: func(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
					cfg := config.Default()
					cfg.DataDir, cfg.SQLite.Synchronous, cfg.DefaultStore = dir, "normal", home
					cfg.Categories = make(map[string]config.Category)
					for category := range strings.FieldsSeq("config tiertest.records tiertest.empty elsewhere expired.only never.was") {
						cfg.Categories[category] = config.Category{Tier: home, Near: []string{"memory"}, NearTTL: "1h"}
					}
					opened.Add(1)
					m, err := manager.Open(ctx, cfg, all(), manager.WithClock(clock))
					if err != nil {
						return nil, err
					}
					return m.AsTier(home), nil
				},
				Durable: true,
				Require: []tiertest.Capability{tiertest.Exister, tiertest.Toucher},
			})
			if opened.Load() == 0 {
				t.Error("nothing was tested")
			}
		})
	}
}

// homes adds those that only CI has the time for.
func homes(always []string, inCI ...string) []string {
	if os.Getenv("CI") == "true" {
		return append(always, inCI...)
	}
	return always
}

func keepsTheContract(t *testing.T, homes []string, adapt func(*manager.Manager, string) tiers.Tier, require ...tiertest.Capability) {
	t.Helper()
	for _, home := range homes {
		t.Run(home, func(t *testing.T) {
			t.Parallel()
			tiertest.Run(t, tiertest.Config{
				Open: func(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
					m, err := openHome(ctx, home, dir, clock)
					if err != nil {
						return nil, err
					}
					return adapt(m, home), nil
				},
				Durable: home != "memory",
				Shared:  home != "memory",
				Require: require,
			})
		})
	}
}

func openHome(ctx context.Context, home, dir string, clock tiers.Clock) (*manager.Manager, error) {
	cfg := config.InMemory()
	if home != "memory" {
		cfg = config.Default()
		cfg.DataDir, cfg.SQLite.Synchronous = dir, "normal"
	}
	cfg.DefaultStore = home
	cfg.Categories = map[string]config.Category{"config": {Tier: home}} // the suite uses the name
	return manager.Open(ctx, cfg, all(), manager.WithClock(clock), manager.WithoutJobs())
}
