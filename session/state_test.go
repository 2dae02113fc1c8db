package session_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

var ownOnly = cmpopts.IgnoreUnexported(session.State{})

func full() session.State {
	return session.State{
		SessionID: "s-1", UserID: "user-42", StartedAt: start,
		Context:     map[string]any{"goal": "find it", "steps": int64(3), "a/b": []any{"x", nil}},
		Preferences: map[string]any{"theme": "dark", "big": int64(9007199254740993)},
		History:     []string{"first", "second", "third"},
	}
}

func TestStateComesBackWhole(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			m, clock := r.Open(t)
			ctx, s := t.Context(), session.New(m)
			must(t, s.Check())
			st := full()
			must(t, s.Start(ctx, st))
			got := value[session.State](t)(s.Load(ctx, "s-1"))
			if diff := cmp.Diff(full(), got, ownOnly); diff != "" {
				t.Fatalf("it came back as another one:\n%s", diff)
			}
			if !r.Server {
				clock.Advance(25 * time.Hour)
				got = value[session.State](t)(s.Load(ctx, "s-1"))
				want := full()
				want.History, want.Expired = nil, []session.Part{session.PartHistory}
				if diff := cmp.Diff(want, got, ownOnly); diff != "" {
					t.Errorf("a day later:\n%s", diff)
				}
			}
			must(t, s.End(ctx, "s-1"))
			got = value[session.State](t)(s.Load(ctx, "s-1"))
			if got.UserID != "user-42" || got.Preferences["theme"] != "dark" || got.Context != nil || got.EndedAt.IsZero() || !slices.Contains(got.Expired, session.PartContext) {
				t.Errorf("after the end it is %+v", got)
			}
			n := 0
			for _, err := range m.List(ctx, "session.context") {
				must(t, err)
				n++
			}
			if n != 0 {
				t.Errorf("%d records of the context are left", n)
			}
			wantIs(t, s.Save(ctx, &got), tiers.ErrSessionEnded, "save after the end")
			wantIs(t, s.AddQuery(ctx, "s-1", "late"), tiers.ErrSessionEnded, "add a query after the end")
			_, err := s.Load(ctx, "s-2")
			wantIs(t, err, tiers.ErrNotFound, "load what is not there")

			value[uint64](t)(s.Resume(ctx, "s-1"))
			got.Context = map[string]any{"goal": "again"}
			must(t, s.Save(ctx, &got))
			if got = value[session.State](t)(s.Load(ctx, "s-1")); got.Context["goal"] != "again" || !got.EndedAt.IsZero() {
				t.Errorf("resumed it is %+v", got)
			}
		})
	}
}

func TestSaveReplacesContextAndAddsToHistory(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			m, _ := r.Open(t)
			ctx, s := t.Context(), session.New(m)
			must(t, s.Start(ctx, full()))
			st := value[session.State](t)(s.Load(ctx, "s-1"))
			old := value[session.State](t)(s.Load(ctx, "s-1"))
			st.Context = map[string]any{"goal": "another"}
			st.Preferences = nil // stays
			st.History = append(st.History, "fourth")
			must(t, s.Save(ctx, &st))
			must(t, s.Save(ctx, &st))
			must(t, s.AddQuery(ctx, "s-1", "fifth"))
			must(t, s.Save(ctx, &old)) // takes no query away
			st.History = append(st.History, "sixth")
			must(t, s.Save(ctx, &st))
			got := value[session.State](t)(s.Load(ctx, "s-1"))
			if want := []string{"first", "second", "third", "fourth", "fifth", "sixth"}; !slices.Equal(got.History, want) {
				t.Errorf("the history is %q", got.History)
			}
			if diff := cmp.Diff(map[string]any{"goal": "another"}, got.Context); diff != "" || got.Preferences["theme"] != "dark" {
				t.Errorf("context and preferences are %v, %v", got.Context, got.Preferences)
			}
			made := session.State{SessionID: "s-1", History: []string{"fifth", "sixth", "seventh"}} // by hand
			must(t, s.Save(ctx, &made))
			made = session.State{SessionID: "s-1", History: []string{"first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"}}
			must(t, s.Save(ctx, &made))
			if got = value[session.State](t)(s.Load(ctx, "s-1")); got.History[len(got.History)-1] != "eighth" {
				t.Errorf("the history is %q", got.History)
			}
			must(t, s.Save(ctx, &session.State{SessionID: "s-1", Context: map[string]any{}, Preferences: map[string]any{}}))
			if got = value[session.State](t)(s.Load(ctx, "s-1")); got.Context != nil || len(got.Preferences) != 0 || got.Expired != nil {
				t.Errorf("emptied it is %+v", got)
			}
		})
	}
}

