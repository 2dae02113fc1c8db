package agent_test

import (
	"path/filepath"
	"testing"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
)

// TestAgentsRestoredFromABackupAreFoundAgain restores the categories of agents while
// the store is in use: what comes back has no entries in the index, and the next
// search makes them.
func TestAgentsRestoredFromABackupAreFoundAgain(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	m := onDatabase(t, dir, func(c *config.Config) { c.Backup.Dest = filepath.Join(dir, "backups") })
	s := agent.New(m)
	c := talk(t, s, "a", "an apple", "a pear")
	gone := talk(t, s, "b", "another apple")
	ok(t, s.Fields("b").Save(ctx, "n", 1))
	point := must(s.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
	stats, was := must(s.Stats(ctx))(t), present(t, s, "a")
	wantFound(t, "before", s, agent.Query{Text: "apple"}, "another apple", "an apple")
	made := must(m.Backup(ctx, nil))(t)

	must(s.Delete(ctx, "b"))(t)
	must(s.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "a late apple")))(t)
	must(s.DeleteCheckpoint(ctx, "a", point.ID))(t)
	wantFound(t, "later", s, agent.Query{Text: "apple", Mode: agent.ByWords}, "a late apple", "an apple")

	b := must(m.Backups(ctx))(t)
	all := []string{"agent.state", "agent.conversations", "agent.checkpoints", "agent.fields"}
	must(b.RestoreCategories(ctx, m, made.ID, all, manager.RestoreOptions{}))(t)
	for name, s := range map[string]*agent.Store{"the same store": s, "another one": agent.New(m)} {
		for _, mode := range []agent.Mode{agent.Contains, agent.ByWords} {
			wantFound(t, name, s, agent.Query{Text: "apple", Mode: mode}, "another apple", "an apple")
		}
	}
	if d := diff(was, present(t, s, "a")); d != "" {
		t.Error(d)
	}
	if d := diff(was, shownBy(t, s, point.ID)); d != "" {
		t.Error(d)
	}
	if got := must(s.Stats(ctx))(t); got != stats {
		t.Errorf("stats are %+v, and were %+v", got, stats)
	}
	must(s.AppendMessage(ctx, gone.ID, agent.NewMessage(agent.User, "on it goes")))(t)
	wantFields(t, s.Fields("b"), map[string]string{"n": "1"})
	ok(t, m.Close(ctx))
}
