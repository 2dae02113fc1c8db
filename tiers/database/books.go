package database

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"

	"github.com/sagestore/sagestore/tiers"
)

const (
	// The counter is raised by what removes rows, so that together with the rows
	// themselves it says how far the journal has come: adding rows need not write it.
	journalSeq = `SELECT max((SELECT value FROM counters WHERE name = 'journal'),
		coalesce((SELECT max(seq) FROM journal), 0))`
	booksNow = `SELECT (` + journalSeq + `), coalesce((SELECT max(seq) FROM recent), 0),
		(SELECT value FROM counters WHERE name = 'recent'), (SELECT max(id) FROM commits)`
	setCounter = `UPDATE counters SET value = ? WHERE name = ?`
	// The last row of a change has the sums after it; what removes rows writes them
	// into their table, and then no row is newer than the counter.
	rowSums = `SELECT sums FROM journal
		WHERE seq = (SELECT max(seq) FROM journal) AND seq > (SELECT value FROM counters WHERE name = 'journal')`
	tierSums = `SELECT tier, version, entries, bytes FROM journal_tiers`
	keepSums = `INSERT OR REPLACE INTO journal_tiers (tier, version, entries, bytes) VALUES (?, ?, ?, ?)`
)

// books are the sums of the journal as they are inside a transaction. They are
// kept from one to the next while nobody else writes, and forgotten with
// everything that is rolled back.
type books struct {
	open  bool
	seq   int64 // of the newest row, or more
	last  int64 // seq of the newest entry of recent
	floor int64 // up to which recent does not say everything
	tiers map[string]*sums
	maxID string // none above it is among commits: most ids grow with the time

	// Rows that the places in memory do not have yet, in order, and those that have
	// left since.
	added []placed
	at    map[rowKey]int64 // of added
	ids   map[string]bool  // of added
	gone  []placed
}

// sums is what is known about the journal of one tier.
type sums struct {
	version        tiers.Version // the highest issued
	entries, bytes int64
	dirty          bool // another one than in the table
}

// openBooks reads what is not known already.
func (x *tx) openBooks() (*books, error) {
	b := &x.books
	if b.open {
		return b, nil
	}
	row, err := x.first(booksNow)
	if err != nil {
		return nil, err
	}
	n := books{open: true}
	for i, to := range []*int64{&n.seq, &n.last, &n.floor} {
		*to, _ = row[i].(int64)
	}
	n.maxID, _ = row[3].(string)
	if n.tiers, err = sumsNow(x.ctx, x.c); err != nil {
		return nil, err
	}
	added, err := placesIn(x.ctx, x.c, x.waiting.upTo(), -1)
	if err != nil {
		return nil, err
	}
	for _, p := range added {
		n.add(p)
	}
	*b = n
	return b, nil
}

// sumsNow reads the sums of all tiers.
func sumsNow(ctx context.Context, c *conn) (map[string]*sums, error) {
	all := map[string]*sums{}
	row, err := c.first(ctx, rowSums)
	if err != nil {
		return nil, err
	}
	if row != nil {
		text, _ := row[0].(string)
		return all, parseSums(text, all)
	}
	return all, c.query(ctx, tierSums, nil, func(row []driver.Value) (bool, error) {
		tier, _ := row[0].(string)
		s := &sums{version: tiers.Version(intAt(row, 1)), entries: intAt(row, 2), bytes: intAt(row, 3)} //nolint:gosec // written from a version
		all[tier] = s
		return true, nil
	})
}

// text is what a row says of all tiers.
func (b *books) text() (string, error) {
	all := make(map[string][3]int64, len(b.tiers))
	for tier, s := range b.tiers {
		all[tier] = [3]int64{micro(s.version), s.entries, s.bytes}
	}
	text, err := json.Marshal(all)
	return string(text), err
}

func parseSums(text string, into map[string]*sums) error {
	var all map[string][3]int64
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return fmt.Errorf("%w: the sums of the journal: %w", tiers.ErrCorrupt, err)
	}
	for tier, n := range all {
		into[tier] = &sums{version: tiers.Version(n[0]), entries: n[1], bytes: n[2], dirty: true} //nolint:gosec // written from a version
	}
	return nil
}

// sums answers those of a tier, which may be changed when dirty is set.
func (b *books) sums(tier string) *sums {
	s := b.tiers[tier]
	if s == nil {
		s = &sums{}
		b.tiers[tier] = s
	}
	return s
}

// saveSums writes the sums into their table, together with the counter.
func (x *tx) saveSums() error {
	b := &x.books
	for tier, s := range b.tiers {
		if !s.dirty {
			continue
		}
		if _, err := x.exec(keepSums, tier, micro(s.version), s.entries, s.bytes); err != nil {
			return err
		}
		s.dirty = false
	}
	b.seq++
	_, err := x.exec(setCounter, b.seq, "journal")
	return err
}

func (b *books) add(p placed) {
	if b.at == nil {
		b.at, b.ids = map[rowKey]int64{}, map[string]bool{}
	}
	b.added = append(b.added, p)
	b.at[p.rowKey] = p.seq
	if p.tx != "" {
		b.ids[p.tx] = true
	}
}

// find answers where the row of a key is, or was, 0 for nowhere.
func (x *tx) find(k rowKey) int64 {
	if seq := x.books.at[k]; seq != 0 {
		return seq
	}
	return x.waiting.find(k)
}

// tellPlaces is called when the transaction was committed.
func (x *tx) tellPlaces() {
	b := &x.books
	if !b.open {
		return
	}
	if len(b.added) > 0 {
		x.waiting.add(b.added, b.seq)
	}
	x.waiting.remove(b.gone)
	clear(b.at)
	clear(b.ids)
	b.added, b.gone = b.added[:0], nil
}
