package backup

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/sagestore/sagestore/tiers"
)

// RestoreOptions say where a backup is restored to: either below To, or in place.
type RestoreOptions struct {
	// To is a directory that is empty or not there. Parts go below it, by the paths
	// that the manifest names.
	To string

	// Dir is the data directory of a store that is to be replaced, where the marker
	// file is, and Places are the paths of its parts by name. Every part of the backup
	// needs a place, unless Parts leaves it out.
	Dir    string
	Places map[string]string
	// Protect are paths that no place may hold, such as the configuration.
	Protect []string

	Parts []string // only these; nil: all
	// Empty are stores in Places that the backup does not hold and that may hold what is
	// newer: the names with the formats. They are moved away as well, and begin anew.
	Empty map[string]string
	// Store is the id of the store that is replaced. A backup of another one is
	// refused, unless Adopt is set.
	Store string
	Adopt bool
	// Facts are set in restored databases. The epoch is a new one unless it is here:
	// a cache that knows the old epoch holds what is newer than the backup.
	Facts    map[string]string
	Progress func(Progress)
}

// Restored says what a restore has done.
type Restored struct {
	ID       string
	Places   map[string]string // of the parts, by name
	Replaced []string          // where what was there before has gone
	Report   Report
}

// Restore restores a backup, which may be [Latest]. It unpacks beside the place and
// verifies there, as [Repo.Verify] does, so that nothing changes before all of it is
// known to be sound; one that is damaged is noted as such, as Verify does. What replaces
// a store is swapped with it at once, even if the machine fails within, see [Resume];
// what was there before is kept beside, see [Replaced]. A store that anybody has open is
// refused with tiers.ErrUnavailable.
func (r *Repo) Restore(ctx context.Context, id string, o RestoreOptions) (done Restored, err error) {
	e, err := r.Show(ctx, id)
	if err != nil {
		return Restored{}, err
	}
	w := &restore{r: r, o: o, m: e.Manifest, token: newToken()}
	defer func() {
		r.noteDamage(ctx, e.ID, w.wrong)
		err = fail("restore backup", e.ID, hintDamaged(err))
	}()
	if e.Err != nil {
		return Restored{}, e.Err
	}
	if w.parts, err = chooseParts(&w.m, o.Parts); err != nil {
		return Restored{}, err
	}
	if o.Store != "" && w.m.Store != o.Store && !o.Adopt {
		return Restored{}, w.m.OfAnother(o.Store)
	}
	if w.wrong = r.complete(ctx, &w.m); w.wrong != nil {
		return Restored{}, w.wrong
	}
	w.v = verification{r: r, m: &w.m, ids: r.identities, report: Report{ID: e.ID, Authentic: e.Authentic}}
	if o.To != "" {
		return w.beside(ctx)
	}
	return w.inPlace(ctx)
}

