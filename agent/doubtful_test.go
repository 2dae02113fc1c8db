package agent_test

import (
	"strings"
	"testing"

	"github.com/sagestore/sagestore/agent"
)

// TestWhatWasFoundDamagedIsNoPlaceToGoBackToByItself alters a record that can be read all
// the same. A restore keeps it in its recovery checkpoint, whose sum fits since it was
// made over what was found: it says so, and OrOlder passes over it.
func TestWhatWasFoundDamagedIsNoPlaceToGoBackToByItself(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a", "one", "two")
		other := talk(t, h.Store, "a", "elsewhere")
		first := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		undone := must(h.Restore(ctx, "a", first.ID, agent.RestoreOptions{}))(t)
		if undone.Doubtful || undone.Description != "" {
			t.Errorf("of a sound agent the recovery checkpoint is %+v", undone)
		}
		m := c.Messages[1]
		m.Content = "edited"
		ok(t, h.EditMessage(ctx, c.ID, m))
		second := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		damaged(t, h.m, "agent.conversations", "msg/", "edited", "altered")

		before := must(h.Restore(ctx, "a", first.ID, agent.RestoreOptions{}))(t)
		if !before.Doubtful || !strings.Contains(before.Description, "conversation "+c.ID) || strings.Contains(before.Description, other.ID) {
			t.Errorf("the recovery checkpoint is %+v", before)
		}
		if got := contents(t, h.Store, c.ID, agent.Page{}); got[1] != "two" {
			t.Errorf("restored is %v", got)
		}
		shown := must(h.LoadCheckpoint(ctx, "a", before.ID))(t)
		if !strings.Contains(string(must(shown.Bytes())(t)), "altered") || !shown.Doubtful {
			t.Errorf("what was found is not kept: %+v", shown)
		}

		must(h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "three")))(t)
		third := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		damaged(t, h.m, "agent.conversations", "msg/", "three", "3")
		must(h.Restore(ctx, "a", third.ID, agent.RestoreOptions{OrOlder: true}))(t)
		if got := contents(t, h.Store, c.ID, agent.Page{}); len(got) != 2 || got[1] != "two" {
			t.Errorf("the next older sound one gave %v", got)
		}
		for _, id := range []string{second.ID, third.ID} {
			if _, err := h.LoadCheckpoint(ctx, "a", id); err == nil {
				t.Errorf("checkpoint %s, which shows what was damaged, passes its check", id)
			}
		}
		must(h.Restore(ctx, "a", before.ID, agent.RestoreOptions{}))(t) // whoever asks for it gets it
		if got := contents(t, h.Store, c.ID, agent.Page{}); got[1] != "altered" {
			t.Errorf("restored by its id is %v", got)
		}
	})
}

// TestARepairSaysWhatItTakesForRight removes one message, and alters one of another
// conversation.
func TestARepairSaysWhatItTakesForRight(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a", "one", "two")
		other := talk(t, h.Store, "a", "elsewhere")
		third := talk(t, h.Store, "a", "untouched")
		made := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		garbled(t, h.m, "agent.conversations", "msg/", "two")
		damaged(t, h.m, "agent.conversations", "msg/", "elsewhere", "somewhere")
		kept := must(h.Repair(ctx, "a"))(t)
		gone, found, both := strings.Cut(kept.Description, ". ")
		if !both || !strings.Contains(gone, c.ID) || !strings.Contains(found, other.ID) || strings.Contains(kept.Description, third.ID) {
			t.Errorf("it says %q", kept.Description)
		}
		if _, err := h.LoadCheckpoint(ctx, "a", made.ID); err == nil {
			t.Error("a checkpoint that shows what was damaged passes its check after the repair")
		}
		shownBy(t, h.Store, kept.ID)
	})
}
