package filetree

import (
	"errors"
	"fmt"
	"io/fs"
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
	case errors.Is(err, errMoved):
		return tiers.Hint(err, "something else keeps changing these files; try again")
	}
	return err
}
