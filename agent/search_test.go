package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/routetest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/embedded"
)

// found answers what the hits of a search say.
func found(t testing.TB, s *agent.Store, q agent.Query) (all []string) {
	t.Helper()
	for _, h := range must(s.Search(t.Context(), q))(t) {
		all = append(all, h.Message.Content)
	}
	return all
}

func wantFound(t testing.TB, why string, s *agent.Store, q agent.Query, want ...string) {
	t.Helper()
	if got := found(t, s, q); !slices.Equal(got, want) {
		t.Errorf("%s: a search for %q finds %q, want %q", why, q.Text, got, want)
	}
}

func TestSearchFindsConversations(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		hello := talk(t, h.Store, "a", "Hello world")
		talk(t, h.Store, "a", "Goodbye universe")
		talk(t, h.Store, "b", "我用数据库 here")
		ten := 10
		for _, text := range []string{"world", "WORLD", "worl", "o w", "Hello world"} {
			wantFound(t, "a part in any case", h.Store, agent.Query{Text: text, Limit: &ten}, "Hello world")
		}
		wantFound(t, "a limit of 0 answers none", h.Store, agent.Query{Text: "world", Limit: new(int)})
		wantFound(t, "another agent has none", h.Store, agent.Query{Text: "world", AgentID: "b"})
		wantFound(t, "an agent that is not there has none", h.Store, agent.Query{Text: "world", AgentID: "nobody"})
		wantFound(t, "two characters of Chinese", h.Store, agent.Query{Text: "数据"}, "我用数据库 here")
		wantFound(t, "two characters of Chinese as a word", h.Store, agent.Query{Text: "数据", Mode: agent.ByWords}, "我用数据库 here")
		wantFound(t, "one of them", h.Store, agent.Query{Text: "库", Mode: agent.ByWords}, "我用数据库 here")
		wantFound(t, "a part of a word is no word", h.Store, agent.Query{Text: "worl", Mode: agent.ByWords})
		wantFound(t, "words in any order and case", h.Store, agent.Query{Text: "WORLD, hello!", Mode: agent.ByWords}, "Hello world")
		negative := -1
		for why, q := range map[string]agent.Query{
			"no text":          {},
			"white space":      {Text: " \n"},
			"an unknown mode":  {Text: "x", Mode: "word"},
			"an unknown role":  {Text: "x", Role: "usr"},
			"a negative limit": {Text: "x", Limit: &negative},
			"no text, words":   {Mode: agent.ByWords, Limit: new(int)},
		} {
			if hits, err := h.Search(ctx, q); err == nil {
				t.Errorf("%s finds %v", why, hits)
			} else {
				isErr(t, err, tiers.ErrType)
			}
		}
		hits := must(h.Search(ctx, agent.Query{Text: "world"}))(t)
		if hits[0].AgentID != "a" || hits[0].ConversationID != hello.ID || hits[0].Message.Seq != 1 || hits[0].Message.ID != hello.Messages[0].ID {
			t.Errorf("the hit is %+v", hits[0])
		}
		h.reopen()
		if _, err := h.Load(ctx, "a"); err == nil {
			wantFound(t, "opened again", h.Store, agent.Query{Text: "WORLD"}, "Hello world")
		}
	})
}

