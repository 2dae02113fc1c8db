package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

// Bounds of one group.
const (
	groupJobs  = 1024
	groupBytes = 16 << 20
)

// job is a caller's work inside a transaction that it shares with others.
type job struct {
	// wants names what run has to know of the store; nil: nothing.
	wants func(w *wants)
	// run decides, and says what is to be written. It may be called more than once,
	// so it sets its results anew each time. What it says before an error is undone.
	run func(x *tx) error
	// alone runs statements of its own, after those of the others.
	alone func(ctx context.Context, x *tx) error
	// after completes the results with what the server has answered.
	after func(x *tx)
	bytes int

	// plain is what a job saves that does nothing else and has no condition, as far as
	// the server can do it by itself; stored takes the results, which it works out in
	// the place of run and after.
	plain  []*packed
	stored func(i int, r tiers.Record)

	state atomic.Uint32
	done  chan struct{}
	err   error // read after done is closed
}

// The states of a job.
const (
	queued uint32 = iota
	taken         // the writer has it: its caller gets the outcome, or ErrCommitUnknown
	gone          // its caller went away before that
)

// writer is the goroutine of a process that changes the store. It takes the work of all
// callers that wait and commits it in one transaction. Beside it there is a [helper].
type writer struct {
	t    *Tier
	sync bool // the server would answer a commit before it is durable

	patience time.Duration // how long to ask what became of a transaction

	queue *queue
	over  chan struct{}
	helps bool // it is the helper of another

	// Of the goroutine alone.
	conn  *pgxpool.Conn
	open  *opened // on conn, for the next group
	last  int     // jobs of the last group
	turns int     // for how many groups the turn is waited for

	params params // of the group
}

func newWriter(t *Tier, sync bool) *writer {
	return &writer{t: t, sync: sync, patience: patience, queue: newQueue(), over: make(chan struct{})}
}

// do hands a job to the writer and waits for its outcome, or for the end of the
// context: a plain error as long as the job was not begun, else
// ErrCommitUnknown.
func (w *writer) do(ctx context.Context, j *job) error {
	if err := engine.Over(ctx); err != nil {
		return err
	}
	j.done = make(chan struct{})
	if err := w.queue.add(j); err != nil {
		return err
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
	}
	if j.state.CompareAndSwap(queued, gone) {
		w.queue.leave()
		return context.Cause(ctx)
	}
	select {
	case <-j.done:
		return j.err
	default:
		return engine.Unknown(context.Cause(ctx))
	}
}

func (w *writer) loop() {
	defer close(w.over)
	h := w.help()
	rested := false // nothing was in the queue after the last group
	for {
		work, closed := w.queue.state()
		switch {
		case work:
			// After a pause a lone caller is most likely alone again.
			if !rested || w.last > 1 {
				w.queue.gather(w.last)
			}
			if !w.quickly(0) {
				w.queue.only(true)
				w.group()
				w.queue.only(false)
			}
			rested = false
		case closed:
			if h.end(); w.queue.empty() { // the helper may have put something back
				w.leave()
				w.release()
				return
			}
		default:
			if !w.pause(w.queue.wake) {
				w.release()
				<-w.queue.wake
			}
			rested = true
		}
	}
}

// group does what waits. The jobs are taken only when the turn is this writer's, so
// that callers may leave while other processes are in the way.
func (w *writer) group() {
	peeked := w.queue.peek()
	if len(peeked) == 0 {
		return
	}
	x, err := w.begin(peeked)
	jobs := w.queue.take(peeked)
	w.last = len(jobs)
	if err != nil {
		// Nothing was changed.
		answerAll(jobs, w.t.plain(err))
		return
	}
	w.attempt(x, jobs, 0)
}

// attempts is how often a group is begun anew after the server had rolled it back.
const attempts = 3

// attempt decides and commits. If a statement fails, everything is rolled back and
// done again by halves, so that in the end only the job that can't be done gets the
// error.
func (w *writer) attempt(x *tx, jobs []*job, tries int) {
	defer x.came()
	x.runAll(jobs)
	if !x.changed() {
		w.rollback(x)
		answerAll(jobs, nil)
		return
	}
	err := x.write()
	if err == nil {
		for _, j := range jobs {
			if j.err == nil && j.after != nil {
				j.after(x)
			}
		}
		answerAll(jobs, nil)
		return
	}
	if ended(err) {
		w.drop()
		w.resolve(x, jobs, err, tries)
		return
	}
	w.rollback(x)
	again := tries < attempts && (codeOf(err) == codeSerialization || codeOf(err) == codeDeadlock)
	switch {
	case again:
		w.again(jobs, tries+1)
	case len(jobs) == 1:
		answerAll(jobs, w.t.plain(err))
	default:
		w.again(jobs[:len(jobs)/2], tries)
		w.again(jobs[len(jobs)/2:], tries)
	}
}

// again begins anew for jobs that were taken.
func (w *writer) again(jobs []*job, tries int) {
	if len(jobs) == 0 {
		return
	}
	x, err := w.begin(jobs)
	if err != nil {
		answerAll(jobs, w.t.plain(err))
		return
	}
	w.attempt(x, jobs, tries)
}

