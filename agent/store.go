package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/sessionlog"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

// Store keeps agents with their conversations and checkpoints in a store. It is
// cheap to make and safe for concurrent use. Stores of one manager share nothing
// but what is stored; callers of one Store take turns on an agent or a
// conversation, so that many of them get through without conflicts: let a program
// have one Store.
type Store struct {
	core          *core
	scope         manager.Scope
	manager       *manager.Manager // nil in a transaction
	tx            *manager.Tx      // nil outside
	lenient       bool
	state         *manager.Collection[json.RawMessage]
	conversations *manager.Collection[json.RawMessage]
	checkpoints   *manager.Collection[json.RawMessage]
	books         sessionlog.Books // of sessions, which may belong to agents
}

// core is what a store and its views share.
type core struct {
	root   *Store // on the manager; nil for a store that was made in a transaction
	clock  tiers.Clock
	codec  serializer.Codec
	turns  turns
	plan   plan
	auto   auto
	finder finder
}

// New answers a store of agents on a manager, or in a transaction.
func New(s manager.Scope) *Store {
	c := &core{clock: manager.ClockOf(s), codec: serializer.JSON()}
	c.plan.set(manager.ConfigOf(s).Checkpoints)
	out := &Store{
		core: c, scope: s,
		state:         manager.For[json.RawMessage](s, categoryState),
		conversations: manager.For[json.RawMessage](s, categoryConversations),
		checkpoints:   manager.For[json.RawMessage](s, categoryCheckpoints),
		books:         sessionlog.Of(s),
	}
	switch s := s.(type) {
	case *manager.Manager:
		out.manager, c.root = s, out
	case *manager.Tx:
		out.tx = s
	}
	return out
}

// In answers the store as a transaction sees it: what it does is committed with
// the transaction, or not at all.
func (s *Store) In(tx *manager.Tx) *Store {
	in := *s
	in.scope, in.tx, in.manager = tx, tx, nil
	in.state, in.conversations, in.checkpoints = s.state.In(tx), s.conversations.In(tx), s.checkpoints.In(tx)
	return &in
}

// ForImport answers a store that takes what others have written: words that it
// does not know, arguments of tool calls that are no object, and results of calls
// that are nowhere stay as they are.
func (s *Store) ForImport() *Store {
	in := *s
	in.lenient = true
	return &in
}

// Check answers what is wrong with the categories of agents. Call it at start-up.
func (s *Store) Check() error { return manager.Check(s.state, s.conversations, s.checkpoints) }

// SetCheckpoints replaces what the configuration says about checkpoints. It holds
// from the next one on, and for all views of the store.
func (s *Store) SetCheckpoints(p config.CheckpointPlan) error {
	if p.Max < 1 || p.Interval <= 0 {
		return &tiers.Error{
			Op: "set checkpoints", Hint: "give a maximum of 1 or more and an interval above 0",
			Err: fmt.Errorf("%w: at most %d checkpoints, every %v", tiers.ErrType, p.Max, p.Interval),
		}
	}
	if _, err := strategyOf(p); err != nil {
		return &tiers.Error{Op: "set checkpoints", Err: err}
	}
	s.core.plan.set(p)
	return nil
}

// tries bounds how often a change runs again because others were faster.
const tries = 100

// refusal is an answer of a change to its caller, hidden from the transaction,
// which would take a conflict in it for one of its own and try again.
type refusal struct{ err error }

func (r refusal) Error() string { return r.err.Error() }

func refuse(err error) error { return refusal{err} }

// update runs a change: on a manager in a transaction of its own, in turn with
// others that name the same; in a transaction as a savepoint.
func (s *Store) update(ctx context.Context, turn turn, fn func(*Store) error) error {
	var err error
	if s.manager != nil {
		leave, e := s.core.turns.wait(ctx, turn)
		if e != nil {
			return e
		}
		defer leave()
		err = s.steadily(ctx, func() error {
			return s.manager.Update(ctx, func(tx *manager.Tx) error { return fn(s.In(tx)) }, manager.WithRetry(tries))
		})
	} else {
		err = s.scope.Update(ctx, func(tx *manager.Tx) error { return fn(s.In(tx)) })
	}
	if r, ok := errors.AsType[refusal](err); ok {
		return r.err
	}
	return err
}

