package filetree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/sagestore/sagestore/internal/archive"
	"github.com/sagestore/sagestore/tiers"
)

// Layout is the number of the layout of a tree, as a copy names it.
const Layout = 1

// frozen is a snapshot that this process copies.
type frozen struct {
	t     *Tree
	root  *os.Root // of its own: a snapshot may be closed after its tree
	owner *os.File
	id    string
	ctx   context.Context //nolint:containedctx // the contract: its end ends the view
	stop  func() bool
	held  time.Duration
	mark  []byte // the file of that name, as of the instant
	cut   time.Time

	mu     sync.Mutex
	closed bool
	copied *tiers.Content // what the last copy has counted
}

// Freeze implements tiers.Freezer. Writers of all processes wait until the changes
// that are under way have ended and during has returned; from then on they keep aside
// what they replace, until the view is closed. Several may be there at once.
func (t *Tree) Freeze(ctx context.Context, during func(context.Context) error) (tiers.Frozen, error) {
	f, err := t.freeze(ctx, during)
	if err != nil {
		return nil, t.fail("freeze", tiers.Key{}, err)
	}
	return f, nil
}

func (t *Tree) freeze(ctx context.Context, during func(context.Context) error) (_ *frozen, err error) {
	if err := t.enter(ctx); err != nil {
		return nil, err
	}
	defer t.gate.leave()
	if err := t.writable(); err != nil {
		return nil, err
	}
	l, err := openLock(t.root, freezeLock)
	if err != nil {
		return nil, err
	}
	defer func() { err = also(err, l.Close()) }() // the lock goes with it
	if err := await(ctx, l); err != nil {
		return nil, err
	}
	if err := t.sweepAbandoned(); err != nil {
		return nil, err
	}
	f := &frozen{t: t, id: newSnapshotID(), ctx: ctx}
	if f.root, err = t.root.OpenRoot("."); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = also(err, f.end())
		}
	}()
	if err := f.prepare(); err != nil {
		return nil, err
	}
	if err := f.at(ctx, during); err != nil {
		return nil, err
	}
	f.stop = context.AfterFunc(ctx, func() { _ = f.finish() }) // whoever holds it learns it from the context
	return f, nil
}

func (f *frozen) hidden() string { return snapshotDir + "/.new-" + f.id }

func (f *frozen) dir() string { return snapshotDir + "/" + f.id }

