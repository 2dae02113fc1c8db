package database

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/internal/crashtest"
)

func TestNothingAcknowledgedIsLostByAKill(t *testing.T) {
	t.Parallel()
	crashtest.Kill(t, crashing)
}

func TestAFullDiskIsSaidAndSurvived(t *testing.T) { crashtest.FullDisk(t, crashing) }

// committed is the file that a commit syncs.
var committed = []string{"sage.db-wal"}

func TestASaveThatDidNotSyncIsNotAcknowledged(t *testing.T) {
	for _, when := range []int{1, 2, 7, 20} {
		t.Run(fmt.Sprint("call ", when), func(t *testing.T) {
			// One caller: the sync that fails is that of its save.
			out := crashtest.Inject(t, crashing, crashtest.Injection{
				Calls: "fsync,fdatasync", Error: "EIO", When: when, Files: committed, Callers: 1, Ops: 60,
			})
			if !out.Injected || len(out.Errors) == 0 {
				t.Fatalf("nothing failed: %+v", out)
			}
			if first := out.Errors[0]; first.Class != crashtest.Unknown {
				t.Errorf("the save that did not sync got %v, want an unknown outcome", first)
			}
			for _, e := range out.Errors[1:] {
				if e.Class != crashtest.Unavailable || !strings.Contains(e.Text, "open it again") {
					t.Errorf("a later save got %v, want to be told to open the store again", e)
				}
			}
			if out.Late != 0 {
				t.Errorf("%d operations were acknowledged after the failure", out.Late)
			}
		})
	}
}

func TestWithManyCallersNoneIsAcknowledgedAfterAFailedSync(t *testing.T) {
	for _, when := range []int{3, 12} {
		out := crashtest.Inject(t, crashing, crashtest.Injection{Calls: "fsync,fdatasync", Error: "EIO", When: when, Files: committed, Ops: 60})
		if !out.Injected || len(out.Errors) == 0 || out.Late != 0 {
			t.Errorf("call %d: %d errors, %d acknowledged late", when, len(out.Errors), out.Late)
		}
	}
}

func TestAWriteThatFindsNoRoomIsFullAndPoisonsNothing(t *testing.T) {
	for _, when := range []int{5, 40} {
		t.Run(fmt.Sprint("call ", when), func(t *testing.T) {
			out := crashtest.Inject(t, crashing, crashtest.Injection{
				Calls: "pwrite64,write", Error: "ENOSPC", When: when, Files: committed, Callers: 1, Ops: 60,
			})
			if !out.Injected {
				t.Fatal("nothing failed")
			}
			// The store tries once more by itself, so the caller may see nothing.
			for _, e := range out.Errors {
				if e.Class != crashtest.Full {
					t.Errorf("got %v, want %s", e, crashtest.Full)
				}
			}
			if out.Acked < 59 {
				t.Errorf("%d of 60 operations were acknowledged", out.Acked)
			}
		})
	}
}

func TestAWriteErrorOfTheDiskIsNeverAcknowledged(t *testing.T) {
	out := crashtest.Inject(t, crashing, crashtest.Injection{
		Calls: "pwrite64,write", Error: "EIO", When: 30, Files: committed, Callers: 1, Ops: 60,
	})
	if !out.Injected || len(out.Errors) == 0 || out.Late != 0 {
		t.Errorf("injected %v, %d errors, %d acknowledged late", out.Injected, len(out.Errors), out.Late)
	}
}
