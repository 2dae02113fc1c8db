package postgres

import (
	"context"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/sagestore/sagestore/tiers"
)

// Bounds of one page of a listing.
const (
	pageRows  = 256
	pageBytes = 1 << 20
)

var (
	//nolint:gochecknoglobals // constant
	fromSpan = ` FROM ~.records WHERE namespace = $1 AND category = $2 AND key >= $3 AND key > $4 AND key < $5 AND key <= $6 AND ` + liveSQL + nowSQL("$7") + `) ORDER BY key `
	//nolint:gochecknoglobals // constant
	countSpace = `SELECT count(*), coalesce(sum(octet_length(key) + octet_length(value)), 0)::bigint FROM ~.records
		WHERE namespace = $1 AND category = $2 AND ` + liveSQL + nowSQL("$3") + `)`
)

const (
	nextSpace = `SELECT namespace, category FROM ~.records WHERE (namespace, category) > ($1, $2) ORDER BY namespace, category LIMIT 1`
	// A row that somebody else is at is left to the next sweep.
	sweepRows = `DELETE FROM ~.records WHERE ctid = ANY(ARRAY(SELECT ctid FROM ~.records
		WHERE expires <> 0 AND expires <= $1 ORDER BY expires LIMIT $2 FOR UPDATE SKIP LOCKED))`
)

// listedRow is a row of a page.
type listedRow struct {
	r    tiers.Record
	name string
	err  error
}

// List implements tiers.Tier.
func (t *Tier) List(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
	return t.list(ctx, t, q)
}

func (t *Tier) list(ctx context.Context, from lender, q tiers.Query) iter.Seq2[tiers.Record, error] {
	space := tiers.Key{Namespace: q.Namespace, Category: q.Category}
	if err := space.Space().Check(); err != nil {
		return tiers.Failed[tiers.Record](t.fail("list", space, err))
	}
	value, order := "value", "LIMIT $8"
	if q.KeysOnly {
		value = "''::bytea"
	}
	if q.Reverse {
		order = "DESC LIMIT $8"
	}
	query := `SELECT key, ` + metaColumns + `, ` + value + fromSpan + order
	return func(yield func(tiers.Record, error) bool) {
		left := q.Limit
		limit := firstPage
		for s := spanOf(q); ; {
			if q.Limit > 0 {
				limit = min(limit, left)
			}
			page, err := t.page(ctx, from, query, q, s, limit)
			if err != nil {
				yield(tiers.Record{}, t.failed("list", space, err))
				return
			}
			bytes := 0
			for _, l := range page {
				bytes += len(l.r.Value)
				if !s.holds(l.name) {
					continue
				}
				if !yield(l.r, l.err) {
					return
				}
				if left--; left == 0 {
					return
				}
			}
			if len(page) < limit {
				return
			}
			s = s.beyond(page[len(page)-1].name)
			limit = fitting(limit, bytes)
		}
	}
}

// firstPage is how many rows the first page has: how large they are is not known yet.
const firstPage = 32

// fitting answers how many rows the next page may have after one of so many and so
// large ones.
func fitting(rows, bytes int) int {
	return max(1, min(pageRows, pageBytes*rows/max(bytes, 1)))
}

func (t *Tier) page(ctx context.Context, from lender, query string, q tiers.Query, s span, limit int) ([]listedRow, error) {
	args := append(append([]any{q.Namespace, q.Category}, s.args()...), t.now(), limit)
	return ask(ctx, from, func(row pgx.CollectableRow) (l listedRow, err error) {
		var m metaRow
		if err := row.Scan(append([]any{&l.name}, m.columns()...)...); err != nil {
			return l, err
		}
		l.r.Key = tiers.Key{Namespace: q.Namespace, Category: q.Category, Name: l.name}
		if err := m.fill(&l.r); err != nil {
			l.r, l.err = tiers.Record{Key: l.r.Key}, t.failed("list", l.r.Key, err)
		}
		if q.KeysOnly {
			l.r.Value = nil
		}
		return l, nil
	}, query, args...)
}

// Spaces implements tiers.Tier.
func (t *Tier) Spaces(ctx context.Context) iter.Seq2[tiers.Space, error] {
	return func(yield func(tiers.Space, error) bool) {
		for last := (tiers.Space{}); ; {
			next, err := ask(ctx, t, func(row pgx.CollectableRow) (s tiers.Space, err error) {
				return s, row.Scan(&s.Namespace, &s.Category)
			}, nextSpace, last.Namespace, last.Category)
			if err != nil {
				yield(tiers.Space{}, t.failed("list spaces", tiers.Key{}, err))
				return
			}
			if len(next) == 0 || !yield(next[0], nil) {
				return
			}
			last = next[0]
		}
	}
}

// Count implements tiers.Counter.
func (t *Tier) Count(ctx context.Context, s tiers.Space) (entries, bytes int64, err error) {
	space := tiers.Key{Namespace: s.Namespace, Category: s.Category}
	if err := s.Check(); err != nil {
		return 0, 0, t.fail("count", space, err)
	}
	err = t.lend(ctx, func(q querier) error {
		return q.QueryRow(ctx, t.sql(countSpace), s.Namespace, s.Category, t.now()).Scan(&entries, &bytes)
	})
	if err != nil {
		return 0, 0, t.failed("count", space, err)
	}
	return entries, bytes, nil
}

// sweepChunk is how many records are removed in one go, so that no caller waits
// long behind it.
const sweepChunk = 500

// Sweep implements tiers.Sweeper. It also forgets old transactions. It takes no
// writer's turn: what has expired is absent to everybody.
func (t *Tier) Sweep(ctx context.Context, limit int) (removed int, err error) {
	if err := t.enter(ctx); err != nil {
		return 0, t.fail("sweep", tiers.Key{}, err)
	}
	defer t.leave()
	var now int64
	if err := t.read.QueryRow(ctx, `SELECT `+nowSQL("$1"), t.now()).Scan(&now); err != nil {
		return 0, t.failed("sweep", tiers.Key{}, left(ctx, err))
	}
	for removed < limit {
		chunk := min(sweepChunk, limit-removed)
		tag, err := t.read.Exec(ctx, t.sql(sweepRows), now, chunk)
		if err != nil {
			return removed, t.failed("sweep", tiers.Key{}, left(ctx, err))
		}
		removed += int(tag.RowsAffected())
		t.expired.Add(tag.RowsAffected())
		if int(tag.RowsAffected()) < chunk {
			break
		}
	}
	for range 4 {
		tag, err := t.read.Exec(ctx, t.sql(forgetCommits), now-commitsKept.Microseconds(), 4*sweepChunk)
		if err != nil {
			return removed, t.failed("sweep", tiers.Key{}, fmt.Errorf("old transactions: %w", left(ctx, err)))
		}
		if tag.RowsAffected() < 4*sweepChunk {
			break
		}
	}
	return removed, nil
}
