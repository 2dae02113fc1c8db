package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/internal/transfer"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/embedded"
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

func TestHintNamesFlagsRatherThanWhatAProgramCalls(t *testing.T) {
	for _, c := range []struct {
		why  string
		err  error
		want string
	}{
		{"a restore of a damaged checkpoint", tiers.Hint(tiers.Fail("restore checkpoint", "", tiers.Key{Category: "c"}, tiers.ErrCorrupt), "OrOlder takes the next older sound one"), "--or-older takes the next older sound one"},
		{"a session that is not there", session.New(nothing(t)).End(t.Context(), "none"), "sagestore session list shows those that are there"},
		{"an agent that is not there", second(agent.New(nothing(t)).Load(t.Context(), "none")), "sagestore agent list shows those that are there"},
		{"a conversation that is not there", second(agent.New(nothing(t)).LoadConversation(t.Context(), "none", agent.Page{})), "sagestore conversation list shows those that are there"},
		{"a checkpoint that is not there", second(agent.New(nothing(t)).LoadCheckpoint(t.Context(), "", "none")), "sagestore checkpoint list AGENT shows those that are there"},
		{"a save that found something", tiers.Fail("save", "", tiers.Key{Category: "c", Name: "k"}, tiers.ErrExists), "a save without --if-absent replaces it"},
		{"what is no save has no such flag", &transfer.Fault{File: "f", Line: 1, Err: tiers.ErrExists}, ""},
	} {
		if got := explain(c.err); len(got) != 1 || got[0].hint != c.want {
			t.Errorf("%s: %q", c.why, got)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// nothing is a store that holds nothing.
func nothing(t *testing.T) *manager.Manager {
	t.Helper()
	m, err := manager.OpenMemory(t.Context(), embedded.Tiers())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	return m
}

func TestAnErrorIsOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"one line":                              "one line",
		"a line with its end\n":                 "a line with its end",
		"failed to connect to `x`:\n\ta\n\n\tb": "failed to connect to `x`: a; b",
		"a\r\nb":                                "a; b",
	} {
		if got := inOneLine(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
