package database

import (
	"context"
	"database/sql/driver"
	"iter"
	"slices"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

func scanRow(row []driver.Value) (r tiers.Row, err error) {
	for i, s := range []*string{&r.Tier, &r.Namespace, &r.Category, &r.Name, &r.Owner} {
		*s, _ = row[1+i].(string)
	}
	r.Codec, _ = row[8].(string)
	n := func(i int) int64 {
		v, _ := row[i].(int64)
		return v
	}
	r.Seq = uint64(n(0)) //nolint:gosec // counted from 1
	if over, set := row[6].(int64); set {
		r.Over = tiers.If(tiers.Version(over)) //nolint:gosec // written from a version
	}
	r.Deleted = n(7) != 0
	r.Schema = uint32(n(9))          //nolint:gosec // written from a uint32
	r.Flags = tiers.Flags(n(10))     //nolint:gosec // written from a byte
	r.Version = tiers.Version(n(11)) //nolint:gosec // written from a version
	r.Created = tiers.FromMicro(n(12))
	r.Updated = tiers.FromMicro(n(13))
	r.Expires = tiers.FromMicro(n(14))
	value, _ := row[15].([]byte)
	r.Value = notNil(value)
	return r, nil
}

// Pending implements tiers.Journal.
func (t *Tier) Pending(ctx context.Context, tier string, k tiers.Key) (tiers.Row, error) {
	r, found, err := t.pending(ctx, rowKey{tier, k})
	if err != nil {
		return tiers.Row{}, t.failed("load pending", k, err)
	}
	if !found {
		return tiers.Row{}, t.fail("load pending", k, tiers.ErrNotFound)
	}
	return r, nil
}

// pending answers the row of a key.
func (t *Tier) pending(ctx context.Context, k rowKey) (r tiers.Row, found bool, err error) {
	for last := int64(0); ; {
		if _, err := t.changes(ctx); err != nil {
			return r, false, err
		}
		seq := t.waiting.find(k)
		if seq == last {
			if last != 0 { // it has left, and no other one came
				t.waiting.remove([]placed{{seq: last, rowKey: k}})
			}
			return r, false, nil
		}
		if r, found, err = t.rowAt(ctx, seq); err != nil || found {
			return r, found, err
		}
		last = seq
	}
}

// rowAt answers the row with that seq, unless it has left.
func (t *Tier) rowAt(ctx context.Context, seq int64) (r tiers.Row, found bool, err error) {
	err = t.read(ctx, func(c *conn) error {
		row, err := c.first(context.WithoutCancel(ctx), rowAt, seq)
		if found = row != nil; err != nil || !found {
			return err
		}
		r, err = scanRow(row)
		return err
	})
	return r, found, err
}

// Waits implements tiers.Waiter.
func (t *Tier) Waits(tier string, k tiers.Key) bool { return t.waiting.find(rowKey{tier, k}) != 0 }

// ListPending implements tiers.Journal.
func (t *Tier) ListPending(ctx context.Context, tier string, q tiers.Query) iter.Seq2[tiers.Row, error] {
	return func(yield func(tiers.Row, error) bool) {
		space := tiers.Space{Namespace: q.Namespace, Category: q.Category}
		failed := func(err error) {
			yield(tiers.Row{}, t.failed("list pending", tiers.Key{Namespace: q.Namespace, Category: q.Category}, err))
		}
		low, high := bounds(q)
		for left := q.Limit; low < high; {
			if _, err := t.changes(ctx); err != nil {
				failed(err)
				return
			}
			names := t.waiting.among(tier, space, low, high, q.Reverse, pageRows)
			for _, name := range names {
				row, found, err := t.pending(ctx, rowKey{tier, tiers.Key{Namespace: q.Namespace, Category: q.Category, Name: name}})
				if err != nil {
					failed(err)
					return
				}
				if !found {
					continue
				}
				if !yield(row, nil) {
					return
				}
				if left--; left == 0 {
					return
				}
			}
			if len(names) < pageRows {
				return
			}
			if last := names[len(names)-1]; q.Reverse {
				high = last
			} else {
				low = last + "\x00"
			}
		}
	}
}

// Due implements tiers.Journal.
func (t *Tier) Due(ctx context.Context, tier string, after uint64, limit int) (due []tiers.Row, err error) {
	if limit <= 0 {
		return nil, engine.Over(ctx)
	}
	if _, err = t.changes(ctx); err == nil {
		due, err = t.due(ctx, tier, int64(min(after, 1<<62)), limit)
	}
	if err == nil && len(due) > 0 {
		err = t.syncLog()
	}
	if err != nil {
		return nil, t.failed("list due", tiers.Key{}, err)
	}
	return due, nil
}

func (t *Tier) due(ctx context.Context, tier string, after int64, limit int) (due []tiers.Row, err error) {
	first := after == 0
	for len(due) < limit {
		seqs := t.waiting.due(tier, after, limit)
		if len(seqs) == 0 {
			break
		}
		err := t.read(ctx, func(c *conn) error {
			due = slices.Clip(due)
			found, err := rowsAt(ctx, c, tier, seqs, limit-len(due))
			if err == nil {
				due = append(due, found...)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		after = seqs[len(seqs)-1]
		switch {
		case !first:
		case len(due) == 0:
			t.waiting.left(tier, after)
		default:
			t.waiting.left(tier, int64(due[0].Seq)-1) //nolint:gosec // counted from 1
			first = false
		}
	}
	return due, nil
}

// rowsAt answers up to limit rows of a tier of those with these seqs that are still
// there: one by one where other rows lie in between, since values are large.
func rowsAt(ctx context.Context, c *conn, tier string, seqs []int64, limit int) (found []tiers.Row, err error) {
	first, last := seqs[0], seqs[len(seqs)-1]
	if last-first < int64(4*len(seqs)) {
		return rows(ctx, c, rowsAmong, []driver.Value{first, last, tier, int64(limit)}, scanRow)
	}
	for _, seq := range seqs {
		row, err := c.first(ctx, rowAt, seq)
		if err != nil {
			return nil, err
		}
		if row == nil {
			continue
		}
		r, err := scanRow(row)
		if err != nil {
			return nil, err
		}
		if found = append(found, r); len(found) == limit {
			break
		}
	}
	return found, nil
}

// Backlog implements tiers.Journal.
func (t *Tier) Backlog(ctx context.Context, tier string) (b tiers.Backlog, err error) {
	if _, err = t.changes(ctx); err == nil {
		b, err = t.backlog(ctx, tier)
	}
	if err == nil && t.waiting.crowded(tier, b.Rows) {
		err = t.keepPlaces(ctx)
	}
	if err != nil {
		return tiers.Backlog{}, t.failed("measure", tiers.Key{}, err)
	}
	return b, nil
}

func (t *Tier) backlog(ctx context.Context, tier string) (b tiers.Backlog, err error) {
	err = t.read(ctx, func(c *conn) error {
		b = tiers.Backlog{}
		all, err := sumsNow(ctx, c)
		if err != nil || all[tier] == nil {
			return err
		}
		b.Rows, b.Bytes = all[tier].entries, all[tier].bytes
		return nil
	})
	if err != nil || b.Rows == 0 {
		return b, err
	}
	return b, t.read(ctx, func(c *conn) error {
		for after := int64(0); ; {
			seqs := t.waiting.due(tier, after, pageRows)
			for _, seq := range seqs {
				if queued, err := c.number(ctx, queuedAt, seq); err != nil || queued != 0 {
					b.Oldest = tiers.FromMicro(queued)
					return err
				}
			}
			if len(seqs) == 0 {
				return nil
			}
			after = seqs[len(seqs)-1]
		}
	})
}
