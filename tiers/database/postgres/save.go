package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

var (
	_ tiers.Tier    = (*Tier)(nil)
	_ tiers.Batcher = (*Tier)(nil)
	_ tiers.Applier = (*Tier)(nil)
	_ tiers.Toucher = (*Tier)(nil)
)

// Save implements tiers.Tier.
func (t *Tier) Save(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
	p, err := t.prepare(&r)
	if err != nil {
		return tiers.Record{}, t.fail("save", r.Key, err)
	}
	j := &job{bytes: p.bytes()}
	var saved tiers.Record
	j.run = func(x *tx) (err error) {
		saved, err = x.save(p, c)
		return err
	}
	if _, conditional := c.Version(); conditional {
		j.wants = func(w *wants) { w.records[p.Key] = true }
	} else if ps := []*packed{p}; fits(ps) {
		j.plain, j.stored = ps, func(_ int, r tiers.Record) { saved = r }
	}
	j.after = func(x *tx) { x.complete(&saved) }
	if err := t.writer.do(ctx, j); err != nil {
		return tiers.Record{}, t.failed("save", r.Key, err)
	}
	saved.Value = r.Value
	return saved, nil
}

// Delete implements tiers.Tier.
func (t *Tier) Delete(ctx context.Context, k tiers.Key, c tiers.Cond) (existed bool, err error) {
	if err := k.Check(); err != nil {
		return false, t.fail("delete", k, err)
	}
	var was bool
	err = t.writer.do(ctx, &job{
		bytes: len(k.Name),
		wants: func(w *wants) { w.records[k] = true },
		run: func(x *tx) (err error) {
			was, err = x.remove(k, c)
			return err
		},
	})
	if err != nil {
		return false, t.failed("delete", k, err)
	}
	return was, nil
}

// Touch implements tiers.Toucher.
func (t *Tier) Touch(ctx context.Context, k tiers.Key, ttl time.Duration) (existed bool, err error) {
	if err := k.Check(); err != nil {
		return false, t.fail("touch", k, err)
	}
	var was bool
	err = t.writer.do(ctx, &job{
		bytes: len(k.Name),
		wants: func(w *wants) { w.records[k] = true },
		run: func(x *tx) (err error) {
			was, err = x.touch(k, ttl)
			return err
		},
	})
	if err != nil {
		return false, t.failed("touch", k, err)
	}
	return was, nil
}

// Atomic implements tiers.Batcher: a batch is all or nothing.
func (t *Tier) Atomic() bool { return true }

// SaveMany implements tiers.Batcher.
func (t *Tier) SaveMany(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
	out := make([]tiers.Record, len(rs))
	if err := engine.Aligned(len(rs), len(cs)); err != nil {
		return out, t.fail("save", tiers.Key{}, err)
	}
	ps, bytes, err := t.prepareAll("save", rs)
	if err != nil {
		return out, err
	}
	if len(rs) == 0 {
		return out, engine.Over(ctx)
	}
	var saved []tiers.Record
	j := &job{bytes: bytes}
	j.run = func(x *tx) error {
		saved = make([]tiers.Record, len(ps))
		return engine.Each(len(ps), nil, func(i int) (err error) {
			saved[i], err = x.save(ps[i], tiers.CondAt(cs, i))
			return t.fail("save", ps[i].Key, err)
		})
	}
	if len(cs) > 0 {
		cs = slices.Clone(cs)
		j.wants = func(w *wants) {
			for _, p := range ps {
				w.records[p.Key] = true
			}
		}
	} else if fits(ps) {
		j.plain, j.stored = ps, func(i int, r tiers.Record) { saved[i] = r }
		saved = make([]tiers.Record, len(ps))
	}
	j.after = func(x *tx) {
		for i := range saved {
			x.complete(&saved[i])
		}
	}
	if err := t.writer.do(ctx, j); err != nil {
		return out, t.batchFailed("save", err)
	}
	for i, r := range rs {
		saved[i].Value = r.Value
	}
	return saved, nil
}

