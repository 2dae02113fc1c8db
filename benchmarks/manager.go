package main

import (
	"context"
	"errors"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/embedded"

	"github.com/sagestore/sagestore/config"
)

// managerComparisons measure what the manager adds to a call of the memory
// tier, with the raw codec, so that no encoding is counted.
func managerComparisons() []comparison {
	const n = 10_000
	open := func(mine func(*manager.Collection[[]byte]) op, direct func(tiers.Tier) op) func(context.Context, string) (op, op, func(), error) {
		return func(ctx context.Context, _ string) (op, op, func(), error) {
			cfg := config.InMemory()
			cfg.Categories = map[string]config.Category{category: {Codec: "raw"}}
			m, err := manager.Open(ctx, cfg, embedded.Tiers())
			if err != nil {
				return nil, nil, nil, err
			}
			driver, _ := embedded.Tiers().Find("memory", "memory")
			t, err := driver.Open(ctx, tiers.Env{Name: "memory", Clock: tiers.SystemClock(), Options: func(any) error { return nil }})
			if err != nil {
				return nil, nil, nil, err
			}
			c := manager.For[[]byte](m, category)
			if err := errors.Join(c.Check(), fill(ctx, t, n)); err != nil {
				return nil, nil, nil, err
			}
			for i := range n {
				if err := c.Save(ctx, name(0, i, n), value(0, i)); err != nil {
					return nil, nil, nil, err
				}
			}
			return mine(c), direct(t), func() { _ = m.Close(ctx); closer(t)() }, nil
		}
	}
	return []comparison{
		{
			work: "what the manager adds to a save", against: "the memory tier", callers: 1, kind: added, must: 300, aim: 150,
			setup: open(func(c *manager.Collection[[]byte]) op {
				return func(ctx context.Context, caller, i int) error {
					return c.Save(ctx, name(caller, i, n), value(caller, i))
				}
			}, func(t tiers.Tier) op { return saves(t, n) }),
		},
		{
			work: "what the manager adds to a load", against: "the memory tier", callers: 1, kind: added, must: 300, aim: 150,
			setup: open(func(c *manager.Collection[[]byte]) op {
				return func(ctx context.Context, caller, i int) error {
					_, err := c.Load(ctx, name(caller, i, n))
					return err
				}
			}, func(t tiers.Tier) op { return loads(t, n) }),
		},
	}
}
