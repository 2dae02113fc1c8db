package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

// whole is all that there is of an agent, without revisions.
type whole struct {
	State         *agent.State
	Conversations []*agent.Conversation
}

func present(t testing.TB, s *agent.Store, id string) whole {
	t.Helper()
	w := whole{State: must(s.Load(t.Context(), id))(t)}
	for _, c := range collected(t, s.Conversations(t.Context(), id, agent.After{})) {
		w.Conversations = append(w.Conversations, must(s.LoadConversation(t.Context(), c.ID, agent.Page{}))(t))
	}
	return w
}

func shownBy(t testing.TB, s *agent.Store, id string) whole {
	t.Helper()
	c := must(s.LoadCheckpoint(t.Context(), "", id))(t)
	return whole{c.State, c.Conversations}
}

func diff(a, b whole) string {
	return cmp.Diff(a, b, cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(agent.State{}, "Revision"), cmpopts.IgnoreFields(agent.Conversation{}, "Revision"),
		cmpopts.SortSlices(func(a, b *agent.Conversation) bool { return a.ID < b.ID }))
}

func TestCheckpointComesBackWithWhatItWasGiven(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		talk(t, h.Store, "a", "one", "two")
		in := agent.CheckpointInfo{
			AgentID: "a", Name: "n", Description: "d", Iteration: 5, Metadata: map[string]string{"phase": "x", "bead": "y"},
		}
		made := must(h.Checkpoint(ctx, in))(t)
		all := collected(t, h.reopen().Checkpoints(ctx, "a", agent.After{}))
		if len(all) != 1 {
			t.Fatalf("%d are listed", len(all))
		}
		if d := cmp.Diff(made, all[0]); d != "" {
			t.Error(d)
		}
		in.ID, in.Number, in.Kind, in.Created, in.SHA256, in.Size, in.Stored, in.Messages = made.ID, 1, agent.Manual, made.Created, made.SHA256, made.Size, made.Stored, 2
		if d := cmp.Diff(in, made); d != "" || made.ID == "" || len(made.SHA256) != 64 || made.Size == 0 || made.Stored == 0 || made.Created.IsZero() {
			t.Errorf("%+v: %s", made, d)
		}
		if d := diff(present(t, h.Store, "a"), shownBy(t, h.Store, made.ID)); d != "" {
			t.Error(d)
		}
		_, err := h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "nobody"})
		isErr(t, err, tiers.ErrNotFound)
	})
}

func TestRestoreMakesTheAgentWhatItWas(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		kept, dropped := talk(t, h.Store, "a", "one", "two", "three"), talk(t, h.Store, "a", "other")
		a := must(h.Load(ctx, "a"))(t)
		a.Set("counter", 1)
		a.Set("stays", "x")
		ok(t, h.Save(ctx, a))
		was := present(t, h.Store, "a")
		made := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", ID: "mine/1"}))(t)

		a.Set("counter", 2)
		a.Set("new", true)
		a.Name = "changed"
		ok(t, h.Save(ctx, a))
		m := must(h.LoadConversation(ctx, kept.ID, agent.Page{}))(t).Messages
		m[1].Content, m[1].Attachments = "edited", []agent.Attachment{{ID: "x", Kind: agent.File, Content: strings.Repeat("x", 9000)}}
		ok(t, h.EditMessage(ctx, kept.ID, m[1]))
		must(h.DeleteMessage(ctx, kept.ID, m[0].ID))(t)
		must(h.AppendMessage(ctx, kept.ID, agent.NewMessage(agent.User, "four")))(t)
		must(h.DeleteConversation(ctx, dropped.ID))(t)
		added := talk(t, h.Store, "a", "added")
		later := present(t, h.Store, "a")
		if d := diff(was, shownBy(t, h.Store, made.ID)); d != "" {
			t.Errorf("the checkpoint changed: %s", d)
		}

		before := must(h.reopen().Restore(ctx, "", made.ID, agent.RestoreOptions{}))(t)
		if before.AgentID != "a" || before.Kind != agent.Recovery {
			t.Errorf("it answers %+v", before)
		}
		if d := diff(was, present(t, h.Store, "a")); d != "" {
			t.Errorf("restored: %s", d)
		}
		_, err := h.LoadConversation(ctx, added.ID, agent.Page{})
		isErr(t, err, tiers.ErrNotFound)
		must(h.Restore(ctx, "a", before.ID, agent.RestoreOptions{}))(t)
		if d := diff(later, present(t, h.Store, "a")); d != "" {
			t.Errorf("undone: %s", d)
		}
		must(h.Restore(ctx, "a", made.ID, agent.RestoreOptions{KeepNewer: true, NoRecovery: true}))(t)
		if got := contents(t, h.Store, added.ID, agent.Page{}); len(got) != 1 {
			t.Errorf("what was begun since has %v", got)
		}
		_, err = h.Restore(ctx, "b", made.ID, agent.RestoreOptions{})
		isErr(t, err, tiers.ErrNotFound)
	})
}

