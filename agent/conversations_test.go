package agent_test

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// talk stores an agent with one conversation of these messages.
func talk(t testing.TB, s *agent.Store, agentID string, texts ...string) *agent.Conversation {
	t.Helper()
	if _, err := s.Load(t.Context(), agentID); err != nil {
		ok(t, s.Save(t.Context(), agent.NewState(agentID, agentID, "")))
	}
	c := agent.NewConversation(agentID)
	for _, text := range texts {
		c.Add(agent.NewMessage(agent.User, text))
	}
	ok(t, s.SaveConversation(t.Context(), c))
	return c
}

// contents answers what the messages of a page say.
func contents(t testing.TB, s *agent.Store, id string, p agent.Page) (all []string) {
	t.Helper()
	for _, m := range must(s.LoadConversation(t.Context(), id, p))(t).Messages {
		all = append(all, m.Content)
	}
	return all
}

func TestNewConversationIsEmpty(t *testing.T) {
	c, other := agent.NewConversation("agent-1"), agent.NewConversation("agent-1")
	want := &agent.Conversation{ID: c.ID, AgentID: "agent-1", Created: c.Created, LastMessage: c.Created}
	if d := cmp.Diff(want, c); d != "" || c.ID == "" || c.ID == other.ID || c.Created.IsZero() {
		t.Errorf("id %q and %q, %s", c.ID, other.ID, d)
	}
}

func TestConversationComesBackAsItWasSaved(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		ok(t, h.Save(ctx, agent.NewState("a", "", "")))
		c := agent.NewConversation("a")
		c.Title, c.Tags, c.Metadata = "Hello", []string{"x", "y"}, map[string]string{"k": "v"}
		c.SystemPrompt, c.MaxContextTokens = "Be brief.", 1000
		tokens := 7
		m := agent.NewMessage(agent.Assistant, "a\x00b <&> \u2028 "+strings.Repeat("é", 100))
		m.At = time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC)
		m.Tokens, m.ParentID, m.Metadata = &tokens, "parent", map[string]string{"model": "m"}
		m.ToolCalls = []agent.ToolCall{{ID: "call/1", Name: "search", Arguments: []byte(`{"n":9007199254740993}`)}}
		m.Attachments = []agent.Attachment{
			{ID: "1", Kind: agent.Image, Name: "small.png", MIME: "image/png", Content: "data"},
			{ID: "2", Kind: agent.Code, Name: "large.go", Content: strings.Repeat("x", 10000)},
			{ID: "3", Kind: agent.Video, URL: "https://example.com/v", Size: 1 << 40},
		}
		c.Add(m, agent.ToolResult("call/1", "42"))
		ok(t, h.SaveConversation(ctx, c))
		got := must(h.reopen().LoadConversation(ctx, c.ID, agent.Page{}))(t)
		result := "42"
		c.Messages[0].ToolCalls[0].Result, c.Messages[0].ToolCalls[0].Status = &result, agent.Completed
		c.Messages[0].Attachments[0].Size, c.Messages[0].Attachments[1].Size = 4, 10000
		if d := cmp.Diff(c, got, cmpopts.EquateEmpty()); d != "" {
			t.Error(d)
		}
		if got.Count != 2 || got.Messages[1].Seq != 2 || got.Messages[1].ToolCallID() != "call/1" {
			t.Errorf("%d messages, the second is %+v", got.Count, got.Messages[1])
		}
	})
}

