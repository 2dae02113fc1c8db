package agent_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func isErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("the error is %v, want %v", err, want)
	}
}

// collected answers what a listing yields.
func collected[T any](t testing.TB, list func(func(T, error) bool)) (all []T) {
	t.Helper()
	for v, err := range list {
		ok(t, err)
		all = append(all, v)
	}
	return all
}

func TestNewAgentHasWhatItWasGivenAndNothingElse(t *testing.T) {
	a := agent.NewState("agent-1", "Test Agent", "gpt-4")
	if time.Since(a.Created) > time.Minute || !a.Created.Equal(a.Modified) || a.Created.Location() != time.UTC {
		t.Errorf("created %v, modified %v", a.Created, a.Modified)
	}
	want := &agent.State{ID: "agent-1", Name: "Test Agent", Type: "gpt-4", Version: 1, Created: a.Created, Modified: a.Modified}
	if d := cmp.Diff(want, a); d != "" {
		t.Error(d)
	}
	if _, found := a.Get("counter"); found {
		t.Error("a value was found that nobody set")
	}
	if one, other := agent.NewState("", "", ""), agent.NewState("", "", ""); one.ID == other.ID {
		t.Error("two made ids are the same")
	}
}

func TestAgentComesBackAsItWasSaved(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		a := agent.NewState("agent-1", "Test Agent", "gpt-4")
		a.SystemPrompt, a.Capabilities = "Be brief.", []string{"search", "code"}
		a.Config = map[string]any{"temperature": 0.5, "max": int64(9007199254740993)}
		a.Metadata = map[string]string{"team": "blue"}
		a.Created = time.Date(2026, 3, 4, 5, 6, 7, 123456789, time.UTC)
		a.Set("counter", 42)
		a.Set("", "a name may be empty")
		a.Set("a/b %", []any{"x", nil, true, map[string]any{"y": 1.5}})
		before := a.Modified
		ok(t, h.Save(ctx, a))
		if a.Revision == 0 || a.Modified.Before(before) {
			t.Errorf("after the save: revision %d, modified %v, it was %v", a.Revision, a.Modified, before)
		}
		got := must(h.reopen().Load(ctx, "agent-1"))(t)
		want := *a
		want.Custom = map[string]any{"counter": int64(42), "": "a name may be empty", "a/b %": a.Custom["a/b %"]}
		if d := cmp.Diff(&want, got, cmpopts.EquateEmpty()); d != "" {
			t.Error(d)
		}
		got.Set("counter", 43)
		delete(got.Custom, "a/b %")
		modified := got.Modified
		ok(t, h.Save(ctx, got))
		again := must(h.Load(ctx, "agent-1"))(t)
		if d := cmp.Diff(got, again, cmpopts.EquateEmpty(), cmpopts.IgnoreMapEntries(func(k string, _ any) bool { return k == "counter" })); d != "" {
			t.Error(d)
		}
		if v, _ := again.Get("counter"); v != int64(43) {
			t.Errorf("the counter is %v (%T)", v, v)
		}
		if again.Modified.Before(modified) {
			t.Error("the time of change went back")
		}
	})
}

func TestAgentIsCreatedOnceAndSavedByRevision(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		a := agent.NewState("agent-1", "One", "")
		ok(t, h.Save(ctx, a))
		isErr(t, h.Save(ctx, agent.NewState("agent-1", "Two", "")), tiers.ErrExists)
		old := must(h.Load(ctx, "agent-1"))(t)
		a.Name = "newer"
		ok(t, h.Save(ctx, a))
		a.Name = "newest"
		ok(t, h.Save(ctx, a))
		isErr(t, h.Save(ctx, old), tiers.ErrConflict)
		if got := must(h.Load(ctx, "agent-1"))(t); got.Name != "newest" {
			t.Errorf("stored is %q", got.Name)
		}
	})
}

func TestDeletedAgentStaysDeleted(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		a, other := agent.NewState("agent-1", "", ""), agent.NewState("agent-2", "", "")
		ok(t, h.Save(ctx, a))
		ok(t, h.Save(ctx, other))
		c, kept := agent.NewConversation("agent-1"), agent.NewConversation("agent-2")
		c.Add(agent.NewMessage(agent.User, "hello"))
		kept.Add(agent.NewMessage(agent.User, "hello"))
		ok(t, h.SaveConversation(ctx, c))
		ok(t, h.SaveConversation(ctx, kept))
		if existed := must(h.Delete(ctx, "agent-1"))(t); !existed {
			t.Error("it was there")
		}
		if existed := must(h.Delete(ctx, "agent-1"))(t); existed {
			t.Error("it was deleted before")
		}
		_, err := h.Load(ctx, "agent-1")
		isErr(t, err, tiers.ErrNotFound)
		isErr(t, h.Save(ctx, a), tiers.ErrNotFound)
		c.Title = "late"
		isErr(t, h.SaveConversation(ctx, c), tiers.ErrNotFound)
		_, err = h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "late"))
		isErr(t, err, tiers.ErrNotFound)
		_, err = h.LoadConversation(ctx, c.ID, agent.Page{})
		isErr(t, err, tiers.ErrNotFound)
		if left := ids(t, h.m, "agent-1", c.ID); len(left) > 0 {
			t.Errorf("still stored: %v", left)
		}
		again := agent.NewState("agent-1", "again", "")
		ok(t, h.Save(ctx, again))
		if got := collected(t, h.Conversations(ctx, "agent-1", agent.After{})); len(got) > 0 {
			t.Errorf("the new one has %d old conversations", len(got))
		}
		if got := must(h.LoadConversation(ctx, kept.ID, agent.Page{}))(t); got.Count != 1 {
			t.Errorf("the other agent has %d messages", got.Count)
		}
	})
}

