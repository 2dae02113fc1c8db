package transfer

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/session"
)

// TestWhatComesInFromAnyFormatGoesRoundWithoutADifference brings in transcripts of all
// formats, finds them by a search, makes a checkpoint of each agent, exports everything,
// brings that into another store, and exports it from there.
func TestWhatComesInFromAnyFormatGoesRoundWithoutADifference(t *testing.T) {
	ctx, from, to := t.Context(), open(t), open(t)
	from.load(t, Options{}, samples(t)...)
	from.remember(t)
	var exports []string
	for st, err := range from.agents.List(ctx, agent.After{}) {
		ok(t, err)
		for c, err := range from.agents.Conversations(ctx, st.ID, agent.After{}) {
			ok(t, err)
			from.finds(t, c.ID)
		}
		_, err := from.agents.Checkpoint(ctx, agent.CheckpointInfo{AgentID: st.ID, Name: "before it leaves", Keep: true})
		ok(t, err)
		var text bytes.Buffer
		_, err = ExportAgent(ctx, from.agents, st.ID, &text, true)
		ok(t, err)
		exports = append(exports, text.String())
	}
	for info, err := range from.sessions.All(ctx) {
		ok(t, err)
		var text bytes.Buffer
		_, err := ExportSession(ctx, from.sessions, info.ID, &text)
		ok(t, err)
		exports = append(exports, text.String())
	}
	if len(exports) < 7 {
		t.Fatalf("%d agents and sessions came in", len(exports))
	}
	for i, want := range exports {
		path := file(t, fmt.Sprint(i, ".jsonl"), want)
		sum := to.load(t, Options{}, path)
		if sum.Faults > 0 {
			t.Errorf("an export has faults: %v", to.faults)
		}
		var again bytes.Buffer
		head := lineOf(t, strings.SplitN(want, "\n", 3)[1])
		if a, is := head["agent"].(map[string]any); is {
			_, err := ExportAgent(ctx, to.agents, a["id"].(string), &again, true)
			ok(t, err)
		} else {
			_, err := ExportSession(ctx, to.sessions, head["session"].(map[string]any)["session_id"].(string), &again)
			ok(t, err)
		}
		if d := cmp.Diff(meaning(t, want), meaning(t, again.String())); d != "" {
			t.Errorf("%v comes out otherwise:\n%s", head, d)
		}
		if d := cmp.Diff(strings.Split(bare(want), "\n"), strings.Split(bare(again.String()), "\n")); d != "" {
			t.Errorf("%v comes out with other bytes:\n%s", head, d)
		}
		second := to.load(t, Options{}, path)
		for _, c := range []Count{second.Agents, second.Fields, second.Conversations, second.Messages, second.Checkpoints, second.Sessions, second.Events} {
			if c.Added > 0 {
				t.Errorf("a second import of %v adds something: %+v", head, second)
				break
			}
		}
	}
}

