package transfer

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// fuzz feeds a reader with hostile bytes: it must not panic, and what it finds must
// be whole.
func fuzz(f *testing.F, format Format, seeds ...string) {
	f.Helper()
	for _, s := range append(seeds, "", "[", "{", "null", "[[[[", `{"a":`, "\x00\xff", `[{"role":{}}]`) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		src := &source{path: "Name_0123456789abcdef.json", format: format, modified: time.Unix(1, 0), head: readHead(bytes.NewReader(text))}
		faults := 0
		r := &reading{src: src, in: bytes.NewReader(text), fault: func(_ int, _ string, err error) {
			if err == nil {
				t.Error("a fault without an error")
			}
			faults++
		}}
		r.emit = func(f found) error {
			switch {
			case f.conversation != nil && len(f.conversation.Messages) != len(f.lines):
				t.Errorf("%d messages, %d lines", len(f.conversation.Messages), len(f.lines))
			case f.conversation != nil && f.conversation.AgentID == "":
				t.Error("a conversation without an agent")
			case f.agent != nil && f.agent.ID == "":
				t.Error("an agent without an id")
			}
			return nil
		}
		if err := r.read(t.Context()); err != nil && faults == 0 && len(text) == 0 {
			t.Log(err)
		}
	})
}

func FuzzAgentFile(f *testing.F) {
	fuzz(f, AgentFile, `{"agent_id":"a","name":"A","agent_type":"m","config":{"t":{"Float":0.5}},"custom_state":{"n":{"Some":{"Int":1}}},"created_at":1e300,"version":3}`)
}

func FuzzConversationFile(f *testing.F) {
	fuzz(f, ConversationFile, `{"id":"c","agent_id":"a","messages":[{"role":"User","content":"x","attachments":[{"attachment_type":"Image","content":"x","size":9}],"tool_calls":[{"arguments":{}}]}],"tags":[]}`)
}

func FuzzAgentCheckpoint(f *testing.F) {
	fuzz(f, AgentCheckpoint, `{"id":"p","agent_state":{"agent_id":"a"},"conversations":[{"id":"c","agent_id":"a","messages":[]}]}`)
}

func FuzzIterationCheckpoint(f *testing.F) {
	fuzz(f, IterationCheckpoint, `{"id":"i","agent_id":"w","conversation":{"messages":[{"role":"user"}]},"iteration":3,"created_at":"2026-01-02T03:04:05Z"}`)
}

func FuzzPortableCheckpoint(f *testing.F) {
	fuzz(f, PortableCheckpoint, `{"format":"sagestore checkpoint 1","sha256":"","checkpoint":{}}`)
}

func FuzzFieldFile(f *testing.F) { fuzz(f, FieldFile, `{"a":1}`) }

func FuzzCodeLog(f *testing.F) {
	fuzz(f, CodeLog, `{"type":"user","uuid":"u","sessionId":"s","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"data":"x"}}]},"x",7]}}`)
}

func FuzzChat(f *testing.F) {
	fuzz(f, Chat, `[{"role":"user","content":"x","tool_calls":[{"function":{"name":"f","arguments":"{"}}],"function_call":{"name":"f"}}]`, `{"messages":[{"role":"user","content":"x"}],"id":"i"}`)
}

func FuzzChatLines(f *testing.F) {
	fuzz(f, ChatLines, `{"role":"user","content":"x"}`+"\n"+`{"messages":[{"role":"user"}]}`)
}

func FuzzTrajectory(f *testing.F) {
	fuzz(f, Trajectory, `{"history":[{"role":"tool","content":"y","tool_call_ids":["t"]}],"info":{"a":1},"trajectory":[]}`)
}

func FuzzExport(f *testing.F) {
	fuzz(f, Own, `{"format":"sagestore export 1"}`+"\n"+`{"agent":{"id":"a"}}`+"\n"+`{"conversation":{"id":"c","agent_id":"a"}}`+"\n"+`{"message":{"conversation_id":"c","id":"m","role":"user"}}`+"\n"+`{"checkpoint":{"id":"p"}}`, `{"ConversAtion":{}}`)
}

func FuzzDetect(f *testing.F) {
	f.Add([]byte(`{"history":[],"info":{}}`))
	f.Add([]byte("{}\n{\"jsonrpc\":\"2.0\",\"method\":\"x\"}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "x.json")
		ok(t, os.WriteFile(path, text, 0o600))
		src, err := detect(path)
		ok(t, err)
		if src.format != "" && src.format.rank() < 0 {
			t.Errorf("%q has no place in the order", src.format)
		}
	})
}

func FuzzDatabase(f *testing.F) {
	path := filepath.Join(f.TempDir(), "s.db")
	db, err := sql.Open("sqlite", path)
	ok(f, err)
	for _, statement := range []string{
		`CREATE TABLE events (id INTEGER PRIMARY KEY, session_id TEXT, payload TEXT, created_at INTEGER)`,
		`INSERT INTO events VALUES (1,'s','{"jsonrpc":"2.0","method":"a"}',5)`,
		`CREATE TABLE checkpoints (id TEXT, agent_id TEXT, iteration INTEGER, conversation BLOB, metadata TEXT, created_at INTEGER, agent_key TEXT, field TEXT, value TEXT)`,
		`INSERT INTO checkpoints VALUES ('1','a',1,'{"messages":[]}','{}',7,'k','f','1')`,
	} {
		_, err := db.Exec(statement)
		ok(f, err)
	}
	ok(f, db.Close())
	whole, err := os.ReadFile(path)
	ok(f, err)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "s.db")
		ok(t, os.WriteFile(path, text, 0o600))
		fault := func(int, string, error) {}
		r := &reading{src: &source{path: path, format: Database}, in: bytes.NewReader(nil), fault: fault, emit: func(found) error { return nil }}
		_ = r.read(t.Context())
		db, err := openDatabase(t.Context(), path)
		if err != nil {
			return
		}
		defer func() { _ = db.Close() }()
		rows, err := openEvents(t.Context(), db, func(string, error) {})
		if err != nil {
			return
		}
		_, _ = new(bytes.Buffer).ReadFrom(rows)
		_ = rows.close()
	})
}
