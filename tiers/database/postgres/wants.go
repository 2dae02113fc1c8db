package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/sagestore/sagestore/tiers"
)

// wants is what the jobs of a group have to know of the store before they decide.
type wants struct {
	records   map[tiers.Key]bool
	ranges    []tiers.Range
	rows      map[rowKey]bool
	seqs      []int64 // of rows
	recent    map[rowKey]bool
	rowRanges []rowRange
	books     bool
	facts     map[string]bool
	sessions  map[sessionKey]bool
	ids       map[string]bool
}

// rowRange is a range of another tier and from when on it may not have changed.
type rowRange struct {
	tiers.RowRange
	since int64
}

func newWants() *wants {
	return &wants{
		records: map[tiers.Key]bool{}, rows: map[rowKey]bool{}, recent: map[rowKey]bool{},
		facts: map[string]bool{}, sessions: map[sessionKey]bool{}, ids: map[string]bool{},
	}
}

const (
	// Of each key one look: with a limit the planner has no other way, whatever it thinks
	// of a table that was just filled.
	readRecords = `SELECT w.namespace, w.category, w.key, r.* FROM unnest($1::text[], $2::text[], $3::text[]) AS w (namespace, category, key)
		CROSS JOIN LATERAL (SELECT version, created, expires, flags FROM ~.records r
			WHERE r.namespace = w.namespace AND r.category = w.category AND r.key = w.key LIMIT 1) r`
	rangeSQL        = ` FROM ~.records WHERE namespace = $1 AND category = $2 AND key >= $3 AND key > $4 AND key < $5 AND key <= $6 ORDER BY key`
	readRange       = `SELECT key, version, expires` + rangeSQL
	rowColumnsShort = `j.tier, j.namespace, j.category, j.key, j.seq, j.version, j.deleted, j.expires, j.created, j.queued, j.bytes`
	readRows        = `SELECT ` + rowColumnsShort + ` FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS w (tier, namespace, category, key)
		CROSS JOIN LATERAL (SELECT * FROM ~.journal j WHERE j.tier = w.tier AND j.namespace = w.namespace AND j.category = w.category AND j.key = w.key LIMIT 1) j`
	readSeqs   = `SELECT ` + rowColumnsShort + ` FROM ~.journal j WHERE j.seq = ANY($1::bigint[])`
	readRecent = `SELECT j.tier, j.namespace, j.category, j.key, j.seq, j.version, j.deleted, j.expires
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS w (tier, namespace, category, key)
		CROSS JOIN LATERAL (SELECT * FROM ~.recent j WHERE j.tier = w.tier AND j.namespace = w.namespace AND j.category = w.category AND j.key = w.key LIMIT 1) j`
	rowRangeSQL  = `tier = $1 AND namespace = $2 AND category = $3 AND key >= $4 AND key > $5 AND key < $6 AND key <= $7 AND seq > $8`
	readRowRange = `SELECT key FROM ~.journal WHERE ` + rowRangeSQL + ` UNION ALL SELECT key FROM ~.recent WHERE ` + rowRangeSQL + ` ORDER BY key`
	journalSeq   = `greatest((SELECT value FROM ~.counters WHERE name = 'journal'), (SELECT max(seq) FROM ~.journal))`
	readBooks    = `SELECT '', ` + journalSeq + `, (SELECT value FROM ~.counters WHERE name = 'recent'), 0
		UNION ALL SELECT tier, version, entries, bytes FROM ~.journal_tiers`
	readFacts    = `SELECT name, value FROM ~.facts WHERE name = ANY($1::text[])`
	readSessions = `SELECT s.namespace, s.id, s.generation, s.started, s.seen, s.ended, s.seq
		FROM unnest($1::text[], $2::text[]) AS w (namespace, id)
		CROSS JOIN LATERAL (SELECT * FROM ~.sessions s WHERE s.namespace = w.namespace AND s.id = w.id LIMIT 1) s`
	lastSession = `SELECT coalesce(max(seq), 0) FROM ~.sessions`
	readIDs     = `SELECT id FROM ~.commits WHERE id = ANY($1::text[])`
)

