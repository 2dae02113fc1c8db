package postgres

import (
	"context"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.Searcher = (*Tier)(nil)

// The index is one inverted index (GIN) over two arrays that stand in the row itself:
// the words with their grades, and every three characters of the text. So it can't differ
// from the records, and what has none pays nothing for it. A dictionary of PostgreSQL
// would fold and drop words in its own way.

// searchRows is how many records a page of a search yields.
const searchRows = 1024

//nolint:gochecknoglobals // constant
var unindexed = `SELECT key, version FROM ~.records WHERE namespace = $1 AND category = $2 AND key >= $3 AND key > $4 AND key < $5 AND key <= $6
		AND ` + liveSQL + nowSQL("$7") + `) AND words IS NULL ORDER BY key `

const loadGaps = `SELECT value FROM ~.counters WHERE name = 'unindexed'`

func scanFound(row pgx.CollectableRow) (f tiers.Found, err error) {
	var v int64
	err = row.Scan(&f.Name, &v)
	f.Version = version(v)
	return f, err
}

// Search implements tiers.Searcher. It finds all at once, as the index does.
func (t *Tier) Search(ctx context.Context, s tiers.Search) iter.Seq2[tiers.Found, error] {
	space := tiers.Key{Namespace: s.Namespace, Category: s.Category}
	if err := s.Check(); err != nil {
		return tiers.Failed[tiers.Found](t.fail("search", space, err))
	}
	return func(yield func(tiers.Found, error) bool) {
		l, sp := t.look(s)
		query := `SELECT key, version` + foundWhere + l.anyGrade()
		all, err := ask(ctx, t, scanFound, query, l.args...)
		if err != nil {
			yield(tiers.Found{}, t.failed("search", space, err))
			return
		}
		for _, f := range all {
			if sp.holds(f.Name) && !yield(f, nil) {
				return
			}
		}
	}
}

// Unindexed implements tiers.Searcher.
func (t *Tier) Unindexed(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Found, error] {
	space := tiers.Key{Namespace: q.Namespace, Category: q.Category}
	if err := space.Space().Check(); err != nil {
		return tiers.Failed[tiers.Found](t.fail("search", space, err))
	}
	query := unindexed + "LIMIT $8"
	if q.Reverse {
		query = unindexed + "DESC LIMIT $8"
	}
	return func(yield func(tiers.Found, error) bool) {
		left := q.Limit
		for s := spanOf(q); ; {
			limit := searchRows
			if q.Limit > 0 {
				limit = min(limit, left)
			}
			page, err := ask(ctx, t, scanFound, query, append(append([]any{q.Namespace, q.Category}, s.args()...), t.now(), limit)...)
			if err != nil {
				yield(tiers.Found{}, t.failed("search", space, err))
				return
			}
			for _, f := range page {
				if !s.holds(f.Name) {
					continue
				}
				if !yield(f, nil) {
					return
				}
				if left--; left == 0 {
					return
				}
			}
			if len(page) < limit {
				return
			}
			s = s.beyond(page[len(page)-1].Name)
		}
	}
}

// Gaps implements tiers.Searcher.
func (t *Tier) Gaps(ctx context.Context) (n uint64, err error) {
	err = t.lend(ctx, func(q querier) error {
		var value int64
		err := q.QueryRow(ctx, t.sql(loadGaps)).Scan(&value)
		n = uint64(value) //nolint:gosec // counted from 0
		return err
	})
	return n, t.failed("search", tiers.Key{}, err)
}

// Reindex implements tiers.Searcher.
func (t *Tier) Reindex(ctx context.Context, rs []tiers.Record) error {
	ps := make([]*packed, 0, len(rs))
	bytes := 0
	for i := range rs {
		p, err := t.prepare(&tiers.Record{Key: rs[i].Key, Version: rs[i].Version, Index: rs[i].Index})
		if err != nil {
			return t.fail("index", rs[i].Key, err)
		}
		ps = append(ps, p)
		bytes += p.bytes()
	}
	if len(ps) == 0 {
		return nil
	}
	err := t.writer.do(ctx, &job{
		bytes: bytes,
		wants: func(w *wants) {
			for _, p := range ps {
				w.records[p.Key] = true
			}
		},
		run: func(x *tx) error {
			for _, p := range ps {
				if err := x.reindex(p); err != nil {
					return err
				}
			}
			return nil
		},
	})
	return t.failed("index", tiers.Key{}, err)
}
