package session_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

func TestIDsThatAreTooLongTogetherAreRefusedAsThose(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	owner, id := strings.Repeat("a", 200), strings.Repeat("s", 900)
	must(t, agent.New(m).Save(ctx, &agent.State{ID: owner}))
	s := session.New(m)
	_, imported := s.ImportState(ctx, session.State{SessionID: id, AgentID: owner})
	for op, err := range map[string]error{"start": s.Start(ctx, session.State{SessionID: id, AgentID: owner}), "import": imported} {
		wantIs(t, err, tiers.ErrKey, op)
		if err == nil || !strings.HasPrefix(err.Error(), op+" session") || !strings.Contains(err.Error(), "the agent that it belongs to") {
			t.Errorf("%s answers %v", op, err)
		}
	}
}

// Its agent is found although the session's own record, which names it, can't be read.
func TestDamagedSessionIsDeletedWholeByItselfAndWithItsAgent(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	agents, s := agent.New(m), session.New(m)
	must(t, agents.Save(ctx, &agent.State{ID: "a/1"}))
	for _, id := range []string{"s", "s/1"} {
		must(t, s.Start(ctx, session.State{SessionID: id, AgentID: "a/1"}))
		must(t, m.Save(ctx, "session.state", manager.Key(id), "damage"))
	}
	if !value[bool](t)(s.Delete(ctx, "s/1")) {
		t.Error("it was not there")
	}
	if ids := value[[]string](t)(s.OwnedBy(ctx, "a/1")); !slices.Equal(ids, []string{"s"}) {
		t.Errorf("the agent has %q", ids)
	}
	value[bool](t)(agents.Delete(ctx, "a/1"))
	if left := remains(t, m); len(left) > 0 {
		t.Errorf("there is %q", left)
	}
}
