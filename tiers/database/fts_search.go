package database

import (
	"context"
	"database/sql/driver"
	"iter"
	"math"

	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.Searcher = (*Tier)(nil)

// searchRows is how many entries of the index a page of a search yields.
const searchRows = 1024

const (
	searchRecords = ` CROSS JOIN records AS r ON r.rowid = f.rowid
		WHERE f.rowid < ? AND r.namespace = ? AND r.category = ? AND r.key >= ? AND r.key < ? AND (r.expires = 0 OR r.expires > ?)`
	searchLast  = ` ORDER BY f.rowid DESC LIMIT ?`
	searchWords = `SELECT f.rowid, r.key, r.version FROM search_words AS f` + searchRecords + ` AND f.search_words MATCH ?` + searchLast
	searchParts = `SELECT f.rowid, r.key, r.version FROM search_parts AS f` + searchRecords + ` AND f.search_parts MATCH ?` + searchLast
	searchBoth  = `SELECT f.rowid, r.key, r.version FROM search_words AS f` + searchRecords + ` AND f.search_words MATCH ?
		AND r.rowid IN (SELECT rowid FROM search_parts WHERE search_parts MATCH ?)` + searchLast

	unindexed = `SELECT key, version FROM records WHERE namespace = ? AND category = ? AND key >= ? AND key < ?
		AND (expires = 0 OR expires > ?) AND flags < 256 ORDER BY key `
)

// Search implements tiers.Searcher. It goes through the index from the newest rows
// to the oldest, a page at a time.
func (t *Tier) Search(ctx context.Context, s tiers.Search) iter.Seq2[tiers.Found, error] {
	space := tiers.Key{Namespace: s.Namespace, Category: s.Category}
	if err := s.Check(); err != nil {
		return tiers.Failed[tiers.Found](t.fail("search", space, err))
	}
	query, terms := searchWords, []driver.Value{allOf(s.Words)}
	switch {
	case len(s.Words) == 0:
		query, terms = searchParts, []driver.Value{allOf(trigrams(s.Part))}
	case s.Part != "":
		query, terms = searchBoth, append(terms, allOf(trigrams(s.Part)))
	}
	low, high := bounds(tiers.Query{Prefix: s.Prefix})
	return func(yield func(tiers.Found, error) bool) {
		var page []tiers.Found
		for before := int64(math.MaxInt64); ; {
			last := before
			err := t.read(ctx, func(c *conn) error {
				page, last = page[:0], before
				args := append([]driver.Value{before, s.Namespace, s.Category, low, high, t.clock.Now().UnixMicro()}, terms...)
				return c.query(ctx, query, append(args, int64(searchRows)), func(row []driver.Value) (bool, error) {
					last, _ = row[0].(int64)
					page = append(page, foundIn(row[1:]))
					return true, nil
				})
			})
			if err != nil {
				yield(tiers.Found{}, t.failed("search", space, err))
				return
			}
			for _, f := range page {
				if !yield(f, nil) {
					return
				}
			}
			if len(page) < searchRows {
				return
			}
			before = last
		}
	}
}

// foundIn reads key and version.
func foundIn(row []driver.Value) (f tiers.Found) {
	f.Name, _ = row[0].(string)
	version, _ := row[1].(int64)
	f.Version = tiers.Version(version) //nolint:gosec // written from a version
	return f
}

// Unindexed implements tiers.Searcher.
func (t *Tier) Unindexed(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Found, error] {
	space := tiers.Key{Namespace: q.Namespace, Category: q.Category}
	if err := (tiers.Space{Namespace: q.Namespace, Category: q.Category}).Check(); err != nil {
		return tiers.Failed[tiers.Found](t.fail("search", space, err))
	}
	query := unindexed + "LIMIT ?"
	if q.Reverse {
		query = unindexed + "DESC LIMIT ?"
	}
	return func(yield func(tiers.Found, error) bool) {
		low, high := bounds(q)
		var page []tiers.Found
		for left := q.Limit; low < high; {
			limit := searchRows
			if q.Limit > 0 {
				limit = min(limit, left)
			}
			err := t.read(ctx, func(c *conn) error {
				page = page[:0]
				args := []driver.Value{q.Namespace, q.Category, low, high, t.clock.Now().UnixMicro(), int64(limit)}
				return c.query(ctx, query, args, func(row []driver.Value) (bool, error) {
					page = append(page, foundIn(row))
					return true, nil
				})
			})
			if err != nil {
				yield(tiers.Found{}, t.failed("search", space, err))
				return
			}
			for _, f := range page {
				if !yield(f, nil) {
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
