package database

import (
	"context"
	"database/sql/driver"
	"fmt"
	"iter"

	"github.com/sagestore/sagestore/tiers"
)

const (
	journalColumns = `seq, tier, namespace, category, key, owner, over, deleted, codec, schema, flags, version, created, updated, expires, value`
	pendingRow     = `SELECT ` + journalColumns + ` FROM journal WHERE tier = ? AND namespace = ? AND category = ? AND key = ?`
	pendingFrom    = ` FROM journal WHERE tier = ? AND namespace = ? AND category = ? AND key >= ? AND key < ? ORDER BY key `
	pendingForward = `SELECT ` + journalColumns + pendingFrom + `LIMIT ?`
	pendingReverse = `SELECT ` + journalColumns + pendingFrom + `DESC LIMIT ?`
	dueRows        = `SELECT ` + journalColumns + ` FROM journal WHERE tier = ? AND seq > ? ORDER BY seq LIMIT ?`
	replacedRow    = `DELETE FROM journal WHERE tier = ? AND namespace = ? AND category = ? AND key = ?
		RETURNING over, queued, bytes, version, created, deleted, expires`
	insertRow = `INSERT INTO journal (` + journalColumns + `, queued, bytes)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	doneRow   = `DELETE FROM journal WHERE seq = ? AND tier = ? RETURNING bytes, namespace, category, key, version, deleted, expires`
	backlogOf = `SELECT coalesce((SELECT entries FROM journal_tiers WHERE tier = ?1), 0),
		coalesce((SELECT bytes FROM journal_tiers WHERE tier = ?1), 0),
		coalesce((SELECT min(queued) FROM journal WHERE tier = ?1), 0)`
)

// Append implements tiers.Journal.
func (t *Tier) Append(ctx context.Context, rs []tiers.Row, conds []tiers.Cond, limit int64) ([]tiers.Row, error) {
	if err := aligned(len(rs), len(conds)); err != nil {
		return nil, t.fail("journal", tiers.Key{}, err)
	}
	// The writer may still be at work when the caller has gone.
	in := make([]tiers.Row, len(rs))
	bytes := 0
	err := each(len(rs), func(i int) error {
		in[i] = copyRow(&rs[i])
		bytes += rowBytes(&in[i])
		return t.fail("journal", rs[i].Key, t.checkRow(&in[i]))
	})
	if err != nil || len(rs) == 0 {
		return nil, err
	}
	var out []tiers.Row
	err = t.writer.do(ctx, &job{bytes: bytes, several: true, run: func(tx *tx) (err error) {
		out, err = tx.appendRows(in, conds, limit, t)
		return err
	}})
	if err != nil {
		return nil, t.batchFailed("journal", err)
	}
	for i := range out {
		out[i].Value = rs[i].Value
	}
	return out, nil
}

// copyRow copies what a caller may change.
func copyRow(r *tiers.Row) tiers.Row {
	in := *r
	in.Value = []byte{}
	if !r.Deleted {
		in.Value = append(in.Value, r.Value...)
	}
	return in
}

func (t *Tier) checkRow(r *tiers.Row) error {
	if err := r.Check(); err != nil {
		return err
	}
	if r.Tier == "" {
		return fmt.Errorf("%w: a journal row names no tier", tiers.ErrKey)
	}
	if r.Version > maxVersion || r.Reserved && r.Version == 0 {
		return fmt.Errorf("%w: it comes with the impossible version %d", tiers.ErrCorrupt, r.Version)
	}
	if int64(len(r.Value)) > t.maxValue {
		return fmt.Errorf("%w: the value has %d bytes, %d are allowed", tiers.ErrTooLarge, len(r.Value), t.maxValue)
	}
	return nil
}

func rowBytes(r *tiers.Row) int { return len(r.Name) + len(r.Value) }

// appendRows stores the rows, or answers why some can't be stored.
func (x *tx) appendRows(in []tiers.Row, conds []tiers.Cond, limit int64, t *Tier) ([]tiers.Row, error) {
	out := make([]tiers.Row, len(in))
	err := each(len(in), func(i int) (err error) {
		out[i], err = x.appendRow(in[i], condAt(conds, i), limit)
		return t.itemError("journal", in[i].Key, err)
	})
	if err != nil {
		return nil, err
	}
	return out, x.saveSums()
}

// appendRow leaves the sums to be saved.
func (x *tx) appendRow(r tiers.Row, c tiers.Cond, limit int64) (tiers.Row, error) {
	now := x.clock.Now()
	s, err := x.sums(r.Tier)
	if err != nil {
		return r, err
	}
	// A refused row is undone with the whole job, so the old one may go first.
	old, err := x.first(replacedRow, r.Tier, r.Namespace, r.Category, r.Name)
	if err != nil {
		return r, err
	}
	s.dirty = true
	r.Updated = tiers.Micro(now)
	queued, created := now.UnixMicro(), tiers.ToMicro(r.Created)
	var live, replaced tiers.Version
	if old != nil {
		var n [7]int64
		for i := range n {
			n[i], _ = old[i].(int64)
		}
		r.Over = tiers.Cond{}
		if over, set := old[0].(int64); set {
			r.Over = tiers.If(tiers.Version(over)) //nolint:gosec // written from a version
		}
		queued = n[1]
		s.entries--
		s.bytes -= n[2]
		replaced = tiers.Version(n[3]) //nolint:gosec // written from a version
		if n[5] == 0 && (n[6] == 0 || n[6] > now.UnixMicro()) {
			live = replaced
			created = n[4]
		}
	}
	if err := c.Holds(live); err != nil {
		return r, err
	}
	if created == 0 {
		created = now.UnixMicro()
	}
	r.Created = tiers.FromMicro(created)
	if r.Reserved {
		r.Version = max(r.Version, replaced+1)
		r.Reserved = false
		s.version = max(s.version, r.Version)
	} else {
		s.version = max(s.version+1, r.Version, tiers.Version(max(now.UnixMicro(), 1)))
		r.Version = s.version
	}
	s.entries++
	s.bytes += int64(rowBytes(&r))
	if limit > 0 && s.bytes > limit && !r.Deleted {
		return r, tiers.Hint(fmt.Errorf("%w: more than %d bytes wait for the %s tier", tiers.ErrFull, limit, r.Tier),
			"bring the "+r.Tier+" tier back, or raise the limit of its journal")
	}
	x.books.seq++
	r.Seq = uint64(x.books.seq) //nolint:gosec // counted from 1
	var over driver.Value
	if v, set := r.Over.Version(); set {
		over = micro(v)
	}
	_, err = x.exec(insertRow, x.books.seq, r.Tier, r.Namespace, r.Category, r.Name, r.Owner, over, number(r.Deleted),
		r.Codec, int64(r.Schema), int64(r.Flags), micro(r.Version), created, tiers.ToMicro(r.Updated),
		tiers.ToMicro(r.Expires), r.Value, queued, int64(rowBytes(&r)))
	return r, err
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func scanRow(row []driver.Value) (r tiers.Row, err error) {
	for i, s := range map[int]*string{1: &r.Tier, 2: &r.Namespace, 3: &r.Category, 4: &r.Name, 5: &r.Owner, 8: &r.Codec} {
		*s, _ = row[i].(string)
	}
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
	var r tiers.Row
	found := false
	err := t.read(ctx, func(c *conn) error {
		row, err := c.first(context.WithoutCancel(ctx), pendingRow, tier, k.Namespace, k.Category, k.Name)
		if err != nil || row == nil {
			return err
		}
		found = true
		r, err = scanRow(row)
		return err
	})
	if err != nil {
		return tiers.Row{}, t.failed("load pending", k, err)
	}
	if !found {
		return tiers.Row{}, t.fail("load pending", k, tiers.ErrNotFound)
	}
	return r, nil
}

// ListPending implements tiers.Journal.
func (t *Tier) ListPending(ctx context.Context, tier string, q tiers.Query) iter.Seq2[tiers.Row, error] {
	query := pendingForward
	if q.Reverse {
		query = pendingReverse
	}
	return func(yield func(tiers.Row, error) bool) {
		low, high := bounds(q)
		for left := q.Limit; low < high; {
			limit := pageRows
			if q.Limit > 0 {
				limit = min(limit, left)
			}
			var page []tiers.Row
			err := t.read(ctx, func(c *conn) (err error) {
				page, err = rows(ctx, c, query, []driver.Value{tier, q.Namespace, q.Category, low, high, int64(limit)}, scanRow)
				return err
			})
			if err != nil {
				yield(tiers.Row{}, t.failed("list pending", tiers.Key{Namespace: q.Namespace, Category: q.Category}, err))
				return
			}
			for _, r := range page {
				if !yield(r, nil) {
					return
				}
			}
			if left -= len(page); len(page) < limit || q.Limit > 0 && left <= 0 {
				return
			}
			if last := page[len(page)-1].Name; q.Reverse {
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
		return nil, over(ctx)
	}
	err = t.read(ctx, func(c *conn) (err error) {
		due, err = rows(ctx, c, dueRows, []driver.Value{tier, int64(min(after, 1<<62)), int64(limit)}, scanRow)
		return err
	})
	if err != nil {
		return nil, t.failed("list due", tiers.Key{}, err)
	}
	return due, nil
}

// Done implements tiers.Journal.
func (t *Tier) Done(ctx context.Context, rs []tiers.Row) error {
	if len(rs) == 0 {
		return over(ctx)
	}
	err := t.writer.do(ctx, &job{bytes: 64 * len(rs), several: true, run: func(tx *tx) error { return tx.done(rs) }})
	if err != nil {
		return t.failed("finish", tiers.Key{}, err)
	}
	return nil
}

// done removes rows and notes in recent what they wrote.
func (x *tx) done(rs []tiers.Row) error {
	b, err := x.openBooks()
	if err != nil {
		return err
	}
	gone := 0
	for _, r := range rs {
		seq := int64(min(r.Seq, 1<<62))
		row, err := x.first(doneRow, seq, r.Tier)
		if err != nil {
			return err
		}
		if row == nil {
			continue // a newer one took its place, or somebody else was first
		}
		gone++
		bytes, _ := row[0].(int64)
		args := append([]driver.Value{seq, r.Tier}, row[1:]...)
		s, err := x.sums(r.Tier)
		if err != nil {
			return err
		}
		s.entries--
		s.bytes -= bytes
		s.dirty = true
		if _, err := x.exec(noteRecent, args...); err != nil {
			return err
		}
		b.last = max(b.last, seq)
	}
	if gone == 0 {
		return nil
	}
	if err := x.saveSums(); err != nil {
		return err
	}
	b.seq++
	if _, err := x.exec(setCounter, b.seq, "journal"); err != nil {
		return err
	}
	return x.pruneRecent(gone)
}

// Backlog implements tiers.Journal.
func (t *Tier) Backlog(ctx context.Context, tier string) (b tiers.Backlog, err error) {
	err = t.read(ctx, func(c *conn) error {
		row, err := c.first(ctx, backlogOf, tier)
		if err != nil || row == nil {
			return err
		}
		b.Rows, _ = row[0].(int64)
		b.Bytes, _ = row[1].(int64)
		oldest, _ := row[2].(int64)
		b.Oldest = tiers.FromMicro(oldest)
		return nil
	})
	if err != nil {
		return tiers.Backlog{}, t.failed("measure", tiers.Key{}, err)
	}
	return b, nil
}
