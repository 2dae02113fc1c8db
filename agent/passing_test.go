package agent_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/embedded"
)

// TestDamageThatPassesIsNone lets a record look damaged twice, as one that another
// process is just about to remove may, and then for ever.
func TestDamageThatPassesIsNone(t *testing.T) {
	var left atomic.Int64
	drivers := sagetest.Failing(embedded.Tiers(), func(_ string, k tiers.Key) error {
		if strings.HasPrefix(k.Name, "now/") && left.Add(-1) >= 0 {
			return fmt.Errorf("%w: for now", tiers.ErrCorrupt)
		}
		return nil
	})
	s := agent.New(sagetest.OpenWith(t, routings()[0].config(t, t.TempDir()), drivers))
	ctx := t.Context()
	c := talk(t, s, "a", "one")
	made := must(s.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
	calls := map[string]func() error{
		"a change": func() error {
			_, err := s.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "two"))
			return err
		},
		"a checkpoint":   func() error { _, err := s.LoadCheckpoint(ctx, "", made.ID); return err },
		"a conversation": func() error { _, err := s.LoadConversation(ctx, c.ID, agent.Page{}); return err },
		"a restore":      func() error { _, err := s.Restore(ctx, "", made.ID, agent.RestoreOptions{}); return err },
	}
	left.Store(1)
	if found := must(s.Verify(ctx, "a"))(t); len(found) > 0 {
		t.Errorf("a look at all of it finds %v", found)
	}
	left.Store(1 << 40)
	if found := must(s.Verify(ctx, "a"))(t); len(found) == 0 {
		t.Error("a look at all of it does not find what stays damaged")
	}
	left.Store(0)
	for why, call := range calls {
		left.Store(2)
		if err := call(); err != nil {
			t.Errorf("%s: %v", why, err)
		}
		left.Store(1 << 40)
		isErr(t, call(), tiers.ErrCorrupt)
		left.Store(0)
	}
}
