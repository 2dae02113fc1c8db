// Package crashtest kills stores and breaks the disk under them.
//
// A test binary whose TestMain calls [Main] can be run again as a child that
// does nothing but save and delete records through a tier, several callers at
// once, and that reports on a pipe what was acknowledged to it. The parent ends
// the child in some rude way, opens the tier again and checks that
//
//   - nothing acknowledged is lost, or older than what was acknowledged,
//   - nothing is torn: each value carries its own checksum, and where a tier
//     promises atomic batches a batch is there whole or not at all,
//   - where a store decides transactions one is there whole or not at all, records
//     and rows of the journal, and its outcome is told as it is,
//   - versions only grew, also across deletes.
//
// [Kill] ends the child by SIGKILL at a random moment, again and again on one
// directory. [Inject] lets a system call of the child fail, through strace.
// [FullDisk] fills a small file system. A kill proves nothing about fsync, since
// the page cache outlives the process; Inject is there for that.
//
//	var store = crashtest.Store{Name: "database", Open: open}
//
//	func TestMain(m *testing.M) {
//		crashtest.Main(store) // does not return in the child
//		goleak.VerifyTestMain(m)
//	}
//
//	func TestNothingAcknowledgedIsLostByAKill(t *testing.T) { crashtest.Kill(t, store) }
package crashtest

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

// Store is a kind of tier to be tested.
type Store struct {
	// Name tells the child which one to open.
	Name string
	// Open opens the tier that dir stands for. Parent and child call it, never
	// both at once.
	Open func(ctx context.Context, dir string) (tiers.Tier, error)
}

// The environment of a child.
const (
	envStore   = "SAGESTORE_CRASH_STORE"
	envDir     = "SAGESTORE_CRASH_DIR"
	envBase    = "SAGESTORE_CRASH_BASE"
	envCallers = "SAGESTORE_CRASH_CALLERS"
	envOps     = "SAGESTORE_CRASH_OPS"
)

// Main turns the process into a writer, and does not return, when the
// environment says that it is a child of this package; otherwise it does
// nothing. It is called first in TestMain.
func Main(stores ...Store) {
	name := os.Getenv(envStore)
	if name == "" {
		return
	}
	for _, s := range stores {
		if s.Name == name {
			os.Exit(child(s))
		}
	}
	os.Exit(exitUnknown)
}

// kills answers how many times a loop kills its child.
func kills(tb testing.TB) int {
	tb.Helper()
	if s := os.Getenv("SAGESTORE_KILLS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			tb.Fatalf("SAGESTORE_KILLS is %q, want a number", s)
		}
		return n
	}
	if os.Getenv("CI") == "true" {
		return 500
	}
	return 25
}

// need skips the test where the machine can't do something, and fails it in CI,
// where nothing may be skipped.
func need(tb testing.TB, what string, err error) {
	tb.Helper()
	if err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		tb.Fatalf("%s: %v", what, err)
	}
	tb.Skipf("%s: %v", what, err)
}

// self answers a command that runs the test binary as a child.
func (s Store) self(ctx context.Context, dir string, base, callers, ops int, wrapper ...string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	argv := append(wrapper, exe)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // the test binary itself
	cmd.Env = append(os.Environ(),
		envStore+"="+s.Name,
		envDir+"="+dir,
		envBase+"="+strconv.Itoa(base),
		envCallers+"="+strconv.Itoa(callers),
		envOps+"="+strconv.Itoa(ops),
	)
	cmd.Stderr = os.Stderr
	return cmd, nil
}
