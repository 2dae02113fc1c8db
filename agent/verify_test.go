package agent_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/tiers"
)

// harm is one way to damage what is stored of an agent.
type harm struct {
	why, category, prefix, of string
	to                        string // what of becomes; empty: the record is gone, or garbled
	garbled                   bool
	says                      string // with CONVERSATION and MESSAGE for their ids
	lost                      int    // messages that a repair can't bring back
	unseen                    bool   // a checkpoint shows nothing of it, and is sound
}

func harms() []harm {
	const state, talks = "agent.state", "agent.conversations"
	return []harm{
		{why: "a message was changed", category: talks, prefix: "msg/", of: "two", to: "twp", says: `conversation "CONVERSATION": what is stored was changed`},
		{why: "a message can't be read", category: talks, prefix: "msg/", of: "two", garbled: true, says: `conversation "CONVERSATION", message "MESSAGE": it can't be read`, lost: 1},
		{why: "a message is another record", category: talks, prefix: "msg/", of: "two", garbled: true, to: `{"broken":1}`, says: `conversation "CONVERSATION", message "MESSAGE": it can't be read`, lost: 1},
		{why: "a message has no role", category: talks, prefix: "msg/", of: "two", garbled: true, to: `{"since":1,"id":"m","content":"two","at":"2026-01-02T03:04:05Z"}`, says: `it has no role`, lost: 1},
		{why: "a message has the id of no place", category: talks, prefix: "msg/", of: "two", garbled: true, to: `{"since":1,"id":"other","role":"user","content":"two","at":"2026-01-02T03:04:05Z"}`, says: `message "MESSAGE": it can't be read: corrupt: its id is "other"`, lost: 1},
		{why: "a message is missing", category: talks, prefix: "msg/", of: "two", says: `conversation "CONVERSATION": 1 messages are there, and 2 were counted`, lost: 1},
		{why: "the state was changed", category: state, prefix: "own/", of: "41", to: "42", says: `agent "a": what is stored was changed`},
		{why: "a custom entry can't be read", category: state, prefix: "own/", of: "41", garbled: true, says: `the custom entry "counter" can't be read`},
		{why: "the agent can't be read", category: state, prefix: "head/", of: "", garbled: true, says: `agent "a": it can't be read`},
		{why: "a head can't be read", category: talks, prefix: "head/", of: "", garbled: true, says: `conversation "CONVERSATION": its head can't be read`},
		{why: "a head is missing", category: talks, prefix: "head/", of: "inner", says: "its head is missing"},
		{why: "a conversation's index is damaged", category: talks, prefix: "id/", of: "", garbled: true, says: `conversation "CONVERSATION": its index`, unseen: true},
		{why: "a message's index is missing", category: talks, prefix: "mid/", of: `"seq":2`, says: `message "MESSAGE": its index`, unseen: true},
		{why: "a conversation's counts are damaged", category: talks, prefix: "sum/", of: "", garbled: true, says: `conversation "CONVERSATION": 2 messages are there, and 0 were counted`, unseen: true},
		{why: "it is missing among the active ones", category: talks, prefix: "live/", of: "created", says: `conversation "CONVERSATION": it is missing among`, unseen: true},
		{why: "the ledger is damaged", category: state, prefix: "now/", of: "", garbled: true, says: "now/"},
		{why: "the agent's index is damaged", category: state, prefix: "id/", of: "", garbled: true, says: "now/"},
	}
}

// on tells whether a routing tries a harm: memory all of them, the others some each,
// which are all together.
func (h harm) on(t *testing.T, i int) bool {
	t.Helper()
	for at, r := range routings() {
		if strings.HasSuffix(t.Name(), "/"+r.name) {
			return at == 0 || i%(len(routings())-1) == at-1 || i == 1
		}
	}
	return true
}

