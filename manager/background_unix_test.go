//go:build unix

package manager_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers/embedded"
)

func TestAPipeInPlaceOfAJobsLockDoesNotHoldUpClose(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m, err := manager.OpenDir(t.Context(), dir, embedded.Tiers())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "jobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "jobs", "mine.lock"), 0o600); err != nil {
		t.Fatal(err)
	}
	ran := make(chan struct{}, 1000)
	err = m.Background("mine", time.Millisecond, func(context.Context) error {
		select {
		case ran <- struct{}{}:
		default:
		}
		return nil
	}, manager.OnePerStore())
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-ran:
	case <-time.After(10 * time.Second):
		t.Fatal("the job waits for somebody to write into the pipe, and so does Close")
	}
	if err := m.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
