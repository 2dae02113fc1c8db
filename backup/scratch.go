package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/sagestore/sagestore/internal/home"
)

const (
	scratchPrefix = "sagestore-backup-"
	// scratchLock ends the name of the file beside a temporary directory that is locked
	// before the directory is made and for as long as its owner lives.
	scratchLock = ".lock"
)

// scratchParent answers where temporary directories are made.
func (r *Repo) scratchParent() (string, error) {
	parent, err := home.Expand(r.o.Temp)
	if err == nil && parent == "" {
		parent = os.TempDir()
	}
	return parent, err
}

// newScratch makes a directory of our own, which is locked from its first moment. What
// it holds is not encrypted, so that a sweep removes it when its owner was killed.
func newScratch(parent, prefix string) (dir string, remove func() error, err error) {
	f, err := os.CreateTemp(parent, prefix+"*"+scratchLock)
	if err != nil {
		return "", nil, err
	}
	name := f.Name()
	if err := f.Close(); err != nil {
		return "", nil, err
	}
	l := flock.New(name, flock.SetFlag(os.O_RDONLY))
	dir = strings.TrimSuffix(name, scratchLock)
	remove = func() error { return errors.Join(os.RemoveAll(dir), l.Unlock(), removeIfThere(name)) }
	if _, err := l.TryLock(); err != nil { // nobody else knows of it before there is a directory
		return "", nil, errors.Join(err, remove())
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", nil, errors.Join(err, l.Unlock(), os.Remove(name))
	}
	return dir, remove, nil
}

// ownPrefix begins the names of the temporary directories of the store.
func (r *Repo) ownPrefix() string {
	if r.o.Owner == "" {
		return scratchPrefix
	}
	sum := sha256.Sum256([]byte(r.o.Owner))
	return scratchPrefix + hex.EncodeToString(sum[:8]) + "-"
}

// LeftBehind answers the temporary directories whose users were killed; with
// [Options.Owner], those of that store. They hold stores that are not encrypted. Making,
// verifying and restoring a backup removes them, and so does [Repo.Sweep].
func (r *Repo) LeftBehind() (dirs []string, err error) {
	err = r.abandoned(r.ownPrefix(), func(dir string) error {
		dirs = append(dirs, dir)
		return nil
	})
	return dirs, err
}

// Sweep removes what [Repo.LeftBehind] answers for any store. What is in use, or belongs
// to others, stays.
func (r *Repo) Sweep() error { return r.abandoned(scratchPrefix, os.RemoveAll) }

// abandoned calls do with each temporary directory of a prefix that nobody uses, and
// holds its lock meanwhile.
func (r *Repo) abandoned(prefix string, do func(dir string) error) error {
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
		if e.IsDir() && strings.HasPrefix(e.Name(), prefix) {
			errs = append(errs, claim(filepath.Join(parent, e.Name()), do))
		}
	}
	return errors.Join(append(errs, err)...)
}

// claim calls do with the directory if it can be locked.
func claim(dir string, do func(dir string) error) (err error) {
	name := dir + scratchLock
	l := flock.New(name, flock.SetFlag(os.O_RDONLY))
	locked, err := l.TryLock()
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist): // another user's; its owner removes it
		return nil
	case err != nil || !locked:
		return err
	}
	defer func() { err = errors.Join(err, l.Unlock()) }()
	if err := do(dir); err != nil {
		return err
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return removeIfThere(name)
	}
	return nil
}
