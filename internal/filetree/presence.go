package filetree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// openFileLock is shared by all who have the tree open, and held alone by who puts
// another one in its place.
const openFileLock = lockDir + "/open"

// grace is for how long a lock that somebody has is tried before that is said. A
// process that one of ours starts has our open files, and with them our locks, until it
// has become the other program.
const grace = time.Second

// within tries to take a lock, again and again for a while.
func within(ctx context.Context, f *os.File, try func(*os.File) (bool, error)) (ok bool, err error) {
	wait, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	err = awaitBy(wait, f, try)
	if err != nil && wait.Err() != nil && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

// attend takes the lock of those who have the tree open. Where it can't be made, on a
// read-only file system for instance, nobody can replace the tree either.
func attend(ctx context.Context, root *os.Root, base string) (*os.File, error) {
	l, err := openLock(root, openFileLock)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // see above; what is wrong there is said by the first change
	}
	ok, err := within(ctx, l, tryShare)
	if err == nil && (!ok || !isAt(root, base)) {
		err = tiers.Hint(fmt.Errorf("%w: %s is being restored", tiers.ErrUnavailable, base), "open it again when that has ended")
	}
	if err != nil {
		return nil, also(err, l.Close())
	}
	return l, nil
}

// isAt tells whether the path still leads to the directory.
func isAt(root *os.Root, base string) bool {
	held, err := root.Stat(".")
	if err != nil {
		return false
	}
	there, err := os.Stat(base)
	return err == nil && os.SameFile(held, there)
}

// seize keeps everybody from opening the tree until release is called. Where no tree
// is there is nothing to keep anybody from.
func seize(ctx context.Context, base string) (release func() error, err error) {
	root, err := os.OpenRoot(base)
	if errors.Is(err, fs.ErrNotExist) {
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = also(err, root.Close()) }()
	if _, err := root.Lstat(markFile); errors.Is(err, fs.ErrNotExist) {
		// Never written to. Only a lock that is there can be somebody's.
		if _, err := root.Lstat(openFileLock); errors.Is(err, fs.ErrNotExist) {
			return func() error { return nil }, nil
		}
	}
	l, err := openLock(root, openFileLock)
	if err != nil {
		return nil, err
	}
	ok, err := within(ctx, l, tryLock)
	if err == nil && !ok {
		err = tiers.Hint(fmt.Errorf("%w: another process has %s open", tiers.ErrUnavailable, base), "end it, then try again")
	}
	if err != nil {
		return nil, also(err, l.Close())
	}
	return l.Close, nil
}