func TestMessagesAreStoredOnceHoweverOftenTheyAreAppended(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a")
		m := agent.NewMessage(agent.User, "one")
		for range 3 {
			if last := must(h.AppendMessage(ctx, c.ID, m, m))(t); last != 1 {
				t.Errorf("the last sequence is %d", last)
			}
		}
		must(h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.Assistant, "two")))(t)
		if d := cmp.Diff([]string{"one", "two"}, contents(t, h.Store, c.ID, agent.Page{})); d != "" {
			t.Error(d)
		}
		existed := must(h.DeleteMessage(ctx, c.ID, m.ID))(t)
		again := must(h.DeleteMessage(ctx, c.ID, m.ID))(t)
		must(h.AppendMessage(ctx, c.ID, m))(t)
		c.Messages = []agent.Message{m}
		ok(t, h.SaveConversation(ctx, c))
		if d := cmp.Diff([]string{"two"}, contents(t, h.Store, c.ID, agent.Page{})); d != "" || !existed || again {
			t.Errorf("%v %v, a late append brought a deleted message back: %s", existed, again, d)
		}
		_, err := h.AppendMessage(ctx, "nowhere", m)
		isErr(t, err, tiers.ErrNotFound)
	})
}

func TestAppendersLoseNothing(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a")
		callers, times := 8, 15
		if inFull(t) {
			callers, times = 16, 100
		}
		var wg sync.WaitGroup
		for caller := range callers {
			wg.Go(func() {
				for i := range times {
					if _, err := h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, fmt.Sprint(caller, " ", i))); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		got := must(h.LoadConversation(ctx, c.ID, agent.Page{}))(t)
		next := map[string]int{}
		for i, m := range got.Messages {
			caller, n, _ := strings.Cut(m.Content, " ")
			if m.Seq != uint64(i+1) || fmt.Sprint(next[caller]) != n {
				t.Fatalf("message %d is %q with sequence %d", i, m.Content, m.Seq)
			}
			next[caller]++
		}
		if len(got.Messages) != callers*times || got.Count != callers*times {
			t.Errorf("%d messages, counted %d", len(got.Messages), got.Count)
		}
	})
}

func TestOldCopyOfAConversationTakesNothingAway(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a", "one")
		old := must(h.LoadConversation(ctx, c.ID, agent.Page{}))(t)
		must(h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "two")))(t)
		old.Add(agent.NewMessage(agent.User, "three"))
		ok(t, h.SaveConversation(ctx, old))
		ok(t, h.Tag(ctx, c.ID, []string{"x"}, nil))
		old.Title = "changed"
		isErr(t, h.SaveConversation(ctx, old), tiers.ErrConflict)
		isErr(t, h.SaveConversation(ctx, &agent.Conversation{ID: c.ID, AgentID: "a"}), tiers.ErrExists)
		if d := cmp.Diff([]string{"one", "two", "three"}, contents(t, h.Store, c.ID, agent.Page{})); d != "" {
			t.Error(d)
		}
	})
}

func TestLastTenOfFiftyMessagesWithOneTime(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		s := h.Store
		c := talk(t, s, "a")
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for i := range 50 {
			m := agent.NewMessage(agent.User, fmt.Sprint(i))
			m.At = at
			c.Add(m)
		}
		must(s.AppendMessage(t.Context(), c.ID, c.Messages[:25]...))(t)
		must(s.AppendMessage(t.Context(), c.ID, c.Messages[25:]...))(t)
		for why, p := range map[string]struct {
			page  agent.Page
			first int
			n     int
		}{
			"the last ten":                {agent.Page{Last: true, Limit: 10}, 40, 10},
			"the first three":             {agent.Page{Limit: 3}, 0, 3},
			"after the tenth":             {agent.Page{After: 10, Limit: 5}, 10, 5},
			"the last two before the 8th": {agent.Page{Before: 8, Limit: 2, Last: true}, 5, 2},
			"between both":                {agent.Page{After: 3, Before: 6}, 3, 2},
			"the last of a part":          {agent.Page{After: 45, Limit: 10, Last: true}, 45, 5},
			"all":                         {agent.Page{}, 0, 50},
		} {
			got := contents(t, s, c.ID, p.page)
			if len(got) != p.n || got[0] != fmt.Sprint(p.first) || got[p.n-1] != fmt.Sprint(p.first+p.n-1) {
				t.Errorf("%s: %v", why, got)
			}
		}
		if got := must(s.LoadConversation(t.Context(), c.ID, agent.Page{Limit: 1}))(t); got.LastMessage.Before(c.Created) || got.Count != 50 {
			t.Errorf("last message %v, %d messages", got.LastMessage, got.Count)
		}
	})
}

