package postgres

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/sagestore/sagestore/tiers"
)

// rowKey is a key of a tier.
type rowKey struct {
	tier string
	key  tiers.Key
}

// rowState is a key of the journal as the jobs of a group have left it.
type rowState struct {
	rowKey
	there   bool
	seq     int64
	version int64
	deleted bool
	expires int64
	created int64
	queued  int64
	bytes   int64

	put  *tiers.Row // is to be stored
	gone bool       // what was stored is to be removed
}

// live is the version that a reader sees.
func (s *rowState) live(now int64) tiers.Version {
	if !s.there || s.deleted || s.expires != 0 && s.expires <= now {
		return 0
	}
	return version(s.version)
}

// recentState is what a row has written that has left the journal.
type recentState struct {
	seq, version int64
	deleted      bool
	expires      int64
	put          bool // is to be stored
}

func (s *recentState) live(now int64) tiers.Version {
	if s.deleted || s.expires != 0 && s.expires <= now {
		return 0
	}
	return version(s.version)
}

// books are the sums over the journal.
type books struct {
	seq     int64 // the highest of any row
	floor   int64 // up to which recent may be incomplete
	session int64 // the highest seq of a session
	tiers   map[string]*sums
	dirty   bool // seq has risen without a row
}

type sums struct {
	version        tiers.Version
	entries, bytes int64
	dirty          bool
}

// sums answers those of a tier, which the job may change.
func (x *tx) sums(tier string) *sums {
	s := x.books.tiers[tier]
	if s == nil {
		s = &sums{}
		x.books.tiers[tier] = s
	}
	was := *s
	x.undo = append(x.undo, func() { *s = was })
	s.dirty = true
	return s
}

// row answers the state of a key of the journal.
func (x *tx) row(k rowKey) *rowState {
	s := x.rows[k]
	if s == nil {
		s = &rowState{rowKey: k}
		x.rows[k] = s
	}
	return s
}

// setRow changes the state of a key of the journal.
func (x *tx) setRow(k rowKey, next rowState) {
	s := x.row(k)
	was := *s
	x.change(func() { *s = was })
	*s = next
}

// appendRow stores a row in place of the one that waits for the key.
func (x *tx) appendRow(r tiers.Row, c tiers.Cond, limit int64) (tiers.Row, error) {
	k := rowKey{r.Tier, r.Key}
	old, s := x.row(k), x.sums(r.Tier)
	size := int64(rowBytes(&r))
	if err := c.Holds(old.live(x.time)); err != nil {
		return r, err
	}
	if old.there {
		s.entries--
		s.bytes -= old.bytes
	}
	if limit > 0 && s.bytes+size > limit && !r.Deleted {
		return r, tiers.Hint(fmt.Errorf("%w: more than %d bytes wait for the %s tier", tiers.ErrFull, limit, r.Tier),
			"bring the "+r.Tier+" tier back, or raise the limit of its journal")
	}
	now := tiers.FromMicro(x.time)
	n := r
	n.Updated = now
	queued := x.time
	if old.there {
		n.Over = tiers.Cond{} // the other one may be in the tier already
		queued = old.queued
	}
	switch {
	case old.live(x.time) != 0:
		n.Created = tiers.FromMicro(old.created)
	case old.there: // what the tier has is gone
		n.Created = now
	}
	if n.Created.IsZero() {
		n.Created = now
	}
	if n.Reserved {
		n.Version = max(n.Version, version(old.version)+1)
		n.Reserved = false
	} else {
		n.Version = max(s.version+1, n.Version, tiers.Version(max(x.time, 1)))
	}
	s.version = max(s.version, n.Version)
	s.entries++
	s.bytes += size
	was := x.books.seq
	x.undo = append(x.undo, func() { x.books.seq = was })
	x.books.seq++
	n.Seq = uint64(x.books.seq) //nolint:gosec // counted from 1
	x.setRow(k, rowState{
		rowKey: k, there: true, seq: x.books.seq, version: number(n.Version), deleted: n.Deleted, expires: tiers.ToMicro(n.Expires),
		created: tiers.ToMicro(n.Created), queued: queued, bytes: size, put: &n,
	})
	return n, nil
}

func rowBytes(r *tiers.Row) int { return len(r.Name) + len(r.Value) }

// finish removes a row, if it is still there, and notes what it has written.
func (x *tx) finish(tier string, seq int64) (done bool) {
	r := x.bySeq[seq]
	if r == nil || r.tier != tier || r.gone {
		return false // a newer one took its place, or somebody else was first
	}
	now := x.row(r.rowKey)
	if !now.there || now.seq != seq {
		return false
	}
	s := x.sums(tier)
	s.entries--
	s.bytes -= now.bytes
	noted := recentState{seq: seq, version: now.version, deleted: now.deleted, expires: now.expires, put: true}
	before := x.recent[r.rowKey]
	x.change(func() {
		if before == nil {
			delete(x.recent, r.rowKey)
		} else {
			x.recent[r.rowKey] = before
		}
	})
	x.recent[r.rowKey] = &noted
	x.setRow(r.rowKey, rowState{rowKey: r.rowKey, seq: seq, gone: true})
	return true
}

