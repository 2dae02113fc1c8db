package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.Committer = (*Tier)(nil)

const (
	rangeFrom    = `SELECT key, version FROM records WHERE namespace = ? AND category = ? AND key >= ? AND key < ? AND (expires = 0 OR expires > ?) ORDER BY key`
	rangeForward = rangeFrom
	rangeReverse = rangeFrom + ` DESC`
)

// decision is a commit made ready for the writer: checked, and without any memory
// of the caller's, who may go away before the writer is done.
type decision struct {
	tiers.Commit
	saves []*packed // aligned with Saves, nil for a delete
	bytes int
}

// Commit implements tiers.Committer. One that only checks writes nothing, waits for
// no writer and leaves nothing for Outcome to find.
func (t *Tier) Commit(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
	d, err := t.decide(&c)
	if err != nil {
		return tiers.Committed{}, t.commitFailed(c.ID, err)
	}
	if len(d.Saves) == 0 && len(d.Rows) == 0 && d.OnlyOnce == "" {
		err := t.checkOnly(ctx, d)
		return tiers.Committed{}, t.commitFailed(c.ID, err)
	}
	var out tiers.Committed
	near := true // look through what has happened lately only
	for {
		err := t.writer.do(ctx, &job{bytes: d.bytes, several: true, run: func(tx *tx) (err error) {
			out, err = tx.carryOut(d, near)
			return err
		}})
		if err == nil {
			break
		}
		if errors.Is(err, errFar) {
			// What has happened until now is looked through while nobody waits.
			var upTo int64
			err = t.atOnce(ctx, func(x *tx) error {
				err := x.checkRows(d, x.now(), false)
				upTo = x.books.seq
				return err
			})
			switch {
			case err == nil:
				d.Since = uint64(upTo) //nolint:gosec // counted from 0
				continue
			case errors.Is(err, errMoved):
				near = false // others have to wait for it
				continue
			}
		}
		return tiers.Committed{}, t.commitFailed(c.ID, err)
	}
	for i := range out.Saves {
		if !c.Saves[i].Deleted {
			out.Saves[i].Value = c.Saves[i].Value
		}
	}
	for i := range out.Rows {
		out.Rows[i].Value = c.Rows[i].Value
	}
	return out, nil
}

// decide makes a commit ready.
func (t *Tier) decide(c *tiers.Commit) (*decision, error) {
	if err := checkID(c.ID); err != nil {
		return nil, err
	}
	if c.OnlyOnce != "" {
		if err := tiers.CheckName(c.OnlyOnce); err != nil {
			return nil, err
		}
	}
	d := &decision{Commit: *c, saves: make([]*packed, len(c.Saves)), bytes: len(c.OnceValue)}
	d.Reads, d.Ranges = slices.Clone(c.Reads), slices.Clone(c.Ranges)
	d.RowReads, d.RowRanges = slices.Clone(c.RowReads), slices.Clone(c.RowRanges)
	d.RowLimits = maps.Clone(c.RowLimits)
	d.OnceValue = append([]byte{}, c.OnceValue...)
	d.Saves, d.Rows = make([]tiers.Record, len(c.Saves)), make([]tiers.Row, len(c.Rows))
	for i := range c.Saves {
		r := &c.Saves[i]
		d.Saves[i] = tiers.Record{Key: r.Key, Deleted: r.Deleted}
		if r.Deleted {
			d.bytes += len(r.Name)
			if err := r.Check(); err != nil {
				return nil, t.fail("commit", r.Key, err)
			}
			continue
		}
		p, err := t.prepare(r)
		if err != nil {
			return nil, t.fail("commit", r.Key, err)
		}
		d.saves[i] = p
		d.bytes += p.bytes()
	}
	for i := range c.Rows {
		r := copyRow(&c.Rows[i])
		d.Rows[i] = r
		d.bytes += rowBytes(&r)
		if err := t.checkRow(&r); err != nil {
			return nil, t.fail("commit", r.Key, err)
		}
	}
	return d, nil
}

// errMoved says that places of rows were changed while they were looked at.
var errMoved = errors.New("the places of rows were changed")

// checkOnly checks at one instant, aside from the writer unless that is not to be
// had.
func (t *Tier) checkOnly(ctx context.Context, d *decision) error {
	for range 3 {
		err := t.atOnce(ctx, func(x *tx) error { return x.check(d, false) })
		if !errors.Is(err, errMoved) {
			return err
		}
	}
	return t.writer.do(ctx, &job{run: func(tx *tx) error { return tx.check(d, false) }})
}

