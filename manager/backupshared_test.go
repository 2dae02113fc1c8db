package manager_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// sharing is the configuration of a store whose backups share a place, of which one stays.
func sharing(dir, dest string) *config.Config {
	return &config.Config{DataDir: dir, Backup: config.Backup{Dest: dest, Retention: 1}}
}

// backedUpTwice makes a store and two backups of it, and answers its directory.
func backedUpTwice(t *testing.T, dest string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	m := value[*manager.Manager](t)(manager.Open(t.Context(), sharing(dir, dest), all()))
	defer closeNow(t, m)
	must(t, m.Save(t.Context(), "agent.state", "in", dir))
	for range 2 {
		value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	}
	return dir
}

// neverBackedUp makes a store with a record.
func neverBackedUp(t *testing.T, dest string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	m := value[*manager.Manager](t)(manager.Open(t.Context(), sharing(dir, dest), all()))
	defer closeNow(t, m)
	must(t, m.Save(t.Context(), "agent.state", "in", dir))
	return dir
}

// unreadable makes a store whose database can't be opened.
func unreadable(t *testing.T, dest string) (dir string) {
	t.Helper()
	dir = neverBackedUp(t, dest)
	must(t, os.WriteFile(filepath.Join(dir, "sage.db"), []byte(strings.Repeat("no database ", 1000)), 0o600))
	return dir
}

func empty(t *testing.T, dest string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	closeNow(t, value[*manager.Manager](t)(manager.Open(t.Context(), sharing(dir, dest), all())))
	return dir
}

func nothing(t *testing.T, _ string) string {
	t.Helper()
	return t.TempDir()
}

// TestAStoreWithoutAnIDPrunesNoBackupOfAnother: those that share its place may be of
// stores with another rule.
func TestAStoreWithoutAnIDPrunesNoBackupOfAnother(t *testing.T) {
	for _, c := range []struct {
		why    string
		stores int // whose backups are in the place, two of each
		make   func(t *testing.T, dest string) string
		left   int
		others int // as the status counts them
	}{
		{"it was never backed up, and the backups are of two", 2, neverBackedUp, 4, 4},
		{"it was never backed up, and the backups are of one", 1, neverBackedUp, 2, 2},
		{"it can't be read, and the backups are of two", 2, unreadable, 4, 4},
		{"it can't be read, and the backups are of one", 1, unreadable, 2, 0},
		{"it is empty, and the backups are of two", 2, empty, 4, 4},
		{"it is not there, and the backups are of two", 2, nothing, 4, 4},
		{"it is empty, and may have been that of the backups", 1, empty, 1, 0},
		{"it is not there, and may have been that of the backups", 1, nothing, 1, 0},
		{"it can't be read, and there is no backup", 0, unreadable, 0, 0},
		{"it was never backed up, and there is no backup", 0, neverBackedUp, 0, 0},
	} {
		t.Run(c.why, func(t *testing.T) {
			dest := t.TempDir()
			for range c.stores {
				backedUpTwice(t, dest)
			}
			b := backupsOf(t, sharing(c.make(t, dest), dest))
			s := value[manager.BackupStatus](t)(b.Status(t.Context()))
			if s.Others != c.others || s.Backups != 2*c.stores-c.others || (s.Latest == nil) != (s.Backups == 0) {
				t.Errorf("status counts %d of others and %d, the latest %v", s.Others, s.Backups, s.Latest)
			}
			gone := func(f tiers.Finding) bool { return !f.OK && f.Subject == "backup: store" }
			if _, err := os.Stat(filepath.Join(b.Effective().DataDir, "sage.db")); (err != nil) != slices.ContainsFunc(s.Findings, gone) {
				t.Errorf("of the store, %v, status tells %v", err, s.Findings)
			}
			for _, f := range s.Findings {
				if f.Subject == "backup: prune" {
					t.Errorf("others are judged: %s", f.Message)
				}
			}
			for _, dry := range []bool{true, false} {
				ds, err := b.Prune(t.Context(), manager.PruneOptions{DryRun: dry})
				kept := 0
				for _, d := range ds {
					if d.Keep {
						kept++
					}
				}
				if kept != c.left {
					t.Errorf("kept are %d of %v", kept, ds)
				}
				if c.left < 2*c.stores || c.stores == 0 {
					must(t, err)
					continue
				}
				wantError(t, err, tiers.ErrConflict, "it is not known whose they are")
				if e, ok := errors.AsType[*tiers.Error](err); !ok || e.Hint == "" || !errors.Is(err, backup.ErrRefused) {
					t.Errorf("%v does not say what to do", err)
				}
			}
			left := 0
			for _, err := range b.Repo().List(t.Context()) {
				must(t, err)
				left++
			}
			if left != c.left {
				t.Errorf("left are %d backups, want %d", left, c.left)
			}
		})
	}
}

// TestAStoreThatWasBackedUpPrunesItsOwn: those of the other stay, and do not count.
func TestAStoreThatWasBackedUpPrunesItsOwn(t *testing.T) {
	dest := t.TempDir()
	backedUpTwice(t, dest)
	b := backupsOf(t, sharing(backedUpTwice(t, dest), dest))
	ds := value[[]backup.Decision](t)(b.Prune(t.Context(), manager.PruneOptions{}))
	own := b.OwnStore(t.Context())
	left := map[bool]int{}
	for e, err := range b.Repo().List(t.Context()) {
		must(t, err)
		left[e.Manifest.Store == own]++
	}
	if left[true] != 1 || left[false] != 2 {
		t.Errorf("left are %v: %v", left, ds)
	}
}
