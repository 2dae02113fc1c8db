package transfer

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/session"
)

// TestWhatASourceSaysIsStored compares the messages that formats become with all
// members that their files have, so that none is dropped unnoticed.
func TestWhatASourceSaysIsStored(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	three, result := 3, "found"
	words := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	for _, c := range []struct {
		why, name, text string
		head            agent.Conversation
		want            []agent.Message
	}{
		{
			"a trajectory: thought and action beside the content", "run.traj",
			`{"environment":"main","trajectory":[{"action":"ls"}],"info":{"exit_status":"submitted"},"history":[
{"role":"system","content":"be short","agent":"main","message_type":"system_prompt"},
{"role":"assistant","content":"I look\n` + "```\\nls\\n```" + `","thought":"I look","action":"ls","agent":"main","tool_calls":null},
{"role":"assistant","content":"ok","thought":"ok","action":"ok2"},
{"role":"user","content":[{"type":"text","text":"a.go"},{"type":"new","x":"->"}],"cache_control":{"type":"ephemeral"}}]}`,
			agent.Conversation{AgentID: "trajectories", Metadata: words("environment", "main", "exit_status", "submitted")},
			[]agent.Message{
				{Role: "system", Content: "be short", Metadata: words("agent", "main", "message_type", "system_prompt")},
				{Role: agent.Assistant, Content: "I look\n```\nls\n```", Metadata: words("thought", "I look", "action", "ls", "agent", "main")},
				{Role: agent.Assistant, Content: "ok", Metadata: words("action", "ok2")}, // the thought is the content
				{Role: agent.User, Content: "a.go", Metadata: words("parts", `[{"type":"new","x":"->"}]`, "cache_control", `{"type":"ephemeral"}`)},
			},
		},
		{
			"a conversation of a back end", "c.json",
			`{"id":"c","agent_id":"a","title":"T","archived":true,"tags":["x"],"metadata":{"k":"v"},"messages":[{"id":"m","role":"Assistant","content":"Hi","timestamp":1767323045,"tokens":3,"parent_id":null,"metadata":{"a":"b","n":1},"other":true,
"attachments":[{"id":"f","attachment_type":"Image","name":"x.png","mime_type":"image/png","url":"https://example.com/x.png","size":9}],
"tool_calls":[{"id":"t","name":"look","arguments":{"q":"->"},"result":"found","status":"Completed"}]}]}`,
			agent.Conversation{ID: "c", AgentID: "a", Title: "T", Archived: true, Tags: []string{"x"}, Metadata: words("k", "v")},
			[]agent.Message{{
				ID: "m", Role: agent.Assistant, Content: "Hi", At: at, Tokens: &three, Metadata: words("a", "b", "n", "1", "other", "true"),
				Attachments: []agent.Attachment{{ID: "f", Kind: agent.Image, Name: "x.png", MIME: "image/png", URL: "https://example.com/x.png", Size: 9}},
				ToolCalls:   []agent.ToolCall{{ID: "t", Name: "look", Arguments: json.RawMessage(`{"q":"->"}`), Result: &result, Status: agent.Completed}},
			}},
		},
		{
			"a chat that is sent to a model", "chat.json",
			`{"model":"m","temperature":0.5,"system":"be kind","messages":[{"role":"user","name":"ann","content":"hi"},{"role":"assistant","content":null,"refusal":"no","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{\"n\":1.50}"}}]},{"role":"tool","tool_call_id":"t","content":"found"}]}`,
			agent.Conversation{AgentID: "chat", SystemPrompt: "be kind", Metadata: words("model", "m", "temperature", "0.5")},
			[]agent.Message{
				{Role: agent.User, Content: "hi", Metadata: words("name", "ann")},
				{Role: agent.Assistant, Metadata: words("refusal", "no"), ToolCalls: []agent.ToolCall{{ID: "t", Name: "f", Arguments: json.RawMessage(`{"n":1.50}`), Result: &result, Status: agent.Completed}}},
				{Role: agent.ToolRole, Content: "found", Metadata: words("tool_call_id", "t")},
			},
		},
		{
			"chat lines", "chat.jsonl", `{"id":"1","role":"user","content":"hi","created_at":"2026-01-02T03:04:05Z","k":[1,2.50]}` + "\n" + `{"id":"2","parent_id":"1","role":"assistant","content":"yes"}`,
			agent.Conversation{AgentID: "chat"},
			[]agent.Message{{ID: "1", Role: agent.User, Content: "hi", At: at, Metadata: words("k", "[1,2.50]")}, {ID: "2", ParentID: "1", Role: agent.Assistant, Content: "yes"}},
		},
		{
			"the log of a coding agent", "log.jsonl",
			`{"type":"assistant","uuid":"u1","parentUuid":null,"sessionId":"s","timestamp":"2026-01-02T03:04:05Z","cwd":"/x","version":"1","requestId":"r","message":{"id":"i","role":"assistant","model":"m","stop_reason":"end","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"}],"usage":{"output_tokens":3}}}`,
			agent.Conversation{ID: "s", AgentID: "claude-code"},
			[]agent.Message{{
				ID: "u1", Role: agent.Assistant, Content: "a", At: at, Tokens: &three,
				Metadata: words("cwd", "/x", "version", "1", "requestId", "r", "message_id", "i", "model", "m", "stop_reason", "end", "thinking", "hm", "usage", `{"output_tokens":3}`),
			}},
		},
	} {
		t.Run(c.why, func(t *testing.T) {
			b := open(t)
			b.load(t, Options{}, file(t, c.name, c.text))
			got := b.only(t)
			for i := range min(len(got.Messages), len(c.want)) { // what is made where the file says nothing
				if c.want[i].ID == "" {
					got.Messages[i].ID = ""
				}
				if c.want[i].At.IsZero() {
					got.Messages[i].At = time.Time{}
				}
			}
			if d := cmp.Diff(c.want, got.Messages, cmpopts.IgnoreFields(agent.Message{}, "Seq"), cmpopts.EquateEmpty()); d != "" || len(b.faults) > 0 {
				t.Errorf("%s\n%v", d, b.faults)
			}
			head := agent.Conversation{
				ID: got.ID, AgentID: got.AgentID, Title: got.Title, Archived: got.Archived, Tags: got.Tags, Metadata: got.Metadata, SystemPrompt: got.SystemPrompt,
			}
			if c.head.ID == "" {
				head.ID = ""
			}
			if c.head.Title == "" {
				head.Title = ""
			}
			if d := cmp.Diff(c.head, head, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(agent.Conversation{})); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestWhatAnAgentItsFieldsAndAnEventSayIsStored(t *testing.T) {
	b := open(t)
	b.load(t, Options{}, file(t, "a.json", `{"agent_id":"a","name":"A","agent_type":"m","system_prompt":"be","capabilities":["x"],"config":{"t":{"Float":0.5}},"custom_state":{"n":{"Int":9007199254740993}},"created_at":1,"modified_at":2,"version":3,"metadata":{"k":"v"},"other":[1]}`),
		file(t, "N_0123456789abcdef.json", `{"f":{"x":["->",1.50]}}`),
		file(t, "s.jsonl", `{"jsonrpc":"2.0","method":"odd","params":{"session_id":"s","turn_id":"t","timestamp":"2026-01-02T03:04:05Z","p":["->",1.50]},"more":{"x":null}}`))
	a, err := b.agents.Load(t.Context(), "a")
	ok(t, err)
	want := &agent.State{
		ID: "a", Name: "A", Type: "m", SystemPrompt: "be", Capabilities: []string{"x"}, Config: map[string]any{"t": 0.5}, Custom: map[string]any{"n": int64(9007199254740993)},
		Created: time.Unix(1, 0).UTC(), Modified: time.Unix(2, 0).UTC(), Version: 3, Metadata: map[string]string{"k": "v", "other": "[1]"},
	}
	if d := cmp.Diff(want, a, cmpopts.IgnoreFields(agent.State{}, "Revision"), cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
	fields, err := b.agents.Fields("N_0123456789abcdef").LoadAll(t.Context())
	if ok(t, err); string(fields["f"]) != `{"x":["->",1.50]}` {
		t.Errorf("the fields are %s", fields)
	}
	n := 0
	for e, err := range b.sessions.Events(t.Context(), "s", 0) {
		ok(t, err)
		n++
		wantEvent := session.Event{
			Session: "s", Turn: "t", Method: "odd", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
			Params: json.RawMessage(`{"p":["->",1.50]}`), More: json.RawMessage(`{"more":{"x":null}}`),
		}
		if d := cmp.Diff(wantEvent, e, cmpopts.IgnoreFields(session.Event{}, "ID", "Seq", "Received")); d != "" {
			t.Error(d)
		}
	}
	if n != 1 {
		t.Errorf("there are %d events", n)
	}
}
