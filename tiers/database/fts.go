package database

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"

	"github.com/sagestore/sagestore/tiers"
)

// The full-text index is two tables of FTS5 without content, by the rowid of the
// record. A row that has an entry says so in its flags, above those of
// tiers.Flags: so nothing but the saves and deletes of such records pays for the
// index. A trigger removes the entry with the row, whoever deletes it. An update
// has none, since it would make every save slower; instead a save leaves a row
// with an entry alone until unindex has removed the entry.

// isIndexed is the flag of a row that has an entry; SQL says 256.
const isIndexed = 1 << 8

const (
	indexWords  = `INSERT INTO search_words (rowid, words) VALUES (?, ?)`
	indexText   = `INSERT INTO search_parts (rowid, text) VALUES (?, ?)`
	indexedRow  = `SELECT rowid, version, expires FROM records WHERE namespace = ? AND category = ? AND key = ? AND flags >= 256`
	unflagRow   = `UPDATE records SET flags = flags & 255 WHERE rowid = ?`
	dropWords   = `DELETE FROM search_words WHERE rowid = ?`
	dropText    = `DELETE FROM search_parts WHERE rowid = ?`
	raiseGaps   = `UPDATE counters SET value = value + 1 WHERE name = 'unindexed'`
	loadGaps    = `SELECT value FROM counters WHERE name = 'unindexed'`
	reindexRow  = `SELECT rowid, flags FROM records WHERE namespace = ? AND category = ? AND key = ? AND version = ?`
	flagRow     = `UPDATE records SET flags = flags | 256 WHERE rowid = ?`
	strayWords  = `SELECT count(*) FROM search_words_docsize WHERE id NOT IN (SELECT rowid FROM records WHERE flags >= 256)`
	strayParts  = `SELECT count(*) FROM search_parts_docsize WHERE id NOT IN (SELECT rowid FROM records WHERE flags >= 256)`
	lackEntries = `SELECT count(*) FROM records WHERE flags >= 256 AND
		(rowid NOT IN (SELECT id FROM search_words_docsize) OR rowid NOT IN (SELECT id FROM search_parts_docsize))`
)

// indexed is the text of a record in the full-text index.
type indexed struct{ words, text string }

func (f *indexed) bytes() int {
	if f == nil {
		return 0
	}
	return len(f.words) + len(f.text)
}

// packIndex answers what goes into the index, nil for nothing. What is encrypted
// must not be there in the clear.
func packIndex(r *tiers.Record) (*indexed, error) {
	if r.Index == nil || r.Deleted || r.Flags&tiers.Encrypted != 0 {
		return nil, nil //nolint:nilnil // there is nothing to do
	}
	if err := r.Index.Check(); err != nil {
		return nil, err
	}
	return &indexed{words: strings.Join(r.Index.Words, " "), text: r.Index.Text}, nil
}

// index makes the entry of a row that has none.
func (x *tx) index(rowid int64, f *indexed) error {
	if f == nil {
		return nil
	}
	if _, err := x.exec(indexWords, rowid, f.words); err != nil {
		return err
	}
	_, err := x.exec(indexText, rowid, f.text)
	return err
}

// unindex removes the entry of a key's row and answers true, if there is one and
// the condition holds.
func (x *tx) unindex(k tiers.Key, c tiers.Cond, now int64) (done bool, err error) {
	row, err := x.first(indexedRow, k.Namespace, k.Category, k.Name)
	if err != nil || row == nil {
		return false, err
	}
	rowid, _ := row[0].(int64)
	version, _ := row[1].(int64)
	expires, _ := row[2].(int64)
	if expires != 0 && expires <= now {
		version = 0
	}
	live := tiers.Version(version)
	if refused := c.Holds(live); refused != nil {
		return false, nil //nolint:nilerr // the caller says so
	}
	if _, err := x.exec(unflagRow, rowid); err != nil {
		return false, err
	}
	return true, x.dropEntry(rowid)
}

// raiseGaps notes that records have come without an entry.
func (x *tx) raiseGaps() error {
	_, err := x.exec(raiseGaps)
	return err
}

// Gaps implements tiers.Searcher.
func (t *Tier) Gaps(ctx context.Context) (n uint64, err error) {
	err = t.read(ctx, func(c *conn) error {
		value, err := c.number(ctx, loadGaps)
		n = uint64(value) //nolint:gosec // counted from 0
		return err
	})
	return n, t.failed("search", tiers.Key{}, err)
}

func (x *tx) dropEntry(rowid int64) error {
	if _, err := x.exec(dropWords, rowid); err != nil {
		return err
	}
	_, err := x.exec(dropText, rowid)
	return err
}

// Reindex implements tiers.Searcher.
func (t *Tier) Reindex(ctx context.Context, rs []tiers.Record) error {
	ps := make([]*packed, 0, len(rs))
	bytes := 0
	for i := range rs {
		r := tiers.Record{Key: rs[i].Key, Version: rs[i].Version, Index: rs[i].Index}
		p, err := t.prepare(&r)
		if err != nil {
			return t.fail("index", r.Key, err)
		}
		ps = append(ps, p)
		bytes += p.bytes()
	}
	if len(ps) == 0 {
		return nil
	}
	err := t.writer.do(ctx, &job{bytes: bytes, several: true, run: func(tx *tx) error {
		for _, p := range ps {
			if err := tx.reindex(p); err != nil {
				return err
			}
		}
		return nil
	}})
	return t.failed("index", tiers.Key{}, err)
}

func (x *tx) reindex(p *packed) error {
	row, err := x.first(reindexRow, p.Namespace, p.Category, p.Name, micro(p.Version))
	if err != nil || row == nil {
		return err
	}
	rowid, _ := row[0].(int64)
	flags, _ := row[1].(int64)
	if p.found == nil || flags&int64(tiers.Encrypted) != 0 {
		return nil
	}
	if flags >= isIndexed {
		err = x.dropEntry(rowid)
	} else {
		_, err = x.exec(flagRow, rowid)
	}
	if err != nil {
		return err
	}
	return x.index(rowid, p.found)
}

// checkIndex compares the full-text index of a copy with its records. That each of
// its tables is sound, PRAGMA integrity_check has told.
func (d *copied) checkIndex(ctx context.Context, c *conn) error {
	if d.schema < 4 {
		return nil
	}
	for _, query := range []string{strayWords, strayParts, lackEntries} {
		n, err := c.number(ctx, query)
		if err != nil {
			return err
		}
		if n != 0 {
			return fmt.Errorf("%w: the full-text index and the records differ in %d places", tiers.ErrCorrupt, n)
		}
	}
	return nil
}

// allOf writes a query of FTS5 for all of these, but for those that would make it
// too long: more is found then, which the caller sorts out.
func allOf(terms []string) driver.Value {
	const most = 48
	var b strings.Builder
	seen := make(map[string]bool, len(terms))
	for _, term := range terms {
		if seen[term] || len(seen) == most {
			continue
		}
		if len(seen) > 0 {
			b.WriteString(" AND ")
		}
		seen[term] = true
		b.WriteByte('"')
		b.WriteString(strings.ReplaceAll(term, `"`, `""`))
		b.WriteByte('"')
	}
	return b.String()
}

// trigrams are the parts of three characters of a text.
func trigrams(text string) (all []string) {
	var starts []int // of the characters
	for i := range text {
		starts = append(starts, i)
	}
	starts = append(starts, len(text))
	for i := 3; i < len(starts); i++ {
		all = append(all, text[starts[i-3]:starts[i]])
	}
	return all
}
