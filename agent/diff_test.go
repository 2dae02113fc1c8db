package agent_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/tiers"
)

// lines are the differences as people see them, with short names for ids.
func lines(all agent.Differences, names ...string) []string {
	text := strings.NewReplacer(names...).Replace(all.String())
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

func TestDiffTellsWhatHasChangedBetweenCheckpoints(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c, gone := talk(t, h.Store, "a", "one", "two"), talk(t, h.Store, "a", "x")
		a := must(h.Load(ctx, "a"))(t)
		a.Set("counter", 41)
		a.Set("stays", []any{1, "two"})
		ok(t, h.Save(ctx, a))
		first := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		if all := must(h.Diff(ctx, "a", first.ID, ""))(t); len(all) != 0 {
			t.Errorf("nothing has changed, and it says %v", all)
		}
		a.Set("counter", 42)
		a.Metadata = map[string]string{"k": "v"}
		ok(t, h.Save(ctx, a))
		was := must(h.LoadConversation(ctx, c.ID, agent.Page{}))(t).Messages
		edited := was[0]
		edited.Content = "edited\nin two lines"
		ok(t, h.EditMessage(ctx, c.ID, edited))
		must(h.DeleteMessage(ctx, c.ID, was[1].ID))(t)
		asks := agent.NewMessage(agent.Assistant, "look")
		asks.ToolCalls = []agent.ToolCall{{ID: "call", Name: "find", Arguments: json.RawMessage(`{"q":1}`)}}
		must(h.AppendMessage(ctx, c.ID, asks))(t)
		must(h.DeleteConversation(ctx, gone.ID))(t)
		begun := talk(t, h.Store, "a", "y")
		names := []string{
			c.ID, "C", gone.ID, "GONE", begun.ID, "BEGUN", was[0].ID, "M1", was[1].ID, "M2", asks.ID, "M3",
		}
		want := []string{
			"~ custom counter: 41 -> 42",
			`+ metadata k: "v"`,
			`- conversation GONE: ""`,
			`+ conversation BEGUN: ""`,
			"- conversation C message M2: user: two",
			`+ conversation C message M3: assistant: look [find {"q":1}: pending]`,
			"~ conversation C message M1: user: one -> user: edited in two lines",
		}
		if d := cmp.Diff(want, lines(must(h.Diff(ctx, "a", first.ID, ""))(t), names...)); d != "" {
			t.Errorf("to the present: %s", d)
		}
		second := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		must(h.AppendMessage(ctx, c.ID, agent.ToolResult("call", "found")))(t)
		if d := cmp.Diff(want, lines(must(h.Diff(ctx, "a", first.ID, "latest"))(t), names...)); d != "" {
			t.Errorf("to the second: %s", d)
		}
		back := must(h.Diff(ctx, "a", second.ID, first.ID))(t)
		if len(back) != len(want) || back[0].Change != agent.Changed || back[0].Before != any(int64(42)) || back[0].After != any(int64(41)) {
			t.Errorf("the other way it is %v", back)
		}
	})
}

func TestDiffComparesWhatBothCheckpointsCover(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		s := h.Store
		ctx := t.Context()
		c, other := talk(t, s, "a", "one"), talk(t, s, "a", "x")
		one := must(s.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", Conversation: c.ID}))(t)
		m := agent.NewMessage(agent.User, strings.Repeat("long ", 200))
		must(s.AppendMessage(ctx, c.ID, m))(t)
		must(s.AppendMessage(ctx, other.ID, agent.NewMessage(agent.User, "not looked at")))(t)
		all := must(s.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		for why, to := range map[string]string{"the present": "", "a checkpoint of the whole agent": all.ID} {
			got := must(s.Diff(ctx, "a", one.ID, to))(t)
			if len(got) != 1 || got[0].Name != m.ID || len(got.String()) > 500 || !strings.Contains(got.String(), "...") {
				t.Errorf("to %s: %v", why, got)
			}
		}
		must(s.DeleteConversation(ctx, c.ID))(t)
		if got := must(s.Diff(ctx, "a", one.ID, ""))(t); len(got) != 1 || got[0].Change != agent.Removed || got[0].Conversation != c.ID {
			t.Errorf("the conversation was deleted, and it says %v", got)
		}
		twin := must(s.Fork(ctx, "a", all.ID, "twin"))(t)
		forked := must(s.Checkpoint(ctx, agent.CheckpointInfo{AgentID: twin.ID}))(t)
		if got := must(s.Diff(ctx, "", all.ID, forked.ID))(t); len(got) != 5 || got[0].What != "metadata" {
			t.Errorf("a fork has other conversations and says so in its metadata: %v", got)
		}
		_, err := s.Diff(ctx, "a", all.ID, forked.ID)
		isErr(t, err, tiers.ErrNotFound)
		_, err = s.Diff(ctx, "a", "nothing", "")
		isErr(t, err, tiers.ErrNotFound)
		if raw := must(json.Marshal(must(s.Diff(ctx, "a", all.ID, all.ID))(t)))(t); string(raw) != "[]" {
			t.Errorf("of no differences the JSON is %s", raw)
		}
	})
}
