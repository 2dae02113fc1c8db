package filetree

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestATreeThatSomebodyHasOpenForAMomentIsWaitedFor: a process that one of ours starts has
// our locks until it has become the other program.
func TestATreeThatSomebodyHasOpenForAMomentIsWaitedFor(t *testing.T) {
	base := t.TempDir()
	root, err := os.OpenRoot(base)
	must(t, err)
	defer func() { must(t, root.Close()) }()
	other, err := attend(t.Context(), root, base)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(base, markFile), nil, 0o600))
	left := make(chan error)
	go func() {
		time.Sleep(50 * time.Millisecond) // a while, however long
		left <- other.Close()
	}()
	release, err := seize(t.Context(), base)
	must(t, err)
	must(t, <-left)
	go func() {
		time.Sleep(50 * time.Millisecond)
		left <- release()
	}()
	present, err := attend(t.Context(), root, base)
	must(t, err)
	must(t, <-left)
	must(t, present.Close())
}
