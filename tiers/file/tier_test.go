package file_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/sagestore/sagestore/internal/crashtest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/file"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

var store = crashtest.Store{Name: "file", Open: func(ctx context.Context, dir string) (tiers.Tier, error) {
	return file.Open(ctx, file.Config{BasePath: dir})
}}

func TestMain(m *testing.M) {
	crashtest.Main(store)
	conditionsMain()
	writeMain()
	deniedMain()
	goleak.VerifyTestMain(m)
}

var suite = tiertest.Config{
	Open: func(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
		return file.Open(ctx, file.Config{BasePath: dir, Clock: clock})
	},
	Durable: true,
	Shared:  true,
	Require: []tiertest.Capability{
		tiertest.Applier, tiertest.Batcher, tiertest.Exister, tiertest.Toucher, tiertest.Sweeper, tiertest.Pinger,
		tiertest.Statser, tiertest.Counter, tiertest.Describer, tiertest.Diagnoser, tiertest.Reserver,
	},
}

// In CI the suite runs on the disk; elsewhere in memory where that is possible,
// since it waits for thousands of fsyncs. All other tests use the disk.
func TestConformance(t *testing.T) {
	const memory = "/dev/shm"
	if fi, err := os.Stat(memory); err == nil && fi.IsDir() && os.Getenv("CI") != "true" {
		t.Setenv("TMPDIR", memory)
	}
	tiertest.Run(t, suite)
}

func BenchmarkTier(b *testing.B) { tiertest.Bench(b, suite) }

func TestFreezing(t *testing.T) {
	memory(t)
	inside := func(dir string) string { return filepath.Join(dir, "tree") }
	c := suite
	c.Open = func(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
		return file.Open(ctx, file.Config{BasePath: inside(dir), Clock: clock})
	}
	tiertest.RunFreezer(t, c, file.Copies(), inside)
}
