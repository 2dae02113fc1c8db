package aside_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

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

// TestNoProcessEndsWithAThread: a process that asked for a signal when its parent ends
// gets it when the thread ends that has started it.
func TestNoProcessEndsWithAThread(t *testing.T) {
	var all []*exec.Cmd
	for range 8 {
		started := make(chan *exec.Cmd)
		go func() {
			cmd := exec.CommandContext(t.Context(), "sleep", "600")
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			if err := cmd.Start(); err != nil {
				t.Error(err)
				cmd = nil
			}
			started <- cmd
		}()
		cmd := <-started
		if cmd == nil {
			return
		}
		all = append(all, cmd)
	}
	var g sync.WaitGroup
	for range 20 {
		g.Go(func() { _ = aside.Do(func() error { time.Sleep(time.Millisecond); return nil }) })
	}
	g.Wait()
	for _, cmd := range all {
		// Its place in the table of processes stays until it is waited for.
		if state := stateOf(t, cmd.Process.Pid); state == "Z" {
			t.Error("a process was killed")
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// stateOf answers the state of a process, which follows the name of its command.
func stateOf(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return rest[:1]
}