func TestPageDoesNotPartToolCallsFromTheirResults(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		s := h.Store
		ctx := t.Context()
		c := talk(t, s, "a", "q")
		call := agent.NewMessage(agent.Assistant, "calls")
		call.ToolCalls = []agent.ToolCall{{ID: "1", Name: "x"}, {ID: "2", Name: "y"}}
		must(s.AppendMessage(ctx, c.ID, call, agent.ToolResult("1", "r1"), agent.ToolFailure("2", "r2"), agent.NewMessage(agent.Assistant, "done")))(t)
		for _, p := range []struct {
			page agent.Page
			want string
		}{
			{agent.Page{Last: true, Limit: 2, WholeToolCalls: true}, "calls r1 r2 done"},
			{agent.Page{Limit: 2, WholeToolCalls: true}, "q calls r1 r2"},
			{agent.Page{Limit: 3, WholeToolCalls: true}, "q calls r1 r2"},
			{agent.Page{Limit: 2}, "q calls"},
		} {
			if got := strings.Join(contents(t, s, c.ID, p.page), " "); got != p.want {
				t.Errorf("%+v: %s, want %s", p.page, got, p.want)
			}
		}
		got := must(s.LoadConversation(ctx, c.ID, agent.Page{}))(t).Messages[1].ToolCalls
		if *got[0].Result != "r1" || got[0].Status != agent.Completed || *got[1].Result != "r2" || got[1].Status != agent.Failed {
			t.Errorf("the calls are %+v", got)
		}
		must(s.AppendMessage(ctx, c.ID, agent.ToolFailure("1", "late")))(t)
		got = must(s.LoadConversation(ctx, c.ID, agent.Page{}))(t).Messages[1].ToolCalls
		if *got[0].Result != "r1" || got[0].Status != agent.Completed {
			t.Error("a final status changed")
		}
		call.ToolCalls[0].Status = agent.Pending
		isErr(t, s.EditMessage(ctx, c.ID, call), tiers.ErrConflict)
		_, err := s.AppendMessage(ctx, c.ID, agent.ToolResult("unknown", "r"))
		isErr(t, err, tiers.ErrNotFound)
		must(s.ForImport().AppendMessage(ctx, c.ID, agent.ToolResult("unknown", "r")))(t)
	})
}

func TestWindowKeepsTheNewestThatFit(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		s := h.Store
		ctx := t.Context()
		c := talk(t, s, "a")
		c.SystemPrompt, c.MaxContextTokens = "sys", 7
		ok(t, s.SaveConversation(ctx, c))
		say := func(m agent.Message, tokens int) {
			m.Tokens = &tokens
			must(s.AppendMessage(ctx, c.ID, m))(t)
		}
		say(agent.NewMessage(agent.User, "1"), 3)
		call := agent.NewMessage(agent.Assistant, "2")
		call.ToolCalls = []agent.ToolCall{{ID: "x", Name: "x"}}
		say(call, 2)
		say(agent.ToolResult("x", "3"), 2)
		say(agent.NewMessage(agent.Assistant, "4"), 1)
		for n, want := range map[int]string{0: "sys 2 3 4", 3: "sys 4", 5: "sys 4", 6: "sys 2 3 4", 9: "sys 1 2 3 4"} {
			var got []string
			for _, m := range must(s.Window(ctx, c.ID, n))(t) {
				got = append(got, m.Content)
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%d tokens: %v, want %s", n, got, want)
			}
		}
	})
}

