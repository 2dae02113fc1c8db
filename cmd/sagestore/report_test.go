package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

func TestUnknownOutcomeSaysHowToAskLater(t *testing.T) {
	const id = "0199a6d2-6d4c-7b5e-9d55-3d8a0f0b6a11"
	err := error(&tiers.Error{
		Op: "commit", Tx: id, Hint: "ask Manager.Outcome with the Tx of this error",
		Err: fmt.Errorf("%w: %w", tiers.ErrCommitUnknown, context.Canceled),
	})
	got := explain(err)
	if len(got) != 1 || got[0].text != "commit in transaction "+id+": "+tiers.ErrCommitUnknown.Error()+": context canceled" ||
		got[0].hint != "ask later: sagestore journal outcome "+id {
		t.Errorf("%q", got)
	}
	if code := exitCode(err); code != exitFailed {
		t.Errorf("it ends with %d", code)
	}
}

func TestConflictAtTheCommitSaysToRunItAgain(t *testing.T) {
	err := tiers.Hint(tiers.Fail("commit", "database", tiers.Key{Category: "c", Name: "k"}, tiers.ErrConflict), "run the transaction again, or let WithRetry do it")
	got := explain(err)
	if len(got) != 1 || got[0].hint != "somebody else has changed it meanwhile, and nothing was stored; run the command again" {
		t.Errorf("%q", got)
	}
	if code := exitCode(err); code != exitConflict {
		t.Errorf("it ends with %d", code)
	}
}
