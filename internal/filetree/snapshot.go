package filetree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// A snapshot is a directory of its own, made while all stripe locks are held:
//
//	BASE/.snapshot/ID/owner          locked (flock) by who copies
//	BASE/.snapshot/ID/cut            has the time of the instant
//	BASE/.snapshot/ID/was/PATH       a file as it was at the instant, which has changed since
//	BASE/.snapshot/ID/none/PATH      there was no such file at the instant
//	BASE/.snapshot/ID/edited/PATH    what is in was had been edited by hand by then
//
// Whoever is about to change a name puts it there first, under the key's lock. So
// the tree with what is in was instead, and without what is in none, is the tree of
// the instant. A name that begins with a dot is that of a directory which is not a
// snapshot yet, or not any more.
const (
	snapshotDir = ".snapshot"
	freezeLock  = lockDir + "/freeze" // held by who makes or sweeps snapshots
	ownerFile   = "owner"
	cutFile     = "cut"
	wasDir      = "was"
	noneDir     = "none"
	editedDir   = "edited"

	lateWriters = 1000 // more than can have a directory open that is being removed
)

// snapshots answers the directories of the snapshots, below the tree. Without any,
// which is nearly always, it costs one look for a name.
func (t *Tree) snapshots() ([]string, error) {
	if _, err := t.top.stat(snapshotDir); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	names, err := readNames(t.root, snapshotDir)
	return slices.DeleteFunc(names, func(name string) bool { return name[0] == '.' }), err
}

// readNames answers the names in a directory; one that is not there has none.
func readNames(root *os.Root, dir string) ([]string, error) {
	f, err := openDirectory(root, dir)
	if isAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	if isAbsent(err) {
		err = nil
	}
	return names, also(err, f.Close())
}

// aside keeps for all snapshots what has these names now. It is called before a name
// changes, with the lock of its key held.
func (d *Dir) aside(names ...string) error {
	ids, err := d.tree.snapshots()
	if err != nil || len(ids) == 0 {
		return err
	}
	for _, name := range names {
		at := path.Join(d.path, name)
		fi, err := d.tree.root.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			fi, err = nil, nil
		}
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := d.tree.asideFor(id, at, fi); err != nil {
				d.tree.giveUp(id, err)
			}
		}
	}
	return nil
}

// asideFor keeps a file for one snapshot, unless that was done before. fi is nil when
// there is no such file.
func (t *Tree) asideFor(id, name string, fi fs.FileInfo) error {
	s := snapshotDir + "/" + id + "/"
	for _, kind := range []string{wasDir, noneDir} {
		if _, err := t.root.Lstat(s + kind + "/" + name); err == nil || !isAbsent(err) {
			return err
		}
	}
	if fi == nil {
		return t.note(s+noneDir, name)
	}
	cut, err := t.root.Lstat(s + cutFile)
	if err != nil {
		return err
	}
	if changedAt(fi).After(changedAt(cut)) {
		if err := t.note(s+editedDir, name); err != nil {
			return err
		}
	}
	err = t.linkTo(s+wasDir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return t.note(s+noneDir, name) // a person removed it just now
	}
	return err
}

