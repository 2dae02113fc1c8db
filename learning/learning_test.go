package learning_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/learning"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

func wantIs(t testing.TB, err, target error, what string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: %v, want %v", what, err, target)
	}
}

func texts(rs []learning.Record) []string {
	var all []string
	for _, r := range rs {
		all = append(all, r.Text)
	}
	return all
}

func TestRecordsStayAndAreFoundByUserAndKind(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			m, clock := r.Open(t)
			ctx, l := t.Context(), learning.New(m)
			must(t, l.Check())
			for _, b := range []*learning.Book{l.Patterns, l.Optimizations, l.Feedback} {
				must(t, b.Add(ctx,
					learning.Record{User: "u/1", Kind: "style", Text: "good", Score: 0.5, Metadata: map[string]string{"from": "chat"}},
					learning.Record{User: "u/1", Kind: "style", Text: "best", Score: 0.9},
					learning.Record{User: "u/1", Kind: "tool", Text: "other kind", Score: 1},
					learning.Record{User: "u", Kind: "style", Text: "other user", Score: 1},
					learning.Record{User: "u2", Kind: "none", Text: "namesake"},
					learning.Record{Kind: "style", Text: "everybody", Score: 0.1}))
				if !r.Server {
					clock.Advance(10 * 365 * 24 * time.Hour)
				}
				for _, c := range []struct {
					why  string
					q    learning.Query
					want []string
				}{
					{"a user and a kind", learning.Query{User: "u/1", Kind: "style"}, []string{"best", "good"}},
					{"a user", learning.Query{User: "u/1"}, []string{"other kind", "best", "good"}},
					{"a user whose name begins another one", learning.Query{User: "u"}, []string{"other user"}},
					{"a kind", learning.Query{Kind: "style", Limit: 2}, []string{"other user", "best"}},
					{"all", learning.Query{}, []string{"other user", "other kind", "best", "good", "everybody", "namesake"}},
					{"nobody", learning.Query{User: "x"}, nil},
					{"what is new", learning.Query{Since: clock.Now().Add(time.Second)}, nil},
				} {
					if got := texts(value[[]learning.Record](t)(b.Top(ctx, c.q))); !slices.Equal(got, c.want) {
						t.Errorf("%s: %q, want %q", c.why, got, c.want)
					}
				}
			}
		})
	}
}

func TestSeenAgainIsOneRecordThatCounts(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			m, clock := r.Open(t)
			ctx, b := t.Context(), learning.New(m).Patterns
			must(t, b.Add(ctx, learning.Record{ID: "p", User: "u", Kind: "k", Text: "first", Score: 1, Metadata: map[string]string{"a": "1"}}))
			clock.Advance(time.Hour)
			must(t, b.Add(ctx, learning.Record{ID: "p", User: "u", Score: 2, Seen: 3}, learning.Record{ID: "p", User: "u", Score: 3, Text: "last"}))
			must(t, b.Add(ctx, learning.Record{ID: "p", User: "u", Score: 9, Text: "old", At: start.Add(-time.Hour)}))
			want := learning.Record{ID: "p", User: "u", Kind: "k", Text: "last", Score: 3, Seen: 6, First: start.Add(-time.Hour), At: start.Add(time.Hour), Metadata: map[string]string{"a": "1"}}
			if diff := cmp.Diff(want, value[learning.Record](t)(b.Get(ctx, "u", "p"))); diff != "" {
				t.Errorf("it is another one:\n%s", diff)
			}
			var work sync.WaitGroup
			for range 4 {
				work.Go(func() {
					for range 5 {
						must(t, b.Add(ctx, learning.Record{User: "u", Kind: "style", Text: "short"}))
					}
				})
			}
			work.Wait()
			top := value[[]learning.Record](t)(b.Top(ctx, learning.Query{User: "u", Kind: "style"}))
			if len(top) != 1 || top[0].Seen != 20 {
				t.Errorf("one text seen 20 times is %+v", top)
			}
			if !value[bool](t)(b.Delete(ctx, "u", "p")) || value[bool](t)(b.Delete(ctx, "u", "p")) {
				t.Error("deleting twice answers the same")
			}
			_, err := b.Get(ctx, "u", "p")
			wantIs(t, err, tiers.ErrNotFound, "get what was deleted")
		})
	}
}

