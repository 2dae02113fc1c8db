package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/tiers"
)

const begins = `{"format":"sagestore export 1"}` + "\n"

func TestAnExportOfBeforeThereWereFieldsComesIn(t *testing.T) {
	b := open(t)
	b.twice(t, file(t, "old.jsonl", begins+`{"agent":{"id":"a","name":"A","type":"m","created":"2026-01-02T03:04:05Z","modified":"2026-01-02T03:04:05Z","version":1}}
{"conversation":{"id":"c","agent_id":"a","created":"2026-01-02T03:04:05Z"}}
{"message":{"conversation_id":"c","id":"m","role":"user","content":"hi","at":"2026-01-02T03:04:05Z"}}
`), Summary{Agents: Count{Added: 1}, Conversations: Count{Added: 1}, Messages: Count{Added: 1}})
}

func TestAValueThatSavesItselfGoesOnInAnotherStore(t *testing.T) {
	ctx, from, to := t.Context(), open(t), open(t)
	ok(t, from.agents.Save(ctx, agent.NewState("a", "A", "m")))
	p, err := agent.Persist(ctx, from.agents.Fields("a"), "steps", 0)
	ok(t, err)
	ok(t, p.Set(ctx, 41))
	var text bytes.Buffer
	done, err := ExportAgent(ctx, from.agents, "a", &text, true)
	ok(t, err)
	if want := (Written{Agents: 1, Fields: 1}); done != want {
		t.Errorf("it says that it wrote %+v, not %+v", done, want)
	}
	to.twice(t, file(t, "a.jsonl", text.String()), Summary{Agents: Count{Added: 1}, Fields: Count{Added: 1}})
	moved, err := agent.Persist(ctx, to.agents.Fields("a"), "steps", 0)
	ok(t, err)
	ok(t, moved.Update(ctx, func(n *int) error { *n++; return nil }))
	if moved.Get() != 42 {
		t.Errorf("it goes on at %d", moved.Get())
	}
	var page bytes.Buffer
	ok(t, AgentMarkdown(ctx, to.agents, "a", &page))
	if !strings.Contains(page.String(), `{"steps":42}`) {
		t.Errorf("people do not see it:\n%s", page.String())
	}
}

func TestFieldsOfAKeyThatNoAgentHasAreAnExport(t *testing.T) {
	ctx, from, to := t.Context(), open(t), open(t)
	key, err := agent.CheckpointKey("Counter", map[string]any{"count": 0})
	ok(t, err)
	all := map[string]any{}
	for i := range 2*mostMessages + 1 { // which come in several pieces
		all[fmt.Sprint("f", i)] = i
	}
	ok(t, from.agents.Fields(key).SaveAll(ctx, all))
	var text bytes.Buffer
	done, err := ExportAgent(ctx, from.agents, key, &text, true)
	ok(t, err)
	if want := (Written{Fields: len(all)}); done != want {
		t.Errorf("it says that it wrote %+v, not %+v", done, want)
	}
	to.twice(t, file(t, "k.jsonl", text.String()), Summary{Fields: Count{Added: len(all)}})
	want, err := from.agents.Fields(key).LoadAll(ctx)
	ok(t, err)
	got, err := to.agents.Fields(key).LoadAll(ctx)
	ok(t, err)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("they are others:\n%s", d)
	}
	if _, err := ExportAgent(ctx, from.agents, "nobody", &text, true); !errors.Is(err, tiers.ErrNotFound) {
		t.Errorf("of a key that has none it answers %v", err)
	}
}

func TestAFieldThatIsThereStaysUnlessItIsToBeReplaced(t *testing.T) {
	ctx, b := t.Context(), open(t)
	ok(t, b.agents.Fields("k").SaveAll(ctx, map[string]any{"same": 1, "mine": "old"}))
	path := file(t, "k.jsonl", begins+`{"field":{"key":"k","name":"same","value":1}}
{"field":{"key":"k","name":"mine","value":"new"}}
`)
	for _, c := range []struct {
		why     string
		o       Options
		want    string
		count   Count
		remarks int
	}{
		{"it is left as it is, and that is told", Options{}, `"old"`, Count{There: 2}, 1},
		{"a dry run only says what it would do", Options{Replace: true, DryRun: true}, `"old"`, Count{Added: 1, There: 1}, 0},
		{"it is replaced", Options{Replace: true}, `"new"`, Count{Added: 1, There: 1}, 0},
		{"it is the same now", Options{Replace: true}, `"new"`, Count{There: 2}, 0},
	} {
		t.Run(c.why, func(t *testing.T) {
			sum := b.load(t, c.o, path)
			all, err := b.agents.Fields("k").LoadAll(t.Context())
			ok(t, err)
			if got := string(all["mine"]); got != c.want || sum.Fields != c.count || len(b.remarks) != c.remarks {
				t.Errorf("it is %s, after %+v and %v", got, sum.Fields, b.remarks)
			}
		})
	}
}

func TestOnlyTheFieldsThatAreWrongAreLeftOut(t *testing.T) {
	text := begins + `{"field":{"key":"k","name":"good","value":{"n":1.50}}}
{"field":{"key":"k","name":"` + strings.Repeat("x", 3000) + `","value":2}}
{"field":{"key":"k","name":"none"}}
{"field":{"key":"k","name":"null","value":null}}
{"field":{"key":"k","name":"half","value":"\ud800"}}
{"field":{"key":"k","name":"good","value":{"n":1.5}}}
{"field":{"key":"other","name":"good","value":[]}}
`
	b := open(t)
	path := file(t, "k.jsonl", text)
	sum := b.load(t, Options{}, path)
	var at []int
	for _, f := range b.faults {
		at = append(at, f.Line)
	}
	slices.Sort(at)
	if d := cmp.Diff([]int{3, 4, 6}, at); d != "" || sum.Fields != (Count{Added: 3, There: 1}) {
		t.Errorf("%+v, and the faults are of other lines: %s\n%v", sum.Fields, d, b.faults)
	}
	all, err := b.agents.Fields("k").LoadAll(t.Context())
	ok(t, err)
	if len(all) != 2 || string(all["good"]) != `{"n":1.50}` || string(all["null"]) != "null" {
		t.Errorf("the fields are %s", all)
	}
	dry := open(t).load(t, Options{DryRun: true}, path)
	if dry.Fields != (Count{Added: 4, There: 1}) { // what a store refuses is told by the store
		t.Errorf("a dry run counts %+v", dry.Fields)
	}
}
