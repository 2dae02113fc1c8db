package txn_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/memory"
	"github.com/sagestore/sagestore/tiers/tiertest"
	"github.com/sagestore/sagestore/txn"
)

// inMemory is an engine over a memory tier.
func inMemory(t testing.TB, clock tiers.Clock) (*txn.Engine, tiers.Tier) {
	t.Helper()
	mem, err := memory.Open(t.Context(), memory.Config{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	system, _ := tiers.As[tiers.System](mem)
	e, err := txn.New(txn.EngineConfig{Members: []txn.Member{{Name: "memory", Tier: mem}}, System: system, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(e.Close(context.Background()), mem.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return e, mem
}

// What is called on commit may wait for what was kept until the end.
func TestTheEndComesBeforeOnCommit(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	e, mem := inMemory(t, nil)
	own := errors.New("own")
	for _, c := range []struct {
		answer error
		want   []string
	}{{nil, []string{"end: absent false", "commit"}}, {own, []string{"end: absent true"}}} {
		var called []string
		if _, err := mem.Delete(ctx, key("k"), tiers.Cond{}); err != nil {
			t.Fatal(err)
		}
		err := e.Update(ctx, func(tx *txn.Tx) error {
			tx.OnCommit(func(context.Context) { called = append(called, "commit") })
			tx.AtEnd(func() {
				state := "end: absent false"
				if _, err := mem.Load(ctx, key("k")); errors.Is(err, tiers.ErrNotFound) {
					state = "end: absent true"
				}
				called = append(called, state)
			})
			if _, err := tx.Tier("memory").Save(ctx, rec("k", "v"), tiers.Cond{}); err != nil {
				return err
			}
			return c.answer
		}, txn.Options{})
		if !errors.Is(err, c.answer) || !slices.Equal(called, c.want) {
			t.Errorf("answer %v: called %q, %v", c.answer, called, err)
		}
	}
}

func TestAViewAnswersTheErrorOfItsFunctionAsItIs(t *testing.T) {
	t.Parallel()
	e, _ := inMemory(t, nil)
	own := errors.New("own")
	if err := e.View(t.Context(), func(*txn.Tx) error { return own }); err != own { //nolint:errorlint // as it is
		t.Errorf("answered %#v", err)
	}
}

// A clock that stands still, as in the tests of an app, holds no retry up.
func TestARetryDoesNotWaitForTheClock(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	e, mem := inMemory(t, tiertest.NewClock(start))
	runs := 0
	err := e.Update(ctx, func(tx *txn.Tx) error {
		runs++
		if _, err := tx.Tier("memory").Load(ctx, key("k")); err != nil && !errors.Is(err, tiers.ErrNotFound) {
			return err
		}
		if runs < 3 {
			if _, err := mem.Save(ctx, rec("k", "of somebody else"), tiers.Cond{}); err != nil {
				return err
			}
		}
		_, err := tx.Tier("memory").Save(ctx, rec("k", "v"), tiers.Cond{})
		return err
	}, txn.Options{Retry: 5})
	if err != nil || runs != 3 {
		t.Errorf("after %d runs: %v", runs, err)
	}
}
