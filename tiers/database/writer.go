package database

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	sqlite3 "modernc.org/sqlite/lib"

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
	// run does the work. It may be called more than once, after a rollback, so
	// it sets its results anew each time. An error that is not SQLite's is an
	// answer to the caller: the others of the group are not affected.
	run func(tx *tx) error
	// several: the job changes more than one row, all or none.
	several bool
	bytes   int

	state atomic.Uint32
	done  chan struct{}
	err   error // read after done is closed
}

// The states of a job.
const (
	queued uint32 = iota
	taken         // the writer has it: its caller gets the outcome, or ErrCommitUnknown
	left          // its caller went away before that
)

// writer is the one goroutine that changes the database. It takes the work of all
// callers that wait and commits it in one transaction.
type writer struct {
	t    *Tier
	turn *turn
	wake chan struct{}
	over chan struct{}

	mu     sync.Mutex
	queue  []*job
	gone   int // callers that have left since their jobs were dropped the last time
	closed bool
	tidy   bool  // a checkpoint is to be finished while nobody writes
	poison error // why nothing is written any more

	// Of the goroutine alone.
	tx      tx
	tidied  bool // this group has made room already
	last    int  // jobs of the last group
	pending int  // pages written since the last checkpoint, roughly
}

func newWriter(t *Tier, tn *turn) *writer {
	return &writer{t: t, turn: tn, wake: make(chan struct{}, 1), over: make(chan struct{}), tx: tx{clock: t.clock, waiting: &t.waiting, hints: hints{seed: maphash.MakeSeed()}}}
}

// errNobody ends a wait for a lock when every caller has gone.
var errNobody = errors.New("nobody waits any more")

// do hands a job to the writer and waits for its outcome, or for the end of the
// context: a plain error as long as the job was not begun, else
// ErrCommitUnknown.
func (w *writer) do(ctx context.Context, j *job) error {
	if err := engine.Over(ctx); err != nil {
		return err
	}
	j.done = make(chan struct{})
	if err := w.enqueue(j); err != nil {
		return err
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
	}
	if j.state.CompareAndSwap(queued, left) {
		w.leave()
		return context.Cause(ctx)
	}
	select {
	case <-j.done:
		return j.err
	default:
		return engine.Unknown(context.Cause(ctx))
	}
}

func (w *writer) enqueue(j *job) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return tiers.ErrClosed
	}
	if w.poison != nil {
		return w.poison
	}
	w.queue = append(w.queue, j)
	w.signal()
	return nil
}

func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// poisoned answers why nothing is written any more, or nil.
func (w *writer) poisoned() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.poison
}

// close refuses new jobs; those in the queue are still done. over is closed
// when they are.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.signal()
}

// wantTidy asks for the end of a checkpoint.
func (w *writer) wantTidy() {
	w.mu.Lock()
	w.tidy = true
	w.mu.Unlock()
	w.signal()
}

func (w *writer) loop(ctx context.Context) {
	defer close(w.over)
	rested := false // nothing was in the queue after the last group
	for {
		w.mu.Lock()
		work, closed, tidy := len(w.queue) > 0, w.closed, w.tidy
		w.tidy = false
		w.mu.Unlock()
		switch {
		case tidy && !closed:
			w.makeTidy(ctx)
		case work:
			w.group(ctx, rested)
			rested = false
		case closed:
			return
		default:
			<-w.wake
			rested = true
		}
	}
}

// leave notes that the caller of a job has gone. Such jobs are dropped once they may be
// half of all, so that the queue does not grow while a group takes its time.
func (w *writer) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone++; 2*w.gone >= len(w.queue) {
		w.drop()
	}
}

// drop removes the jobs whose callers have gone.
func (w *writer) drop() {
	w.queue = slices.DeleteFunc(w.queue, func(j *job) bool { return j.state.Load() == left })
	w.gone = 0
}

// still drops the jobs whose callers have gone, and answers errNobody when none
// is left.
func (w *writer) still() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop()
	if len(w.queue) == 0 {
		return errNobody
	}
	return nil
}

