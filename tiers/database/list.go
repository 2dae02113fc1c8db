package database

import (
	"context"
	"database/sql/driver"
	"iter"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sagestore/sagestore/tiers"
)

// Bounds of one page of a listing: what is held in memory, and how long a read
// transaction keeps the log from beginning anew.
const (
	pageRows  = 256
	pageBytes = 1 << 20
)

const (
	listFrom    = ` FROM records WHERE namespace = ? AND category = ? AND key >= ? AND key < ? AND (expires = 0 OR expires > ?) ORDER BY key `
	listForward = `SELECT key, ` + metaColumns + `, value` + listFrom + `LIMIT ?`
	listReverse = `SELECT key, ` + metaColumns + `, value` + listFrom + `DESC LIMIT ?`
	keysForward = `SELECT key, ` + metaColumns + `, x''` + listFrom + `LIMIT ?`
	keysReverse = `SELECT key, ` + metaColumns + `, x''` + listFrom + `DESC LIMIT ?`
	nextSpace   = `SELECT namespace, category FROM records WHERE (namespace, category) > (?, ?)
		ORDER BY namespace, category LIMIT 1`
	countSpace = `SELECT count(*), total(octet_length(key) + octet_length(value)) FROM records
		WHERE namespace = ? AND category = ? AND (expires = 0 OR expires > ?)`
	sweepRows = `DELETE FROM records WHERE rowid IN
		(SELECT rowid FROM records WHERE expires <> 0 AND expires <= ? ORDER BY expires LIMIT ?)`
)

// beyond is greater than every key, since it is no UTF-8.
const beyond = "\xff"

// bounds are the keys of a query: from low on, up to but without high.
func bounds(q tiers.Query) (low, high string) {
	low, high = q.Prefix, after(q.Prefix)
	switch {
	case q.After == "":
	case q.Reverse:
		high = min(high, q.After)
	default:
		low = max(low, q.After+"\x00")
	}
	return low, high
}

// after is the least string that is greater than every string with the prefix.
func after(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return beyond
}

// listed is a row of a page.
type listed[T any] struct {
	item T
	err  error
}

// List implements tiers.Tier.
func (t *Tier) List(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
	return t.list(ctx, t, q)
}

func (t *Tier) list(ctx context.Context, from lender, q tiers.Query) iter.Seq2[tiers.Record, error] {
	if err := (tiers.Space{Namespace: q.Namespace, Category: q.Category}).Check(); err != nil {
		return tiers.Failed[tiers.Record](t.fail("list", tiers.Key{Namespace: q.Namespace, Category: q.Category}, err))
	}
	return func(yield func(tiers.Record, error) bool) {
		space := tiers.Key{Namespace: q.Namespace, Category: q.Category}
		low, high := bounds(q)
		left := q.Limit
		for low < high {
			page, more, err := t.page(ctx, from, q, low, high, left)
			if err != nil {
				yield(tiers.Record{}, t.failed("list", space, err))
				return
			}
			for _, l := range page {
				if l.err != nil {
					l.err = t.failed("list", l.item.Key, l.err)
				}
				if !yield(l.item, l.err) {
					return
				}
			}
			if left -= len(page); !more || q.Limit > 0 && left <= 0 {
				return
			}
			last := page[len(page)-1].item.Name
			if q.Reverse {
				high = last
			} else {
				low = last + "\x00"
			}
		}
	}
}

