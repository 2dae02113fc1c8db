package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/sagestore/sagestore/internal/conflict"
	"github.com/sagestore/sagestore/tiers"
)

// Names in the data directory.
const (
	markerName = "restore.json"  // a restore that is decided and not finished
	recordName = "restored-"     // with a token and .json: one that is
	lockName   = ".restore.lock" // held by a restore, and by who finishes one
	maxMarker  = 1 << 20
)

// marker lists the renames of a restore. Once it is there, they are made.
type marker struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"` // of the backup
	Token   string    `json:"token"`
	At      time.Time `json:"at"`
	Targets []target  `json:"targets"`
	Sum     string    `json:"sha256"`
}

// target is a store that is replaced. All names are of one directory, so that no
// rename leads elsewhere.
type target struct {
	Part     string   `json:"part"`
	Format   string   `json:"format"`
	Parent   string   `json:"parent"`
	Name     string   `json:"name"`
	Staged   string   `json:"staged"`
	Replaced []rename `json:"replaced"`
}

type rename struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// write makes the marker durable. decided tells that it may be there.
func (m *marker) write(ctx context.Context, dir string) (decided bool, err error) {
	m.Sum = ""
	b, err := canonical(m)
	if err != nil {
		return false, err
	}
	m.Sum = sumOf(b)
	if b, err = canonical(m); err != nil {
		return false, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, err
	}
	temp := markerName + ".new"
	if err := root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, errors.Join(err, root.Close())
	}
	if err := writeNew(ctx, root, temp, bytes.NewReader(b)); err != nil {
		return false, errors.Join(err, root.Close())
	}
	if err := root.Rename(temp, markerName); err != nil {
		return false, errors.Join(err, root.Close())
	}
	return true, errors.Join(syncIn(root, "."), root.Close())
}

var tokenForm = regexp.MustCompile(`^[0-9a-f]{16}$`)