// answerAll lets the callers go. An error is one of those that have none.
func answerAll(jobs []*job, err error) {
	for _, j := range jobs {
		if j.err == nil {
			j.err = err
		}
		close(j.done)
	}
}

// grace is how much longer than the server's own limits the writer waits for it.
const grace = 10 * time.Second

// limited answers a context for one exchange with the server.
func (w *writer) limited() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(w.t.life, w.t.config.LockTimeout+w.t.config.StatementTimeout+grace,
		fmt.Errorf("%w: the server of %s does not answer", tiers.ErrUnavailable, w.t.place))
}

// begin waits for the turn of this process and reads what the jobs want to know.
func (w *writer) begin(jobs []*job) (*tx, error) {
	for fresh := false; ; fresh = true {
		ctx, cancel := w.limited()
		reused := w.conn != nil
		err := w.connect(ctx)
		var x *tx
		if err == nil {
			x = newTx(w, jobs)
			err = x.begin(ctx)
		}
		cause := context.Cause(ctx)
		cancel()
		if err == nil {
			return x, nil
		}
		lost := ended(err)
		if lost && cause != nil {
			err = cause
		}
		if x != nil && !lost {
			w.rollback(x)
		} else {
			w.drop()
		}
		// A connection from before may have ended long ago.
		if !lost || fresh || x == nil && !reused {
			return nil, err
		}
	}
}

func (w *writer) connect(ctx context.Context) (err error) {
	if w.conn == nil {
		w.conn, err = w.t.write.Acquire(ctx)
	}
	return err
}

// release gives the connection back while there is nothing to do.
func (w *writer) release() {
	if w.conn != nil {
		w.conn.Release()
		w.conn = nil
	}
}

// drop closes the connection, on which something has gone wrong.
func (w *writer) drop() {
	w.open = nil
	if w.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(w.t.life, time.Second)
	defer cancel()
	_ = w.conn.Conn().Close(ctx)
	w.release()
}

func (w *writer) rollback(x *tx) {
	w.open = nil
	if w.conn == nil || x == nil {
		return
	}
	ctx, cancel := w.limited()
	defer cancel()
	if _, err := w.conn.Exec(ctx, "ROLLBACK"); err != nil {
		w.drop()
	}
}

// patience is how long the writer asks what became of a transaction.
const patience = 20 * time.Second

// resolve finds out what became of a transaction whose commit was not answered.
func (w *writer) resolve(x *tx, jobs []*job, cause error, tries int) {
	ctx, cancel := context.WithTimeout(w.t.life, w.patience)
	defer cancel()
	committed, err := w.outcome(ctx, x)
	switch {
	case err != nil:
		w.t.log.WarnContext(ctx, "the outcome of a commit is not known", "place", w.t.place, "cause", cause, "asking", err)
		answerAll(jobs, tiers.Hint(engine.Unknown(cause), "check the server of "+w.t.place+", then look at what is stored"))
	case committed:
		x.recall(ctx, jobs)
		answerAll(jobs, nil)
	case tries < attempts:
		w.again(jobs, tries+1)
	default:
		answerAll(jobs, w.t.plain(cause))
	}
}

// outcome asks, behind the lock that the transaction had: once it is free, the
// transaction is over.
//
// A server that has crashed since may have given the number of a transaction that got
// lost to another one. Then only the ids that it was to store tell what became of it.
func (w *writer) outcome(ctx context.Context, x *tx) (committed bool, err error) {
	clock := tiers.SystemClock()
	for {
		var s status
		s, err = w.statusOf(ctx, x)
		switch {
		case err != nil:
		case s.life != x.life && len(x.begun) > 0:
			return s.found, nil
		case s.of == nil:
			return false, errors.New("the server has forgotten the transaction")
		case *s.of == "aborted":
			return false, nil
		case *s.of == "committed" && s.life != x.life:
			return false, errors.New("the server has crashed, and may have used the number of the transaction again")
		case *s.of == "committed":
			return true, nil
		}
		if pause := clock.Sleep(ctx, 50*time.Millisecond); pause != nil {
			return false, errors.Join(err, pause)
		}
	}
}

// status is what a server says of a transaction.
type status struct {
	life  string
	of    *string // the transaction of that number; nil: forgotten
	found bool    // the id that it was to store
}

const (
	// A number that was not given yet is of a transaction that got lost. What is under way
	// may have one above all that are over, so that it is compared with one that is given now.
	askStatus = `SELECT ` + lifeSQL + `, CASE WHEN $1::text::xid8 < pg_current_xact_id() THEN pg_xact_status($1::text::xid8) ELSE 'aborted' END,
		EXISTS (SELECT FROM ~.commits WHERE id = $2)`
)

func (w *writer) statusOf(ctx context.Context, x *tx) (s status, err error) {
	tx, err := w.t.write.Begin(ctx)
	if err != nil {
		return s, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", lockKey(w.t.schema, "writer")); err != nil {
		return s, err
	}
	id := "" // which is none
	if len(x.begun) > 0 {
		id = x.begun[0] // they are stored together
	}
	err = tx.QueryRow(ctx, w.t.sql(askStatus), x.xid, id).Scan(&s.life, &s.of, &s.found)
	return s, err
}