func newToken() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func chooseParts(m *Manifest, names []string) ([]*PartInfo, error) {
	var parts []*PartInfo
	for i := range m.Parts {
		if len(names) == 0 || slices.Contains(names, m.Parts[i].Name) {
			parts = append(parts, &m.Parts[i])
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(parts, func(p *PartInfo) bool { return p.Name == name }) {
			return nil, fmt.Errorf("part %.40q: %w", name, tiers.ErrNotFound)
		}
	}
	return parts, nil
}

// restore is one run.
type restore struct {
	r     *Repo
	o     RestoreOptions
	m     Manifest
	parts []*PartInfo
	empty []*PartInfo // replaced by nothing
	token string
	v     verification
	wrong error // with the backup itself
}

// The endings of what a restore puts beside a place.
const (
	stagedEnding   = ".restored-" // and a token
	replacedEnding = ".replaced-"
)

// beside restores into a directory that is not in use.
func (w *restore) beside(ctx context.Context) (done Restored, err error) {
	to, err := absolute(w.o.To)
	if err != nil {
		return Restored{}, err
	}
	if err := checkEmpty(to); err != nil {
		return Restored{}, err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return Restored{}, err
	}
	unlock, err := lockRestores(filepath.Dir(to))
	if err != nil {
		return Restored{}, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := sweepStaged(to); err != nil {
		return Restored{}, err
	}
	places := map[string]string{}
	for _, p := range w.parts {
		places[p.Name] = filepath.Join(to, filepath.FromSlash(p.Path))
	}
	if err := w.r.checkRoom(w.need(places)); err != nil {
		return Restored{}, err
	}
	staged := to + stagedEnding + w.token
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(staged))
		}
	}()
	if err := os.Mkdir(staged, 0o700); err != nil {
		return Restored{}, err
	}
	done = Restored{ID: w.m.ID, Places: places}
	for _, p := range w.parts {
		into := filepath.Join(staged, filepath.FromSlash(p.Path))
		if err := os.MkdirAll(filepath.Dir(into), 0o700); err != nil {
			return Restored{}, err
		}
		if w.wrong = part(p.Name, w.stage(ctx, p, into, "")); w.wrong != nil {
			return Restored{}, w.wrong
		}
		for dir := filepath.Dir(into); len(dir) >= len(staged); dir = filepath.Dir(dir) {
			if err := syncDir(dir); err != nil {
				return Restored{}, err
			}
		}
	}
	if err := w.r.at("swap"); err != nil {
		return Restored{}, err
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Restored{}, err
	}
	if err := os.Rename(staged, to); err != nil {
		return Restored{}, err
	}
	done.Report = w.v.report
	return done, syncDir(filepath.Dir(to))
}

// stage unpacks a part, verifies it there and makes a store of it, which is to replace the
// one at place; "": none.
func (w *restore) stage(ctx context.Context, p *PartInfo, to, place string) error {
	if err := w.r.at("stage " + p.Name); err != nil {
		return err
	}
	if err := w.r.unpack(ctx, w.m.ID, p, w.r.identities, to, true, progress(w.o.Progress, "restore", p.Name, p.Plain.Bytes)); err != nil {
		return err
	}
	w.v.report.Parts++
	w.v.report.Bytes += p.Plain.Bytes
	if p.isTree() {
		if err := sameTree(ctx, p, to); err != nil {
			return err
		}
	}
	if !p.isStore() {
		w.v.report.Files += p.Rows["files"]
		return nil
	}
	if err := w.v.copy(ctx, p, to); err != nil {
		return err
	}
	copies, err := w.r.copies(p.Format)
	if err != nil {
		return err
	}
	facts := map[string]string{FactEpoch: newToken()}
	maps.Copy(facts, w.o.Facts)
	if r, ok := copies.(tiers.Replacer); ok && place != "" {
		err = r.Replace(ctx, to, place, facts)
	} else {
		err = copies.Adopt(ctx, to, facts)
	}
	if err != nil {
		return err
	}
	if p.isTree() {
		return nil // it was unpacked durably
	}
	return syncFile(to)
}

