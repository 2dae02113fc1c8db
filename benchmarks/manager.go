package main

import (
	"context"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/embedded"

	"github.com/sagestore/sagestore/config"
)

// managerComparisons measure what the manager adds to a call of the memory tier.
// The bound is about what is neither the tier's work nor the codec's, so the other
// side encodes and decodes as well; what the raw codec costs (a copy, an envelope
// and its checksum) is in the lines without a bound.
func managerComparisons() []comparison {
	const n = 10_000
	open := func(mine func(*manager.Collection[[]byte]) op, direct func(tiers.Tier, *serializer.Registry) op) func(context.Context, string) (op, op, func(), error) {
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
			codecs, err := serializer.New()
			if err != nil {
				return nil, nil, nil, err
			}
			c := manager.For[[]byte](m, category)
			if err := c.Check(); err != nil {
				return nil, nil, nil, err
			}
			for i := range n {
				rec, err := encoded(codecs, 0, i, n)
				if err == nil {
					_, err = t.Save(ctx, rec, tiers.Cond{})
				}
				if err == nil {
					err = c.Save(ctx, name(0, i, n), value(0, i))
				}
				if err != nil {
					return nil, nil, nil, err
				}
			}
			return mine(c), direct(t, codecs), func() { _ = m.Close(ctx); closer(t)() }, nil
		}
	}
	save := func(c *manager.Collection[[]byte]) op {
		return func(ctx context.Context, caller, i int) error {
			return c.Save(ctx, name(caller, i, n), value(caller, i))
		}
	}
	load := func(c *manager.Collection[[]byte]) op {
		return func(ctx context.Context, caller, i int) error {
			_, err := c.Load(ctx, name(caller, i, n))
			return err
		}
	}
	return []comparison{
		{
			work: "what the manager adds to a save", against: "codec and memory tier", callers: 1, kind: added, must: 300, aim: 150,
			setup: open(save, func(t tiers.Tier, codecs *serializer.Registry) op {
				return func(ctx context.Context, caller, i int) error {
					rec, err := encoded(codecs, caller, i, n)
					if err != nil {
						return err
					}
					_, err = t.Save(ctx, rec, tiers.Cond{})
					return err
				}
			}),
		},
		{
			work: "what the manager adds to a load", against: "codec and memory tier", callers: 1, kind: added, must: 300, aim: 150,
			setup: open(load, func(t tiers.Tier, codecs *serializer.Registry) op {
				return func(ctx context.Context, caller, i int) error {
					rec, err := t.Load(ctx, key(caller, i, n))
					if err != nil {
						return err
					}
					return codecs.Decode(rec, new([]byte))
				}
			}),
		},
		{
			work: "what manager and codec add to a save", against: "the memory tier", callers: 1, kind: added,
			setup: open(save, func(t tiers.Tier, _ *serializer.Registry) op { return saves(t, n) }),
		},
		{
			work: "what manager and codec add to a load", against: "the memory tier", callers: 1, kind: added,
			setup: open(load, func(t tiers.Tier, _ *serializer.Registry) op { return loads(t, n) }),
		},
	}
}

// encoded is record, made by the codec.
func encoded(codecs *serializer.Registry, caller, i, n int) (tiers.Record, error) {
	return codecs.Encode(key(caller, i, n), value(caller, i), serializer.Options{Codec: "raw"})
}
