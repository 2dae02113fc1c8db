package database

import (
	"database/sql/driver"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

const (
	isIn = `EXISTS (SELECT 1 FROM records r WHERE r.namespace = ? AND r.category = ? AND r.key = journal.key)`
	// Few rows wait, as a rule, and they are not in order of their keys.
	replaceRows = `DELETE FROM journal WHERE tier = ? AND namespace = ? AND category = ? AND (` + isIn + ` OR ` + isIn + `) RETURNING bytes, tx, updated`

	// The row before the first says where to go on counting: a seq that is not given is
	// the one after the highest in the table, which may be below what the journal had.
	rowBefore    = `INSERT INTO journal (` + journalColumns + `, queued, bytes) VALUES (?, '', '', '', '', '', NULL, 1, '', 0, 0, 0, 0, 0, 0, x'', 0, 0)`
	endRowBefore = `DELETE FROM journal WHERE seq = ?`
	comeRows     = `INSERT INTO journal (` + journalColumns + `, queued, bytes)
		SELECT NULL, ?, ?, ?, key, ?, NULL, 0, codec, schema, flags & ?, ?, created, updated, expires, CAST(value AS BLOB), ?, 0
		FROM records WHERE namespace = ? AND category = ? ORDER BY key`
	goneRows = `INSERT INTO journal (` + journalColumns + `, queued, bytes)
		SELECT NULL, ?, ?, ?, g.key, ?, NULL, 1, '', 0, 0, ?, ?, ?, 0, x'', ?, 0
		FROM records g WHERE g.namespace = ? AND g.category = ?
			AND NOT EXISTS (SELECT 1 FROM records r WHERE r.namespace = ? AND r.category = ? AND r.key = g.key) ORDER BY g.key`
	lastRow = `SELECT max(seq) FROM journal`
)

// switchRows makes rows of what was prepared. Their places are read after the commit, a
// few at a time.
func (x *tx) switchRows(rows []tiers.RowMove) ([]int64, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	brought := make([]int64, len(rows))
	for i := range rows {
		m := &rows[i]
		d := &decision{Commit: tiers.Commit{Since: m.Since, RowRanges: []tiers.RowRange{engine.Whole(m)}}}
		if err := x.checkRows(d, x.now(), false); err != nil {
			return nil, err
		}
		var err error
		if brought[i], err = x.bring(m); err != nil {
			return nil, err
		}
	}
	if err := x.saveSums(); err != nil {
		return nil, err
	}
	x.books, x.many = books{}, true
	return brought, nil
}

// bring carries out one row move, and answers how many records came.
func (x *tx) bring(m *tiers.RowMove) (brought int64, err error) {
	b, err := x.openBooks()
	if err != nil {
		return 0, err
	}
	s := b.sums(m.Tier)
	if err := x.clearWaiting(m, s); err != nil {
		return 0, err
	}
	first, now := b.seq+1, x.now()
	if _, err := x.exec(rowBefore, first); err != nil {
		return 0, err
	}
	brought, err = x.exec(comeRows, m.Tier, m.To.Namespace, m.To.Category, m.Owner, int64(isIndexed-1), micro(m.Version), now, m.From.Namespace, m.From.Category)
	if err != nil {
		return 0, err
	}
	gone, err := x.exec(goneRows, m.Tier, m.To.Namespace, m.To.Category, m.Owner, micro(m.Version), now, now, now,
		m.Gone.Namespace, m.Gone.Category, m.From.Namespace, m.From.Category)
	if err != nil {
		return 0, err
	}
	if b.seq, err = x.number(lastRow); err != nil {
		return 0, err
	}
	if _, err := x.exec(endRowBefore, first); err != nil {
		return 0, err
	}
	s.version = max(s.version, m.Version)
	s.entries += brought + gone
	s.dirty = true
	return brought, nil
}

// clearWaiting removes the rows that are about to be replaced.
func (x *tx) clearWaiting(m *tiers.RowMove, s *sums) error {
	if s.entries == 0 {
		return nil
	}
	type last struct { // row of a transaction
		id      string
		updated int64
	}
	var lasts []last
	args := []driver.Value{
		m.Tier, m.To.Namespace, m.To.Category,
		m.From.Namespace, m.From.Category, m.Gone.Namespace, m.Gone.Category,
	}
	err := x.c.query(x.ctx, replaceRows, args, func(row []driver.Value) (bool, error) {
		s.entries--
		s.bytes -= intAt(row, 0)
		s.dirty = true
		if id, _ := row[1].(string); id != "" {
			lasts = append(lasts, last{id, intAt(row, 2)})
		}
		return true, nil
	})
	for _, l := range lasts {
		if err == nil {
			err = x.passOn(l.id, l.updated)
		}
	}
	return err
}
