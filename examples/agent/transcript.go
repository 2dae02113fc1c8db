package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"
)

// A transcript is one recorded session of an agent.
type transcript struct {
	Session string
	Steps   []step
}

// A step is one turn: what was asked or done, and what came of it.
type step struct {
	Query  string // what the user asked, empty for a step of the agent alone
	Text   string // what the agent said
	Tool   string // the tool it called, if any
	Input  string
	Output string // what the tool answered
	Failed bool
	Model  string
	In     int64 // tokens
	Out    int64
	At     time.Time // zero when the transcript does not say
	State  map[string]any
}

// maxLine bounds one line of a transcript, in bytes.
const maxLine = 64 << 20

// readTranscript reads a .traj file, which is one JSON document, or session
// logs, one JSON object a line. Lines that can't be read are reported and the
// rest is kept.
func readTranscript(name string, r io.Reader) (ts []transcript, problems []string, err error) {
	if strings.HasSuffix(name, ".traj") {
		t, err := readTrajectory(name, r)
		return []transcript{t}, nil, err
	}
	return readLog(name, r)
}

// readTrajectory reads the form of SWE-agent: a list of actions with the
// observations that they led to.
func readTrajectory(name string, r io.Reader) (transcript, error) {
	var doc struct {
		Trajectory []struct {
			Action, Observation, Response, Thought string
			State                                  json.RawMessage
		}
		History []struct {
			Role        string
			MessageType string `json:"message_type"`
			Content     json.RawMessage
		}
	}
	dec := json.NewDecoder(r)
	if err := dec.Decode(&doc); err != nil {
		return transcript{}, fmt.Errorf("%s: not a trajectory: %w", name, err)
	}
	if len(doc.Trajectory) == 0 {
		return transcript{}, fmt.Errorf("%s: it has no trajectory", name)
	}
	t := transcript{Session: sessionName(name)}
	for _, h := range doc.History {
		if h.Role == "user" {
			t.Steps = append(t.Steps, step{Query: plainText(h.Content)})
			break
		}
	}
	for _, a := range doc.Trajectory {
		tool, input, _ := strings.Cut(strings.TrimSpace(a.Action), " ")
		s := step{
			Text: strings.TrimSpace(a.Thought), Tool: firstLine(tool), Input: input, Output: a.Observation, Failed: looksFailed(a.Observation),
			State: stateOf(a.State),
		}
		t.Steps = append(t.Steps, s)
	}
	return t, nil
}

// readLog reads the form of Claude Code: one event a line, of one or more
// sessions.
func readLog(name string, r io.Reader) (ts []transcript, problems []string, err error) {
	at := map[string]int{}   // session to its place in ts
	call := map[string]int{} // tool call to its step
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var ev struct {
			Type, SessionID string
			Timestamp       time.Time
			CWD             string
			Message         *struct {
				Role, Model string
				Content     json.RawMessage
				Usage       struct {
					InputTokens  int64 `json:"input_tokens"`
					OutputTokens int64 `json:"output_tokens"`
				}
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &ev); err != nil {
			problems = append(problems, fmt.Sprintf("%s:%d: not an event of a session: %s", name, n, clip(lines.Text(), 40)))
			continue
		}
		if ev.Message == nil { // a summary, or something newer than this reader
			continue
		}
		if ev.SessionID == "" {
			ev.SessionID = sessionName(name)
		}
		i, ok := at[ev.SessionID]
		if !ok {
			i = len(ts)
			at[ev.SessionID] = i
			ts = append(ts, transcript{Session: ev.SessionID})
		}
		t := &ts[i]
		s := step{
			Model: ev.Message.Model, In: ev.Message.Usage.InputTokens, Out: ev.Message.Usage.OutputTokens, At: ev.Timestamp,
			State: map[string]any{"working_dir": ev.CWD},
		}
		for _, p := range parts(ev.Message.Content) {
			switch {
			case p.Type == "tool_result":
				if j, ok := call[ev.SessionID+"\x00"+p.ToolUseID]; ok {
					t.Steps[j].Output, t.Steps[j].Failed = plainText(p.Content), p.IsError
				}
			case p.Type == "tool_use":
				s.Tool, s.Input = p.Name, string(p.Input)
				call[ev.SessionID+"\x00"+p.ID] = len(t.Steps)
			case ev.Message.Role == "user":
				s.Query += p.Text
			default:
				s.Text += p.Text
			}
		}
		if s.Query != "" || s.Text != "" || s.Tool != "" {
			t.Steps = append(t.Steps, s)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, problems, fmt.Errorf("%s: %w", name, err)
	}
	if len(ts) == 0 {
		return nil, problems, errors.Join(fmt.Errorf("%s: it holds no message of a session", name), joined(problems))
	}
	return ts, problems, nil
}

type part struct {
	Type      string
	Text      string
	Name      string
	ID        string
	ToolUseID string `json:"tool_use_id"`
	Input     json.RawMessage
	Content   json.RawMessage
	IsError   bool `json:"is_error"`
}

// parts reads a content, which is a text, or a list of texts and typed parts.
func parts(content json.RawMessage) []part {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return []part{{Type: "text", Text: text}}
	}
	var raw []json.RawMessage
	if json.Unmarshal(content, &raw) != nil {
		return nil
	}
	var out []part
	for _, r := range raw {
		var p part
		if json.Unmarshal(r, &p) == nil {
			out = append(out, p)
		} else if json.Unmarshal(r, &text) == nil {
			out = append(out, part{Type: "text", Text: text})
		}
	}
	return out
}

func plainText(content json.RawMessage) string {
	var b strings.Builder
	for _, p := range parts(content) {
		b.WriteString(p.Text)
	}
	return b.String()
}

// stateOf reads a state, which older files hold as JSON in a string.
func stateOf(raw json.RawMessage) map[string]any {
	var inner string
	if json.Unmarshal(raw, &inner) == nil {
		raw = json.RawMessage(inner)
	}
	var m map[string]any
	if json.Unmarshal(raw, &m) != nil {
		return map[string]any{}
	}
	return m
}

func looksFailed(output string) bool {
	for _, sign := range []string{"Traceback (most recent call last)", "command not found", "EXECUTION TIMED OUT", "syntax error"} {
		if strings.Contains(output, sign) {
			return true
		}
	}
	return false
}

func sessionName(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

func joined(problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(problems, "\n"))
}

func clip(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-3]) + "..."
	}
	return s
}
