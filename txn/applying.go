package txn

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sagestore/sagestore/tiers"
)

const (
	applyRows  = 128 // in one step
	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second
	firstTurn  = time.Millisecond // after another process was at it; up to lookEvery

	// Rows of commits are applied once none has come for as long as linger, so that
	// the disk is left to the commits while there are many, but not later than
	// mostLinger, and not when there are mostRows. Whoever needs a row applied kicks.
	linger     = 20 * time.Millisecond
	mostLinger = time.Second
	mostRows   = 4096
)

// errBusy says that another process applies the rows.
var errBusy = errors.New("another process applies the rows of the journal")

// applying is the state of the goroutine that carries rows to the tier.
type applying struct {
	wake chan struct{} // holds one
	soon chan struct{} // holds one: wake after a while
	rows atomic.Int64  // how many commits brought
	idle atomic.Bool   // it waits for a while without commits
	busy atomic.Bool   // another process was at it the last time

	turn *semaphore.Weighted // of one, held while rows are on their way

	stuckMu sync.Mutex
	stuck   map[tiers.Key]stuckRow
	failed  error // of the last time that rows were applied
}

// stuckRow is a row that the tier refuses.
type stuckRow struct {
	seq uint64
	err error
}

func (a *applying) init() {
	a.wake, a.soon = make(chan struct{}, 1), make(chan struct{}, 1)
	a.stuck = map[tiers.Key]stuckRow{}
	a.turn = semaphore.NewWeighted(1)
}

func (a *applying) kick() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// later is kick, after a while; rows have come.
func (a *applying) later(rows int) {
	a.rows.Add(int64(rows))
	select {
	case a.soon <- struct{}{}:
	default:
	}
}

// stick remembers that a row was refused, and tells whether that is new.
func (a *applying) stick(row *tiers.Row, err error) bool {
	a.stuckMu.Lock()
	defer a.stuckMu.Unlock()
	fresh := a.stuck[row.Key].seq != row.Seq
	a.stuck[row.Key] = stuckRow{row.Seq, err}
	return fresh
}

func (a *applying) unstick(rows []tiers.Row) {
	a.stuckMu.Lock()
	defer a.stuckMu.Unlock()
	for i := range rows {
		delete(a.stuck, rows[i].Key)
	}
}

// carry applies rows whenever there are some and the server answers, until the
// context ends.
func (j *Journaled) carry(ctx context.Context) {
	turn := firstTurn
	for {
		select {
		case <-j.apply.wake:
		case <-j.apply.soon:
			j.idle(ctx)
		case <-ctx.Done():
			return
		}
		for retry := firstRetry; j.view.any() && ctx.Err() == nil; retry = min(2*retry, lastRetry) {
			if j.outage != nil && j.outage.Ready(ctx) != nil {
				return
			}
			err := j.drain(ctx)
			busy := errors.Is(err, errBusy)
			j.apply.busy.Store(busy)
			if busy { // the watch wakes again, or at once whoever needs a row
				_ = tiers.SystemClock().Sleep(ctx, turn) // its end is all that matters
				turn = min(2*turn, lookEvery)
				break
			}
			turn = firstTurn
			if err == nil && j.view.any() {
				j.apply.later(0) // some came meanwhile
			}
			if err == nil {
				break
			}
			if j.away() == nil && j.wait(ctx, retry) {
				retry = firstRetry // somebody needs a row
			}
		}
	}
}

// idle waits until no more rows come, or until it is time all the same.
func (j *Journaled) idle(ctx context.Context) {
	j.apply.idle.Store(true)
	defer j.apply.idle.Store(false)
	first := j.apply.rows.Load()
	for range mostLinger / linger {
		before := j.apply.rows.Load()
		kicked := j.wait(ctx, linger)
		if now := j.apply.rows.Load(); kicked || now == before || now-first >= mostRows || ctx.Err() != nil {
			return
		}
	}
}

// wait waits for a kick, or for d, which is too short to be left to a clock that
// is moved by hand.
func (j *Journaled) wait(ctx context.Context, d time.Duration) (kicked bool) {
	pause, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = tiers.SystemClock().Sleep(pause, d) // its end is all that matters
	}()
	select {
	case <-over:
	case <-j.apply.wake:
		kicked = true
	}
	cancel()
	<-over
	return kicked
}

// Held answers why rows wait for longer than it takes to apply them: the tier
// is away, or refuses some. It is nil when they are on their way, as far as this
// process knows.
func (j *Journaled) Held() error {
	if away := j.away(); away != nil {
		return away
	}
	j.apply.stuckMu.Lock()
	defer j.apply.stuckMu.Unlock()
	return j.apply.failed
}

// drain applies all rows, in order.
func (j *Journaled) drain(ctx context.Context) error {
	err := j.drainOnce(ctx)
	j.apply.stuckMu.Lock()
	defer j.apply.stuckMu.Unlock()
	switch {
	case errors.Is(err, errBusy):
		j.apply.failed = nil
	case ctx.Err() == nil:
		j.apply.failed = err
	}
	return err
}