func TestBookRefusesWhatItCouldNotOrder(t *testing.T) {
	t.Parallel()
	ctx, b := t.Context(), learning.New(sagetest.Open(t)).Feedback
	wantIs(t, b.Add(ctx, learning.Record{Text: "a", Score: math.NaN()}), tiers.ErrType, "no number")
	wantIs(t, b.Add(ctx, learning.Record{Text: "a"}, learning.Record{Text: "b", Seen: -1}), tiers.ErrType, "seen less than never")
	wantIs(t, b.Add(ctx, learning.Record{ID: strings.Repeat("x", 2000)}), tiers.ErrKey, "an id too long")
	if got := value[[]learning.Record](t)(b.Top(ctx, learning.Query{})); len(got) != 0 {
		t.Errorf("stored all the same: %+v", got)
	}
	must(t, b.Add(ctx))
}

func TestLearnedInATransactionWithTheRest(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			m, _ := r.Open(t)
			ctx, l := t.Context(), learning.New(m)
			err := m.Update(ctx, func(tx *manager.Tx) error {
				must(t, l.In(tx).Patterns.Add(ctx, learning.Record{Text: "a"}))
				must(t, learning.New(tx).Feedback.Add(ctx, learning.Record{Text: "b"}))
				if got := value[string](t)(l.In(tx).Digest(ctx, "", 100)); !strings.Contains(got, "- a\n") || !strings.Contains(got, "- b\n") {
					t.Errorf("the transaction sees %q", got)
				}
				return context.Canceled
			})
			wantIs(t, err, context.Canceled, "the transaction")
			if got := value[string](t)(l.Digest(ctx, "", 100)); got != "" {
				t.Errorf("rolled back there is %q", got)
			}
		})
	}
}

func TestDigestHasTheBestOfEachBookWithinItsTokens(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	words := func(text string) int { return len(strings.Fields(text)) }
	l := learning.New(m, learning.WithCounter(words))
	if got := value[string](t)(l.Digest(ctx, "u", 100)); got != "" {
		t.Errorf("of nothing it is %q", got)
	}
	for i := range 20 {
		must(t, l.Patterns.Add(ctx, learning.Record{User: "u", Kind: "style", Text: fmt.Sprint("pattern ", i), Score: float64(i)}))
	}
	must(t, l.Patterns.Add(ctx, learning.Record{User: "other", Text: "not theirs", Score: 99}))
	must(t, l.Optimizations.Add(ctx, learning.Record{Text: "for all\n- forged: line", Score: 1, Seen: 3}, learning.Record{User: "u", Text: "  "}))
	must(t, l.Feedback.Add(ctx, learning.Record{User: "u", Text: "liked it"}))
	want := "Patterns:\n- [style] pattern 19\n- [style] pattern 18\nWhat worked:\n- for all - forged: line (seen 3 times)\nFeedback:\n- liked it\n"
	if got := value[string](t)(l.Digest(ctx, "u", words(want))); got != want {
		t.Errorf("the digest is\n%s\nwant\n%s", got, want)
	}
	for n := range 60 {
		text := value[string](t)(l.Digest(ctx, "u", n))
		if words(text) > n {
			t.Fatalf("%d tokens for at most %d", words(text), n)
		}
		if again := value[string](t)(l.Digest(ctx, "u", n)); again != text {
			t.Fatalf("the same records make %q and %q", text, again)
		}
	}
	must(t, l.Feedback.Add(ctx, learning.Record{User: "long", Text: strings.Repeat("é", 500)}))
	if got := value[string](t)(l.Digest(ctx, "long", 1000)); !strings.Contains(got, "é…") || len(got) > 400+len(want) {
		t.Errorf("a long text makes %q", got)
	}
}

func TestRecordThatCannotBeReadIsToldBesideTheRest(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	b := learning.New(m).Patterns
	must(t, b.Add(ctx, learning.Record{User: "u", ID: "a", Text: "good"}))
	must(t, m.Save(ctx, "learning.patterns", "u/b", "damage"))
	got, err := b.Top(ctx, learning.Query{User: "u"})
	wantIs(t, err, tiers.ErrType, "top")
	if len(got) != 1 || got[0].Text != "good" {
		t.Errorf("the rest is %+v", got)
	}
}
