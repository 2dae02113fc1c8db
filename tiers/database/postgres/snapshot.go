package postgres

import (
	"context"
	"iter"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.Snapshotter = (*Tier)(nil)

// maxSnapshots is how many snapshots of a tier may be open at once. They have
// connections of their own, so that loads never wait for one.
const maxSnapshots = 4

// snapshot is a read transaction. It serves one call at a time.
type snapshot struct {
	t    *Tier
	stop func() bool

	mu   sync.Mutex
	conn *pgxpool.Conn // nil once it has ended
	why  error         // then
}

const beginSnapshot = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`

// Snapshot implements tiers.Snapshotter. At most four are open at once; another one
// waits until one has ended or the context does. It keeps the server from removing
// what was replaced.
func (t *Tier) Snapshot(ctx context.Context) (tiers.Snapshot, error) {
	s, err := t.snapshot(ctx)
	if err != nil {
		return nil, t.failed("snapshot", tiers.Key{}, err)
	}
	return s, nil
}

func (t *Tier) snapshot(ctx context.Context) (*snapshot, error) {
	if err := t.enter(ctx); err != nil {
		return nil, err
	}
	defer t.leave()
	conn, err := t.snapshotConn(ctx)
	if err != nil {
		return nil, err
	}
	return t.beginOn(ctx, conn)
}

// snapshotConn answers a connection for a snapshot, once there is one.
func (t *Tier) snapshotConn(ctx context.Context) (*pgxpool.Conn, error) {
	// Who waits for one must not keep the tier from closing.
	wait, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.life, func() { cancel(tiers.ErrClosed) })() //nolint:contextcheck // the tier's own life bounds it
	conn, err := t.snapshots.Acquire(wait)
	return conn, left(wait, err)
}

// beginReading begins a transaction that sees what is there now.
func (t *Tier) beginReading(ctx context.Context, conn *pgxpool.Conn) error {
	b := &pgx.Batch{}
	b.Queue(beginSnapshot)
	b.Queue("SET LOCAL idle_in_transaction_session_timeout = 0") // a snapshot may rest
	b.Queue(t.sql("SELECT value FROM ~.counters WHERE name = 'journal'"))
	return left(ctx, conn.SendBatch(ctx, b).Close())
}

// beginOn begins a snapshot on a connection, which is the snapshot's from then on.
func (t *Tier) beginOn(ctx context.Context, conn *pgxpool.Conn) (*snapshot, error) {
	s := &snapshot{t: t, conn: conn}
	if err := t.beginReading(ctx, conn); err != nil {
		s.release(err) //nolint:contextcheck // the tier's own life bounds it
		return nil, err
	}
	t.mu.Lock()
	closing := t.closing
	t.live[s] = struct{}{}
	t.mu.Unlock()
	if closing {
		s.end(tiers.ErrClosed) //nolint:contextcheck // the tier's own life bounds it
		return nil, tiers.ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { s.end(context.Cause(ctx)) }) //nolint:contextcheck // the tier's own life bounds it
	if s.conn == nil {                                                   // the tier was closed meanwhile
		stop()
		return nil, s.why
	}
	s.stop = stop
	return s, nil
}

// end gives the connection back, when the call that has it is done.
func (s *snapshot) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return
	}
	if s.stop != nil {
		s.stop()
	}
	s.t.mu.Lock()
	delete(s.t.live, s)
	s.t.mu.Unlock()
	s.release(why)
}

func (s *snapshot) release(why error) {
	conn := s.conn
	s.conn, s.why = nil, why
	ctx, cancel := context.WithTimeout(s.t.life, grace)
	defer cancel()
	if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
		_ = conn.Conn().Close(ctx)
	}
	conn.Release()
}

// lend lends fn the connection of the snapshot.
func (s *snapshot) lend(ctx context.Context, fn func(q querier) error) error {
	if err := engine.Over(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return s.why
	}
	return left(ctx, fn(s.conn))
}

// Load implements tiers.Snapshot.
func (s *snapshot) Load(ctx context.Context, k tiers.Key) (tiers.Record, error) {
	return s.t.load(ctx, s, k)
}

// LoadMany implements tiers.Snapshot.
func (s *snapshot) LoadMany(ctx context.Context, ks []tiers.Key) ([]tiers.Record, error) {
	return s.t.loadMany(ctx, s, ks)
}

// List implements tiers.Snapshot.
func (s *snapshot) List(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
	return s.t.list(ctx, s, q)
}

// Close implements tiers.Snapshot.
func (s *snapshot) Close() error {
	s.end(tiers.ErrClosed)
	return nil
}