func TestAnyTextCanBeSearchedFor(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		texts := []string{"see POL-358", "a'b", `say "x`, "5 * 3", "this AND that", "a\tb%c_d", `back\slash`, "x\x00y", "NEAR(a b)", "🙂🙃 smile"}
		talk(t, h.Store, "a", "nothing to see")
		for _, text := range texts {
			talk(t, h.Store, "a", text)
		}
		for _, q := range []struct{ text, want string }{
			{"POL-358", "see POL-358"},
			{"a'b", "a'b"},
			{`"x`, `say "x`},
			{"*", "5 * 3"},
			{"s AND", "this AND that"},
			{"b%c_", "a\tb%c_d"},
			{`\sl`, `back\slash`},
			{"x\x00y", "x\x00y"},
			{"near(a", "NEAR(a b)"},
			{"🙃 s", "🙂🙃 smile"},
			{"%%%", ""},
			{"___", ""},
			{"***", ""},
		} {
			var want []string
			if q.want != "" {
				want = []string{q.want}
			}
			wantFound(t, "as it is", h.Store, agent.Query{Text: q.text}, want...)
		}
		for _, q := range []struct{ text, want string }{
			{"POL-358", "see POL-358"},
			{"that AND this", "this AND that"},
			{`back\`, `back\slash`},
			{"*", ""},
			{`"`, ""},
			{"NOT that", ""},
			{"🙂", ""},
		} {
			var want []string
			if q.want != "" {
				want = []string{q.want}
			}
			wantFound(t, "its words", h.Store, agent.Query{Text: q.text, Mode: agent.ByWords}, want...)
		}
	})
}

func TestWhatIsNoMoreIsNotFound(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		apple := agent.Query{Text: "apple"}
		c := talk(t, h.Store, "a", "an apple", "an apple as well", "a pear")
		ok(t, h.EditMessage(ctx, c.ID, agent.Message{ID: c.Messages[1].ID, Role: agent.User, Content: "a plum"}))
		wantFound(t, "edited", h.Store, apple, "an apple")
		wantFound(t, "edited", h.Store, agent.Query{Text: "plum"}, "a plum")
		must(h.DeleteMessage(ctx, c.ID, c.Messages[0].ID))(t)
		wantFound(t, "deleted", h.Store, apple)
		must(h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "one more apple")))(t)
		wantFound(t, "appended", h.Store, apple, "one more apple")
		before := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", Name: "before"}))(t)
		must(h.DeleteConversation(ctx, c.ID))(t)
		wantFound(t, "a deleted conversation that a checkpoint shows", h.Store, apple)
		wantFound(t, "a deleted conversation that a checkpoint shows", h.Store, agent.Query{Text: "apple", Mode: agent.ByWords})
		must(h.Restore(ctx, "a", before.ID, agent.RestoreOptions{}))(t)
		wantFound(t, "restored", h.Store, apple, "one more apple")
		must(h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "the last apple")))(t)
		must(h.Restore(ctx, "a", before.ID, agent.RestoreOptions{}))(t)
		wantFound(t, "restored over newer messages", h.Store, agent.Query{Text: "apple", Mode: agent.ByWords}, "one more apple")
		must(h.Delete(ctx, "a"))(t)
		wantFound(t, "a deleted agent", h.Store, apple)
		talk(t, h.Store, "a", "another apple")
		wantFound(t, "an agent of the same id", h.Store, apple, "another apple")
		err := h.m.Update(ctx, func(tx *manager.Tx) error {
			must(h.In(tx).AppendMessage(ctx, talk(t, h.In(tx), "b", "x").ID, agent.NewMessage(agent.User, "an apple to be")))(t)
			wantFound(t, "in the transaction", h.In(tx), agent.Query{Text: "apple to", Mode: agent.ByWords}, "an apple to be")
			return context.Canceled
		})
		isErr(t, err, context.Canceled)
		wantFound(t, "rolled back", h.Store, agent.Query{Text: "apple to"})
	})
}

