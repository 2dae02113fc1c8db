package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagestore/sagestore/tiers"
)

const (
	tryLock   = `SELECT pg_try_advisory_lock($1)`
	giveLock  = `SELECT pg_advisory_unlock($1)`
	takeLease = `INSERT INTO ~.leases AS l (name, holder, until) VALUES ($1, $2, ` + clockSQL + ` + $3)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
		WHERE l.until < ` + clockSQL + ` OR l.holder = excluded.holder`
	renewLease = `UPDATE ~.leases SET until = ` + clockSQL + ` + $3 WHERE name = $1 AND holder = $2`
	giveLease  = `DELETE FROM ~.leases WHERE name = $1 AND holder = $2`

	// leaseTime is after how long others may have what a process has not renewed.
	leaseTime = 15 * time.Second
	// lookTime is between two looks at the connection that holds locks, and between two
	// renewals of a lease.
	lookTime = leaseTime / 5
	// askTime is how long the server may take to answer.
	askTime = 5 * time.Second
	// lostTime is between two tries to make a connection that was lost.
	lostTime = 200 * time.Millisecond
)

// locks are those that this handle holds: advisory locks of one connection, which end
// with it, or leases behind a pooler.
type locks struct {
	t      *Tier
	holder string        // of leases
	lost   chan struct{} // the connection, while there are locks
	over   sync.WaitGroup

	turn    chan struct{} // held by whoever uses what comes next
	conn    *pgx.Conn
	held    map[string]hold
	keeping bool
}

// hold is a lock that was taken and not given back.
type hold struct {
	has   bool // else it was lost, and is to be taken again
	whole bool // it was never lost
	told  bool // that another process has it
}

var _ tiers.Holder = (*Tier)(nil)

func newLocks(t *Tier) *locks {
	return &locks{
		t: t, holder: uuid.NewString(), held: map[string]hold{},
		lost: make(chan struct{}, 1), turn: make(chan struct{}, 1),
	}
}

// Lock implements tiers.Locker, by an advisory lock of a session. It ends with the
// process or with its connection. A connection that is found lost is made again at once,
// and takes its locks again unless another process was faster. Behind a pooler it is a
// lease of 15 seconds that is renewed as long as the process runs.
func (t *Tier) Lock(ctx context.Context, name string) (unlock func(), ok bool, err error) {
	if err := t.enter(ctx); err != nil {
		return nil, false, t.fail("lock", tiers.Key{}, err)
	}
	defer t.leave()
	if text(name) != name {
		return nil, false, t.fail("lock", tiers.Key{}, fmt.Errorf("%w: the name of a lock is no text", tiers.ErrKey))
	}
	if ok, err = t.locks.take(ctx, name); !ok || err != nil {
		return nil, false, t.failed("lock", tiers.Key{}, left(ctx, err))
	}
	return sync.OnceFunc(func() { t.locks.give(name) }), true, nil //nolint:contextcheck // the tier's own life bounds it
}

// Holds implements tiers.Holder. It asks the server, as nothing else tells that a
// connection has ended.
func (t *Tier) Holds(ctx context.Context, name string) (bool, error) {
	if err := t.enter(ctx); err != nil {
		return false, t.fail("lock", tiers.Key{}, err)
	}
	defer t.leave()
	whole, err := t.locks.whole(ctx, name)
	return whole, t.failed("lock", tiers.Key{}, left(ctx, err))
}

// do runs fn in its turn, under the tier's own life: all locks would end with a statement
// that its caller ended. A caller may leave before, and then late undoes what fn did.
func (l *locks) do(ctx context.Context, fn func(ctx context.Context) error, late func()) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	answer := make(chan error)
	l.over.Go(func() {
		defer func() { <-l.turn }()
		err := l.within(fn) //nolint:contextcheck // the tier's own life bounds it
		select {
		case answer <- err:
		case <-ctx.Done():
			late()
		}
	})
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// within runs fn for as long as the server may take.
func (l *locks) within(fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(l.t.life, askTime,
		fmt.Errorf("%w: the server of %s does not answer", tiers.ErrUnavailable, l.t.place))
	defer cancel()
	return left(ctx, fn(ctx))
}

func (l *locks) take(ctx context.Context, name string) (bool, error) {
	var ok bool
	err := l.do(ctx, func(ctx context.Context) (err error) {
		ok, err = l.ask(ctx, name)
		return err
	}, func() { //nolint:contextcheck // the tier's own life bounds it
		if ok {
			l.release(name)
		}
	})
	return err == nil && ok, err // ok is only this caller's once there is an answer
}

func (l *locks) whole(ctx context.Context, name string) (bool, error) {
	var whole bool
	err := l.do(ctx, func(ctx context.Context) error {
		err := l.check(ctx)
		whole = l.held[name].whole
		return err
	}, func() {})
	return err == nil && whole, err
}

