//go:build unix

package filetree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func TestAPipeWhereADirectoryBelongsHoldsNobodyUp(t *testing.T) {
	dir := t.TempDir()
	tree := openTree(t, dir, nil)
	must(t, syscall.Mkfifo(filepath.Join(dir, "config"), 0o600))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, err := range tree.List(t.Context(), tiers.Query{Category: "config"}) {
			t.Error(err)
		}
		if _, err := tree.Sweep(t.Context(), 10); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("a list waits for somebody to write into a pipe")
	}
}

func TestWhatStandsInPlaceOfTheTreesOwnFilesIsNamed(t *testing.T) {
	pipe := func(path string) error { return syscall.Mkfifo(path, 0o600) }
	directory := func(path string) error { return os.Mkdir(path, 0o700) }
	link := func(path string) error { return os.Symlink(filepath.Base(path), path) }
	for name, c := range map[string]struct {
		at   string
		make func(path string) error
	}{
		"a pipe as mark":        {markFile, pipe},
		"a directory as mark":   {markFile, directory},
		"a link as mark":        {markFile, link},
		"a pipe as locks":       {lockDir, pipe},
		"a pipe as a lock":      {lockDir + "/07", pipe},
		"a directory as a lock": {lockDir + "/07", directory},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tree := openTree(t, dir, nil)
			must(t, os.RemoveAll(filepath.Join(dir, lockDir)))
			if strings.Contains(c.at, "/") {
				must(t, os.Mkdir(filepath.Join(dir, lockDir), 0o700))
			}
			must(t, c.make(filepath.Join(dir, c.at)))
			err := tree.mark.update(t.Context(), func(v tiers.Version) tiers.Version { return v + 1 })
			if c.at != markFile {
				must(t, err)
				_, _, err = tree.stripes.try(7)
			}
			var e *tiers.Error
			if !errors.Is(err, tiers.ErrCorrupt) || !errors.As(err, &e) || !strings.Contains(err.Error(), filepath.Join(dir, c.at)) || e.Hint == "" {
				t.Errorf("%v", err)
			}
			for _, f := range tree.Diagnose(t.Context()) {
				if f.Subject == "writing" && (f.OK || !strings.Contains(f.Message, filepath.Join(dir, c.at))) {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

func TestAFileThatClaimsToBeHugeIsNotReadAndNotSaved(t *testing.T) {
	dir := t.TempDir()
	tree, err := Open(t.Context(), Config{Dir: dir, Name: "tree", Form: emptyForm{}, Largest: 10})
	must(t, err)
	defer func() { must(t, tree.Close(context.Background())) }()
	must(t, os.WriteFile(filepath.Join(dir, "x"), []byte("text"), 0o600))
	must(t, os.Truncate(filepath.Join(dir, "x"), 1<<40))
	d, err := tree.openDir("")
	must(t, err)
	defer func() { must(t, d.close()) }()
	if _, _, err := d.Read("x", -1); !errors.Is(err, tiers.ErrTooLarge) {
		t.Errorf("read: %v, want too large", err)
	}
	if b, _, err := d.Read("x", 4); err != nil || string(b) != "text" {
		t.Errorf("its beginning: %q, %v", b, err)
	}
	r := tiers.Record{Key: tiers.Key{Category: "config", Name: "k"}, Codec: "raw", Schema: 1, Value: make([]byte, 11)}
	if _, err := tree.Save(t.Context(), r, tiers.Cond{}); !errors.Is(err, tiers.ErrTooLarge) {
		t.Errorf("save: %v, want too large", err)
	}
	if most := tree.Describe().MaxValue; most != 10 {
		t.Errorf("%d bytes are said to be allowed", most)
	}
}