// DeleteMany implements tiers.Batcher.
func (t *Tier) DeleteMany(ctx context.Context, ks []tiers.Key, cs []tiers.Cond) ([]bool, error) {
	out := make([]bool, len(ks))
	if err := engine.Aligned(len(ks), len(cs)); err != nil {
		return out, t.fail("delete", tiers.Key{}, err)
	}
	if err := engine.Each(len(ks), nil, func(i int) error { return t.fail("delete", ks[i], ks[i].Check()) }); err != nil {
		return out, err
	}
	if len(ks) == 0 {
		return out, engine.Over(ctx)
	}
	ks, cs = slices.Clone(ks), slices.Clone(cs)
	var existed []bool
	err := t.writer.do(ctx, &job{
		bytes: 64 * len(ks),
		wants: func(w *wants) {
			for _, k := range ks {
				w.records[k] = true
			}
		},
		run: func(x *tx) error {
			existed = make([]bool, len(ks))
			return engine.Each(len(ks), nil, func(i int) (err error) {
				existed[i], err = x.remove(ks[i], tiers.CondAt(cs, i))
				return t.fail("delete", ks[i], err)
			})
		},
	})
	if err != nil {
		return out, t.batchFailed("delete", err)
	}
	return existed, nil
}

// maxVersion bounds the versions that Apply takes: no clock gets there, and there
// is room to go on counting.
const maxVersion = 1 << 60

// Apply implements tiers.Applier, all or nothing.
func (t *Tier) Apply(ctx context.Context, rs []tiers.Record, over []tiers.Cond) error {
	if err := engine.Aligned(len(rs), len(over)); err != nil {
		return t.fail("apply", tiers.Key{}, err)
	}
	ps, bytes, err := t.prepareAll("apply", rs)
	if err != nil || len(rs) == 0 {
		return err
	}
	for _, p := range ps {
		if p.Version == 0 || p.Version > maxVersion {
			return t.fail("apply", p.Key, fmt.Errorf("%w: it comes with the impossible version %d", tiers.ErrCorrupt, p.Version))
		}
	}
	over = slices.Clone(over)
	err = t.writer.do(ctx, &job{
		bytes: bytes,
		wants: func(w *wants) {
			for _, p := range ps {
				w.records[p.Key] = true
			}
		},
		run: func(x *tx) error {
			for i, p := range ps {
				if err := x.apply(p, tiers.CondAt(over, i)); err != nil {
					return err
				}
			}
			if mark := x.mark; mark > x.stored { // although nothing may be stored
				x.change(func() {})
			}
			if slices.ContainsFunc(ps, func(p *packed) bool { return p.found == nil && !p.Deleted }) {
				x.raiseGaps()
			}
			return nil
		},
	})
	if err != nil {
		return t.batchFailed("apply", err)
	}
	return nil
}

// raiseGaps notes that records have come without what they are found by.
func (x *tx) raiseGaps() {
	was := x.gaps
	x.change(func() { x.gaps = was })
	x.gaps = true
}

// prepareAll makes all records ready, or answers what is wrong with each.
func (t *Tier) prepareAll(op string, rs []tiers.Record) (ps []*packed, bytes int, err error) {
	ps = make([]*packed, len(rs))
	err = engine.Each(len(rs), nil, func(i int) (err error) {
		if ps[i], err = t.prepare(&rs[i]); err == nil {
			bytes += ps[i].bytes()
		}
		return t.fail(op, rs[i].Key, err)
	})
	return ps, bytes, err
}

func (t *Tier) batchFailed(op string, err error) error {
	if !engine.IsAnswer(err) {
		t.failures.Add(1)
	}
	if items := engine.ItemErrors(nil); errors.As(err, &items) {
		return err
	}
	return t.fail(op, tiers.Key{}, err)
}
