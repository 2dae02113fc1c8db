package agent_test

import (
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // to damage what is stored

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// TestWhatCantBeReadIsReplacedByARestore damages each kind of record that a restore
// has to replace.
func TestWhatCantBeReadIsReplacedByARestore(t *testing.T) {
	kinds := []struct{ what, category, prefix, of string }{
		{"the agent", "agent.state", "head/", "renamed"},
		{"an entry of custom", "agent.state", "own/", "counter"},
		{"a conversation", "agent.conversations", "head/", "retitled"},
		{"a message", "agent.conversations", "msg/", "edited"},
		{"the index of a conversation", "agent.conversations", "id/", ""},
	}
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		for _, kind := range kinds {
			c := talk(t, h.Store, "a", "one", "two")
			must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
			a := must(h.Load(ctx, "a"))(t)
			a.Set("counter", 1)
			ok(t, h.Save(ctx, a))
			must(h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "three")))(t)
			made := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
			was := present(t, h.Store, "a")
			a.Name = "renamed"
			a.Set("counter", 2)
			ok(t, h.Save(ctx, a))
			ok(t, h.ModifyConversation(ctx, c.ID, func(c *agent.Conversation) error { c.Title = "retitled"; return nil }))
			m := was.Conversations[0].Messages[0]
			m.Content = "edited"
			ok(t, h.EditMessage(ctx, c.ID, m))
			later := agent.NewMessage(agent.User, "later")
			must(h.AppendMessage(ctx, c.ID, later))(t)

			garbled(t, h.m, kind.category, kind.prefix, kind.of)
			before := must(h.Restore(ctx, "a", made.ID, agent.RestoreOptions{}))(t)
			if d := diff(was, present(t, h.Store, "a")); d != "" {
				t.Errorf("%s: restored: %s", kind.what, d)
			}
			if !strings.Contains(before.Description, "Could not be read") || len(before.Metadata) != 1 {
				t.Errorf("%s: the recovery checkpoint says %q and %v", kind.what, before.Description, before.Metadata)
			}
			must(h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "four")))(t)
			after := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
			must(h.Restore(ctx, "a", before.ID, agent.RestoreOptions{}))(t) // what could be read
			got := contents(t, h.Store, c.ID, agent.Page{})
			if want := map[bool]int{true: 3, false: 4}[kind.what == "a message"]; len(got) != want || got[len(got)-1] != "later" {
				t.Errorf("%s: the recovery checkpoint has %v", kind.what, got)
			}
			for _, id := range []string{made.ID, before.ID, after.ID} {
				must(h.LoadCheckpoint(ctx, "a", id))(t)
			}
			must(h.DeleteConversation(ctx, c.ID))(t)
			must(h.Delete(ctx, "a"))(t)
			ok(t, h.Tend(ctx))
			if left := ids(t, h.m, "a", c.ID); len(left) > 0 {
				t.Errorf("%s: left: %v", kind.what, left)
			}
		}
	})
}

// garbled makes one record hold what no Store has stored.
func garbled(t testing.TB, m *manager.Manager, category, prefix, of string) {
	t.Helper()
	replaced(t, m, category, prefix, of, `{"since":"garbled"}`)
}

// replaced makes one record hold another value.
func replaced(t testing.TB, m *manager.Manager, category, prefix, of, by string) {
	t.Helper()
	c := manager.For[json.RawMessage](m, category)
	for entry, err := range c.List(t.Context(), manager.Prefix(prefix)) {
		ok(t, err)
		if strings.Contains(string(entry.Value)+entry.Key, of) {
			ok(t, c.Save(t.Context(), entry.Key, json.RawMessage(by)))
			return
		}
	}
	t.Fatalf("nothing under %s holds %q", prefix, of)
}

// TestWhatTheTierCantReadIsReplacedByARestore damages the bytes themselves, on the
// disk.
func TestWhatTheTierCantReadIsReplacedByARestore(t *testing.T) {
	t.Parallel()
	const broken = `{"since":1,"bro`
	inDatabase := func(t *testing.T, dir string) {
		t.Helper()
		db := must(sql.Open("sqlite", filepath.Join(dir, "sage.db")))(t)
		done := must(db.ExecContext(t.Context(), "UPDATE records SET value = ? WHERE category LIKE 'agent.%' AND key LIKE 'head/%'", broken))(t)
		if n := must(done.RowsAffected())(t); n != 2 {
			t.Fatalf("%d heads", n)
		}
		ok(t, db.Close())
	}
	inFiles := func(t *testing.T, dir string) {
		t.Helper()
		n := 0
		ok(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".json") && strings.Contains(path, "agent.") && strings.Contains(path, "/head") {
				n++
				err = os.WriteFile(path, []byte(broken), 0o600)
			}
			return err
		}))
		if n != 2 {
			t.Fatalf("%d heads", n)
		}
	}
	for at, damage := range map[int]func(*testing.T, string){1: inDatabase, 2: inFiles} {
		r := routings()[at]
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			h := open(t, r)
			dir := manager.ConfigOf(h.m).DataDir
			c := talk(t, h.Store, "a", "one")
			made := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
			was := present(t, h.Store, "a")
			a := must(h.Load(ctx, "a"))(t)
			a.Name = "renamed"
			ok(t, h.Save(ctx, a))
			ok(t, h.ModifyConversation(ctx, c.ID, func(c *agent.Conversation) error { c.Title = "retitled"; return nil }))
			must(h.m.ApplyPending(ctx, "", true))(t)
			damage(t, dir)
			_, err := h.Load(ctx, "a")
			isErr(t, err, tiers.ErrCorrupt)
			before := must(h.Restore(ctx, "a", made.ID, agent.RestoreOptions{}))(t)
			if d := diff(was, present(t, h.reopen().Store, "a")); d != "" {
				t.Errorf("restored: %s", d)
			}
			if len(before.Metadata) != 2 {
				t.Errorf("the recovery checkpoint says %v", before.Metadata)
			}
			shownBy(t, h.Store, before.ID)
			ok(t, h.ModifyConversation(ctx, c.ID, func(c *agent.Conversation) error { c.Title = "retitled"; return nil }))
			must(h.m.ApplyPending(ctx, "", true))(t)
			damage(t, dir)
			must(h.DeleteConversation(ctx, c.ID))(t)
			must(h.Delete(ctx, "a"))(t)
			ok(t, h.Tend(ctx))
			if left := ids(t, h.m, "a", c.ID); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func TestAnOlderCheckpointThatIsRestoredCoversTheSame(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a", "one")
		sound := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", Conversation: c.ID}))(t)
		must(h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "two")))(t)
		bad := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", Name: "spoiled"}))(t)
		worse := must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", Name: "spoiled too", ID: "worse"}))(t)
		damaged(t, h.m, "agent.checkpoints", "info/", `"name":"spoiled"`, `"name":"Spoiled"`)
		damaged(t, h.m, "agent.checkpoints", "info/", `"name":"spoiled too"`, `"name":7`)
		for _, id := range []string{bad.ID, worse.ID, "latest"} {
			_, err := h.Restore(ctx, "a", id, agent.RestoreOptions{NoRecovery: true})
			isErr(t, err, tiers.ErrCorrupt)
			must(h.Restore(ctx, "a", id, agent.RestoreOptions{NoRecovery: true, OrOlder: true}))(t)
			if d := diff(shownBy(t, h.Store, sound.ID), present(t, h.Store, "a")); d != "" {
				t.Errorf("%s: %s", id, d)
			}
			must(h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "two")))(t)
		}
	})
}
