package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/internal/home"
	"github.com/sagestore/sagestore/tiers"
)

// dirTemp begins the names of files that are being written.
const dirTemp = ".tmp-"

// Dir keeps backups below a directory, which is made when the first one is written.
// A leading ~ is the home directory. Directories have mode 0700 and files 0600.
func Dir(path string) Bucket { return &dirBucket{path: path} }

type dirBucket struct{ path string }

func (d *dirBucket) root(create bool) (*os.Root, error) {
	p, err := home.Expand(d.path)
	if err != nil {
		return nil, err
	}
	if p == "" {
		return nil, errors.New("the directory for backups has no name")
	}
	if create {
		if err := os.MkdirAll(p, 0o700); err != nil {
			return nil, err
		}
	}
	return os.OpenRoot(p)
}

// with lends fn the directory.
func (d *dirBucket) with(create bool, fn func(root *os.Root) error) error {
	root, err := d.root(create)
	if err != nil {
		return err
	}
	return errors.Join(fn(root), root.Close())
}

// Put implements Bucket: a temporary file, synced, renamed, and its directory synced.
func (d *dirBucket) Put(ctx context.Context, name string, r io.Reader) error {
	if err := checkObject(name); err != nil {
		return err
	}
	return d.with(true, func(root *os.Root) error {
		dir := path.Dir(name)
		if dir != "." {
			if err := root.MkdirAll(dir, 0o700); err != nil {
				return err
			}
		}
		temp := path.Join(dir, dirTemp+rand.Text())
		err := writeNew(ctx, root, temp, r)
		if err == nil {
			err = root.Rename(temp, name)
		}
		if err != nil {
			if also := root.Remove(temp); also != nil && !errors.Is(also, fs.ErrNotExist) {
				err = errors.Join(err, also)
			}
			if dir != "." {
				_ = root.Remove(dir) // if it was made for this
			}
			return err
		}
		if err := syncIn(root, dir); err != nil || dir == "." {
			return err
		}
		return syncIn(root, ".")
	})
}

func writeNew(ctx context.Context, root *os.Root, name string, r io.Reader) error {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = writeSteadily(f, &ending{ctx: ctx, r: r})
	return errors.Join(err, f.Close())
}

// Get implements Bucket.
func (d *dirBucket) Get(_ context.Context, name string) (r io.ReadCloser, err error) {
	if err := checkObject(name); err != nil {
		return nil, err
	}
	err = d.with(false, func(root *os.Root) error {
		// A pipe would be waited for, and a link may lead anywhere below.
		if st, err := root.Lstat(name); err != nil {
			return err
		} else if !st.Mode().IsRegular() {
			return fmt.Errorf("%w: %s is no regular file", tiers.ErrCorrupt, name)
		}
		r, err = root.Open(name)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: %w", name, tiers.ErrNotFound)
	}
	return r, err
}

// List implements Bucket.
func (d *dirBucket) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		d.walk(ctx, prefix, func(name string, _ fs.DirEntry, err error) bool { return yield(name, err) })
	}
}

// Objects implements Lister.
func (d *dirBucket) Objects(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		d.walk(ctx, prefix, func(name string, e fs.DirEntry, err error) bool {
			o := Object{Name: name, Size: -1}
			if err == nil {
				var st fs.FileInfo
				if st, err = e.Info(); err == nil && st.Mode().IsRegular() {
					o.Size = st.Size()
				}
			}
			if errors.Is(err, fs.ErrNotExist) {
				return true // removed meanwhile
			}
			return yield(o, err)
		})
	}
}

// walk yields the objects whose names begin with the prefix.
func (d *dirBucket) walk(ctx context.Context, prefix string, yield func(string, fs.DirEntry, error) bool) {
	stopped := false
	err := d.with(false, func(root *os.Root) error {
		return fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil // removed meanwhile
			case err != nil:
				return err
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case name == ".":
				return nil
			case strings.HasPrefix(path.Base(name), "."), e.IsDir() && !onTheWay(name+"/", prefix):
				if e.IsDir() {
					return fs.SkipDir
				}
				return nil
			case e.IsDir() || !strings.HasPrefix(name, prefix):
				return nil
			}
			if !yield(name, e, nil) {
				stopped = true
				return fs.SkipAll
			}
			return nil
		})
	})
	if err != nil && !stopped && !errors.Is(err, fs.ErrNotExist) {
		yield("", nil, err)
	}
}

// onTheWay tells whether names with the prefix may be below the directory.
func onTheWay(dir, prefix string) bool {
	return strings.HasPrefix(dir, prefix) || strings.HasPrefix(prefix, dir)
}

// Delete implements Bucket.
func (d *dirBucket) Delete(_ context.Context, name string) error {
	if err := checkObject(name); err != nil {
		return err
	}
	err := d.with(false, func(root *os.Root) error {
		if err := root.Remove(name); err != nil {
			return err
		}
		dir := path.Dir(name)
		if dir == "." {
			return syncIn(root, ".")
		}
		err := root.Remove(dir) // the last one takes its directory along
		if err != nil {
			return syncIn(root, dir)
		}
		return syncIn(root, ".")
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// tidy removes temporary files, and empty directories, that nobody has touched since.
func (d *dirBucket) tidy(since time.Time) error {
	err := d.with(false, func(root *os.Root) error {
		var old []string
		err := fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
			if err != nil || name == "." {
				return err
			}
			if !e.IsDir() && !strings.HasPrefix(path.Base(name), dirTemp) {
				return nil
			}
			if st, err := e.Info(); err == nil && st.ModTime().Before(since) {
				old = append(old, name)
			}
			return nil
		})
		for _, name := range slices.Backward(old) { // what is inside comes first
			_ = root.Remove(name) // a directory that is not empty stays
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func syncIn(root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrInvalid) || errors.Is(err, fs.ErrPermission) {
		err = nil // some systems can't sync a directory
	}
	return errors.Join(err, f.Close())
}

// syncDir is syncIn for a directory that is named by its path.
func syncDir(dir string) error {
	root, err := os.OpenRoot(filepath.Clean(dir))
	if err != nil {
		return err
	}
	return errors.Join(syncIn(root, "."), root.Close())
}

// ending is a reader that ends with its context.
type ending struct {
	ctx context.Context //nolint:containedctx // it lives as long as one call
	r   io.Reader
}

func (e *ending) Read(p []byte) (int, error) {
	if e.ctx.Err() != nil {
		return 0, context.Cause(e.ctx)
	}
	return e.r.Read(p)
}
