package filetree

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// open opens a directory below this one. The system sees to it that the path
// stays below, whatever links are on the way; where it can't, os.Root does.
func (h *handle) open(root *os.Root, path string) (*handle, error) {
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	}
	for {
		fd, err := unix.Openat2(h.fd, path, &how)
		switch {
		case err == nil:
			return &handle{fd: fd}, nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM), errors.Is(err, unix.E2BIG):
			return rootHandle(root, path)
		default:
			return nil, failed("open", path, err)
		}
	}
}

// exchange swaps two names in one step. ok is false where the file system
// can't.
func (h *handle) exchange(a, b string) (ok bool, err error) {
	return h.rename2(a, b, unix.RENAME_EXCHANGE)
}

// renameNew renames unless the new name is taken. ok is false where the file
// system can't.
func (h *handle) renameNew(from, to string) (ok bool, err error) {
	return h.rename2(from, to, unix.RENAME_NOREPLACE)
}

func (h *handle) rename2(from, to string, flags uint) (ok bool, err error) {
	err = retry(func() error { return unix.Renameat2(h.fd, from, h.fd, to, flags) })
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP) {
		return false, nil
	}
	return true, failed("rename", from, err)
}