// ids answers the keys of agents' categories that are about one of the ids.
func ids(t testing.TB, m *manager.Manager, of ...string) (keys []string) {
	t.Helper()
	for _, category := range []string{"agent.state", "agent.conversations", "agent.checkpoints"} {
		for item, err := range m.List(t.Context(), category) {
			ok(t, err)
			var text map[string]any
			_ = item.Decode(&text)
			for _, id := range of {
				if slices.Contains(manager.SplitKey(item.Key), id) || text["id"] == id || text["agent_id"] == id {
					keys = append(keys, category+" "+item.Key)
				}
			}
		}
	}
	return keys
}

func TestAgentsAreListedInOrderOfTheirIDs(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		names := []string{"../x", "A", "a", "a/b", "a.json", "b c", "é"} // "/" sorts as "%2F"
		for _, id := range []string{"a/b", "é", "A", "../x", "a.json", "b c", "a"} {
			ok(t, h.Save(ctx, agent.NewState(id, id, "")))
		}
		var got []string
		for _, a := range collected(t, h.List(ctx, agent.After{})) {
			if a.Name != a.ID {
				t.Errorf("%q has the name %q", a.ID, a.Name)
			}
			got = append(got, a.ID)
		}
		if d := cmp.Diff(names, got); d != "" {
			t.Error(d)
		}
		page := collected(t, h.List(ctx, agent.After{ID: "a", Limit: 2}))
		if len(page) != 2 || page[0].ID != "a/b" || page[1].ID != "a.json" {
			t.Errorf("after a: %v", page)
		}
	})
}

func TestBadIDsAreRefused(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		s := h.Store
		for _, id := range []string{"a\x00b", "\xff", string(make([]byte, 300))} {
			a := agent.NewState(id, "", "")
			isErr(t, s.Save(t.Context(), a), tiers.ErrKey)
			_, err := s.Load(t.Context(), id)
			isErr(t, err, tiers.ErrKey)
		}
		a := agent.NewState("a", "", "")
		a.ID = ""
		isErr(t, s.Save(t.Context(), a), tiers.ErrKey)
	})
}

func TestOnlyWhatDiffersOfCustomIsWritten(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		m := h
		ctx := t.Context()
		a := agent.NewState("a", "", "")
		for _, k := range []string{"x", "y", "z"} {
			a.Set(k, 1)
		}
		ok(t, m.Save(ctx, a))
		versions := func() map[string]tiers.Version {
			out := map[string]tiers.Version{}
			for item, err := range m.m.List(ctx, "agent.state", manager.Prefix("own/")) {
				ok(t, err)
				segments := manager.SplitKey(item.Key)
				out[segments[len(segments)-1]] = item.Version
			}
			return out
		}
		before := versions()
		a.Set("y", 2)
		ok(t, m.Save(ctx, a))
		after := versions()
		if before["x"] != after["x"] || before["z"] != after["z"] || before["y"] == after["y"] {
			t.Errorf("versions before %v, after %v", before, after)
		}
	})
}

func TestTransactionHoldsAgentAndTheAppsOwnRecords(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		a := agent.NewState("a", "", "")
		stop := errors.New("no")
		err := h.m.Update(ctx, func(tx *manager.Tx) error {
			ok(t, h.In(tx).Save(ctx, a))
			ok(t, tx.Save(ctx, "session.preferences", "u", 1))
			return stop
		})
		isErr(t, err, stop)
		if a.Revision != 0 {
			t.Error("a save that was rolled back has a revision")
		}
		_, err = h.Load(ctx, "a")
		isErr(t, err, tiers.ErrNotFound)
		ok(t, h.m.Update(ctx, func(tx *manager.Tx) error {
			if err := h.In(tx).Save(ctx, a); err != nil {
				return err
			}
			c := agent.NewConversation("a")
			if err := h.In(tx).SaveConversation(ctx, c); err != nil {
				return err
			}
			_, err := h.In(tx).AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "hi"))
			return err
		}))
		got := must(h.Load(ctx, "a"))(t)
		if got.Revision != a.Revision || len(got.Active) != 1 {
			t.Errorf("revision %d, saved as %d; active %v", got.Revision, a.Revision, got.Active)
		}
	})
}
