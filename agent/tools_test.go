package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/tiers"
)

// destructive are the operations that may lose something.
var destructive = []string{"agent_delete", "conversation_delete", "checkpoint_delete", "checkpoint_restore"}

// unfit answers why a value does not fit a schema, in the part of JSON Schema that
// the tools use.
func unfit(schema map[string]any, v any, at string) error {
	if words, ok := schema["enum"].([]any); ok && !slices.Contains(words, v) {
		return fmt.Errorf("%s: %v is none of %v", at, v, words)
	}
	kinds := map[string]bool{}
	switch v := v.(type) {
	case string:
		kinds["string"] = true
	case bool:
		kinds["boolean"] = true
	case float64:
		kinds["number"], kinds["integer"] = true, v == math.Trunc(v)
	case []any:
		kinds["array"] = true
		items, _ := schema["items"].(map[string]any)
		for i, e := range v {
			if err := unfit(items, e, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		kinds["object"] = true
		properties, _ := schema["properties"].(map[string]any)
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, there := v[name.(string)]; !there {
				return fmt.Errorf("%s: %v is missing", at, name)
			}
		}
		for name, e := range v {
			of, known := properties[name].(map[string]any)
			if !known {
				var open bool
				if of, open = schema["additionalProperties"].(map[string]any); !open && schema["type"] != nil {
					return fmt.Errorf("%s: %s is unknown", at, name)
				}
			}
			if err := unfit(of, e, at+"."+name); err != nil {
				return err
			}
		}
	}
	if kind, ok := schema["type"].(string); ok && !kinds[kind] {
		return fmt.Errorf("%s: %v is no %s", at, v, kind)
	}
	return nil
}

func fits(t testing.TB, schema, raw json.RawMessage) {
	t.Helper()
	var s map[string]any
	var v any
	ok(t, json.Unmarshal(schema, &s))
	ok(t, json.Unmarshal(raw, &v))
	if err := unfit(s, v, "$"); err != nil {
		t.Errorf("%v\n%s\n%s", err, schema, raw)
	}
}

func TestToolsAnswerByTheirSchemasAndRefuseBadInput(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		state := func() string { return fmt.Sprint(must(h.Stats(ctx))(t)) }
		c := talk(t, h.Store, "a", "hello world", "two")
		talk(t, h.Store, "other", "hello world")
		made := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", ID: "made"}))(t)
		a := must(h.Load(ctx, "a"))(t)
		a.Set("n", int64(9007199254740993))
		saved := string(must(json.Marshal(a))(t))
		tools := h.Tools("a", destructive...)
		if len(tools) != 14 {
			t.Fatalf("there are %d", len(tools))
		}
		for _, call := range []struct{ name, good, want string }{
			{"agent_save", `{"agent":` + saved + `}`, "9007199254740993"},
			{"agent_load", `{}`, `"n":9007199254740993`},
			{"agent_list", `{"limit":5}`, `{"agents":[{"id":"a","name":"a","type":""}]}`},
			{"persistence_stats", ``, `"agents":2`},
			{"conversation_save", `{"conversation":{"id":"new","agent_id":"a","title":"t","created":"2026-01-01T00:00:00Z","last_message":"2026-01-01T00:00:00Z","count":0,"messages":[{"id":"m","role":"user","content":"hi","at":"2026-01-01T00:00:00Z"}]}}`, `"count":1`},
			{"conversation_load", `{"conversation_id":"` + c.ID + `","limit":1,"last":true}`, `"two"`},
			{"conversation_list", `{}`, `"new"`},
			{"conversation_search", `{"text":"WORLD"}`, c.ID},
			{"checkpoint_create", `{"name":"n","keep":true,"metadata":{"k":"v"}}`, `"kind":"manual"`},
			{"checkpoint_list", `{"limit":1}`, `"name":"n"`},
			{"checkpoint_restore", `{"checkpoint_id":"` + made.ID + `"}`, `"agent_id":"a"`},
			{"checkpoint_delete", `{"checkpoint_id":"` + made.ID + `"}`, `{"existed":true}`},
			{"conversation_delete", `{"conversation_id":"` + c.ID + `"}`, `{"existed":true}`},
			{"agent_delete", ``, `{"existed":true}`},
		} {
			tool := must(agent.ToolNamed(tools, call.name))(t)
			before := state()
			for _, bad := range []string{`{"unknown":1}`, `[]`, `null`, `{`, `{"agent_id":"other"}`, `{"limit":"x"}`, `{} {}`} {
				if out, err := tool.Call(ctx, json.RawMessage(bad)); !errors.Is(err, tiers.ErrType) {
					t.Errorf("%s of %s answers %s, %v", call.name, bad, out, err)
				}
			}
			if after := state(); after != before {
				t.Errorf("%s changed something on bad input: %s, %s", call.name, before, after)
			}
			if call.good != "" {
				fits(t, tool.Input, json.RawMessage(call.good))
			}
			out, err := tool.Call(ctx, json.RawMessage(call.good))
			if err != nil {
				t.Fatalf("%s: %v", call.name, err)
			}
			fits(t, tool.Output, out)
			if !strings.Contains(string(out), call.want) || tool.Description == "" {
				t.Errorf("%s answers %s, without %s", call.name, out, call.want)
			}
		}
		if got := contents(t, h.Store, must(h.Load(ctx, "other"))(t).Active[0], agent.Page{}); len(got) != 1 {
			t.Error("another agent was touched")
		}
	})
}

