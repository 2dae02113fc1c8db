package postgres

import (
	"context"
	"hash/fnv"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/sagestore/sagestore/internal/pgtest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// schemaOf names the schema that stands for a directory of the suite.
func schemaOf(dir string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(dir))
	return "t_" + strconv.FormatUint(h.Sum64(), 36)
}

// shared answers a configuration on the server that the tests share, with a schema of
// the test's own.
func shared(tb testing.TB) Config {
	tb.Helper()
	return Config{URL: pgtest.Shared(tb).URL("postgres"), Schema: schemaOf(tb.TempDir()), Pool: 4}
}

// opener opens the stores of the suite.
func opener(tb testing.TB, pooler, ownClock bool) func(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
	tb.Helper()
	c := shared(tb)
	return func(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
		c := c
		c.Schema, c.Pooler = schemaOf(dir), pooler
		if !ownClock {
			c.Clock = clock
		}
		return Open(ctx, c)
	}
}

func open1(tb testing.TB, c Config) *Tier {
	tb.Helper()
	t, err := Open(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = t.Close(context.Background()) })
	return t
}

func everything() []tiertest.Capability {
	return []tiertest.Capability{
		tiertest.Applier, tiertest.Batcher, tiertest.AtomicBatch, tiertest.Exister, tiertest.Toucher, tiertest.Sweeper,
		tiertest.Pinger, tiertest.Statser, tiertest.Counter, tiertest.Describer, tiertest.Diagnoser, tiertest.Snapshotter,
		tiertest.Searcher, tiertest.TopSearcher,
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	tiertest.Run(t, tiertest.Config{Open: opener(t, false, false), Durable: true, Shared: true, Require: everything()})
}

func TestSystem(t *testing.T) {
	t.Parallel()
	tiertest.RunSystem(t, opener(t, false, false))
}

func TestCommit(t *testing.T) {
	t.Parallel()
	tiertest.RunCommit(t, opener(t, false, false))
}

func BenchmarkTier(b *testing.B) {
	tiertest.Bench(b, tiertest.Config{Open: opener(b, false, true), Durable: true, Shared: true})
}

func TestCarrier(t *testing.T) {
	t.Parallel()
	tiertest.RunCarrier(t, opener(t, false, false))
}

func TestSwitcher(t *testing.T) {
	t.Parallel()
	tiertest.RunSwitcher(t, opener(t, false, false))
}