func TestNegativeLimitsAreRefused(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a", "one")
		must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		few := agent.After{Limit: -1}
		for what, err := range map[string]error{
			"a window":      second(h.Window(ctx, c.ID, -1)),
			"a page":        second(h.LoadConversation(ctx, c.ID, agent.Page{Limit: -1})),
			"a search":      second(h.Search(ctx, agent.Query{Text: "one", Limit: new(-1)})),
			"a prune":       second(h.Prune(ctx, "a", -1)),
			"agents":        firstError(h.List(ctx, few)),
			"conversations": firstError(h.Conversations(ctx, "a", few)),
			"checkpoints":   firstError(h.Checkpoints(ctx, "a", few)),
		} {
			if !errors.Is(err, tiers.ErrType) || !strings.Contains(err.Error(), "-1") && what != "a page" {
				t.Errorf("%s with -1: %v", what, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

func firstError[T any](all iter.Seq2[T, error]) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// A model may give two calls one id, turns apart: what comes then is the result of the
// newest that asks.
func TestResultBelongsToTheNewestCallOfItsID(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a", "q")
		asks := func(text string) agent.Message {
			m := agent.NewMessage(agent.Assistant, text)
			m.ToolCalls = []agent.ToolCall{{ID: "call", Name: "x"}}
			return m
		}
		for _, turn := range []string{"first", "second"} {
			must(h.AppendMessage(ctx, c.ID, asks(turn), agent.ToolResult("call", "result of "+turn)))(t)
		}
		must(h.AppendMessage(ctx, c.ID, asks("third"), asks("fourth"), agent.ToolResult("call", "result of fourth")))(t)
		got := must(h.LoadConversation(ctx, c.ID, agent.Page{}))(t).Messages
		for i, want := range map[int]string{1: "result of first", 3: "result of second", 5: "", 6: "result of fourth"} {
			r := got[i].ToolCalls[0].Result
			if r == nil && want != "" || r != nil && *r != want {
				t.Errorf("the call of %s has the result %v, want %q", got[i].Content, r, want)
			}
		}
		page := contents(t, h.Store, c.ID, agent.Page{Last: true, Limit: 1, WholeToolCalls: true})
		if strings.Join(page, ", ") != "fourth, result of fourth" {
			t.Errorf("the page widened to whole calls is %v", page)
		}
	})
}

func TestNeitherEditNorRestoreTakesACallFromTheNewestThatAsks(t *testing.T) {
	ctx, s := t.Context(), inMemory(t)
	c := talk(t, s, "a", "q")
	var asks [3]agent.Message
	for i := range asks {
		asks[i] = agent.NewMessage(agent.Assistant, fmt.Sprint("turn ", i))
		asks[i].ToolCalls = []agent.ToolCall{{ID: "call", Name: "x"}}
	}
	must(s.AppendMessage(ctx, c.ID, asks[:2]...))(t)
	must(s.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
	must(s.AppendMessage(ctx, c.ID, asks[2]))(t)
	old := asks[0]
	old.Content = "edited"
	ok(t, s.EditMessage(ctx, c.ID, old))
	result := func(step, want string) {
		t.Helper()
		must(s.AppendMessage(ctx, c.ID, agent.ToolResult("call", "done")))(t)
		var done []string
		for _, m := range must(s.LoadConversation(ctx, c.ID, agent.Page{}))(t).Messages {
			for _, call := range m.ToolCalls {
				if call.Result != nil {
					done = append(done, m.Content)
				}
			}
		}
		if got := strings.Join(done, ", "); got != want {
			t.Errorf("%s: the result is that of %q, want %q", step, got, want)
		}
	}
	result("after an edit of an older one", "turn 2")
	must(s.Restore(ctx, "a", "latest", agent.RestoreOptions{}))(t)
	result("after a restore", "turn 1")
}

func TestTitleIsCutBetweenCharacters(t *testing.T) {
	family := "👨‍👩‍👧"
	for _, c := range []struct{ why, text, want string }{
		{"31 characters stay", "What is the weather like today?", "What is the weather like today?"},
		{
			"of 73 characters 50 are left, dots included", "This is a very long message that should be truncated when used as a title",
			"This is a very long message that should be trun...",
		},
		{"50 accented characters stay", strings.Repeat("é", 50), strings.Repeat("é", 50)},
		{"60 accented characters are cut between two", strings.Repeat("é", 60), strings.Repeat("é", 47) + "..."},
		{"an accent stays with its letter", strings.Repeat("e\u0301", 60), strings.Repeat("e\u0301", 47) + "..."},
		{"an emoji of several code points is one character", strings.Repeat(family, 60), strings.Repeat(family, 47) + "..."},
		{"white space collapses", " a \n\n b\tc ", "a b c"},
		{"nothing but space is no title", " \n ", ""},
	} {
		if got := agent.Title(c.text); got != c.want {
			t.Errorf("%s: %q", c.why, got)
		}
	}
}

func TestAutoTitleIsTheFirstUserMessageWithText(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a")
		if got := must(h.AutoTitle(ctx, c.ID))(t); got != "" {
			t.Errorf("an empty conversation is titled %q", got)
		}
		must(h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.System, "sys"), agent.NewMessage(agent.User, " \n"),
			agent.NewMessage(agent.User, "real\nquestion"), agent.NewMessage(agent.User, "other")))(t)
		got := must(h.AutoTitle(ctx, c.ID))(t)
		ok(t, h.ModifyConversation(ctx, c.ID, func(c *agent.Conversation) error { c.Title = "mine"; return nil }))
		if again := must(h.AutoTitle(ctx, c.ID))(t); got != "real question" || again != "mine" {
			t.Errorf("titled %q, then %q", got, again)
		}
	})
}