func TestToolsReachNoOtherAgent(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		s := h.Store
		ctx := t.Context()
		talk(t, s, "a", "x")
		c := talk(t, s, "b", "secret")
		made := must(s.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "b"}))(t)
		tools := s.Tools("a", destructive...)
		call := func(name, in string) string {
			out, err := must(agent.ToolNamed(tools, name))(t).Call(ctx, json.RawMessage(in))
			return fmt.Sprint(string(out), err)
		}
		for _, got := range []string{
			call("conversation_load", `{"conversation_id":"`+c.ID+`"}`), call("conversation_delete", `{"conversation_id":"`+c.ID+`"}`),
			call("checkpoint_restore", `{"checkpoint_id":"`+made.ID+`"}`), call("checkpoint_delete", `{"checkpoint_id":"`+made.ID+`"}`),
			call("conversation_search", `{"text":"secret"}`), call("agent_list", `{}`),
			call("conversation_save", `{"conversation":{"id":"`+c.ID+`","agent_id":"a","created":"2026-01-01T00:00:00Z","last_message":"2026-01-01T00:00:00Z","count":0}}`),
		} {
			if strings.Contains(got, "secret") || strings.Contains(got, `"b"`) || strings.Contains(got, "true") {
				t.Errorf("it answers %s", got)
			}
		}
		if got := contents(t, s, c.ID, agent.Page{}); len(got) != 1 {
			t.Error("another agent's conversation was touched")
		}
	})
}

func TestDestructiveToolsAreThereWhenTheyAreNamed(t *testing.T) {
	s := inMemory(t)
	for _, tool := range s.Tools("a") {
		if tool.Destructive || slices.Contains(destructive, tool.Name) {
			t.Errorf("%s is offered", tool.Name)
		}
	}
	if got := len(s.Tools("a", "agent_delete")); got != 11 {
		t.Errorf("%d are offered when one is named", got)
	}
	_, err := agent.ToolNamed(s.Tools("a"), "agent_laod")
	isErr(t, err, tiers.ErrNotFound)
	if !strings.Contains(err.Error(), "agent_load") {
		t.Errorf("the nearest is not named: %v", err)
	}
	unbound := must(agent.ToolNamed(s.Tools(""), "agent_load"))(t)
	_, err = unbound.Call(t.Context(), nil)
	isErr(t, err, tiers.ErrType)
}
