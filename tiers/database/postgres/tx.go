package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/sagestore/sagestore/tiers"
)

// tx is the transaction of a group, as its jobs see it: what they have asked for, as
// it was when the turn began, with what the jobs before have said is to be written.
// It is written at the end, in one exchange with the server.
type tx struct {
	w     *writer
	wants *wants
	xid   string // number of the transaction
	life  string // of the server, see lifeSQL

	time   int64         // of the group, in microseconds
	mark   tiers.Version // the highest version that was issued
	stored tiers.Version // what the server says of it

	records  map[tiers.Key]*state
	created  map[tiers.Version]int64 // of records that were saved without a look, answered at the end
	rows     map[rowKey]*rowState
	bySeq    map[int64]*rowState
	recent   map[rowKey]*recentState
	moved    map[int]string // key of a row in the range of that number of wants.rowRanges; "": none
	listings [][]listed
	books    books
	facts    map[string]*fact
	sessions map[sessionKey]*session
	ids      map[string]bool // of transactions: whether they were committed
	begun    []string        // those of this group
	gaps     bool            // records may have come without a text
	brings   bool            // rows of the journal
	seen     []tiers.Session // to be raised

	quick *quick // what is written instead, in a group that goes the quick way

	undo    []func() // what takes back what the job has said
	changes int
	later   []*job // that run statements of their own
}

func newTx(w *writer, jobs []*job) *tx {
	x := &tx{
		w: w, wants: newWants(),
		records: map[tiers.Key]*state{}, created: map[tiers.Version]int64{}, rows: map[rowKey]*rowState{}, bySeq: map[int64]*rowState{},
		recent: map[rowKey]*recentState{}, moved: map[int]string{}, facts: map[string]*fact{},
		sessions: map[sessionKey]*session{}, ids: map[string]bool{},
	}
	for _, j := range jobs {
		if j.wants != nil {
			j.wants(x.wants)
		}
	}
	return x
}

// next issues a version: it grows whatever the clock does.
func (x *tx) next() tiers.Version {
	x.mark = max(x.mark+1, tiers.Version(max(x.time, 1)))
	return x.mark
}

// change notes that something is to be written, and how to take it back.
func (x *tx) change(undo func()) {
	x.changes++
	x.undo = append(x.undo, func() { x.changes--; undo() })
}

func (x *tx) changed() bool { return x.changes > 0 || len(x.later) > 0 }

// runAll lets the jobs decide, one after the other.
func (x *tx) runAll(jobs []*job) {
	x.later = nil
	for _, j := range jobs {
		x.undo = x.undo[:0]
		j.err = nil
		if j.run != nil {
			j.err = j.run(x)
		}
		if j.err != nil {
			for _, undo := range slices.Backward(x.undo) {
				undo()
			}
			continue
		}
		if j.alone != nil {
			x.later = append(x.later, j)
		}
	}
}

const (
	takeTurn = `SELECT pg_advisory_xact_lock($1)`
	// After the lock, in a statement of its own: so it sees what the one before has
	// committed.
	lookUp = `SELECT ` + clockSQL + `, last_value, pg_current_xact_id()::text, ` + lifeSQL + ` FROM ~.version`
	// lifeSQL names the time between two crashes of the server: with one it loses what it
	// has counted, and begins to count anew. It is another one as well after somebody has
	// reset the counters.
	lifeSQL = `(SELECT coalesce(extract(epoch FROM stats_reset)::text, '') FROM pg_stat_bgwriter)`
	// clockSQL is the server's time in microseconds.
	clockSQL = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
	setMark  = `SELECT setval('~.version', $1)`
	limitAll = `SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true),
		set_config('idle_in_transaction_session_timeout', $3, true), set_config('enable_seqscan', 'off', true),
		set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true)`
)

// begin opens the transaction, waits for the turn, and reads what is wanted, all in
// one exchange.
func (x *tx) begin(ctx context.Context) error {
	t := x.w.t
	b := &pgx.Batch{}
	if x.w.open == nil {
		b.Queue("BEGIN")
	}
	x.w.open = nil
	if t.config.Pooler {
		s := t.config.settings()
		b.Queue(limitAll, s["statement_timeout"], s["lock_timeout"], s["idle_in_transaction_session_timeout"])
	}
	b.Queue(takeTurn, lockKey(t.schema, "writer"))
	b.Queue(t.sql(lookUp)).QueryRow(func(row pgx.Row) error {
		if err := row.Scan(&x.time, &x.stored, &x.xid, &x.life); err != nil {
			return err
		}
		if now := t.now(); now != nil {
			x.time = *now
		}
		x.mark = x.stored
		return nil
	})
	x.read(b)
	if err := x.w.conn.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	if s := x.w.conn.Conn().PgConn().TxStatus(); s != inTransaction {
		return fmt.Errorf("%w: the server says %q in the place of a transaction", tiers.ErrUnavailable, s)
	}
	return nil
}

// inTransaction is what the server says after each exchange as long as one is open.
// Without one the turn would have ended with its statement.
const inTransaction = 'T'

// write writes all that the jobs have said and commits it, in one exchange.
func (x *tx) write() error {
	ctx, cancel := x.w.limited()
	defer cancel()
	if len(x.later) > 0 {
		if err := x.runLater(ctx); err != nil {
			return err
		}
	}
	b := &pgx.Batch{}
	if x.w.sync {
		b.Queue("SET LOCAL synchronous_commit = on")
	}
	x.writeRecords(b)
	x.writeJournal(b)
	x.writeRest(b)
	if x.mark > x.stored {
		b.Queue(x.w.t.sql(setMark), int64(x.mark)) //nolint:gosec // versions are below 2^62
	}
	b.Queue("COMMIT")
	err := x.w.conn.SendBatch(ctx, b).Close()
	if err != nil && context.Cause(ctx) != nil {
		return context.Cause(ctx)
	}
	return err
}

// runLater runs the statements of jobs that have some of their own.
func (x *tx) runLater(ctx context.Context) error {
	for _, j := range x.later {
		if err := j.alone(ctx, x); err != nil {
			return fmt.Errorf("in the transaction of a group: %w", err)
		}
	}
	return nil
}

// recall reads what the answer to the commit would have said.
func (x *tx) recall(ctx context.Context, jobs []*job) {
	if x.quick != nil {
		x.recallQuick(ctx)
		return
	}
	for k, s := range x.records {
		if !s.blind || s.put == nil {
			continue
		}
		var created int64
		err := x.w.t.write.QueryRow(ctx, x.w.t.sql(`SELECT created FROM ~.records WHERE namespace = $1 AND category = $2 AND key = $3 AND version = $4`),
			k.Namespace, k.Category, k.Name, int64(s.version)).Scan(&created) //nolint:gosec // versions are below 2^62
		if err != nil { // another save came since
			created = x.time
		}
		x.created[s.version] = created
	}
	for _, j := range jobs {
		if j.err == nil && j.after != nil {
			j.after(x)
		}
	}
}

// errWrongOrder is a fault of this package: a job looked at what it had not asked for.
var errWrongOrder = errors.New("a job of the writer looked at what it had not asked for")

func number(v tiers.Version) int64 { return int64(v) } //nolint:gosec // versions are below 2^62

func version(n int64) tiers.Version { return tiers.Version(n) } //nolint:gosec // written from a version
