package postgres

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagestore/sagestore/internal/conflict"
	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.Carrier = (*Tier)(nil)

const (
	marksNow = `SELECT '', last_value, ` + journalSeq + `, (SELECT coalesce(max(seq), 0) FROM ~.sessions) FROM ~.version
		UNION ALL SELECT tier, version, 0, 0 FROM ~.journal_tiers`
	rowsAfter     = `SELECT ` + rowColumns + ` FROM ~.journal WHERE seq > $1 ORDER BY seq LIMIT $2`
	decidedAfter  = `SELECT id, at FROM ~.commits WHERE id > $1 ORDER BY id LIMIT 256`
	keepDecisions = `INSERT INTO ~.commits (id, at) SELECT * FROM unnest($1::text[], $2::bigint[])
		ON CONFLICT (id) DO UPDATE SET at = excluded.at`
)

// Marks implements tiers.Carrier.
func (t *Tier) Marks(ctx context.Context) (tiers.Marks, error) {
	m := tiers.Marks{Issued: map[string]tiers.Version{}}
	_, err := ask(ctx, t, func(row pgx.CollectableRow) (struct{}, error) {
		var tier string
		var v, sequence, sessions int64
		err := row.Scan(&tier, &v, &sequence, &sessions)
		if tier != "" {
			m.Issued[tier] = version(v)
		} else {
			m.Version, m.Sequence, m.Sessions = version(v), uint64(sequence), uint64(sessions) //nolint:gosec // counted from 0
		}
		return struct{}{}, err
	}, marksNow)
	if err != nil {
		return tiers.Marks{}, t.failed("read marks", tiers.Key{}, err)
	}
	return m, nil
}

// Queue implements tiers.Carrier.
func (t *Tier) Queue(ctx context.Context, after uint64, limit int) ([]tiers.Row, error) {
	all, err := ask(ctx, t, scanRow, rowsAfter, int64(min(after, 1<<62)), max(limit, 0))
	if err != nil {
		return nil, t.failed("list the journal", tiers.Key{}, err)
	}
	return all, nil
}

// Decisions implements tiers.Carrier.
func (t *Tier) Decisions(ctx context.Context) iter.Seq2[tiers.Decision, error] {
	return engine.Decisions(func(after string) ([]tiers.Decision, error) {
		page, err := ask(ctx, t, func(row pgx.CollectableRow) (d tiers.Decision, err error) {
			var at int64
			err = row.Scan(&d.ID, &at)
			d.At = tiers.FromMicro(at).Truncate(time.Second)
			return d, err
		}, decidedAfter, after)
		if err != nil {
			return nil, t.failed("list transactions", tiers.Key{}, err)
		}
		return page, nil
	})
}

// TakeOver implements tiers.Carrier.
func (t *Tier) TakeOver(ctx context.Context, b tiers.Books) error {
	if err := engine.CheckBooks(&b, checkID, checkRow); err != nil {
		return t.failed("take over", tiers.Key{}, err)
	}
	bytes := 128 * (len(b.Sessions) + len(b.Decisions))
	in := make([]tiers.Row, len(b.Rows)) // the writer may still be at work when the caller has gone
	for i := range b.Rows {
		in[i] = copyRow(&b.Rows[i])
		bytes += rowBytes(&in[i])
	}
	b.Sessions, b.Decisions, b.Rows = slices.Clone(b.Sessions), slices.Clone(b.Decisions), in
	b.Marks.Issued = maps.Clone(b.Marks.Issued)
	err := t.writer.do(ctx, &job{
		bytes: bytes,
		wants: func(w *wants) {
			w.books = true
			w.appended(b.Rows)
		},
		run: func(x *tx) error { return x.takeOver(&b) },
		alone: func(ctx context.Context, x *tx) error {
			var ids []string
			var at []int64
			for _, d := range b.Decisions {
				ids, at = append(ids, d.ID), append(at, tiers.ToMicro(d.At))
			}
			if _, err := x.w.conn.Exec(ctx, t.sql(keepDecisions), ids, at); err != nil {
				return err
			}
			if b.Marks.Sequence == 0 {
				return nil
			}
			_, err := x.w.conn.Exec(ctx, t.sql(setCounter), "recent", x.books.seq)
			return err
		},
	})
	if err != nil {
		return t.failed("take over", tiers.Key{}, err)
	}
	return nil
}

func (x *tx) takeOver(b *tiers.Books) error {
	was := x.books
	x.change(func() { x.books.seq, x.books.dirty = was.seq, was.dirty })
	if len(b.Rows) > 0 {
		x.come()
	}
	for i := range b.Rows {
		if err := x.takeRow(&b.Rows[i]); err != nil {
			return err
		}
	}
	x.mark = max(x.mark, b.Marks.Version)
	if n := int64(min(b.Marks.Sequence, 1<<62)); n > x.books.seq {
		x.books.seq, x.books.dirty = n, true
	}
	for tier, v := range b.Marks.Issued {
		s := x.sums(tier)
		s.version = max(s.version, v)
	}
	for _, s := range b.Sessions { // last: what was said before is undone when a row is refused
		x.sessions[sessionKey{s.Namespace, s.ID}] = &session{Session: s, there: true, put: true}
	}
	return nil
}

// takeRow stores a row as it is.
func (x *tx) takeRow(r *tiers.Row) error {
	k := rowKey{r.Tier, r.Key}
	seq := int64(min(r.Seq, 1<<62))
	if seq <= x.books.seq || x.row(k).there {
		return conflict.Errorf("the journal has been at row %d, and %d comes for key %q", x.books.seq, seq, r.Name)
	}
	s := x.sums(r.Tier)
	size := int64(rowBytes(r))
	s.version = max(s.version, r.Version)
	s.entries++
	s.bytes += size
	x.books.seq = seq
	x.setRow(k, rowState{
		rowKey: k, there: true, seq: seq, version: number(r.Version), deleted: r.Deleted, expires: tiers.ToMicro(r.Expires),
		created: tiers.ToMicro(r.Created), queued: tiers.ToMicro(r.Updated), bytes: size, put: r,
	})
	return nil
}