func TestDeletedConversationGoesWithTheLastCheckpointThatShowsIt(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a", "one")
		made := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		must(h.DeleteConversation(ctx, c.ID))(t)
		stats := must(h.Stats(ctx))(t)
		must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		if got := shownBy(t, h.Store, made.ID).Conversations; len(got) != 1 || len(got[0].Messages) != 1 || stats.Messages != 0 {
			t.Errorf("the checkpoint shows %v; %d messages are counted", got, stats.Messages)
		}
		must(h.Prune(ctx, "a", 1))(t)
		for item, err := range h.m.List(ctx, "agent.conversations") {
			ok(t, err)
			if !strings.HasPrefix(item.Key, "dirty/") {
				t.Errorf("still stored: %s", item.Key)
			}
		}
	})
}

// damaged changes one stored record below the store's back, or removes it.
func damaged(t testing.TB, m *manager.Manager, category, prefix, from, to string) {
	t.Helper()
	c := manager.For[json.RawMessage](m, category)
	for entry, err := range c.List(t.Context(), manager.Prefix(prefix)) {
		ok(t, err)
		switch text := string(entry.Value); {
		case !strings.Contains(text, from):
			continue
		case to == "":
			must(c.Delete(t.Context(), entry.Key))(t)
		default:
			ok(t, c.Save(t.Context(), entry.Key, json.RawMessage(strings.Replace(text, from, to, 1))))
		}
		return
	}
	t.Fatalf("nothing under %s holds %q", prefix, from)
}

func TestDamagedCheckpointIsNotRestored(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		for why, spoil := range map[string]struct{ category, prefix, from, to string }{
			"a message was changed":     {"agent.conversations", "msg/", "two", "twp"},
			"a message is missing":      {"agent.conversations", "msg/", "two", ""},
			"what was kept was changed": {"agent.conversations", "hist/", "one", "onf"},
			"the state was changed":     {"agent.state", "own/", "41", "42"},
			"its sum was changed":       {"agent.checkpoints", "info/", `"sha256":"`, `"sha256":"f`},
			"its iteration was changed": {"agent.checkpoints", "info/", `"iteration":2`, `"iteration":3`},
			"its kind was changed":      {"agent.checkpoints", "info/", `"kind":"manual"`, `"kind":"automatic"`},
		} {
			c := talk(t, h.Store, "a", "one", "two")
			a := must(h.Load(ctx, "a"))(t)
			a.Set("counter", 41)
			ok(t, h.Save(ctx, a))
			older := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", Iteration: 2}))(t)
			m := must(h.LoadConversation(ctx, c.ID, agent.Page{}))(t).Messages[0]
			m.Content = "edited"
			ok(t, h.EditMessage(ctx, c.ID, m))
			damaged(t, h.m, spoil.category, spoil.prefix, spoil.from, spoil.to)
			for i, read := range []func() error{
				func() error { _, err := h.Restore(ctx, "a", older.ID, agent.RestoreOptions{}); return err },
				func() error { _, err := h.LoadCheckpoint(ctx, "a", older.ID); return err },
			} {
				if err := read(); !errors.Is(err, tiers.ErrCorrupt) {
					t.Errorf("%s: reading it (%d) answers %v", why, i, err)
				}
			}
			if got := len(collected(t, h.Checkpoints(ctx, "a", agent.After{}))); got != 1 {
				t.Errorf("%s: %d checkpoints after a restore that was refused", why, got)
			}
			must(h.Delete(ctx, "a"))(t)
		}
	})
}

