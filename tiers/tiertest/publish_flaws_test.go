package tiertest

import (
	"context"

	"github.com/sagestore/sagestore/tiers"
)

func publishFlaws() []flaw {
	// changed lets the reference prepare another commit.
	changed := func(edit func(f *flawed, c *tiers.Commit)) func(f *flawed) {
		return func(f *flawed) {
			f.prepare = func(ctx context.Context, c tiers.Commit) (func() []tiers.Record, func(), error) {
				edit(f, &c)
				return f.reference.Prepare(ctx, c)
			}
		}
	}
	ranges := func(edit func(f *flawed, r *tiers.Range)) func(f *flawed) {
		return changed(func(f *flawed, c *tiers.Commit) {
			rs := make([]tiers.Range, len(c.Ranges))
			for i := range rs {
				rs[i] = c.Ranges[i]
				edit(f, &rs[i])
			}
			c.Ranges = rs
		})
	}
	return []flaw{
		{"publishes at once", "publishing/nothing is visible before publish", func(f *flawed) {
			f.prepare = func(ctx context.Context, c tiers.Commit) (func() []tiers.Record, func(), error) {
				publish, _, err := f.reference.Prepare(ctx, c)
				if err != nil {
					return nil, nil, err
				}
				out := publish()
				return func() []tiers.Record { return out }, func() {}, nil
			}
		}},
		{"keeps nobody waiting", "publishing/who reads a prepared key waits", func(f *flawed) { f.prepare = f.checkedTwice }},
		{"lets what was read change", "publishing/a read that is as it was holds until the end", func(f *flawed) { f.prepare = f.checkedTwice }},
		{"loses updates", "publishing/transactions on the same keys are as if one came after the other", changed(func(_ *flawed, c *tiers.Commit) {
			c.Reads = nil
		})},
		{"answers without versions", "publishing/publish answers what it stored", func(f *flawed) {
			f.prepare = func(ctx context.Context, c tiers.Commit) (func() []tiers.Record, func(), error) {
				publish, abort, err := f.reference.Prepare(ctx, c)
				return func() []tiers.Record { publish(); return c.Saves }, abort, err
			}
		}},
		{"publishes on abort", "publishing/abort leaves everything as it was", func(f *flawed) {
			f.prepare = func(ctx context.Context, c tiers.Commit) (func() []tiers.Record, func(), error) {
				publish, _, err := f.reference.Prepare(ctx, c)
				return publish, func() { publish() }, err
			}
		}},
		{"ignores what was read", "publishing/a read that has changed is a conflict with its key", changed(func(_ *flawed, c *tiers.Commit) {
			c.Reads = nil
		})},
		{"stays locked after a conflict", "publishing/a read that has changed is a conflict with its key", func(f *flawed) {
			f.prepare = func(ctx context.Context, c tiers.Commit) (func() []tiers.Record, func(), error) {
				publish, abort, err := f.reference.Prepare(ctx, c)
				if err != nil {
					_, err2 := f.enter(ctx) // locks
					return nil, nil, tiers.Fail("", "", tiers.Key{}, errOr(err, err2))
				}
				return publish, abort, nil
			}
		}},
		{"does not say which key", "publishing/a read that has changed is a conflict with its key", func(f *flawed) {
			f.prepare = func(ctx context.Context, c tiers.Commit) (func() []tiers.Record, func(), error) {
				publish, abort, err := f.reference.Prepare(ctx, c)
				if err != nil {
					err = tiers.ErrConflict
				}
				return publish, abort, err
			}
		}},
		{"ignores ranges", "publishing/a range that has changed is a conflict", changed(func(_ *flawed, c *tiers.Commit) { c.Ranges = nil })},
		{"counts expired records in ranges", "publishing/a range that has changed is a conflict", ranges(func(f *flawed, r *tiers.Range) {
			f.inside(func() {
				clock := f.clock
				f.clock = NewClock(startOfTime())
				if sum := f.digest(*r); sum == r.Sum {
					f.clock = clock
					r.Sum = f.digest(*r)
				}
				f.clock = clock
			})
		})},
		{"looks beyond the end of a range", "publishing/a range is as far as it was read", ranges(func(_ *flawed, r *tiers.Range) { r.End = "" })},
		{"leaves out the end of a range", "publishing/a range is as far as it was read", func(f *flawed) {
			f.prepare = func(ctx context.Context, c tiers.Commit) (func() []tiers.Record, func(), error) {
				for _, r := range c.Ranges {
					if r.Query.Reverse && len(c.Saves) == 0 {
						c.Ranges = nil
						break
					}
				}
				return f.reference.Prepare(ctx, c)
			}
		}},
		{"refuses nothing", "publishing/prepare refuses what save refuses", func(f *flawed) {
			f.prepare = func(ctx context.Context, c tiers.Commit) (func() []tiers.Record, func(), error) {
				publish, abort, err := f.reference.Prepare(ctx, c)
				if err != nil {
					publish, abort = func() []tiers.Record { return nil }, func() {}
				}
				return publish, abort, nil
			}
		}},
	}
}

func errOr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// checkedTwice holds nothing between prepare and publish.
func (f *flawed) checkedTwice(ctx context.Context, c tiers.Commit) (publish func() []tiers.Record, abort func(), err error) {
	_, abort, err = f.reference.Prepare(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	abort()
	return func() (out []tiers.Record) {
		f.inside(func() { out = f.publish(c.Saves) })
		return out
	}, func() {}, nil
}
