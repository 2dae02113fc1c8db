package filetree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

const (
	tempPrefix = ".tmp-"
	edited     = ".edited-"
)

// errMoved says that the directory changed between a look and what was done on
// the strength of it; the caller looks again.
var errMoved = errors.New("the directory changes faster than it can be saved to")

// Dir is one open directory of a tree, in which a [Form] keeps its files. All
// names are single components.
type Dir struct {
	tree *Tree
	path string // below the tree, "" for the tree itself
	root *os.Root
	self *os.File // opened at first use

	stripe int // of the lock that the caller holds; it becomes part of temp names
}

// File is a file as it was found: its name, and what tells it from any other
// state of that name.
type File struct {
	Name string
	Stat fs.FileInfo
}

// Version is the modification time in microseconds, at least 1.
func (f File) Version() tiers.Version { return versionOf(f.Stat) }

func versionOf(fi fs.FileInfo) tiers.Version {
	return tiers.Version(max(fi.ModTime().UnixMicro(), 1))
}

func (f File) same(fi fs.FileInfo) bool {
	return os.SameFile(f.Stat, fi) && f.Stat.ModTime().Equal(fi.ModTime()) && f.Stat.Size() == fi.Size()
}

// openDir opens the directory of a place; fs.ErrNotExist when it is not there.
func (t *Tree) openDir(path string) (*Dir, error) {
	root, err := t.root.OpenRoot(orRoot(path))
	if err != nil {
		return nil, err
	}
	return &Dir{tree: t, path: path, root: root}, nil
}

// makeDir opens the directory of a place and makes it when it is not there. In
// a durable tree the way to it is durable too.
func (t *Tree) makeDir(ctx context.Context, p place) (*Dir, error) {
	path := p.dir()
	d, err := t.openDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		for i := range p.dirs {
			err := t.root.Mkdir(strings.Join(p.dirs[:i+1], "/"), 0o700)
			if err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, moved(err)
			}
		}
		d, err = t.openDir(path)
		err = moved(err)
	}
	if err != nil || !t.durable {
		return d, err
	}
	fi, err := d.root.Stat(".")
	if err == nil && !t.rooted.has(path, fi) {
		for dir := path; dir != "" && err == nil; dir = parentOf(dir) {
			err = t.syncs.sync(ctx, parentOf(dir))
		}
		if err == nil {
			t.rooted.add(path, fi)
		}
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// moved turns what is suddenly missing into errMoved.
func moved(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", errMoved, err)
	}
	return err
}

// prune removes directories that have become empty, from the inside out.
func (t *Tree) prune(dir string) {
	for ; dir != ""; dir = parentOf(dir) {
		if t.root.Remove(dir) != nil {
			return
		}
	}
}

func (d *Dir) close() error {
	if d.self != nil {
		return errors.Join(d.self.Close(), d.root.Close())
	}
	return d.root.Close()
}

func (d *Dir) file() (*os.File, error) {
	if d.self == nil {
		f, err := d.root.Open(".")
		if err != nil {
			return nil, err
		}
		d.self = f
	}
	return d.self, nil
}

// Path answers where a name of this directory is, for messages.
func (d *Dir) Path(name string) string { return d.tree.join(d.path, name) }

// Stat looks at a name. A file that is not there is no error, but ok is false;
// one that is not a regular file is one.
func (d *Dir) Stat(name string) (f File, ok bool, err error) {
	fi, err := d.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return File{}, false, nil
	case err != nil:
		return File{}, false, err
	case !fi.Mode().IsRegular():
		return File{}, false, tiers.Hint(fmt.Errorf("%w: %s is not a regular file", tiers.ErrCorrupt, d.Path(name)),
			"move it out of the way; links and special files are not followed")
	}
	return File{Name: name, Stat: fi}, true, nil
}