func TestFiltersOfASearch(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
		for i, role := range []agent.Role{agent.User, agent.Assistant, agent.System} {
			c := talk(t, h.Store, "a")
			m := agent.NewMessage(role, "apple of "+string(role))
			m.At = day(i + 1)
			must(h.AppendMessage(ctx, c.ID, m))(t)
			if role == agent.System {
				ok(t, h.Archive(ctx, c.ID, true))
			} else {
				ok(t, h.Tag(ctx, c.ID, []string{"tag " + string(role)}, nil))
			}
		}
		for _, mode := range agent.Modes() {
			for _, c := range []struct {
				why  string
				q    agent.Query
				want []string
			}{
				{"newest first", agent.Query{}, []string{"apple of system", "apple of assistant", "apple of user"}},
				{"a limit", agent.Query{Limit: new(2)}, []string{"apple of system", "apple of assistant"}},
				{"archived ones", agent.Query{Archived: new(true)}, []string{"apple of system"}},
				{"others", agent.Query{Archived: new(false)}, []string{"apple of assistant", "apple of user"}},
				{"a tag", agent.Query{Tag: "tag user"}, []string{"apple of user"}},
				{"a tag that is another", agent.Query{Tag: "tag"}, nil},
				{"a role", agent.Query{Role: agent.Assistant}, []string{"apple of assistant"}},
				{"since", agent.Query{Since: day(2)}, []string{"apple of system", "apple of assistant"}},
				{"until", agent.Query{Until: day(2)}, []string{"apple of user"}},
				{"all of it", agent.Query{Since: day(1), Until: day(3), Role: agent.User, Tag: "tag user", AgentID: "a", Archived: new(false)}, []string{"apple of user"}},
			} {
				c.q.Text, c.q.Mode = "apple", mode
				wantFound(t, c.why+" by "+string(mode), h.Store, c.q, c.want...)
			}
		}
	})
}

func TestOrderOfHits(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		s := h.Store
		c := talk(t, s, "a", "apple pie", "apple apple", "an apple in a much longer message about other things", "apple pie once more", "plum")
		talk(t, s, "a", "apple")
		wantFound(t, "more often and shorter is better, then newer", s, agent.Query{Text: "Apple", Mode: agent.ByWords},
			"apple apple", "apple", "apple pie", "apple pie once more", "an apple in a much longer message about other things")
		hits := must(s.Search(t.Context(), agent.Query{Text: "apple"}))(t)
		if len(hits) != 2 || hits[1].ConversationID != c.ID || hits[1].Message.Content != "apple pie once more" {
			t.Errorf("a conversation is a hit once, with its newest message: %+v", hits)
		}
		for _, h := range must(s.Search(t.Context(), agent.Query{Text: "apple", Mode: agent.ByWords}))(t) {
			if h.Rank <= 0 || h.Rank >= 1 {
				t.Errorf("the rank of %q is %v", h.Message.Content, h.Rank)
			}
		}
	})
}

func TestSnippets(t *testing.T) {
	long := strings.Repeat("word ", 100)
	family := "👨‍👩‍👧‍👦"
	for _, c := range []struct {
		why, content string
		q            agent.Query
		snippet      string
		highlights   []string
	}{
		{"a short message is whole", "Say Hello to hello", agent.Query{Text: "hello"}, "Say Hello to hello", []string{"Hello", "hello"}},
		{"a long one is cut around the first place", long + "NEEDLE" + long, agent.Query{Text: "needle"}, "…" + strings.Repeat("word ", 8) + "NEEDLE" + strings.Repeat("word ", 22) + "word…", []string{"NEEDLE"}},
		{"a character is highlighted whole", "cafe\u0301s", agent.Query{Text: "fe"}, "cafe\u0301s", []string{"fe\u0301"}},
		{"and cut nowhere", strings.Repeat(family, 300) + "x", agent.Query{Text: "x"}, "…" + strings.Repeat(family, 159) + "x", []string{"x"}},
		{"folding may change how long a character is", "ⱥ\u212Aelvin", agent.Query{Text: "kelvin"}, "ⱥ\u212Aelvin", []string{"\u212Aelvin"}},
		{"words", "the cat, the dog", agent.Query{Text: "dog the", Mode: agent.ByWords}, "the cat, the dog", []string{"the", "the", "dog"}},
		{"pairs that overlap are one", "用数据库", agent.Query{Text: "数据库", Mode: agent.ByWords}, "用数据库", []string{"数据库"}},
	} {
		s := inMemory(t)
		talk(t, s, "a", c.content)
		hits := must(s.Search(t.Context(), c.q))(t)
		if len(hits) != 1 {
			t.Errorf("%s: %d hits", c.why, len(hits))
			continue
		}
		var marked []string
		for _, at := range hits[0].Highlights {
			marked = append(marked, hits[0].Snippet[at.Start:at.End])
		}
		if hits[0].Snippet != c.snippet || !slices.Equal(marked, c.highlights) {
			t.Errorf("%s: %q with %q, want %q with %q", c.why, hits[0].Snippet, marked, c.snippet, c.highlights)
		}
	}
}

