package agent_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// model keeps what a store should hold of one agent, and whole copies for its
// checkpoints.
type model struct {
	s           *agent.Store
	m           *manager.Manager
	custom      map[string]int
	name        string
	talks       map[string][]said // by conversation
	archived    map[string]bool
	checkpoints []remembered // oldest first
	made        int
}

type said struct{ id, text string }

type remembered struct {
	id       string
	keep     bool
	custom   map[string]int
	name     string
	talks    map[string][]said
	archived map[string]bool
}

func (m *model) copyOf() remembered {
	r := remembered{custom: maps.Clone(m.custom), name: m.name, archived: maps.Clone(m.archived), talks: map[string][]said{}}
	for id, ms := range m.talks {
		r.talks[id] = slices.Clone(ms)
	}
	return r
}

func (m *model) take(r remembered) {
	m.custom, m.name, m.archived, m.talks = maps.Clone(r.custom), r.name, maps.Clone(r.archived), map[string][]said{}
	for id, ms := range r.talks {
		m.talks[id] = slices.Clone(ms)
	}
}

// text is what all of it looks like.
func (r remembered) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %v\n", r.name, r.custom)
	for _, id := range slices.Sorted(maps.Keys(r.talks)) {
		fmt.Fprintf(&b, "%s %v %v\n", id, r.archived[id], r.talks[id])
	}
	return b.String()
}

func asRemembered(a *agent.State, cs []*agent.Conversation) remembered {
	r := remembered{name: a.Name, custom: map[string]int{}, talks: map[string][]said{}, archived: map[string]bool{}}
	for k, v := range a.Custom {
		n, _ := v.(int64)
		r.custom[k] = int(n)
	}
	for _, c := range cs {
		r.archived[c.ID] = c.Archived
		r.talks[c.ID] = []said{}
		for _, m := range c.Messages {
			text := m.Content
			for _, a := range m.Attachments {
				text += fmt.Sprint("+", a.Size, a.Content[:1])
			}
			r.talks[c.ID] = append(r.talks[c.ID], said{m.ID, text})
		}
	}
	return r
}

// check compares the present, the counts, and one checkpoint.
func (m *model) check(t *rapid.T) {
	ctx := context.Background()
	fatal := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	a, err := m.s.Load(ctx, "a")
	fatal(err)
	var cs []*agent.Conversation
	active, messages := 0, 0
	for head, err := range m.s.Conversations(ctx, "a", agent.After{}) {
		fatal(err)
		c, err := m.s.LoadConversation(ctx, head.ID, agent.Page{})
		fatal(err)
		if c.Count != len(c.Messages) {
			t.Fatalf("%s counts %d messages and has %d", c.ID, c.Count, len(c.Messages))
		}
		if messages += c.Count; !c.Archived {
			active++
		}
		cs = append(cs, c)
	}
	if got, want := asRemembered(a, cs).text(), m.copyOf().text(); got != want {
		t.Fatalf("stored is\n%s\nwant\n%s", got, want)
	}
	if len(a.Active) != active || len(a.Repaired) != 0 {
		t.Fatalf("active %v, repaired %v; %d are not archived", a.Active, a.Repaired, active)
	}
	st, err := m.s.Stats(ctx)
	fatal(err)
	if st.Messages != int64(messages) || st.Conversations != int64(len(cs)) || st.Checkpoints != int64(len(m.checkpoints)) {
		t.Fatalf("stats %+v; %d messages, %d conversations, %d checkpoints", st, messages, len(cs), len(m.checkpoints))
	}
	if len(m.checkpoints) > 0 {
		m.checkOne(t, rapid.SampledFrom(m.checkpoints).Draw(t, "look at"))
	}
}

func (m *model) checkOne(t *rapid.T, want remembered) {
	c, err := m.s.LoadCheckpoint(context.Background(), "", want.id)
	if err != nil {
		t.Fatal(err)
	}
	if got := asRemembered(c.State, c.Conversations).text(); got != want.text() {
		t.Fatalf("checkpoint %s shows\n%s\nwant\n%s", want.id, got, want.text())
	}
}

