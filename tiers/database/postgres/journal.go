package postgres

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

const (
	rowColumns = `seq, tier, namespace, category, key, owner, over, deleted, codec, schema, flags, version, created, updated, expires, value`
	rowOf      = `SELECT ` + rowColumns + ` FROM ~.journal WHERE tier = $1 AND namespace = $2 AND category = $3 AND key = $4`
	rowsFrom   = `SELECT ` + rowColumns + ` FROM ~.journal WHERE tier = $1 AND namespace = $2 AND category = $3
		AND key >= $4 AND key > $5 AND key < $6 AND key <= $7 ORDER BY key `
	rowsDue = `SELECT ` + rowColumns + ` FROM ~.journal WHERE tier = $1 AND seq > $2 ORDER BY seq LIMIT $3`
	backlog = `SELECT entries, bytes, coalesce((SELECT queued FROM ~.journal j WHERE j.tier = s.tier ORDER BY seq LIMIT 1), 0)
		FROM ~.journal_tiers s WHERE tier = $1`
	changesNow = `SELECT ` + journalSeq + `, (SELECT coalesce(max(seq), 0) FROM ~.sessions), NOT EXISTS (SELECT FROM ~.journal)`
)

// Append implements tiers.Journal.
func (t *Tier) Append(ctx context.Context, rs []tiers.Row, conds []tiers.Cond, limit int64) ([]tiers.Row, error) {
	if err := engine.Aligned(len(rs), len(conds)); err != nil {
		return nil, t.fail("journal", tiers.Key{}, err)
	}
	// The writer may still be at work when the caller has gone.
	in, conds := make([]tiers.Row, len(rs)), slices.Clone(conds)
	bytes := 0
	err := engine.Each(len(rs), nil, func(i int) error {
		in[i] = copyRow(&rs[i])
		bytes += rowBytes(&in[i])
		return t.fail("journal", rs[i].Key, checkRow(&in[i]))
	})
	if err != nil || len(rs) == 0 {
		return nil, err
	}
	var out []tiers.Row
	err = t.writer.do(ctx, &job{
		bytes: bytes,
		wants: func(w *wants) { w.appended(in) },
		run: func(x *tx) error {
			x.come()
			out = make([]tiers.Row, len(in))
			return engine.Each(len(in), nil, func(i int) (err error) {
				out[i], err = x.appendRow(in[i], tiers.CondAt(conds, i), limit)
				return t.fail("journal", in[i].Key, err)
			})
		},
	})
	if err != nil {
		return nil, t.batchFailed("journal", err)
	}
	for i := range out {
		out[i].Value = rs[i].Value
	}
	return out, nil
}

// appended is what has to be known to store rows.
func (w *wants) appended(rs []tiers.Row) {
	if len(rs) == 0 {
		return
	}
	w.books = true
	for i := range rs {
		w.rows[rowKey{rs[i].Tier, rs[i].Key}] = true
	}
}

// copyRow copies what a caller may change.
func copyRow(r *tiers.Row) tiers.Row {
	in := *r
	in.Value, in.Index = []byte{}, nil
	if !r.Deleted {
		in.Value = append(in.Value, r.Value...)
	}
	return in
}

func checkRow(r *tiers.Row) error {
	if err := r.Check(); err != nil {
		return err
	}
	if r.Tier == "" || text(r.Tier) != r.Tier || text(r.Owner) != r.Owner {
		return fmt.Errorf("%w: a journal row names no tier, or one that is no text", tiers.ErrKey)
	}
	if r.Version > maxVersion || r.Reserved && r.Version == 0 {
		return fmt.Errorf("%w: it comes with the impossible version %d", tiers.ErrCorrupt, r.Version)
	}
	if len(r.Value) > maxValue {
		return fmt.Errorf("%w: the value has %d bytes, %d are allowed", tiers.ErrTooLarge, len(r.Value), maxValue)
	}
	return checkCodec(r.Codec)
}

// scanRow reads the columns rowColumns.
func scanRow(row pgx.CollectableRow) (r tiers.Row, err error) {
	var seq, schema, v, created, updated, expires int64
	var over *int64
	var flags int32
	err = row.Scan(&seq, &r.Tier, &r.Namespace, &r.Category, &r.Name, &r.Owner, &over, &r.Deleted, &r.Codec, &schema, &flags, &v, &created, &updated, &expires, &r.Value)
	if err != nil {
		return r, err
	}
	if over != nil {
		r.Over = tiers.If(version(*over))
	}
	r.Seq, r.Schema, r.Flags, r.Version = uint64(seq), uint32(schema), tiers.Flags(flags), version(v) //nolint:gosec // written from these types
	r.Created, r.Updated, r.Expires = tiers.FromMicro(created), tiers.FromMicro(updated), tiers.FromMicro(expires)
	r.Value = notNil(r.Value)
	return r, nil
}

