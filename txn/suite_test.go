package txn_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/memory"
	"github.com/sagestore/sagestore/tiers/tiertest"
	"github.com/sagestore/sagestore/txn"
)

// owned closes the system store with the tier.
type owned struct {
	*txn.Journaled
	store tiers.Tier
	down  bool
}

// As hides what is left to the server: its sign of life, records that have a
// version of their own, and touching, which gives a row a new version.
func (o owned) As(target any) bool {
	switch target.(type) {
	case *tiers.Applier, *tiers.Toucher, *tiers.Pinger:
		if o.down {
			return false
		}
	}
	return o.Journaled.As(target)
}

func (o owned) Close(ctx context.Context) error {
	return errors.Join(o.Journaled.Close(ctx), o.store.Close(ctx))
}

// opener opens memory tiers behind a journal.
func opener(down bool) func(context.Context, string, tiers.Clock) (tiers.Tier, error) {
	return func(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
		open := func(name string) (*memory.Tier, error) {
			return memory.Open(ctx, memory.Config{Options: memory.Options{SpillDir: filepath.Clean(dir)}, Clock: clock, Name: name})
		}
		inner, err := open("inner")
		if err != nil {
			return nil, err
		}
		store, err := open("store")
		if err != nil {
			return nil, err
		}
		system, _ := tiers.As[tiers.System](store)
		var t tiers.Tier = inner
		if down {
			s := newServer()
			s.set(true)
			t = &flaky{Tier: inner, server: s, clock: clock}
		}
		j, err := txn.Journal(ctx, t, system, txn.Config{Epoch: "e1", Clock: clock})
		if err != nil {
			return nil, err
		}
		return owned{j, store, down}, nil
	}
}

func TestConformanceWhileTheServerAnswers(t *testing.T) {
	t.Parallel()
	tiertest.Run(t, tiertest.Config{Open: opener(false), Require: []tiertest.Capability{
		tiertest.Applier, tiertest.Batcher, tiertest.AtomicBatch, tiertest.Exister, tiertest.Toucher, tiertest.Sweeper,
		tiertest.Pinger, tiertest.Statser, tiertest.Counter, tiertest.Describer, tiertest.Diagnoser,
	}})
}

// Until the server was reached for the first time, the journal is as good as the
// tier.
func TestConformanceWhileTheJournalIsTheWholeTruth(t *testing.T) {
	t.Parallel()
	tiertest.Run(t, tiertest.Config{Open: opener(true), Require: []tiertest.Capability{
		tiertest.Batcher, tiertest.AtomicBatch, tiertest.Exister, tiertest.Sweeper,
		tiertest.Statser, tiertest.Counter, tiertest.Describer, tiertest.Diagnoser,
	}})
}
