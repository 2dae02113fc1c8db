package agent_test

import (
	"testing"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/tiers"
)

func TestRestoreMendsWhatWasDamaged(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a", "one", "two")
		made := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		was := present(t, h.Store, "a")
		m := was.Conversations[0].Messages[0]
		m.Content = "edited"
		ok(t, h.EditMessage(ctx, c.ID, m))
		damaged(t, h.m, "agent.conversations", "msg/", "edited", "damaged")
		now := present(t, h.Store, "a")
		before := must(h.Restore(ctx, "a", made.ID, agent.RestoreOptions{}))(t)
		if d := diff(was, present(t, h.Store, "a")); d != "" {
			t.Error(d)
		}
		after := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		must(h.LoadCheckpoint(ctx, "a", after.ID))(t)
		must(h.Restore(ctx, "a", before.ID, agent.RestoreOptions{}))(t)
		if d := diff(now, present(t, h.Store, "a")); d != "" {
			t.Errorf("undone: %s", d)
		}
	})
}

func TestRecountTakesHandEditsForRight(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		talk(t, h.Store, "a", "one", "two")
		talk(t, h.Store, "a", "other")
		old := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		damaged(t, h.m, "agent.conversations", "msg/", "two", "three by hand")
		before := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		for _, id := range []string{old.ID, before.ID} {
			_, err := h.LoadCheckpoint(ctx, "a", id)
			isErr(t, err, tiers.ErrCorrupt)
		}
		ok(t, h.Recount(ctx, "a"))
		after := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		must(h.LoadCheckpoint(ctx, "a", after.ID))(t)
		isErr(t, h.Recount(ctx, "nobody"), tiers.ErrNotFound)
	})
}
