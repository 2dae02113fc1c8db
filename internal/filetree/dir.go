package filetree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

const (
	tempPrefix = ".tmp-"
	edited     = ".edited-"

	probePrefix = ".probe-" // of files that only show whether one can be made
)

// errMoved says that the directory changed between a look and what was done on
// the strength of it; the caller looks again.
var errMoved = errors.New("the directory changes faster than it can be saved to")

// Dir is one open directory of a tree, in which a [Form] keeps its files. All
// names are single components.
type Dir struct {
	*handle
	tree *Tree
	path string // below the tree, "" for the tree itself

	stripe int // of the lock that the caller holds; it becomes part of temp names
}

// File is a file as it was found.
type File struct {
	Name string
	Ident
}

// openDir opens the directory of a place; fs.ErrNotExist when it is not there.
func (t *Tree) openDir(path string) (*Dir, error) {
	h, err := t.top.open(t.root, orRoot(path))
	if err != nil {
		return nil, err
	}
	return &Dir{handle: h, tree: t, path: path}, nil
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
	self, err := d.self()
	if err == nil && !t.rooted.has(path, self) {
		for dir := path; dir != "" && err == nil; dir = parentOf(dir) {
			err = t.rootedAt(ctx, parentOf(dir))
		}
		if err == nil {
			t.rooted.add(path, self)
		}
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// rootedAt syncs a directory on the way to another one.
func (t *Tree) rootedAt(ctx context.Context, dir string) error {
	err := t.syncs.sync(ctx, dir)
	if errors.Is(err, tiers.ErrCommitUnknown) {
		return context.Cause(ctx) // nothing was stored yet
	}
	return t.broke(err)
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

// Path answers where a name of this directory is, for messages.
func (d *Dir) Path(name string) string { return d.tree.join(d.path, name) }

// Stat looks at a name. A file that is not there is no error, but ok is false;
// one that is not a regular file is one.
func (d *Dir) Stat(name string) (f File, ok bool, err error) {
	id, err := d.stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return File{}, false, nil
	case err != nil:
		return File{}, false, err
	case !id.Regular:
		return File{}, false, d.irregular(name)
	}
	return File{Name: name, Ident: id}, true, nil
}

func (d *Dir) irregular(name string) error {
	return tiers.Hint(fmt.Errorf("%w: %s is not a regular file", tiers.ErrCorrupt, d.Path(name)),
		"move it out of the way; links and special files are not followed")
}

// Read answers the first limit bytes of a file, and the file as it was read; a
// negative limit is the whole file, if it is one that the tree may have written.
func (d *Dir) Read(name string, limit int64) (content []byte, as File, err error) {
	content, id, err := d.read(name, limit, d.tree.largest+around)
	if err == nil && !id.Regular || isLink(err) {
		err = d.irregular(name)
	}
	return content, File{Name: name, Ident: id}, err
}

// tooLarge refuses a file before room is made for its content. A file that has
// no content yet can claim any size.
func tooLarge(name string, size, most int64) error {
	return tiers.Hint(fmt.Errorf("%w: %s has %d bytes, %d are read at most", tiers.ErrTooLarge, name, size, most),
		"move the file away, or delete the record to give it up")
}

// Staged is a file that is complete but does not have its name yet.
type Staged struct {
	dir  *Dir
	name string
	file *temp
}

// Stage writes a temp file with that modification time. Whoever stages a file
// discards it in the end, which does nothing once it has its name.
func (d *Dir) Stage(content []byte, mtime time.Time) (*Staged, error) {
	name := d.tempName()
	f, err := d.create(name, content, mtime)
	if err != nil {
		return nil, moved(err)
	}
	st := &Staged{dir: d, name: name, file: f}
	if err := d.checkTimes(name, mtime); err != nil {
		st.Discard()
		return nil, err
	}
	return st, nil
}

func (d *Dir) tempName() string {
	return fmt.Sprintf("%s%02d-%x-%d", tempPrefix, d.stripe, d.tree.id, d.tree.temps.Add(1))
}

// checkTimes finds out, once, whether the file system keeps microseconds.
func (d *Dir) checkTimes(name string, want time.Time) error {
	if d.tree.exact.Load() || want.UnixMicro()%1000 == 0 {
		return nil
	}
	id, err := d.stat(name)
	if err != nil {
		return moved(err)
	}
	if id.ModTime.UnixMicro() != want.UnixMicro() {
		return tiers.Hint(fmt.Errorf("%w: the file system keeps the time %s as %s, and versions are modification times in microseconds",
			tiers.ErrUnsupported, want.UTC().Format(time.RFC3339Nano), id.ModTime.UTC().Format(time.RFC3339Nano)),
			"put the directory on another file system")
	}
	d.tree.exact.Store(true)
	return nil
}

// Ident answers the file's state, which stays what it is when it gets its name.
//
// A file that is staged before its stripe's lock is held may be swept like one
// that a crash left behind; then the save has to begin again.
func (st *Staged) Ident() (Ident, error) {
	id, err := st.dir.stat(st.name)
	return id, moved(err)
}

// Discard removes the file unless it has got its name.
func (st *Staged) Discard() {
	if st == nil {
		return
	}
	if st.file != nil {
		_ = st.file.close()
		st.file = nil
	}
	if st.name != "" {
		_ = st.dir.remove(st.name) // what stays behind is swept
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
		err = st.dir.tree.fsynced(f.sync())
	}
	return errors.Join(err, f.close())
}

// Replace gives the staged file its name, over whatever has it.
func (d *Dir) Replace(st *Staged, name string) error {
	if err := d.aside(name); err != nil {
		return err
	}
	if !d.tree.durable {
		// ext4 writes a file out when it is renamed over another one, as if it
		// had been asked for an fsync. Swapping the two does not cause that.
		if ok, err := d.exchange(st.name, name); ok && err == nil {
			before := st.name
			st.name = ""
			return d.remove(before)
		}
	}
	if err := d.rename(st.name, name); err != nil {
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
	if err := d.aside(name); err != nil {
		return err
	}
	if old == nil {
		ok, err := d.renameNew(st.name, name)
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
		ok, err := d.exchange(st.name, name)
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
	id, err := d.stat(name)
	if gone := errors.Is(err, fs.ErrNotExist); gone != (old == nil) || !gone && (err != nil || !old.same(id)) {
		return errors.Join(errMoved, err)
	}
	return d.Replace(st, name)
}

// Retire removes a file that was found under a name which no longer counts.
func (d *Dir) Retire(old File) error {
	if err := d.aside(old.Name); err != nil {
		return err
	}
	away := d.tempName()
	err := d.rename(old.Name, away)
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
	id, err := d.stat(away)
	if err == nil && found.same(id) {
		err = d.remove(away)
	} else if err == nil {
		err = d.keep(away, name, id)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Keep puts a file that a person wrote beside its name, as NAME.edited-VERSION.
func (d *Dir) Keep(f File) error { return moved(d.keep(f.Name, f.Name, f.Ident)) }

func (d *Dir) keep(from, name string, id Ident) error {
	to := fmt.Sprintf("%s%s%d", name, edited, id.Version())
	if err := d.aside(from, to); err != nil {
		return err
	}
	if err := d.rename(from, to); err != nil {
		return err
	}
	d.tree.kept.Add(1)
	d.tree.log.Warn("an edit by hand stood in the way of a save; it was kept beside the record",
		"tier", d.tree.name, "ending", edited+"VERSION")
	return nil
}

// Drop removes a name that nobody edits by hand; one that is not there is fine.
func (d *Dir) Drop(name string) error {
	if err := d.aside(name); err != nil {
		return err
	}
	if err := d.remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Sync makes everything done in this directory so far durable, in a tree that
// is. An error that is ErrCommitUnknown says that the caller left early.
func (d *Dir) Sync(ctx context.Context) error { return d.tree.syncDir(ctx, d.path) }

func (t *Tree) syncDir(ctx context.Context, dir string) error {
	if !t.durable {
		return nil
	}
	err := t.syncs.sync(ctx, dir)
	if errors.Is(err, tiers.ErrCommitUnknown) {
		return err
	}
	if broken := t.broken.Load(); err == nil && broken != nil {
		// What failed may have been of this change as well: the system tells it once.
		err = fmt.Errorf("another one meanwhile: %w", *broken)
	}
	return t.broke(err)
}