// group does what waits. The jobs are taken only when the transaction is open,
// so that callers may leave while other processes are in the way.
func (w *writer) group(ctx context.Context, rested bool) {
	w.tx.ctx = ctx //nolint:fatcontext // the same one every time
	err := w.turn.take(ctx, w.still)
	if err == nil {
		defer func() { _ = w.turn.give() }() // it can't fail while the descriptor is open
		var release func()
		w.tx.c, release, err = w.t.borrowWriter(ctx)
		if err == nil {
			defer release()
			err = w.begin(ctx, w.still)
		}
	}
	if errors.Is(err, errNobody) {
		return
	}
	// After a pause a lone caller is most likely alone again.
	if !rested || w.last > 1 {
		w.gather()
	}
	jobs := w.take()
	w.last = len(jobs)
	if err == nil {
		err = w.readMark(ctx)
	}
	if err != nil {
		w.rollback(ctx)
		w.broken(jobs, err, false)
		return
	}
	w.tidied = false
	w.attempt(ctx, jobs)
}

// gather lets callers that have just been woken put their next work into the
// queue, as long as it grows.
func (w *writer) gather() {
	w.mu.Lock()
	n := len(w.queue)
	w.mu.Unlock()
	for range 16 {
		runtime.Gosched()
		w.mu.Lock()
		now := len(w.queue)
		w.mu.Unlock()
		if now == n {
			return
		}
		n = now
	}
}

func (w *writer) take() (jobs []*job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	bytes, n := 0, 0
	for _, j := range w.queue {
		if len(jobs) == groupJobs || len(jobs) > 0 && bytes+j.bytes > groupBytes {
			break
		}
		n++
		if j.state.CompareAndSwap(queued, taken) {
			jobs = append(jobs, j)
			bytes += j.bytes
		}
	}
	rest := copy(w.queue, w.queue[n:])
	clear(w.queue[rest:])
	w.queue = w.queue[:rest]
	return jobs
}

// attempt runs the jobs inside the open transaction and commits it. If a
// statement fails, everything is rolled back and done again by halves, so that
// in the end only the job that can't be done gets the error.
func (w *writer) attempt(ctx context.Context, jobs []*job) {
	err := w.runAll(ctx, jobs)
	if err == nil && len(jobs) == 1 && jobs[0].several && jobs[0].err != nil {
		w.rollback(ctx) // it had no savepoint, since nobody else is in the transaction
		w.answer(jobs)
		return
	}
	committing := err == nil
	if committing {
		err = w.commit(ctx)
	}
	if err == nil {
		w.committed(jobs)
		return
	}
	w.rollback(ctx)
	full := codeOf(err) == sqlite3.SQLITE_FULL
	switch {
	case committing && !full && !busy(err):
		w.broken(jobs, err, true)
	case codeOf(err) == sqlite3.SQLITE_IOERR:
		w.broken(jobs, err, false)
	case busy(err):
		w.again(ctx, jobs)
	case full && !w.tidied:
		// What the log holds twice may be all the room that is needed.
		w.tidied = true
		_, _ = w.tx.c.checkpoint(ctx, "PASSIVE")
		w.again(ctx, jobs)
	case len(jobs) == 1:
		jobs[0].err = w.t.plain(err)
		w.answer(jobs)
	default:
		w.again(ctx, jobs[:len(jobs)/2])
		w.again(ctx, jobs[len(jobs)/2:])
	}
}

func (w *writer) again(ctx context.Context, jobs []*job) {
	if err := w.poisoned(); err != nil {
		for _, j := range jobs {
			j.err = err
		}
		w.answer(jobs)
		return
	}
	if err := w.begin(ctx, nil); err != nil {
		w.broken(jobs, err, false)
		return
	}
	w.attempt(ctx, jobs)
}

// runAll answers the first error that is SQLite's own.
func (w *writer) runAll(ctx context.Context, jobs []*job) error {
	for _, j := range jobs {
		if err := w.runOne(ctx, j, len(jobs) > 1); err != nil {
			return err
		}
	}
	return w.tx.makeEntries()
}

func (w *writer) runOne(ctx context.Context, j *job, shared bool) error {
	savepoint := j.several && shared
	var pending map[int64]*indexed
	if savepoint {
		pending = maps.Clone(w.tx.pending)
		if _, err := w.tx.c.exec(ctx, "SAVEPOINT job"); err != nil {
			return err
		}
	}
	j.err = j.run(&w.tx)
	if codeOf(j.err) != 0 {
		return j.err
	}
	if !savepoint {
		return nil
	}
	if j.err != nil {
		w.tx.reread = w.tx.reread || w.tx.books.open
		w.tx.books, w.tx.pending = books{}, pending
		if _, err := w.tx.c.exec(ctx, "ROLLBACK TO job"); err != nil {
			return err
		}
	}
	_, err := w.tx.c.exec(ctx, "RELEASE job")
	return err
}

