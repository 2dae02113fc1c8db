package txn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/sagestore/sagestore/tiers"
)

// Single is one store with transactions. Bare calls go through Tier.
type Single struct {
	engine *Engine
	tier   tiers.Tier
	owned  bool // tier is a journal that Close closes
}

// single is the name of the tier of a Single in its engine.
const single = "store"

// WrapConfig is what [Wrap] may take.
type WrapConfig struct {
	// Journal is a database tier that keeps the journal, for stores that can't do
	// several things at once by themselves. It stays its owner's.
	Journal tiers.Tier
	Clock   tiers.Clock  // nil: the system's
	Log     *slog.Logger // nil: none
}

// Wrap gives one store transactions, without a manager. A store that is atomic by
// itself, [tiers.Committer] or [tiers.Publisher], needs nothing else; any other
// needs a journal, and without one Wrap answers tiers.ErrUnsupported. With a
// journal the store is the wrapper's from then on, and is to be used through
// [Single.Tier] only.
func Wrap(ctx context.Context, tier tiers.Tier, c WrapConfig) (*Single, error) {
	s := &Single{tier: tier}
	config := EngineConfig{Clock: c.Clock, Log: c.Log}
	committer, decides := tiers.As[tiers.Committer](tier)
	_, publishes := tiers.As[tiers.Publisher](tier)
	switch {
	case decides:
		config.Decider, config.Committer = single, committer
		config.System, _ = tiers.As[tiers.System](tier)
	case publishes:
		config.System, _ = tiers.As[tiers.System](tier)
	default:
		var err error
		if config.System, config.Committer, err = keepsJournal(c.Journal); err != nil {
			return nil, err
		}
		epoch, err := config.System.Fact(ctx, "epoch")
		if err != nil && !isNotFound(err) {
			return nil, err
		}
		j, err := Journal(ctx, tier, config.System, Config{Tier: single, Epoch: string(epoch), Clock: c.Clock, Log: c.Log})
		if err != nil {
			return nil, err
		}
		s.tier, s.owned = j, true
	}
	config.Members = []Member{{Name: single, Tier: s.tier}}
	var err error
	s.engine, err = New(config)
	return s, err
}

func keepsJournal(t tiers.Tier) (tiers.System, tiers.Committer, error) {
	hint := "give Wrap a journal: a tier of package database"
	if t == nil {
		return nil, nil, tiers.Hint(fmt.Errorf("%w: the store can't change several keys at once by itself", tiers.ErrUnsupported), hint)
	}
	system, ok := tiers.As[tiers.System](t)
	committer, decides := tiers.As[tiers.Committer](t)
	if !ok || !decides {
		return nil, nil, tiers.Hint(fmt.Errorf("%w: the tier that was given can't keep a journal", tiers.ErrUnsupported), hint)
	}
	return system, committer, nil
}

// Tier answers the store for calls outside of transactions.
func (s *Single) Tier() tiers.Tier { return s.tier }

// Update runs fn in a transaction, see [Engine.Update]. The tier that fn gets is
// the store as the transaction sees it.
func (s *Single) Update(ctx context.Context, fn func(t tiers.Tier) error, o Options) error {
	return s.engine.Update(ctx, func(tx *Tx) error { return fn(tx.Tier(single)) }, o)
}

// View runs fn with a view of the store, see [Engine.View].
func (s *Single) View(ctx context.Context, fn func(t tiers.Tier) error) error {
	return s.engine.View(ctx, func(tx *Tx) error { return fn(tx.Tier(single)) })
}

// Outcome tells what became of a transaction, see [Engine.Outcome].
func (s *Single) Outcome(ctx context.Context, id string) (Outcome, error) {
	return s.engine.Outcome(ctx, id)
}

// Close waits for transactions on their way and closes a store that was given a
// journal; any other stays open, since it is its owner's.
func (s *Single) Close(ctx context.Context) error {
	err := s.engine.Close(ctx)
	if s.owned {
		err = errors.Join(err, s.tier.Close(ctx))
	}
	return err
}
