package aside_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sagestore/sagestore/internal/aside"
)

// TestAThreadThatStepsBackIsNobodyElses: it is nicer than the process, which stays as it
// was, also for goroutines that come later.
func TestAThreadThatStepsBackIsNobodyElses(t *testing.T) {
	nice := func() int {
		n, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		if err != nil {
			t.Error(err)
		}
		return 20 - n
	}
	before := nice()
	for range 20 {
		within := before
		if err := aside.Do(func() error { within = nice(); return nil }); err != nil {
			t.Fatal(err)
		}
		if want := min(before+10, 19); within != want {
			t.Fatalf("aside a thread has niceness %d, want %d", within, want)
		}
		after := make(chan int)
		go func() { after <- nice() }()
		if got := <-after; got != before {
			t.Fatalf("afterwards a goroutine has niceness %d, want %d", got, before)
		}
	}
}
