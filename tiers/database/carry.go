package database

import (
	"context"
	"database/sql/driver"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/sagestore/sagestore/internal/conflict"
	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.Carrier = (*Tier)(nil)

const (
	rowsAfter = `SELECT ` + journalColumns + ` FROM journal WHERE seq > ? ORDER BY seq LIMIT ?`
	// The id of a transaction whose row waits is in the row.
	decidedAfter = `SELECT id, min(at) FROM (SELECT id, at FROM commits WHERE id > ?1
			UNION ALL SELECT tx, updated / 1000000 FROM journal WHERE tx > ?1)
		GROUP BY id ORDER BY id LIMIT 256`
	raiseCounter = `UPDATE counters SET value = max(value, ?) WHERE name = ?`
	keepDecision = `INSERT INTO commits (id, at) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET at = excluded.at`
)

// Marks implements tiers.Carrier.
func (t *Tier) Marks(ctx context.Context) (m tiers.Marks, err error) {
	err = t.read(ctx, func(c *conn) error {
		m = tiers.Marks{Issued: map[string]tiers.Version{}}
		row, err := c.first(ctx, marks+`, (SELECT value FROM counters WHERE name = 'sessions')`)
		if err != nil {
			return err
		}
		m.Sequence, m.Sessions = uint64(intAt(row, 0)), uint64(intAt(row, 2)) //nolint:gosec // counted from 0
		m.Version = tiers.Version(intAt(row, 1))                              //nolint:gosec // written from a version
		all, err := sumsNow(ctx, c)
		for tier, s := range all {
			m.Issued[tier] = s.version
		}
		return err
	})
	if err != nil {
		return tiers.Marks{}, t.failed("read marks", tiers.Key{}, err)
	}
	return m, nil
}

// Queue implements tiers.Carrier.
func (t *Tier) Queue(ctx context.Context, after uint64, limit int) (all []tiers.Row, err error) {
	err = t.read(ctx, func(c *conn) (err error) {
		all, err = rows(ctx, c, rowsAfter, []driver.Value{int64(min(after, 1<<62)), int64(max(limit, 0))}, scanRow)
		return err
	})
	if err != nil {
		return nil, t.failed("list the journal", tiers.Key{}, err)
	}
	return all, nil
}

// Decisions implements tiers.Carrier.
func (t *Tier) Decisions(ctx context.Context) iter.Seq2[tiers.Decision, error] {
	return engine.Decisions(func(after string) (page []tiers.Decision, err error) {
		err = t.read(ctx, func(c *conn) (err error) {
			page, err = rows(ctx, c, decidedAfter, []driver.Value{after}, func(row []driver.Value) (d tiers.Decision, err error) {
				d.ID, _ = row[0].(string)
				d.At = time.Unix(intAt(row, 1), 0).UTC()
				return d, nil
			})
			return err
		})
		if err != nil {
			return nil, t.failed("list transactions", tiers.Key{}, err)
		}
		return page, nil
	})
}

// TakeOver implements tiers.Carrier.
func (t *Tier) TakeOver(ctx context.Context, b tiers.Books) error {
	if err := engine.CheckBooks(&b, checkID, t.checkRow); err != nil {
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
	err := t.writer.do(ctx, &job{bytes: bytes, several: true, run: func(tx *tx) error { return tx.takeOver(&b) }})
	if err != nil {
		return t.failed("take over", tiers.Key{}, err)
	}
	return nil
}

func (x *tx) takeOver(in *tiers.Books) error {
	b, err := x.openBooks()
	if err != nil {
		return err
	}
	for _, s := range in.Sessions {
		_, err := x.exec(saveSession, s.Namespace, s.ID, int64(s.Generation), //nolint:gosec // counted from 1
			tiers.ToMicro(s.Started), tiers.ToMicro(s.Seen), tiers.ToMicro(s.Ended), int64(s.Seq)) //nolint:gosec // counted from 1
		if err == nil {
			_, err = x.exec(raiseCounter, int64(s.Seq), "sessions") //nolint:gosec // counted from 1
		}
		if err != nil {
			return err
		}
	}
	for _, d := range in.Decisions {
		if _, err := x.exec(keepDecision, d.ID, d.At.Unix()); err != nil {
			return err
		}
		b.maxID = max(b.maxID, d.ID)
	}
	for i := range in.Rows {
		if err := x.takeRow(&in.Rows[i], i == len(in.Rows)-1); err != nil {
			return err
		}
	}
	return x.raiseMarks(&in.Marks)
}

// takeRow stores a row as it is.
func (x *tx) takeRow(r *tiers.Row, last bool) error {
	b := &x.books
	k := rowKey{r.Tier, r.Key}
	seq := int64(min(r.Seq, 1<<62))
	if seq <= b.seq || x.find(k) != 0 {
		return conflict.Errorf("the journal has been at row %d, and %d comes for key %q", b.seq, seq, r.Name)
	}
	size := int64(rowBytes(r))
	s := b.sums(r.Tier)
	s.version = max(s.version, r.Version)
	s.entries++
	s.bytes += size
	s.dirty = true
	var over, all driver.Value
	if v, set := r.Over.Version(); set {
		over = micro(v)
	}
	if last {
		text, err := b.text()
		if err != nil {
			return err
		}
		all = text
	}
	_, err := x.exec(insertRow, seq, r.Tier, r.Namespace, r.Category, r.Name, r.Owner, over, number(r.Deleted),
		r.Codec, int64(r.Schema), int64(r.Flags), micro(r.Version), tiers.ToMicro(r.Created), tiers.ToMicro(r.Updated),
		tiers.ToMicro(r.Expires), r.Value, tiers.ToMicro(r.Updated), size, nil, all)
	if err != nil {
		return err
	}
	b.seq = seq
	b.add(placed{seq: seq, rowKey: k})
	return nil
}

func (x *tx) raiseMarks(m *tiers.Marks) error {
	b := &x.books
	x.mark = max(x.mark, m.Version)
	if _, err := x.exec(raiseCounter, int64(min(m.Sessions, 1<<62)), "sessions"); err != nil {
		return err
	}
	raised := int64(min(m.Sequence, 1<<62)) > b.seq
	for tier, v := range m.Issued {
		if s := b.sums(tier); v > s.version {
			s.version, s.dirty, raised = v, true, true
		}
	}
	if !raised {
		return nil
	}
	b.seq = max(b.seq, int64(min(m.Sequence, 1<<62))-1) // saving the sums is one more
	if err := x.saveSums(); err != nil {
		return err
	}
	b.floor = b.seq
	_, err := x.exec(setCounter, b.floor, "recent")
	return err
}
