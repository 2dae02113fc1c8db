package agent_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

func TestWhatBelongsToNoAgentIsFoundRepairedAndDeleted(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		state := manager.For[json.RawMessage](h.m, "agent.state")
		lose := func(prefix string) {
			t.Helper()
			for entry, err := range state.List(ctx, manager.Prefix(prefix)) {
				ok(t, err)
				must(state.Delete(ctx, entry.Key))(t)
			}
		}
		for _, lost := range [][]string{{"id/"}, {"id/", "now/"}, {"id/", "head/"}, {"id/", "now/", "head/"}} {
			c := talk(t, h.Store, "a", "one", "two")
			must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
			for _, prefix := range lost {
				lose(prefix)
			}
			for _, of := range []string{"", "a"} {
				if found := must(h.Verify(ctx, of))(t); len(found) != 1 || found[0].AgentID != "a" || found[0].Orphan ||
					found[0].What != "its index is missing, so that nothing reaches its 1 conversations with 2 messages, and 1 checkpoints" {
					t.Errorf("without %v, of %q is found %v", lost, of, found)
				}
			}
			must(h.Repair(ctx, "a"))(t)
			if left := must(h.Verify(ctx, ""))(t); len(left) != 0 && len(lost) == 1 {
				t.Errorf("without %v, after the repair there is left %v", lost, left)
			}
			if all := collected(t, h.List(ctx, agent.After{})); len(all) != 1 || all[0].ID != "a" || len(all[0].Active) != 1 {
				t.Errorf("without %v, repaired is %v", lost, all)
			}
			must(h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "three")))(t)
			must(h.CheckpointVerified(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
			lose("id/")
			if there := must(h.Delete(ctx, "a"))(t); !there {
				t.Errorf("without %v, there was nothing to delete", lost)
			}
			if left := ids(t, h.m, "a", c.ID); len(left) > 0 {
				t.Errorf("without %v, left: %v", lost, left)
			}
		}

		// Nobody can tell whose they are once another agent has the id.
		talk(t, h.Store, "a", "one")
		lose("id/")
		lose("now/")
		lose("head/")
		again := agent.State{ID: "a", Name: "A", Type: "assistant"}
		ok(t, h.Save(ctx, &again))
		found := must(h.Verify(ctx, ""))(t)
		if len(found) != 1 || !found[0].Orphan {
			t.Fatalf("found is %v", found)
		}
		_, err := h.Repair(ctx, found[0].AgentID)
		isErr(t, err, tiers.ErrNotFound)
		must(h.Delete(ctx, found[0].AgentID))(t)
		if left := must(h.Verify(ctx, ""))(t); len(left) != 0 {
			t.Errorf("left is %v", left)
		}
		must(h.Load(ctx, "a"))(t)

		// Of this one nothing is left but messages.
		talk(t, h.Store, "b", "one")
		var ref struct{ Inner string }
		ok(t, json.Unmarshal(must(state.Load(ctx, "id/b"))(t), &ref))
		for _, category := range []string{"agent.state", "agent.conversations"} {
			c := manager.For[json.RawMessage](h.m, category)
			for entry, err := range c.List(ctx) {
				ok(t, err)
				if strings.Contains(entry.Key+string(entry.Value), ref.Inner) && !strings.HasPrefix(entry.Key, "msg/") {
					must(c.Delete(ctx, entry.Key))(t)
				}
			}
		}
		found = must(h.Verify(ctx, ""))(t)
		if len(found) != 1 || !found[0].Orphan {
			t.Fatalf("of messages alone is found %v", found)
		}
		must(h.Delete(ctx, found[0].AgentID))(t)
		if left := must(h.Verify(ctx, ""))(t); len(left) != 0 {
			t.Errorf("of messages alone is left %v", left)
		}
	})
}
