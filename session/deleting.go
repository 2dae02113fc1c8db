package session

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// Delete removes a session, whether it has ended or goes on, and tells whether it was
// there: its log, its context, its history, and what belongs to it in categories with
// the TTL "session". It is gone at once, for everybody; what it took is given back
// before Delete returns, or later when that is interrupted. Forks of it stay whole, as
// do the preferences of its user and the usage that knowledge has counted. A session
// that begins under the same id finds nothing of it.
//
// A session that only the manager knows was not begun with [Store.Start] and is not
// touched; that is for Manager.EndSession.
func (s *Store) Delete(ctx context.Context, id string) (existed bool, err error) {
	if err := checkID(id); err != nil {
		return false, fail("delete", id, err)
	}
	err = s.update(ctx, id, func(v view) error {
		v.tx.OnCommit(func(context.Context) { v.watchers.tell(id) })
		existed, err = v.books.Delete(ctx, v.tx, id)
		if existed && v.knowledge != nil && v.m != nil {
			v.tx.OnCommit(func(ctx context.Context) {
				// What only it held goes; what fails is done by the next ending.
				_, _ = v.knowledge.Collect(context.WithoutCancel(ctx))
			})
		}
		return err
	})
	return existed && err == nil, fail("delete", id, err)
}

// OwnedBy answers the ids of the sessions that belong to an agent, in the order of
// their keys, whether or not there is such an agent.
func (s *Store) OwnedBy(ctx context.Context, agent string) (ids []string, err error) {
	if agent == "" {
		return nil, fail("list sessions", "", fmt.Errorf("%w: the id of the agent is empty", tiers.ErrKey))
	}
	books := s.books
	if s.tx != nil {
		books = books.In(s.tx)
	}
	ids, err = books.Owned(ctx, agent)
	return ids, fail("list sessions of", manager.Key(agent), err)
}

var errDeleted = tiers.Hint(fmt.Errorf("the session was deleted: %w", tiers.ErrNotFound), "follow it again if one of that id has begun since")

// newBirth answers 64 random bits.
func newBirth() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