func (j *Journaled) drainOnce(ctx context.Context) error {
	defer j.view.tell()
	if err := j.away(); err != nil {
		return err
	}
	if err := j.meet(ctx); err != nil {
		return err
	}
	if j.apply.turn.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	defer j.apply.turn.Release(1)
	if b, err := j.system.Backlog(ctx, j.name); err != nil || b.Rows == 0 {
		return errors.Join(err, j.look(ctx))
	}
	unlock, err := j.alone(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	err = j.drainAll(ctx)
	return errors.Join(err, j.look(ctx))
}

// alone makes one process at a time apply rows, or answers errBusy. A row that two
// apply could come to the tier late, after it was removed from the journal and its
// key deleted, and bring the key back.
func (j *Journaled) alone(ctx context.Context) (unlock func(), err error) {
	unlock, ok, err := j.system.Lock(ctx, j.lock())
	if err == nil && !ok {
		err = errBusy
	}
	return unlock, err
}

// lock names the lock of who applies rows.
func (j *Journaled) lock() string { return j.name + ".applier" }

// stillAlone answers errBusy when the lock was lost: another process may have applied
// what this one has read.
func (j *Journaled) stillAlone(ctx context.Context) error {
	if j.holder == nil {
		return nil
	}
	ok, err := j.holder.Holds(ctx, j.lock())
	if err == nil && !ok {
		err = errBusy
	}
	return err
}

func (j *Journaled) drainAll(ctx context.Context) error {
	var left error
	for after := uint64(0); ; {
		rows, err := j.system.Due(ctx, j.name, after, applyRows)
		if err != nil || len(rows) == 0 {
			return errors.Join(err, left)
		}
		if err := j.stillAlone(ctx); err != nil {
			return err
		}
		after = rows[len(rows)-1].Seq
		done, err := j.applyRows(ctx, rows)
		if e := j.system.Done(ctx, done); e != nil {
			return errors.Join(err, e)
		}
		if j.applied != nil && len(done) > 0 {
			j.applied(done)
		}
		j.view.tell()
		if err != nil && (isAway(err) || errors.Is(err, tiers.ErrCommitUnknown) || ctx.Err() != nil) {
			return err
		}
		left = errors.Join(left, err)
		if len(rows) < applyRows {
			return left // what has come since waits for more
		}
	}
}

// applyRows answers the rows that need not be applied again. When the tier
// refuses some, the others get through one by one.
func (j *Journaled) applyRows(ctx context.Context, rows []tiers.Row) (done []tiers.Row, err error) {
	records, over := make([]tiers.Record, len(rows)), make([]tiers.Cond, len(rows))
	bound := false
	for i := range rows {
		records[i], over[i] = rows[i].Record, rows[i].Over
		_, set := over[i].Version()
		bound = bound || set
	}
	if !bound {
		over = nil
	}
	err = j.applier.Apply(ctx, records, over)
	switch {
	case err == nil:
		j.apply.unstick(rows)
		return rows, nil
	case isAway(err), errors.Is(err, tiers.ErrCommitUnknown), ctx.Err() != nil:
		return nil, err
	case len(rows) == 1:
		if j.apply.stick(&rows[0], err) {
			j.log.ErrorContext(ctx, "the tier refuses a row of the journal; it stays there", "tier", j.name, "category", rows[0].Category, "cause", cause(err))
		}
		return nil, err
	}
	var refused error
	for i := range rows {
		one, err := j.applyRows(ctx, rows[i:i+1])
		done = append(done, one...)
		if isAway(err) || errors.Is(err, tiers.ErrCommitUnknown) || ctx.Err() != nil {
			return done, err
		}
		refused = errors.Join(refused, err)
	}
	return done, refused
}

// cause answers the sentinel of an error, which never holds a key.
func cause(err error) string {
	for _, known := range []error{tiers.ErrTooLarge, tiers.ErrFull, tiers.ErrCorrupt, tiers.ErrReadOnly, tiers.ErrUnsupported, tiers.ErrClosed, fs.ErrPermission} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "see the result of a load of it"
}

// settled waits until the key has no row, and answers nil, or why the server is
// away.
func (j *Journaled) settled(ctx context.Context, k tiers.Key) (away, err error) {
	for {
		news := j.view.news()
		row, found, err := j.pending(ctx, k)
		if err != nil {
			return nil, err
		}
		if away := j.away(); away != nil || !found {
			return away, nil
		}
		if err := j.refused(&row); err != nil {
			return nil, err
		}
		j.apply.kick()
		select {
		case <-news:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-j.ended:
			return nil, tiers.ErrClosed
		}
	}
}

// refused answers why the tier does not take a row.
func (j *Journaled) refused(row *tiers.Row) error {
	j.apply.stuckMu.Lock()
	defer j.apply.stuckMu.Unlock()
	if s := j.apply.stuck[row.Key]; s.seq == row.Seq && s.err != nil {
		return tiers.Hint(s.err, "the journal holds a row that the tier refuses; save the key without a condition, or delete it")
	}
	return nil
}