func TestOlderCheckpointIsRestoredOnlyWhenAskedFor(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a", "one")
		must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		m := must(h.LoadConversation(ctx, c.ID, agent.Page{}))(t).Messages[0]
		m.Content = "two"
		ok(t, h.EditMessage(ctx, c.ID, m))
		newer := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		damaged(t, h.m, "agent.conversations", "msg/", "two", "three")
		_, err := h.Restore(ctx, "a", newer.ID, agent.RestoreOptions{})
		isErr(t, err, tiers.ErrCorrupt)
		must(h.Restore(ctx, "a", newer.ID, agent.RestoreOptions{OrOlder: true}))(t)
		if got := contents(t, h.Store, c.ID, agent.Page{}); got[0] != "one" {
			t.Errorf("restored is %v", got)
		}
	})
}

func TestOrderOfCheckpointsIsThatOfTheirMaking(t *testing.T) {
	eachAt(t, func(t *testing.T, h *house, clock *sagetest.Clock) {
		t.Helper()
		s := h.Store
		clock.Advance(5)
		ctx := t.Context()
		p := manager.ConfigOf(h.m).Checkpoints
		p.Max = 100
		ok(t, s.SetCheckpoints(p))
		talk(t, s, "a", "one")
		const n = 50
		var made []string
		for i := range n {
			made = append(made, must(s.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", Name: fmt.Sprint(i)}))(t).ID)
		}
		all := collected(t, s.Checkpoints(ctx, "a", agent.After{}))
		for i, c := range all {
			if c.ID != made[n-1-i] || c.Created.Nanosecond() != 5 {
				t.Fatalf("at %d is %s, made as %s, at %v", i, c.ID, made[n-1-i], c.Created)
			}
		}
		if got := must(s.LoadCheckpoint(ctx, "a", "latest"))(t); got.ID != made[n-1] {
			t.Errorf("the latest is %s", got.ID)
		}
		page := collected(t, s.Checkpoints(ctx, "a", agent.After{ID: made[n-2], Limit: 2}))
		if len(page) != 2 || page[0].ID != made[n-3] {
			t.Errorf("after the second: %v", page)
		}
		if pruned := must(s.Prune(ctx, "a", 3))(t); pruned != n-3 {
			t.Errorf("%d were removed", pruned)
		}
		for i, c := range collected(t, s.Checkpoints(ctx, "a", agent.After{})) {
			if c.ID != made[n-1-i] {
				t.Errorf("left is %s", c.Name)
			}
		}
	})
}

func TestPruneLeavesAsManyAsItIsTold(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		for agentID, n := range map[string]int{"a": 8, "b": 3} {
			c := talk(t, h.Store, agentID, "one")
			for i := range n {
				must(h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, fmt.Sprint(i))))(t)
				must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: agentID, Keep: i == 1}))(t)
			}
		}
		left := func(id string) int { return len(collected(t, h.Checkpoints(ctx, id, agent.After{}))) }
		if n := must(h.Prune(ctx, "a", 3))(t); n != 4 || left("a") != 4 || left("b") != 3 {
			t.Errorf("%d removed, %d and %d left", n, left("a"), left("b"))
		}
		if n := must(h.Prune(ctx, "a", 100))(t); n != 0 {
			t.Errorf("%d removed", n)
		}
		_, err := h.Prune(ctx, "a", -1)
		isErr(t, err, tiers.ErrType)
		if n := must(h.Prune(ctx, "a", 0))(t); n != 3 || left("a") != 1 {
			t.Errorf("%d removed, %d left", n, left("a"))
		}
		all := collected(t, h.Checkpoints(ctx, "a", agent.After{}))
		if got := shownBy(t, h.Store, all[0].ID); len(got.Conversations[0].Messages) != 3 {
			t.Errorf("the kept one shows %d messages", len(got.Conversations[0].Messages))
		}
		if existed := must(h.DeleteCheckpoint(ctx, "a", all[0].ID))(t); !existed || left("a") != 0 {
			t.Error("the kept one can't be deleted")
		}
		if again := must(h.DeleteCheckpoint(ctx, "a", all[0].ID))(t); again {
			t.Error("it was deleted before")
		}
	})
}

