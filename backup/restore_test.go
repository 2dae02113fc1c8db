package backup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/database"
	"github.com/sagestore/sagestore/tiers/file"
)

// inPlace is how a test store is replaced.
func inPlace(dir string) RestoreOptions {
	return RestoreOptions{Dir: dir, Places: map[string]string{"database": dbPath(dir), "file": filepath.Join(dir, "data")}, Store: "store-1"}
}

// changed makes a store, a backup of it, and then changes the store. It is closed.
func changed(t *testing.T, dir string, b Bucket) (before, after map[string]string) {
	t.Helper()
	s := newStore(t, dir)
	mustCreate(t, mustRepo(t, b, options(t)), s)
	s.close(t)
	before = state(t, dir)
	s.open(t)
	s.save(t, "agent.state", "later", `"a later row"`)
	s.save(t, "agent.state", "key-00", `"changed"`)
	s.file(t, "config/settings.json", `{"theme":"light"}`)
	s.file(t, "config/new.json", `1`)
	s.close(t)
	return before, state(t, dir)
}

func TestARestoreInPlaceReplacesTheStoreAndKeepsTheOldOne(t *testing.T) {
	dir, backups := t.TempDir(), t.TempDir()
	before, after := changed(t, dir, Dir(backups))
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := inPlace(dir)
	o.Protect = []string{config}
	done, err := mustRepo(t, Dir(backups), options(t)).Restore(t.Context(), Latest, o)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, state(t, dir)); d != "" {
		t.Error(d)
	}
	if epochOf(t, dir) == "epoch-1" {
		t.Error("it has its old epoch")
	}
	if _, err := os.Stat(config); err != nil {
		t.Error(err)
	}
	kept, err := Replaced(dir)
	if err != nil || len(kept) != 1 || kept[0].Backup != done.ID || len(kept[0].Paths) != 2 {
		t.Fatalf("replaced are %+v, %v", kept, err)
	}
	if d := cmp.Diff(done.Replaced, kept[0].Paths); d != "" {
		t.Error(d)
	}
	// What was replaced is a whole store.
	old := t.TempDir()
	for _, path := range kept[0].Paths {
		name := "data"
		if strings.HasPrefix(filepath.Base(path), "sage.db") {
			name = "sage.db"
		}
		if err := os.Rename(path, filepath.Join(old, name)); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(after, state(t, old)); d != "" {
		t.Error(d)
	}
	if kept, err := Replaced(dir); err != nil || len(kept) != 1 || len(kept[0].Paths) != 0 {
		t.Errorf("what is not there any more is still listed: %+v, %v", kept, err)
	}
	assertNothingStaged(t, dir)
}

func assertNothingStaged(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), stagedEnding) || e.Name() == markerName || strings.HasSuffix(e.Name(), ".new") {
			t.Errorf("%s is left", e.Name())
		}
	}
}

func TestALeftoverLogNeverMeetsTheRestoredDatabase(t *testing.T) {
	dir, backups := t.TempDir(), t.TempDir()
	before, _ := changed(t, dir, Dir(backups))
	// A process that was killed leaves its log, with rows that are in no file yet.
	db, err := database.Open(t.Context(), database.Config{Path: dbPath(dir)})
	if err != nil {
		t.Fatal(err)
	}
	k := tiers.Key{Category: "agent.state", Name: "from the log"}
	if _, err := db.Save(t.Context(), tiers.Record{Key: k, Codec: "json", Schema: 1, Value: []byte(`1`)}, tiers.Cond{}); err != nil {
		t.Fatal(err)
	}
	crashed := t.TempDir()
	for _, ending := range []string{"", "-wal"} {
		b, err := os.ReadFile(dbPath(dir) + ending)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dbPath(crashed)+ending, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := inPlace(crashed)
	done, err := mustRepo(t, Dir(backups), options(t)).Restore(t.Context(), Latest, o)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, state(t, crashed)); d != "" {
		t.Error(d)
	}
	if len(done.Replaced) != 2 || !strings.HasSuffix(done.Replaced[0], "-wal") {
		t.Errorf("replaced are %v, want the log and the database", done.Replaced)
	}
	// The old one keeps its log.
	old, err := database.Open(t.Context(), database.Config{Path: done.Replaced[1]})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Close(t.Context()) }()
	if _, err := old.Load(t.Context(), k); err != nil {
		t.Error(err)
	}
}

