package agent_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

// logged begins a session of an agent, or of none, with an event.
func logged(t testing.TB, s *session.Store, id, agentID string) {
	t.Helper()
	ok(t, s.Start(t.Context(), session.State{SessionID: id, AgentID: agentID}, session.Event{ID: "a", Method: "app.step"}))
}

// ofSessions are the keys that sessions have left, but for the notes that the manager
// takes sessions for ended.
func ofSessions(t testing.TB, m *manager.Manager) (all []string) {
	t.Helper()
	for _, category := range []string{"session.state", "session.events", "session.history"} {
		for item, err := range m.List(t.Context(), category, manager.KeysOnly()) {
			ok(t, err)
			if !strings.HasPrefix(item.Key, "%over/") {
				all = append(all, item.Key)
			}
		}
	}
	return all
}

func TestSessionsOfAnAgentGoWithIt(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx, s := t.Context(), session.New(h.m)
		isErr(t, s.Start(ctx, session.State{SessionID: "early", AgentID: "a/1"}), tiers.ErrNotFound)
		ok(t, h.Save(ctx, agent.NewState("a/1", "", "")))
		ok(t, h.Save(ctx, agent.NewState("b", "", "")))
		logged(t, s, "s/1", "a/1")
		logged(t, s, "s/2", "a/1")
		logged(t, s, "other", "b")
		logged(t, s, "free", "")
		ok(t, s.Fork(ctx, "s/1", 1, "fork"))
		ok(t, s.Fork(ctx, "other", 1, "of b"))
		if got := must(s.OwnedBy(ctx, "a/1"))(t); !slices.Equal(got, []string{"fork", "s/1", "s/2"}) {
			t.Errorf("it has %q", got)
		}
		if st := must(s.Load(ctx, "s/1"))(t); st.AgentID != "a/1" {
			t.Errorf("the session is of %q", st.AgentID)
		}
		must(s.Delete(ctx, "s/2"))(t) // a session alone
		if got := must(s.OwnedBy(ctx, "a/1"))(t); !slices.Equal(got, []string{"fork", "s/1"}) {
			t.Errorf("after a deletion it has %q", got)
		}

		if !must(h.Delete(ctx, "a/1"))(t) {
			t.Error("it was not there")
		}
		for _, id := range []string{"s/1", "fork"} {
			_, err := s.Append(ctx, id, session.Event{ID: "late", Method: "app.step"})
			isErr(t, err, tiers.ErrNotFound)
			_, err = s.Info(ctx, id)
			isErr(t, err, tiers.ErrNotFound)
		}
		isErr(t, s.Start(ctx, session.State{SessionID: "late", AgentID: "a/1"}), tiers.ErrNotFound)
		for _, key := range ofSessions(t, h.m) {
			if strings.Contains(key, "s%2F") || strings.HasPrefix(key, "fork") || strings.Contains(key, "a%2F1") {
				t.Errorf("it left %s", key)
			}
		}
		if got := must(s.Last(ctx, "free", 9))(t); len(got) != 1 {
			t.Errorf("a session of nobody has %v", got)
		}
		if got := must(s.OwnedBy(ctx, "b"))(t); !slices.Equal(got, []string{"of b", "other"}) {
			t.Errorf("another agent has %q", got)
		}

		ok(t, h.Save(ctx, agent.NewState("a/1", "", "")))
		if got := must(s.OwnedBy(ctx, "a/1"))(t); len(got) > 0 {
			t.Errorf("created again it has %q", got)
		}
		logged(t, s, "s/1", "a/1")
		if got := must(s.Last(ctx, "s/1", 9))(t); len(got) != 1 || got[0].Seq != 1 {
			t.Errorf("the new session has %v", got)
		}
	})
}

func TestImportedSessionsWaitForTheirAgent(t *testing.T) {
	t.Parallel()
	h := open(t, routings()[1])
	ctx, s := t.Context(), session.New(h.m)
	must(s.ImportState(ctx, session.State{SessionID: "s", AgentID: "a"}))(t)
	ok(t, h.Save(ctx, agent.NewState("a", "", "")))
	if got := must(s.OwnedBy(ctx, "a"))(t); !slices.Equal(got, []string{"s"}) {
		t.Errorf("it has %q", got)
	}
	must(h.Delete(ctx, "a"))(t)
	must(s.ImportState(ctx, session.State{SessionID: "s", AgentID: "a"}))(t)
	if !must(h.Delete(ctx, "a"))(t) {
		t.Error("of an agent that is not there a session is left")
	}
	if left := ofSessions(t, h.m); len(left) > 0 {
		t.Errorf("there is %q", left)
	}
}

// TestNoSessionOutlivesItsAgent deletes an agent while others begin, append to, fork and
// delete sessions of it.
func TestNoSessionOutlivesItsAgent(t *testing.T) {
	t.Parallel()
	for _, r := range routings()[:4] {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			h := open(t, r)
			ctx, s := t.Context(), session.New(h.m)
			for range 8 {
				ok(t, h.Save(ctx, agent.NewState("a", "", "")))
				logged(t, s, "old", "a")
				var wg sync.WaitGroup
				may := func(err error) {
					if err != nil && !errors.Is(err, tiers.ErrNotFound) && !errors.Is(err, tiers.ErrExists) {
						t.Error(err)
					}
				}
				wg.Go(func() { must(h.Delete(ctx, "a"))(t) })
				for _, id := range []string{"x", "y"} {
					wg.Go(func() {
						may(s.Start(ctx, session.State{SessionID: id, AgentID: "a"}, session.Event{Method: "app.step"}))
					})
					wg.Go(func() { may(s.Fork(ctx, "old", 1, id)) })
					wg.Go(func() { _, err := s.Append(ctx, id, session.Event{Method: "app.step"}); may(err) })
				}
				wg.Go(func() { _, err := s.Delete(ctx, "old"); may(err) })
				wg.Wait()
				if _, err := s.Info(ctx, "x"); !errors.Is(err, tiers.ErrNotFound) {
					t.Errorf("a session is there: %v", err)
				}
				ok(t, h.Tend(ctx)) // what a deletion could not give back at once
				if left := ofSessions(t, h.m); len(left) > 0 {
					t.Fatalf("there is %q", left)
				}
			}
		})
	}
}
