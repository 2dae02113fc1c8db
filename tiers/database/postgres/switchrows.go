package postgres

import (
	"context"
	"errors"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

const (
	replaceRows = `WITH gone AS (DELETE FROM ~.journal j WHERE tier = $1 AND namespace = $2 AND category = $3
			AND (EXISTS (SELECT FROM ~.records r WHERE r.namespace = $4 AND r.category = $5 AND r.key = j.key)
				OR EXISTS (SELECT FROM ~.records r WHERE r.namespace = $6 AND r.category = $7 AND r.key = j.key))
			RETURNING bytes)
		SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM gone`
	comeRows = `INSERT INTO ~.journal (seq, tier, namespace, category, key, owner, over, deleted, queued, bytes, codec, schema, flags, version, created, updated, expires, value)
		SELECT $1 + row_number() OVER (ORDER BY key), $2, $3, $4, key, $5, NULL, false, $6, 0, codec, schema, flags & $7, $8, created, updated, expires, value
		FROM ~.records WHERE namespace = $9 AND category = $10`
	goneRows = `INSERT INTO ~.journal (seq, tier, namespace, category, key, owner, over, deleted, queued, bytes, codec, schema, flags, version, created, updated, expires, value)
		SELECT $1 + row_number() OVER (ORDER BY g.key), $2, $3, $4, g.key, $5, NULL, true, $6, 0, '', 0, 0, $7, $6, $6, 0, ''
		FROM ~.records g WHERE g.namespace = $8 AND g.category = $9
			AND NOT EXISTS (SELECT FROM ~.records r WHERE r.namespace = $10 AND r.category = $11 AND r.key = g.key)`
)

// errShared says that others of a group have changed rows or records that a switch moves or
// replaces: then it has to have a transaction of its own, which a group that failed gives it.
var errShared = errors.New("others of the group have changed what a switch replaces")

// asRead are the spaces that row moves go to, which may not have changed.
func asRead(rows []tiers.RowMove) rowsAsRead {
	r := make(rowsAsRead, len(rows))
	for i := range rows {
		r[i] = &decision{Commit: tiers.Commit{Since: rows[i].Since, RowRanges: []tiers.RowRange{engine.Whole(&rows[i])}}}
	}
	return r
}

type rowsAsRead []*decision

func (r rowsAsRead) wants(w *wants) {
	for _, d := range r {
		d.wants(w)
	}
}

func (r rowsAsRead) hold(x *tx) error {
	for _, d := range r {
		if err := x.checkRows(d); err != nil {
			return err
		}
	}
	return nil
}

// switchRows makes rows of what was prepared. It comes before what the others of the
// group have asked for is written, and after they were told where their rows are.
func (x *tx) switchRows(ctx context.Context, rows []tiers.RowMove) ([]int64, error) {
	brought := make([]int64, len(rows))
	for i := range rows {
		m := &rows[i]
		for k, s := range x.rows {
			if (s.gone || s.put != nil) && k.tier == m.Tier && k.key.Space() == m.To {
				return nil, errShared
			}
		}
		var err error
		if brought[i], err = x.bring(ctx, m); err != nil {
			return nil, err
		}
	}
	return brought, nil
}

// bring carries out one row move, and answers how many records came.
func (x *tx) bring(ctx context.Context, m *tiers.RowMove) (brought int64, err error) {
	conn, sql := x.w.conn, x.w.t.sql
	s := x.books.tiers[m.Tier]
	if s == nil {
		s = &sums{}
		x.books.tiers[m.Tier] = s
	}
	var left, bytes int64
	err = conn.QueryRow(ctx, sql(replaceRows), m.Tier, m.To.Namespace, m.To.Category,
		m.From.Namespace, m.From.Category, m.Gone.Namespace, m.Gone.Category).Scan(&left, &bytes)
	if err != nil {
		return 0, err
	}
	come, err := conn.Exec(ctx, sql(comeRows), x.books.seq, m.Tier, m.To.Namespace, m.To.Category, m.Owner, x.time,
		isText-1, number(m.Version), m.From.Namespace, m.From.Category)
	if err != nil {
		return 0, err
	}
	brought = come.RowsAffected()
	gone, err := conn.Exec(ctx, sql(goneRows), x.books.seq+brought, m.Tier, m.To.Namespace, m.To.Category, m.Owner, x.time,
		number(m.Version), m.Gone.Namespace, m.Gone.Category, m.From.Namespace, m.From.Category)
	if err != nil {
		return 0, err
	}
	x.books.seq += brought + gone.RowsAffected()
	x.books.dirty = true
	s.version = max(s.version, m.Version)
	s.entries += brought + gone.RowsAffected() - left
	s.bytes -= bytes
	s.dirty = true
	return brought, nil
}