// steadily runs fn again when what it has found is damaged: where the tier gives no
// view of one instant, what is read piece by piece may change between two pieces, in
// another process by what this one hears of within 100 ms. Outside of a transaction.
func (s *Store) steadily(ctx context.Context, fn func() error) error {
	err := fn()
	for _, wait := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond} {
		if s.manager == nil || !errors.Is(err, tiers.ErrCorrupt) {
			break
		}
		// Other processes do not go by the store's clock.
		if tiers.SystemClock().Sleep(ctx, wait) != nil {
			break
		}
		err = fn()
	}
	return err
}

// view runs fn with a store that changes nothing and, on the database, sees one
// instant.
func (s *Store) view(ctx context.Context, fn func(*Store) error) error {
	if s.manager == nil {
		return fn(s)
	}
	return s.manager.View(ctx, func(tx *manager.Tx) error { return fn(s.In(tx)) })
}

// fail names the operation and what it was about in an error.
func fail(op, category, id string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*tiers.Error); ok && e.Op == "" { //nolint:errorlint // only an outermost *Error is completed
		return tiers.Fail(op, "", tiers.Key{Category: category, Name: id}, err)
	}
	return &tiers.Error{Op: op, Category: category, Key: id, Err: err}
}

// load answers a record, decoded, and whether there is one.
func load[T any](ctx context.Context, s *Store, c *manager.Collection[json.RawMessage], key string) (v T, found bool, err error) {
	raw, err := c.Load(ctx, key)
	if errors.Is(err, tiers.ErrNotFound) {
		return v, false, nil
	}
	if err != nil {
		return v, false, err
	}
	if err := s.decode(raw, &v); err != nil {
		return v, false, corrupt(key, err)
	}
	return v, true, nil
}

// save stores what is no part of a checkpoint.
func (s *Store) save(ctx context.Context, c *manager.Collection[json.RawMessage], key string, v any) error {
	raw, err := s.encode(v)
	if err != nil {
		return err
	}
	return c.Save(ctx, key, raw)
}

// corrupt names a record that does not hold what it should.
func corrupt(key string, err error) error {
	if errors.Is(err, tiers.ErrCorrupt) {
		return fmt.Errorf("the record %q: %w", key, err)
	}
	return fmt.Errorf("%w: the record %q does not hold what it should: %w", tiers.ErrCorrupt, key, err)
}

// agent answers the inner name of an agent, and whether there is one.
func (s *Store) agent(ctx context.Context, id string) (au string, found bool, err error) {
	if err := checkID("agent", id); err != nil {
		return "", false, refuse(err)
	}
	ref, found, err := load[agentRef](ctx, s, s.state, atID+manager.Key(id))
	return ref.Inner, found, err
}

// errNoAgent and errNoConversation say what is missing.
var (
	errNoAgent        = fmt.Errorf("no such agent: %w", tiers.ErrNotFound)
	errNoConversation = fmt.Errorf("no such conversation: %w", tiers.ErrNotFound)
)

// conversation answers where a conversation is. One whose agent was deleted is
// not there any more.
func (s *Store) conversation(ctx context.Context, id string) (ref conversationRef, led ledger, found bool, err error) {
	if err := checkID("conversation", id); err != nil {
		return ref, led, false, refuse(err)
	}
	ref, found, err = load[conversationRef](ctx, s, s.conversations, atID+manager.Key(id))
	if !found || err != nil {
		return ref, led, false, err
	}
	led, found, err = load[ledger](ctx, s, s.state, atLedger+ref.Agent)
	return ref, led, found, err
}
