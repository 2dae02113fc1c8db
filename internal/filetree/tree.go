// Package filetree keeps records as files below a directory: what the file tier
// and the local cache share. It knows where a key lives, who may change it, in
// which order versions are issued, and how a change becomes visible at once and
// durable; a [Form] knows what is in the files.
//
//	BASE/[@NAMESPACE/]CATEGORY/KEY.ENDING
//	BASE/.lock/NN, NN.turn    the locks of 64 stripes of keys, and their turnstiles
//	BASE/.lock/open           shared by all who have the tree open
//	BASE/.mark                the highest version issued
//	BASE/.snapshot/ID         what has changed since a copy began, see [Tree.Freeze]
//	BASE/.../.tmp-NN-ID-N     a file being written under the lock of stripe NN
//
// A [Tree] implements tiers.Tier and every capability that a directory can
// honestly offer. Several processes of a host may have one open at once.
package filetree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/sagestore/sagestore/internal/home"
	"github.com/sagestore/sagestore/tiers"
)

// Config says what to open. Dir and Form are needed.
type Config struct {
	Dir     string // made when it is not there; "~" is the home directory
	Name    string // of the tier, for errors
	Driver  string // for Describe
	Log     *slog.Logger
	Clock   tiers.Clock
	Durable bool // fsync everything before it is acknowledged
	Form    Form
	Disk    func(path string) (Disk, error) // for Diagnose; nil asks the system
	Largest int64                           // bytes that a value may have; 0: MaxValue
	Copies  string                          // format of its copies; empty: tiers.FormatTar
}

// MaxValue is how many bytes a value may have, and around how many a file may
// have beside them. So what a file claims to hold never exhausts the memory.
const (
	MaxValue = 512 << 20
	around   = 64 << 10
)

// Tree is an open directory of records. It is safe for concurrent use.
type Tree struct {
	name, driver string
	base         string // absolute
	log          *slog.Logger
	clock        tiers.Clock
	durable      bool
	largest      int64
	form         Form
	copies       string
	disk         func(path string) (Disk, error)

	root    *os.Root
	top     *handle
	gate    *gate
	stripes *stripes
	mark    *mark
	syncs   *dirSyncs
	rooted  rooted
	present *os.File // locked; nil when that is not possible
	id      uint64   // of this handle, in the names of its temp files
	temps   atomic.Uint64
	kept    atomic.Int64 // edits that slipped in and were kept
	exact   atomic.Bool  // the file system was seen to keep microseconds
	broken  atomic.Pointer[error]
	counted counters

	closing sync.Once
	closed  error
}

// counters are what Stats answers since the tree was opened.
type counters struct{ hits, misses, errors, expired atomic.Int64 }

// Open opens the tree and makes its directory when it is not there. But for a lock,
// where that can be had, nothing else is written before the first change, so a tree on
// a read-only file system can be read.
func Open(ctx context.Context, c Config) (*Tree, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	base, err := expand(c.Dir)
	if err != nil {
		return nil, err
	}
	if err := makeBase(base, c.Durable); err != nil {
		return nil, explain(err)
	}
	t, err := openAt(base, c)
	if err != nil {
		return nil, err
	}
	if t.present, err = attend(ctx, t.root, base); err != nil {
		return nil, also(explain(err), t.Close(context.WithoutCancel(ctx)))
	}
	_ = t.sweepSnapshots() // else later
	return t, nil
}

// openAt opens a directory that is there, and changes nothing.
func openAt(base string, c Config) (*Tree, error) {
	root, err := os.OpenRoot(base)
	if err != nil {
		return nil, explain(err)
	}
	t := &Tree{
		name: c.Name, driver: c.Driver, base: base, log: c.Log, clock: c.Clock, durable: c.Durable, form: c.Form,
		root: root, gate: newGate(), id: rand.Uint64(), //nolint:gosec // it only has to differ
	}
	if t.copies = c.Copies; t.copies == "" {
		t.copies = tiers.FormatTar
	}
	if t.largest = c.Largest; t.largest == 0 {
		t.largest = MaxValue
	}
	if t.disk = c.Disk; t.disk == nil {
		t.disk = diskOf
	}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	if t.clock == nil {
		t.clock = tiers.SystemClock()
	}
	if t.top, err = rootHandle(root, "."); err != nil {
		return nil, errors.Join(explain(err), root.Close())
	}
	t.exact.Store(!c.Durable) // then no version is a file's time
	t.form.Attach(root)
	t.stripes = newStripes(root)
	t.mark = &mark{root: root, clock: t.clock, boot: bootID()}
	if c.Durable {
		t.mark.synced = t.broke
	}
	t.syncs = &dirSyncs{root: root, top: t.top, dirs: map[string]*dirSync{}}
	return t, nil
}

