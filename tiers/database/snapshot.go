package database

import (
	"context"
	"errors"
	"iter"
	"sync"

	"modernc.org/sqlite"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.Snapshotter = (*Tier)(nil)

// maxSnapshots is how many snapshots of a tier may be open at once. They have
// connections of their own, so that loads never wait for one.
const maxSnapshots = 4

// snapshots are the open ones, and the connections for more.
type snapshots struct {
	*pool
	mu   sync.Mutex
	over bool
	live map[*snapshot]struct{}
}

func newSnapshots(open connector) *snapshots {
	return &snapshots{pool: newPool(maxSnapshots, open), live: map[*snapshot]struct{}{}}
}

// add notes a snapshot, unless the tier is closing.
func (s *snapshots) add(one *snapshot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return tiers.ErrClosed
	}
	s.live[one] = struct{}{}
	return nil
}

func (s *snapshots) remove(one *snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, one)
}

// endAll ends those that are open and lets there be no more.
func (s *snapshots) endAll(ctx context.Context) {
	s.shut()
	s.mu.Lock()
	s.over = true
	var all []*snapshot
	for one := range s.live {
		all = append(all, one)
	}
	s.mu.Unlock()
	for _, one := range all {
		one.end(ctx, tiers.ErrClosed)
	}
}

// snapshot is a read transaction. It serves one call at a time.
type snapshot struct {
	t    *Tier
	stop func() bool

	mu  sync.Mutex
	c   *conn // nil once it has ended
	why error // then
}

// Snapshot implements tiers.Snapshotter. At most four are open at once; another one
// waits until one has ended or the context does. It keeps the log from beginning
// anew. Of a store in memory it is a copy, which takes as much memory again.
func (t *Tier) Snapshot(ctx context.Context) (tiers.Snapshot, error) {
	s, err := t.snapshot(ctx)
	if err != nil {
		return nil, t.failed("snapshot", tiers.Key{}, err)
	}
	return s, nil
}

func (t *Tier) snapshot(ctx context.Context) (_ *snapshot, err error) {
	return t.snapshotBy(ctx, t.snapshots.open, beginReading)
}

// snapshotBy gets a connection, from open where none is idle, and lets begin open
// the read transaction.
func (t *Tier) snapshotBy(ctx context.Context, open connector, begin func(ctx context.Context, c *conn) error) (_ *snapshot, err error) {
	if err := engine.Over(ctx); err != nil {
		return nil, err
	}
	if err := t.snapshots.enter(); err != nil {
		return nil, err
	}
	c, err := t.snapshots.getBy(ctx, open)
	if err != nil {
		t.snapshots.leave()
		return nil, err
	}
	s := &snapshot{t: t, c: c}
	if err = begin(ctx, c); err == nil {
		err = t.snapshots.add(s)
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.release(context.WithoutCancel(ctx), err)
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { s.end(context.WithoutCancel(ctx), context.Cause(ctx)) })
	if s.c == nil { // the tier was closed meanwhile
		stop()
		return nil, s.why
	}
	s.stop = stop
	return s, nil
}

// beginReading opens a read transaction. It begins with its first read.
func beginReading(ctx context.Context, c *conn) error {
	if _, err := c.exec(context.WithoutCancel(ctx), "BEGIN"); err != nil {
		return err
	}
	return poll(ctx, nil, func() (bool, error) {
		_, err := c.number(context.WithoutCancel(ctx), "SELECT value FROM counters WHERE name = 'version'")
		if busy(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// end gives the connection back, when the call that has it is done.
func (s *snapshot) end(ctx context.Context, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == nil {
		return
	}
	if s.stop != nil {
		s.stop()
	}
	s.t.snapshots.remove(s)
	s.release(ctx, why)
}

// release is called with the lock.
func (s *snapshot) release(ctx context.Context, why error) {
	c := s.c
	s.c, s.why = nil, why
	_, err := c.exec(ctx, "ROLLBACK")
	if err != nil || s.t.path == Memory {
		s.t.snapshots.drop(c)
	} else {
		s.t.snapshots.put(c)
	}
	s.t.snapshots.leave()
}

// read lends fn the connection of the snapshot.
func (s *snapshot) read(ctx context.Context, fn func(c *conn) error) error {
	if err := engine.Over(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == nil {
		return s.why
	}
	return fn(s.c)
}

// Load implements tiers.Snapshot.
func (s *snapshot) Load(ctx context.Context, k tiers.Key) (tiers.Record, error) {
	return s.t.load(ctx, s, k)
}

// LoadMany implements tiers.Snapshot.
func (s *snapshot) LoadMany(ctx context.Context, ks []tiers.Key) ([]tiers.Record, error) {
	return s.t.loadMany(ctx, s, ks, len(ks))
}

// List implements tiers.Snapshot.
func (s *snapshot) List(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
	return s.t.list(ctx, s, q)
}

// Close implements tiers.Snapshot.
func (s *snapshot) Close() error {
	s.end(context.Background(), tiers.ErrClosed)
	return nil
}

// copyMemory answers a connection to a copy of a database in memory, which nobody
// else can connect to.
func (t *Tier) copyMemory(ctx context.Context) (copied *conn, err error) {
	err = t.read(ctx, func(c *conn) (err error) {
		copied, err = c.copied()
		return err
	})
	return copied, err
}

// copied answers a connection to a copy in memory.
func (c *conn) copied() (*conn, error) {
	from, ok := c.raw.(interface {
		NewBackup(to string) (*sqlite.Backup, error)
	})
	if !ok {
		return nil, errors.New("the SQLite driver can't copy a database")
	}
	b, err := from.NewBackup(dsn(Memory, false, pragma{"trusted_schema", "0"}))
	if err != nil {
		return nil, err
	}
	if _, err := b.Step(-1); err != nil {
		return nil, errors.Join(err, b.Finish())
	}
	raw, err := b.Commit()
	if err != nil {
		return nil, err
	}
	return newConn(raw), nil
}