// atOnce lends fn a connection that sees one instant. The places of rows have to be
// those of that instant: errMoved.
func (t *Tier) atOnce(ctx context.Context, fn func(x *tx) error) error {
	return t.read(ctx, func(c *conn) (err error) {
		x := &tx{ctx: context.WithoutCancel(ctx), c: c, clock: t.clock, waiting: &t.waiting}
		turn := t.waiting.turn()
		defer func() {
			if x.books.open && t.waiting.turn() != turn {
				err = errMoved
			}
		}()
		if _, err := x.exec("BEGIN"); err != nil {
			return err
		}
		defer func() {
			if _, endErr := x.exec("ROLLBACK"); err == nil {
				err = endErr
			}
		}()
		return fn(x)
	})
}

// carryOut does what a commit says, or answers why nothing of it may be done.
func (x *tx) carryOut(d *decision, near bool) (out tiers.Committed, err error) {
	if err := x.remember(d.ID, len(d.Rows) > 0); err != nil {
		return out, err
	}
	if err := x.check(d, near); err != nil {
		return out, err
	}
	if err := x.once(d); err != nil {
		return out, err
	}
	out.Saves, out.Rows = make([]tiers.Record, len(d.Saves)), make([]tiers.Row, len(d.Rows))
	for i, p := range d.saves {
		if p == nil {
			out.Saves[i].Key = d.Saves[i].Key
			_, err = x.remove(d.Saves[i].Key, tiers.Cond{})
		} else {
			out.Saves[i], err = x.save(p, tiers.Cond{})
		}
		if err != nil {
			return out, err
		}
	}
	for i := range d.Rows {
		r, of := d.Rows[i], lastOf{}
		if i == len(d.Rows)-1 {
			of = lastOf{change: true, tx: d.ID}
		}
		if out.Rows[i], err = x.appendRow(r, tiers.Cond{}, d.RowLimits[r.Tier], of); err != nil {
			return out, tiers.Fail("commit", r.Tier, r.Key, err)
		}
	}
	return out, nil
}

// check answers ErrConflict when something that was read is no longer as it was.
func (x *tx) check(d *decision, near bool) error {
	now := x.now()
	for _, r := range d.Reads {
		v, err := x.number(liveVersion, r.Namespace, r.Category, r.Name, now)
		if err != nil {
			return err
		}
		if v != micro(r.Version) {
			return changed(tierName, r.Key)
		}
	}
	for _, r := range d.Ranges {
		sum, err := x.digest(r, now)
		if err != nil {
			return err
		}
		if sum != r.Sum {
			// Which of its keys has changed can't be told from a sum.
			return changed(tierName, tiers.Key{Namespace: r.Query.Namespace, Category: r.Query.Category})
		}
	}
	return x.checkRows(d, now, near)
}

// digest lists a range again.
func (x *tx) digest(r tiers.Range, now int64) (uint64, error) {
	var d tiers.Digest
	low, high := rangeBounds(r)
	if low >= high {
		return d.Sum(), nil
	}
	query := rangeForward
	if r.Query.Reverse {
		query = rangeReverse
	}
	err := x.c.query(x.ctx, query, []driver.Value{r.Query.Namespace, r.Query.Category, low, high, now}, func(row []driver.Value) (bool, error) {
		name, _ := row[0].(string)
		version, _ := row[1].(int64)
		d.Add(name, tiers.Version(version)) //nolint:gosec // written from a version
		return true, nil
	})
	return d.Sum(), err
}

// rangeBounds are the keys of a range: from low on, up to but without high.
func rangeBounds(r tiers.Range) (low, high string) {
	low, high = bounds(r.Query)
	switch {
	case r.End == "":
	case r.Query.Reverse:
		low = max(low, r.End)
	default:
		high = min(high, r.End+"\x00")
	}
	return low, high
}

// once sets the fact that must not be there.
func (x *tx) once(d *decision) error {
	if d.OnlyOnce == "" {
		return nil
	}
	row, err := x.first(loadFact, d.OnlyOnce)
	if err != nil {
		return err
	}
	if row != nil {
		return fmt.Errorf("%w: %q was done before", tiers.ErrExists, d.OnlyOnce)
	}
	_, err = x.exec(saveFact, d.OnlyOnce, d.OnceValue)
	return err
}

// commitFailed completes an error with the transaction, and counts what is not an
// answer.
func (t *Tier) commitFailed(id string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, tiers.ErrCommitUnknown) {
		err = tiers.Hint(err, "ask for the outcome of the transaction")
	}
	err = t.failed("commit", tiers.Key{}, err)
	if e, ok := err.(*tiers.Error); ok { //nolint:errorlint // failed answers one
		e.Tx = id
	}
	return err
}