func TestTheBeginningOfAHugeMessageIsSearched(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		talk(t, h.Store, "a", "needle "+strings.Repeat(strings.Repeat("häy", 16)+" ", 4200)+"pin")
		for _, mode := range agent.Modes() {
			if n := len(found(t, h.Store, agent.Query{Text: "needle", Mode: mode})); n != 1 {
				t.Errorf("%s: %d hits at the beginning", mode, n)
			}
			if n := len(found(t, h.Store, agent.Query{Text: "pin", Mode: mode})); n != 0 {
				t.Errorf("%s: %d hits beyond what is searched", mode, n)
			}
		}
	})
}

// onDatabase is a manager on a directory, with what the categories of agents say.
func onDatabase(t testing.TB, dir string, change func(c *config.Config)) *manager.Manager {
	t.Helper()
	cfg := config.Default()
	cfg.DataDir = dir
	cfg.Encryption.Current = "k1"
	cfg.Encryption.Keys = map[string]config.Secret{"k1": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}
	if change != nil {
		change(cfg)
	}
	return must(manager.Open(context.WithoutCancel(t.Context()), cfg, routetest.Drivers(embedded.Tiers())))(t)
}

func TestMessagesThatCameAnotherWayAreFound(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	encrypted := func(on bool) func(c *config.Config) {
		return func(c *config.Config) {
			c.Categories = map[string]config.Category{"agent.conversations": {Tier: "database", Encrypt: &on}}
		}
	}
	m := onDatabase(t, dir, encrypted(false))
	s := agent.New(m)
	c := talk(t, s, "a", "an apple", "a plum")
	// A save that knows nothing of the text, and a copy of the whole category.
	raw := manager.For[any](m, "agent.conversations")
	for e, err := range raw.List(ctx, manager.Prefix("msg/")) {
		ok(t, err)
		ok(t, raw.Save(ctx, e.Key, e.Value))
	}
	wantFound(t, "saved without a text", s, agent.Query{Text: "apple"}, "an apple")
	x, is := raw.Index()
	if missing := must(x.Missing(ctx, "msg/", "", 0))(t); !is || len(missing) != 0 {
		t.Errorf("%d messages are not in the index after a search", len(missing))
	}
	ok(t, m.Close(ctx))

	m = onDatabase(t, dir, encrypted(true))
	s = agent.New(m)
	must(s.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "a secret apple")))(t)
	wantFound(t, "encrypted now", s, agent.Query{Text: "apple", Mode: agent.ByWords}, "a secret apple", "an apple")
	ok(t, m.Close(ctx))

	m = onDatabase(t, dir, encrypted(false))
	s = agent.New(m)
	wantFound(t, "no more, but one still is", s, agent.Query{Text: "apple", Mode: agent.ByWords}, "a secret apple", "an apple")
	x, _ = manager.For[any](m, "agent.conversations").Index()
	if got := must(x.Search(ctx, tiers.Search{Words: []string{"secret"}}))(t); len(got) != 0 {
		t.Error("what is encrypted was put into the index")
	}
	ok(t, m.Close(ctx))
}

