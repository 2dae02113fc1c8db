package agent_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/embedded"
)

// TestInterruptedDeletionIsWholeForEverybody lets the deletion of an agent be
// interrupted at each call to the store: before its commit nothing has happened,
// after it the agent is gone, and what is left is out of reach and goes later.
func TestInterruptedDeletionIsWholeForEverybody(t *testing.T) {
	t.Parallel()
	for _, r := range routings()[:3] { // memory, the database and files
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			interrupted(t, r)
		})
	}
}

func interrupted(t *testing.T, r routing) {
	t.Helper()
	ctx := t.Context()
	var left atomic.Int64 // calls until they fail; below 0: for ever
	left.Store(-1)
	broken := errors.New("broken")
	drivers := sagetest.Failing(embedded.Tiers(), func(_ string, k tiers.Key) error {
		if !strings.HasPrefix(k.Category, "agent.") && !strings.HasPrefix(k.Category, "session.") || left.Load() < 0 || left.Add(-1) > 0 {
			return nil
		}
		left.Store(1) // all that follow as well
		return broken
	})
	m := sagetest.OpenWith(t, r.config(t, t.TempDir()), drivers)
	s, sessions := agent.New(m), session.New(m)
	step := int64(1)
	if r.name == "file" {
		step = 9 // each is slow there
	}
	for calls := int64(1); ; calls += step {
		c := talk(t, s, "a", "one", "two")
		must(s.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", ID: "mine"}))(t)
		other := talk(t, s, "b", "one")
		logged(t, sessions, "of a", "a")
		logged(t, sessions, "of b", "b")
		left.Store(calls)
		existed, err := s.Delete(ctx, "a")
		through := left.Swap(-1) > 1
		_, loaded := s.Load(ctx, "a")
		st := must(s.Stats(ctx))(t)
		_, logs := sessions.Last(ctx, "of a", 1)
		must(sessions.Last(ctx, "of b", 1))(t)
		switch {
		case err != nil:
			ok(t, loaded)
			ok(t, logs)
			if st.Agents != 2 || st.Messages != 3 || st.Checkpoints != 1 || len(contents(t, s, c.ID, agent.Page{})) != 2 {
				t.Fatalf("interrupted at call %d it left %+v", calls, st)
			}
			must(s.Delete(ctx, "a"))(t)
		default:
			isErr(t, loaded, tiers.ErrNotFound)
			isErr(t, logs, tiers.ErrNotFound)
			if !existed || st.Agents != 1 || st.Conversations != 1 || st.Messages != 1 || st.Checkpoints != 0 {
				t.Fatalf("interrupted at call %d it left %+v", calls, st)
			}
			if found := must(s.Verify(ctx, ""))(t); len(found) > 0 {
				t.Fatalf("interrupted at call %d, what is still to be removed is taken for damage: %v", calls, found)
			}
			_, err := s.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "late"))
			isErr(t, err, tiers.ErrNotFound)
			ok(t, s.Save(ctx, agent.NewState("a", "again", ""))) // while the old one's remains are there
			again := agent.NewConversation("a")
			again.ID = c.ID
			ok(t, s.SaveConversation(ctx, again))
			must(s.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", ID: "mine"}))(t)
			tendAtLast(t, s, broken)
			if got := contents(t, s, c.ID, agent.Page{}); len(got) != 0 {
				t.Fatalf("the new conversation has %v", got)
			}
			must(s.LoadCheckpoint(ctx, "a", "mine"))(t)
			must(s.Delete(ctx, "a"))(t)
		}
		must(s.Delete(ctx, "b"))(t)
		tendAtLast(t, s, broken)
		if keys := ofSessions(t, m); len(keys) > 0 {
			t.Fatalf("interrupted at call %d it left %q of sessions", calls, keys)
		}
		for _, category := range []string{"agent.state", "agent.conversations", "agent.checkpoints"} {
			for item, err := range m.List(ctx, category, manager.KeysOnly()) {
				ok(t, err)
				t.Fatalf("interrupted at call %d it left %s %s for ever; %s was another agent's", calls, category, item.Key, other.ID)
			}
		}
		if through {
			break
		}
	}
}

// tendAtLast tends until the journal has tried again what a tier has refused.
func tendAtLast(t *testing.T, s *agent.Store, refused error) {
	t.Helper()
	err := s.Tend(t.Context())
	clock := tiers.SystemClock()
	for deadline := clock.Now().Add(20 * time.Second); errors.Is(err, refused) && clock.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
		err = s.Tend(t.Context())
	}
	ok(t, err)
}
