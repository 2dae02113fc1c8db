package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/sagestore/sagestore/internal/home"
)

const (
	scratchPrefix = "sagestore-backup-"
	// scratchLock is the file in a temporary directory that is locked for as long as
	// its owner lives.
	scratchLock = ".lock"
	// scratchBirth is how long it may take from the making of a directory to its lock.
	scratchBirth = time.Hour
	// scratchTries bounds how often a directory is made that a sweep takes away before
	// it is locked.
	scratchTries = 10
)

// scratchParent answers where temporary directories are made.
func (r *Repo) scratchParent() (string, error) {
	parent, err := home.Expand(r.o.Temp)
	if err == nil && parent == "" {
		parent = os.TempDir()
	}
	return parent, err
}

// newScratch makes a directory of our own and locks it. What it holds is not encrypted,
// so that a sweep removes it when its owner was killed.
func newScratch(parent string) (dir string, remove func() error, err error) {
	for range scratchTries {
		if dir, err = os.MkdirTemp(parent, scratchPrefix); err != nil {
			return "", nil, err
		}
		name := filepath.Join(dir, scratchLock)
		l := flock.New(name, flock.SetPermissions(0o600))
		locked, err := l.TryLock()
		if errors.Is(err, fs.ErrNotExist) {
			continue // swept
		}
		if err != nil {
			return "", nil, errors.Join(err, os.RemoveAll(dir))
		}
		if _, err := os.Lstat(name); locked && err == nil {
			return dir, func() error { return errors.Join(os.RemoveAll(dir), l.Unlock()) }, nil
		}
		if err := l.Close(); err != nil {
			return "", nil, err
		}
	}
	return "", nil, errors.New("temporary directories are removed as soon as they are made")
}

// LeftBehind answers the temporary directories whose owners were killed. They hold
// stores that are not encrypted. Making, verifying and restoring a backup removes them,
// and so does [Repo.Sweep].
func (r *Repo) LeftBehind() (dirs []string, err error) {
	err = r.abandoned(func(dir string) error {
		dirs = append(dirs, dir)
		return nil
	})
	return dirs, err
}

// Sweep removes what [Repo.LeftBehind] answers. What belongs to others stays.
func (r *Repo) Sweep() error { return r.abandoned(os.RemoveAll) }

// abandoned calls do with each temporary directory that nobody uses, and holds its
// lock meanwhile.
func (r *Repo) abandoned(do func(dir string) error) error {
	parent, err := r.scratchParent()
	if err != nil {
		return err
	}
	all, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var errs []error
	for _, e := range all {
		if e.IsDir() && strings.HasPrefix(e.Name(), scratchPrefix) {
			errs = append(errs, r.claim(filepath.Join(parent, e.Name()), do))
		}
	}
	return errors.Join(append(errs, err)...)
}

// claim calls do with the directory if it can be locked.
func (r *Repo) claim(dir string, do func(dir string) error) (err error) {
	l := flock.New(filepath.Join(dir, scratchLock), flock.SetFlag(os.O_RDONLY))
	locked, err := l.TryLock()
	switch {
	case errors.Is(err, fs.ErrPermission): // another user's
		return nil
	case errors.Is(err, fs.ErrNotExist):
		info, err := os.Lstat(dir)
		if err != nil || r.o.Clock.Now().Sub(info.ModTime()) < scratchBirth {
			return nil // it was removed meanwhile, or is being made
		}
		err = do(dir)
		if errors.Is(err, fs.ErrPermission) {
			return nil
		}
		return err
	case err != nil || !locked:
		return err
	}
	defer func() { err = errors.Join(err, l.Unlock()) }()
	return do(dir)
}
