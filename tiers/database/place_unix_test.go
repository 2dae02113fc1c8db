//go:build unix

package database

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func TestAPipeInPlaceOfTheDatabaseIsRefusedAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := Open(t.Context(), Config{Path: path})
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, tiers.ErrCorrupt) {
			t.Errorf("%v, want corrupt", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Open waits for somebody to write into the pipe")
	}
}

// TestADatabaseWhoseFileIsGoneIsNotHealthy: it takes writes as before, into a file that
// nobody will find again.
func TestADatabaseWhoseFileIsGoneIsNotHealthy(t *testing.T) {
	for _, c := range []struct {
		why  string
		away func(path string) error
	}{
		{"removed", os.Remove},
		{"moved away", func(path string) error { return os.Rename(path, path+".old") }},
		{"replaced by a copy", func(path string) error {
			b, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path+".copy", b, 0o600), os.Rename(path+".copy", path))
		}},
	} {
		t.Run(c.why, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sage.db")
			tier := mustOpen(t, Config{Path: path})
			if err := tier.Ping(t.Context()); err != nil {
				t.Fatalf("before: %v", err)
			}
			if err := c.away(path); err != nil {
				t.Fatal(err)
			}
			if err := tier.Ping(t.Context()); !errors.Is(err, tiers.ErrUnavailable) {
				t.Errorf("%v, want unavailable", err)
			}
		})
	}
}