func TestHistoryKeepsTheLastQueries(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			m, _ := r.Open(t)
			ctx, s := t.Context(), session.New(m, session.WithHistory(5))
			must(t, s.Start(ctx, session.State{SessionID: "s", History: []string{"a", "b", "c", "d", "e", "f", "g"}}))
			var work sync.WaitGroup
			for range 3 {
				work.Go(func() { must(t, s.AddQuery(ctx, "s", "q")) })
			}
			work.Wait()
			if got := value[session.State](t)(s.Load(ctx, "s")).History; !slices.Equal(got, []string{"f", "g", "q", "q", "q"}) {
				t.Errorf("kept %q", got)
			}
		})
	}
}

func TestStateOfOneSessionIsNotAnothers(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	s, acme := session.New(m), session.New(m.Namespace("acme"))
	ids := []string{"a", "a/b", "a%2Fb", "a-b", "%ending/a", "é", " "}
	for i, id := range ids {
		must(t, s.Start(ctx, session.State{SessionID: id, Context: map[string]any{"n": int64(i)}, History: []string{id}}))
	}
	must(t, acme.Start(ctx, session.State{SessionID: "a", History: []string{"acme"}}))
	must(t, s.End(ctx, "a"))
	for i, id := range ids[1:] {
		st := value[session.State](t)(s.Load(ctx, id))
		if st.Context["n"] != int64(i+1) || !slices.Equal(st.History, []string{id}) || st.SessionID != id {
			t.Errorf("%q is %+v", id, st)
		}
	}
	if st := value[session.State](t)(acme.Load(ctx, "a")); st.History[0] != "acme" || !st.EndedAt.IsZero() {
		t.Errorf("that of the other namespace is %+v", st)
	}
	var listed []string
	for info, err := range s.All(ctx) {
		must(t, err)
		listed = append(listed, info.ID)
	}
	slices.Sort(listed)
	slices.Sort(ids)
	if !slices.Equal(listed, ids) {
		t.Errorf("listed %q, want %q", listed, ids)
	}
	wantIs(t, s.Start(ctx, session.State{}), tiers.ErrKey, "start without an id")
	wantIs(t, s.Start(ctx, session.State{SessionID: "p", Preferences: map[string]any{"a": 1}}), tiers.ErrKey, "preferences of nobody")
	if _, err := s.Load(ctx, "p"); err == nil {
		t.Error("a start that failed has left a session")
	}
}

func TestDamagedPartIsToldBesideTheRest(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	s := session.New(m)
	must(t, s.Start(ctx, full()))
	must(t, m.Save(ctx, "session.history", "s-1/0000000002", 7))
	st, err := s.Load(ctx, "s-1")
	wantIs(t, err, tiers.ErrType, "load")
	if !slices.Equal(st.History, []string{"first", "third"}) || st.Context["goal"] != "find it" {
		t.Errorf("the rest is %+v", st)
	}
}

func TestQueriesCostTheSameHoweverManyThereAre(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	s := session.New(m)
	must(t, s.Start(ctx, session.State{SessionID: "s"}))
	for i := range 30 {
		must(t, s.AddQuery(ctx, "s", fmt.Sprint(i)))
	}
	n := 0
	for item, err := range m.List(ctx, "session.history") {
		must(t, err)
		if n++; item.Size() > 10 {
			t.Errorf("a query has %d bytes", item.Size())
		}
	}
	if n != 30 {
		t.Errorf("there are %d records for 30 queries", n)
	}
}
