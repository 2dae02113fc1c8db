package postgres

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagestore/sagestore/tiers"
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

	// The turn is asked for and not waited for: while another process has it nothing is
	// written. It comes before the time, the time before the mark, and that before the
	// rows; none of them is taken from the snapshot, which is older than the turn.
	quickTurn = ` FROM (SELECT t.now, setval('~.version', greatest(coalesce(pg_sequence_last_value('~.version'), 0) + $3, t.now + $3 - 1)) AS top
		FROM (SELECT coalesce($2::bigint, ` + clockSQL + `) AS now WHERE (SELECT pg_try_advisory_xact_lock($1)) OFFSET 0) t OFFSET 0) c`
	quickReplace = onConflict + keepCreated + `, r.updated`

	quickOne = insertInto + foundCols + `)
		SELECT $4::text, $5::text, $6::text, $7::text, $8::bigint, $9::int, c.top, CASE WHEN $10::bigint = 0 THEN 0 ELSE c.now + $10 END, $11::bytea, c.now, c.now,
			string_to_array($12::text, ' '), $13::text::bigint[]` + quickTurn + ` WHERE true ` + quickReplace

	quickFrom = `)
		SELECT u.namespace, u.category, u.key, u.codec, u.schema, u.flags, c.top - u.back, CASE WHEN u.ttl = 0 THEN 0 ELSE c.now + u.ttl END, u.value, c.now, c.now`
	quickUnnest = `, unnest($4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::int[], $10::bigint[], $11::bytea[], $12::bigint[]`
	quickAs     = `) AS u (namespace, category, key, codec, schema, flags, ttl, value, back`

	quickMany      = insertInto + quickFrom + quickTurn + quickUnnest + quickAs + `) ` + quickReplace
	quickManyFound = insertInto + foundCols + quickFrom + foundBy + quickTurn + quickUnnest + `, $13::text[], $14::text[]` + quickAs + foundCols + `) ` + quickReplace

	// What a commit has stored whose answer was lost, as far as nobody has replaced it.
	quickFind = `SELECT f.namespace, f.category, f.key, f.version, f.created, f.updated
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
	jobs   []*job
	all    []*packed
	stored map[tiers.Key]int // of several saves of a key which one is stored; nil: no key has several

	top, now int64           // the version of the last of all; the time of all
	created  map[int64]int64 // by the version of a row
}

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

// quickly takes what waits the quick way, and tells whether it has.
func (w *writer) quickly() bool {
	if w.sync || w.t.config.Pooler {
		return false
	}
	if w.turns > 0 {
		w.turns--
		return false
	}
	if !w.allQuick() || !w.openFirst() {
		return false
	}
	q := w.takeQuick()
	if len(q.jobs) == 0 {
		return true // their callers have gone
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
		w.putBack(q.jobs)
	case !ended(err):
		w.rollback(x)
		w.again(q.jobs, 0)
	case errors.Is(err, errNotCommitted):
		w.drop()
		w.again(q.jobs, 0)
	default:
		w.drop()
		w.resolve(x, q.jobs, err, 0)
	}
	return true
}

// allQuick tells whether all that waits can go the quick way.
func (w *writer) allQuick() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, j := range w.queue {
		if j.state.Load() == gone {
			continue
		}
		if j.plain == nil {
			return false
		}
		n++
	}
	return n > 0
}

// takeQuick takes jobs of the queue. Of many it leaves as many as it takes: so some
// callers get ready while the server works for others.
func (w *writer) takeQuick() *quick {
	const few = 8 // are not worth to be divided
	w.mu.Lock()
	defer w.mu.Unlock()
	q := &quick{}
	bytes, n := 0, 0
	limit := min(groupJobs, max(few, (len(w.queue)+w.last+1)/2))
	for _, j := range w.queue {
		if j.plain == nil || len(q.jobs) >= limit || len(q.jobs) > 0 && bytes+j.bytes > groupBytes {
			break
		}
		n++
		if j.state.CompareAndSwap(queued, taken) {
			q.jobs = append(q.jobs, j)
			q.all = append(q.all, j.plain...)
			bytes += j.bytes
		}
	}
	w.shift(n)
	return q
}

// shift takes so many off the queue.
func (w *writer) shift(n int) {
	rest := copy(w.queue, w.queue[n:])
	clear(w.queue[rest:])
	w.queue = w.queue[:rest]
}

// putBack lets jobs wait again, of which nothing was done: their callers may leave.
func (w *writer) putBack(jobs []*job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range jobs {
		j.state.Store(queued)
	}
	w.queue = append(append(make([]*job, 0, len(jobs)+len(w.queue)), jobs...), w.queue...)
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
func (w *writer) pause() bool {
	if w.open == nil {
		return false
	}
	timer := time.NewTimer(held)
	defer timer.Stop()
	select {
	case <-w.wake:
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