// samples are files of every format, and transcripts of real agents where a folder of
// them stands beside the module.
func samples(t *testing.T) (paths []string) {
	t.Helper()
	for name, text := range map[string]string{
		"agent.json":                 `{"agent_id":"a","name":"A","agent_type":"m","capabilities":["x"],"config":{"t":{"Float":0.5}},"custom_state":{"n":{"Int":9007199254740993}},"created_at":1,"modified_at":2,"version":3,"metadata":{"k":"v"}}`,
		"conversation.json":          `{"id":"c","agent_id":"a","title":"T","messages":[{"id":"m","role":"User","content":"hello \"there\" é","timestamp":5,"metadata":{"k":"v"}}],"metadata":{},"created_at":1,"archived":true,"tags":["t"]}`,
		"iteration.json":             `{"id":"i","agent_id":"w","conversation":{"messages":[{"role":"user","content":"iteration text"}],"max_context_tokens":7},"iteration":3,"metadata":{"k":"v"},"created_at":"2026-01-02T03:04:05.123456789Z"}`,
		"chat.json":                  `[{"role":"user","content":"a chat"},{"role":"assistant","content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{\"n\":1.50}"}}]},{"role":"tool","tool_call_id":"t1","content":"done"}]`,
		"chats.jsonl":                `{"messages":[{"role":"user","content":"line one"}]}` + "\n" + `{"messages":[{"role":"developer","content":"line two"}]}` + "\n",
		"run.traj":                   `{"trajectory":[],"history":[{"role":"system","content":"be short"},{"role":"user","content":"run it"}],"info":{}}`,
		"code.jsonl":                 `{"type":"user","uuid":"u1","sessionId":"s9","timestamp":"2026-01-02T03:04:05.6Z","message":{"role":"user","content":"code log"}}` + "\n",
		"session.jsonl":              `{"jsonrpc":"2.0","method":"session.init","params":{"session_id":"live","model":"m"}}` + "\n" + `{"jsonrpc":"2.0","method":"odd","params":[1,2.50],"sagestore":{"session":"live"},"more":{"x":null}}` + "\n",
		"stopped.jsonl":              `{"jsonrpc":"2.0","method":"user.prompt.submit","params":{"session_id":"over","turn_id":"t","prompt":"hi","timestamp":"2026-01-02T03:04:05Z"}}` + "\n" + `{"jsonrpc":"2.0","method":"session.stop","params":{"session_id":"over","success":true,"timestamp":"2026-01-02T03:04:06Z"}}` + "\n",
		"Name_0123456789abcdef.json": `{"field":1}`,
		"calls.jsonl": `{"type":"assistant","uuid":"v1","sessionId":"calls","timestamp":"2026-01-02T03:04:05.123456Z","cwd":"/x","message":{"id":"msg_1","role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"looking"},{"type":"tool_use","id":"good","name":"Bash","input":{"c":1.50}},{"type":"tool_use","id":"bad","name":"Read","input":{"z":1,"a":"<&>"}}],"usage":{"output_tokens":5}}}` + "\n" +
			`{"type":"user","uuid":"v2","parentUuid":"v1","sessionId":"calls","timestamp":"2026-01-02T03:04:04Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"good","content":"fine"},{"type":"tool_result","tool_use_id":"bad","is_error":true,"content":"no such file"},{"type":"text","text":"go on"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}}` + "\n" +
			`{"type":"summary","summary":"What it was about","leafUuid":"v2"}` + "\n",
		"checkpoint.json": `{"id":"p","agent_id":"whole","name":"N","description":"D","agent_state":{"agent_id":"whole","name":"W","agent_type":"m","custom_state":{"k":[1,null]},"created_at":1,"modified_at":2,"version":3},"conversations":[{"id":"shown","agent_id":"whole","title":"T","messages":[{"id":"q","role":"User","content":"shown text","timestamp":5,"tokens":4,"parent_id":"before","metadata":{"k":"v"},"attachments":[{"id":"f","name":"x.go","attachment_type":"Code","content":"package x"}]},{"id":"r","role":"Assistant","content":"","timestamp":6,"tool_calls":[{"id":"t","name":"f","arguments":{"n":1},"result":"out","status":"Completed"}]}],"created_at":4,"tags":["x"]}],"checkpoint_type":"PreOperation","created_at":9,"checksum":""}`,
	} {
		paths = append(paths, file(t, name, text))
	}
	paths = append(paths, foreignDatabase(t))
	if dir := filepath.Join("..", "..", "..", "shared", "data"); exists(dir) {
		paths = append(paths, dir)
	}
	return paths
}

// foreignDatabase is one of SQLite with events, checkpoints and fields.
func foreignDatabase(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s.db")
	db, err := sql.Open("sqlite", path)
	ok(t, err)
	for _, statement := range []string{
		`CREATE TABLE events (id INTEGER PRIMARY KEY, session_id TEXT, payload TEXT, created_at INTEGER)`,
		`INSERT INTO events VALUES
			(4, 'rows', '{"jsonrpc":"2.0","method":"user.prompt.submit","params":{"session_id":"rows","turn_id":"t1","prompt":"from a row","timestamp":"2026-01-02T03:04:05Z"}}', 5),
			(7, 'rows', '{"jsonrpc":"2.0","method":"odd","params":{"session_id":"rows","turn_id":"t2","n":1.50,"l":[null]}}', 6)`,
		`CREATE TABLE checkpoints (id TEXT PRIMARY KEY, agent_id TEXT, iteration INTEGER, conversation BLOB, metadata TEXT, created_at INTEGER)`,
		`INSERT INTO checkpoints VALUES
			('row-1', 'rows', 1, '{"messages":[{"role":"user","content":"first row"}]}', '{"k":"v"}', 7),
			('row-2', 'rows', 2, '{"messages":[{"role":"user","content":"first row"},{"role":"assistant","content":"second row"}]}', '{}', 8)`,
	} {
		_, err := db.Exec(statement)
		ok(t, err)
	}
	ok(t, db.Close())
	return path
}

