package file_test

import (
	"strings"
	"testing"

	"github.com/sagestore/sagestore/internal/crashtest"
)

func TestNothingAcknowledgedIsLostByAKill(t *testing.T) { crashtest.Kill(t, store) }

func TestAFullDiskIsSaidAndWorkGoesOnWithRoom(t *testing.T) { crashtest.FullDisk(t, store) }

func TestAFailedFsyncIsNotAcknowledgedAndAsksForReopening(t *testing.T) {
	for _, c := range []struct {
		why  string
		when int
	}{
		{"the first fsync of a save, before anything can be seen", 4},
		{"in the middle", 30},
		{"later", 111},
	} {
		t.Run(c.why, func(t *testing.T) {
			out := crashtest.Inject(t, store, crashtest.Injection{Calls: "fsync", Error: "EIO", When: c.when, Callers: 1})
			if !out.Injected {
				t.Fatal("the call was not reached")
			}
			if len(out.Errors) == 0 {
				t.Fatalf("%d operations acknowledged and no error: the failure was swallowed", out.Acked)
			}
			if out.Late != 0 {
				t.Errorf("%d operations were acknowledged after an fsync had failed", out.Late)
			}
			for _, e := range out.Errors {
				if !strings.Contains(e.Text, "open it again") {
					t.Errorf("the error does not say that the store has to be opened again: %s", e.Text)
				}
			}
			for _, e := range out.Errors[1:] {
				if e.Class != crashtest.Unavailable {
					t.Errorf("after the failure: %s %s, want unavailable", e.Class, e.Text)
				}
			}
		})
	}
}