func TestMaximumTakesTheOldestAutomaticFirst(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		s := h.Store
		ctx := t.Context()
		talk(t, s, "a", "one")
		kinds := []agent.Kind{agent.Manual, agent.Automatic, agent.Manual, agent.Automatic}
		for i := range 13 {
			in := agent.CheckpointInfo{AgentID: "a", Name: fmt.Sprint(i), Kind: agent.Manual, Keep: i == 0}
			if i < len(kinds) {
				in.Kind = kinds[i]
			}
			made := must(s.Checkpoint(ctx, in))(t)
			must(s.LoadCheckpoint(ctx, "a", made.ID))(t)
		}
		var left []string
		for _, c := range collected(t, s.Checkpoints(ctx, "a", agent.After{})) {
			left = append(left, c.Name)
		}
		if d := cmp.Diff(strings.Fields("12 11 10 9 8 7 6 5 4 2 0"), left); d != "" {
			t.Error(d)
		}
		must(s.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", Name: "13"}))(t)
		if all := collected(t, s.Checkpoints(ctx, "a", agent.After{})); all[9].Name != "4" || len(all) != 11 {
			t.Errorf("the oldest of the others did not go: %v", all[9])
		}
	})
}

func TestSameIDAgainIsTheSameCheckpointOrRefused(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a", "one")
		talk(t, h.Store, "b", "one")
		for _, id := range []string{"../x", "a/b", "a.json", "A", "a"} {
			made := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", ID: id}))(t)
			again := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", ID: id}))(t)
			if d := cmp.Diff(made, again); d != "" || made.ID != id {
				t.Errorf("%q: %s", id, d)
			}
			_, err := h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", ID: id, Name: "other"})
			isErr(t, err, tiers.ErrExists)
			_, err = h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "b", ID: id})
			isErr(t, err, tiers.ErrExists)
		}
		must(h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "two")))(t)
		_, err := h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", ID: "a"})
		isErr(t, err, tiers.ErrExists)
		made := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		_, err = h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "b", ID: made.ID})
		isErr(t, err, tiers.ErrExists)
		_, err = h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "b", ID: made.ID + "0"})
		isErr(t, err, tiers.ErrKey)
		_, err = h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "b", ID: "latest"})
		isErr(t, err, tiers.ErrKey)
		if got := len(collected(t, h.Checkpoints(ctx, "a", agent.After{}))); got != 6 {
			t.Errorf("%d checkpoints", got)
		}
	})
}

func TestUnknownCheckpointsAreNotFound(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		_, err := h.LoadCheckpoint(ctx, "", "unknown")
		isErr(t, err, tiers.ErrNotFound)
		_, err = h.LoadCheckpoint(ctx, "nobody", "latest")
		isErr(t, err, tiers.ErrNotFound)
		if all := collected(t, h.Checkpoints(ctx, "nobody", agent.After{})); len(all) != 0 {
			t.Errorf("an unknown agent has %v", all)
		}
	})
}

func TestConcurrentCheckpointsAreAllMade(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a", "one")
		var wg sync.WaitGroup
		const callers = 50
		p := manager.ConfigOf(h.m).Checkpoints
		p.Max = callers
		ok(t, h.SetCheckpoints(p))
		for i := range callers {
			wg.Go(func() {
				_, err := h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, fmt.Sprint(i)))
				_, err2 := h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"})
				if err := errors.Join(err, err2); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		all := collected(t, h.Checkpoints(ctx, "a", agent.After{}))
		if len(all) != callers {
			t.Errorf("%d are listed", len(all))
		}
		for _, c := range all {
			shownBy(t, h.Store, c.ID)
		}
	})
}

func TestCheckpointOfOneConversationRestoresItAlone(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		one, two := talk(t, h.Store, "a", "one"), talk(t, h.Store, "a", "two")
		made := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", Conversation: one.ID}))(t)
		must(h.AppendMessage(ctx, one.ID, agent.NewMessage(agent.User, "late")))(t)
		must(h.AppendMessage(ctx, two.ID, agent.NewMessage(agent.User, "late")))(t)
		must(h.DeleteConversation(ctx, one.ID))(t)
		must(h.Restore(ctx, "a", made.ID, agent.RestoreOptions{}))(t)
		if a, b := contents(t, h.Store, one.ID, agent.Page{}), contents(t, h.Store, two.ID, agent.Page{}); len(a) != 1 || len(b) != 2 {
			t.Errorf("restored %v, the other is %v", a, b)
		}
	})
}

