package transfer

import (
	"bytes"
	"encoding/json"
	"fmt"
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
		ok(t, ExportAgent(ctx, from.agents, st.ID, &text, true))
		exports = append(exports, text.String())
	}
	for info, err := range from.sessions.All(ctx) {
		ok(t, err)
		var text bytes.Buffer
		ok(t, ExportSession(ctx, from.sessions, info.ID, &text))
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
			ok(t, ExportAgent(ctx, to.agents, a["id"].(string), &again, true))
		} else {
			ok(t, ExportSession(ctx, to.sessions, head["session"].(map[string]any)["session_id"].(string), &again))
		}
		if d := cmp.Diff(meaning(t, want), meaning(t, again.String())); d != "" {
			t.Errorf("%v comes out otherwise:\n%s", head, d)
		}
		if d := cmp.Diff(strings.Split(bare(want), "\n"), strings.Split(bare(again.String()), "\n")); d != "" {
			t.Errorf("%v comes out with other bytes:\n%s", head, d)
		}
		second := to.load(t, Options{}, path)
		for _, c := range []Count{second.Agents, second.Conversations, second.Messages, second.Checkpoints, second.Sessions, second.Events} {
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
	} {
		paths = append(paths, file(t, name, text))
	}
	if dir := filepath.Join("..", "..", "..", "shared", "data"); exists(dir) {
		paths = append(paths, dir)
	}
	return paths
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
		ok(t, ExportAgent(ctx, b.agents, "a", &text, true))
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
		ok(t, ExportSession(ctx, b.sessions, "s/1", &text))
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
