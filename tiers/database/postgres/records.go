package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagestore/sagestore/tiers"
)

// state is a key as the jobs of a group have left it.
type state struct {
	there   bool // a row, live or not
	version tiers.Version
	created int64
	expires int64
	flags   int32
	blind   bool // nobody has asked what is stored: created is known to the server only

	put     *packed // is to be stored, with the numbers above
	updated int64   // of put
	removed bool    // is to be deleted
	touched bool    // only its expiry is to be stored
	indexed *found  // only what it is found by is to be stored
}

// live is the version that a reader sees.
func (s *state) live(now int64) tiers.Version {
	if !s.there || s.expires != 0 && s.expires <= now {
		return 0
	}
	return s.version
}

// written tells whether something of it is to be stored or deleted.
func (s *state) written() bool {
	return s.put != nil || s.removed || s.touched || s.indexed != nil
}

// state answers the state of a key that was asked for.
func (x *tx) state(k tiers.Key) (*state, error) {
	if s := x.records[k]; s != nil && !s.blind {
		return s, nil
	}
	return nil, errWrongOrder
}

// set changes the state of a key.
func (x *tx) set(k tiers.Key, s state) {
	old := x.records[k]
	if old == nil {
		x.change(func() { delete(x.records, k) })
		x.records[k] = &s
		return
	}
	was := *old
	x.change(func() { *old = was })
	*old = s
}

// save stores a record and answers it without its value. Without a condition nobody
// has to ask for the key before: Created is then in x.created in the end, by the version of the row.
func (x *tx) save(p *packed, c tiers.Cond) (tiers.Record, error) {
	s := x.records[p.Key]
	if s == nil {
		s = &state{blind: true}
	}
	if _, conditional := c.Version(); conditional {
		if s.blind {
			return tiers.Record{}, errWrongOrder
		}
		if err := c.Holds(s.live(x.time)); err != nil {
			return tiers.Record{}, err
		}
	}
	now := tiers.FromMicro(x.time)
	r := p.Record
	r.Deleted = false
	r.Version = x.next()
	r.Updated, r.Created = now, now
	r.Expires = tiers.Deadline(now, p.TTL)
	if p.TTL < 0 || !r.Live(now) {
		x.set(p.Key, state{removed: true})
		return r, nil
	}
	next := state{
		there: true, version: r.Version, created: x.time, expires: tiers.ToMicro(r.Expires), blind: s.blind,
		put: p, updated: x.time,
	}
	if !s.blind && s.live(x.time) != 0 {
		next.created = s.created
		r.Created = tiers.FromMicro(s.created)
	}
	x.set(p.Key, next)
	return r, nil
}

// complete puts in what the server has answered. Of several saves of a key in one group
// it has seen the last.
func (x *tx) complete(r *tiers.Record) {
	s := x.records[r.Key]
	if s == nil || !s.blind || s.put == nil {
		return
	}
	if created, ok := x.created[s.version]; ok {
		r.Created = tiers.FromMicro(created)
	}
}

// remove deletes a key and tells whether a live record was there.
func (x *tx) remove(k tiers.Key, c tiers.Cond) (existed bool, err error) {
	s, err := x.state(k)
	if err != nil {
		return false, err
	}
	live := s.live(x.time)
	if _, conditional := c.Version(); conditional {
		if err := c.Holds(live); err != nil {
			return false, err
		}
	}
	if s.there {
		x.set(k, state{removed: true})
	}
	return live != 0, nil
}

// touch changes the expiry of a live record.
func (x *tx) touch(k tiers.Key, ttl time.Duration) (existed bool, err error) {
	if ttl < 0 {
		return x.remove(k, tiers.Cond{})
	}
	s, err := x.state(k)
	if err != nil || s.live(x.time) == 0 {
		return false, err
	}
	next := *s
	next.expires = tiers.ToMicro(tiers.Deadline(tiers.FromMicro(x.time), ttl))
	next.touched = next.put == nil
	x.set(k, next)
	return true, nil
}

