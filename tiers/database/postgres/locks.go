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
	giveLease = `DELETE FROM ~.leases WHERE name = $1 AND holder = $2`

	// leaseTime is after how long others may have what a process has not renewed.
	leaseTime = 15 * time.Second
	// lookTime is between two looks at the connection that holds locks, and between two
	// renewals of a lease.
	lookTime = leaseTime / 5
)

// locks are those that this handle holds: advisory locks of one connection, which end
// with it, or leases behind a pooler.
type locks struct {
	t      *Tier
	holder string // of leases

	mu      sync.Mutex
	conn    *pgx.Conn
	held    map[string]bool
	keeping bool
	over    sync.WaitGroup
}

func newLocks(t *Tier) *locks {
	return &locks{t: t, holder: uuid.NewString(), held: map[string]bool{}}
}

// Lock implements tiers.Locker, by an advisory lock of a session. It ends with the
// process or with its connection. A connection that is lost is made again at once, and
// takes its locks again unless another process was faster. Behind a pooler it is a
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

func (l *locks) take(ctx context.Context, name string) (ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] {
		return false, nil
	}
	for fresh := false; ; fresh = true {
		if err = l.connect(ctx); err == nil {
			ok, err = l.try(ctx, name)
		}
		if err == nil || fresh || ctx.Err() != nil || !ended(err) {
			break
		}
		l.drop() //nolint:contextcheck // the tier's own life bounds it
	}
	if ok {
		l.held[name] = true
		if !l.keeping {
			l.keeping = true
			l.over.Go(l.keep)
		}
	}
	return ok, err
}

// try takes a lock that this handle does not have, or renews a lease.
func (l *locks) try(ctx context.Context, name string) (ok bool, err error) {
	if l.t.config.Pooler {
		tag, err := l.t.write.Exec(ctx, l.t.sql(takeLease), name, l.holder, leaseTime.Microseconds())
		return tag.RowsAffected() > 0, err
	}
	err = l.conn.QueryRow(ctx, tryLock, lockKey(l.t.schema, "lock/"+name)).Scan(&ok)
	return ok, err
}

// connect makes the connection, and takes again what the one before had.
func (l *locks) connect(ctx context.Context) (err error) {
	if l.conn != nil || l.t.config.Pooler {
		return nil
	}
	if l.conn, err = pgx.ConnectConfig(ctx, l.t.write.Config().ConnConfig); err != nil {
		l.conn = nil
		return err
	}
	for name := range l.held {
		ok, err := l.try(ctx, name)
		if err != nil {
			l.drop() //nolint:contextcheck // the tier's own life bounds it
			return err
		}
		if !ok {
			l.t.log.WarnContext(ctx, "another process has taken a lock while the connection was lost", "lock", name, "place", l.t.place)
		}
	}
	return nil
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
}

func (l *locks) give(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.held[name] {
		return // the tier was closed
	}
	delete(l.held, name)
	ctx, cancel := context.WithTimeout(l.t.life, grace)
	defer cancel()
	var err error
	switch {
	case l.t.config.Pooler:
		_, err = l.t.write.Exec(ctx, l.t.sql(giveLease), name, l.holder)
	case l.conn != nil:
		_, err = l.conn.Exec(ctx, giveLock, lockKey(l.t.schema, "lock/"+name))
	}
	if err != nil { // a lock ends with its connection, a lease with its time
		l.drop()
	}
}

// keep looks after the connection, or renews the leases, until the tier closes.
func (l *locks) keep() {
	clock := tiers.SystemClock() // a lease runs in real time
	for clock.Sleep(l.t.life, lookTime) == nil {
		ctx, cancel := context.WithTimeout(l.t.life, lookTime)
		l.look(ctx)
		cancel()
	}
}

func (l *locks) look(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) == 0 {
		return
	}
	if !l.t.config.Pooler {
		if l.conn != nil && l.conn.Ping(ctx) != nil {
			l.drop() //nolint:contextcheck // the tier's own life bounds it
		}
		if err := l.connect(ctx); err != nil {
			l.t.log.WarnContext(ctx, "the connection that holds locks is lost", "place", l.t.place, "error", err)
		}
		return
	}
	for name := range l.held {
		if ok, err := l.try(ctx, name); !ok || err != nil {
			l.t.log.WarnContext(ctx, "a lease can't be renewed", "lock", name, "place", l.t.place, "error", err)
		}
	}
}

// close gives back all that is held. The tier's context is over by now.
func (l *locks) close() {
	l.over.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
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