// Pending implements tiers.Journal.
func (t *Tier) Pending(ctx context.Context, tier string, k tiers.Key) (tiers.Row, error) {
	rows, err := ask(ctx, t, scanRow, rowOf, text(tier), k.Namespace, k.Category, text(k.Name))
	switch {
	case err != nil:
		return tiers.Row{}, t.failed("load pending", k, err)
	case len(rows) == 0 || text(k.Name) != k.Name:
		return tiers.Row{}, t.fail("load pending", k, tiers.ErrNotFound)
	}
	return rows[0], nil
}

// ListPending implements tiers.Journal.
func (t *Tier) ListPending(ctx context.Context, tier string, q tiers.Query) iter.Seq2[tiers.Row, error] {
	return func(yield func(tiers.Row, error) bool) {
		query := rowsFrom + `LIMIT $8`
		if q.Reverse {
			query = rowsFrom + `DESC LIMIT $8`
		}
		left := q.Limit
		for s := spanOf(q); !s.empty(); {
			page, err := ask(ctx, t, scanRow, query, append(append([]any{tier, q.Namespace, q.Category}, s.args()...), pageRows)...)
			if err != nil {
				yield(tiers.Row{}, t.failed("list pending", tiers.Key{Namespace: q.Namespace, Category: q.Category}, err))
				return
			}
			for _, r := range page {
				if !s.holds(r.Name) {
					continue
				}
				if !yield(r, nil) {
					return
				}
				if left--; left == 0 {
					return
				}
			}
			if len(page) < pageRows {
				return
			}
			s = s.beyond(page[len(page)-1].Name)
		}
		if err := t.enter(ctx); err != nil {
			yield(tiers.Row{}, t.fail("list pending", tiers.Key{}, err))
			return
		}
		t.leave()
	}
}

// Due implements tiers.Journal.
func (t *Tier) Due(ctx context.Context, tier string, after uint64, limit int) ([]tiers.Row, error) {
	due, err := ask(ctx, t, scanRow, rowsDue, tier, int64(min(after, 1<<62)), max(limit, 0))
	if err != nil {
		return nil, t.failed("list due", tiers.Key{}, err)
	}
	return due, nil
}

// Done implements tiers.Journal.
func (t *Tier) Done(ctx context.Context, rs []tiers.Row) error {
	if len(rs) == 0 {
		return engine.Over(ctx)
	}
	type one struct {
		tier string
		seq  int64
	}
	all := make([]one, len(rs))
	for i := range rs {
		all[i] = one{rs[i].Tier, int64(min(rs[i].Seq, 1<<62))}
	}
	err := t.writer.do(ctx, &job{
		bytes: 64 * len(rs),
		wants: func(w *wants) {
			w.books = true
			for _, r := range all {
				w.seqs = append(w.seqs, r.seq)
			}
		},
		run: func(x *tx) error {
			done := false
			for _, r := range all {
				done = x.finish(r.tier, r.seq) || done
			}
			if done {
				was := x.books
				x.change(func() { x.books.seq, x.books.dirty = was.seq, was.dirty })
				x.books.seq++
				x.books.dirty = true
			}
			return nil
		},
	})
	if err != nil {
		return t.failed("finish", tiers.Key{}, err)
	}
	return nil
}

// Backlog implements tiers.Journal.
func (t *Tier) Backlog(ctx context.Context, tier string) (tiers.Backlog, error) {
	all, err := ask(ctx, t, func(row pgx.CollectableRow) (b tiers.Backlog, err error) {
		var oldest int64
		err = row.Scan(&b.Rows, &b.Bytes, &oldest)
		b.Oldest = tiers.FromMicro(oldest)
		return b, err
	}, backlog, tier)
	if err != nil {
		return tiers.Backlog{}, t.failed("measure", tiers.Key{}, err)
	}
	if len(all) == 0 {
		return tiers.Backlog{}, nil
	}
	return all[0], nil
}

// Changes implements tiers.System.
func (t *Tier) Changes(ctx context.Context) (c tiers.Changes, err error) {
	turn := t.waiting.turn()
	all, err := ask(ctx, t, func(row pgx.CollectableRow) (empty bool, err error) {
		var journal, sessions int64
		err = row.Scan(&journal, &sessions, &empty)
		c = tiers.Changes{Journal: uint64(journal), Sessions: uint64(sessions)} //nolint:gosec // never negative
		return empty, err
	}, changesNow)
	if err != nil {
		return tiers.Changes{}, t.failed("watch", tiers.Key{}, err)
	}
	t.waiting.look(len(all) == 1 && all[0], turn)
	return c, nil
}
