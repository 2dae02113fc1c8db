package knowledge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// Store is the knowledge in a manager, or in one namespace of it. It is safe for
// concurrent use.
type Store struct {
	*shared
	parts
	m  *manager.Manager // nil for New of a transaction
	tx *manager.Tx      // or nil
}

// parts are the collections that knowledge is made of.
type parts struct {
	references *manager.Collection[reference]
	bodies     *manager.Collection[body]
	holders    *manager.Collection[holder]
	accesses   *manager.Collection[accessRecord]
	sums       *manager.Collection[sum]
	counted    *manager.Collection[counted]
	live       *manager.Collection[sum]
}

func partsOf(s manager.Scope) parts {
	return parts{
		references: manager.For[reference](s, "knowledge.content"),
		bodies:     manager.For[body](s, "knowledge.bodies"),
		holders:    manager.For[holder](s, "knowledge.bodies"),
		accesses:   manager.For[accessRecord](s, "knowledge.access"),
		sums:       manager.For[sum](s, "knowledge.usage"),
		counted:    manager.For[counted](s, "knowledge.usage"),
		live:       manager.For[sum](s, "knowledge.tokens"),
	}
}

func (p parts) in(tx *manager.Tx) parts {
	return parts{
		p.references.In(tx), p.bodies.In(tx), p.holders.In(tx), p.accesses.In(tx),
		p.sums.In(tx), p.counted.In(tx), p.live.In(tx),
	}
}

// shared is what a store and its views in transactions have in common.
type shared struct {
	clock    tiers.Clock
	count    func(content string) (tokens int, ok bool)
	apart    error         // why nobody can tell which content is held
	ledger   chan struct{} // holds a token while nobody of this process writes sums
	counters counters
}

// Option is [WithCounter].
type Option func(*shared)

// WithCounter counts the tokens of content that is put without their number; ok
// is false when it can't tell.
func WithCounter(count func(content string) (tokens int, ok bool)) Option {
	return func(s *shared) { s.count = count }
}

// How often counts are written, and content is looked for that nobody holds.
const (
	writeEvery   = 5 * time.Second
	collectEvery = time.Minute
)

// conflicts is how often a transaction is run again.
const conflicts = 100

// New answers the knowledge in a manager, or in a transaction. Make one for a
// manager and keep it: it counts in the process, and has background work, which
// ends with the manager.
func New(s manager.Scope, opts ...Option) *Store {
	k := &Store{shared: &shared{clock: manager.ClockOf(s), ledger: make(chan struct{}, 1)}, parts: partsOf(s)}
	k.ledger <- struct{}{}
	for _, o := range opts {
		if o != nil {
			o(k.shared)
		}
	}
	switch scope := s.(type) {
	case *manager.Tx:
		k.tx = scope
	case *manager.Manager:
		k.m = scope
		k.apart = reach(scope)
		// They fail only for a manager that is closed, which every call will tell.
		_ = scope.Background("knowledge-access", writeEvery, k.writeCounts)
		_ = scope.Background("knowledge-bodies", collectEvery, func(ctx context.Context) error {
			_, err := k.Collect(ctx)
			if errors.Is(err, tiers.ErrUnavailable) || ctx.Err() != nil {
				return nil //nolint:nilerr // the next run does it
			}
			return err
		})
	}
	return k
}

// In answers the knowledge as the transaction sees it: what is done through it is
// committed with the rest.
func (k *Store) In(tx *manager.Tx) *Store {
	in := *k
	in.tx, in.parts = tx, k.in(tx)
	return &in
}

// Check answers what is wrong with the categories that knowledge uses.
func (k *Store) Check() error {
	return errors.Join(k.apart, manager.Check(k.references, k.bodies, k.accesses, k.sums, k.live))
}

// reach answers an error when bodies are seen by more processes than references:
// then no process can tell whether content is held.
func reach(m *manager.Manager) error {
	refs, err := m.Config().Policy("knowledge.content", nil)
	if err != nil {
		return err
	}
	bodies, err := m.Config().Policy("knowledge.bodies", nil)
	if err != nil {
		return err
	}
	open := m.Tiers()
	if open[refs.Tier].Scope == tiers.ScopeProcess && open[bodies.Tier].Scope != tiers.ScopeProcess {
		return tiers.Hint(fmt.Errorf("%w: knowledge.bodies outlives the process in the tier %s, and knowledge.content does not", tiers.ErrCategory, bodies.Tier),
			"give both the same tier")
	}
	return nil
}

// update runs fn in the store's transaction, or in one of its own.
func (k *Store) update(ctx context.Context, fn func(v view) error) error {
	if k.tx != nil {
		return k.tx.Update(ctx, func(tx *manager.Tx) error { return fn(view{k, k.in(tx), tx}) })
	}
	return k.m.Update(ctx, func(tx *manager.Tx) error { return fn(view{k, k.in(tx), tx}) }, manager.WithRetry(conflicts))
}

// view is the store in a transaction.
type view struct {
	*Store
	parts
	tx *manager.Tx
}

func (k *Store) now() time.Time { return tiers.Micro(k.clock.Now()) }

// fail completes an error with what was done to what.
func fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return tiers.Fail(op, "", tiers.Key{Category: "knowledge", Name: name}, err)
}
