package tiertest

import (
	"context"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func applyFlaws() []flaw {
	each := func(edit func(f *flawed, r *tiers.Record, over *tiers.Cond) (skip bool)) func(f *flawed) {
		return func(f *flawed) {
			f.apply = func(ctx context.Context, rs []tiers.Record, over []tiers.Cond) error {
				for i, r := range rs {
					c := at(over, i)
					if edit(f, &r, &c) {
						continue
					}
					if err := f.reference.Apply(ctx, []tiers.Record{r}, []tiers.Cond{c}); err != nil {
						return err
					}
				}
				return ctx.Err()
			}
		}
	}
	return []flaw{
		{"gives applied records a version of its own", "apply/applied records are stored as they are", each(func(_ *flawed, r *tiers.Record, _ *tiers.Cond) bool {
			r.Version += 5
			return false
		})},
		{"applies over newer ones", "apply/apply keeps what is newer", each(func(f *flawed, r *tiers.Record, _ *tiers.Cond) bool {
			f.inside(func() { delete(f.records, r.Key) })
			return false
		})},
		{"deletes whatever the version", "apply/an applied delete follows the same rule", each(func(f *flawed, r *tiers.Record, _ *tiers.Cond) bool {
			if r.Deleted {
				f.inside(func() { delete(f.records, r.Key) })
			}
			return r.Deleted
		})},
		{"ignores the condition of apply", "apply/a condition replaces the rule", each(func(_ *flawed, _ *tiers.Record, c *tiers.Cond) bool {
			*c = tiers.Cond{}
			return false
		})},
		{"passes expired records over", "apply/an expired applied record is a delete", each(func(f *flawed, r *tiers.Record, _ *tiers.Cond) bool {
			return !r.Live(f.clock.Now())
		})},
		{"renews the time of applied records", "apply/an applied expiry is an instant", each(func(_ *flawed, r *tiers.Record, _ *tiers.Cond) bool {
			if !r.Expires.IsZero() {
				r.Expires = r.Expires.Add(time.Hour)
			}
			return false
		})},
		{"issues versions below applied ones", "apply/later saves get higher versions than applied ones", func(f *flawed) {
			f.apply = func(ctx context.Context, rs []tiers.Record, over []tiers.Cond) error {
				var high tiers.Version
				f.inside(func() { high = f.high })
				err := f.reference.Apply(ctx, rs, over)
				f.inside(func() { f.high = high })
				return err
			}
		}},
		{"applies twice as two", "apply/apply is idempotent", each(func(f *flawed, r *tiers.Record, _ *tiers.Cond) bool {
			f.change(r.Key, func(stored *tiers.Record) {
				if stored.Version == r.Version {
					r.Value = append(stored.Value, r.Value...)
				}
			})
			return false
		})},
		{"compares with expired records", "apply/an expired record gives way to any applied one", each(func(f *flawed, r *tiers.Record, c *tiers.Cond) bool {
			var there bool
			f.inside(func() { _, there = f.records[r.Key] })
			v, ok := c.Version()
			return ok && v == 0 && there
		})},
	}
}
