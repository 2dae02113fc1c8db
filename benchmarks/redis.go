package main

import (
	"context"
	"path/filepath"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/cache/redis"
)

func redisComparisons(url string) []comparison {
	const n = 10_000
	open := func(mine func(*redis.Tier) op, raw func(*goredis.Client) op) func(context.Context, string) (op, op, func(), error) {
		return func(ctx context.Context, dir string) (op, op, func(), error) {
			t, err := redis.Open(ctx, redis.Config{Options: redis.Options{URL: url, Prefix: filepath.Base(dir)}})
			if err != nil {
				return nil, nil, nil, err
			}
			c := rawRedis(url)
			if err := fill(ctx, t, n); err != nil {
				return nil, nil, nil, err
			}
			for i := range n {
				if err := c.Set(ctx, name(0, i, n), value(0, i), time.Hour).Err(); err != nil {
					return nil, nil, nil, err
				}
			}
			return mine(t), raw(c), func() { closer(t)(); _ = c.Close() }, nil
		}
	}
	get := func(c *goredis.Client) op {
		return func(ctx context.Context, caller, i int) error { return c.Get(ctx, name(caller, i, n)).Err() }
	}
	set := func(c *goredis.Client) op {
		return func(ctx context.Context, caller, i int) error {
			return c.Set(ctx, name(caller, i, n), value(caller, i), time.Hour).Err()
		}
	}
	mySave := func(t *redis.Tier) op {
		return func(ctx context.Context, caller, i int) error {
			r := record(caller, i, n)
			r.TTL = time.Hour
			_, err := t.Save(ctx, r, tiers.Cond{})
			return err
		}
	}
	myLoad := func(t *redis.Tier) op { return loads(t, n) }
	return []comparison{
		{work: "Redis load, 1 caller", against: "GET", callers: 1, must: 1.1, aim: 1, setup: open(myLoad, get)},
		{work: "Redis load, 64 callers", against: "GET, 64 callers", callers: 64, kind: faster, must: 2.5, aim: 3.5, setup: open(myLoad, get)},
		{
			work: "Redis load of 100, per key", against: "GET, 1 caller", callers: 1, oursUnits: batch, kind: faster, must: 12, aim: 16,
			setup: open(func(t *redis.Tier) op { return loadBatches(t, n) }, get),
		},
		{work: "Redis save, 1 caller", against: "SET EX", callers: 1, must: 1.4, aim: 1.2, setup: open(mySave, set)},
		{work: "Redis save, 64 callers", against: "SET EX, 64 callers", callers: 64, kind: faster, must: 1.5, aim: 2.3, setup: open(mySave, set)},
		{
			work: "Redis save of 100, per key", against: "SET EX, 1 caller", callers: 1, oursUnits: batch, kind: faster, must: 10, aim: 12,
			setup: open(func(t *redis.Tier) op { return saveBatches(t, n) }, set),
		},
	}
}