func TestForkIsAnAgentOfItsOwn(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a", "one")
		a := must(h.Load(ctx, "a"))(t)
		a.Set("x", 1)
		ok(t, h.Save(ctx, a))
		made := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		must(h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "two")))(t)
		fork := must(h.Fork(ctx, "a", made.ID, "b"))(t)
		_, err := h.Fork(ctx, "a", made.ID, "b")
		isErr(t, err, tiers.ErrExists)
		if fork.Custom["x"] != int64(1) || len(fork.Active) != 1 || fork.Active[0] == c.ID || fork.Metadata["forked_from"] != made.ID {
			t.Errorf("the fork is %+v", fork)
		}
		must(h.AppendMessage(ctx, fork.Active[0], agent.NewMessage(agent.User, "forked")))(t)
		if a, b := contents(t, h.Store, c.ID, agent.Page{}), contents(t, h.Store, fork.Active[0], agent.Page{}); a[1] != "two" || b[1] != "forked" {
			t.Errorf("%v and %v", a, b)
		}
	})
}

func TestCheckpointTravelsAsBytes(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		conv := talk(t, h.Store, "a", "one", "two")
		made := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", Iteration: 7, Name: "n"}))(t)
		c := must(h.LoadCheckpoint(ctx, "a", made.ID))(t)
		b := must(c.Bytes())(t)
		read := must(agent.DecodeCheckpoint(b))(t)
		if d := cmp.Diff(c, read, cmpopts.EquateEmpty()); d != "" {
			t.Error(d)
		}
		was := present(t, h.Store, "a")
		must(h.ImportCheckpoint(ctx, read, false))(t)
		if n := len(collected(t, h.Checkpoints(ctx, "a", agent.After{}))); n != 1 {
			t.Errorf("importing what is there made %d of it", n)
		}
		must(h.DeleteCheckpoint(ctx, "a", made.ID))(t)
		must(h.AppendMessage(ctx, conv.ID, agent.NewMessage(agent.User, "three")))(t)
		again := must(h.ImportCheckpoint(ctx, read, false))(t)
		must(h.ImportCheckpoint(ctx, read, false))(t)
		if again.ID != made.ID || again.Iteration != 7 {
			t.Errorf("imported as %+v", again)
		}
		for range 2 {
			must(h.Restore(ctx, "a", again.ID, agent.RestoreOptions{NoRecovery: true}))(t)
			if d := diff(was, present(t, h.Store, "a")); d != "" {
				t.Error(d)
			}
			must(h.AppendMessage(ctx, conv.ID, agent.NewMessage(agent.User, "four")))(t)
		}
		must(h.Delete(ctx, "a"))(t)
		_, err := h.ImportCheckpoint(ctx, read, false)
		isErr(t, err, tiers.ErrNotFound)
		must(h.ImportCheckpoint(ctx, read, true))(t)
		if d := diff(was, present(t, h.Store, "a")); d != "" {
			t.Errorf("recreated: %s", d)
		}
		must(h.LoadCheckpoint(ctx, "a", made.ID))(t)
	})
}

func TestDamagedBytesAreRefused(t *testing.T) {
	s := inMemory(t)
	talk(t, s, "a", "one", "two")
	made := must(s.Checkpoint(t.Context(), agent.CheckpointInfo{AgentID: "a"}))(t)
	b := must(must(s.LoadCheckpoint(t.Context(), "a", made.ID))(t).Bytes())(t)
	for i := range b {
		bad := append([]byte(nil), b...)
		bad[i] ^= 0x01
		if c, err := agent.DecodeCheckpoint(bad); err == nil {
			t.Fatalf("with byte %d (%q) changed it reads as %+v", i, b[i], c)
		}
	}
}

