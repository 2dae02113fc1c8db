package filetree

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// tryLock takes the file's lock unless somebody has it.
func tryLock(f *os.File) (bool, error) {
	return flock(f, windows.LOCKFILE_EXCLUSIVE_LOCK)
}

// tryShare takes it together with others who share it.
func tryShare(f *os.File) (bool, error) { return flock(f, 0) }

func flock(f *os.File, how uint32) (bool, error) {
	flags := how | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

func unlock(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, new(windows.Overlapped))
}
