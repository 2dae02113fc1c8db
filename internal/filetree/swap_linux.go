package filetree

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// exchange swaps two names of a directory in one step. ok is false where the
// file system can't.
func exchange(dir *os.File, a, b string) (ok bool, err error) {
	return rename2(dir, a, b, unix.RENAME_EXCHANGE)
}

// renameNew renames unless the new name is taken. ok is false where the file
// system can't.
func renameNew(dir *os.File, from, to string) (ok bool, err error) {
	return rename2(dir, from, to, unix.RENAME_NOREPLACE)
}

func rename2(dir *os.File, from, to string, flags uint) (ok bool, err error) {
	for {
		err := unix.Renameat2(int(dir.Fd()), from, int(dir.Fd()), to, flags)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOTSUP):
			return false, nil
		default:
			return true, &os.LinkError{Op: "renameat2", Old: from, New: to, Err: err}
		}
	}
}