func TestEditedMessageKeepsItsPlace(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a", "one", "two", "three")
		m := must(h.LoadConversation(ctx, c.ID, agent.Page{}))(t).Messages[1]
		m.Content = "edited"
		ok(t, h.EditMessage(ctx, c.ID, m))
		if d := cmp.Diff([]string{"one", "edited", "three"}, contents(t, h.Store, c.ID, agent.Page{})); d != "" {
			t.Error(d)
		}
		isErr(t, h.EditMessage(ctx, c.ID, agent.NewMessage(agent.User, "unknown")), tiers.ErrNotFound)
	})
}

func TestActiveConversationsAreThoseNotArchived(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		one, two := talk(t, h.Store, "a"), talk(t, h.Store, "a")
		active := func() []string { return must(h.Load(ctx, "a"))(t).Active }
		for _, step := range []struct {
			why  string
			do   func() error
			want []string
		}{
			{"a new one is active", func() error { return nil }, []string{one.ID, two.ID}},
			{"an archived one is not", func() error { return h.Archive(ctx, one.ID, true) }, []string{two.ID}},
			{"one that was put back is", func() error { return h.Archive(ctx, one.ID, false) }, []string{one.ID, two.ID}},
			{"a deleted one is not", func() error { _, err := h.DeleteConversation(ctx, two.ID); return err }, []string{one.ID}},
		} {
			ok(t, step.do())
			if d := cmp.Diff(step.want, active()); d != "" {
				t.Errorf("%s: %s", step.why, d)
			}
		}
		for item, err := range h.m.List(ctx, "agent.conversations", manager.Prefix("head/")) {
			ok(t, err)
			must(h.m.Delete(ctx, "agent.conversations", item.Key))(t)
		}
		a := must(h.Load(ctx, "a"))(t)
		if len(a.Active) != 0 || len(a.Repaired) != 1 || a.Repaired[0] != one.ID {
			t.Errorf("active %v, repaired %v; the only head is missing", a.Active, a.Repaired)
		}
	})
}

func TestConversationsAreListedByTheirNewestMessage(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for i, id := range []string{"old", "new", "same-b", "same-a"} {
			if i == 0 {
				ok(t, h.Save(ctx, agent.NewState("a", "", "")))
			}
			c := agent.NewConversation("a")
			c.ID, c.Created = id, at
			m := agent.NewMessage(agent.User, id)
			m.At = at.Add(time.Duration(min(i, 2)) * time.Hour)
			if id == "new" {
				m.At = at.Add(9 * time.Hour)
			}
			c.Add(m)
			ok(t, h.SaveConversation(ctx, c))
		}
		var got []string
		for _, c := range collected(t, h.Conversations(ctx, "a", agent.After{})) {
			got = append(got, c.ID)
		}
		if d := cmp.Diff([]string{"new", "same-a", "same-b", "old"}, got); d != "" {
			t.Error(d)
		}
		if page := collected(t, h.Conversations(ctx, "a", agent.After{ID: "new", Limit: 1})); len(page) != 1 || page[0].ID != "same-a" {
			t.Errorf("after the first: %v", page)
		}
		if other := collected(t, h.Conversations(ctx, "b", agent.After{})); len(other) != 0 {
			t.Errorf("an unknown agent has %v", other)
		}
	})
}

