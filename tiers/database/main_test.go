package database

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/sagestore/sagestore/internal/crashtest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

var crashing = crashtest.Store{
	Name: "database",
	Open: func(ctx context.Context, dir string) (tiers.Tier, error) {
		return Open(ctx, Config{Path: filepath.Join(dir, "sage.db")})
	},
}

func TestMain(m *testing.M) {
	crashtest.Main(crashing)
	if dir := os.Getenv(envCount); dir != "" {
		os.Exit(countAsChild(dir))
	}
	goleak.VerifyTestMain(m)
}

func openIn(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
	return Open(ctx, Config{Path: filepath.Join(dir, "sage.db"), Clock: clock})
}

func openMemory(ctx context.Context, _ string, clock tiers.Clock) (tiers.Tier, error) {
	return Open(ctx, Config{Path: Memory, Clock: clock})
}

func everything() []tiertest.Capability {
	return []tiertest.Capability{
		tiertest.Applier, tiertest.Batcher, tiertest.AtomicBatch, tiertest.Exister, tiertest.Toucher, tiertest.Sweeper,
		tiertest.Pinger, tiertest.Statser, tiertest.Counter, tiertest.Describer, tiertest.Diagnoser,
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	tiertest.Run(t, tiertest.Config{Open: openIn, Durable: true, Shared: true, Require: everything()})
}

func TestConformanceInMemory(t *testing.T) {
	t.Parallel()
	tiertest.Run(t, tiertest.Config{Open: openMemory, Require: everything()})
}

func TestSystem(t *testing.T) { tiertest.RunSystem(t, openIn) }

func BenchmarkTier(b *testing.B) {
	tiertest.Bench(b, tiertest.Config{Open: openIn, Durable: true, Shared: true})
}
