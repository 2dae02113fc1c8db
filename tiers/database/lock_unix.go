//go:build unix

package database

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// fileLock is an advisory lock of an open file (flock). It dies with its holder.
// The descriptor stays open, so that taking it costs one system call.
type fileLock struct{ f *os.File }

// lockFile opens a file that is only there to be locked.
func lockFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the database's own path
}

func openLock(path string) (*fileLock, error) {
	f, err := lockFile(path)
	if err != nil {
		return nil, err
	}
	return &fileLock{f: f}, nil
}

// try takes the lock, or changes its kind, when nobody is in the way.
func (l *fileLock) try(exclusive bool) (bool, error) {
	how := unix.LOCK_SH | unix.LOCK_NB
	if exclusive {
		how = unix.LOCK_EX | unix.LOCK_NB
	}
	for {
		switch err := unix.Flock(int(l.f.Fd()), how); {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		default:
			return false, &os.PathError{Op: "flock", Path: l.f.Name(), Err: err}
		}
	}
}

func (l *fileLock) unlock() error { return unix.Flock(int(l.f.Fd()), unix.LOCK_UN) }

func (l *fileLock) close() error { return l.f.Close() }