// apply stores a record as it is, unless a newer one is there.
func (x *tx) apply(p *packed, c tiers.Cond) error {
	x.mark = max(x.mark, p.Version)
	s, err := x.state(p.Key)
	if err != nil {
		return err
	}
	if _, conditional := c.Version(); conditional {
		if refused := c.Holds(s.live(x.time)); refused != nil {
			return nil //nolint:nilerr // a record that is passed over is no error
		}
	} else if s.there && s.version > p.Version {
		return nil
	}
	if p.Deleted || !p.Live(tiers.FromMicro(x.time)) {
		if s.there {
			x.set(p.Key, state{removed: true})
		}
		return nil
	}
	x.set(p.Key, state{
		there: true, version: p.Version, created: tiers.ToMicro(p.Created), expires: tiers.ToMicro(p.Expires),
		put: p, updated: tiers.ToMicro(p.Updated),
	})
	return nil
}

// reindex gives a record what it is found by, if it still has the version.
func (x *tx) reindex(p *packed) error {
	s, err := x.state(p.Key)
	if err != nil {
		return err
	}
	if p.found == nil || !s.there || s.version != p.Version || tiers.Flags(s.flags&0xff)&tiers.Encrypted != 0 {
		return nil
	}
	next := *s
	if s.put != nil {
		if s.put.Flags&tiers.Encrypted != 0 {
			return nil
		}
		put := *s.put
		put.found = p.found
		next.put = &put
	} else {
		next.indexed = p.found
	}
	x.set(p.Key, next)
	return nil
}

// The statement that stores records: of those that nobody has asked for, where the
// server finds out since when they are there, and of others; each without and with
// what they are found by, since a column costs the server as much as a comparison.
const (
	insertInto = `INSERT INTO ~.records AS r (namespace, category, key, codec, schema, flags, version, expires, value, created, updated`
	selectFrom = `) SELECT u.namespace, u.category, u.key, u.codec, u.schema, u.flags, u.version, u.expires, u.value`
	unnestFrom = ` FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::int[], $7::bigint[], $8::bigint[], $9::bytea[]`
	unnestAs   = `) AS u (namespace, category, key, codec, schema, flags, version, expires, value`
	orReplace  = `) ` + onConflict
	onConflict = `ON CONFLICT (namespace, category, key) DO UPDATE SET codec = excluded.codec, schema = excluded.schema, flags = excluded.flags,
		version = excluded.version, updated = excluded.updated, expires = excluded.expires, value = excluded.value,
		words = excluded.words, grams = excluded.grams, created = `
	foundCols = `, words, grams`
	foundBy   = `, string_to_array(u.words, ' '), u.grams::bigint[]`
	// A record that has expired is as good as absent: its created is not kept.
	keepCreated = `CASE WHEN r.expires = 0 OR r.expires > excluded.updated THEN r.created ELSE excluded.created END
		RETURNING r.version, r.created`

	putBlind      = insertInto + selectFrom + `, $10::bigint, $10::bigint` + unnestFrom + unnestAs + orReplace + keepCreated
	putBlindFound = insertInto + foundCols + selectFrom + `, $10::bigint, $10::bigint` + foundBy +
		unnestFrom + `, $11::text[], $12::text[]` + unnestAs + foundCols + orReplace + keepCreated
	putKnown = insertInto + selectFrom + `, u.created, u.updated` +
		unnestFrom + `, $10::bigint[], $11::bigint[]` + unnestAs + `, created, updated` + orReplace + `excluded.created`
	putKnownFound = insertInto + foundCols + selectFrom + `, u.created, u.updated` + foundBy +
		unnestFrom + `, $10::bigint[], $11::bigint[], $12::text[], $13::text[]` + unnestAs + `, created, updated` + foundCols + orReplace + `excluded.created`

	// Rows are found by a look for each key, as in readRecords.
	rowsOf = `CROSS JOIN LATERAL (SELECT r.ctid AS at FROM ~.records r
		WHERE r.namespace = u.namespace AND r.category = u.category AND r.key = u.key LIMIT 1) f`
	removeRows = `DELETE FROM ~.records WHERE ctid = ANY (ARRAY(SELECT f.at
		FROM unnest($1::text[], $2::text[], $3::text[]) AS u (namespace, category, key) ` + rowsOf + `))`
	touchRows = `UPDATE ~.records r SET expires = f.expires FROM (SELECT f.at, u.expires
		FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS u (namespace, category, key, expires) ` + rowsOf + ` OFFSET 0) f
		WHERE r.ctid = f.at`
	indexRows = `UPDATE ~.records r SET words = string_to_array(f.words, ' '), grams = f.grams::bigint[] FROM (SELECT f.at, u.words, u.grams
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) AS u (namespace, category, key, words, grams) ` + rowsOf + ` OFFSET 0) f
		WHERE r.ctid = f.at`
	raiseGaps = `UPDATE ~.counters SET value = value + 1 WHERE name = 'unindexed'`
)