// page reads the next rows of a listing; more tells that there may be others.
func (t *Tier) page(ctx context.Context, from lender, q tiers.Query, low, high string, left int) (page []listed[tiers.Record], more bool, err error) {
	limit := pageRows
	if q.Limit > 0 {
		limit = min(limit, left)
	}
	query := listForward
	switch {
	case q.KeysOnly && q.Reverse:
		query = keysReverse
	case q.KeysOnly:
		query = keysForward
	case q.Reverse:
		query = listReverse
	}
	now := t.clock.Now().UnixMicro()
	args := []driver.Value{q.Namespace, q.Category, low, high, now, int64(limit)}
	err = from.read(ctx, func(c *conn) error {
		page, more = page[:0], false
		bytes := 0
		err := c.query(ctx, query, args, func(row []driver.Value) (bool, error) {
			var l listed[tiers.Record]
			l.item.Key = tiers.Key{Namespace: q.Namespace, Category: q.Category}
			l.item.Name, _ = row[0].(string)
			if l.err = unpackRow(row[1:], &l.item); l.err != nil {
				l.item = tiers.Record{Key: l.item.Key}
			}
			if q.KeysOnly {
				l.item.Value = nil
			}
			page = append(page, l)
			bytes += len(l.item.Value)
			more = len(page) == limit || bytes >= pageBytes
			return !more, nil
		})
		if codeOf(err) == sqlite3.SQLITE_CORRUPT && len(page) > 0 {
			// What was read so far is good; the next page meets the damage again.
			more = true
			return nil
		}
		return err
	})
	return page, more, err
}

// Spaces implements tiers.Tier.
func (t *Tier) Spaces(ctx context.Context) iter.Seq2[tiers.Space, error] {
	return func(yield func(tiers.Space, error) bool) {
		last := []driver.Value{"", ""}
		for {
			var s tiers.Space
			err := t.read(ctx, func(c *conn) error {
				s = tiers.Space{}
				row, err := c.first(ctx, nextSpace, last...)
				if err == nil && row != nil {
					s.Namespace, _ = row[0].(string)
					s.Category, _ = row[1].(string)
				}
				return err
			})
			if err != nil {
				yield(tiers.Space{}, t.failed("list spaces", tiers.Key{}, err))
				return
			}
			if s.Category == "" || !yield(s, nil) {
				return
			}
			last = []driver.Value{s.Namespace, s.Category}
		}
	}
}

// Count implements tiers.Counter.
func (t *Tier) Count(ctx context.Context, s tiers.Space) (entries, bytes int64, err error) {
	space := tiers.Key{Namespace: s.Namespace, Category: s.Category}
	if err := s.Check(); err != nil {
		return 0, 0, t.fail("count", space, err)
	}
	err = t.read(ctx, func(c *conn) error {
		entries, bytes, err = c.sums(ctx, countSpace, s.Namespace, s.Category, t.clock.Now().UnixMicro())
		return err
	})
	if err != nil {
		return 0, 0, t.failed("count", space, err)
	}
	return entries, bytes, nil
}

// sums reads a row of a number and of a total, which SQLite makes a float.
func (c *conn) sums(ctx context.Context, query string, args ...driver.Value) (n, total int64, err error) {
	row, err := c.first(ctx, query, args...)
	if err != nil || len(row) < 2 {
		return 0, 0, err
	}
	n, _ = row[0].(int64)
	f, _ := row[1].(float64)
	return n, int64(f), nil
}

// sweepChunk is how many records are removed in one go, so that no caller waits
// long behind it.
const sweepChunk = 500

// Sweep implements tiers.Sweeper. It also forgets old transactions.
func (t *Tier) Sweep(ctx context.Context, limit int) (removed int, err error) {
	for removed < limit {
		chunk := min(sweepChunk, limit-removed)
		var n int64
		err := t.writer.do(ctx, &job{bytes: chunk * 1024, run: func(tx *tx) (err error) {
			if err = tx.makeEntries(); err == nil { // so that the trigger sees them
				n, err = tx.exec(sweepRows, tx.now(), int64(chunk))
			}
			return err
		}})
		if err != nil {
			return removed, t.failed("sweep", tiers.Key{}, err)
		}
		removed += int(n)
		t.expired.Add(n)
		if int(n) < chunk {
			break
		}
	}
	if err := t.forgetCommits(ctx); err != nil {
		return removed, t.failed("sweep", tiers.Key{}, err)
	}
	return removed, nil
}
