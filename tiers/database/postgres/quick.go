package postgres

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// The quick way is that of groups whose callers save without a condition, so that
// nobody has to know anything before. The server gives the versions, and such a group
// is written and committed in one exchange.
//
// What became of a commit whose answer gets lost can be asked for only by the number of
// its transaction. So the number has to be known before: each exchange opens the next
// transaction, whose number is read while the callers go on.

const (
	// held is how long a transaction is kept open for the next group. It has no lock and
	// no snapshot.
	held = 20 * time.Millisecond
	// turnsToWait is for how many groups the writer waits for its turn, after one that
	// has found another process writing.
	turnsToWait = 8

	openNew    = `SELECT pg_current_xact_id()::text, ` + lifeSQL
	openNext   = `SELECT pg_current_xact_id()::text`
	commitNext = `COMMIT AND CHAIN`

	// The turn is shared by all who go the quick way. It is asked for and not waited for:
	// while somebody has it for himself nothing is written. It comes before the time, the
	// time before the mark, and that before the rows; none of them is taken from the
	// snapshot, which is older than the turn.
	quickTurn = ` FROM (SELECT t.now, ` + issueFrom + `greatest(coalesce(pg_sequence_last_value('~.version'), 0) + $4, t.now + $4 - 1)` + issueTo + ` AS top
		FROM (SELECT coalesce($3::bigint, ` + clockSQL + `) AS now WHERE (SELECT pg_try_advisory_xact_lock_shared($1)) OFFSET 0) t OFFSET 0) c`
	shareTurn = `SELECT pg_advisory_xact_lock_shared($1)`
	// Versions are issued to one at a time. The lock is given back at once, or with the
	// session.
	issueFrom = `CASE WHEN pg_advisory_lock($2)::text = '' THEN CASE WHEN setval('~.version', `
	issueTo   = `) > 0 THEN CASE WHEN pg_advisory_unlock($2) THEN currval('~.version') END END END`
	// Another group may have got its versions later, and stored the key before. Then the
	// one that comes last gets others, as many as the group has: those of the same key that
	// it has replaced are below it.
	quickReplace = `ON CONFLICT (namespace, category, key) DO UPDATE SET codec = excluded.codec, schema = excluded.schema, flags = excluded.flags,
		expires = excluded.expires, value = excluded.value, words = excluded.words, grams = excluded.grams,
		version = CASE WHEN r.version < excluded.version THEN excluded.version ELSE ` + issueFrom + `pg_sequence_last_value('~.version') + $4` + issueTo + ` END,
		updated = CASE WHEN r.version < excluded.version THEN excluded.updated ELSE greatest(r.updated, excluded.updated) END,
		created = ` + keepCreated + `, r.updated, r.expires`

	quickOne = insertInto + foundCols + `)
		SELECT $5::text, $6::text, $7::text, $8::text, $9::bigint, $10::int, c.top, CASE WHEN $11::bigint = 0 THEN 0 ELSE c.now + $11 END, $12::bytea, c.now, c.now,
			string_to_array($13::text, ' '), $14::text::bigint[]` + quickTurn + ` WHERE true ` + quickReplace

	quickFrom = `)
		SELECT u.namespace, u.category, u.key, u.codec, u.schema, u.flags, c.top - u.back, CASE WHEN u.ttl = 0 THEN 0 ELSE c.now + u.ttl END, u.value, c.now, c.now`
	quickUnnest = `, unnest($5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[], $10::int[], $11::bigint[], $12::bytea[], $13::bigint[]`
	quickAs     = `) AS u (namespace, category, key, codec, schema, flags, ttl, value, back`

	quickMany      = insertInto + quickFrom + quickTurn + quickUnnest + quickAs + `) ` + quickReplace
	quickManyFound = insertInto + foundCols + quickFrom + foundBy + quickTurn + quickUnnest + `, $14::text[], $15::text[]` + quickAs + foundCols + `) ` + quickReplace

	// What a commit has stored whose answer was lost, as far as nobody has replaced it.
	quickFind = `SELECT f.namespace, f.category, f.key, f.version, f.created, f.updated, f.expires
		FROM unnest($1::text[], $2::text[], $3::text[]) AS u (namespace, category, key)
		CROSS JOIN LATERAL (SELECT r.* FROM ~.records r
			WHERE r.namespace = u.namespace AND r.category = u.category AND r.key = u.key AND r.xmin::text = $4 LIMIT 1) f`
)