const (
	// recentKept is how far back recent says everything, in sequence numbers. A
	// transaction that began before can't commit when it has read other tiers.
	recentKept = 100_000
	// recentStep is how many sequence numbers pass between two removals.
	recentStep = 1000

	// By its number too: whatever happens, no row goes that nobody has applied.
	removeJournal = `DELETE FROM ~.journal WHERE ctid = ANY (ARRAY(SELECT f.at
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[]) AS u (tier, namespace, category, key, seq) CROSS JOIN LATERAL (SELECT j.ctid AS at FROM ~.journal j
		WHERE j.tier = u.tier AND j.namespace = u.namespace AND j.category = u.category AND j.key = u.key AND j.seq = u.seq LIMIT 1) f))`
	putJournal = `INSERT INTO ~.journal (tier, namespace, category, key, owner, codec, seq, over, deleted, queued, bytes, schema, flags, version, created, updated, expires, value)
		SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::boolean[], $10::bigint[], $11::bigint[],
			$12::bigint[], $13::int[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bytea[])
		ON CONFLICT (tier, namespace, category, key) DO UPDATE SET owner = excluded.owner, codec = excluded.codec, seq = excluded.seq, over = excluded.over,
			deleted = excluded.deleted, queued = excluded.queued, bytes = excluded.bytes, schema = excluded.schema, flags = excluded.flags,
			version = excluded.version, created = excluded.created, updated = excluded.updated, expires = excluded.expires, value = excluded.value`
	putSums = `INSERT INTO ~.journal_tiers (tier, version, entries, bytes) SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[])
		ON CONFLICT (tier) DO UPDATE SET version = excluded.version, entries = excluded.entries, bytes = excluded.bytes`
	putRecent = `INSERT INTO ~.recent (tier, namespace, category, key, seq, version, deleted, expires)
		SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::boolean[], $8::bigint[])
		ON CONFLICT (tier, namespace, category, key) DO UPDATE SET seq = excluded.seq, version = excluded.version, deleted = excluded.deleted, expires = excluded.expires`
	setCounter   = `UPDATE ~.counters SET value = $2 WHERE name = $1`
	forgetRecent = `DELETE FROM ~.recent WHERE seq <= $1`
)

// writeJournal says what is to be written of the journal.
func (x *tx) writeJournal(b *pgx.Batch) {
	sql := x.w.t.sql
	gone, names := newColumns(4), newColumns(6)
	var over []*int64
	var left, seqs, queued, bytes, schemas, versions, created, updated, expires []int64
	var flags []int32
	var deleted []bool
	var values [][]byte
	// In order, so that the index of seq grows at its end.
	rows := make([]*rowState, 0, len(x.rows))
	for _, s := range x.rows {
		rows = append(rows, s)
	}
	slices.SortFunc(rows, func(a, b *rowState) int { return cmp.Compare(a.seq, b.seq) })
	for _, s := range rows {
		k := s.key
		if s.gone {
			gone.add(s.tier, k.Namespace, k.Category, k.Name)
			left = append(left, s.seq)
		}
		if s.put == nil {
			continue
		}
		names.add(s.tier, k.Namespace, k.Category, k.Name, s.put.Owner, s.put.Codec)
		var o *int64
		if v, set := s.put.Over.Version(); set {
			n := number(v)
			o = &n
		}
		over = append(over, o)
		seqs, queued, bytes = append(seqs, s.seq), append(queued, s.queued), append(bytes, s.bytes)
		schemas, flags, versions = append(schemas, int64(s.put.Schema)), append(flags, int32(s.put.Flags)), append(versions, s.version)
		created, updated, expires = append(created, s.created), append(updated, tiers.ToMicro(s.put.Updated)), append(expires, s.expires)
		deleted, values = append(deleted, s.deleted), append(values, s.put.Value)
	}
	if len(gone[0]) > 0 {
		b.Queue(sql(removeJournal), append(gone.args(), left)...)
	}
	if len(seqs) > 0 {
		b.Queue(sql(putJournal), append(names.args(), seqs, over, deleted, queued, bytes, schemas, flags, versions, created, updated, expires, values)...)
	}
	x.writeRecent(b)
	x.writeSums(b)
}

func (x *tx) writeSums(b *pgx.Batch) {
	var names []string
	var versions, entries, bytes []int64
	for tier, s := range x.books.tiers {
		if s.dirty {
			names = append(names, tier)
			versions, entries, bytes = append(versions, number(s.version)), append(entries, s.entries), append(bytes, s.bytes)
		}
	}
	if len(names) > 0 {
		b.Queue(x.w.t.sql(putSums), names, versions, entries, bytes)
	}
}

func (x *tx) writeRecent(b *pgx.Batch) {
	sql := x.w.t.sql
	if x.books.dirty {
		b.Queue(sql(setCounter), "journal", x.books.seq)
	}
	cols := newColumns(4)
	var seqs, versions, expires []int64
	var deleted []bool
	for k, s := range x.recent {
		if s.put {
			cols.add(k.tier, k.key.Namespace, k.key.Category, k.key.Name)
			seqs, versions = append(seqs, s.seq), append(versions, s.version)
			deleted, expires = append(deleted, s.deleted), append(expires, s.expires)
		}
	}
	if len(seqs) == 0 {
		return
	}
	b.Queue(sql(putRecent), append(cols.args(), seqs, versions, deleted, expires)...)
	if keep := x.books.seq - recentKept; keep-x.books.floor >= recentStep {
		b.Queue(sql(setCounter), "recent", keep)
		b.Queue(sql(forgetRecent), keep)
	}
}