// syncFile makes a file durable that nobody has open.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0) //nolint:gosec // it was just written there
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// inPlace replaces a store.
func (w *restore) inPlace(ctx context.Context) (done Restored, err error) {
	if err := w.chooseEmpty(); err != nil {
		return Restored{}, err
	}
	dir, places, err := w.places()
	if err != nil {
		return Restored{}, err
	}
	for _, d := range append([]string{dir}, parentsOf(places)...) {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return Restored{}, err
		}
	}
	unlock, err := lockRestores(dir)
	if err != nil {
		return Restored{}, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := resume(ctx, dir, w.r.o.Copies, w.r.at); err != nil {
		return Restored{}, fmt.Errorf("finish an earlier restore: %w", err)
	}
	release, err := w.seize(ctx, places)
	defer func() { err = errors.Join(err, release()) }()
	if err != nil {
		return Restored{}, err
	}
	for _, place := range places {
		if err := sweepStaged(place); err != nil {
			return Restored{}, err
		}
	}
	if err := w.r.checkRoom(w.need(places)); err != nil {
		return Restored{}, err
	}
	m := marker{Format: formatNow, ID: w.m.ID, Token: w.token, At: tiers.Micro(w.r.o.Clock.Now())}
	decided := false
	defer func() {
		for _, t := range m.Targets {
			if err != nil && !decided {
				err = errors.Join(err, os.RemoveAll(filepath.Join(t.Parent, t.Staged)))
			}
		}
	}()
	for _, p := range w.parts {
		t, err := w.target(p, places[p.Name])
		if err != nil {
			return Restored{}, part(p.Name, err)
		}
		m.Targets = append(m.Targets, t)
		staged := filepath.Join(t.Parent, t.Staged)
		if w.wrong = part(p.Name, w.stage(ctx, p, staged, places[p.Name])); w.wrong != nil {
			return Restored{}, w.wrong
		}
		if err := syncDir(t.Parent); err != nil {
			return Restored{}, err
		}
	}
	for _, p := range w.empty {
		t, err := w.target(p, places[p.Name])
		if err != nil {
			return Restored{}, part(p.Name, err)
		}
		m.Targets = append(m.Targets, t)
		if err := os.Mkdir(filepath.Join(t.Parent, t.Staged), 0o700); err != nil {
			return Restored{}, part(p.Name, err)
		}
		if err := syncDir(t.Parent); err != nil {
			return Restored{}, err
		}
	}
	if err := w.r.at("marker"); err != nil {
		return Restored{}, err
	}
	decided, err = m.write(ctx, dir)
	if err != nil {
		return Restored{}, err
	}
	// From here on the restore happens, whatever becomes of this process.
	for _, p := range w.empty {
		delete(places, p.Name)
	}
	done = Restored{ID: w.m.ID, Places: places, Replaced: m.replaced(), Report: w.v.report}
	if err := m.roll(dir, w.r.at); err != nil {
		return done, tiers.Hint(fmt.Errorf("the restore is decided and not finished: %w", err), "mend the cause, then open the store, as `sagestore doctor` does: that finishes it")
	}
	return done, nil
}

// seize keeps everybody from opening the stores that are replaced.
func (w *restore) seize(ctx context.Context, places map[string]string) (release func() error, err error) {
	var held []func() error
	release = func() (err error) {
		for _, free := range slices.Backward(held) {
			err = errors.Join(err, free())
		}
		return err
	}
	for _, p := range slices.Concat(w.parts, w.empty) {
		if !p.isStore() {
			continue
		}
		copies, err := w.r.copies(p.Format)
		if err != nil {
			return release, part(p.Name, err)
		}
		free, err := copies.Seize(ctx, places[p.Name])
		if err != nil {
			return release, part(p.Name, err)
		}
		held = append(held, free)
	}
	return release, nil
}

// target lists what is renamed for a part.
func (w *restore) target(p *PartInfo, place string) (target, error) {
	t := target{Part: p.Name, Format: p.Format, Parent: filepath.Dir(place), Name: filepath.Base(place)}
	t.Staged = t.Name + stagedEnding + w.token
	endings := []string{""}
	if p.isStore() {
		copies, err := w.r.copies(p.Format)
		if err != nil {
			return t, err
		}
		// First what is beside the store: a log must never meet another database.
		endings = append(copies.Beside(), "")
	}
	for _, ending := range endings {
		_, err := os.Lstat(place + ending)
		switch {
		case err == nil:
			t.Replaced = append(t.Replaced, rename{From: t.Name + ending, To: t.Name + replacedEnding + w.token + ending})
		case !errors.Is(err, fs.ErrNotExist):
			return t, err
		}
	}
	return t, nil
}

// sweepStaged removes what restores that were killed have left beside a place. The
// lock is held, so none of them is under way.
func sweepStaged(place string) error {
	left := regexp.MustCompile(`^` + regexp.QuoteMeta(filepath.Base(place)+stagedEnding) + `[0-9a-f]{16}(-wal|-shm|-journal)?$`)
	dir := filepath.Dir(place)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if left.MatchString(e.Name()) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil { //nolint:gosec // a name that was listed, and matches
				return err
			}
		}
	}
	return nil
}
