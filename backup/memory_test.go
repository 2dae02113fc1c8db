package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

// The stores of which the memory is measured, in MiB. A quarter are files, the others records of the
// database. The small one is large enough to fill all buffers.
const (
	smallStore = 24
	bigStore   = 96
)

// measure does all that is done with a backup, and writes down how much memory that took
// at most, with what was mapped of files, in KiB.
func measure(ctx context.Context, r *Repo, dir string) error {
	debug.SetGCPercent(10) // what nobody needs any more is not to count
	m, err := createOf(ctx, r, dir)
	if err == nil {
		_, err = r.Verify(ctx, m.ID, false)
	}
	if err == nil {
		_, err = r.Restore(ctx, m.ID, RestoreOptions{To: filepath.Join(dir, "to")})
	}
	status, also := os.ReadFile("/proc/self/status")
	if err := errors.Join(err, also); err != nil {
		return err
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kib := 0
	if _, err := fmt.Sscan(after, &kib); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "vmhwm"), fmt.Append(nil, kib), 0o600)
}

// TestTheMemoryOfABackupDoesNotGrowWithTheStore: nor does that of a verification or of a
// restore, not even by what they map of files.
func TestTheMemoryOfABackupDoesNotGrowWithTheStore(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("this system does not tell how much memory a process has had")
	}
	t.Parallel()
	taken := func(values int) (mib int) {
		s := newStore(t, t.TempDir())
		value := make([]byte, 1<<20)
		for i := range values {
			_, _ = rand.Read(value) // never fails
			r := tiers.Record{Key: tiers.Key{Category: "notes", Name: fmt.Sprint("large-", i)}, Codec: "raw", Schema: 1, Value: value}
			save := s.db.Save
			if i%4 == 0 {
				save = s.files.Save
			}
			if _, err := save(t.Context(), r, tiers.Cond{}); err != nil {
				t.Fatal(err)
			}
		}
		s.close(t)
		if !child(t, "memory", s.dir, t.TempDir(), 1000, 0) {
			t.Fatal("it was killed")
		}
		text, err := os.ReadFile(filepath.Join(s.dir, "vmhwm"))
		if err != nil {
			t.Fatal(err)
		}
		kib := 0
		if _, err := fmt.Sscan(string(text), &kib); err != nil {
			t.Fatal(err)
		}
		return kib >> 10
	}
	small, large := taken(smallStore), taken(bigStore)
	t.Logf("%d MiB for a store of %d MiB, %d MiB for one of %d MiB", small, smallStore, large, bigStore)
	if large-small > (bigStore-smallStore)/2 {
		t.Error("it grows with the store")
	}
}