func TestARestoreThatMayNotBeIsRefusedAndChangesNothing(t *testing.T) {
	dir := t.TempDir()
	backups := filepath.Join(t.TempDir(), "backups")
	_, after := changed(t, dir, Dir(backups))
	occupied := t.TempDir()
	if err := os.WriteFile(filepath.Join(occupied, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		why  string
		set  func(o *RestoreOptions)
		want error
	}{
		{"it is of another store", func(o *RestoreOptions) { o.Store = "store-2" }, tiers.ErrConflict},
		{"a part has no place", func(o *RestoreOptions) { delete(o.Places, "file") }, nil},
		{"the data directory would be moved", func(o *RestoreOptions) { o.Places["file"] = dir }, tiers.ErrUnsupported},
		{"one place is inside of another", func(o *RestoreOptions) { o.Places["database"] = filepath.Join(dir, "data", "sage.db") }, tiers.ErrUnsupported},
		{"the configuration would be moved", func(o *RestoreOptions) { o.Protect = []string{filepath.Join(dir, "data", "config.yaml")} }, tiers.ErrUnsupported},
		{"the backups would be moved", func(o *RestoreOptions) { o.Places["file"] = filepath.Dir(backups) }, tiers.ErrUnsupported},
		{"nothing is named", func(o *RestoreOptions) { *o = RestoreOptions{} }, nil},
		{"the directory is not empty", func(o *RestoreOptions) { o.To = occupied }, tiers.ErrExists},
		{"there is no such part", func(o *RestoreOptions) { o.Parts = []string{"cache"} }, tiers.ErrNotFound},
	} {
		t.Run(c.why, func(t *testing.T) {
			o := inPlace(dir)
			c.set(&o)
			_, err := mustRepo(t, Dir(backups), options(t)).Restore(t.Context(), Latest, o)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if d := cmp.Diff(after, state(t, dir)); d != "" {
				t.Error(d)
			}
		})
	}
	t.Run("the store is open", func(t *testing.T) {
		db, err := database.Open(t.Context(), database.Config{Path: dbPath(dir)})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close(t.Context()) }()
		_, err = mustRepo(t, Dir(backups), options(t)).Restore(t.Context(), Latest, inPlace(dir))
		if !errors.Is(err, tiers.ErrUnavailable) || !strings.Contains(err.Error(), "has it open") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the tree is open", func(t *testing.T) {
		tree, err := file.Open(t.Context(), file.Config{BasePath: treePath(dir)})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tree.Close(t.Context()) }()
		_, err = mustRepo(t, Dir(backups), options(t)).Restore(t.Context(), Latest, inPlace(dir))
		if !errors.Is(err, tiers.ErrUnavailable) || !strings.Contains(err.Error(), "open") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("another restore is under way", func(t *testing.T) {
		unlock, err := lockRestores(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unlock() }()
		_, err = mustRepo(t, Dir(backups), options(t)).Restore(t.Context(), Latest, inPlace(dir))
		if !errors.Is(err, tiers.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	})
	assertNothingStaged(t, dir)
	if d := cmp.Diff(after, state(t, dir)); d != "" {
		t.Error(d)
	}
}

func TestOnePartAloneIsRestored(t *testing.T) {
	dir, backups := t.TempDir(), t.TempDir()
	before, after := changed(t, dir, Dir(backups))
	o := inPlace(dir)
	o.Parts = []string{"file"}
	if _, err := mustRepo(t, Dir(backups), options(t)).Restore(t.Context(), Latest, o); err != nil {
		t.Fatal(err)
	}
	for k, v := range state(t, dir) {
		want := after[k]
		if strings.HasPrefix(k, "/") {
			want = before[k]
		}
		if v != want {
			t.Errorf("%s is %s, want %s", k, v, want)
		}
	}
}

func TestRecordsAreReadOutOfABackup(t *testing.T) {
	s := newStore(t, t.TempDir())
	r := mustRepo(t, newBucket(), options(t))
	m := mustCreate(t, r, s)
	c, err := r.OpenCopy(t.Context(), m.ID, "database")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for rec, err := range c.Records(t.Context(), tiers.Space{Category: "agent.state"}) {
		if err != nil || rec.Codec != "json" {
			t.Fatal(rec, err)
		}
		n++
	}
	if err := c.Close(); err != nil || n != 20 {
		t.Errorf("%d records, %v", n, err)
	}
	if left, err := os.ReadDir(r.o.Temp); err != nil || len(left) > 0 {
		t.Errorf("in the temporary place are %v, %v", left, err)
	}
	if c, err = r.OpenCopy(t.Context(), m.ID, "file"); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for rec, err := range c.Records(t.Context(), tiers.Space{Category: "notes"}) {
		if err != nil {
			t.Fatal(rec, err)
		}
		got[rec.Name] = rec.Codec + " " + string(rec.Value)
	}
	if d := cmp.Diff(map[string]string{"2026/trip": `json "Rome"`, "saved": "raw bytes"}, got); d != "" {
		t.Error(d)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.OpenCopy(t.Context(), m.ID, "cache"); !errors.Is(err, tiers.ErrNotFound) {
		t.Errorf("a store that it does not have: %v", err)
	}
}

// TestFilesThatAreNoStoreAreAPartToo: they have no records, and nothing reads them.
func TestFilesThatAreNoStoreAreAPartToo(t *testing.T) {
	s := newStore(t, t.TempDir())
	s.file(t, "more/A.txt", "text")
	source := s.source(t)
	files, err := Tree(filepath.Join(s.dir, "data", "more"), nil)
	if err != nil {
		t.Fatal(err)
	}
	source.Parts = append(source.Parts, Part{Name: "files", Path: "files", Frozen: files})
	r := mustRepo(t, newBucket(), options(t))
	m, _, err := r.Create(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(t.Context(), m.ID, true); err != nil {
		t.Error(err)
	}
	to := filepath.Join(t.TempDir(), "to")
	if _, err := r.Restore(t.Context(), m.ID, RestoreOptions{To: to}); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(to, "files", "A.txt")); err != nil || string(b) != "text" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := r.OpenCopy(t.Context(), m.ID, "files"); !errors.Is(err, tiers.ErrNotFound) {
		t.Errorf("opened as a store: %v", err)
	}
}

// TestADamagedFileIsBackedUpAsItIsAndTold: one broken edit must not end all backups.
func TestADamagedFileIsBackedUpAsItIsAndTold(t *testing.T) {
	recipient, identity := newIdentity(t)
	for _, recipients := range [][]string{nil, {recipient}} {
		s := newStore(t, t.TempDir())
		s.file(t, "config/broken.json", `{"theme":`)
		if err := os.Symlink("broken.json", filepath.Join(treePath(s.dir), "config", "link.json")); err != nil {
			t.Fatal(err)
		}
		o := options(t)
		o.Recipients, o.Identities = recipients, []string{identity}
		r := mustRepo(t, newBucket(), o)
		m, report, err := r.Create(t.Context(), s.source(t))
		if err != nil {
			t.Fatal(err)
		}
		var broken, left []string
		if recipients == nil { // else it would tell of keys
			broken, left = []string{"config/broken.json"}, []string{"config/link.json"}
		}
		p := m.Parts[1]
		if d := cmp.Diff([]*Noted{{Files: 1, Names: broken}, {Files: 1, Names: left}, nil}, []*Noted{p.Damaged, p.LeftOut, p.Edited}); d != "" {
			t.Error(d)
		}
		if len(report.Warnings) != 2 {
			t.Errorf("the report says %q", report.Warnings)
		}
		to := filepath.Join(t.TempDir(), "to")
		if _, err := r.Restore(t.Context(), m.ID, RestoreOptions{To: to}); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(treePath(to), "config", "broken.json")); err != nil || string(b) != `{"theme":` {
			t.Errorf("%q, %v", b, err)
		}
	}
}
