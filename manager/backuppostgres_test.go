package manager_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	every "github.com/sagestore/sagestore/tiers/all"
)

func (e engines) backups(t testing.TB, driver string) *manager.Backups {
	t.Helper()
	b := value[*manager.Backups](t)(manager.OpenBackups(t.Context(), e.config(driver), every.Tiers()))
	t.Cleanup(func() { must(t, b.Close()) })
	return b
}

// backedUp is a store on PostgreSQL with a backup, that has changed since.
func (e engines) backedUp(t testing.TB) (made backup.Manifest, want holdings) {
	t.Helper()
	e.fill(t, "postgres")
	m := e.open(t, "postgres")
	made = value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	closeNow(t, m)
	want = e.holdings(t, "postgres")
	e.change(t)
	return made, want
}

// change makes the store another one than its backup.
func (e engines) change(t testing.TB) {
	t.Helper()
	m := e.open(t, "postgres")
	defer closeNow(t, m)
	must(t, m.Save(t.Context(), movedCategory, "again", "since"))
	must(t, m.Save(t.Context(), movedCategory, "since", "since"))
	must(t, m.Save(t.Context(), "app.file", "in-a-file", "since"))
	must(t, m.Save(t.Context(), "app.file", "since", "since"))
	value[tiers.Session](t)(m.StartRawSession(t.Context(), "", "since"))
}

// equalRestored compares a store with what a backup of it had: only the epoch is another.
func equalRestored(t testing.TB, got, want holdings, why string) {
	t.Helper()
	if got.Facts["epoch"] == want.Facts["epoch"] || got.Facts["epoch"] == "" {
		t.Errorf("%s: the epoch is %q, and was %q", why, got.Facts["epoch"], want.Facts["epoch"])
	}
	got.Facts["epoch"] = want.Facts["epoch"]
	equalHoldings(t, got, want, why)
}

func (e engines) filesAreBack(t testing.TB) {
	t.Helper()
	m := e.open(t, "postgres")
	defer closeNow(t, m)
	if got := value[string](t)(manager.For[string](m, "app.file").Load(t.Context(), "in-a-file")); got != "stays" {
		t.Errorf("the file is %q", got)
	}
	if ok := value[bool](t)(m.Exists(t.Context(), "app.file", "since")); ok {
		t.Error("the files are not those of the backup")
	}
}

func TestBackupHoldsADatabaseOnPostgres(t *testing.T) {
	t.Parallel()
	e := newEngines(t)
	made, want := e.backedUp(t)
	i := 0
	for made.Parts[i].Name != "database" {
		i++
	}
	p := made.Parts[i]
	n := int64(0)
	for _, c := range p.Records {
		n += c.Records
	}
	if p.Format != tiers.FormatPostgres || n != int64(len(want.Records)) || p.Rows["sessions"] != int64(len(want.Sessions)) || made.Epoch != want.Facts["epoch"] || made.Held <= 0 {
		t.Errorf("the part is %+v of %+v", p, made)
	}
	b := e.backups(t, "postgres")
	report := value[backup.Report](t)(b.Repo().Verify(t.Context(), backup.Latest, true))
	if !report.Rehearsed || report.Decoded < n {
		t.Errorf("%+v", report)
	}

	_, err := b.Restore(t.Context(), backup.Latest, manager.RestoreOptions{})
	wantError(t, err, tiers.ErrUnsupported, "nobody can tell who uses the server")
	done := value[manager.RestoredStore](t)(b.Restore(t.Context(), backup.Latest, manager.RestoreOptions{Stopped: true}))
	equalRestored(t, e.holdings(t, "postgres"), want, "restored")
	e.filesAreBack(t)
	var kept string
	for _, place := range done.Replaced {
		if s, ok := strings.CutPrefix(place, "schema "); ok {
			kept = s
		}
	}
	old := e
	old.schema = kept
	if h := old.holdings(t, "postgres"); len(h.Records) != len(want.Records)+1 {
		t.Errorf("what was replaced has %d records", len(h.Records))
	}
	if !strings.HasSuffix(done.Places["database"], e.schema) {
		t.Errorf("the places are %v", done.Places)
	}
}

func TestInterruptedRestoreToPostgresIsFinishedByWhoOpensTheStore(t *testing.T) {
	t.Parallel()
	e := newEngines(t)
	_, want := e.backedUp(t)
	b := e.backups(t, "postgres")
	value[manager.RestoredStore](t)(b.Restore(t.Context(), backup.Latest, manager.RestoreOptions{To: filepath.Join(e.dir, "to")}))
	place := filepath.Join(e.dir, "restoring.postgres")
	must(t, os.Rename(filepath.Join(e.dir, "to", "sage.postgres"), place))
	_, err := manager.Open(t.Context(), e.config("sqlite"), every.Tiers())
	if !errors.Is(err, tiers.ErrUnavailable) || !contains(err, "a restore to PostgreSQL is not over") {
		t.Errorf("another engine was opened: %v", err)
	}
	closeNow(t, e.open(t, "postgres"))
	equalRestored(t, e.holdings(t, "postgres"), want, "after it was opened")
	if _, err := os.Stat(place); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it would be loaded again: %v", err)
	}
}