// readMarker answers the restore that is described by a file of the directory.
func readMarker(dir, name string) (_ *marker, err error) {
	f, err := os.Open(filepath.Join(dir, name)) //nolint:gosec // in the data directory
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxMarker+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	var m marker
	err = decode(b, &m)
	if err == nil {
		bare := m
		bare.Sum = ""
		var plain []byte
		if plain, err = canonical(&bare); err == nil && m.Sum != sumOf(plain) {
			err = fmt.Errorf("%w: its checksum is wrong", tiers.ErrCorrupt)
		}
	}
	if err == nil {
		err = m.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	return &m, nil
}

// check refuses renames that no restore makes.
func (m *marker) check() error {
	plain := func(name string) bool {
		return name != "" && name == filepath.Base(name) && name != "." && name != ".."
	}
	if !tokenForm.MatchString(m.Token) {
		return fmt.Errorf("%w: its token is %.40q", tiers.ErrCorrupt, m.Token)
	}
	for _, t := range m.Targets {
		ok := filepath.IsAbs(t.Parent) && plain(t.Name) && t.Staged == t.Name+stagedEnding+m.Token
		for _, r := range t.Replaced {
			ending, beside := strings.CutPrefix(r.From, t.Name)
			ok = ok && beside && plain(r.From) && r.To == t.Name+replacedEnding+m.Token+ending
		}
		if !ok {
			return fmt.Errorf("%w: part %.40q is renamed in a way that no restore does", tiers.ErrCorrupt, t.Part)
		}
	}
	return nil
}

// replaced answers where what was there before goes.
func (m *marker) replaced() (paths []string) {
	for _, t := range m.Targets {
		for _, r := range t.Replaced {
			paths = append(paths, filepath.Join(t.Parent, r.To))
		}
	}
	return paths
}

// roll makes the renames that are not made yet and then turns the marker into a
// record. It may be called again after any interruption.
func (m *marker) roll(dir string, at func(step string) error) error {
	for _, t := range m.Targets {
		if err := t.swap(at); err != nil {
			return part(t.Part, err)
		}
	}
	if err := at("record"); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	err = root.Rename(markerName, recordName+m.Token+".json")
	if err == nil {
		err = syncIn(root, ".")
	}
	return errors.Join(err, root.Close())
}

// swap replaces a store. What is staged is renamed last: when it is not there any
// more, all is done, and what has the store's name is the new one.
func (t *target) swap(at func(step string) error) (err error) {
	root, err := os.OpenRoot(t.Parent)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if staged, err := exists(root, t.Staged); err != nil || !staged {
		return err
	}
	for _, r := range t.Replaced {
		if err := at("replace " + r.From); err != nil {
			return err
		}
		from, err := exists(root, r.From)
		if err != nil {
			return err
		}
		to, err := exists(root, r.To)
		switch {
		case err != nil:
			return err
		case from && to:
			return tiers.Hint(conflict.Errorf("%s is there again, though it was moved away", filepath.Join(t.Parent, r.From)),
				"somebody opened the store without finishing the restore: move that file elsewhere, then open the store")
		case !from:
			continue
		}
		if err := root.Rename(r.From, r.To); err != nil {
			return err
		}
	}
	// A log must be gone for good before another database has its name.
	if err := syncIn(root, "."); err != nil {
		return err
	}
	if err := at("swap " + t.Name); err != nil {
		return err
	}
	if err := root.Rename(t.Staged, t.Name); err != nil {
		return err
	}
	return syncIn(root, ".")
}

func exists(root *os.Root, name string) (bool, error) {
	_, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// lockRestores lets one process at a time restore into a data directory.
func lockRestores(dir string) (unlock func() error, err error) {
	l := flock.New(filepath.Join(dir, lockName), flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err == nil && !ok {
		err = tiers.Hint(fmt.Errorf("%w: another restore into %s is under way", tiers.ErrUnavailable, dir), "wait for it to end")
	}
	if err != nil {
		return nil, err
	}
	return l.Unlock, nil
}

// resumePoll is how often [Resume] looks whether a restore that is under way has
// ended.
const resumePoll = 20 * time.Millisecond

// Resume finishes a restore that was decided in the data directory and interrupted. It
// costs one look for a file when there is none. Whoever opens a store calls it first,
// with what reads the copies of its stores, which keep others from opening them
// meanwhile. It waits for a restore that is under way, until the context ends.
func Resume(ctx context.Context, dir string, copies ...tiers.Copies) (err error) {
	defer func() { err = fail("finish restore", "", err) }()
	if dir, err = absolute(dir); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, markerName)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	l := flock.New(filepath.Join(dir, lockName), flock.SetPermissions(0o600))
	if _, err := l.TryLockContext(ctx, resumePoll); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Unlock()) }()
	return resume(ctx, dir, copies, func(string) error { return nil })
}

// resume is called with the lock.
func resume(ctx context.Context, dir string, copies []tiers.Copies, at func(string) error) (err error) {
	m, err := readMarker(dir, markerName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, t := range m.Targets {
		i := slices.IndexFunc(copies, func(c tiers.Copies) bool { return c.Format() == t.Format })
		if i < 0 {
			continue
		}
		release, failed := copies[i].Seize(ctx, filepath.Join(t.Parent, t.Name))
		if failed != nil {
			return part(t.Part, failed)
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	return m.roll(dir, at)
}

// Unfinished tells that a restore was decided in the data directory and interrupted, or is
// under way.
func Unfinished(dir string) bool {
	dir, err := absolute(dir)
	if err != nil {
		return false
	}
	_, err = os.Lstat(filepath.Join(dir, markerName))
	return err == nil
}

// Replacement is a restore that was made in place, and what it replaced.
type Replacement struct {
	Backup string // its id
	At     time.Time
	Paths  []string // what was there before and is kept
}

// Replaced lists the restores into a data directory, the newest first. Removing a path
// is for the user to do.
func Replaced(dir string) ([]Replacement, error) {
	dir, err := absolute(dir)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Replacement
	for _, e := range entries {
		token, ours := strings.CutPrefix(e.Name(), recordName)
		token, ended := strings.CutSuffix(token, ".json")
		if !ours || !ended || !tokenForm.MatchString(token) {
			continue
		}
		m, err := readMarker(dir, e.Name())
		if err != nil {
			return all, err
		}
		r := Replacement{Backup: m.ID, At: m.At}
		for _, path := range m.replaced() {
			if _, err := os.Lstat(path); err == nil {
				r.Paths = append(r.Paths, path)
			}
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Replacement) int { return b.At.Compare(a.At) })
	return all, nil
}