// begin opens the transaction. Only a program that does not take turns can be in
// the way; callers that are not taken yet may leave meanwhile.
func (w *writer) begin(ctx context.Context, still func() error) error {
	return poll(ctx, still, func() (bool, error) {
		_, err := w.tx.c.exec(ctx, "BEGIN IMMEDIATE")
		if busy(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// ahead is how far beyond now the versions are that a store reserves, in
// microseconds. A row that every commit changes would double what most commits
// write and sync. The next store to open the file goes on above what was reserved.
const ahead = 1_000_000

func (w *writer) commit(ctx context.Context) error {
	stored := w.tx.stored
	if w.tx.mark > stored {
		stored = max(w.tx.mark, tiers.Version(max(w.tx.now()+ahead, 1)))
		_, err := w.tx.c.exec(ctx, "UPDATE counters SET value = ? WHERE name = 'version'", micro(stored))
		if err != nil {
			return err
		}
	}
	if w.tx.reread { // or else nobody would tell where the rows of the other jobs are
		if _, err := w.tx.openBooks(); err != nil {
			return err
		}
	}
	if _, err := w.tx.c.exec(ctx, "COMMIT"); err != nil {
		return err
	}
	w.tx.stored, w.tx.reread = stored, false
	if w.tx.many {
		w.tx.many = false
		if err := w.tx.waiting.learn(ctx, w.tx.c, 0); err != nil {
			return err
		}
	}
	w.tx.tellPlaces()
	seen, err := w.tx.c.dataVersion()
	if err == nil {
		w.tx.seen = seen
	}
	return nil
}

// rollback ends a transaction that failed. SQLite may have ended it already,
// which is an error that says nothing.
func (w *writer) rollback(ctx context.Context) {
	w.tx.books, w.tx.reread, w.tx.many, w.tx.pending = books{}, false, false, nil
	if w.tx.c != nil {
		_, _ = w.tx.c.exec(ctx, "ROLLBACK")
	}
}

// readMark reads the mark again when anybody else has written; the books are read
// when they are needed.
func (w *writer) readMark(ctx context.Context) error {
	seen, err := w.tx.c.dataVersion()
	if err != nil || seen == w.tx.seen && w.tx.stored != 0 {
		return err
	}
	w.tx.books = books{}
	n, err := w.tx.c.number(ctx, "SELECT value FROM counters WHERE name = 'version'")
	if err != nil {
		return err
	}
	w.tx.stored = tiers.Version(n) //nolint:gosec // written from a version, never negative
	w.tx.mark = max(w.tx.mark, w.tx.stored)
	w.tx.seen = seen
	return nil
}

func (w *writer) committed(jobs []*job) {
	w.answer(jobs)
	for _, j := range jobs {
		w.pending += 1 + j.bytes/pageSize
	}
	if w.pending >= checkpointPages {
		w.pending = 0
		w.t.checkpoints.want()
	}
	w.t.checkpoints.idle.Reset(idleTime)
}

func (w *writer) answer(jobs []*job) {
	for _, j := range jobs {
		close(j.done)
	}
}

// broken answers a group whose transaction failed in a way that is not the fault
// of one job, and lets nothing be written any more: after an error of the disk
// only a new look at the file tells what is in it.
func (w *writer) broken(jobs []*job, cause error, committing bool) {
	w.spoil(cause)
	for _, j := range jobs {
		j.err = w.poisoned()
		if committing {
			j.err = tiers.Hint(engine.Unknown(cause), "close the store and open it again to see what is in it")
		}
	}
	w.answer(jobs)
}

// spoil refuses all later writes.
func (w *writer) spoil(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.poison == nil {
		w.poison = tiers.Hint(fmt.Errorf("%w: the store takes no more writes since one failed: %w", tiers.ErrUnavailable, cause),
			"check the disk that holds "+w.t.place+", then close the store and open it again")
	}
}
