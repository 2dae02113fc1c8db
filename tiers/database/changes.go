package database

import (
	"context"
	"sync"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

const changesNow = `SELECT (` + journalSeq + `), (SELECT value FROM counters WHERE name = 'sessions')`

// watch is a connection of its own, whose PRAGMA data_version changes whenever
// any other connection commits.
type watch struct {
	mu   sync.Mutex
	c    *conn
	seen int64
	last tiers.Changes
}

func (w *watch) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.c == nil {
		return nil
	}
	c := w.c
	w.c = nil
	return c.close()
}

// Changes implements tiers.System.
func (t *Tier) Changes(ctx context.Context) (tiers.Changes, error) {
	changes, err := t.changes(ctx)
	if err != nil {
		return tiers.Changes{}, t.failed("watch", tiers.Key{}, err)
	}
	return changes, nil
}

func (t *Tier) changes(ctx context.Context) (now tiers.Changes, err error) {
	if t.path == Memory {
		// The places of rows are told by the writer, which had this connection before.
		err = t.read(ctx, func(c *conn) error {
			now, err = counters(ctx, c)
			return err
		})
		return now, err
	}
	if err := engine.Over(ctx); err != nil {
		return now, err
	}
	if err := t.pool.enter(); err != nil {
		return now, err
	}
	defer t.pool.leave()
	w := &t.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.c == nil {
		if w.c, err = t.connectReader(ctx); err != nil {
			return now, err
		}
	}
	err = poll(ctx, nil, func() (bool, error) {
		err := w.look(ctx, &t.waiting)
		if busy(err) {
			return false, nil
		}
		return err == nil, err
	})
	return w.last, err
}

// look reads the counters, and where the rows are, when something was committed since
// the last look. The number is read first: what is committed in between is seen twice,
// never missed. Of the counters the places have at least what they say.
func (w *watch) look(ctx context.Context, known *waiting) error {
	version, err := w.c.number(ctx, "PRAGMA data_version")
	if err != nil || version == w.seen {
		return err
	}
	last, err := counters(ctx, w.c)
	if err != nil {
		return err
	}
	if upTo := known.upTo(); last.Journal > uint64(upTo) { //nolint:gosec // never negative
		if err := known.learn(ctx, w.c, int64(last.Journal)); err != nil { //nolint:gosec // counted from 0
			return err
		}
	}
	w.seen, w.last = version, last
	return nil
}

func counters(ctx context.Context, c *conn) (tiers.Changes, error) {
	row, err := c.first(ctx, changesNow)
	if err != nil || len(row) < 2 {
		return tiers.Changes{}, err
	}
	journal, _ := row[0].(int64)
	sessions, _ := row[1].(int64)
	return tiers.Changes{Journal: uint64(journal), Sessions: uint64(sessions)}, nil //nolint:gosec // never negative
}
