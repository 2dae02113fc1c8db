package memory

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheSpillFileMayBeInAHomeDirectory(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	m := open(t, Config{Options: Options{Budget: 64 << 10, SpillDir: "~/.sage/spill"}})
	for i := range 200 {
		put(t, m, fmt.Sprint(i), make([]byte, 1000))
	}
	dir := filepath.Join(home, ".sage", "spill")
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("%s: %v, %v", dir, fi, err)
	}
	for i := range 200 {
		holds(t, m, fmt.Sprint(i), make([]byte, 1000))
	}
}

func TestWithoutAHomeDirectoryTheErrorSaysWhatToSet(t *testing.T) {
	t.Setenv("HOME", "")
	_, err := Open(t.Context(), Config{Options: Options{SpillDir: "~/spill"}})
	if err == nil || !strings.Contains(err.Error(), "HOME") {
		t.Errorf("open: %v", err)
	}
}
