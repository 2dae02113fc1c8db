//go:build unix

package database

import (
	"errors"
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