// prepare makes the directory, under a name by which nobody minds it yet.
func (f *frozen) prepare() error {
	at := f.hidden()
	err := f.root.MkdirAll(at, 0o700)
	for try := 0; errors.Is(err, fs.ErrNotExist) && try < lateWriters; try++ {
		err = f.root.MkdirAll(at, 0o700) // the last one to end has just removed the directory around it
	}
	for _, sub := range []string{wasDir, noneDir, editedDir} {
		if err == nil {
			err = f.root.Mkdir(at+"/"+sub, 0o700)
		}
	}
	if err != nil {
		return err
	}
	if f.owner, err = f.root.OpenFile(at+"/"+ownerFile, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if ok, err := tryLock(f.owner); err != nil || !ok {
		return errors.Join(err, fmt.Errorf("%w: the snapshot can't be locked", tiers.ErrUnavailable))
	}
	return nil
}

// at is the instant.
func (f *frozen) at(ctx context.Context, during func(context.Context) error) error {
	release, since, err := f.t.stripes.all(ctx, f.t.clock.Now)
	if err != nil {
		return err
	}
	defer func() {
		release()
		f.held = f.t.clock.Now().Sub(since)
	}()
	cut, err := f.root.OpenFile(f.hidden()+"/"+cutFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	fi, err := cut.Stat()
	if err := also(err, cut.Close()); err != nil {
		return err
	}
	f.cut = changedAt(fi)
	err = f.t.mark.update(ctx, func(issued tiers.Version) tiers.Version {
		f.mark = markOf(issued)
		return issued
	})
	if err != nil {
		return err
	}
	if err := f.root.Rename(f.hidden(), f.dir()); err != nil {
		return err
	}
	if during == nil {
		return nil
	}
	return during(ctx)
}

// Close implements tiers.Frozen.
func (f *frozen) Close() error {
	if f.stop != nil {
		f.stop()
	}
	return f.t.fail("close", tiers.Key{}, f.finish())
}

func (f *frozen) finish() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.end()
}

// end removes the snapshot.
func (f *frozen) end() error {
	if f.closed {
		return nil
	}
	f.closed = true
	err := also(removeSnapshot(f.root, f.id), nilIf(f.root.RemoveAll(f.hidden()), fs.ErrNotExist))
	if f.owner != nil {
		err = also(err, f.owner.Close())
	}
	_ = f.root.RemoveAll(snapshotDir + "/.spoiled-" + f.id) // else it is swept
	_ = f.root.Remove(snapshotDir)                          // fails unless it is empty
	return also(err, f.root.Close())
}

// use lets a call in. The context that it answers ends with the view.
func (f *frozen) use(ctx context.Context) (_ context.Context, leave func(), err error) {
	f.mu.Lock()
	switch {
	case f.ctx.Err() != nil:
		err = context.Cause(f.ctx)
	case f.closed:
		err = tiers.ErrClosed
	default:
		err = f.t.enter(ctx)
	}
	if err != nil {
		f.mu.Unlock()
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(f.ctx, func() { cancel(context.Cause(f.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
		f.t.gate.leave()
		f.mu.Unlock()
	}, nil
}

// Content implements tiers.Frozen.
func (f *frozen) Content(ctx context.Context, _ ...string) (tiers.Content, error) {
	_, leave, err := f.use(ctx)
	if err != nil {
		return tiers.Content{}, f.t.fail("freeze", tiers.Key{}, err)
	}
	defer leave()
	if f.copied == nil {
		return tiers.Content{Format: f.t.copies, Size: -1, Schema: Layout, Held: f.held}, nil
	}
	return *f.copied, nil
}

// Copy implements tiers.Frozen.
func (f *frozen) Copy(ctx context.Context, w io.Writer) error {
	ctx, leave, err := f.use(ctx)
	if err != nil {
		return f.t.fail("copy", tiers.Key{}, err)
	}
	defer leave()
	return f.t.fail("copy", tiers.Key{}, f.write(ctx, w))
}

func (f *frozen) write(ctx context.Context, w io.Writer) error {
	walk := &walker{tree: f.t, from: f}
	sums, err := archive.Write(ctx, w, walk.files())
	if err != nil {
		return err
	}
	if _, err := f.root.Lstat(f.dir() + "/" + cutFile); err != nil {
		return tiers.Hint(fmt.Errorf("%w: the snapshot was given up, since a file could not be kept for it", tiers.ErrUnavailable),
			"look at the log and at the room on the disk, then try again")
	}
	content := walk.content(sums)
	content.Held = f.held
	f.copied = &content
	return nil
}

// list implements view. What is in the tree is read first: what goes after that has
// been kept before.
func (f *frozen) list(dir string) (entries, error) {
	all, err := listDir(f.root, dir)
	if err != nil {
		return nil, err
	}
	was, err := listDir(f.root, f.dir()+"/"+wasDir+"/"+dir)
	if err != nil {
		return nil, err
	}
	for name, mode := range was {
		if now, ok := all[name]; !ok || !mode.IsDir() || now.IsDir() {
			all[name] = mode
		}
	}
	if dir == "" {
		all[markFile] = 0
	}
	return all, nil
}

// open implements view. What the snapshot says counts. It is asked once more after the
// tree's own file was opened: if it still says nothing, then nobody has changed the
// name before.
func (f *frozen) open(name string) (o opening, err error) {
	if name == markFile {
		return opening{content: f.mark, at: f.cut}, nil
	}
	if o, said, err := f.kept(name); said || err != nil {
		return o, err
	}
	now, err := openFile(f.root, name)
	if err == nil {
		fi, statErr := now.file.Stat()
		if statErr != nil {
			return opening{}, also(statErr, now.file.Close())
		}
		now.edited = changedAt(fi).After(f.cut)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return opening{}, err
	}
	then, said, keptErr := f.kept(name)
	if !said && keptErr == nil {
		return now, err
	}
	if now.file != nil {
		keptErr = also(keptErr, now.file.Close())
	}
	return then, keptErr
}

// kept answers what the snapshot says of a name, if it says anything.
func (f *frozen) kept(name string) (o opening, said bool, err error) {
	if _, err := f.root.Lstat(f.dir() + "/" + noneDir + "/" + name); err == nil {
		return opening{}, true, fs.ErrNotExist
	}
	o, err = openFile(f.root, f.dir()+"/"+wasDir+"/"+name)
	if isAbsent(err) {
		return opening{}, false, nil
	}
	if err != nil {
		return opening{}, true, err
	}
	_, edited := f.root.Lstat(f.dir() + "/" + editedDir + "/" + name)
	o.edited = edited == nil
	return o, true, nil
}
