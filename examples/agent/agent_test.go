package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestSampleIsStoredAndSurvivesAsItShould(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	if err := run(t.Context(), &out, "", nil); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`session fix-flaky-test: 7 steps stored, then it was ended`,
		`session.context +memory +json +session +1 +0 .*gone, rightly`,
		`session.history +cache \(file\) +json +24h +3 +3 .*survived`,
		`session.preferences +database \(sqlite\) +json +never +1 +1 .*survived`,
		`knowledge.content +memory +json +session +1 +0 .*gone, rightly`,
		`knowledge.tokens +cache \(file\) +json +1h +2 +2 .*survived`,
		`knowledge.usage +database \(sqlite\) +json +never +4 +4 .*survived`,
		`knowledge.access +database \(sqlite\) +json +30d +5 +5 .*survived`,
		`learning.patterns +database \(sqlite\) +json +never +3 +3 .*survived`,
		`learning.optimizations +database \(sqlite\) +json +never +5 +5 .*survived`,
		`learning.feedback +database \(sqlite\) +json +never +4 +4 .*survived`,
		`config +file +json +never +1 +1 .*survived`,
	} {
		if !regexp.MustCompile(line).Match(out.Bytes()) {
			t.Errorf("no line matches %q", line)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

func TestCacheWaitsInTheJournalWhileRedisIsAway(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	// Nothing listens on port 1.
	text := "data_dir: " + dir + "\nredis:\n  url: redis://127.0.0.1:1\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), &out, file, nil); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`session.history +cache \(redis\) +json +24h +3 +3 .*survived`).Match(out.Bytes()) {
		t.Errorf("the history did not survive:\n%s", out.String())
	}
	if !strings.Contains(out.String(), "writes wait in the journal") {
		t.Errorf("it does not say that writes wait:\n%s", out.String())
	}
}

func TestTranscripts(t *testing.T) {
	for _, c := range []struct {
		why, name, text string
		sessions        []string
		steps           int
		problems        int
		fails           bool
	}{
		{why: "a trajectory is one session", name: "dir/fix.traj", text: `{"trajectory":[{"action":"ls -l","observation":"total 0","thought":"look","state":"{\"open_file\":\"n/a\"}"}],"history":[{"role":"user","content":"fix it"}]}`, sessions: []string{"fix"}, steps: 2},
		{why: "state may be an object", name: "a.traj", text: `{"trajectory":[{"action":"ls","state":{"open_file":"x"}}]}`, sessions: []string{"a"}, steps: 1},
		{why: "a trajectory without steps is none", name: "a.traj", text: `{}`, fails: true},
		{why: "what is not JSON is no trajectory", name: "a.traj", text: `hello`, fails: true},
		{why: "a log may hold several sessions", name: "a.jsonl", text: `{"sessionId":"one","message":{"role":"user","content":"hi"}}
{"sessionId":"two","message":{"role":"user","content":[{"type":"text","text":"ho"}]}}`, sessions: []string{"one", "two"}, steps: 2},
		{why: "bad lines are passed over and named", name: "a.jsonl", text: `"text"
42
{"sessionId":"one","message":{"role":"user","content":"hi"}}
{"sessionId":"one","mess`, sessions: []string{"one"}, steps: 1, problems: 3},
		{why: "a log without messages is none", name: "a.jsonl", text: `{"type":"summary"}`, fails: true},
		{why: "a result belongs to its call", name: "a.jsonl", text: `{"message":{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"ls","input":{}}]}}
{"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"done"}]}}`, sessions: []string{"a"}, steps: 1},
	} {
		t.Run(c.why, func(t *testing.T) {
			ts, problems, err := readTranscript(c.name, strings.NewReader(c.text))
			if (err != nil) != c.fails {
				t.Fatalf("err = %v", err)
			}
			if c.fails {
				return
			}
			steps := 0
			for i, tr := range ts {
				steps += len(tr.Steps)
				if i >= len(c.sessions) || tr.Session != c.sessions[i] {
					t.Errorf("session %d is %q, want %q", i, tr.Session, c.sessions)
				}
			}
			if len(ts) != len(c.sessions) || steps != c.steps || len(problems) != c.problems {
				t.Errorf("%d sessions, %d steps, problems %q", len(ts), steps, problems)
			}
		})
	}
}

// Real transcripts are not part of the module; where a folder of them stands
// beside it, all of them are played.
func TestRealTranscripts(t *testing.T) {
	paths, err := filepath.Glob("../../../shared/data/*/*.[tj][rs]*")
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		return
	}
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	if err := run(t.Context(), &out, "", paths); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if n := strings.Count(out.String(), "survived"); n != 9 {
		t.Errorf("%d categories survived, want 9:\n%s", n, out.String())
	}
}
