package database

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sagestore/sagestore/internal/home"
	"github.com/sagestore/sagestore/tiers"
)

// Memory is the path of a database that is one private store in memory, gone at
// Close.
const Memory = ":memory:"

// defaultPath is where the database is when nothing says so.
const defaultPath = "~/.sage/sage.db"

// expand makes a path absolute and replaces a leading "~" by the home directory.
func expand(path string) (string, error) {
	if path == "" {
		path = defaultPath
	}
	if path == Memory {
		return path, nil
	}
	path, err := home.Expand(path)
	if err != nil {
		return "", err
	}
	if strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("the path %q holds a NUL byte", path)
	}
	return filepath.Abs(path)
}

// checkPlace refuses a network file system. It looks at the nearest directory
// that exists, and touches nothing.
func checkPlace(path string, network func(dir string) (kind string, err error)) error {
	dir := filepath.Dir(path)
	for {
		_, err := os.Stat(dir)
		if err == nil {
			break
		}
		parent := filepath.Dir(dir)
		if !errors.Is(err, fs.ErrNotExist) || parent == dir {
			return err
		}
		dir = parent
	}
	kind, err := network(dir)
	if err != nil {
		return err
	}
	if kind != "" {
		return tiers.Hint(fmt.Errorf("%w: %s is on %s, where locks between hosts can't be relied on", tiers.ErrUnsupported, path, kind),
			"put the database on a local disk, or use PostgreSQL")
	}
	return nil
}

// create makes missing directories, private to the user, and an empty file,
// unless there is one. A file that is there is never opened: closing its
// descriptor would drop the locks that this process may hold on it.
func create(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	switch st, err := os.Stat(path); {
	case err == nil && st.IsDir():
		return fmt.Errorf("%s is a directory, not a database", path)
	case err == nil && !st.Mode().IsRegular(): // opening a pipe would wait for ever
		return tiers.Hint(fmt.Errorf("%w: %s is no regular file, and so no database", tiers.ErrCorrupt, path),
			"move it out of the way, or choose another path")
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // the path that the user chose
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), syncDir(filepath.Dir(path)))
}

// syncDir makes the name of a new file durable.
func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the path that the user chose
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrInvalid) || errors.Is(err, fs.ErrPermission) {
		err = nil // some systems can't sync a directory
	}
	return errors.Join(err, d.Close())
}