func TestCategoryComesBackFromABackupOfPostgres(t *testing.T) {
	t.Parallel()
	e := newEngines(t)
	e.backedUp(t)
	m := e.open(t, "postgres")
	defer closeNow(t, m)
	b := e.backups(t, "postgres")
	done := value[[]manager.CategoryRestored](t)(b.RestoreCategories(t.Context(), m, backup.Latest, []string{movedCategory}, manager.RestoreOptions{}))
	if len(done) != 1 || done[0].Records < 20 {
		t.Errorf("%+v", done)
	}
	for _, r := range value[[]tiers.Record](t)(m.RawRecords(t.Context(), "database", movedCategory)) {
		if r.Name == "again" && string(r.Value) != `"second"` {
			t.Errorf("it is %s", r.Value)
		}
	}
	if ok := value[bool](t)(m.Exists(t.Context(), movedCategory, "since")); ok {
		t.Error("what was saved since is still there")
	}
}

func TestBackupOfAnotherEngineIsRefused(t *testing.T) {
	t.Parallel()
	e := newEngines(t)
	e.fill(t, "sqlite")
	m := e.open(t, "sqlite")
	made := value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	closeNow(t, m)
	want := e.holdings(t, "sqlite")
	_, err := e.backups(t, "postgres").Restore(t.Context(), made.ID, manager.RestoreOptions{Stopped: true, Adopt: true})
	wantError(t, err, tiers.ErrUnsupported, "a file of SQLite is no store of PostgreSQL")
	if !contains(err, "sagestore migrate") {
		t.Errorf("%v names no way", err)
	}
	equalHoldings(t, e.holdings(t, "sqlite"), want, "afterwards")
}

// Two machines have no lock file in common.
func TestOneBackupAtATimeOfAServerThatMachinesShare(t *testing.T) {
	t.Parallel()
	e := newEngines(t)
	e.fill(t, "postgres")
	m := e.open(t, "postgres")
	defer closeNow(t, m)
	far := e
	far.dir = t.TempDir()
	other := far.open(t, "postgres")
	defer closeNow(t, other)
	var once sync.Once
	value[backup.Manifest](t)(m.Backup(t.Context(), nil, manager.BackupProgress(func(backup.Progress) {
		once.Do(func() {
			_, err := other.Backup(t.Context(), nil)
			wantError(t, err, tiers.ErrConflict, "a backup meanwhile")
			if !contains(err, "on another machine") {
				t.Errorf("the error does not say where to look: %v", err)
			}
		})
	})))
	once.Do(func() { t.Error("there was no meanwhile") })
	value[backup.Manifest](t)(other.Backup(t.Context(), nil))
}

// The instant of a backup has a transaction whole, also the part that waited for the files.
func TestAFileThatWaitedComesBackFromABackupOfPostgres(t *testing.T) {
	t.Parallel()
	ctx, e := t.Context(), newEngines(t)
	m := e.open(t, "postgres")
	id := value[[]byte](t)(os.ReadFile(filepath.Join(e.dir, "data", ".sage-id")))
	raw := e.raw(t, "postgres")
	system, _ := tiers.As[tiers.System](raw)
	unlock, ok, err := system.Lock(ctx, "file@"+strings.TrimSpace(string(id))+".applier") // so that nobody applies rows
	if !ok || err != nil {
		t.Fatalf("%v, %v", ok, err)
	}
	must(t, m.Update(ctx, func(tx *manager.Tx) error {
		return errors.Join(tx.Save(ctx, movedCategory, "k", "new"), tx.Save(ctx, "app.file", "k", "new"))
	}))
	value[backup.Manifest](t)(m.Backup(ctx, nil))
	closeNow(t, m)
	unlock()
	must(t, raw.Close(ctx))
	value[manager.RestoredStore](t)(e.backups(t, "postgres").Restore(ctx, backup.Latest, manager.RestoreOptions{Stopped: true}))
	m = e.open(t, "postgres")
	defer closeNow(t, m)
	value[map[string]int64](t)(m.ApplyPending(ctx, "file", true))
	for _, category := range []string{movedCategory, "app.file"} {
		if got := value[string](t)(manager.For[string](m, category).Load(ctx, "k")); got != "new" {
			t.Errorf("%s has %q", category, got)
		}
	}
}

// Nobody sweeps what another machine is about to restore.
func TestOneRestoreAtATimeOfAServerThatMachinesShare(t *testing.T) {
	t.Parallel()
	ctx, e := t.Context(), newEngines(t)
	e.backedUp(t)
	m := e.open(t, "postgres")
	defer closeNow(t, m)
	far := e
	far.dir = t.TempDir()
	other := far.open(t, "postgres")
	defer closeNow(t, other)
	met := false
	done := value[[]manager.CategoryRestored](t)(e.backups(t, "postgres").RestoreCategories(ctx, m, backup.Latest, []string{movedCategory}, manager.RestoreOptions{
		Progress: func(p backup.Progress) {
			if p.Step == "switch" {
				met = true
				must(t, other.SweepStaged(ctx))
			}
		},
	}))
	if !met || len(done) != 1 || done[0].Records < 20 {
		t.Errorf("%+v", done)
	}
	must(t, other.SweepStaged(ctx))
}
