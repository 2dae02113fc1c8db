package database

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// owners tells which processes have a file open. Each locks the byte whose
// offset is its process id, so the answer never outlives a process. The locks
// belong to the open file and not to the process: closing another descriptor
// does not drop them.
type owners struct{ f *os.File }

func openOwners(path string) (*owners, error) {
	f, err := lockFile(path)
	if err != nil {
		return nil, err
	}
	return &owners{f: f}, nil
}

// join names this process. Two handles of one process share the name, with a
// shared lock each.
func (o *owners) join() error {
	l := unix.Flock_t{Type: unix.F_RDLCK, Start: int64(os.Getpid()), Len: 1}
	err := unix.FcntlFlock(o.f.Fd(), unix.F_OFD_SETLK, &l)
	if errors.Is(err, unix.EINVAL) {
		return nil // an old kernel: the name is missing in messages, no more
	}
	return err
}

// others answers the ids of the processes that hold the file, this one among
// them when it has another handle.
func (o *owners) others() (pids []string) {
	for start := int64(0); ; {
		l := unix.Flock_t{Type: unix.F_WRLCK, Start: start}
		if err := unix.FcntlFlock(o.f.Fd(), unix.F_OFD_GETLK, &l); err != nil || l.Type == unix.F_UNLCK || l.Start < start {
			return pids
		}
		pids = append(pids, strconv.FormatInt(l.Start, 10))
		start = l.Start + 1
	}
}

func (o *owners) close() error { return o.f.Close() }