func TestDamagedAgentIsFoundGetsNoCheckpointAndIsRepaired(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		for i, harm := range harms() {
			if !harm.on(t, i) {
				continue
			}
			c := talk(t, h.Store, "a", "one", "two")
			a := must(h.Load(ctx, "a"))(t)
			a.Set("counter", 41)
			ok(t, h.Save(ctx, a))
			made := must(h.CheckpointVerified(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
			if all := must(h.Verify(ctx, "a"))(t); len(all) != 0 {
				t.Fatalf("%s: before, %v", harm.why, all)
			}
			if harm.garbled && harm.to != "" {
				replaced(t, h.m, harm.category, harm.prefix, harm.of, harm.to)
			} else if harm.garbled {
				garbled(t, h.m, harm.category, harm.prefix, harm.of)
			} else {
				damaged(t, h.m, harm.category, harm.prefix, harm.of, harm.to)
			}
			says := strings.NewReplacer("CONVERSATION", c.ID, "MESSAGE", c.Messages[1].ID).Replace(harm.says)

			again, err := h.CheckpointVerified(ctx, agent.CheckpointInfo{AgentID: "a"})
			if harm.unseen {
				shownBy(t, h.Store, again.ID)
			} else if !errors.Is(err, tiers.ErrCorrupt) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "its checkpoints are") {
				t.Errorf("%s: the checkpoint is refused with %v, without %s", harm.why, err, says)
			}
			found := must(h.Verify(ctx, "a"))(t)
			if !slices.ContainsFunc(found, func(d agent.Damage) bool { return strings.Contains(d.String(), says) }) {
				t.Errorf("%s: found is %v, without %s", harm.why, found, says)
			}
			if i == 1 {
				if all := must(h.Verify(ctx, ""))(t); !slices.Equal(all, found) {
					t.Errorf("%s: of all agents %v is found", harm.why, all)
				}
			}

			must(h.Repair(ctx, "a"))(t)
			left := must(h.Verify(ctx, "a"))(t)
			if slices.ContainsFunc(left, func(d agent.Damage) bool { return d.Checkpoint != made.ID }) {
				t.Errorf("%s: after the repair there is left %v", harm.why, left)
			}
			must(h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "three")))(t)
			if got := contents(t, h.Store, c.ID, agent.Page{}); len(got) != 3-harm.lost || got[0] != "one" || got[len(got)-1] != "three" {
				t.Errorf("%s: repaired is %v", harm.why, got)
			}
			after := must(h.CheckpointVerified(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
			if after.Number <= made.Number || after.Messages != 3-harm.lost {
				t.Errorf("%s: the checkpoint after the repair is %+v, the one before %+v", harm.why, after, made)
			}
			must(h.Restore(ctx, "a", after.ID, agent.RestoreOptions{NoRecovery: true}))(t)
			must(h.Delete(ctx, "a"))(t)
			ok(t, h.Tend(ctx))
		}
		_, err := h.Verify(ctx, "a")
		isErr(t, err, tiers.ErrNotFound)
		_, err = h.Repair(ctx, "a")
		isErr(t, err, tiers.ErrNotFound)
	})
}

func TestWhatARepairRemovesIsInItsCheckpoint(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a", "one", "two")
		if kept := must(h.Repair(ctx, "a"))(t); kept.ID != "" || kept.AgentID != "a" {
			t.Errorf("of a sound agent it keeps %+v", kept)
		}
		garbled(t, h.m, "agent.conversations", "msg/", "two")
		_, err := h.CheckpointVerified(ctx, agent.CheckpointInfo{AgentID: "a"})
		isErr(t, err, tiers.ErrCorrupt)
		if n := len(collected(t, h.Checkpoints(ctx, "a", agent.After{}))); n != 0 {
			t.Errorf("%d checkpoints are there after one was refused", n)
		}
		kept := must(h.Repair(ctx, "a"))(t)
		if kept.Kind != agent.Recovery || len(kept.Metadata) != 1 || !strings.Contains(kept.Description, "of conversation "+c.ID) {
			t.Errorf("kept is %+v", kept)
		}
		for _, raw := range kept.Metadata {
			if raw != `{"since":"garbled"}` {
				t.Errorf("of what was stored it has %q", raw)
			}
		}
		shownBy(t, h.Store, kept.ID)
	})
}

func TestCheckpointOfOneConversationHeedsThatAlone(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		talk(t, h.Store, "a", "damaged")
		sound := talk(t, h.Store, "a", "sound")
		damaged(t, h.m, "agent.conversations", "msg/", "damaged", "changed")
		must(h.CheckpointVerified(ctx, agent.CheckpointInfo{AgentID: "a", Conversation: sound.ID}))(t)
		_, err := h.CheckpointVerified(ctx, agent.CheckpointInfo{AgentID: "a"})
		isErr(t, err, tiers.ErrCorrupt)
		if strings.Contains(err.Error(), sound.ID) {
			t.Errorf("it names the sound conversation: %v", err)
		}
	})
}