// any answers some conversation, or skips the action.
func (m *model) any(t *rapid.T) string {
	if len(m.talks) == 0 {
		t.Skip()
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(m.talks))).Draw(t, "conversation")
}

func (m *model) message(text string, large bool) (agent.Message, said) {
	m.made++
	msg := agent.NewMessage(agent.User, text)
	msg.ID = fmt.Sprint("m", m.made)
	if large {
		content := strings.Repeat(string(rune('a'+m.made%3)), 5000)
		msg.Attachments = []agent.Attachment{{ID: "x", Kind: agent.File, Content: content}}
		text += fmt.Sprint("+", 5000, content[:1])
	}
	return msg, said{msg.ID, text}
}

func (m *model) actions() map[string]func(*rapid.T) {
	ctx := context.Background()
	number := rapid.IntRange(0, 3)
	fatal := func(t *rapid.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	return map[string]func(*rapid.T){
		"": m.check,
		"save": func(t *rapid.T) {
			a, err := m.s.Load(ctx, "a")
			fatal(t, err)
			a.Custom = map[string]any{}
			m.custom = rapid.MapOf(rapid.SampledFrom([]string{"x", "y", "z/"}), number).Draw(t, "custom")
			for k, v := range m.custom {
				a.Custom[k] = v
			}
			m.name = fmt.Sprint(number.Draw(t, "name"))
			a.Name = m.name
			fatal(t, m.s.Save(ctx, a))
		},
		"begin": func(t *rapid.T) {
			id := fmt.Sprint("c/", number.Draw(t, "id"))
			if m.talks[id] != nil {
				t.Skip()
			}
			c := agent.NewConversation("a")
			c.ID = id
			msg, s := m.message("first", false)
			c.Add(msg)
			fatal(t, m.s.SaveConversation(ctx, c))
			m.talks[id], m.archived[id] = []said{s}, false
		},
		"append": func(t *rapid.T) {
			id := m.any(t)
			msg, s := m.message("more", rapid.Bool().Draw(t, "large"))
			_, err := m.s.AppendMessage(ctx, id, msg)
			fatal(t, err)
			m.talks[id] = append(m.talks[id], s)
		},
		"edit": func(t *rapid.T) {
			id := m.any(t)
			if len(m.talks[id]) == 0 {
				t.Skip()
			}
			i := rapid.IntRange(0, len(m.talks[id])-1).Draw(t, "which")
			msg, s := m.message(fmt.Sprint("edited", m.made), rapid.Bool().Draw(t, "large"))
			msg.ID, s.id = m.talks[id][i].id, m.talks[id][i].id
			fatal(t, m.s.EditMessage(ctx, id, msg))
			m.talks[id][i] = s
		},
		"unsay": func(t *rapid.T) {
			id := m.any(t)
			if len(m.talks[id]) == 0 {
				t.Skip()
			}
			i := rapid.IntRange(0, len(m.talks[id])-1).Draw(t, "which")
			existed, err := m.s.DeleteMessage(ctx, id, m.talks[id][i].id)
			fatal(t, err)
			if !existed {
				t.Fatal("it was not there")
			}
			m.talks[id] = slices.Delete(m.talks[id], i, i+1)
		},
		"archive": func(t *rapid.T) {
			id := m.any(t)
			m.archived[id] = rapid.Bool().Draw(t, "archived")
			fatal(t, m.s.Archive(ctx, id, m.archived[id]))
		},
		"drop": func(t *rapid.T) {
			id := m.any(t)
			_, err := m.s.DeleteConversation(ctx, id)
			fatal(t, err)
			delete(m.talks, id)
			delete(m.archived, id)
		},
		"checkpoint": func(t *rapid.T) {
			in := agent.CheckpointInfo{AgentID: "a", Keep: rapid.Bool().Draw(t, "keep")}
			c, err := m.s.Checkpoint(ctx, in)
			fatal(t, err)
			r := m.copyOf()
			r.id, r.keep = c.ID, in.Keep
			m.checkpoints = append(m.checkpoints, r)
		},
		"restore": func(t *rapid.T) {
			if len(m.checkpoints) == 0 {
				t.Skip()
			}
			to := rapid.SampledFrom(m.checkpoints).Draw(t, "to")
			now := m.copyOf()
			none := rapid.Bool().Draw(t, "no recovery")
			before, err := m.s.Restore(ctx, "a", to.id, agent.RestoreOptions{NoRecovery: none})
			fatal(t, err)
			if now.id = before.ID; !none {
				m.checkpoints = append(m.checkpoints, now)
			}
			m.take(to)
		},
		"prune": func(t *rapid.T) {
			keep := number.Draw(t, "keep")
			_, err := m.s.Prune(ctx, "a", keep)
			fatal(t, err)
			untagged := 0
			for _, r := range m.checkpoints {
				if !r.keep {
					untagged++
				}
			}
			m.checkpoints = slices.DeleteFunc(m.checkpoints, func(r remembered) bool {
				if r.keep || untagged <= keep {
					return false
				}
				untagged--
				return true
			})
		},
		"forget": func(t *rapid.T) {
			if len(m.checkpoints) == 0 {
				t.Skip()
			}
			i := rapid.IntRange(0, len(m.checkpoints)-1).Draw(t, "which")
			existed, err := m.s.DeleteCheckpoint(ctx, "a", m.checkpoints[i].id)
			fatal(t, err)
			if !existed {
				t.Fatal("it was not there")
			}
			m.checkpoints = slices.Delete(m.checkpoints, i, i+1)
		},
	}
}

// TestChangesCheckpointsAndRestoresAreThoseOfWholeCopies runs random changes
// against a model that copies everything for each checkpoint.
func TestChangesCheckpointsAndRestoresAreThoseOfWholeCopies(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		budget := 500 * time.Millisecond
		if inFull(t) {
			budget = 2 * time.Second
		}
		until := tiers.SystemClock().Now().Add(budget)
		rapid.Check(t, func(t *rapid.T) {
			if tiers.SystemClock().Now().After(until) {
				return // bounded in time, not in number, since disks differ
			}
			m := &model{s: h.Store, m: h.m, talks: map[string][]said{}, archived: map[string]bool{}, custom: map[string]int{}}
			p := manager.ConfigOf(h.m).Checkpoints
			p.Max = 1000
			if err := h.SetCheckpoints(p); err != nil {
				t.Fatal(err)
			}
			if err := h.Save(context.Background(), agent.NewState("a", "", "")); err != nil {
				t.Fatal(err)
			}
			t.Repeat(m.actions())
			for _, c := range m.checkpoints {
				m.checkOne(t, c)
			}
			m.empty(t)
		})
	})
}

// empty takes everything away, the checkpoints first or last, and finds nothing
// left.
func (m *model) empty(t *rapid.T) {
	ctx := context.Background()
	for _, c := range m.checkpoints {
		if _, err := m.s.DeleteCheckpoint(ctx, "a", c.id); err != nil {
			t.Fatal(err)
		}
	}
	left := func(prefixes ...string) {
		t.Helper()
		for _, category := range []string{"agent.state", "agent.conversations", "agent.checkpoints"} {
			for item, err := range m.m.List(ctx, category) {
				if err != nil {
					t.Fatal(err)
				}
				kind, _, _ := strings.Cut(item.Key, "/")
				if slices.Contains(prefixes, kind) {
					t.Fatalf("still stored: %s %s", category, item.Key)
				}
			}
		}
	}
	left("hist", "info", "gone")
	for id := range m.talks {
		if _, err := m.s.DeleteConversation(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	left("msg", "blob", "refs", "mid", "live", "call")
	if _, err := m.s.Delete(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	left("head", "id", "own", "sum", "now", "dirty", "gone", "run")
}
