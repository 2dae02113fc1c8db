package redis_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/cache/redis"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	srv := redistest.Start(t)
	for _, way := range []struct{ name, url string }{{"tcp", srv.URL()}, {"unix socket", srv.SocketURL()}} {
		t.Run(way.name, func(t *testing.T) {
			tiertest.Run(t, tiertest.Config{
				Open: func(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
					return redis.Open(ctx, redis.Config{
						Options: redis.Options{URL: way.url, Prefix: prefixOf(dir), MaxValue: 16 << 20, Timeout: 5 * time.Second},
						Clock:   clock,
					})
				},
				Durable: true, Shared: true, ServerClock: true,
				Require: []tiertest.Capability{
					tiertest.Applier, tiertest.Batcher, tiertest.AtomicBatch, tiertest.Exister, tiertest.Toucher, tiertest.Sweeper,
					tiertest.Pinger, tiertest.Statser, tiertest.Counter, tiertest.Describer, tiertest.Diagnoser, tiertest.Reserver,
				},
				MaxValue: 16 << 20,
			})
		})
	}
}

func prefixOf(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:8])
}
