package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/sagestore/sagestore/internal/sessionlog"
	"github.com/sagestore/sagestore/knowledge"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// Store keeps the sessions of a manager, or of one namespace of it. It is safe
// for concurrent use.
type Store struct {
	*shared
	parts
	m  *manager.Manager // nil for New of a transaction
	tx *manager.Tx      // or nil

	books sessionlog.Books // outside of the transaction, unless m is nil
}

// parts are the collections that a session is made of.
type parts struct {
	identities *manager.Collection[identity]
	endings    *manager.Collection[ending]
	logs       *manager.Collection[logHead]
	events     *manager.Collection[stored]
	ids        *manager.Collection[place]
	context    *manager.Collection[any]
	history    *manager.Collection[string]
	prefs      *manager.Collection[map[string]any]
}

func partsOf(s manager.Scope) parts {
	return parts{
		identities: manager.For[identity](s, "session.state"),
		endings:    manager.For[ending](s, "session.state"),
		logs:       manager.For[logHead](s, "session.events"),
		events:     manager.For[stored](s, "session.events"),
		ids:        manager.For[place](s, "session.events"),
		context:    manager.For[any](s, "session.context"),
		history:    manager.For[string](s, "session.history"),
		prefs:      manager.For[map[string]any](s, "session.preferences"),
	}
}

func (p parts) in(tx *manager.Tx) parts {
	return parts{
		p.identities.In(tx), p.endings.In(tx), p.logs.In(tx), p.events.In(tx), p.ids.In(tx),
		p.context.In(tx), p.history.In(tx), p.prefs.In(tx),
	}
}

// shared is what a store and its views in transactions have in common.
type shared struct {
	clock      tiers.Clock
	maxHistory int
	knowledge  *knowledge.Store
	turns      turns
	queues     queues
	watchers   watchers
}

// Option is [WithHistory] or [WithKnowledge].
type Option func(*shared)

// WithHistory keeps the last n queries of a session; 1000 without it, and 0 keeps
// all. Each goes after the time of session.history anyhow.
func WithHistory(n int) Option { return func(s *shared) { s.maxHistory = n } }

// WithKnowledge adds the usage that events of responses tell of to the ledger of
// k, in the transaction that appends them; and that of session.stop as far as it
// is more than they told. When a session ends, k looks for content that nobody
// holds any more. k belongs to the same manager.
func WithKnowledge(k *knowledge.Store) Option { return func(s *shared) { s.knowledge = k } }

// defaultHistory is how many queries a session keeps.
const defaultHistory = 1000

// New answers the sessions of a manager, or of a transaction, in which [Store.End],
// [Store.Resume] and [Store.Follow] are tiers.ErrUnsupported, and a session can't begin
// whose id a deleted one had. Make one for a
// manager and keep it: it has background work, which ends with the manager, and
// who follows a log in another Store hears of events by asking for them.
func New(s manager.Scope, opts ...Option) *Store {
	st := &Store{shared: &shared{clock: manager.ClockOf(s), maxHistory: defaultHistory}, parts: partsOf(s), books: sessionlog.Of(s)}
	for _, o := range opts {
		if o != nil {
			o(st.shared)
		}
	}
	switch scope := s.(type) {
	case *manager.Tx:
		st.tx = scope
	case *manager.Manager:
		st.m = scope
		// It fails only for a manager that is closed, which every call will tell.
		_ = scope.Background("session-endings", finishEvery, st.finishRest)
	}
	return st
}

// In answers the sessions as the transaction sees them: what is done through it is
// committed with the rest. Following waits for others, so it can't be done there.
func (s *Store) In(tx *manager.Tx) *Store {
	in := *s
	in.tx, in.parts = tx, s.in(tx)
	return &in
}

// Check answers what is wrong with the categories that sessions use.
func (s *Store) Check() error {
	return manager.Check(s.identities, s.logs, s.context, s.history, s.prefs)
}

// conflicts is how often a transaction is run again. Callers of one process take
// turns, so only other processes and apps' own transactions get in the way.
const conflicts = 100

// update runs fn in the store's transaction, or in one of its own, in which the
// callers of this process that change the session take turns.
func (s *Store) update(ctx context.Context, id string, fn func(v view) error) error {
	if s.tx != nil {
		return s.tx.Update(ctx, func(tx *manager.Tx) error { return fn(view{s, s.in(tx), tx}) })
	}
	done, err := s.turns.wait(ctx, id)
	if err != nil {
		return &tiers.Error{Op: "wait for session", Key: id, Err: err}
	}
	defer done()
	return s.transact(ctx, fn)
}

func (s *Store) transact(ctx context.Context, fn func(v view) error) error {
	return s.m.Update(ctx, func(tx *manager.Tx) error { return fn(view{s, s.in(tx), tx}) }, manager.WithRetry(conflicts))
}

// view is the store in a transaction.
type view struct {
	*Store
	parts
	tx *manager.Tx
}

// read runs fn with parts that see one instant, as far as their tiers can.
func (s *Store) read(ctx context.Context, fn func(p parts) error) error {
	if s.tx != nil {
		return fn(s.parts)
	}
	return s.m.View(ctx, func(tx *manager.Tx) error { return fn(s.in(tx)) })
}

func (s *Store) now() time.Time { return s.clock.Now().UTC() }

// checkID answers why a text can't be the id of a session.
func checkID(id string) error {
	if id == "" {
		return fmt.Errorf("%w: the id of a session is empty", tiers.ErrKey)
	}
	return tiers.CheckName(eventKey(id, 0))
}

// checkNewID answers why a text can't be the id of a session that is to have events of
// which the package makes the ids, such as that of its end.
func checkNewID(id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	if err := tiers.CheckName(idKey(id, uuid.Nil.String())); err != nil {
		return tiers.Hint(err, "the ids of session and event are part of a key: choose a shorter one for the session")
	}
	return nil
}

// fail completes an error with what was done and to which session.
func fail(op, id string, err error) error {
	if err == nil {
		return nil
	}
	return tiers.Fail(op, "", tiers.Key{Category: "session", Name: id}, err)
}

var errUnknown = tiers.Hint(tiers.ErrNotFound, "there is no such session; Start makes one")

// unknown turns a missing log or identity into an answer about the session.
func unknown(err error) error {
	if errors.Is(err, tiers.ErrNotFound) {
		return errUnknown
	}
	return err
}
