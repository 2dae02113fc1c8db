package filetree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sagestore/sagestore/tiers"
)

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota)
}

// isAbsent tells that there is no such directory.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// also adds an error that came later. Alone, the first one stays what it is, so
// that its hint is found.
func also(err, later error) error {
	if later == nil {
		return err
	}
	return errors.Join(err, later)
}

// isLink tells that a link was met where none is followed.
func isLink(err error) bool { return errors.Is(err, syscall.ELOOP) }

// notOwn is about a file that the tree keeps for itself and finds to be
// something else.
func notOwn(root *os.Root, name, why string) error {
	return tiers.Hint(fmt.Errorf("%w: %s %s", tiers.ErrCorrupt, filepath.Join(root.Name(), name), why),
		"move it out of the way; it is made again")
}

// openOwn opens a file that the tree keeps for itself, and makes it when it is
// not there.
func openOwn(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	switch {
	case errors.Is(err, syscall.EISDIR), isLink(err):
		return nil, notOwn(root, name, "is not a regular file")
	case errors.Is(err, syscall.ENOTDIR):
		return nil, notOwn(root, path.Dir(name), "is not a directory")
	case err != nil:
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = notOwn(root, name, "is not a regular file")
	}
	if err != nil {
		return nil, also(err, f.Close())
	}
	return f, nil
}

// explain gives an error of the file system the sentinel that it stands for,
// and says what to do.
func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, tiers.ErrCommitUnknown):
		return tiers.Hint(err, "load the key to see what is there; after a failed fsync, open the store again first")
	case isFull(err):
		return tiers.Hint(fmt.Errorf("%w: %w", tiers.ErrFull, err), "make room on the disk; nothing stored was changed")
	case errors.Is(err, syscall.EROFS):
		return tiers.Hint(fmt.Errorf("%w: %w", tiers.ErrReadOnly, err), "the file system is mounted read-only")
	case errors.Is(err, fs.ErrPermission):
		return tiers.Hint(err, "the user of this process may not do that here; look at the owner and mode of the directory")
	case errors.Is(err, syscall.EXDEV), strings.HasSuffix(err.Error(), "path escapes from parent"):
		// Package os has no sentinel for it, and the system says "cross-device".
		return tiers.Hint(fmt.Errorf("%w: path escapes from the directory of the store: %w", tiers.ErrUnsupported, err),
			"a link leads out of the store's directory; put the directory itself there")
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR):
		return tiers.Hint(fmt.Errorf("%w: %w", tiers.ErrCorrupt, err),
			"something else stands where a file or directory of the store belongs; move it out of the way")
	case errors.Is(err, errMoved):
		return tiers.Hint(err, "something else keeps changing these files; try again")
	}
	return err
}
