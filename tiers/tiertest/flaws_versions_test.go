package tiertest

import (
	"context"
	"errors"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func versionFlaws() []flaw {
	return []flaw{
		{"counts versions from 1 for each new record", "versions/versions grow across delete and re-create", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				old, _ := f.reference.Load(ctx, r.Key)
				saved, err := f.reference.Save(ctx, r, c)
				saved.Version = old.Version + 1
				f.change(r.Key, func(stored *tiers.Record) { stored.Version = old.Version + 1 })
				return saved, err
			}
		}},
		{"takes the clock for the version", "versions/versions grow with every save", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				f.inside(func() { f.high = 0 })
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"trusts the clock for a new key", "versions/versions grow when the clock is set back", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				f.inside(func() { f.high = f.records[r.Key].Version })
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"forgets the highest version at Close", "versions/versions grow across opening again", func(f *flawed) {
			f.end = func(ctx context.Context) error {
				f.inside(func() { f.high = 0 })
				return f.reference.Close(ctx)
			}
		}},
		{"forgets created", "versions/created stays and updated moves", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				saved, err := f.reference.Save(ctx, r, c)
				saved.Created = saved.Updated
				f.change(r.Key, func(stored *tiers.Record) { stored.Created = stored.Updated })
				return saved, err
			}
		}},
		{"counts versions by one", "versions/versions fit a JSON number and follow the clock", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				saved, err := f.reference.Save(ctx, r, c)
				saved.Version = 1
				return saved, err
			}
		}},
		{"swallows a conflict", "conditions/if-version saves over that version only", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				saved, err := f.reference.Save(ctx, r, c)
				if errors.Is(err, tiers.ErrConflict) {
					return r, nil
				}
				return saved, err
			}
		}},
		{"creates over a version that is not there", "conditions/if-version of an absent key is a conflict", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				if _, err := f.reference.Load(ctx, r.Key); errors.Is(err, tiers.ErrNotFound) {
					c = tiers.Cond{}
				}
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"answers a conflict for what exists", "conditions/if-absent saves once", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				saved, err := f.reference.Save(ctx, r, c)
				if errors.Is(err, tiers.ErrExists) {
					err = tiers.ErrConflict
				}
				return saved, err
			}
		}},
		{"takes an expired record for present", "conditions/if-absent sees an expired record as absent", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				var there bool
				f.inside(func() { _, there = f.records[r.Key] })
				if v, ok := c.Version(); ok && v == 0 && there {
					return tiers.Record{}, tiers.Fail("save", "flawed", r.Key, tiers.ErrExists)
				}
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"ignores the condition of a delete", "conditions/conditional delete", func(f *flawed) {
			f.remove = func(ctx context.Context, k tiers.Key, _ tiers.Cond) (bool, error) {
				return f.reference.Delete(ctx, k, tiers.Cond{})
			}
		}},
		{"checks, then saves", "conditions/no read-modify-write is lost", checksThenSaves},
		{"checks absence, then saves", "conditions/one of many wins if-absent", checksThenSaves},
		{"checks, then saves, seen by the checker", "linearizability/one key is linearizable", checksThenSaves},
	}
}

func checksThenSaves(f *flawed) {
	f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
		if _, conditional := c.Version(); conditional {
			old, _ := f.reference.Load(ctx, r.Key)
			if err := c.Holds(old.Version); err != nil {
				return tiers.Record{}, tiers.Fail("save", "flawed", r.Key, err)
			}
			time.Sleep(100 * time.Microsecond) // for others to check as well, also where they share a processor
		}
		return f.reference.Save(ctx, r, tiers.Cond{})
	}
}
