package database

import (
	"github.com/sagestore/sagestore/tiers"
)

const (
	// The counter is raised by what removes rows, so that together with the rows
	// themselves it says how far the journal has come: adding rows need not write it.
	journalSeq = `SELECT max((SELECT value FROM counters WHERE name = 'journal'),
		coalesce((SELECT max(seq) FROM journal), 0))`
	booksNow = `SELECT (` + journalSeq + `), coalesce((SELECT max(seq) FROM recent), 0),
		(SELECT value FROM counters WHERE name = 'recent')`
	setCounter = `UPDATE counters SET value = ? WHERE name = ?`
	tierSums   = `SELECT version, entries, bytes FROM journal_tiers WHERE tier = ?`
	updateSums = `UPDATE journal_tiers SET version = ?, entries = ?, bytes = ? WHERE tier = ?`
	insertSums = `INSERT INTO journal_tiers (version, entries, bytes, tier) VALUES (?, ?, ?, ?)`
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
}

// sums is what is known about the journal of one tier.
type sums struct {
	version        tiers.Version // the highest issued
	entries, bytes int64
	stored, dirty  bool
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
	*b = books{open: true, tiers: map[string]*sums{}}
	for i, n := range []*int64{&b.seq, &b.last, &b.floor} {
		*n, _ = row[i].(int64)
	}
	return b, nil
}

// sums answers those of a tier, which may be changed when dirty is set.
func (x *tx) sums(tier string) (*sums, error) {
	b, err := x.openBooks()
	if err != nil {
		return nil, err
	}
	if s, ok := b.tiers[tier]; ok {
		return s, nil
	}
	row, err := x.first(tierSums, tier)
	if err != nil {
		return nil, err
	}
	s := &sums{stored: row != nil}
	if row != nil {
		version, _ := row[0].(int64)
		s.version = tiers.Version(version) //nolint:gosec // written from a version
		s.entries, _ = row[1].(int64)
		s.bytes, _ = row[2].(int64)
	}
	b.tiers[tier] = s
	return s, nil
}

// saveSums writes the sums that were changed; a job that changes any ends with it.
func (x *tx) saveSums() error {
	for tier, s := range x.books.tiers {
		if !s.dirty {
			continue
		}
		query := insertSums
		if s.stored {
			query = updateSums
		}
		if _, err := x.exec(query, micro(s.version), s.entries, s.bytes, tier); err != nil {
			return err
		}
		s.stored, s.dirty = true, false
	}
	return nil
}
