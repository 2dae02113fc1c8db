package aside

import (
	"os"

	"golang.org/x/sys/unix"
)

// steps is by how much nicer than the process a thread is: its share of a processor that
// others want is about a tenth of theirs.
const steps = 10

// stepBack makes the calling thread nicer; on Linux that is not one of the whole process.
// Where it is refused, the thread is like any other.
//
// It answers false, and does nothing, for a thread that must not end: the first one,
// whose niceness is shown as that of the process, and one that has started processes.
// The system sends them a signal when it ends, if they asked for one at the death of
// their parent (PR_SET_PDEATHSIG). The error is that nobody knows.
func stepBack() (bool, error) {
	if unix.Gettid() == os.Getpid() {
		return false, nil
	}
	children, err := os.ReadFile("/proc/thread-self/children")
	if err != nil {
		return false, err
	}
	if len(children) > 0 {
		return false, nil
	}
	now, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return false, err
	}
	nice := 20 - now // as the system call answers it
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, min(nice+steps, 19))
	return true, nil
}
