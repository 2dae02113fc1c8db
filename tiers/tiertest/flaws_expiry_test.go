package tiertest

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func expiryFlaws() []flaw {
	return []flaw{
		{"loads expired records", "expiry/an expired record is absent for everything", func(f *flawed) {
			f.load = func(_ context.Context, k tiers.Key) (r tiers.Record, err error) {
				err = tiers.Fail("load", "flawed", k, tiers.ErrNotFound)
				f.change(k, func(stored *tiers.Record) { r, err = copied(*stored), nil })
				return r, err
			}
		}},
		{"lists expired records", "expiry/a list is the first to see an expired record", func(f *flawed) {
			f.list = func(_ context.Context, _ tiers.Query) iter.Seq2[tiers.Record, error] {
				return func(yield func(tiers.Record, error) bool) {
					var found []tiers.Record
					f.inside(func() { found = slices.Collect(maps.Values(f.records)) })
					slices.SortFunc(found, func(a, b tiers.Record) int { return strings.Compare(a.Name, b.Name) })
					for _, r := range found {
						if !yield(r, nil) {
							return
						}
					}
				}
			}
		}},
		{"ends a list at the first expired page", "expiry/a limited list reads past expired records", func(f *flawed) {
			f.list = func(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
				n := 0
				f.inside(func() {
					for _, r := range f.records {
						if !r.Live(f.clock.Now()) {
							n++
						}
					}
				})
				if q.Limit > 0 && n >= q.Limit {
					return func(func(tiers.Record, error) bool) {}
				}
				return f.reference.List(ctx, q)
			}
		}},
		{"keeps seconds only", "expiry/expires is the tier's time plus the TTL", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				saved, err := f.reference.Save(ctx, r, c)
				saved.Expires = saved.Expires.Truncate(time.Second)
				f.change(r.Key, func(stored *tiers.Record) { stored.Expires = saved.Expires })
				return saved, err
			}
		}},
		{"looks at the wrong clock", "expiry/expires is the tier's time plus the TTL", func(f *flawed) {
			f.clock = tiers.SystemClock()
		}},
		{"stores a negative TTL for ever", "expiry/a negative TTL makes the key absent at once", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				r.TTL = max(r.TTL, 0)
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"passes a negative TTL over", "expiry/a negative TTL makes the key absent at once", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				if r.TTL < 0 {
					return r, nil
				}
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"rounds a short TTL to none", "expiry/a TTL below a millisecond expires", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				r.TTL = r.TTL.Truncate(time.Millisecond)
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"has a default TTL", "expiry/no TTL is no TTL", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				if r.TTL == 0 {
					r.TTL = 24 * time.Hour
				}
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"keeps the TTL of before", "expiry/a save without TTL clears an earlier one", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				old, _ := f.reference.Load(ctx, r.Key)
				saved, err := f.reference.Save(ctx, r, c)
				if r.TTL == 0 {
					f.change(r.Key, func(stored *tiers.Record) { stored.Expires = old.Expires })
				}
				return saved, err
			}
		}},
		{"never shortens a TTL", "expiry/a save renews or shortens the TTL", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				old, _ := f.reference.Load(ctx, r.Key)
				saved, err := f.reference.Save(ctx, r, c)
				if old.Expires.After(saved.Expires) {
					f.change(r.Key, func(stored *tiers.Record) { stored.Expires = old.Expires })
				}
				return saved, err
			}
		}},
		{"keeps a year at most", "expiry/a TTL of ten years holds that long", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				r.TTL = min(r.TTL, 365*24*time.Hour)
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"forgets expiry at Close", "expiry/expiry survives opening again", func(f *flawed) {
			f.end = func(ctx context.Context) error {
				f.inside(func() {
					for k, r := range f.records {
						r.Expires = time.Time{}
						f.records[k] = r
					}
				})
				return f.reference.Close(ctx)
			}
		}},
		{"revives by touch", "expiry/touch does not revive", func(f *flawed) {
			f.touch = func(_ context.Context, k tiers.Key, ttl time.Duration) (there bool, err error) {
				f.change(k, func(stored *tiers.Record) {
					there = true
					stored.Expires = tiers.Deadline(f.clock.Now(), ttl)
				})
				return there, nil
			}
		}},
		{"counts a touch as a save", "expiry/touch changes expiry alone", func(f *flawed) {
			f.touch = func(ctx context.Context, k tiers.Key, ttl time.Duration) (bool, error) {
				there, err := f.reference.Touch(ctx, k, ttl)
				f.change(k, func(stored *tiers.Record) { stored.Version = f.next(f.clock.Now()) })
				return there, err
			}
		}},
		{"inherits a touched expiry", "model/random programs agree with a plain map", func(f *flawed) {
			touched := map[tiers.Key]time.Time{}
			f.touch = func(ctx context.Context, k tiers.Key, ttl time.Duration) (bool, error) {
				there, err := f.reference.Touch(ctx, k, ttl)
				f.change(k, func(stored *tiers.Record) { touched[k] = stored.Expires })
				return there, err
			}
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				saved, err := f.reference.Save(ctx, r, c)
				f.change(r.Key, func(stored *tiers.Record) {
					if at, ok := touched[r.Key]; ok && r.TTL == 0 && saved.Version != 0 {
						stored.Expires = at
					}
				})
				return saved, err
			}
		}},
	}
}
