package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

// Atomic implements tiers.Batcher: a batch is all or nothing.
func (t *Tier) Atomic() bool { return true }

// SaveMany implements tiers.Batcher.
func (t *Tier) SaveMany(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
	out := make([]tiers.Record, len(rs))
	if err := engine.Aligned(len(rs), len(cs)); err != nil {
		return out, t.fail("save", tiers.Key{}, err)
	}
	ps, bytes, err := t.prepareAll("save", rs)
	if err != nil || len(rs) == 0 {
		return out, err
	}
	cs = slices.Clone(cs) // the writer may still be at work when the caller has gone
	var saved []tiers.Record
	err = t.writer.do(ctx, &job{bytes: bytes, several: true, run: func(tx *tx) error {
		saved = make([]tiers.Record, len(ps))
		return each(len(ps), func(i int) (err error) {
			saved[i], err = tx.save(ps[i], tiers.CondAt(cs, i))
			return t.itemError("save", ps[i].Key, err)
		})
	}})
	if err != nil {
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
	if err := t.checkAll("delete", ks); err != nil || len(ks) == 0 {
		return out, err
	}
	ks, cs = slices.Clone(ks), slices.Clone(cs)
	var existed []bool
	err := t.writer.do(ctx, &job{bytes: 64 * len(ks), several: true, run: func(tx *tx) error {
		existed = make([]bool, len(ks))
		return each(len(ks), func(i int) (err error) {
			existed[i], err = tx.remove(ks[i], tiers.CondAt(cs, i))
			return t.itemError("delete", ks[i], err)
		})
	}})
	if err != nil {
		return out, t.batchFailed("delete", err)
	}
	return existed, nil
}

const (
	storedVersion = `SELECT version, expires, flags FROM records WHERE namespace = ? AND category = ? AND key = ?`
	applyRow      = `INSERT OR REPLACE INTO records
		(namespace, category, key, codec, schema, flags, version, created, updated, expires, value)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

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
	err = t.writer.do(ctx, &job{bytes: bytes, several: true, run: func(tx *tx) error {
		for i, p := range ps {
			if err := tx.apply(p, tiers.CondAt(over, i)); err != nil {
				return err
			}
		}
		if slices.ContainsFunc(ps, func(p *packed) bool { return p.found == nil && !p.Deleted }) {
			return tx.raiseGaps()
		}
		return nil
	}})
	if err != nil {
		return t.batchFailed("apply", err)
	}
	return nil
}

func (x *tx) apply(p *packed, c tiers.Cond) error {
	x.mark = max(x.mark, p.Version)
	now := x.clock.Now()
	row, err := x.first(storedVersion, p.Namespace, p.Category, p.Name)
	if err != nil {
		return err
	}
	var flags int64
	var stored, live tiers.Version
	if row != nil {
		version, _ := row[0].(int64)
		expires, _ := row[1].(int64)
		flags, _ = row[2].(int64)
		stored = tiers.Version(version) //nolint:gosec // written from a version
		if expires == 0 || expires > now.UnixMicro() {
			live = stored
		}
	}
	if _, conditional := c.Version(); conditional {
		if refused := c.Holds(live); refused != nil {
			return nil //nolint:nilerr // a record that is passed over is no error
		}
	} else if stored > p.Version {
		return nil
	}
	if p.Deleted || !p.Live(now) {
		if row == nil {
			return nil
		}
		delete(x.pending, flags>>flagBits)
		_, err := x.exec(deleteRow, p.Namespace, p.Category, p.Name)
		return err
	}
	if flags >= isIndexed {
		delete(x.pending, flags>>flagBits)
		// What REPLACE removes, no trigger sees.
		if _, err := x.exec(deleteRow, p.Namespace, p.Category, p.Name); err != nil {
			return err
		}
	}
	if err := x.settle(p.found); err != nil {
		return err
	}
	args := []driver.Value{
		p.Namespace, p.Category, p.Name, p.Codec, int64(p.Schema), p.flags(),
		micro(p.Version), tiers.ToMicro(p.Created), tiers.ToMicro(p.Updated), tiers.ToMicro(p.Expires), p.value,
	}
	if _, err = x.exec(applyRow, args...); err != nil {
		return err
	}
	x.index(p.found)
	return nil
}

// prepareAll makes all records ready, or answers what is wrong with each.
func (t *Tier) prepareAll(op string, rs []tiers.Record) (ps []*packed, bytes int, err error) {
	ps = make([]*packed, len(rs))
	err = each(len(rs), func(i int) (err error) {
		if ps[i], err = t.prepare(&rs[i]); err == nil {
			bytes += ps[i].bytes()
		}
		return t.fail(op, rs[i].Key, err)
	})
	return ps, bytes, err
}

func (t *Tier) checkAll(op string, ks []tiers.Key) error {
	return each(len(ks), func(i int) error { return t.fail(op, ks[i], ks[i].Check()) })
}

// itemError gives the answer to one item its key. An error of SQLite's stays
// bare: it is about the transaction.
func (t *Tier) itemError(op string, k tiers.Key, err error) error {
	if codeOf(err) != 0 {
		return err
	}
	return t.fail(op, k, err)
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

// each is [engine.Each]; an error of SQLite's ends it.
func each(n int, fn func(i int) error) error {
	return engine.Each(n, func(err error) bool { return codeOf(err) != 0 }, fn)
}
