package agent_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/embedded"
)

// TestCheckpointsOnFilesAreFilesOfTheirAgent looks at the files that checkpoints are:
// each is one, below a directory of its agent, and goes when it is pruned.
func TestCheckpointsOnFilesAreFilesOfTheirAgent(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "deep", "nested", "store")
	cfg := config.Default()
	cfg.DataDir = dir
	cfg.Categories = map[string]config.Category{}
	for _, name := range []string{"agent.state", "agent.conversations", "agent.checkpoints"} {
		cfg.Categories[name] = config.Category{Tier: "file"}
	}
	m := must(manager.Open(t.Context(), cfg, embedded.Tiers()))(t)
	defer func() { ok(t, m.Close(t.Context())) }()
	s := agent.New(m)
	for _, id := range []string{"agent-a", "agent-b"} {
		ok(t, s.Save(t.Context(), agent.NewState(id, "", "")))
	}
	for i, id := range []string{"agent-a", "agent-a", "agent-a", "agent-b"} {
		must(s.Checkpoint(t.Context(), agent.CheckpointInfo{AgentID: id, Iteration: i}))(t)
	}
	wantFiles := func(why string, want map[int]bool) {
		t.Helper()
		applied(t, m)
		files := map[string]int{} // by directory
		for _, path := range below(t, dir) {
			if strings.Contains(filepath.ToSlash(path), "/info/") && strings.HasSuffix(path, ".json") {
				files[filepath.Dir(path)]++
			}
		}
		counts := map[int]bool{}
		for _, n := range files {
			counts[n] = true
		}
		if len(files) != 2 || len(counts) != len(want) {
			t.Errorf("%s: the checkpoints are %v", why, files)
		}
		for n := range want {
			if !counts[n] {
				t.Errorf("%s: no directory has %d checkpoints: %v", why, n, files)
			}
		}
	}
	wantFiles("made", map[int]bool{3: true, 1: true})
	if n := must(s.Prune(t.Context(), "agent-a", 2))(t); n != 1 {
		t.Errorf("%d were pruned", n)
	}
	wantFiles("pruned", map[int]bool{2: true, 1: true})
}

// applied waits until what was committed has reached the files.
func applied(t *testing.T, m *manager.Manager) {
	t.Helper()
	for deadline := tiers.SystemClock().Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		stats := must(m.Stats(t.Context()))(t)
		if stats.Pending == 0 {
			return
		}
		if tiers.SystemClock().Now().After(deadline) {
			t.Fatalf("%d writes still wait for the files", stats.Pending)
		}
	}
}

// below answers the regular files below a directory.
func below(t *testing.T, dir string) (paths []string) {
	t.Helper()
	ok(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			paths = append(paths, filepath.Join(dir, path))
		}
		return err
	}))
	return paths
}
