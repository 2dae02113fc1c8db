package agent_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/tiers"
)

// family are messages from lines such as "b<a", b with the parent a.
func family(text string) (ms []agent.Message) {
	for one := range strings.FieldsSeq(text) {
		m := agent.NewMessage(agent.User, one)
		m.ID, m.ParentID, _ = strings.Cut(one, "<")
		ms = append(ms, m)
	}
	return ms
}

func TestNoMessageIsItsOwnAncestor(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		talk(t, h.Store, "a")
		for _, c := range []struct {
			why   string
			calls string // appends, each of those before a |
			edit  string
			want  error // of the last
		}{
			{"a chain in order", "a b<a|c<b|d<c", "", nil},
			{"a chain against its order", "d<c c<b|b<a|a", "", nil},
			{"a parent that never comes", "b<x|c<b", "", nil},
			{"a parent that no message can be", "b<" + strings.Repeat("x", 300), "", nil},
			{"several of one parent", "a|b<a c<a|d<a", "", nil},
			{"itself", "a<a", "", tiers.ErrType},
			{"two in one call", "a<b b<a", "", tiers.ErrType},
			{"three in one call", "a<c b<a c<b", "", tiers.ErrType},
			{"a parent that came later", "a<b|b<a", "", tiers.ErrType},
			{"the end of a chain that was begun with its end", "a<x|b<a|c<b|x<c", "", tiers.ErrType},
			{"over two calls", "a<x b<a|c<b x<c", "", tiers.ErrType},
			{"an edit to itself", "a b<a", "a<a", tiers.ErrType},
			{"an edit to a child", "a b<a|c<b", "a<c", tiers.ErrType},
			{"an edit to another parent", "a b<a c<a", "c<b", nil},
			{"an edit that changes no parent", "a b<a", "b<a", nil},
		} {
			conv := agent.NewConversation("a")
			ok(t, h.SaveConversation(ctx, conv))
			calls := strings.Split(c.calls, "|")
			stored, want := 0, c.want
			if c.edit != "" {
				want = nil
			}
			for i, call := range calls {
				ms := family(call)
				_, err := h.AppendMessage(ctx, conv.ID, ms...)
				if i == len(calls)-1 && want != nil {
					isErr(t, err, want)
					break
				}
				if err != nil {
					t.Fatalf("%s: %v", c.why, err)
				}
				stored += len(ms)
			}
			if c.edit != "" {
				if err := h.EditMessage(ctx, conv.ID, family(c.edit)[0]); !errors.Is(err, c.want) {
					t.Errorf("%s: %v", c.why, err)
				}
			}
			if got := contents(t, h.Store, conv.ID, agent.Page{}); len(got) != stored {
				t.Errorf("%s: stored are %v", c.why, got)
			}
			must(h.DeleteConversation(ctx, conv.ID))(t)
		}
		for item, err := range h.m.List(ctx, "agent.conversations") {
			if ok(t, err); strings.HasPrefix(item.Key, "wait/") {
				t.Errorf("still stored: %s", item.Key)
			}
		}
	})
}

func TestEditedAndRestoredParentsAreLookedAfter(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		talk(t, h.Store, "a")
		conv := agent.NewConversation("a")
		conv.Add(family("a b")...)
		ok(t, h.SaveConversation(ctx, conv))
		ok(t, h.EditMessage(ctx, conv.ID, family("b<x")[0]))
		_, err := h.AppendMessage(ctx, conv.ID, family("x<b")...)
		isErr(t, err, tiers.ErrType)

		must(h.AppendMessage(ctx, conv.ID, family("c<y")...))(t)
		made := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		away := must(h.LoadCheckpoint(ctx, "a", made.ID))(t)
		must(h.Delete(ctx, "a"))(t)
		ok(t, h.Save(ctx, agent.NewState("a", "n", "t")))
		must(h.ImportCheckpoint(ctx, away, false))(t)
		must(h.reopen().Restore(ctx, "a", made.ID, agent.RestoreOptions{}))(t)
		_, err = h.AppendMessage(ctx, conv.ID, family("y<c")...)
		isErr(t, err, tiers.ErrType)
		must(h.AppendMessage(ctx, conv.ID, family("y<a")...))(t)
		away.ID = "circular"
		for _, c := range away.Conversations {
			if c.ID == conv.ID {
				c.Messages = append(c.Messages, family("y<c")...)
			}
		}
		_, err = h.ImportCheckpoint(ctx, away, false)
		isErr(t, err, tiers.ErrType)
	})
}

func TestToolCallsOfAMessageHaveIDsOfTheirOwn(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a", "one")
		m := agent.NewMessage(agent.Assistant, "calls")
		m.ToolCalls = []agent.ToolCall{{ID: "1", Name: "x"}, {ID: "2", Name: "x"}, {ID: "1", Name: "y"}}
		_, err := h.AppendMessage(ctx, c.ID, m)
		isErr(t, err, tiers.ErrType)
		_, err = h.ForImport().AppendMessage(ctx, c.ID, m)
		isErr(t, err, tiers.ErrType)
		stored := must(h.LoadConversation(ctx, c.ID, agent.Page{}))(t)
		if len(stored.Messages) != 1 {
			t.Errorf("stored are %v", stored.Messages)
		}
		stored.Messages[0].ToolCalls = m.ToolCalls
		isErr(t, h.EditMessage(ctx, c.ID, stored.Messages[0]), tiers.ErrType)
		m.ToolCalls = m.ToolCalls[:2]
		must(h.AppendMessage(ctx, c.ID, m))(t)
		m.ID, m.ToolCalls = "foreign", []agent.ToolCall{{Name: "x"}, {Name: "y"}}
		must(h.ForImport().AppendMessage(ctx, c.ID, m))(t) // they have none
	})
}
