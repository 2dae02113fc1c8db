package manager_test

import (
	"context"
	"testing"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

// The manager as a whole keeps the promises of the tier that it routes to.
func TestManagerKeepsTheContractOfItsTiers(t *testing.T) {
	t.Parallel()
	for _, home := range []string{"memory", "cache", "database", "file"} {
		t.Run(home, func(t *testing.T) {
			t.Parallel()
			tiertest.Run(t, tiertest.Config{
				Open: func(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
					cfg := config.InMemory()
					if home != "memory" {
						cfg = config.Default()
						cfg.DataDir = dir
					}
					cfg.DefaultStore = home
					cfg.Categories = map[string]config.Category{"config": {Tier: home}} // the suite uses the name
					m, err := manager.Open(ctx, cfg, all(), manager.WithClock(clock), manager.WithoutJobs())
					if err != nil {
						return nil, err
					}
					return m.AsTier(home), nil
				},
				Durable: home != "memory",
				Shared:  home != "memory",
				Require: []tiertest.Capability{tiertest.Exister, tiertest.Toucher},
			})
		})
	}
}
