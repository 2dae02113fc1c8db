package file_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/tiers/file"
)

func TestTheTreeMayBeInAHomeDirectoryThatLacksItsParents(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	save(t, open(t, "~/.sage/a/data"), plain("k", `1`))
	for path, want := range map[string]os.FileMode{".sage": 0o700, ".sage/a/data": 0o700, ".sage/a/data/config/k.json": 0o600} {
		if fi, err := os.Stat(filepath.Join(home, path)); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want mode %o", path, fi, err, want)
		}
	}
}

func TestWithoutAHomeDirectoryTheErrorSaysWhatToSet(t *testing.T) {
	t.Setenv("HOME", "")
	tier, err := file.Open(t.Context(), file.Config{BasePath: "~/data"})
	if err == nil {
		_ = tier.Close(context.Background())
	}
	if err == nil || !strings.Contains(err.Error(), "HOME") {
		t.Errorf("open: %v", err)
	}
}