func TestCheckpointBeforeAnOperationUndoesIt(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		s := h.Store
		ctx := t.Context()
		c := talk(t, s, "a", "one", "two")
		ms := must(s.LoadConversation(ctx, c.ID, agent.Page{}))(t).Messages
		if n := must(s.DeleteMessages(ctx, c.ID, ms[0].ID, ms[1].ID, "unknown"))(t); n != 2 {
			t.Errorf("%d were deleted", n)
		}
		made := collected(t, s.Checkpoints(ctx, "a", agent.After{}))
		if len(made) != 1 || made[0].Kind != agent.PreOperation {
			t.Fatalf("made: %+v", made)
		}
		must(s.Restore(ctx, "a", made[0].ID, agent.RestoreOptions{}))(t)
		if got := contents(t, s, c.ID, agent.Page{}); len(got) != 2 {
			t.Errorf("restored is %v", got)
		}
		p := manager.ConfigOf(h.m).Checkpoints
		p.BeforeOperations = false
		ok(t, s.SetCheckpoints(p))
		if _, done, err := s.BeforeOperation(ctx, "a", "x"); done || err != nil {
			t.Errorf("made one though that is off: %v", err)
		}
		p.Max = 0
		isErr(t, s.SetCheckpoints(p), tiers.ErrType)
	})
}

func TestStrategies(t *testing.T) {
	events := []agent.Event{agent.ToolDone, agent.ModelDone, agent.Iteration}
	every3 := must(agent.EveryN(3))(t)
	for _, c := range []struct {
		why  string
		s    agent.Strategy
		want string
	}{
		{"every third iteration once, and not at 0", every3, "3 6"},
		{"after a tool call", agent.AfterToolCall(), "1 2 3 4 5 6"},
		{"after a model response", agent.AfterModelResponse(), "1 2 3 4 5 6"},
		{"never", agent.Never(), ""},
		{"before an operation", agent.BeforeOperations(), ""},
		{"at an interval", agent.Interval(time.Minute), ""},
		{"any of several", agent.AnyOf(agent.Never(), every3), "3 6"},
	} {
		d := agent.NewDecider(c.s)
		var got []string
		for i := range 7 {
			for _, e := range events {
				if d.Wants(agent.Step{Iteration: i, Event: e}) {
					got = append(got, fmt.Sprint(i))
				}
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.why, got, c.want)
		}
	}
	every := []agent.Event{agent.ToolDone, agent.ModelDone, agent.Iteration, agent.BeforeOperation}
	for own, s := range map[agent.Event]agent.Strategy{
		agent.ToolDone: agent.AfterToolCall(), agent.ModelDone: agent.AfterModelResponse(), agent.BeforeOperation: agent.BeforeOperations(),
	} {
		for _, e := range every {
			if s(agent.Step{Iteration: 1, Event: e}) != (e == own) {
				t.Errorf("the strategy of %s says %v at %s", own, e != own, e)
			}
		}
	}
	if !agent.Interval(time.Minute)(agent.Step{SinceLast: time.Minute}) {
		t.Error("an interval that is over makes none")
	}
	_, err := agent.EveryN(0)
	isErr(t, err, tiers.ErrType)
}

func TestSoundCheckpointNeverFailsItsCheck(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a", "one")
		five := map[string]any{"a": 1, "b": 2.5, "c": "x", "d": nil, "e": map[string]any{"z": 1, "y": 2, "x": 3, "w": 4, "v": 5}}
		words := map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"}
		rounds := 10 // of the many orders that a map of five has
		if inFull(t) {
			rounds = 100
		}
		for i := range rounds {
			a := must(h.Load(ctx, "a"))(t)
			a.Custom, a.Config, a.Metadata = five, five, words
			a.SystemPrompt = fmt.Sprint(i)
			ok(t, h.Save(ctx, a))
			m := agent.NewMessage(agent.User, "x")
			m.Metadata = words
			if i < 5 {
				must(h.AppendMessage(ctx, c.ID, m))(t)
			}
			made := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", Metadata: words}))(t)
			if i == 5 || inFull(t) {
				h.reopen()
			}
			must(h.Restore(ctx, "a", made.ID, agent.RestoreOptions{NoRecovery: i%2 == 0}))(t)
		}
	})
}
