package main

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/sagestore/sagestore/tiers/memory"
)

func memoryComparisons() []comparison {
	const small, large = 10_000, 40_000
	open := func(budget int64, fillN int, mine func(*memory.Tier) op, rawOp func(*ristretto.Cache[string, []byte]) op) func(context.Context, string) (op, op, func(), error) {
		return func(ctx context.Context, _ string) (op, op, func(), error) {
			t, err := memory.New(memory.Options{Budget: budget})
			if err != nil {
				return nil, nil, nil, err
			}
			c, err := ristretto.NewCache(&ristretto.Config[string, []byte]{NumCounters: 10 * large, MaxCost: budget, BufferItems: 64})
			if err != nil {
				return nil, nil, nil, err
			}
			if err := fill(ctx, t, fillN); err != nil {
				return nil, nil, nil, err
			}
			for i := range fillN {
				c.SetWithTTL(name(0, i, fillN), value(0, i), valueSize, time.Hour)
			}
			c.Wait()
			return mine(t), rawOp(c), func() { closer(t)(); c.Close() }, nil
		}
	}
	rawSave := func(n int) func(*ristretto.Cache[string, []byte]) op {
		return func(c *ristretto.Cache[string, []byte]) op {
			return func(_ context.Context, caller, i int) error {
				c.SetWithTTL(name(caller, i, n), value(caller, i), valueSize, time.Hour)
				return nil
			}
		}
	}
	rawLoad := func(n int) func(*ristretto.Cache[string, []byte]) op {
		return func(c *ristretto.Cache[string, []byte]) op {
			return func(_ context.Context, caller, i int) error {
				if v, ok := c.Get(name(caller, i, n)); ok && len(v) != valueSize {
					return errors.New("a value of another length")
				}
				return nil
			}
		}
	}
	rawCopy := func(n int) func(*ristretto.Cache[string, []byte]) op {
		return func(c *ristretto.Cache[string, []byte]) op {
			return func(_ context.Context, caller, i int) error {
				v, ok := c.Get(name(caller, i, n))
				if v = bytes.Clone(v); ok && len(v) != valueSize {
					return errors.New("a value of another length")
				}
				return nil
			}
		}
	}
	lend := func(n int) func(*memory.Tier) op {
		return func(t *memory.Tier) op {
			return func(ctx context.Context, caller, i int) error {
				_, err := t.Lend(ctx, key(caller, i, n))
				return err
			}
		}
	}
	return []comparison{
		{
			work: "memory save, 8 callers", against: "ristretto SetWithTTL", callers: 8, must: 1.5, aim: 1,
			setup: open(256<<20, small, func(t *memory.Tier) op { return saves(t, small) }, rawSave(small)),
		},
		{
			// A load answers a value of the caller's own; ristretto lends the one
			// that is stored. So each is compared with its like, and the two are
			// compared without a bound.
			work: "memory load, 8 callers", against: "ristretto Get and a copy", callers: 8, must: 1.3, aim: 1,
			setup: open(256<<20, small, func(t *memory.Tier) op { return loads(t, small) }, rawCopy(small)),
		},
		{
			work: "memory load without a copy, 8 callers", against: "ristretto Get", callers: 8, must: 1.3, aim: 1,
			setup: open(256<<20, small, lend(small), rawLoad(small)),
		},
		{
			work: "memory load with its copy, 8 callers", against: "ristretto Get", callers: 8,
			setup: open(256<<20, small, func(t *memory.Tier) op { return loads(t, small) }, rawLoad(small)),
		},
		{
			work: "memory save at twice the budget", against: "ristretto SetWithTTL", callers: 8, must: 5, aim: 3,
			setup: open(large*valueSize/2, large, func(t *memory.Tier) op { return saves(t, large) }, rawSave(large)),
		},
	}
}
