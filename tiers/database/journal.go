package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

const (
	journalColumns = `seq, tier, namespace, category, key, owner, over, deleted, codec, schema, flags, version, created, updated, expires, value`
	rowAt          = `SELECT ` + journalColumns + ` FROM journal WHERE seq = ?`
	rowsAmong      = `SELECT ` + journalColumns + ` FROM journal WHERE seq BETWEEN ? AND ? AND +tier = ? ORDER BY seq LIMIT ?`
	queuedAt       = `SELECT queued FROM journal WHERE seq = ?`
	replacedRow    = `DELETE FROM journal WHERE seq = ? RETURNING queued, bytes, version, deleted, expires, created, updated, tx`
	insertRow      = `INSERT INTO journal (` + journalColumns + `, queued, bytes, tx, sums)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	doneRow = `DELETE FROM journal WHERE seq = ? AND tier = ?
		RETURNING bytes, namespace, category, key, version, deleted, expires, updated, tx`
)

// Append implements tiers.Journal.
func (t *Tier) Append(ctx context.Context, rs []tiers.Row, conds []tiers.Cond, limit int64) ([]tiers.Row, error) {
	if err := engine.Aligned(len(rs), len(conds)); err != nil {
		return nil, t.fail("journal", tiers.Key{}, err)
	}
	// The writer may still be at work when the caller has gone.
	in, conds := make([]tiers.Row, len(rs)), slices.Clone(conds)
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
		out[i], err = x.appendRow(in[i], tiers.CondAt(conds, i), limit, lastOf{change: i == len(in)-1})
		return t.itemError("journal", in[i].Key, err)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// lastOf says what the last row of a change has to keep.
type lastOf struct {
	change bool   // the sums
	tx     string // the transaction
}

// replaced is the row that another one replaces.
type replaced struct {
	there         bool
	queued, bytes int64
	created       int64
	version, live tiers.Version
}

func (x *tx) appendRow(r tiers.Row, c tiers.Cond, limit int64, of lastOf) (tiers.Row, error) {
	b, err := x.openBooks()
	if err != nil {
		return r, err
	}
	s := b.sums(r.Tier)
	size := int64(rowBytes(&r))
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
	return r, x.place(&r, s, old, of)
}

// takeWaiting removes the row that waits for the key of another.
func (x *tx) takeWaiting(r *tiers.Row) (w replaced, err error) {
	seq := x.find(rowKey{r.Tier, r.Key})
	if seq == 0 {
		return w, nil
	}
	row, err := x.first(replacedRow, seq)
	if err != nil || row == nil {
		return w, err
	}
	w.there = true
	w.queued, _ = row[0].(int64)
	w.bytes, _ = row[1].(int64)
	s := stateOf(row[2:], x.now())
	w.version, w.live = s.version, s.live()
	w.created, _ = row[5].(int64)
	id, updated := row[7], intAt(row, 6) // before the connection is used again
	if tx, _ := id.(string); tx != "" {
		x.books.gone = append(x.books.gone, placed{seq: seq, rowKey: rowKey{r.Tier, r.Key}, tx: tx})
	}
	return w, x.passOn(id, updated)
}

// passOn lets the transaction of a row that leaves be remembered without it.
func (x *tx) passOn(id driver.Value, updated int64) error {
	tx, _ := id.(string)
	if tx == "" {
		return nil
	}
	_, err := x.note(tx, updated/1_000_000)
	return err
}

// place stores a row instead of old, and fills in what is not known before.
func (x *tx) place(r *tiers.Row, s *sums, old replaced, of lastOf) error {
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
	s.version = max(s.version, n.Version)
	s.entries++
	s.bytes += size
	s.dirty = true
	var id, all driver.Value
	if of.tx != "" {
		id = of.tx
	}
	if of.change {
		text, err := x.books.text()
		if err != nil {
			return err
		}
		all = text
	}
	_, err := x.exec(insertRow, seq, n.Tier, n.Namespace, n.Category, n.Name, n.Owner, over, number(n.Deleted),
		n.Codec, int64(n.Schema), int64(n.Flags), micro(n.Version), tiers.ToMicro(n.Created), tiers.ToMicro(n.Updated),
		tiers.ToMicro(n.Expires), n.Value, queued, size, id, all)
	if err != nil {
		return err
	}
	x.books.seq = seq
	x.books.add(placed{seq: seq, rowKey: rowKey{n.Tier, n.Key}, tx: of.tx})
	n.Seq = uint64(seq) //nolint:gosec // counted from 1
	*r = n
	return nil
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
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
		return engine.Over(ctx)
	}
	rs = slices.Clone(rs)
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
	gone := len(b.gone)
	for _, r := range rs {
		seq := int64(min(r.Seq, 1<<62))
		row, err := x.first(doneRow, seq, r.Tier)
		if err != nil {
			return err
		}
		if row == nil {
			continue // a newer one took its place, or somebody else was first
		}
		s := b.sums(r.Tier)
		s.entries--
		s.bytes -= intAt(row, 0)
		s.dirty = true
		updated, id := intAt(row, 7), row[8]
		p := placed{seq: seq, rowKey: rowKey{tier: r.Tier}}
		for i, to := range []*string{&p.key.Namespace, &p.key.Category, &p.key.Name} {
			*to, _ = row[1+i].(string)
		}
		p.tx, _ = id.(string)
		b.gone = append(b.gone, p)
		// The row is good until the connection is used again.
		args := append([]driver.Value{seq, r.Tier}, row[1:7]...)
		if _, err := x.exec(noteRecent, args...); err != nil {
			return err
		}
		if err := x.passOn(id, updated); err != nil {
			return err
		}
		b.last = max(b.last, seq)
	}
	if gone = len(b.gone) - gone; gone == 0 {
		return nil
	}
	if err := x.saveSums(); err != nil {
		return err
	}
	return x.pruneRecent(gone)
}

// keepPlaces forgets places of rows that others have removed.
func (t *Tier) keepPlaces(ctx context.Context) error {
	return t.read(ctx, func(c *conn) error {
		upTo, err := c.number(ctx, journalSeq) // first: what comes after it is not looked at
		if err != nil {
			return err
		}
		rows, err := placesIn(ctx, c, 0, -1)
		if err == nil {
			t.waiting.keep(rows, upTo)
		}
		return err
	})
}
