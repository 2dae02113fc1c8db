package agent_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

// written is what is compared of a record.
type written struct {
	version tiers.Version
	bytes   int // of key and value
}

// records answers all records of agents, by the initial of their category, a space,
// and their key.
func records(t testing.TB, m *manager.Manager) map[string]written {
	t.Helper()
	all := map[string]written{}
	for category, initial := range map[string]string{
		"agent.state": "S ", "agent.conversations": "C ", "agent.checkpoints": "K ", "agent.fields": "F ",
	} {
		for item, err := range m.List(t.Context(), category) {
			ok(t, err)
			all[initial+item.Key] = written{item.Version, len(item.Key) + item.Size()}
		}
	}
	return all
}

// changes counts the records that were added, written again and removed, by their
// kinds: "C msg +1, C sum ~1".
func changes(before, after map[string]written) string {
	counts := map[string]int{}
	for key, was := range before {
		if now, there := after[key]; !there {
			counts[kindOf(key)+" -"]++
		} else if now.version != was.version {
			counts[kindOf(key)+" ~"]++
		}
	}
	for key := range after {
		if _, there := before[key]; !there {
			counts[kindOf(key)+" +"]++
		}
	}
	var words []string
	for kind, n := range counts {
		words = append(words, fmt.Sprint(kind, n))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// kindOf is the category of a record with what its key begins with.
func kindOf(key string) string {
	kind, _, _ := strings.Cut(key, "/")
	return kind
}

func TestNothingIsWrittenAgainThatDidNotChange(t *testing.T) {
	t.Parallel()
	for _, r := range routings()[:3] { // memory, the database and files
		for _, n := range []int{10, 200} {
			t.Run(fmt.Sprint(r.name, " ", n), func(t *testing.T) {
				t.Parallel()
				others := n
				if r.name == "file" {
					others = 10 // each is a file, which takes its time
				}
				writesOnlyWhatChanges(t, open(t, r), n, others)
			})
		}
	}
}

// writesOnlyWhatChanges looks at what steps write to an agent with a conversation of n
// messages, and so many entries of its own and fields.
func writesOnlyWhatChanges(t *testing.T, h *house, n, others int) {
	t.Helper()
	ctx := t.Context()
	a := agent.NewState("a", "A", "m")
	all := map[string]any{}
	for i := range others {
		a.Set(fmt.Sprint("entry ", i), i)
		all[fmt.Sprint("field ", i)] = i
	}
	ok(t, h.Save(ctx, a))
	c, other := talk(t, h.Store, "a"), talk(t, h.Store, "a")
	var ms []agent.Message
	for i := range n {
		ms = append(ms, agent.NewMessage(agent.User, fmt.Sprint("message ", i)))
	}
	ask := agent.NewMessage(agent.Assistant, "")
	ask.ToolCalls = []agent.ToolCall{{ID: "call", Name: "f"}}
	must(h.AppendMessage(ctx, c.ID, append(ms, ask)...))(t)
	must(h.AppendMessage(ctx, other.ID, agent.NewMessage(agent.User, "elsewhere")))(t)
	ok(t, h.Fields("a").SaveAll(ctx, all))
	var point agent.CheckpointInfo
	checkpoint := func() {
		t.Helper()
		point = must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
	}
	edit := func(i int, text string) {
		t.Helper()
		m := ms[i]
		m.Content = text
		ok(t, h.EditMessage(ctx, c.ID, m))
	}
	before := records(t, h.m)
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"the first checkpoint", checkpoint, "C dirty -2, K info +1, S now ~1"},
		{"a message", func() { must(h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "one more")))(t) }, "C dirty +1, C mid +1, C msg +1, C sum ~1"},
		{"a second message", func() { must(h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "and one")))(t) }, "C mid +1, C msg +1, C sum ~1"},
		{"a message that is there", func() { must(h.AppendMessage(ctx, c.ID, ms[0]))(t) }, ""},
		{"all messages again", func() { must(h.AppendMessage(ctx, c.ID, ms...))(t) }, ""},
		{"the conversation as it is", func() { ok(t, h.SaveConversation(ctx, must(h.LoadConversation(ctx, c.ID, agent.Page{}))(t))) }, ""},
		{"the result of a tool call", func() { must(h.AppendMessage(ctx, c.ID, agent.ToolResult("call", "42")))(t) }, "C hist +1, C mid +1, C msg +1, C msg ~1, C sum ~1"},
		{"a checkpoint", checkpoint, "C dirty -1, K info +1, S now ~1"},
		{"a checkpoint of the same", checkpoint, "K info +1, S now ~1"},
		{"a tag", func() { ok(t, h.Tag(ctx, c.ID, []string{"x"}, nil)) }, "C dirty +1, C head ~1, C hist +1, C sum ~1"},
		{"the tag again", func() { ok(t, h.Tag(ctx, c.ID, []string{"x"}, nil)) }, ""},
		{"an edit", func() { edit(3, "other text") }, "C hist +1, C msg ~1, C sum ~1"},
		{"a second edit", func() { edit(3, "another text") }, "C msg ~1, C sum ~1"},
		{"an edit that changes nothing", func() { edit(3, "another text") }, ""},
		{"a deleted message", func() { must(h.DeleteMessage(ctx, c.ID, ms[4].ID))(t) }, "C hist +1, C mid ~1, C msg -1, C sum ~1"},
		{"an entry of the agent", func() { a.Set("entry 5", "five"); ok(t, h.Save(ctx, a)) }, "S head ~1, S hist +2, S own ~1, S sum ~1"},
		{"the agent as it is", func() { ok(t, h.Save(ctx, a)) }, "S head ~1, S sum ~1"},
		{"a field", func() { ok(t, h.Fields("a").Save(ctx, "field 5", "five")) }, "F a ~1"},
		{"a new field", func() { ok(t, h.Fields("a").Save(ctx, "new", 1)) }, "F a +1"},
		{"a kept checkpoint", func() { ok(t, h.KeepCheckpoint(ctx, "a", point.ID, true)) }, "K info ~1, S now ~1"},
		{"a checkpoint of one conversation", func() { must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", Conversation: other.ID}))(t) }, "K info +1, S now ~1"},
		{"an archived conversation", func() { ok(t, h.Archive(ctx, other.ID, true)) }, "C dirty +1, C head ~1, C hist +1, C live -1, C sum ~1"},
		{"a pruned agent", func() { must(h.Prune(ctx, "a", 1))(t) }, "C hist -1, K info -2, S now ~1"},
		{
			"a restore", func() { must(h.Restore(ctx, "a", "latest", agent.RestoreOptions{}))(t) },
			// A restore counts what the agent has anew.
			"C dirty -1, C dirty ~1, C head ~1, C hist +1, C live +1, C sum ~2, K info +1, S now ~1, S sum ~1",
		},
		{"a fork", func() { must(h.Fork(ctx, "a", point.ID, "b"))(t) }, fmt.Sprintf(
			"C call +1, C dirty +2, C head +2, C id +2, C live +2, C mid +%d, C msg +%[1]d, C sum +2, "+
				"S head +1, S id +1, S now +1, S own +%[2]d, S sum +1", n+5, others)},
	} {
		step.do()
		after := records(t, h.m)
		if got := changes(before, after); got != step.want {
			t.Errorf("%s: %s, want %s", step.what, cmp.Or(got, "nothing"), cmp.Or(step.want, "nothing"))
		}
		before = after
	}
}