// read asks for what is wanted.
func (x *tx) read(b *pgx.Batch) {
	w, sql := x.wants, x.w.t.sql
	if len(w.records) > 0 {
		cols := newColumns(3)
		for k := range w.records {
			cols.add(k.Namespace, k.Category, k.Name)
			x.records[k] = &state{}
		}
		b.Queue(sql(readRecords), cols.args()...).Query(func(rows pgx.Rows) error {
			var k tiers.Key
			var v, created, expires int64
			var flags int32
			return each(rows, []any{&k.Namespace, &k.Category, &k.Name, &v, &created, &expires, &flags}, func() {
				*x.records[k] = state{there: true, version: version(v), created: created, expires: expires, flags: flags}
			})
		})
	}
	x.listings = make([][]listed, len(w.ranges))
	for i, r := range w.ranges {
		s := spanOf(r.Query).until(r)
		b.Queue(sql(readRange), append([]any{r.Query.Namespace, r.Query.Category}, s.args()...)...).Query(func(rows pgx.Rows) error {
			var l listed
			var v int64
			return each(rows, []any{&l.name, &v, &l.expires}, func() {
				if l.version = version(v); s.holds(l.name) {
					x.listings[i] = append(x.listings[i], l)
				}
			})
		})
	}
	x.readJournal(b)
	if len(w.facts) > 0 {
		names := make([]string, 0, len(w.facts))
		for name := range w.facts {
			names = append(names, name)
			x.facts[name] = &fact{}
		}
		b.Queue(sql(readFacts), names).Query(func(rows pgx.Rows) error {
			var name string
			var value []byte
			return each(rows, []any{&name, &value}, func() { *x.facts[name] = fact{there: true, value: notNil(value)} })
		})
	}
	if len(w.sessions) > 0 {
		cols := newColumns(2)
		for k := range w.sessions {
			cols.add(k.namespace, k.id)
			x.sessions[k] = &session{}
		}
		b.Queue(sql(readSessions), cols.args()...).Query(func(rows pgx.Rows) error {
			var s sessionRow
			return each(rows, s.columns(), func() {
				one := s.session()
				*x.sessions[sessionKey{one.Namespace, one.ID}] = session{there: true, Session: one}
			})
		})
		b.Queue(sql(lastSession)).QueryRow(func(row pgx.Row) error { return row.Scan(&x.books.session) })
	}
	if len(w.ids) > 0 {
		ids := make([]string, 0, len(w.ids))
		for id := range w.ids {
			ids = append(ids, id)
			x.ids[id] = false
		}
		b.Queue(sql(readIDs), ids).Query(func(rows pgx.Rows) error {
			var id string
			return each(rows, []any{&id}, func() { x.ids[id] = true })
		})
	}
}

// readJournal asks for what is wanted of the journal.
func (x *tx) readJournal(b *pgx.Batch) {
	w, sql := x.wants, x.w.t.sql
	found := func(rows pgx.Rows) error {
		var r rowState
		return each(rows, []any{
			&r.tier, &r.key.Namespace, &r.key.Category, &r.key.Name, &r.seq, &r.version, &r.deleted, &r.expires, &r.created, &r.queued, &r.bytes,
		}, func() {
			if x.bySeq[r.seq] != nil {
				return
			}
			one := r
			one.there = true
			x.rows[r.rowKey], x.bySeq[r.seq] = &one, &one
		})
	}
	if len(w.rows) > 0 {
		b.Queue(sql(readRows), x.rowColumns(w.rows)...).Query(found)
	}
	if len(w.seqs) > 0 {
		b.Queue(sql(readSeqs), w.seqs).Query(found)
	}
	if len(w.recent) > 0 {
		b.Queue(sql(readRecent), x.rowColumns(w.recent)...).Query(func(rows pgx.Rows) error {
			var k rowKey
			var r recentState
			return each(rows, []any{&k.tier, &k.key.Namespace, &k.key.Category, &k.key.Name, &r.seq, &r.version, &r.deleted, &r.expires}, func() {
				one := r
				x.recent[k] = &one
			})
		})
	}
	for i, r := range w.rowRanges {
		s := spanOf(r.Query).until(r.Range)
		args := append([]any{r.Tier, r.Query.Namespace, r.Query.Category}, s.args()...)
		b.Queue(sql(readRowRange), append(args, r.since)...).Query(func(rows pgx.Rows) error {
			var name string
			return each(rows, []any{&name}, func() {
				if x.moved[i] == "" && s.holds(name) {
					x.moved[i] = name
				}
			})
		})
	}
	if w.books {
		b.Queue(sql(readBooks)).Query(func(rows pgx.Rows) error {
			var tier string
			var n [3]int64
			x.books.tiers = map[string]*sums{}
			return each(rows, []any{&tier, &n[0], &n[1], &n[2]}, func() {
				if tier == "" {
					x.books.seq, x.books.floor = n[0], n[1]
					return
				}
				x.books.tiers[tier] = &sums{version: version(n[0]), entries: n[1], bytes: n[2]}
			})
		})
	}
}

func (x *tx) rowColumns(keys map[rowKey]bool) []any {
	cols := newColumns(4)
	for k := range keys {
		cols.add(k.tier, k.key.Namespace, k.key.Category, k.key.Name)
	}
	return cols.args()
}

// columns are arrays of texts for unnest.
type columns [][]string

func newColumns(n int) columns { return make(columns, n) }

func (c columns) add(values ...string) {
	for i, v := range values {
		c[i] = append(c[i], v)
	}
}

func (c columns) args() []any {
	args := make([]any, len(c))
	for i := range c {
		args[i] = c[i]
	}
	return args
}

// each scans all rows into the same variables and calls fn after each.
func each(rows pgx.Rows, into []any, fn func()) error {
	_, err := pgx.ForEachRow(rows, into, func() error { fn(); return nil })
	return err
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
