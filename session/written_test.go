package session_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

// versions answers those of all records, by the category without "session." and the key.
func versions(t testing.TB, m *manager.Manager) map[string]tiers.Version {
	t.Helper()
	all := map[string]tiers.Version{}
	for _, category := range categories {
		for item, err := range m.List(t.Context(), category) {
			must(t, err)
			all[strings.TrimPrefix(category, "session.")+" "+item.Key] = item.Version
		}
	}
	return all
}

// changes counts the records that were added, written again and removed: those of a
// session by the category, and by the letter of its events and their IDs.
func changes(before, after map[string]tiers.Version) string {
	counts := map[string]int{}
	kind := func(key string) string {
		category, rest, _ := strings.Cut(key, " ")
		if parts := strings.Split(rest, "/"); category == "events" && len(parts) > 1 {
			return category + "/" + parts[1]
		}
		return category
	}
	for key, was := range before {
		if now, there := after[key]; !there {
			counts[kind(key)+" -"]++
		} else if now != was {
			counts[kind(key)+" ~"]++
		}
	}
	for key := range after {
		if _, there := before[key]; !there {
			counts[kind(key)+" +"]++
		}
	}
	var words []string
	for kind, n := range counts {
		words = append(words, fmt.Sprint(kind, n))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

func TestNothingOfASessionIsWrittenAgainThatDidNotChange(t *testing.T) {
	t.Parallel()
	for _, tier := range []string{"memory", "database", "file"} {
		for _, n := range []int{10, 200} {
			t.Run(fmt.Sprint(tier, " ", n), func(t *testing.T) {
				t.Parallel()
				m, _ := routeTo(tier).Open(t)
				others := n
				if tier == "file" {
					others = 10 // each is a file, which takes its time
				}
				writesOnlyWhatChanges(t, m, n, others)
			})
		}
	}
}

// writesOnlyWhatChanges looks at what steps write to a session with n events, and
// so many queries and entries of its context.
func writesOnlyWhatChanges(t *testing.T, m *manager.Manager, n, others int) {
	t.Helper()
	ctx, s := t.Context(), session.New(m)
	st := session.State{SessionID: "s", UserID: "u", Context: map[string]any{}, Preferences: map[string]any{"theme": "dark"}}
	var es []session.Event
	for i := range others {
		st.Context[fmt.Sprint("entry ", i)], st.History = i, append(st.History, fmt.Sprint("query ", i))
	}
	for i := range n {
		es = append(es, event(t, "s", "t", session.UserPrompt{Prompt: fmt.Sprint("prompt ", i)}))
	}
	must(t, s.Start(ctx, st, es...))
	must(t, s.Start(ctx, session.State{SessionID: "other", UserID: "u"}, event(t, "other", "t", session.UserPrompt{Prompt: "elsewhere"})))
	stored := value[[]session.Event](t)(s.Last(ctx, "s", n))
	add := func(es ...session.Event) func() {
		return func() { value[uint64](t)(s.Append(ctx, "s", es...)) }
	}
	prompt := func() session.Event { return event(t, "s", "t", session.UserPrompt{Prompt: "more"}) }
	before := versions(t, m)
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"an event", add(prompt()), "events ~1, events/e +1, events/i +1"},
		{"three events", add(prompt(), prompt(), prompt()), "events ~1, events/e +3, events/i +3"},
		{"events that are there", add(stored...), ""},
		{"an event that is there and a new one", add(stored[3], prompt()), "events ~1, events/e +1, events/i +1"},
		{"a query", func() { must(t, s.AddQuery(ctx, "s", "and now?")) }, "history +1, state ~1"},
		{"a state with nothing but a query", func() {
			must(t, s.Save(ctx, &session.State{SessionID: "s", History: append(slices.Clone(st.History), "and now?", "and then?")}))
		}, "history +1, state ~1"},
		{"preferences", func() {
			must(t, s.Save(ctx, &session.State{SessionID: "s", Preferences: map[string]any{"theme": "light"}}))
		}, "preferences ~1, state ~1"},
		{"a fork", func() { must(t, s.Fork(ctx, "s", 5, "f")) }, "events +1, events/e +6, events/i +6, state +1"},
		{"the end", func() { must(t, s.End(ctx, "s")) }, fmt.Sprintf("context -%d, events ~1, events/e +1, events/i +1, state ~1", others)},
	} {
		step.do()
		after := versions(t, m)
		if got := changes(before, after); got != step.want {
			t.Errorf("%s: %s, want %s", step.what, cmp.Or(got, "nothing"), cmp.Or(step.want, "nothing"))
		}
		before = after
	}
}