func TestADamagedMessageIsNamedAndOthersFound(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		m, s := h.m, h.Store
		c := talk(t, s, "a", "an apple", "apple two", "apple three")
		raw := manager.For[json.RawMessage](m, "agent.conversations")
		for e, err := range raw.List(t.Context(), manager.Prefix("msg/")) {
			ok(t, err)
			if strings.HasSuffix(e.Key, "2") {
				ok(t, raw.Save(t.Context(), e.Key, json.RawMessage(`{"content":7}`)))
			}
		}
		hits, err := s.Search(t.Context(), agent.Query{Text: "apple", Mode: agent.ByWords})
		isErr(t, err, tiers.ErrCorrupt)
		if len(hits) != 2 || !strings.Contains(err.Error(), "0000000002") {
			t.Errorf("%d hits in %s beside %v", len(hits), c.ID, err)
		}
		talk(t, s, "b", "an apple")
		if n := len(found(t, s, agent.Query{Text: "apple", AgentID: "b"})); n != 1 {
			t.Errorf("of another agent %d are found", n)
		}
		must(h.Repair(t.Context(), "a"))(t)
		wantFound(t, "repaired", s, agent.Query{Text: "apple three"}, "apple three")
	})
}

func TestSearchInManyNamespacesIsInOne(t *testing.T) {
	m := onDatabase(t, t.TempDir(), nil)
	talk(t, agent.New(m), "a", "an apple")
	talk(t, agent.New(m.Namespace("acme")), "a", "an apple of acme")
	wantFound(t, "the first", agent.New(m), agent.Query{Text: "apple"}, "an apple")
	wantFound(t, "the other", agent.New(m.Namespace("acme")), agent.Query{Text: "apple"}, "an apple of acme")
	ok(t, m.Close(t.Context()))
}

func FuzzSearch(f *testing.F) {
	m := sagetest.Open(f)
	s := agent.New(m)
	ok(f, s.Save(f.Context(), agent.NewState("a", "", "")))
	f.Add("Hello world", "WORLD")
	f.Add("a\u0301b", "\u0301")
	f.Add("数据库", "据库")
	f.Add("İstanbul ſ", "istanbul s")
	f.Fuzz(func(t *testing.T, content, text string) {
		if !utf8.ValidString(content) || strings.TrimSpace(text) == "" {
			return
		}
		c := talk(t, s, "a", content)
		defer func() { must(s.DeleteConversation(t.Context(), c.ID))(t) }()
		for _, mode := range agent.Modes() {
			for _, h := range must(s.Search(t.Context(), agent.Query{Text: text, Mode: mode}))(t) {
				last := 0
				for _, at := range h.Highlights {
					if at.Start < last || at.End <= at.Start || at.End > len(h.Snippet) || !utf8.ValidString(h.Snippet[at.Start:at.End]) {
						t.Fatalf("%v in %q", h.Highlights, h.Snippet)
					}
					last = at.End
				}
				if len(h.Highlights) == 0 {
					t.Fatal("nothing is highlighted")
				}
			}
			if self := found(t, s, agent.Query{Text: content, Mode: mode, Limit: new(1000)}); strings.TrimSpace(content) != "" && mode == agent.Contains && !slices.Contains(self, content) {
				t.Fatalf("a search for all of %q finds %q", content, self)
			}
		}
	})
}

func ExampleStore_Search() {
	ctx := context.Background()
	m, err := manager.OpenMemory(ctx, embedded.Tiers())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = m.Close(ctx) }() // nothing is lost that was not in memory
	s := agent.New(m)
	c := agent.NewConversation("support")
	c.Add(agent.NewMessage(agent.User, "Where is my parcel?"), agent.NewMessage(agent.Assistant, "Your parcel is on its way."))
	if err := s.Save(ctx, agent.NewState("support", "Support", "")); err != nil {
		fmt.Println(err)
	}
	if err := s.SaveConversation(ctx, c); err != nil {
		fmt.Println(err)
	}
	hits, err := s.Search(ctx, agent.Query{Text: "PARCEL way", Mode: agent.ByWords})
	for _, h := range hits {
		fmt.Println(h.Message.Role, h.Snippet)
	}
	fmt.Println(err)
	// Output:
	// assistant Your parcel is on its way.
	// <nil>
}
