package home

import (
	"path/filepath"
	"testing"
)

func TestExpand(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	for path, want := range map[string]string{
		"~": dir, "~/a/b": filepath.Join(dir, "a", "b"), "~joe/a": "~joe/a", "a/~": "a/~", "": "", "/a": "/a",
	} {
		if got, err := Expand(path); got != want || err != nil {
			t.Errorf("%q is %q, %v, want %q", path, got, err, want)
		}
	}
}

func TestNoHomeDirectoryIsAnErrorOnlyWhereItIsNeeded(t *testing.T) {
	t.Setenv("HOME", "")
	if p, err := Expand("~/a"); err == nil {
		t.Errorf("~/a is %q", p)
	}
	if _, err := Expand("/a"); err != nil {
		t.Error(err)
	}
}
