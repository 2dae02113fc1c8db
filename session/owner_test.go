package session_test

import (
	"strings"
	"testing"

	"github.com/sagestore/sagestore/agent"
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
