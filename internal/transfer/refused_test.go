package transfer

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/tiers"
)

// told answers the lines of faults.
func (b *bench) told() (lines []string) {
	for _, f := range b.faults {
		lines = append(lines, fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line))
	}
	return lines
}

func TestMessageOfAnIDThatSaysSomethingElseIsToldAndTheFirstStays(t *testing.T) {
	head := `{"format":"sagestore export 1"}` + "\n" + `{"conversation":{"id":"c","agent_id":"a","created":"2026-01-01T00:00:00Z"}}` + "\n"
	own := func(content, more string) string {
		return `{"message":{"conversation_id":"c","id":"m1","role":"user","content":"` + content + `","at":"2026-01-01T00:00:00Z"` + more + `}}` + "\n"
	}
	for _, c := range []struct {
		why, text string
		want      []string
	}{
		{"another content", `{"id":"m1","role":"user","content":"a"}` + "\n" + `{"id":"m1","role":"user","content":"b"}` + "\n" + `{"id":"m2","role":"user","content":"c"}`, []string{"x.jsonl:2"}},
		{"the same", `{"id":"m1","role":"user","content":"a"}` + "\n" + `{"id":"m1","role":"user","content":"a"}` + "\n" + `{"id":"m2","role":"user","content":"c"}`, nil},
		{"another role", `{"id":"m1","role":"user","content":"a"}` + "\n" + `{"id":"m1","role":"assistant","content":"a"}`, []string{"x.jsonl:2"}},
		{"another member", `{"id":"m1","role":"user","content":"a"}` + "\n" + `{"id":"m1","role":"user","content":"a","k":"v"}`, []string{"x.jsonl:2"}},
		{"other arguments", `{"id":"m1","role":"user","content":"a","tool_calls":[{"id":"t","function":{"name":"f","arguments":"{}"}}]}` + "\n" + `{"id":"m1","role":"user","content":"a","tool_calls":[{"id":"t","function":{"name":"f","arguments":"{\"x\":1}"}}]}`, []string{"x.jsonl:2"}},
		{"lines of an export", head + own("a", "") + own("b", "") + own("a", ""), []string{"x.jsonl:4"}},
		{"calls of an export with results", head + own("a", `,"tool_calls":[{"id":"t","name":"f","result":"1","status":"completed"}]`) + own("a", `,"tool_calls":[{"id":"t","name":"f","result":"2","status":"completed"}]`), []string{"x.jsonl:4"}},
		{"an attachment", head + own("a", `,"attachments":[{"kind":"file","content":"1"}]`) + own("a", `,"attachments":[{"kind":"file","content":"2"}]`) + own("a", `,"attachments":[{"kind":"file","content":"1"}]`), []string{"x.jsonl:4"}},
	} {
		t.Run(c.why, func(t *testing.T) {
			b := open(t)
			path := file(t, "x.jsonl", c.text)
			for _, o := range []Options{{DryRun: true}, {}, {}, {DryRun: true}} {
				sum := b.load(t, o, path)
				if d := cmp.Diff(c.want, b.told()); d != "" || sum.Faults != len(c.want) {
					t.Errorf("%+v: %s\n%v", o, d, b.faults)
				}
			}
			for st, err := range b.agents.List(t.Context(), agent.After{}) {
				ok(t, err)
				for conv, err := range b.agents.Conversations(t.Context(), st.ID, agent.After{}) {
					ok(t, err)
					loaded, err := b.agents.LoadConversation(t.Context(), conv.ID, agent.Page{})
					if ok(t, err); loaded.Messages[0].Content != "a" {
						t.Errorf("the first says %q", loaded.Messages[0].Content)
					}
				}
			}
		})
	}
}

func TestMessageThatIsStoredStaysWhenAnotherFileSaysSomethingElse(t *testing.T) {
	b := open(t)
	chat := func(content string) string {
		return file(t, "x.json", `{"id":"c","messages":[{"id":"m1","role":"user","content":"`+content+`"}]}`)
	}
	b.load(t, Options{}, chat("a"))
	other := chat("b")
	for _, o := range []Options{{DryRun: true}, {}} {
		sum := b.load(t, o, other)
		if sum.Messages != (Count{}) || len(b.faults) != 1 || !errors.Is(&b.faults[0], tiers.ErrExists) {
			t.Errorf("%+v: %+v, %v", o, sum, b.faults)
		}
	}
	c, err := b.agents.LoadConversation(t.Context(), "c", agent.Page{})
	ok(t, err)
	if len(c.Messages) != 1 || c.Messages[0].Content != "a" {
		t.Errorf("stored are %+v", c.Messages)
	}
}

func TestConversationOfAnotherAgentLeavesNoAgentBehind(t *testing.T) {
	b := open(t)
	path := file(t, "chat.json", `{"id":"c","messages":[{"role":"user","content":"x"}]}`)
	b.load(t, Options{Owner: "first"}, path)
	sum := b.load(t, Options{Owner: "other"}, path)
	if sum.Agents != (Count{}) || len(b.faults) != 1 || !errors.Is(&b.faults[0], tiers.ErrExists) || !strings.Contains(b.faults[0].Error(), "--agent first") {
		t.Errorf("%+v %v", sum, b.faults)
	}
	if _, err := b.agents.Load(t.Context(), "other"); !errors.Is(err, tiers.ErrNotFound) {
		t.Errorf("there is an agent without anything: %v", err)
	}
	checkpoint := file(t, "i.json", `{"id":"i","agent_id":"w","conversation":{"messages":[]},"iteration":3,"created_at":1}`)
	b.load(t, Options{}, checkpoint)
	other := file(t, "j.json", `{"id":"i","agent_id":"v","conversation":{"messages":[]},"iteration":4,"created_at":1}`)
	sum = b.load(t, Options{}, other)
	if _, err := b.agents.Load(t.Context(), "v"); !errors.Is(err, tiers.ErrNotFound) || sum.Faults != 1 {
		t.Errorf("there is an agent without anything: %v", err)
	}
	sum = b.load(t, Options{Owner: strings.Repeat("x", 300)}, file(t, "new.json", `[{"role":"user","content":"x"}]`))
	if sum.Conversations != (Count{}) || sum.Faults != 1 {
		t.Errorf("a conversation of an agent that can't be made is counted: %+v", sum)
	}
}