func (l *locks) ask(ctx context.Context, name string) (ok bool, err error) {
	if _, held := l.held[name]; held {
		return false, nil
	}
	err = l.on(ctx, func() error {
		ok, err = l.try(ctx, name)
		return err
	})
	if err != nil || !ok {
		return false, err
	}
	l.held[name] = hold{has: true, whole: true}
	if !l.keeping {
		l.keeping = true
		l.over.Go(l.keep)
	}
	return true, nil
}

// on runs fn with a connection that has all locks, and again with a new one if that was
// lost.
func (l *locks) on(ctx context.Context, fn func() error) (err error) {
	for range 2 {
		if err = l.ready(ctx); err == nil {
			err = fn()
		}
		if !ended(err) {
			return err
		}
		l.drop() //nolint:contextcheck // the tier's own life bounds it
	}
	return err
}

// ready makes the connection, and takes again what the one before had.
func (l *locks) ready(ctx context.Context) (err error) {
	if l.conn == nil && !l.t.config.Pooler {
		if l.conn, err = pgx.ConnectConfig(ctx, l.t.write.Config().ConnConfig); err != nil {
			l.conn = nil
			return err
		}
	}
	for name, h := range l.held {
		if h.has {
			continue
		}
		if h.has, err = l.try(ctx, name); err != nil {
			return err
		}
		tell := !h.has && !h.told
		h.told = !h.has
		l.held[name] = h
		if tell {
			l.t.log.WarnContext(ctx, "another process has taken a lock that was lost", "lock", name, "place", l.t.place)
		}
	}
	return nil
}

// try takes a lock that this handle does not have.
func (l *locks) try(ctx context.Context, name string) (ok bool, err error) {
	if l.t.config.Pooler {
		tag, err := l.t.write.Exec(ctx, l.t.sql(takeLease), name, l.holder, leaseTime.Microseconds())
		return tag.RowsAffected() > 0, err
	}
	err = l.conn.QueryRow(ctx, tryLock, lockKey(l.t.schema, "lock/"+name)).Scan(&ok)
	return ok, err
}

// drop closes the connection, and with it gives back all locks.
func (l *locks) drop() {
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.t.life), time.Second)
	defer cancel()
	_ = l.conn.Close(ctx)
	l.conn = nil
	for name := range l.held {
		l.held[name] = hold{}
		signal(l.lost)
	}
}

func (l *locks) give(name string) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
		l.release(name)
	case <-l.t.life.Done(): // and with it all locks
	}
}

// release gives a lock back, in the turn of its caller.
func (l *locks) release(name string) {
	h := l.held[name]
	delete(l.held, name)
	if !h.has {
		return // it was lost, or the tier was closed
	}
	err := l.within(func(ctx context.Context) error {
		if l.t.config.Pooler {
			_, err := l.t.write.Exec(ctx, l.t.sql(giveLease), name, l.holder)
			return err
		}
		return l.on(ctx, func() error {
			_, err := l.conn.Exec(ctx, giveLock, lockKey(l.t.schema, "lock/"+name))
			return err
		})
	})
	if err != nil { // a lock ends with its connection, a lease with its time
		l.drop()
	}
}

// keep looks after the connection, or renews the leases, until the tier closes.
func (l *locks) keep() {
	clock := tiers.SystemClock() // a lease runs in real time
	for l.pause() {
		err := l.look()
		if err != nil {
			l.t.log.WarnContext(l.t.life, "locks may be lost, as the server does not answer", "place", l.t.place, "error", err)
		}
		for err != nil && clock.Sleep(l.t.life, lostTime) == nil {
			err = l.look()
		}
	}
}

// pause waits for the next look, and tells whether there is one.
func (l *locks) pause() bool {
	timer := time.NewTimer(lookTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.lost:
	case <-l.t.life.Done():
	}
	return l.t.life.Err() == nil
}

func (l *locks) look() error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	if len(l.held) == 0 {
		return nil
	}
	return l.within(l.check)
}

// check finds out which locks are there, and takes again those that are not.
func (l *locks) check(ctx context.Context) error {
	err := l.on(ctx, func() error {
		if !l.t.config.Pooler {
			return l.conn.Ping(ctx)
		}
		return l.renew(ctx)
	})
	if err != nil {
		return err
	}
	return l.ready(ctx)
}

// renew renews the leases that are still this handle's.
func (l *locks) renew(ctx context.Context) error {
	for name, h := range l.held {
		if !h.has {
			continue
		}
		tag, err := l.t.write.Exec(ctx, l.t.sql(renewLease), name, l.holder, leaseTime.Microseconds())
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			l.held[name] = hold{}
		}
	}
	return nil
}

// close gives back all that is held. The tier's context is over by now.
func (l *locks) close() {
	l.over.Wait()
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	if l.t.config.Pooler {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(l.t.life), time.Second)
		defer cancel()
		for name := range l.held {
			_, _ = l.t.write.Exec(ctx, l.t.sql(giveLease), name, l.holder) // or it ends with its time
		}
	}
	clear(l.held)
	l.drop()
}
