package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"

	"github.com/sagestore/sagestore/tiers"
)

const (
	journalColumns = `seq, tier, namespace, category, key, owner, over, deleted, codec, schema, flags, version, created, updated, expires, value`
	pendingRow     = `SELECT ` + journalColumns + ` FROM journal WHERE tier = ? AND namespace = ? AND category = ? AND key = ?`
	pendingFrom    = ` FROM journal WHERE tier = ? AND namespace = ? AND category = ? AND key >= ? AND key < ? ORDER BY key `
	pendingForward = `SELECT ` + journalColumns + pendingFrom + `LIMIT ?`
	pendingReverse = `SELECT ` + journalColumns + pendingFrom + `DESC LIMIT ?`
	// The rows of a tier are found by its keys while they are few, and else among
	// those of all tiers: an index for that would cost every commit a page.
	fewDue = `SELECT ` + journalColumns + ` FROM journal WHERE seq IN
		(SELECT seq FROM journal WHERE tier = ? AND +seq > ? ORDER BY +seq LIMIT ?) ORDER BY seq`
	manyDue     = `SELECT ` + journalColumns + ` FROM journal WHERE +tier = ? AND seq > ? ORDER BY seq LIMIT ?`
	entriesOf   = `SELECT entries FROM journal_tiers WHERE tier = ?`
	replacedRow = `DELETE FROM journal WHERE tier = ? AND namespace = ? AND category = ? AND key = ?
		RETURNING queued, bytes, version, deleted, expires, created`
	insertRow = `INSERT INTO journal (` + journalColumns + `, queued, bytes)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (tier, namespace, category, key) DO NOTHING`
	doneRow   = `DELETE FROM journal WHERE seq = ? AND tier = ? RETURNING bytes, namespace, category, key, version, deleted, expires`
	backlogOf = `SELECT coalesce((SELECT entries FROM journal_tiers WHERE tier = ?1), 0),
		coalesce((SELECT bytes FROM journal_tiers WHERE tier = ?1), 0),
		coalesce((SELECT version FROM journal_tiers WHERE tier = ?1), 0),
		coalesce((SELECT queued FROM journal WHERE +tier = ?1 ORDER BY seq LIMIT 1), 0)`
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

// waiting is the row that another one replaces.
type waiting struct {
	there         bool
	queued, bytes int64
	created       int64
	version, live tiers.Version
}

// appendRow leaves the sums to be saved.
func (x *tx) appendRow(r tiers.Row, c tiers.Cond, limit int64) (tiers.Row, error) {
	s, err := x.sums(r.Tier)
	if err != nil {
		return r, err
	}
	size := int64(rowBytes(&r))
	// Most often nothing waits for the key, and then one statement does it.
	if c.Holds(0) == nil && (limit <= 0 || r.Deleted || s.bytes+size <= limit) {
		placed, err := x.place(&r, s, waiting{})
		if placed || err != nil {
			return r, err
		}
	}
	// A refused row is undone with the whole job, so the old one may go first.
	old, err := x.takeWaiting(&r)
	if err != nil {
		return r, err
	}
	if old.there {
		s.entries--
		s.bytes -= old.bytes
		s.dirty = true
	}
	if err := c.Holds(old.live); err != nil {
		return r, err
	}
	if limit > 0 && s.bytes+size > limit && !r.Deleted {
		return r, tiers.Hint(fmt.Errorf("%w: more than %d bytes wait for the %s tier", tiers.ErrFull, limit, r.Tier),
			"bring the "+r.Tier+" tier back, or raise the limit of its journal")
	}
	_, err = x.place(&r, s, old)
	return r, err
}

// takeWaiting removes the row that waits for the key of another.
func (x *tx) takeWaiting(r *tiers.Row) (w waiting, err error) {
	row, err := x.first(replacedRow, r.Tier, r.Namespace, r.Category, r.Name)
	if err != nil || row == nil {
		return w, err
	}
	w.there = true
	w.queued, _ = row[0].(int64)
	w.bytes, _ = row[1].(int64)
	s := stateOf(row[2:], x.now())
	w.version, w.live = s.version, s.live()
	w.created, _ = row[5].(int64)
	return w, nil
}

// place stores a row instead of old, and fills in what is not known before. Where
// another row is in the way it changes nothing.
func (x *tx) place(r *tiers.Row, s *sums, old waiting) (placed bool, err error) {
	n := *r
	now := tiers.Micro(x.clock.Now())
	n.Updated = now
	queued := tiers.ToMicro(now)
	if old.there {
		n.Over = tiers.Cond{} // the other one may be in the tier already
		queued = old.queued
	}
	switch {
	case old.live != 0:
		n.Created = tiers.FromMicro(old.created)
	case old.there: // what the tier has is gone
		n.Created = now
	}
	if n.Created.IsZero() {
		n.Created = now
	}
	if n.Reserved {
		n.Version = max(n.Version, old.version+1)
		n.Reserved = false
	} else {
		n.Version = max(s.version+1, n.Version, tiers.Version(max(now.UnixMicro(), 1)))
	}
	var over driver.Value
	if v, set := n.Over.Version(); set {
		over = micro(v)
	}
	seq, size := x.books.seq+1, int64(rowBytes(&n))
	changed, err := x.exec(insertRow, seq, n.Tier, n.Namespace, n.Category, n.Name, n.Owner, over, number(n.Deleted),
		n.Codec, int64(n.Schema), int64(n.Flags), micro(n.Version), tiers.ToMicro(n.Created), tiers.ToMicro(n.Updated),
		tiers.ToMicro(n.Expires), n.Value, queued, size)
	if err != nil || changed == 0 {
		return false, err
	}
	x.books.seq = seq
	n.Seq = uint64(seq) //nolint:gosec // counted from 1
	s.version = max(s.version, n.Version)
	s.entries++
	s.bytes += size
	s.dirty = true
	*r = n
	return true, nil
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

// fewRows is up to how many rows of a tier are looked up by its keys.
const fewRows = 2048

// Due implements tiers.Journal.
func (t *Tier) Due(ctx context.Context, tier string, after uint64, limit int) (due []tiers.Row, err error) {
	if limit <= 0 {
		return nil, over(ctx)
	}
	err = t.read(ctx, func(c *conn) (err error) {
		n, err := c.number(ctx, entriesOf, tier)
		if err != nil {
			return err
		}
		query := fewDue
		if n > fewRows {
			query = manyDue
		}
		due, err = rows(ctx, c, query, []driver.Value{tier, int64(min(after, 1<<62)), int64(limit)}, scanRow)
		return err
	})
	if err == nil && len(due) > 0 {
		err = t.syncLog()
	}
	if err != nil {
		return nil, t.failed("list due", tiers.Key{}, err)
	}
	return due, nil
}

// syncLog makes durable what was committed, which a store that is not Full leaves
// to the next checkpoint: a row that is applied may not outlive its commit.
func (t *Tier) syncLog() error {
	if t.sync == Full || t.path == Memory {
		return nil
	}
	log, err := os.OpenFile(t.path+"-wal", os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // all of it is in the database, which was synced for that
	}
	if err != nil {
		return err
	}
	return errors.Join(log.Sync(), log.Close())
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
		version, _ := row[2].(int64)
		b.Version = tiers.Version(version) //nolint:gosec // written from a version
		oldest, _ := row[3].(int64)
		b.Oldest = tiers.FromMicro(oldest)
		return nil
	})
	if err != nil {
		return tiers.Backlog{}, t.failed("measure", tiers.Key{}, err)
	}
	return b, nil
}