func TestCheckpointAfterEachStepAddsAFractionOfTheConversation(t *testing.T) {
	t.Parallel()
	const most = 1.3
	// grow answers the bytes of all records after 100, 200 and 400 messages.
	grow := func(checkpoints bool) (bytes [3]float64) {
		m := sagetest.Open(t)
		s := agent.New(m)
		many(t, s)
		c := talk(t, s, "a")
		for done, i := 0, 0; i < len(bytes); i++ {
			for to := 100 << i; done < to; done++ {
				must(s.AppendMessage(t.Context(), c.ID, kilobyte(done)))(t)
				if checkpoints {
					must(s.Checkpoint(t.Context(), agent.CheckpointInfo{AgentID: "a", Kind: agent.Automatic, Iteration: done}))(t)
				}
			}
			for _, r := range records(t, m) {
				bytes[i] += float64(r.bytes)
			}
		}
		return bytes
	}
	alone, with := grow(false), grow(true)
	few, some, lots := with[0]/alone[0], with[1]/alone[1], with[2]/alone[2]
	if max(few, some, lots) > most || lots > 1.05*few || few > 1.05*lots {
		t.Errorf("a checkpoint after each step makes it %.3f, %.3f and %.3f times the bytes at 100, 200 and 400 steps", few, some, lots)
	}
}
