package database

import (
	"context"
	"database/sql/driver"
	"iter"
	"math"

	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.TopSearcher = (*Tier)(nil)

// searchRows is how many entries of the index a page of a search yields, topRows how
// many the first page of the best ones does.
const (
	searchRows = 1024
	topRows    = 64
)

// fewEntries is how many there may be for all of them to be found at once, whatever
// their grades.
const fewEntries = 128

const (
	searchRecords = ` CROSS JOIN records AS r INDEXED BY records_found
		WHERE f.rowid < ? AND r.flags >= 256 AND r.flags >> 8 = +f.rowid
		AND r.namespace = ? AND r.category = ? AND r.key >= ? AND r.key < ? AND (r.expires = 0 OR r.expires > ?)`
	searchLast  = ` ORDER BY f.rowid DESC LIMIT ?`
	searchWords = `SELECT f.rowid, r.key, r.version FROM search_words AS f` + searchRecords + ` AND f.search_words MATCH ?` + searchLast
	searchParts = `SELECT f.rowid, r.key, r.version FROM search_parts AS f` + searchRecords + ` AND f.search_parts MATCH ?` + searchLast
	searchBoth  = `SELECT f.rowid, r.key, r.version FROM search_words AS f` + searchRecords + ` AND f.search_words MATCH ?
		AND +f.rowid IN (SELECT rowid FROM search_parts WHERE search_parts MATCH ?)` + searchLast
	anyOfTerm = `SELECT rowid FROM search_words WHERE search_words MATCH ? LIMIT 1`

	unindexed = `SELECT key, version FROM records WHERE namespace = ? AND category = ? AND key >= ? AND key < ?
		AND (expires = 0 OR expires > ?) AND flags < 256 ORDER BY key `
)

// looking is a search of the index.
type looking struct {
	t *Tier
	tiers.Search
}

// pages hands out what matches the terms of the words and has the part, by place
// from the last on, a page after the other until fn answers false.
func (l looking) pages(ctx context.Context, words string, rows, most int, fn func(place int64, f tiers.Found) bool) error {
	query, terms := searchWords, []driver.Value{words}
	switch {
	case len(l.Words) == 0 && l.Part != "":
		query, terms = searchParts, []driver.Value{matchParts(l.Part, l.Marks)}
	case l.Part != "":
		query, terms = searchBoth, append(terms, matchParts(l.Part, nil))
	}
	low, high := bounds(tiers.Query{Prefix: l.Prefix})
	type row struct {
		place int64
		found tiers.Found
	}
	var page []row
	for before := int64(math.MaxInt64 >> flagBits); ; rows = min(4*rows, most) {
		err := l.t.read(ctx, func(c *conn) error {
			page = page[:0]
			args := append([]driver.Value{before, l.Namespace, l.Category, low, high, l.t.clock.Now().UnixMicro()}, terms...)
			return c.query(ctx, query, append(args, int64(rows)), func(r []driver.Value) (bool, error) {
				place, _ := r[0].(int64)
				page = append(page, row{place, foundIn(r[1:])})
				return true, nil
			})
		})
		if err != nil {
			return err
		}
		for _, r := range page {
			if !fn(r.place, r.found) {
				return nil
			}
		}
		if len(page) < rows {
			return nil
		}
		before = page[len(page)-1].place
	}
}

// Search implements tiers.Searcher. It goes through the index from the last place to
// the first, a page at a time.
func (t *Tier) Search(ctx context.Context, s tiers.Search) iter.Seq2[tiers.Found, error] {
	space := tiers.Key{Namespace: s.Namespace, Category: s.Category}
	if err := s.Check(); err != nil {
		return tiers.Failed[tiers.Found](t.fail("search", space, err))
	}
	return func(yield func(tiers.Found, error) bool) {
		words := match(s.Words, s.Marks)
		err := looking{t: t, Search: s}.pages(ctx, words, searchRows, searchRows, func(_ int64, f tiers.Found) bool { return yield(f, nil) })
		if err != nil {
			yield(tiers.Found{}, t.failed("search", space, err))
		}
	}
}

// Top implements tiers.TopSearcher. The entries of a grade are those whose words all
// have it or a higher one, and not all a higher one.
func (t *Tier) Top(ctx context.Context, s tiers.Search) iter.Seq2[tiers.Ranked, error] {
	space := tiers.Key{Namespace: s.Namespace, Category: s.Category}
	if err := s.Check(); err != nil {
		return tiers.Failed[tiers.Ranked](t.fail("search", space, err))
	}
	return func(yield func(tiers.Ranked, error) bool) {
		l, done := looking{t: t, Search: s}, false
		of := func(grade uint8) func(int64, tiers.Found) bool {
			return func(place int64, f tiers.Found) bool {
				done = !yield(tiers.Ranked{Found: f, Grade: grade, Order: place >> placeBits}, nil)
				return !done
			}
		}
		var err error
		if len(s.Words) == 0 {
			err = l.pages(ctx, match(nil, s.Marks), topRows, searchRows, of(tiers.MaxGrade))
		} else {
			done, err = l.few(ctx, yield)
		}
		if len(s.Words) > 0 && err == nil && !done {
			err = l.byGrade(ctx, &done, of)
		}
		if err != nil {
			yield(tiers.Ranked{}, t.failed("search", space, err))
		}
	}
}

// byGrade hands out what there is of each grade, from the highest on, until it is done.
func (l looking) byGrade(ctx context.Context, done *bool, of func(grade uint8) func(int64, tiers.Found) bool) error {
	grades, err := l.grades(ctx)
	for g := tiers.MaxGrade; g >= 0 && err == nil && !*done; g-- {
		grade := uint8(g)
		if words := matchGrade(l.Words, l.Marks, grades, grade); words != "" {
			err = l.pages(ctx, words, topRows, searchRows, of(grade))
		}
	}
	return err
}

// grades answers which there are of each word, the highest first. To ask for those
// that there are not takes longer, with several words.
func (l looking) grades(ctx context.Context) (all [][]uint8, err error) {
	err = l.t.read(ctx, func(c *conn) error {
		for _, w := range l.Words[:min(len(l.Words), enoughWords)] {
			var there []uint8
			for g := tiers.MaxGrade; g >= 0; g-- {
				grade := uint8(g)
				n, err := c.number(ctx, anyOfTerm, match([]string{graded(w, grade)}, nil))
				if err != nil {
					return err
				}
				if n > 0 {
					there = append(there, grade)
				}
			}
			all = append(all, there)
		}
		return nil
	})
	return all, err
}

// few yields all there are when they are few, as if all had the highest grade and
// order, and tells whether that was it. To look for words in every grade takes longer
// than to look at some records.
func (l looking) few(ctx context.Context, yield func(tiers.Ranked, error) bool) (done bool, err error) {
	var all []tiers.Found
	words := match(l.Words, l.Marks)
	err = l.pages(ctx, words, fewEntries, fewEntries, func(_ int64, f tiers.Found) bool {
		all = append(all, f)
		return len(all) < fewEntries
	})
	if err != nil || len(all) == fewEntries {
		return false, err
	}
	for _, f := range all {
		if !yield(tiers.Ranked{Found: f, Grade: tiers.MaxGrade, Order: tiers.MaxOrder}, nil) {
			break
		}
	}
	return true, nil
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
