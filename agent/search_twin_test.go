package agent_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/tiers"
)

// TestIndexAndScanAnswerTheSame does the same to two stores, one with an index and
// one without, and asks both the same.
func TestIndexAndScanAnswerTheSame(t *testing.T) {
	for _, r := range []routing{routings()[0], routings()[2]} { // memory and files, which have none
		t.Run(r.name, func(t *testing.T) { scanned(t, r) })
	}
}

func scanned(t *testing.T, r routing) {
	t.Helper()
	dir := t.TempDir()
	indexed := onDatabase(t, dir, func(c *config.Config) { c.SQLite.Synchronous = "normal" })
	t.Cleanup(func() { ok(t, indexed.Close(t.Context())) })
	plain := open(t, r).m
	run := 0
	until := tiers.SystemClock().Now().Add(2 * time.Second)
	rapid.Check(t, func(rt *rapid.T) {
		if tiers.SystemClock().Now().After(until) {
			return // bounded in time, not in number, since disks differ
		}
		run++
		ctx := t.Context()
		namespace := fmt.Sprintf("run-%d", run)
		twins := []*agent.Store{agent.New(indexed.Namespace(namespace)), agent.New(plain.Namespace(namespace))}
		both := func(do func(s *agent.Store) error) {
			rt.Helper()
			for _, s := range twins {
				if err := do(s); err != nil {
					rt.Fatal(err)
				}
			}
		}
		letters := rapid.SampledFrom([]string{"a", "b", "C", "é", "É", "e\u0301", "数", "据", "库", "ー", " ", " ", "-", `"`, "'", "*", "ſ", "S", "İ", "ß", "🙂", "\x00", "1"})
		text := func(name string, most int) string {
			return strings.Join(rapid.SliceOfN(letters, 1, most).Draw(rt, name), "")
		}
		type message struct{ conversation, id string }
		var conversations []string
		var messages []message
		for i := range 3 {
			both(func(s *agent.Store) error {
				a := agent.NewState(fmt.Sprint("agent-", i), "", "")
				return s.Save(ctx, a)
			})
		}
		begin := func() {
			id, owner := fmt.Sprint("c-", len(conversations)), fmt.Sprint("agent-", rapid.IntRange(0, 2).Draw(rt, "agent"))
			conversations = append(conversations, id)
			both(func(s *agent.Store) error {
				c := agent.NewConversation(owner)
				c.ID = id
				return s.SaveConversation(ctx, c)
			})
		}
		begin()
		ask := func() {
			limit := rapid.IntRange(1, 8).Draw(rt, "limit")
			q := agent.Query{Text: text("query", 6), Mode: rapid.SampledFrom(agent.Modes()).Draw(rt, "mode"), Limit: &limit}
			if strings.TrimSpace(q.Text) == "" {
				return
			}
			if rapid.Bool().Draw(rt, "of one agent") {
				q.AgentID = fmt.Sprint("agent-", rapid.IntRange(0, 3).Draw(rt, "agent"))
			}
			if rapid.IntRange(0, 3).Draw(rt, "archived") == 0 {
				q.Archived = new(rapid.Bool().Draw(rt, "are archived"))
			}
			var answers [2][]agent.Hit
			for i, s := range twins {
				hits, err := s.Search(ctx, q)
				if err != nil {
					rt.Fatal(err)
				}
				answers[i] = hits
			}
			if d := cmp.Diff(answers[1], answers[0]); d != "" {
				rt.Fatalf("%+v: the index answers otherwise than the scan:\n%s", q, d)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { ask() },
			"begin": func(*rapid.T) {
				if len(conversations) < 6 {
					begin()
				}
			},
			"append": func(*rapid.T) {
				at := rapid.SampledFrom(conversations).Draw(rt, "to")
				m := agent.NewMessage(rapid.SampledFrom(agent.Roles()).Draw(rt, "role"), text("content", 20))
				m.Role = agent.User
				m.At = time.Unix(int64(rapid.IntRange(0, 5).Draw(rt, "at")), 0).UTC()
				messages = append(messages, message{at, m.ID})
				both(func(s *agent.Store) error { _, err := s.AppendMessage(ctx, at, m); return ignoreGone(err) })
			},
			"edit": func(*rapid.T) {
				if len(messages) == 0 {
					return
				}
				at := rapid.SampledFrom(messages).Draw(rt, "message")
				m := agent.Message{ID: at.id, Role: agent.Assistant, Content: text("content", 20), At: time.Unix(3, 0).UTC()}
				both(func(s *agent.Store) error { return ignoreGone(s.EditMessage(ctx, at.conversation, m)) })
			},
			"delete": func(*rapid.T) {
				if len(messages) == 0 {
					return
				}
				at := rapid.SampledFrom(messages).Draw(rt, "message")
				both(func(s *agent.Store) error {
					_, err := s.DeleteMessage(ctx, at.conversation, at.id)
					return ignoreGone(err)
				})
			},
			"archive": func(*rapid.T) {
				at := rapid.SampledFrom(conversations).Draw(rt, "conversation")
				on := rapid.Bool().Draw(rt, "archived")
				both(func(s *agent.Store) error { return ignoreGone(s.Archive(ctx, at, on)) })
			},
			"drop": func(*rapid.T) {
				if rapid.IntRange(0, 4).Draw(rt, "seldom") > 0 {
					return
				}
				at := rapid.SampledFrom(conversations).Draw(rt, "conversation")
				both(func(s *agent.Store) error { _, err := s.DeleteConversation(ctx, at); return err })
			},
		})
	})
}

func ignoreGone(err error) error {
	if err != nil && strings.Contains(err.Error(), "not found") {
		return nil
	}
	return err
}
