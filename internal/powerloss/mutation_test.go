//go:build linux

package powerloss_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// without answers an overlay for the go command that lacks something.
func without(t *testing.T, file, old, instead string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../..", file))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), old) {
		t.Fatalf("%s has no %q: the mutation has to follow the source", file, old)
	}
	dir := t.TempDir()
	changed, layer := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(changed, []byte(strings.ReplaceAll(string(b), old, instead)), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err = json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(layer, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return layer
}

// TestAMissingSyncIsFound takes out single syncs: in CI or with
// SAGESTORE_MUTATIONS set all of them, else it looks only whether they are there.
func TestAMissingSyncIsFound(t *testing.T) {
	needStrace(t)
	for _, c := range []struct{ why, file, old, instead string }{
		{"of a file's bytes", "internal/filetree/handle_unix.go", "retry(func() error { return unix.Fsync(t.fd) })", "nil"},
		{"of a directory", "internal/filetree/handle_unix.go", "retry(func() error { return unix.Fsync(h.fd) })", "nil"},
		{"of the database", "tiers/database/open.go", `pragma{"synchronous", t.sync},`, `pragma{"synchronous", "off"},`},
	} {
		t.Run(c.why, func(t *testing.T) {
			layer := without(t, c.file, c.old, c.instead)
			if os.Getenv("CI") != "true" && os.Getenv("SAGESTORE_MUTATIONS") == "" {
				t.Log("the source has what the mutation takes out; CI=true builds and runs it")
				return
			}
			m := &machine{binary: build(t, layer), dir: t.TempDir(), run: map[string]any{"Ops": 40}}
			rec := m.record(t, false)
			faulty := m.cuts(t, rec, 40, 1, m.made(t))
			if len(faulty) == 0 {
				t.Fatal("nobody found it")
			}
			t.Logf("%.300s", faulty[0])
		})
	}
}

// TestAStoreWhoseFirstCommitWasCutOffOpens has what SQLite leaves when the power
// goes while it makes a database: a journal that has to be rolled back.
func TestAStoreWhoseFirstCommitWasCutOffOpens(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(dir, os.DirFS("testdata/firstcommit")); err != nil {
		t.Fatal(err)
	}
	m := &machine{binary: build(t, "")}
	b, err := json.Marshal(map[string]any{"Store": m.store(dir)})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), m.binary, "recover", string(b)).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
