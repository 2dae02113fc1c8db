package transfer

import (
	"bytes"
	"context"
	"crypto/md5"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bench is a store in memory with what imports need.
type bench struct {
	agents   *agent.Store
	sessions *session.Store
	faults   []Fault
	remarks  []string
}

func open(t testing.TB) *bench {
	t.Helper()
	m, err := manager.OpenMemory(t.Context(), embedded.Tiers())
	ok(t, err)
	t.Cleanup(func() { ok(t, m.Close(context.Background())) })
	return &bench{agents: agent.New(m), sessions: session.New(m)}
}

func (b *bench) load(t testing.TB, o Options, paths ...string) Summary {
	t.Helper()
	b.faults, b.remarks = nil, nil
	o.Agents, o.Sessions = b.agents, b.sessions
	o.Fault = func(f Fault) { b.faults = append(b.faults, f) }
	o.Remark = func(text string) { b.remarks = append(b.remarks, text) }
	sum, err := Import(t.Context(), paths, o)
	ok(t, err)
	return sum
}

// file writes a file of its own.
func file(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	ok(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// twice imports a file three times, first without doing it, and holds that the runs
// agree.
func (b *bench) twice(t *testing.T, path string, want Summary) {
	t.Helper()
	ignored := cmpopts.IgnoreFields(Summary{}, "DryRun", "Files", "Passed")
	if d := cmp.Diff(want, b.load(t, Options{DryRun: true}, path), ignored); d != "" {
		t.Errorf("dry run: %s", d)
	}
	if d := cmp.Diff(want, b.load(t, Options{}, path), ignored); d != "" {
		t.Errorf("%s\n%v", d, b.faults)
	}
	for _, c := range []*Count{&want.Agents, &want.Conversations, &want.Messages, &want.Checkpoints, &want.Fields, &want.Sessions, &want.Events} {
		*c = Count{There: c.Added + c.There}
	}
	second := b.load(t, Options{}, path)
	second.Agents, want.Agents = Count{}, Count{} // those that are made are only looked at
	if d := cmp.Diff(want, second, ignored); d != "" {
		t.Errorf("second import: %s", d)
	}
}

func TestEveryFormatComesInOnce(t *testing.T) {
	state := `{"agent_id":"a","name":"A","agent_type":"m","capabilities":[],"config":{"t":{"Float":0.5}},"custom_state":{"n":{"Int":9007199254740993},"m":{"Map":{"k":{"Bool":true}}}},"active_conversations":[],"created_at":1,"modified_at":2,"version":3,"metadata":{}}`
	conversations := `[{"id":"c","agent_id":"a","title":"T","messages":[{"id":"m","role":"User","content":"hé \"x\"","timestamp":5,"attachments":[],"tool_calls":[],"metadata":{}}],"metadata":{},"created_at":1,"last_message_at":5,"archived":true,"tags":[]}]`
	sum := md5.Sum([]byte("[" + state + "," + conversations + "]"))
	checkpoint := `{"id":"p","agent_id":"a","name":"N","agent_state":` + state + `,"conversations":` + conversations + `,"checkpoint_type":"PreOperation","created_at":9,"size_bytes":1,"checksum":"` + hex.EncodeToString(sum[:]) + `"}`
	for _, c := range []struct {
		why, name, text string
		want            Summary
	}{
		{"an agent is one", "a.json", state, Summary{Agents: Count{Added: 1}}},
		{
			"a conversation makes its agent", "c.json", strings.TrimSuffix(strings.TrimPrefix(conversations, "["), "]"),
			Summary{Agents: Count{Added: 1}, Conversations: Count{Added: 1}, Messages: Count{Added: 1}},
		},
		{
			"what stands before the cut comes in", "c.json", `{"id":"c","agent_id":"a","messages":[{"id":"1","role":"user","content":"x"},{"id":`,
			Summary{Faults: 1, Agents: Count{Added: 1}, Conversations: Count{Added: 1}, Messages: Count{Added: 1}},
		},
		{"a checkpoint comes with its sum", "p.json", checkpoint, Summary{Agents: Count{Added: 1}, Checkpoints: Count{Added: 1}}},
		{"one byte that is another is found by the sum", "p.json", strings.Replace(checkpoint, `hé`, `he`, 1), Summary{Faults: 1}},
		{
			"an iteration is a checkpoint", "i.json", `{"id":"i","agent_id":"w","conversation":{"messages":[{"role":"user","content":"x"}],"max_context_tokens":7},"iteration":3,"metadata":{"k":"v"},"created_at":"2026-01-02T03:04:05.123456789Z"}`,
			Summary{Agents: Count{Added: 1}, Checkpoints: Count{Added: 1}},
		},
		{"a file called by a key holds fields", "Name_0123456789abcdef.json", `{"a":1,"b":{"x":[]}}`, Summary{Fields: Count{Added: 2}}},
		{
			"a chat is a conversation", "chat.json", `[{"role":"user","content":"x"},{"role":"assistant","content":"y"},7]`,
			Summary{Faults: 1, Agents: Count{Added: 1}, Conversations: Count{Added: 1}, Messages: Count{Added: 2}},
		},
		{
			"what is sent to a model is a chat", "request.json", `{"model":"m","messages":[{"role":"user","content":"x"}],"temperature":0.5}`,
			Summary{Agents: Count{Added: 1}, Conversations: Count{Added: 1}, Messages: Count{Added: 1}},
		},
		{
			"each line may be a chat", "chats.jsonl", `{"messages":[{"role":"user","content":"x"}]}` + "\n" + `{"messages":[{"role":"user","content":"x"}]}` + "\n",
			Summary{Agents: Count{Added: 1}, Conversations: Count{Added: 2}, Messages: Count{Added: 2}},
		},
		{
			"each line may be a message", "chat.jsonl", `{"role":"user","content":"x"}` + "\n" + `{"role":"assis` + "\n" + `{"role":"user","content":"x"}`,
			Summary{Faults: 1, Agents: Count{Added: 1}, Conversations: Count{Added: 1}, Messages: Count{Added: 2}},
		},
		{
			"a run has a history", "r.traj", `{"trajectory":[],"history":[{"role":"user","content":"x"},{"role":"tool","content":"y","tool_call_ids":["none"]}],"info":{}}`,
			Summary{Agents: Count{Added: 1}, Conversations: Count{Added: 1}, Messages: Count{Added: 2}},
		},
		{
			"events make sessions", "s.jsonl", `{"jsonrpc":"2.0","method":"x","params":{"session_id":"s"}}` + "\n" + `{"jsonrpc":"2.0","method":"x","params":{"session_id":"s"}}` + "\n" + `{"jsonrpc":"2.0","method":"x"}` + "\n" + `{"jsonrpc"`,
			Summary{Faults: 2, Sessions: Count{Added: 1}, Events: Count{Added: 2}},
		},
		{"what is nothing known is a fault", "n.json", `{"x":1}`, Summary{Faults: 1}},
		{"nothing is nothing known", "n.json", ``, Summary{Faults: 1}},
	} {
		t.Run(c.why, func(t *testing.T) { open(t).twice(t, file(t, c.name, c.text), c.want) })
	}
}

func TestCheckpointShowsWhatItsFileSays(t *testing.T) {
	b := open(t)
	b.load(t, Options{}, file(t, "i.json", `{"id":"i","agent_id":"w","conversation":{"messages":[{"role":"User","content":"x"}],"system_prompt":"be brief","max_context_tokens":7},"iteration":3,"metadata":{"k":"v"},"created_at":"2026-01-02T03:04:05.123456789Z"}`))
	c, err := b.agents.LoadCheckpoint(t.Context(), "w", "i")
	ok(t, err)
	conv := c.Conversations[0]
	if c.Iteration != 3 || c.Metadata["k"] != "v" || !c.Created.Equal(time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC)) ||
		conv.SystemPrompt != "be brief" || conv.MaxContextTokens != 7 || conv.Messages[0].Role != agent.User || !c.Keep {
		t.Errorf("%+v %+v", c, conv)
	}
	if _, err := b.agents.Restore(t.Context(), "w", "i", agent.RestoreOptions{}); err != nil {
		t.Error(err)
	}
}

func TestTaggedValuesBecomePlain(t *testing.T) {
	got, err := valuesOf(json.RawMessage(`{"i":{"Int":9007199254740993},"l":{"List":[{"Str":"x"},{"Null":null}]},"m":{"Map":{"k":{"Bool":true}}},"plain":{"Int":"no number"},"two":{"Int":1,"Float":2.0}}`))
	ok(t, err)
	want := map[string]any{
		"i": int64(9007199254740993), "l": []any{"x", nil}, "m": map[string]any{"k": true},
		"plain": map[string]any{"Int": "no number"}, "two": map[string]any{"Int": int64(1), "Float": 2.0},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestAgentThatIsThereIsKeptAndGuarded(t *testing.T) {
	b := open(t)
	ok(t, b.agents.Save(t.Context(), agent.NewState("a", "mine", "m")))
	dir := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(dir, "a.json"), []byte(`{"agent_id":"a","name":"theirs","agent_type":"m","created_at":1,"modified_at":1}`), 0o600))
	b.load(t, Options{}, dir)
	if a, err := b.agents.Load(t.Context(), "a"); err != nil || a.Name != "mine" || len(b.remarks) != 1 {
		t.Errorf("%v %v %v", a, err, b.remarks)
	}
	b.load(t, Options{Replace: true}, dir)
	a, err := b.agents.Load(t.Context(), "a")
	ok(t, err)
	before, err := b.agents.LoadCheckpoint(t.Context(), "a", "latest")
	ok(t, err)
	if a.Name != "theirs" || before.State.Name != "mine" || before.Kind != agent.PreOperation {
		t.Errorf("%v, before %v", a.Name, before.State.Name)
	}
}

func TestFileOfAnAgentTakesThePlaceOfOneThatWasMade(t *testing.T) {
	b := open(t)
	b.load(t, Options{}, file(t, "c.json", `{"id":"c","agent_id":"a","messages":[]}`))
	b.load(t, Options{}, file(t, "a.json", `{"agent_id":"a","name":"real","agent_type":"m","created_at":1,"modified_at":1}`))
	if a, err := b.agents.Load(t.Context(), "a"); err != nil || a.Name != "real" || a.Metadata[madeFor] != "" {
		t.Errorf("%+v %v", a, err)
	}
}

func TestMessageThatIsRefusedLeavesTheOthers(t *testing.T) {
	b := open(t)
	sum := b.load(t, Options{}, file(t, "c.json", `{"id":"c","agent_id":"a","messages":[{"id":"1","role":"user","content":"x"},
{"id":"`+strings.Repeat("x", 300)+`","role":"user","content":"y"},
{"id":"3","role":"user","content":"z"}]}`))
	if sum.Messages.Added != 2 || len(b.faults) != 1 || b.faults[0].Line != 2 || !errors.Is(&b.faults[0], tiers.ErrKey) {
		t.Errorf("%+v %v", sum, b.faults)
	}
}

func TestConversationGrowsByWhatItsFileHasGot(t *testing.T) {
	b := open(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "chat.json")
	ok(t, os.WriteFile(path, []byte(`[{"role":"user","content":"x"}]`), 0o600))
	b.load(t, Options{}, path)
	ok(t, os.WriteFile(path, []byte(`[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]`), 0o600))
	sum := b.load(t, Options{}, path)
	if sum.Messages != (Count{1, 1}) || sum.Conversations != (Count{0, 1}) {
		t.Errorf("%+v", sum)
	}
}

func TestLogOfManyMessagesComesInWhole(t *testing.T) {
	b := open(t)
	var text bytes.Buffer
	for i := range 1000 {
		fmt.Fprintf(&text, `{"type":"user","uuid":"u%d","sessionId":"s%d","timestamp":"2026-01-02T03:04:05Z","message":{"role":"user","content":"n %d"}}`+"\n", i, i/300%2, i)
	}
	path := file(t, "log.jsonl", text.String())
	want := Summary{Agents: Count{Added: 1}, Conversations: Count{Added: 2}, Messages: Count{Added: 1000}}
	b.twice(t, path, want)
}

func TestCodeLogTellsCallsAndTheirResults(t *testing.T) {
	b := open(t)
	b.load(t, Options{Owner: "coder"}, file(t, "log.jsonl", `{"type":"assistant","uuid":"u1","sessionId":"s","timestamp":"2026-01-02T03:04:05Z","isSidechain":false,"cwd":"/x","message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"},{"type":"tool_use","id":"t","name":"Bash","input":{"c":1}}],"usage":{"output_tokens":5}}}
{"type":"user","uuid":"u2","parentUuid":"u1","sessionId":"s","timestamp":"2026-01-02T03:04:06Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","is_error":true,"content":[{"type":"text","text":"bad"}]},{"type":"text","text":"go on"}]}}
{"type":"file-history-snapshot","snapshot":{}}
{"type":"summary","summary":"What it was about","leafUuid":"u2"}
`))
	c, err := b.agents.LoadConversation(t.Context(), "s", agent.Page{})
	ok(t, err)
	if c.AgentID != "coder" || c.Title != "What it was about" || len(c.Messages) != 3 || len(b.faults) > 0 {
		t.Fatalf("%+v %v", c, b.faults)
	}
	call, result, rest := c.Messages[0], c.Messages[1], c.Messages[2]
	if call.Content != "a" || *call.Tokens != 5 || call.Metadata["thinking"] != "hm" || call.Metadata["cwd"] != "/x" ||
		call.ToolCalls[0].Status != agent.Failed || *call.ToolCalls[0].Result != "bad" || string(call.ToolCalls[0].Arguments) != `{"c":1}` {
		t.Errorf("%+v", call)
	}
	if result.Role != agent.ToolRole || result.ParentID != "u1" || rest.Content != "go on" || rest.Role != agent.User {
		t.Errorf("%+v %+v", result, rest)
	}
}

func TestExportComesInAgainWithoutADifference(t *testing.T) {
	ctx, from, to := t.Context(), open(t), open(t)
	a := agent.NewState("a/b", "Ä", "m")
	a.Custom = map[string]any{"big": int64(9007199254740993), "list": []any{nil, "x"}, "empty": map[string]any{}}
	a.Metadata, a.Capabilities = map[string]string{"k": "v\n"}, []string{"x"}
	ok(t, from.agents.Save(ctx, a))
	c := agent.NewConversation(a.ID)
	c.ID, c.Tags, c.Archived, c.SystemPrompt, c.MaxContextTokens = "c/1", []string{"t"}, true, "be", 5
	call := agent.NewMessage(agent.Assistant, "")
	call.ToolCalls = []agent.ToolCall{{ID: "t", Name: "f", Arguments: json.RawMessage(`{"n":1.50}`)}}
	file := agent.NewMessage(agent.User, "see")
	file.Attachments = []agent.Attachment{{Kind: agent.Code, Name: "x.go", Content: strings.Repeat("x", 5000)}}
	c.Add(agent.NewMessage(agent.User, "```\n# no heading"), call, agent.ToolResult("t", "done"), file)
	ok(t, from.agents.SaveConversation(ctx, c))
	_, err := from.agents.Checkpoint(ctx, agent.CheckpointInfo{ID: "p", AgentID: a.ID, Name: "n", Iteration: 4, Metadata: map[string]string{"x": "y"}})
	ok(t, err)
	export := func(b *bench) string {
		var text bytes.Buffer
		_, err := ExportAgent(ctx, b.agents, a.ID, &text, true)
		ok(t, err)
		return text.String()
	}
	path := filepath.Join(t.TempDir(), "a.jsonl")
	ok(t, os.WriteFile(path, []byte(export(from)), 0o600))
	want := Summary{Agents: Count{Added: 1}, Conversations: Count{Added: 1}, Messages: Count{Added: 4}, Checkpoints: Count{Added: 1}}
	to.twice(t, path, want)
	bare := func(b *bench) (*agent.State, *agent.Conversation, *agent.Checkpoint) {
		st, err := b.agents.Load(ctx, a.ID)
		ok(t, err)
		conv, err := b.agents.LoadConversation(ctx, c.ID, agent.Page{})
		ok(t, err)
		cp, err := b.agents.LoadCheckpoint(ctx, "", "p")
		ok(t, err)
		return st, conv, cp
	}
	s1, c1, p1 := bare(from)
	s2, c2, p2 := bare(to)
	own := cmp.Options{
		cmpopts.IgnoreFields(agent.State{}, "Revision"), cmpopts.IgnoreFields(agent.Conversation{}, "Revision"),
		cmpopts.IgnoreFields(agent.CheckpointInfo{}, "SHA256", "Stored", "Size"), cmpopts.EquateEmpty(),
	}
	for _, d := range []string{cmp.Diff(s1, s2, own), cmp.Diff(c1, c2, own), cmp.Diff(p1, p2, own)} {
		if d != "" {
			t.Error(d)
		}
	}
	var page bytes.Buffer
	ok(t, AgentMarkdown(ctx, from.agents, a.ID, &page))
	for _, text := range []string{"# Ä\n", "## c/1\n", "### user, ", "> ```\n> # no heading", "Calls f (completed)", "x.go", "done"} {
		if !strings.Contains(page.String(), text) {
			t.Errorf("the page lacks %q:\n%s", text, &page)
		}
	}
}

func TestDatabasesComeInOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	db, err := sql.Open("sqlite", path)
	ok(t, err)
	for _, statement := range []string{
		`CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, payload TEXT NOT NULL, created_at INTEGER NOT NULL)`,
		`INSERT INTO events VALUES (4,'s','{"jsonrpc":"2.0","method":"a","params":{"session_id":"s","n":1}}',5), (9,'s','{',6), (10,'s','{"jsonrpc":"2.0","method":"a",' || char(10) || '"params":{"session_id":"other"}}',6), (11,'s','{"jsonrpc":"2.0"}',7), (12,'s','{"jsonrpc":"2.0","method":"a"}',8)`,
		`CREATE TABLE checkpoints (id TEXT PRIMARY KEY, agent_id TEXT NOT NULL, iteration INTEGER NOT NULL, conversation BLOB NOT NULL, metadata TEXT DEFAULT '{}', created_at INTEGER NOT NULL)`,
		`INSERT INTO checkpoints VALUES ('2','a',2,'{"messages":[]}','{}',7), ('1','a',1,'{"messages":[]}','{}',7), ('x',x'00ff',1,'{','{}',7)`,
	} {
		_, err := db.Exec(statement)
		ok(t, err)
	}
	ok(t, db.Close())
	b := open(t)
	b.twice(t, path, Summary{Faults: 4, Agents: Count{Added: 1}, Checkpoints: Count{Added: 2}, Sessions: Count{Added: 1}, Events: Count{Added: 2}})
	var rows []string
	for _, f := range b.faults {
		rows = append(rows, f.Where)
	}
	if d := cmp.Diff([]string{"row 3", "row 9", "row 10", "row 11"}, rows); d != "" {
		t.Error(d)
	}
	latest, err := b.agents.LoadCheckpoint(t.Context(), "a", "latest")
	if ok(t, err); latest.ID != "1" {
		t.Errorf("the last row of one second is the newest, got %q", latest.ID)
	}
}

func TestLongPieceIsPassedOverAndTheNextIsRead(t *testing.T) {
	s := newSkimmer(strings.NewReader(`["` + strings.Repeat(`\\\"[`, 1000) + `", {"a":[1,"]"]}, 7 ]`))
	var got []string
	ok(t, s.array(func() error {
		text, whole, err := s.value(20)
		got = append(got, fmt.Sprint(string(text), whole))
		return err
	}))
	if d := cmp.Diff([]string{"false", `{"a":[1,"]"]}true`, "7true"}, got); d != "" {
		t.Error(d)
	}
}

func TestRealTranscriptsComeIn(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "shared", "data")
	if _, err := os.Stat(dir); err != nil {
		return // they are not part of the project
	}
	open(t).twice(t, dir, Summary{
		Faults: 6, Agents: Count{Added: 2}, Conversations: Count{Added: 8}, Messages: Count{Added: 169},
	})
}