// puts are the columns of records that are to be stored.
type puts struct {
	names                    columns
	codec                    []string
	schema, version, expires []int64
	created, updated         []int64
	flags                    []int32
	value                    [][]byte
	words, grams             []*string // nil: none of them has any
}

func (p *puts) add(k tiers.Key, s *state) {
	if p.names == nil {
		p.names = newColumns(3)
	}
	p.names.add(k.Namespace, k.Category, k.Name)
	p.codec = append(p.codec, s.put.Codec)
	p.schema = append(p.schema, int64(s.put.Schema))
	p.flags = append(p.flags, s.put.flags)
	p.version = append(p.version, number(s.version))
	p.created = append(p.created, s.created)
	p.updated = append(p.updated, s.updated)
	p.expires = append(p.expires, s.expires)
	p.value = append(p.value, s.put.value)
	if f := s.put.found; f != nil {
		p.words, p.grams = append(padded(p.words, len(p.value)-1), &f.words), append(padded(p.grams, len(p.value)-1), &f.grams)
	}
}

// padded makes a column as long as the others.
func padded(column []*string, n int) []*string {
	return append(column, make([]*string, n-len(column))...)
}

// args are the parameters, of which more are put in before what the records are found
// by.
func (p *puts) args(more ...any) (args []any, withFound bool) {
	args = append(p.names.args(), p.codec, p.schema, p.flags, p.version, p.expires, p.value)
	args = append(args, more...)
	if p.words == nil {
		return args, false
	}
	return append(args, padded(p.words, len(p.value)), padded(p.grams, len(p.value))), true
}

// queuePuts says what is to be written of the records that nobody has asked for, and of
// the others.
func (x *tx) queuePuts(b *pgx.Batch, blind, known *puts) {
	sql := x.w.t.sql
	if blind.names != nil {
		args, withFound := blind.args(x.time)
		query := putBlind
		if withFound {
			query = putBlindFound
		}
		b.Queue(sql(query), args...).Query(func(rows pgx.Rows) error {
			var v, created int64
			return each(rows, []any{&v, &created}, func() { x.created[version(v)] = created })
		})
	}
	if known.names != nil {
		args, withFound := known.args(known.created, known.updated)
		query := putKnown
		if withFound {
			query = putKnownFound
		}
		b.Queue(sql(query), args...)
	}
}

// writeRecords says what is to be written of records.
func (x *tx) writeRecords(b *pgx.Batch) {
	var blind, known puts
	gone, touched, indexed := newColumns(3), newColumns(3), newColumns(5)
	var expires []int64
	for k, s := range x.records {
		switch {
		case s.put != nil && s.blind:
			blind.add(k, s)
		case s.put != nil:
			known.add(k, s)
		case s.removed:
			gone.add(k.Namespace, k.Category, k.Name)
		}
		if s.put != nil || s.removed {
			continue
		}
		if s.touched {
			touched.add(k.Namespace, k.Category, k.Name)
			expires = append(expires, s.expires)
		}
		if s.indexed != nil {
			indexed.add(k.Namespace, k.Category, k.Name, s.indexed.words, s.indexed.grams)
		}
	}
	sql := x.w.t.sql
	x.queuePuts(b, &blind, &known)
	if len(gone[0]) > 0 {
		b.Queue(sql(removeRows), gone.args()...)
	}
	if len(expires) > 0 {
		b.Queue(sql(touchRows), append(touched.args(), expires)...)
	}
	if len(indexed[0]) > 0 {
		b.Queue(sql(indexRows), indexed.args()...)
	}
	if x.gaps {
		b.Queue(sql(raiseGaps))
	}
}