// expand answers the absolute path, with "~" replaced.
func expand(dir string) (string, error) {
	if dir == "" {
		return "", tiers.Hint(fmt.Errorf("%w: no directory is named", tiers.ErrUnsupported), "set its path")
	}
	dir, err := home.Expand(dir)
	if err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}

// makeBase makes the directory and its parents; in a durable tree their entries
// are durable too.
func makeBase(base string, durable bool) error {
	var missing []string
	for dir := base; ; dir = filepath.Dir(dir) {
		_, err := os.Stat(dir)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			break
		}
		missing = append(missing, dir)
	}
	if err := os.MkdirAll(base, 0o700); err != nil {
		return err
	}
	for _, dir := range missing {
		if !durable {
			break
		}
		if err := syncPath(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// syncPath makes the entries of a directory durable.
func syncPath(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(SyncRoot(root), root.Close())
}

// SyncRoot makes the entries of an open directory durable.
func SyncRoot(root *os.Root) error {
	h, err := rootHandle(root, ".")
	if err != nil {
		return err
	}
	return errors.Join(h.sync(), h.close())
}

// Close refuses new calls, waits for those that are in, and lets go of the
// directory. Everything acknowledged is durable already. When the context ends
// the waiting, a later Close goes on with it.
func (t *Tree) Close(ctx context.Context) error {
	if err := t.gate.shut(ctx); err != nil {
		return tiers.Hint(&tiers.Error{Op: "close", Tier: t.name, Err: err}, "calls are still under way; close again")
	}
	t.syncs.work.Wait()
	first := false
	t.closing.Do(func() {
		first = true
		t.closed = errors.Join(t.stripes.close(), t.mark.close(), t.top.close(), t.root.Close())
		if t.present != nil {
			t.closed = also(t.closed, t.present.Close())
		}
	})
	if !first {
		return nil
	}
	return t.closed
}

// Describe answers what the tree is.
func (t *Tree) Describe() tiers.Info {
	return tiers.Info{Driver: t.driver, Place: t.base, Scope: tiers.ScopeHost, Durable: true, MaxValue: t.largest}
}

func (t *Tree) join(dir, name string) string {
	return filepath.Join(t.base, filepath.FromSlash(dir), name)
}

// enter lets a call in; every call that got in leaves through the gate.
func (t *Tree) enter(ctx context.Context) error {
	if !t.gate.enter() {
		return tiers.ErrClosed
	}
	if ctx.Err() != nil {
		t.gate.leave()
		return context.Cause(ctx)
	}
	return nil
}

// writable answers an error once an fsync has failed: what the system still
// holds in memory may never reach the disk, and a later fsync would not say so.
func (t *Tree) writable() error {
	if err := t.broken.Load(); err != nil {
		return tiers.Hint(fmt.Errorf("%w: an earlier fsync failed: %w", tiers.ErrUnavailable, *err), reopen)
	}
	return nil
}

const reopen = "look at the disk, then close the store and open it again"

// fsynced passes on what an fsync of a new file said, which nobody can see yet.
// A failure ends all writing through this handle, but for one that only says
// that there is no room.
func (t *Tree) fsynced(err error) error {
	if isFull(err) {
		return err
	}
	return t.broke(err)
}

// broke does the same for what is seen already: there any failure counts.
func (t *Tree) broke(err error) error {
	if err == nil {
		return nil
	}
	t.broken.CompareAndSwap(nil, &err)
	return tiers.Hint(fmt.Errorf("fsync failed: %w", err), reopen)
}

// rooted remembers the directories that are known to survive a power cut.
type rooted struct {
	mu   sync.Mutex
	dirs map[string]Ident
}

// rootedMost bounds what is remembered; forgetting costs one fsync.
const rootedMost = 4096

func (r *rooted) has(dir string, self Ident) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.dirs[dir]
	return ok && known.sameFile(self)
}

func (r *rooted) add(dir string, self Ident) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dirs == nil || len(r.dirs) >= rootedMost {
		r.dirs = map[string]Ident{}
	}
	r.dirs[dir] = self
}
