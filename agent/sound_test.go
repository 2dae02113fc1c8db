package agent_test

import (
	"strings"
	"testing"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/tiers"
)

// travelled is a checkpoint of agent "a" that came from elsewhere.
func travelled(t testing.TB, id string) *agent.Checkpoint {
	t.Helper()
	s := inMemory(t)
	talk(t, s, "a", "one", "two")
	talk(t, s, "a", "three")
	made := must(s.Checkpoint(t.Context(), agent.CheckpointInfo{AgentID: "a", ID: id}))(t)
	return must(agent.DecodeCheckpoint(must(must(s.LoadCheckpoint(t.Context(), "a", made.ID))(t).Bytes())(t)))(t)
}

func TestCheckpointThatCouldNotBeRestoredIsNotImported(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		talk(t, h.Store, "a", "present")
		was := present(t, h.Store, "a")
		sound := must(travelled(t, "bad").Bytes())(t)
		for _, c := range []struct {
			why   string
			spoil func(c *agent.Checkpoint)
			want  error
			says  string
		}{
			{"its state is that of another agent", func(c *agent.Checkpoint) { c.State.ID = "evil" }, tiers.ErrCorrupt, `its state is that of agent "evil"`},
			{"a conversation is another agent's", func(c *agent.Checkpoint) { c.Conversations[1].AgentID = "evil" }, tiers.ErrCorrupt, `is one of agent "evil"`},
			{"it shows nothing", func(c *agent.Checkpoint) { c.State, c.Conversations = nil, nil }, tiers.ErrCorrupt, "neither an agent's state nor"},
			{"it shows conversations and no state", func(c *agent.Checkpoint) { c.State = nil }, tiers.ErrCorrupt, "neither an agent's state nor"},
			{"it does not show what it covers", func(c *agent.Checkpoint) { c.State, c.Conversations, c.Conversation = nil, nil, "x" }, tiers.ErrCorrupt, "does not show it"},
			{"it shows more than it covers", func(c *agent.Checkpoint) { c.State, c.Conversation = nil, c.Conversations[0].ID }, tiers.ErrCorrupt, "and shows conversation"},
			{"a conversation is there twice", func(c *agent.Checkpoint) { c.Conversations = append(c.Conversations, c.Conversations[0]) }, tiers.ErrCorrupt, "twice"},
			{"a conversation is none", func(c *agent.Checkpoint) { c.Conversations[0] = nil }, tiers.ErrCorrupt, "conversation 1"},
			{"a message is there twice", func(c *agent.Checkpoint) {
				for _, conv := range c.Conversations {
					conv.Messages = append(conv.Messages, conv.Messages[0])
				}
			}, tiers.ErrCorrupt, "twice"},
			{"a message has no id", func(c *agent.Checkpoint) { c.Conversations[0].Messages[0].ID = "" }, tiers.ErrKey, "message"},
			{"a sequence has no place", func(c *agent.Checkpoint) { c.Conversations[0].Messages[0].Seq = 1 << 63 }, tiers.ErrCorrupt, "sequence"},
			{"its iteration is below 0", func(c *agent.Checkpoint) { c.Iteration = -1 }, tiers.ErrType, "iteration -1"},
			{"its id is that of the newest", func(c *agent.Checkpoint) { c.ID = "latest" }, tiers.ErrKey, "newest"},
			{"it has no agent", func(c *agent.Checkpoint) { c.AgentID = "" }, tiers.ErrKey, "agent"},
		} {
			for _, recreate := range []bool{false, true} {
				bad := must(agent.DecodeCheckpoint(sound))(t)
				c.spoil(bad)
				_, err := h.ImportCheckpoint(ctx, bad, recreate)
				if isErr(t, err, c.want); !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: the error %v does not say %s", c.why, err, c.says)
				}
			}
		}
		_, err := h.ImportCheckpoint(ctx, nil, true)
		isErr(t, err, tiers.ErrType)
		if d := diff(was, present(t, h.reopen().Store, "a")); d != "" || len(collected(t, h.Checkpoints(ctx, "a", agent.After{}))) > 0 {
			t.Errorf("a refused import changed something: %s", d)
		}
	})
}

func TestImportedCheckpointIsRestoredWhateverItLeavesOut(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		talk(t, h.Store, "a", "present")
		c := travelled(t, "bare")
		c.State.ID = ""
		for _, conv := range c.Conversations {
			conv.AgentID = ""
			for i := range conv.Messages {
				conv.Messages[i].Seq = uint64(3 * (1 - i)) // 3, 0: an order that they are not in
			}
		}
		made := must(h.ImportCheckpoint(ctx, c, false))(t)
		if again := must(h.ImportCheckpoint(ctx, c, false))(t); again.Number != made.Number {
			t.Errorf("the same again is %+v", again)
		}
		if c.State.ID != "" || c.Conversations[0].AgentID != "" || c.Conversations[0].Messages[0].Seq != 3 {
			t.Errorf("the import changed what it was given to %+v", c)
		}
		must(h.reopen().Restore(ctx, "a", made.ID, agent.RestoreOptions{}))(t)
		now := present(t, h.Store, "a")
		if now.State.ID != "a" || len(now.Conversations) != 2 {
			t.Errorf("restored is %+v", now)
		}
		for _, conv := range c.Conversations {
			got := contents(t, h.Store, conv.ID, agent.Page{})
			if len(got) != len(conv.Messages) || got[len(got)-1] != conv.Messages[len(got)-1].Content {
				t.Errorf("restored are %v", got)
			}
		}
	})
}

// A checkpoint whose sum is right can still show another agent, when the records were
// changed and counted again.
func TestCheckpointThatShowsAnotherAgentIsNotRestored(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		talk(t, h.Store, "a", "one")
		sound := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		for _, where := range []struct{ category, from, to string }{
			{"agent.state", `"id":"a"`, `"id":"evil"`},
			{"agent.conversations", `"agent_id":"a"`, `"agent_id":"evil"`},
		} {
			damaged(t, h.m, where.category, "head/", where.from, where.to)
			ok(t, h.Recount(ctx, "a"))
			made := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
			_, err := h.Restore(ctx, "a", made.ID, agent.RestoreOptions{})
			if isErr(t, err, tiers.ErrCorrupt); !strings.Contains(err.Error(), "evil") {
				t.Errorf("the error is %v", err)
			}
			damaged(t, h.m, where.category, "head/", where.to, where.from)
			ok(t, h.Recount(ctx, "a"))
			must(h.Restore(ctx, "a", sound.ID, agent.RestoreOptions{NoRecovery: true}))(t)
			if got := must(h.Load(ctx, "a"))(t).ID; got != "a" {
				t.Errorf("the agent is %q", got)
			}
		}
	})
}
