package agent_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/embedded"
)

// TestCheckpointBeforeAnOperationIsThereWhenItFails lets a deletion of messages fail at
// each of its calls to the store.
func TestCheckpointBeforeAnOperationIsThereWhenItFails(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var left atomic.Int64 // calls until they fail; below 0: for ever
	left.Store(-1)
	broken := errors.New("broken")
	drivers := sagetest.Failing(embedded.Tiers(), func(_ string, k tiers.Key) error {
		if !strings.HasPrefix(k.Category, "agent.") || left.Load() < 0 || left.Add(-1) > 0 {
			return nil
		}
		left.Store(1) // all that follow as well
		return broken
	})
	s := agent.New(sagetest.OpenWith(t, routings()[0].config(t, t.TempDir()), drivers))
	made := 0
	for calls, through := int64(1), false; !through; calls++ {
		c := talk(t, s, "a", "one", "two")
		left.Store(calls)
		_, err := s.DeleteMessages(ctx, c.ID, c.Messages[0].ID, c.Messages[1].ID)
		through = left.Swap(-1) > 1
		all := collected(t, s.Checkpoints(ctx, "a", agent.After{}))
		if len(all) > 0 && all[0].Kind != agent.PreOperation || len(all) > 1 || through && err != nil {
			t.Fatalf("failed at call %d, %v, it leaves %+v", calls, err, all)
		}
		if got := contents(t, s, c.ID, agent.Page{}); err != nil && len(got) != 2 || err == nil && len(got) != 0 {
			t.Errorf("failed at call %d, %v, it leaves the messages %v", calls, err, got)
		}
		if len(all) > 0 {
			if err != nil {
				made++
			}
			m := agent.NewMessage(agent.User, "what the operation did before it failed")
			must(s.AppendMessage(ctx, c.ID, m))(t)
			must(s.Restore(ctx, "a", all[0].ID, agent.RestoreOptions{}))(t)
			if got := contents(t, s, c.ID, agent.Page{}); strings.Join(got, ", ") != "one, two" {
				t.Errorf("failed at call %d, restored is %v", calls, got)
			}
		} else if err == nil {
			t.Error("there is no checkpoint from before it")
		}
		must(s.Delete(ctx, "a"))(t)
	}
	if made == 0 {
		t.Error("it never failed after its checkpoint")
	}
}

func TestKindsOfCheckpointsAreOnlyWhatTheySay(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		talk(t, h.Store, "a", "one")
		for _, k := range agent.Kinds() {
			made := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", Kind: k}))(t)
			if got := must(h.LoadCheckpoint(ctx, "", made.ID))(t); made.Kind != k || got.Kind != k {
				t.Errorf("%s is made as %s and loaded as %s", k, made.Kind, got.Kind)
			}
		}
		_, err := h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", Kind: "weekly"})
		isErr(t, err, tiers.ErrType)
		for _, want := range []string{`"weekly"`, "automatic, manual, pre_operation, recovery"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error %v does not say %s", err, want)
			}
		}
		if all := collected(t, h.Checkpoints(ctx, "a", agent.After{})); len(all) != len(agent.Kinds()) {
			t.Errorf("%d are there", len(all))
		}
	})
}