// Read answers the first limit bytes of a file, and the file as it was read; a
// negative limit is none.
func (d *Dir) Read(name string, limit int64) (content []byte, as File, err error) {
	f, err := d.root.Open(name)
	if err != nil {
		return nil, File{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	fi, err := f.Stat()
	if err != nil {
		return nil, File{}, err
	}
	if limit < 0 {
		limit = math.MaxInt64
	}
	size := min(limit, fi.Size())
	buf := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	if _, err := buf.ReadFrom(io.LimitReader(f, limit)); err != nil {
		return nil, File{}, err
	}
	return buf.Bytes(), File{Name: name, Stat: fi}, nil
}

// Staged is a file that is complete but does not have its name yet.
type Staged struct {
	dir  *Dir
	name string
	file *os.File
}

// Stage writes a temp file with that modification time. Whoever stages a file
// discards it in the end, which does nothing once it has its name.
func (d *Dir) Stage(content []byte, mtime time.Time) (st *Staged, err error) {
	name := fmt.Sprintf("%s%02d-%d-%d", tempPrefix, d.stripe, d.tree.pid, d.tree.temps.Add(1))
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, moved(err)
	}
	st = &Staged{dir: d, name: name, file: f}
	defer func() {
		if err != nil {
			st.Discard()
		}
	}()
	if _, err := f.Write(content); err != nil {
		return nil, err
	}
	if err := d.root.Chtimes(name, mtime, mtime); err != nil {
		return nil, err
	}
	return st, d.tree.checkTimes(f, mtime)
}

// Discard removes the file unless it has got its name.
func (st *Staged) Discard() {
	if st == nil {
		return
	}
	if st.file != nil {
		_ = st.file.Close()
		st.file = nil
	}
	if st.name != "" {
		_ = st.dir.root.Remove(st.name) // what stays behind is swept
		st.name = ""
	}
}

// Flush makes the contents of staged files durable, all at the same time, and
// closes them; nil entries are passed over.
func (d *Dir) Flush(staged ...*Staged) error {
	errs := make([]error, len(staged))
	var wg sync.WaitGroup
	for i, st := range staged {
		if st == nil {
			continue
		}
		if i == len(staged)-1 {
			errs[i] = st.flush()
			continue
		}
		wg.Go(func() { errs[i] = st.flush() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (st *Staged) flush() error {
	f := st.file
	st.file = nil
	var err error
	if st.dir.tree.durable {
		err = st.dir.tree.fsynced(f.Sync())
	}
	return errors.Join(err, f.Close())
}

// Replace gives the staged file its name, over whatever has it.
func (d *Dir) Replace(st *Staged, name string) error {
	if err := d.root.Rename(st.name, name); err != nil {
		return moved(err)
	}
	st.name = ""
	return nil
}

// Swap gives the staged file its name in place of old, which was found under
// it, or in place of nothing when old is nil. When the name turns out to be
// taken, or to be free, nothing has happened and the caller has to look again.
// When what it replaced is not what was found, somebody's edit slipped in
// between; it is kept beside as NAME.edited-VERSION.
func (d *Dir) Swap(st *Staged, name string, old *File) error {
	self, err := d.file()
	if err != nil {
		return err
	}
	if old == nil {
		ok, err := renameNew(self, st.name, name)
		switch {
		case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%w: %w", errMoved, err)
		case err != nil:
			return err
		case ok:
			st.name = ""
			return nil
		}
	} else {
		ok, err := exchange(self, st.name, name)
		switch {
		case err != nil:
			return moved(err)
		case ok:
			before := st.name
			st.name = ""
			return d.dispose(before, name, *old)
		}
	}
	// The narrow way, for file systems that can't: look, then rename.
	fi, err := d.root.Lstat(name)
	if gone := errors.Is(err, fs.ErrNotExist); gone != (old == nil) || !gone && (err != nil || !old.same(fi)) {
		return errors.Join(errMoved, err)
	}
	return d.Replace(st, name)
}

// Retire removes a file that was found under a name which no longer counts.
func (d *Dir) Retire(old File) error {
	away := fmt.Sprintf("%s%02d-%d-%d", tempPrefix, d.stripe, d.tree.pid, d.tree.temps.Add(1))
	err := d.root.Rename(old.Name, away)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return d.dispose(away, old.Name, old)
}

// dispose removes what was moved away from a name, if it is what was found
// there, and else keeps it.
func (d *Dir) dispose(away, name string, found File) error {
	fi, err := d.root.Lstat(away)
	if err == nil && found.same(fi) {
		err = d.root.Remove(away)
	} else if err == nil {
		err = d.keep(away, name, fi)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Keep puts a file that a person wrote beside its name, as NAME.edited-VERSION.
func (d *Dir) Keep(f File) error { return moved(d.keep(f.Name, f.Name, f.Stat)) }

func (d *Dir) keep(from, name string, fi fs.FileInfo) error {
	if err := d.root.Rename(from, fmt.Sprintf("%s%s%d", name, edited, versionOf(fi))); err != nil {
		return err
	}
	d.tree.kept.Add(1)
	d.tree.log.Warn("an edit by hand stood in the way of a save; it was kept beside the record",
		"tier", d.tree.name, "ending", edited+"VERSION")
	return nil
}

// Drop removes a name that nobody edits by hand; one that is not there is fine.
func (d *Dir) Drop(name string) error {
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Sync makes everything done in this directory so far durable, in a tree that
// is. An error that is ErrCommitUnknown says that the caller left early.
func (d *Dir) Sync(ctx context.Context) error {
	if !d.tree.durable {
		return nil
	}
	err := d.tree.syncs.sync(ctx, d.path)
	if errors.Is(err, tiers.ErrCommitUnknown) {
		return err
	}
	return d.tree.fsynced(err)
}