// opened is a transaction that was begun for the next group.
type opened struct {
	xid, life string
}

// quick is what a group that goes the quick way is to store, and what the server has
// answered.
type quick struct {
	jobs  []*job
	all   []*packed
	last  []int    // of each save the last of the same key, which is stored
	order []int    // of those that are stored, by key, so that no two groups wait for each other
	rows  []stored // of those that are stored
	n     int      // so many rows were answered
}

// stored is what the server says of a row; version 0: nothing.
type stored struct{ version, created, updated, expires int64 }

// fits tells whether the server can work out what becomes of the records: when they
// expire, and that they do not at once.
func fits(ps []*packed) bool {
	const longest = 100 * 365 * 24 * time.Hour
	for _, p := range ps {
		if p.TTL < 0 || p.TTL > longest || p.TTL%time.Microsecond != 0 {
			return false
		}
	}
	return len(ps) > 0
}

// quickly takes what waits the quick way, if it is at least so much, and tells whether
// it has.
func (w *writer) quickly(least int) bool {
	if w.sync || w.t.config.Pooler || !w.queue.ready(least) || !w.openFirst() {
		return false
	}
	waited := w.turns > 0
	if waited {
		w.turns--
		if !w.waitTurn() {
			return false
		}
	}
	q := w.queue.takeQuick(w)
	if len(q.jobs) == 0 { // their callers have gone, or another has them
		if waited {
			w.leave()
		}
		return true
	}
	w.last = len(q.jobs)
	x := newTx(w, nil)
	x.xid, x.life, x.quick = w.open.xid, w.open.life, q
	w.open = nil
	free, err := x.writeQuick()
	switch {
	case err == nil && free:
	case err == nil:
		w.turns = turnsToWait
		w.queue.putBack(q.jobs)
	case !ended(err), errors.Is(err, errNotCommitted):
		w.drop() // and with it what the statement may not have given back
		w.again(q.jobs, 0)
	default:
		w.drop()
		w.resolve(x, q.jobs, err, 0)
	}
	w.queue.done(w)
	return true
}

// waitTurn waits until nobody has the turn for himself. What goes wrong is for the other
// way to tell.
func (w *writer) waitTurn() bool {
	ctx, cancel := w.limited()
	defer cancel()
	_, err := w.conn.Exec(ctx, shareTurn, lockKey(w.t.schema, "writer"))
	if err != nil {
		w.drop()
	}
	return err == nil
}

// openFirst opens a transaction when none is open. What goes wrong is for the other way
// to tell.
func (w *writer) openFirst() bool {
	if w.open != nil {
		return true
	}
	ctx, cancel := w.limited()
	defer cancel()
	if w.connect(ctx) != nil {
		return false
	}
	var o opened
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue(openNew).QueryRow(func(row pgx.Row) error { return row.Scan(&o.xid, &o.life) })
	if w.conn.SendBatch(ctx, b).Close() != nil {
		w.drop()
		return false
	}
	w.open = &o
	return true
}

// pause waits for work as long as a transaction may stay open, and tells whether there
// is some.
func (w *writer) pause(wake chan struct{}) bool {
	if w.open == nil {
		return false
	}
	timer := time.NewTimer(held)
	defer timer.Stop()
	select {
	case <-wake:
		return true
	case <-timer.C:
	}
	w.leave()
	return false
}

// leave ends the transaction that is open for the next group.
func (w *writer) leave() {
	if w.open != nil {
		w.rollback(&tx{})
	}
}
