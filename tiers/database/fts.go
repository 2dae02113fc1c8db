package database

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sagestore/sagestore/tiers"
)

// The full-text index is two tables of FTS5 without content. An entry has a place, a
// number by which tiers.IndexText.Order sorts, so that FTS5, which yields rows by
// their numbers, yields the last ones first. The row of a record that has an entry
// says where in its flags, above those of tiers.Flags: so nothing but the saves and
// deletes of such records pays for the index. A trigger removes the entry with the
// row, whoever deletes it. An update has none, since it would make every save slower;
// instead a save leaves a row with an entry alone until unindex has removed the entry.

const (
	// flagBits are those of tiers.Flags in the flags of a row. The rest is the place,
	// which is above 0; SQL says 8 and 256.
	flagBits  = 8
	isIndexed = 1 << flagBits
	// placeBits are those of a place that tell apart entries of one order.
	placeBits = 8
)

const (
	indexWords  = `INSERT INTO search_words (rowid, words) VALUES (?, ?)`
	indexText   = `INSERT INTO search_parts (rowid, text) VALUES (?, ?)`
	lastPlace   = `SELECT flags >> 8 FROM records INDEXED BY records_found WHERE flags >= 256 AND flags >> 8 < ? ORDER BY flags >> 8 DESC LIMIT 1`
	indexedRow  = `SELECT rowid, version, expires, flags >> 8 FROM records WHERE namespace = ? AND category = ? AND key = ? AND flags >= 256`
	unflagRow   = `UPDATE records SET flags = flags & 255 WHERE rowid = ?`
	dropWords   = `DELETE FROM search_words WHERE rowid = ?`
	dropText    = `DELETE FROM search_parts WHERE rowid = ?`
	raiseGaps   = `UPDATE counters SET value = value + 1 WHERE name = 'unindexed'`
	loadGaps    = `SELECT value FROM counters WHERE name = 'unindexed'`
	reindexRow  = `SELECT rowid, flags FROM records WHERE namespace = ? AND category = ? AND key = ? AND version = ?`
	flagRow     = `UPDATE records SET flags = flags & 255 | ? WHERE rowid = ?`
	strayWords  = `SELECT count(*) FROM search_words_docsize WHERE id NOT IN (SELECT flags >> 8 FROM records WHERE flags >= 256)`
	strayParts  = `SELECT count(*) FROM search_parts_docsize WHERE id NOT IN (SELECT flags >> 8 FROM records WHERE flags >= 256)`
	lackEntries = `SELECT count(*) FROM records WHERE flags >= 256 AND
		(flags >> 8 NOT IN (SELECT id FROM search_words_docsize) OR flags >> 8 NOT IN (SELECT id FROM search_parts_docsize))`
	sharedPlace = `SELECT count(*) - count(DISTINCT flags >> 8) FROM records WHERE flags >= 256`
)

// indexed is the text of a record in the full-text index.
type indexed struct {
	words, text string
	order       int64
	place       int64 // where the entry is or will be; settle decides
}

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
	return &indexed{words: entryWords(r.Index), text: entryText(r.Index), order: r.Index.Order}, nil
}

// settle decides where the entry goes that a save is about to make: behind the last
// one of its order. When that order is full it goes on in the next, so that the
// place says the order of the entry or a higher one.
func (x *tx) settle(f *indexed) error {
	if f == nil {
		return nil
	}
	from, to := max(f.order<<placeBits, 1), (f.order+1)<<placeBits
	if x.full.order == f.order && x.full.to > to {
		from, to = x.full.to-1<<placeBits, x.full.to
	}
	for ; ; from, to = to, to+1<<placeBits {
		last, err := x.number(lastPlace, to)
		if err != nil {
			return err
		}
		if f.place = max(from, last+1); f.place < to {
			x.full = fullOrder{f.order, to}
			return nil
		}
	}
}

// fullOrder is where entries of an order go that has no place left: below to. What is
// known of it saves a look at all that are full, when very many come of one order.
type fullOrder struct{ order, to int64 }

// index has the entry of a row made that has none, where settle has said.
func (x *tx) index(f *indexed) {
	if f == nil {
		return
	}
	if x.pending == nil {
		x.pending = make(map[int64]*indexed)
	}
	x.pending[f.place] = f
}

// makeEntries makes all entries that wait for it, in the order of their places. What
// FTS5 has gathered it writes down before any other table is written, and before an
// entry that belongs before the last one: so many at once take a fraction of the time.
func (x *tx) makeEntries() error {
	places := slices.Sorted(maps.Keys(x.pending))
	for _, place := range places {
		if _, err := x.exec(indexWords, place, x.pending[place].words); err != nil {
			return err
		}
	}
	for _, place := range places {
		if _, err := x.exec(indexText, place, x.pending[place].text); err != nil {
			return err
		}
	}
	x.pending = nil
	return nil
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
	place, _ := row[3].(int64)
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
	return true, x.dropEntry(place)
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

func (x *tx) dropEntry(place int64) error {
	if _, waits := x.pending[place]; waits {
		delete(x.pending, place)
		return nil
	}
	if _, err := x.exec(dropWords, place); err != nil {
		return err
	}
	_, err := x.exec(dropText, place)
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
		if err := x.dropEntry(flags >> flagBits); err != nil {
			return err
		}
	}
	if err := x.settle(p.found); err != nil {
		return err
	}
	if _, err := x.exec(flagRow, p.found.place<<flagBits, rowid); err != nil {
		return err
	}
	x.index(p.found)
	return nil
}

// checkIndex compares the full-text index of a copy with its records. That each of
// its tables is sound, PRAGMA integrity_check has told.
func (d *copied) checkIndex(ctx context.Context, c *conn) error {
	if d.schema < 6 {
		return nil // its index was another one, which nobody uses any more
	}
	for _, query := range []string{strayWords, strayParts, lackEntries, sharedPlace} {
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
