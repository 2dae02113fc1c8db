package transfer

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/tiers"
)

// only answers the one conversation that there is.
func (b *bench) only(t *testing.T) *agent.Conversation {
	t.Helper()
	var all []*agent.Conversation
	for st, err := range b.agents.List(t.Context(), agent.After{}) {
		ok(t, err)
		for c, err := range b.agents.Conversations(t.Context(), st.ID, agent.After{}) {
			ok(t, err)
			loaded, err := b.agents.LoadConversation(t.Context(), c.ID, agent.Page{})
			ok(t, err)
			all = append(all, loaded)
		}
	}
	if len(all) != 1 {
		t.Fatalf("there are %d conversations", len(all))
	}
	return all[0]
}

func TestWhatWouldNotComeInAsItIsIsToldAndTheRestComesIn(t *testing.T) {
	for _, c := range []struct{ why, bad string }{
		{"a role that is no text", `{"role":5,"content":"x"}`},
		{"a role that says nothing", `{"role":"","content":"x"}`},
		{"no role", `{"content":"x"}`},
		{"null for a role", `{"role":null,"content":"x"}`},
		{"a key that is there twice", `{"role":"user","content":"x","content":"y"}`},
		{"a key that is there twice, as an escape", `{"role":"user","content":"x","c\u006fntent":"y"}`},
		{"a key that is there twice, deep inside", `{"role":"user","content":"x","k":[{"a":1,"a":2}]}`},
		{"half a character", `{"role":"user","content":"\ud800 lone"}`},
		{"the other half", `{"role":"user","content":"\\\udc00"}`},
		{"two first halves", `{"role":"user","content":"\ud83d\ud83d\ude00"}`},
		{"half a character in a name", `{"role":"user","content":"x","\uD83D":1}`},
	} {
		good := `{"role":"user","content":"\ud83d\ude00 \\ud800"}`
		for name, text := range map[string]string{
			"x.json":   "[" + good + ",\n" + c.bad + ",\n" + good + "]",
			"x.jsonl":  good + "\n" + c.bad + "\n" + good,
			"x.traj":   `{"info":{},"history":[` + good + ",\n" + c.bad + ",\n" + good + `]}`,
			"own.json": `{"id":"c","agent_id":"a","messages":[` + good + ",\n" + c.bad + ",\n" + good + `]}`,
		} {
			t.Run(c.why+" in "+name, func(t *testing.T) {
				b := open(t)
				sum := b.load(t, Options{}, file(t, name, text))
				if d := cmp.Diff([]string{name + ":2"}, b.told()); d != "" || sum.Messages.Added != 2 {
					t.Fatalf("%s\n%v %+v", d, b.faults, sum)
				}
				if !errors.Is(&b.faults[0], tiers.ErrCorrupt) {
					t.Error(b.faults[0].Err)
				}
				if got := b.only(t).Messages[1].Content; got != "😀 \\ud800" {
					t.Errorf("it says %q", got)
				}
			})
		}
	}
}

func TestMemberOfADocumentThatWouldNotComeInAsItIsIsTold(t *testing.T) {
	b := open(t)
	b.load(t, Options{}, file(t, "x.json", "{\"id\":\"c\",\"agent_id\":\"a\",\n\"title\":\"one\",\n\"title\":\"two\",\n\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\n\"messages\":[],\n\"k\":\"\\ud800\",\"l\":\"v\"}"))
	if d := cmp.Diff([]string{"x.json:3", "x.json:5", "x.json:6"}, b.told()); d != "" {
		t.Errorf("%s\n%v", d, b.faults)
	}
	c := b.only(t)
	if c.Title != "one" || len(c.Messages) != 1 || c.Metadata["l"] != "v" || len(c.Metadata) != 1 {
		t.Errorf("the first is what counts: %+v", c)
	}
}

func TestMemberOfAKindThatNobodyReadsIsKept(t *testing.T) {
	b := open(t)
	b.load(t, Options{}, file(t, "x.json", `[{"role":"user","content":"x","id":7,"timestamp":"yesterday","tokens":1e400,"parent_id":[1],"tool_calls":"none","tool_call_id":8}]`))
	want := map[string]string{"id": "7", "timestamp": "yesterday", "tokens": "1e400", "parent_id": "[1]", "tool_calls": "none", "tool_call_id": "8"}
	if d := cmp.Diff(want, b.only(t).Messages[0].Metadata); d != "" || len(b.faults) > 0 {
		t.Errorf("%s %v", d, b.faults)
	}
}

func TestPipeIsRefusedRatherThanWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe.json")
	ok(t, syscall.Mkfifo(path, 0o600))
	b := open(t)
	b.load(t, Options{}, path, "/dev/null")
	if d := cmp.Diff([]string{"pipe.json:0", "null:0"}, b.told()); d != "" || !strings.Contains(fmt.Sprint(b.faults[0].Err), "no regular file") {
		t.Errorf("%s %v", d, b.faults)
	}
	src := &source{path: path} // one that was a file when it was looked at
	if f, err := src.open(); err == nil {
		_ = f.Close()
		t.Error("a pipe was opened")
	}
}
