package tiertest

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"

	"github.com/sagestore/sagestore/tiers"
)

func batchFlaws() []flaw {
	return []flaw{
		{"saves half of a batch", "batches/a batch is seen by everything", func(f *flawed) {
			f.saveMany = func(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
				saved, err := f.reference.SaveMany(ctx, rs, cs)
				for _, r := range rs[len(rs)/2:] {
					_, _ = f.reference.Delete(ctx, r.Key, tiers.Cond{})
				}
				return saved, err
			}
		}},
		{"leaves absent keys out", "batches/batches align with their arguments", func(f *flawed) {
			f.loadMany = func(ctx context.Context, ks []tiers.Key) ([]tiers.Record, error) {
				rs, err := f.reference.LoadMany(ctx, ks)
				return slices.DeleteFunc(rs, func(r tiers.Record) bool { return r.Version == 0 }), err
			}
		}},
		{"can't do nothing", "batches/an empty batch does nothing", func(f *flawed) {
			f.saveMany = func(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
				_ = rs[0]
				return f.reference.SaveMany(ctx, rs, cs)
			}
		}},
		{"saves a batch backwards", "batches/a key twice in a batch is done in turn", func(f *flawed) {
			f.saveMany = func(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
				rs, cs = slices.Clone(rs), slices.Clone(cs)
				slices.Reverse(rs)
				slices.Reverse(cs)
				saved, err := f.reference.SaveMany(ctx, rs, cs)
				slices.Reverse(saved)
				return saved, err
			}
		}},
		{"does not say which item failed", "batches/conditions of a batch hold item by item", func(f *flawed) {
			f.saveMany = func(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
				saved, err := f.reference.SaveMany(ctx, rs, cs)
				if errors.Is(err, tiers.ErrConflict) {
					err = tiers.ErrConflict
				}
				return saved, err
			}
		}},
		{"keeps what went well of an atomic batch", "batches/an atomic batch is all or nothing", func(f *flawed) {
			f.saveMany = func(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
				out := make([]tiers.Record, len(rs))
				var errs []error
				for i, r := range rs {
					var err error
					if out[i], err = f.reference.Save(ctx, r, at(cs, i)); err != nil {
						errs = append(errs, err)
					}
				}
				return out, errors.Join(errs...)
			}
		}},
		{"gives up a load of many for one bad key", "batches/a bad key in load many spoils no other", func(f *flawed) {
			f.loadMany = func(ctx context.Context, ks []tiers.Key) ([]tiers.Record, error) {
				rs, err := f.reference.LoadMany(ctx, ks)
				if err != nil {
					rs = make([]tiers.Record, len(ks))
				}
				return rs, err
			}
		}},
		{"merges batches and loses some", "batches/many batches at once lose nothing", func(f *flawed) {
			f.saveMany = func(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
				before := map[tiers.Key]tiers.Record{}
				f.inside(func() { before = maps.Clone(f.records) })
				runtime.Gosched()
				saved, err := f.reference.SaveMany(ctx, rs, cs)
				f.inside(func() {
					for _, r := range saved {
						before[r.Key] = r
					}
					f.records = before
				})
				return saved, err
			}
		}},
		{"does not number a batch", "versions/versions grow in batches", func(f *flawed) {
			f.saveMany = func(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
				saved, err := f.reference.SaveMany(ctx, rs, cs)
				for _, r := range rs {
					f.change(r.Key, func(stored *tiers.Record) { stored.Version = 1 })
				}
				return saved, err
			}
		}},
	}
}
