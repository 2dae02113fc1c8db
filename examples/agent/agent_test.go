package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/knowledge"
	"github.com/sagestore/sagestore/learning"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers/embedded"
)

// TestMain lets the test binary be the program, so that it can be killed.
func TestMain(m *testing.M) {
	if os.Getenv("SAGESTORE_EXAMPLE_CHILD") != "" {
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

const steps = 10 // of the sample

func TestSampleIsStoredAndSurvivesAsItShould(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	if err := run(t.Context(), &out, options{}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`This is the first run`,
		`session fix-flaky-test: 7 steps played, then it was ended`,
		`done 10 steps: 15 messages in 2 conversations, 7 checkpoints`,
		`newest checkpoint shows step 10 with 15 messages`,
		`fix-flaky-test, message 1: The checkout test fails`,
		`agent.conversations +database \(sqlite\) +json +never .*survived`,
		`session.context +memory +json +session +3 +0 .*gone, rightly`,
		`session.history +cache \(file\) +json +24h +3 +3 .*survived`,
		`session.preferences +database \(sqlite\) +json +never +1 +1 .*survived`,
		`knowledge.content +memory +json +session +1 +0 .*gone, rightly`,
		`knowledge.tokens +cache \(file\) +json +1h +2 +2 .*survived`,
		`knowledge.access +database \(sqlite\) +json +30d +0 +5 .*survived`,
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

// TestAKilledProgramGoesOnWithoutLosingOrRepeatingAStep kills it amid each step, in
// both halves of one store's life, and compares with a store of a program that lived.
func TestAKilledProgramGoesOnWithoutLosingOrRepeatingAStep(t *testing.T) {
	t.Parallel()
	unharmed := t.TempDir()
	if err := run(t.Context(), io.Discard, options{dir: unharmed}); err != nil {
		t.Fatal(err)
	}
	want := contents(t, unharmed)
	if !strings.Contains(want, "step 10") || !strings.Contains(want, "The checkout test fails") {
		t.Fatalf("the store holds\n%s", want)
	}
	for n := 1; n <= steps; n++ {
		t.Run(fmt.Sprintf("step %d", n), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for i, at := range []int{n, min(n+3, steps)} { // it is killed twice, if there are steps left
				out := killed(t, dir, at)
				if want := fmt.Sprintf("-dir %s\n", dir); !strings.Contains(out, want) {
					t.Errorf("it does not say how to go on:\n%s", out)
				}
				if i == 1 && n > 1 && !strings.Contains(out, "nothing is to be done again") {
					t.Errorf("it does not say where it goes on:\n%s", out)
				}
				if got := contents(t, dir); !strings.HasSuffix(got, fmt.Sprintf("%d steps\n", at-1)) {
					t.Errorf("killed amid step %d, the store holds\n%s", at, got)
				}
			}
			var out bytes.Buffer
			if err := run(t.Context(), &out, options{dir: dir}); err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			if !strings.Contains(out.String(), "This is run 3") {
				t.Errorf("it does not know of the runs before:\n%s", out.String())
			}
			if d := cmp.Diff(want, contents(t, dir)); d != "" {
				t.Errorf("it holds something else than without the kills:\n%s", d)
			}
		})
	}
}

func TestAStepThatThereIsNotIsRefused(t *testing.T) {
	t.Parallel()
	for _, n := range []int{-1, steps + 1} {
		err := run(t.Context(), io.Discard, options{dir: t.TempDir(), crashAt: n})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("from 1 to %d", steps)) {
			t.Errorf("-crash-at %d: %v", n, err)
		}
	}
}

// killed runs the program until it kills itself, and answers what it printed.
func killed(t *testing.T, dir string, at int) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), exe, "-dir", dir, "-crash-at", strconv.Itoa(at))
	c.Env = append(os.Environ(), "SAGESTORE_EXAMPLE_CHILD=1")
	out, err := c.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() == 1 {
		t.Fatalf("it ends with %v\n%s", err, out)
	}
	return string(out)
}

// contents tells what a store holds, apart from ids and times.
func contents(t *testing.T, dir string) string {
	t.Helper()
	ctx := t.Context()
	m := sagetest.OpenWith(t, dirConfig(dir), embedded.Tiers())
	a, err := newApp(m)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	st, err := a.agents.Load(ctx, agentID)
	if err != nil {
		t.Fatal(err)
	}
	var steps int64
	for _, key := range slices.Sorted(maps.Keys(st.Custom)) {
		fmt.Fprintln(&b, key, st.Custom[key])
		if n, ok := st.Custom[key].(int64); ok {
			steps += n
		}
	}
	for c, err := range a.agents.Conversations(ctx, agentID, agent.After{}) {
		if err != nil {
			t.Fatal(err)
		}
		whole, err := a.agents.LoadConversation(ctx, c.ID, agent.Page{})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range whole.Messages {
			fmt.Fprintln(&b, c.ID, m.Seq, m.Role, m.Content)
			for _, call := range m.ToolCalls {
				fmt.Fprintln(&b, "  ", call.ID, call.Name, string(call.Arguments), call.Status)
			}
		}
	}
	for c, err := range a.agents.Checkpoints(ctx, agentID, agent.After{}) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, "checkpoint", c.Number, "of step", c.Iteration, "with", c.Messages)
	}
	for _, book := range []*learning.Book{a.learned.Patterns, a.learned.Optimizations, a.learned.Feedback} {
		all, err := book.Top(ctx, learning.Query{User: user, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, r := range all {
			lines = append(lines, fmt.Sprintln("learned", r.Kind, r.Text, r.Seen))
		}
		slices.Sort(lines)
		b.WriteString(strings.Join(lines, ""))
	}
	usage, err := a.content.Usage(ctx, knowledge.BySession, time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range slices.Sorted(maps.Keys(usage)) {
		fmt.Fprintln(&b, "tokens of", id, usage[id].Input, usage[id].Output, usage[id].Count)
	}
	fmt.Fprintln(&b, steps, "steps")
	return b.String()
}

func dirConfig(dir string) *config.Config {
	cfg := config.Default()
	cfg.DataDir = dir
	return cfg
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
	if err := run(t.Context(), &out, options{config: file}); err != nil {
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
	if err := run(t.Context(), &out, options{paths: paths}); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if n := strings.Count(out.String(), "survived"); n != len(categories)-3 || regexp.MustCompile(`\d of \d+ survived`).MatchString(out.String()) {
		t.Errorf("%d categories survived, want all but those in memory:\n%s", n, out.String())
	}
}
