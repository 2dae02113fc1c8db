package manager

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/sagestore/sagestore/tiers"
)

// enteredSessions are those that a transaction writes to. While its function
// runs it holds none of them, since the function may wait for somebody who waits
// for the end of the session; it holds all of them while it is committed.
type enteredSessions struct {
	mu     sync.Mutex
	closed bool // the function has returned
	ids    map[sessionID]bool
}

// enter sees, at the first write into a session, that it goes on.
func (t *Tx) enter(ctx context.Context, id sessionID) error {
	e := &t.all.sessions
	if known, err := e.knows(id); known || err != nil {
		return err
	}
	p, err := t.manager.core.sessions.enter(ctx, id)
	if err != nil {
		return err
	}
	p.shares.Release(1)
	return e.add(id)
}

func (e *enteredSessions) knows(id sessionID) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false, errTxDone
	}
	return e.ids[id], nil
}

func (e *enteredSessions) add(id sessionID) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errTxDone
	}
	if e.ids == nil {
		e.ids = make(map[sessionID]bool)
	}
	e.ids[id] = true
	return nil
}

// mark and back forget the sessions of a savepoint that is taken back.
func (e *enteredSessions) mark() map[sessionID]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.ids)
}

func (e *enteredSessions) back(to map[sessionID]bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ids = to
}

// enterSessions keeps the sessions of the transaction from being ended until it
// is over. All who need several take them in the same order, so that nobody
// waits in a circle.
func (t *Tx) enterSessions(ctx context.Context) error {
	e := &t.all.sessions
	e.mu.Lock()
	e.closed = true
	ids := slices.SortedFunc(maps.Keys(e.ids), func(a, b sessionID) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.id, b.id))
	})
	e.mu.Unlock()
	held := make([]*presence, 0, len(ids))
	release := func() {
		for _, p := range held {
			p.shares.Release(1)
		}
	}
	for _, id := range ids {
		p, err := t.manager.core.sessions.enter(ctx, id)
		if err != nil {
			release()
			return inTx(t, tiers.Fail("commit", "", tiers.Key{Namespace: id.namespace, Name: Key(id.id)}, err))
		}
		held = append(held, p)
	}
	if len(held) > 0 {
		t.inner.AtEnd(release)
	}
	return nil
}
