package aside

import "golang.org/x/sys/unix"

// steps is by how much nicer than the process a thread is: its share of a processor that
// others want is about a tenth of theirs.
const steps = 10

// stepBack makes the calling thread nicer; on Linux that is not one of the whole process.
// Where it is refused, the thread is like any other.
func stepBack() {
	now, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return
	}
	nice := 20 - now // as the system call answers it
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, min(nice+steps, 19))
}