// remembered are fields of all that JSON knows, with names of all that may be in one.
var remembered = map[string]any{
	"n": json.Number("9007199254740993"), "cents": json.RawMessage("1.50"), "nothing": nil, "": "an empty name", "a/b%c \"d\"": []any{true, "<&>\u2028"},
	"größe": map[string]any{"z": 1, "a": map[string]any{}}, "n ": strings.Repeat("x", 70_000),
}

// remember gives the agents fields: one all kinds, the others a value that saves itself.
func (b *bench) remember(t *testing.T) {
	t.Helper()
	ok(t, b.agents.Fields("a").SaveAll(t.Context(), remembered))
	for st, err := range b.agents.List(t.Context(), agent.After{}) {
		ok(t, err)
		if st.ID == "a" {
			continue
		}
		p, err := agent.Persist(t.Context(), b.agents.Fields(st.ID), "steps", 0)
		ok(t, err)
		ok(t, p.Set(t.Context(), len(st.ID)))
	}
}

// holdings are all that a store says of its agents and sessions, and what a search in
// it finds.
type holdings struct {
	Agents        []*agent.State
	Fields        map[string]map[string]json.RawMessage // by agent and name
	Conversations []*agent.Conversation
	Checkpoints   []*agent.Checkpoint
	Restored      map[string][]*agent.Conversation // by the id of the checkpoint
	Sessions      []session.State
	Events        []session.Event
	Found         map[string][]string // messages, by what was looked for
}

// holds answers them as a program that loads them sees them. Last it restores every
// checkpoint, the newest first.
func (b *bench) holds(t *testing.T) (all holdings) {
	t.Helper()
	ctx := t.Context()
	all.Restored, all.Found = map[string][]*agent.Conversation{}, map[string][]string{}
	all.Fields = map[string]map[string]json.RawMessage{}
	for st, err := range b.agents.List(ctx, agent.After{}) {
		ok(t, err)
		all.Agents = append(all.Agents, st)
		fields, err := b.agents.Fields(st.ID).LoadAll(ctx)
		ok(t, err)
		all.Fields[st.ID] = fields
		all.Conversations = append(all.Conversations, b.talksOf(t, st.ID)...)
	}
	words := map[string]bool{}
	for _, c := range all.Conversations {
		for i := range c.Messages {
			if fields := strings.Fields(c.Messages[i].Content); len(fields) > 0 && len(words) < 8 {
				words[fields[len(fields)/2]] = true
			}
		}
	}
	for word := range words {
		most := 1000
		hits, err := b.agents.Search(ctx, agent.Query{Text: word, Limit: &most})
		ok(t, err)
		for _, h := range hits {
			all.Found[word] = append(all.Found[word], h.ConversationID+" "+h.Message.ID)
		}
		slices.Sort(all.Found[word]) // those that fit as well stand by their places
	}
	for info, err := range b.sessions.All(ctx) {
		ok(t, err)
		st, err := b.sessions.Load(ctx, info.ID)
		ok(t, err)
		all.Sessions = append(all.Sessions, st)
		for e, err := range b.sessions.Events(ctx, info.ID, 0) {
			ok(t, err)
			all.Events = append(all.Events, e)
		}
	}
	for _, st := range all.Agents {
		var ids []string
		for info, err := range b.agents.Checkpoints(ctx, st.ID, agent.After{}) {
			ok(t, err)
			ids = append(ids, info.ID)
		}
		for _, id := range ids {
			c, err := b.agents.LoadCheckpoint(ctx, st.ID, id)
			ok(t, err)
			all.Checkpoints = append(all.Checkpoints, c)
			_, err = b.agents.Restore(ctx, st.ID, id, agent.RestoreOptions{NoRecovery: true})
			ok(t, err)
			all.Restored[id] = b.talksOf(t, st.ID)
		}
	}
	return all
}