func TestUnreadableMessageIsNamedAndTheOthersLoad(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a", "one", "two", "three")
		var bad string
		for item, err := range h.m.List(ctx, "agent.conversations", manager.Prefix("msg/")) {
			ok(t, err)
			if strings.HasSuffix(item.Key, "2") {
				bad = item.Key
			}
		}
		ok(t, h.m.Save(ctx, "agent.conversations", bad, "no message"))
		got, err := h.LoadConversation(ctx, c.ID, agent.Page{})
		isErr(t, err, tiers.ErrCorrupt)
		if len(got.Messages) != 2 || !strings.Contains(err.Error(), bad) {
			t.Errorf("%d messages beside %v", len(got.Messages), err)
		}
	})
}

func TestWordsAreOnlyWhatTheySay(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a")
		for _, r := range agent.Roles() {
			must(h.AppendMessage(ctx, c.ID, agent.NewMessage(r, string(r))))(t)
		}
		all := agent.NewMessage(agent.Assistant, "all")
		for _, s := range agent.CallStatuses() {
			all.ToolCalls = append(all.ToolCalls, agent.ToolCall{ID: string(s), Name: "x", Status: s})
		}
		for _, k := range agent.AttachmentKinds() {
			all.Attachments = append(all.Attachments, agent.Attachment{Kind: k, URL: string(k)})
		}
		must(h.AppendMessage(ctx, c.ID, all))(t)
		got := must(h.LoadConversation(ctx, c.ID, agent.Page{}))(t).Messages
		for i, r := range agent.Roles() {
			if got[i].Role != r || got[i].Content != string(r) {
				t.Errorf("message %d is of %s", i, got[i].Role)
			}
		}
		for i, s := range agent.CallStatuses() {
			if got[4].ToolCalls[i].Status != s {
				t.Errorf("%s came back as %s", s, got[4].ToolCalls[i].Status)
			}
		}
		for i, k := range agent.AttachmentKinds() {
			if got[4].Attachments[i].Kind != k {
				t.Errorf("%s came back as %s", k, got[4].Attachments[i].Kind)
			}
		}
		unknown := agent.NewMessage("moderator", "x")
		unknown.ToolCalls = []agent.ToolCall{{ID: "1", Status: "stuck", Arguments: []byte("[1]")}}
		unknown.Attachments = []agent.Attachment{{Kind: "smell", Content: "x", Size: 2}}
		_, err := h.AppendMessage(ctx, c.ID, unknown)
		isErr(t, err, tiers.ErrType)
		for _, want := range []string{`"moderator"`, "system, user, assistant, tool", `"stuck"`, "pending, running, completed, failed", "no JSON object", "2 bytes"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error %v does not say %s", err, want)
			}
		}
		unknown.Attachments[0].Size = 0
		must(h.ForImport().AppendMessage(ctx, c.ID, unknown))(t)
		kept := must(h.LoadConversation(ctx, c.ID, agent.Page{Last: true, Limit: 1}))(t).Messages[0]
		if kept.Role != "moderator" || kept.ToolCalls[0].Status != "stuck" || string(kept.ToolCalls[0].Arguments) != "[1]" {
			t.Errorf("an import changed it to %+v", kept)
		}
		for text, want := range map[string]agent.Kind{"PreOperation": agent.PreOperation, "Manual": agent.Manual, "odd One": "odd One"} {
			var k agent.Kind
			ok(t, k.UnmarshalText([]byte(text)))
			if k != want {
				t.Errorf("%q is read as %q", text, k)
			}
		}
	})
}
