package txn_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/txn"
)

// unheard is a committer whose answers get lost, though the caller waits for them.
type unheard struct {
	tiers.Committer
	told error // instead
}

func (u unheard) Commit(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
	if _, err := u.Committer.Commit(ctx, c); err != nil {
		return tiers.Committed{}, err
	}
	return tiers.Committed{}, u.told
}

// Who runs a function again although its first run may be committed does it twice.
func TestAFunctionIsNotRunAgainWhileNobodyKnowsItsOutcome(t *testing.T) {
	t.Parallel()
	for why, told := range map[string]error{
		"the answer was lost":                 tiers.ErrCommitUnknown,
		"it was lost after a conflict before": errors.Join(tiers.ErrConflict, tiers.ErrCommitUnknown),
	} {
		ctx, w := t.Context(), open(t, t.TempDir(), false)
		config := txn.EngineConfig{Decider: "database", Committer: unheard{w.db, told}, System: w.db}
		for _, name := range names {
			config.Members = append(config.Members, txn.Member{Name: name, Tier: w.all[name]})
		}
		e, err := txn.New(config)
		if err != nil {
			t.Fatal(err)
		}
		runs := 0
		err = e.Update(ctx, func(tx *txn.Tx) error {
			runs++
			for _, name := range names {
				if err := increment(ctx, tx.Tier(name)); err != nil {
					return err
				}
			}
			return nil
		}, txn.Options{Retry: 5})
		unknown, ok := errors.AsType[*tiers.Error](err)
		if !errors.Is(err, tiers.ErrCommitUnknown) || !ok || runs != 1 {
			t.Fatalf("%s: it answers %v after %d runs", why, err, runs)
		}
		if got, err := e.Outcome(ctx, unknown.Tx); got != txn.Committed || err != nil {
			t.Errorf("%s: the outcome is %q, %v", why, got, err)
		}
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
		for _, name := range names {
			if got := loaded(t, w.all[name], "n"); got != "1" {
				t.Errorf("%s: %s counts %q", why, name, got)
			}
		}
	}
}