// note makes an empty file of that path below a directory of a snapshot.
func (t *Tree) note(dir, name string) error {
	if err := t.wayTo(dir, name); err != nil {
		return err
	}
	f, err := t.root.OpenFile(dir+"/"+name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// linkTo gives a file a second name below a directory of a snapshot. Where the file
// system has no links, or does not allow this one, it is copied.
func (t *Tree) linkTo(dir, name string) error {
	if err := t.wayTo(dir, name); err != nil {
		return err
	}
	err := t.root.Link(name, dir+"/"+name)
	if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return nilIf(err, fs.ErrExist)
	}
	from, err := t.openDir(parentOf(name))
	if err != nil {
		return err
	}
	defer func() { _ = from.close() }() // was only read
	content, as, err := from.Read(path.Base(name), -1)
	if err != nil {
		return err
	}
	to, err := t.openDir(path.Dir(dir + "/" + name))
	if err != nil {
		return err
	}
	defer func() { _ = to.close() }()
	temp := to.tempName()
	f, err := to.create(temp, content, as.ModTime)
	if err != nil {
		return err
	}
	if err := f.close(); err != nil {
		return also(err, to.remove(temp))
	}
	return to.rename(temp, path.Base(name))
}

func nilIf(err, target error) error {
	if errors.Is(err, target) {
		return nil
	}
	return err
}

// wayTo makes the directories of a name, and not the one that they are in: that one
// is gone with its snapshot.
func (t *Tree) wayTo(dir, name string) error {
	for i, c := range name {
		if c != '/' {
			continue
		}
		if err := t.root.Mkdir(dir+"/"+name[:i], 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// giveUp ends a snapshot for which something could not be kept. A save must not fail
// for the sake of a copy; who copies finds that the snapshot is gone.
func (t *Tree) giveUp(id string, cause error) {
	err := t.root.Rename(snapshotDir+"/"+id, snapshotDir+"/.spoiled-"+id)
	if errors.Is(err, fs.ErrNotExist) {
		return // it had ended already, which may be the cause
	}
	if system, ok := errors.AsType[syscall.Errno](cause); ok {
		cause = system // without the path, which is a key
	}
	t.log.Warn("a file could not be kept for a snapshot, which was given up", "tier", t.name, "error", cause)
}

// sweepSnapshots removes those whose owner is gone. It does nothing while somebody
// makes one.
func (t *Tree) sweepSnapshots() error {
	if _, err := t.top.stat(snapshotDir); err != nil {
		return nilIf(err, fs.ErrNotExist)
	}
	l, err := openLock(t.root, freezeLock)
	if err != nil {
		return err
	}
	ok, err := tryLock(l)
	if ok {
		err = t.sweepAbandoned()
	}
	return also(err, l.Close())
}

// sweepAbandoned does it with the lock held.
func (t *Tree) sweepAbandoned() error {
	names, err := readNames(t.root, snapshotDir)
	for _, name := range names {
		err = also(err, t.sweepSnapshot(name))
	}
	_ = t.root.Remove(snapshotDir) // fails unless it is empty
	return err
}

func (t *Tree) sweepSnapshot(name string) error {
	owner, err := t.root.OpenFile(snapshotDir+"/"+name+"/"+ownerFile, os.O_RDWR, 0)
	if err == nil {
		dead, err := tryLock(owner)
		if !dead || err != nil {
			return also(err, owner.Close())
		}
		defer func() { _ = owner.Close() }() // its lock goes with it
	} else if !isAbsent(err) {
		return err
	}
	return removeSnapshot(t.root, name)
}

// removeSnapshot takes its name from a snapshot first, so that nobody finds it any more.
// Whoever had opened a directory of it by then still puts one name there, so that the
// directory may not be empty when it was emptied.
func removeSnapshot(root *os.Root, name string) error {
	from := snapshotDir + "/" + name
	if name[0] != '.' {
		gone := snapshotDir + "/.gone-" + name
		if err := root.Rename(from, gone); err != nil {
			return nilIf(err, fs.ErrNotExist)
		}
		from = gone
	}
	err := root.RemoveAll(from)
	for try := 0; errors.Is(err, fs.ErrExist) && try < lateWriters; try++ { // it is not empty
		err = root.RemoveAll(from)
	}
	return err
}

// all takes the locks of all stripes, at the same time, so that it takes as long as
// the slowest of the changes that are under way. since is when the first was had.
func (s *stripes) all(ctx context.Context, now func() time.Time) (release func(), since time.Time, err error) {
	var mu sync.Mutex
	var held []func()
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for i := range s.slots {
		wg.Go(func() {
			free, err := s.acquire(ctx, i)
			if err != nil {
				cancel(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if len(held) == 0 {
				since = now()
			}
			held = append(held, free)
		})
	}
	wg.Wait()
	release = func() {
		for _, free := range held {
			free()
		}
	}
	if len(held) < len(s.slots) {
		release()
		return nil, time.Time{}, context.Cause(ctx)
	}
	return release, since, nil
}

// newSnapshotID answers a name for a snapshot.
func newSnapshotID() string { return fmt.Sprintf("%016x", rand.Uint64()) } //nolint:gosec // it only has to differ

// visible tells a file that counts from one that is being written.
func visible(name string) bool {
	return !strings.HasPrefix(name, tempPrefix) && !strings.HasPrefix(name, probePrefix)
}

var _ tiers.Freezer = (*Tree)(nil)