// talksOf answers the conversations of an agent with their messages, by their ids.
func (b *bench) talksOf(t *testing.T, id string) (all []*agent.Conversation) {
	t.Helper()
	for c, err := range b.agents.Conversations(t.Context(), id, agent.After{}) {
		ok(t, err)
		whole, err := b.agents.LoadConversation(t.Context(), c.ID, agent.Page{})
		ok(t, err)
		all = append(all, whole)
	}
	slices.SortFunc(all, func(a, b *agent.Conversation) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// TestAnotherStoreHoldsWhatAnExportBringsIt does not trust in the text of an export: it
// compares what two stores answer, the one that files of all formats were brought into,
// and the one that its exports were.
func TestAnotherStoreHoldsWhatAnExportBringsIt(t *testing.T) {
	ctx, from, to := t.Context(), open(t), open(t)
	from.load(t, Options{}, samples(t)...)
	from.remember(t)
	n := 0
	export := func(write func(io.Writer) error) {
		t.Helper()
		var text bytes.Buffer
		ok(t, write(&text))
		n++
		if sum := to.load(t, Options{}, file(t, fmt.Sprint(n, ".jsonl"), text.String())); sum.Faults > 0 {
			t.Errorf("an export has faults: %v", to.faults)
		}
	}
	for st, err := range from.agents.List(ctx, agent.After{}) {
		ok(t, err)
		if st.ID != "rows" { // which has two, and one that it was imported at
			_, err := from.agents.Checkpoint(ctx, agent.CheckpointInfo{AgentID: st.ID, Name: "before it leaves", Description: "all of it", Keep: true})
			ok(t, err)
		}
		export(func(w io.Writer) error { _, err := ExportAgent(ctx, from.agents, st.ID, w, true); return err })
	}
	for info, err := range from.sessions.All(ctx) {
		ok(t, err)
		export(func(w io.Writer) error { _, err := ExportSession(ctx, from.sessions, info.ID, w); return err })
	}
	want, got := from.holds(t), to.holds(t)
	if len(want.Agents) < 6 || len(want.Conversations) < 6 || len(want.Checkpoints) < 8 || len(want.Events) < 6 || len(want.Found) < 6 || len(want.Fields["a"]) != len(remembered) {
		t.Errorf("%d agents, %d conversations, %d checkpoints, %d events and %d words came in",
			len(want.Agents), len(want.Conversations), len(want.Checkpoints), len(want.Events), len(want.Found))
	}
	own := cmp.Options{ // what is of the store that it is in
		cmpopts.IgnoreFields(agent.State{}, "Revision"), cmpopts.IgnoreFields(agent.Conversation{}, "Revision"),
		cmpopts.IgnoreFields(agent.CheckpointInfo{}, "Number", "SHA256", "Stored", "Size"), cmpopts.IgnoreUnexported(session.State{}),
	}
	if d := cmp.Diff(want, got, own); d != "" {
		t.Errorf("the other store holds something else:\n%s", d)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// finds holds that a conversation is found by what its first message with a word says.
func (b *bench) finds(t *testing.T, id string) {
	t.Helper()
	c, err := b.agents.LoadConversation(t.Context(), id, agent.Page{})
	ok(t, err)
	for _, m := range c.Messages {
		words := strings.Fields(m.Content)
		if len(words) == 0 || len(words[0]) < 3 {
			continue
		}
		most := 1000
		hits, err := b.agents.Search(t.Context(), agent.Query{Text: words[0], AgentID: c.AgentID, Limit: &most})
		ok(t, err)
		for _, h := range hits {
			if h.ConversationID == id {
				return
			}
		}
		t.Errorf("a search for %q does not find conversation %q", words[0], id)
		return
	}
}

func lineOf(t *testing.T, text string) (line map[string]any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	ok(t, d.Decode(&line))
	return line
}

// meaning is an export without what every store says for itself: its sums and sizes,
// and numbers of checkpoints.
func meaning(t *testing.T, export string) (all []map[string]any) {
	t.Helper()
	for text := range strings.Lines(export) {
		line := lineOf(t, text)
		if c, is := line["checkpoint"].(map[string]any); is {
			for _, name := range []string{"sha256", "stored", "size", "number"} {
				delete(c, name)
			}
		}
		all = append(all, line)
	}
	return all
}

// ofStore are the members of a checkpoint that are of the store that it is in.
var ofStore = regexp.MustCompile(`"(number|size|stored)":\d+|"sha256":"[0-9a-f]*"`)

// bare is an export without them.
func bare(export string) string {
	lines := strings.Split(export, "\n")
	for i, text := range lines {
		if head, rest, is := strings.Cut(text, `"created"`); is && strings.HasPrefix(text, `{"checkpoint":`) {
			head = ofStore.ReplaceAllString(head, "")
			info, shown, _ := strings.Cut(rest, `"messages":`)
			lines[i] = head + ofStore.ReplaceAllString(info, "") + shown
		}
	}
	return strings.Join(lines, "\n")
}

func TestExportOfWhatAnExportBroughtInHasTheSameBytes(t *testing.T) {
	ctx, from, to := t.Context(), open(t), open(t)
	a := agent.NewState("a", "<A> & co", "m")
	a.Custom = map[string]any{"op": "->", "n": int64(9007199254740993)}
	ok(t, from.agents.Save(ctx, a))
	c := agent.NewConversation("a")
	m := agent.NewMessage(agent.Assistant, "a -> b & <c>\u2028")
	m.ToolCalls = []agent.ToolCall{{ID: "t", Name: "f", Arguments: json.RawMessage(`{"z":"x -> y","a":"<&>","n":1.50}`)}}
	c.Add(agent.NewMessage(agent.User, "hi"), m)
	ok(t, from.agents.SaveConversation(ctx, c))
	for _, keep := range []bool{true, false} {
		_, err := from.agents.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", Name: "-> " + fmt.Sprint(keep), Keep: keep, Metadata: map[string]string{"k": "<v>"}})
		ok(t, err)
	}
	_, err := from.agents.AppendMessage(ctx, c.ID, agent.ToolResult("t", "-> <done>"))
	ok(t, err)
	export := func(b *bench) string {
		var text bytes.Buffer
		_, err := ExportAgent(ctx, b.agents, "a", &text, true)
		ok(t, err)
		return text.String()
	}
	want := export(from)
	if strings.Contains(want, `\u003`) || strings.Count(want, `"keep":true`) != 1 {
		t.Errorf("characters are not as they are, or others are kept:\n%s", want)
	}
	path := file(t, "a.jsonl", want)
	for range 2 {
		to.load(t, Options{}, path)
		if got := export(to); bare(got) != bare(want) {
			t.Errorf("it comes out otherwise:\n%s", cmp.Diff(strings.Split(bare(want), "\n"), strings.Split(bare(got), "\n")))
		}
	}
}

func TestASessionGoesRoundWithWhatItHasAtHand(t *testing.T) {
	ctx, from, to := t.Context(), open(t), open(t)
	st := session.State{
		SessionID: "s/1", UserID: "u", StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
		Context: map[string]any{"open": "a.go", "n": int64(9007199254740993)}, Preferences: map[string]any{"theme": "dark"}, History: []string{"one", "two"},
	}
	prompt, err := session.NewEvent("s/1", "t-1", session.UserPrompt{Prompt: "one"})
	ok(t, err)
	ok(t, from.sessions.Start(ctx, st, prompt))
	export := func(b *bench) string {
		var text bytes.Buffer
		_, err := ExportSession(ctx, b.sessions, "s/1", &text)
		ok(t, err)
		return text.String()
	}
	path := file(t, "s.jsonl", export(from))
	to.twice(t, path, Summary{Sessions: Count{Added: 1}, Events: Count{Added: 1}})
	loaded, err := to.sessions.Load(ctx, "s/1")
	ok(t, err)
	if d := cmp.Diff(st, loaded, cmpopts.IgnoreUnexported(session.State{})); d != "" {
		t.Errorf("it is another one:\n%s", d)
	}
	if d := cmp.Diff(meaning(t, export(from)), meaning(t, export(to))); d != "" {
		t.Errorf("it comes out otherwise:\n%s", d)
	}
	ok(t, from.sessions.End(ctx, "s/1"))
	other := open(t)
	ok(t, other.sessions.Start(ctx, session.State{SessionID: "mine", UserID: "u", Preferences: map[string]any{"theme": "light"}}))
	other.load(t, Options{}, file(t, "ended.jsonl", export(from)))
	loaded, err = other.sessions.Load(ctx, "s/1")
	ok(t, err)
	if loaded.EndedAt.IsZero() || len(loaded.Context) != 0 || loaded.Preferences["theme"] != "light" {
		t.Errorf("a session that has ended is %+v, and preferences that are there stay", loaded)
	}
	damaged := file(t, "damaged.jsonl", strings.Replace(export(from), `"session_id":"s/1"`, `"session_id":""`, 1)+"{\"event\":{}}\n{\"ev")
	open(t).load(t, Options{}, damaged)
	b := open(t)
	b.load(t, Options{}, damaged)
	var at []string
	for _, f := range b.faults {
		at = append(at, strings.TrimPrefix(f.Error(), damaged)[:2])
	}
	slices.Sort(at)
	if got := strings.Join(at, " "); got != ":2 :5 :6" {
		t.Errorf("the faults are of lines %s: %v", got, b.faults)
	}
}
