package main

import (
	"context"

	"github.com/sagestore/sagestore/tiers"
)

const category = "bench.values"

func key(caller, i, n int) tiers.Key { return tiers.Key{Category: category, Name: name(caller, i, n)} }

func record(caller, i, n int) tiers.Record {
	return tiers.Record{Key: key(caller, i, n), Value: value(caller, i), Codec: "raw", Schema: 1}
}

// saves, loads and their batches are the operations of any tier over n keys.
func saves(t tiers.Tier, n int) op {
	return func(ctx context.Context, caller, i int) error {
		_, err := t.Save(ctx, record(caller, i, n), tiers.Cond{})
		return err
	}
}

func loads(t tiers.Tier, n int) op {
	return func(ctx context.Context, caller, i int) error {
		_, err := t.Load(ctx, key(caller, i, n))
		return err
	}
}

const batch = 100

func saveBatches(t tiers.Tier, n int) op {
	return func(ctx context.Context, caller, i int) error {
		rs := make([]tiers.Record, batch)
		for j := range rs {
			rs[j] = record(caller, i*batch+j, n)
		}
		_, err := tiers.SaveMany(ctx, t, rs, nil)
		return err
	}
}

func loadBatches(t tiers.Tier, n int) op {
	return func(ctx context.Context, caller, i int) error {
		ks := make([]tiers.Key, batch)
		for j := range ks {
			ks[j] = key(caller, i*batch+j, n)
		}
		_, err := tiers.LoadMany(ctx, t, ks)
		return err
	}
}

// fill saves n keys.
func fill(ctx context.Context, t tiers.Tier, n int) error {
	do := saveBatches(t, n)
	for i := range n / batch {
		if err := do(ctx, 0, i); err != nil {
			return err
		}
	}
	return nil
}

func closer(ts ...tiers.Tier) func() {
	return func() {
		for _, t := range ts {
			_ = t.Close(context.Background())
		}
	}
}
