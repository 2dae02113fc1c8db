package memory

import (
	"context"
	"testing"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

// opener opens tiers with a budget that the suite's work exceeds, or not.
func opener(o Options) func(context.Context, string, tiers.Clock) (tiers.Tier, error) {
	return func(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
		o := o
		o.SpillDir = dir
		return Open(ctx, Config{Options: o, Clock: clock})
	}
}

func everything() []tiertest.Capability {
	return []tiertest.Capability{
		tiertest.Applier, tiertest.Batcher, tiertest.AtomicBatch, tiertest.Exister, tiertest.Toucher, tiertest.Sweeper,
		tiertest.Pinger, tiertest.Statser, tiertest.Counter, tiertest.Describer, tiertest.Diagnoser, tiertest.Publisher,
	}
}

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"everything fits", Options{}},
		{"nothing may leave", Options{Overflow: OverflowNone}},
		{"nearly everything has to leave", Options{Budget: 64 << 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tiertest.Run(t, tiertest.Config{Open: opener(c.o), Require: everything()})
		})
	}
}

func TestSystemConformance(t *testing.T) { tiertest.RunSystem(t, opener(Options{})) }

func BenchmarkTier(b *testing.B) {
	tiertest.Bench(b, tiertest.Config{Open: opener(Options{})})
}
