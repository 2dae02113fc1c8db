package session

import (
	"context"
	"fmt"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// Fork begins the session newID with the events of another one up to the sequence
// number at, 0 for none, and a session.fork event; at and the events before it have
// to be readable. The new one has the same user, belongs to the same agent, and goes on
// by itself; context and
// history begin anew. Events keep their IDs, times and numbers, and no usage is
// counted again. It is one transaction, which holds 64 MiB.
//
// tiers.ErrNotFound: there is no such session or event. tiers.ErrExists: newID is
// taken.
func (s *Store) Fork(ctx context.Context, id string, at uint64, newID string) error {
	err := checkID(newID)
	if err == nil {
		err = checkID(id)
	}
	if err != nil {
		return fail("fork", id, err)
	}
	e, err := NewEvent(newID, "", Forked{Parent: id, At: at})
	if err != nil {
		return fail("fork", id, err)
	}
	fork, err := s.prepare(newID, []Event{e})
	if err != nil {
		return fail("fork", id, err)
	}
	return fail("fork", id, s.update(ctx, newID, func(v view) error {
		from, err := v.identities.Load(ctx, manager.Key(id))
		if err != nil {
			return unknown(err)
		}
		head, err := v.logs.Load(ctx, logKey(id))
		if err != nil {
			return unknown(err)
		}
		if at > head.Last {
			return tiers.Hint(tiers.ErrNotFound, fmt.Sprintf("the last event of the session is %d", head.Last))
		}
		w, err := v.begin(ctx, identity{ID: newID, User: from.User, Agent: from.Agent, Started: s.now()}, false)
		if err != nil {
			return err
		}
		w.head.Model = head.Model
		if err := w.copy(ctx, id, at); err != nil {
			return err
		}
		w.place(fork[0])
		return w.flushQuietly(ctx)
	}))
}

// copy takes over the events of another log up to one.
func (w *writer) copy(ctx context.Context, from string, at uint64) error {
	if at == 0 {
		return nil
	}
	inTx := &Store{shared: w.shared, parts: w.parts, tx: w.tx}
	for e, err := range inTx.list(ctx, from, manager.Limit(int(min(at, 1<<31)))) {
		if err != nil {
			return err
		}
		if e.Seq > at {
			break
		}
		if err := e.check(from); err != nil {
			return err
		}
		seq := e.Seq
		e.Session, w.head.Last = w.id, seq-1
		if w.place(e) == at {
			break
		}
	}
	w.head.Ended, w.ends = false, nil
	return nil
}

// flushQuietly is flush of events that have been counted and have had their
// effect before.
func (w *writer) flushQuietly(ctx context.Context) error {
	if err := w.save(ctx); err != nil {
		return err
	}
	w.tx.OnCommit(func(context.Context) { w.watchers.tell(w.id) })
	return nil
}
