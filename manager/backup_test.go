package manager_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// durable are the categories that a backup holds, with their homes.
var durable = []string{
	"session.preferences", "knowledge.usage", "knowledge.access", "learning.patterns", "learning.optimizations", "learning.feedback",
	"config", "agent.state", "agent.conversations", "agent.checkpoints", "session.state", "session.events",
}

func fill(t *testing.T, m *manager.Manager) {
	t.Helper()
	for _, category := range durable {
		for i := range 3 {
			must(t, m.Save(t.Context(), category, fmt.Sprintf("key/%d", i), map[string]any{"of": category, "n": i}))
			must(t, m.Namespace("acme").Save(t.Context(), category, fmt.Sprintf("key/%d", i), []int{i, 1 << 60}))
		}
	}
}

// contents are all records of the durable categories.
func contents(t *testing.T, m *manager.Manager) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, namespace := range []string{"", "acme"} {
		for _, category := range durable {
			for item, err := range m.Namespace(namespace).List(t.Context(), category) {
				must(t, err)
				var v any
				must(t, item.Decode(&v))
				all[namespace+" "+category+" "+item.Key] = fmt.Sprint(v, item.Version, item.Created, item.Updated, item.Expires)
			}
		}
	}
	return all
}

func backupsOf(t *testing.T, cfg *config.Config, opts ...manager.OpenOption) *manager.Backups {
	t.Helper()
	b := value[*manager.Backups](t)(manager.OpenBackups(t.Context(), cfg, all(), opts...))
	t.Cleanup(func() { must(t, b.Close()) })
	return b
}

func inDir(dir string) *config.Config { return &config.Config{DataDir: dir} }

func TestABackupRestoredIntoAnEmptyPlaceHoldsEveryRecord(t *testing.T) {
	m := openEmbedded(t)
	fill(t, m)
	want := contents(t, m)
	made := value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	must(t, m.Save(t.Context(), "agent.state", "later", 1))

	b := value[*manager.Backups](t)(m.Backups(t.Context()))
	to := filepath.Join(t.TempDir(), "restored")
	done := value[manager.RestoredStore](t)(b.Restore(t.Context(), backup.Latest, manager.RestoreOptions{To: to}))
	if done.ID != made.ID || len(done.Places) != 2 {
		t.Errorf("restored %+v, want backup %s in two parts", done, made.ID)
	}
	restored := openDir(t, to)
	defer closeNow(t, restored)
	if len(want) != 2*3*len(durable) {
		t.Errorf("%d records were saved", len(want))
	}
	if diff := cmp.Diff(want, contents(t, restored)); diff != "" {
		t.Errorf("(-saved +restored):\n%s", diff)
	}
}

func TestARestoreInPlaceGoesBackToTheBackupAndKeepsWhatItReplaced(t *testing.T) {
	dir := t.TempDir()
	m := openDir(t, dir)
	fill(t, m)
	want := contents(t, m)
	value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	must(t, m.Save(t.Context(), "agent.state", "later", 1))
	must(t, m.Save(t.Context(), "config", "later", 1))

	b := backupsOf(t, inDir(dir))
	_, err := b.Restore(t.Context(), backup.Latest, manager.RestoreOptions{})
	wantError(t, err, tiers.ErrUnavailable, "a store that is open is not replaced")
	closeNow(t, m)

	done := value[manager.RestoredStore](t)(b.Restore(t.Context(), backup.Latest, manager.RestoreOptions{}))
	if len(done.Replaced) == 0 {
		t.Error("nothing was kept")
	}
	for _, path := range done.Replaced {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	m = openDir(t, dir)
	defer closeNow(t, m)
	if diff := cmp.Diff(want, contents(t, m)); diff != "" {
		t.Errorf("(-saved +restored):\n%s", diff)
	}
}

func TestABackupOfAnotherStoreIsRestoredOnlyWhenItIsMeant(t *testing.T) {
	dest, one, two := t.TempDir(), t.TempDir(), t.TempDir()
	cfg := func(dir string) *config.Config {
		return &config.Config{DataDir: dir, Backup: config.Backup{Dest: dest}}
	}
	for _, dir := range []string{one, two} { // the newest is of the second
		m := value[*manager.Manager](t)(manager.Open(t.Context(), cfg(dir), all()))
		must(t, m.Save(t.Context(), "agent.state", "in", dir))
		value[backup.Manifest](t)(m.Backup(t.Context(), nil))
		closeNow(t, m)
	}
	b := backupsOf(t, cfg(one))
	_, err := b.Repo().Latest(t.Context())
	wantError(t, err, tiers.ErrConflict, "the destination itself knows no store")
	newest := value[backup.Entry](t)(backupsOf(t, cfg(two)).Show(t.Context(), backup.Latest))
	own := value[backup.Entry](t)(b.Show(t.Context(), backup.Latest))
	if own.ID == newest.ID || own.Manifest.Store != b.OwnStore(t.Context()) {
		t.Errorf("the latest of the first is %s of %s", own.ID, own.Manifest.Store)
	}
	_, err = b.Restore(t.Context(), newest.ID, manager.RestoreOptions{})
	wantError(t, err, tiers.ErrConflict, "the backup is of another store")
	_, err = backupsOf(t, cfg(t.TempDir())).Show(t.Context(), backup.Latest)
	wantError(t, err, tiers.ErrConflict, "there is no store, and there are backups of two")
	value[manager.RestoredStore](t)(b.Restore(t.Context(), newest.ID, manager.RestoreOptions{Adopt: true}))
	m := value[*manager.Manager](t)(manager.Open(t.Context(), cfg(one), all()))
	defer closeNow(t, m)
	var in string
	must(t, m.Load(t.Context(), "agent.state", "in", &in))
	if in != two {
		t.Errorf("it holds what was in %s", in)
	}
}

func TestARestoreThatIsInterruptedBeforeItIsDecidedChangesNothing(t *testing.T) {
	dir := t.TempDir()
	m := openDir(t, dir)
	must(t, m.Save(t.Context(), "agent.state", "a", "old"))
	value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	must(t, m.Save(t.Context(), "agent.state", "a", "new"))
	closeNow(t, m)
	b := backupsOf(t, inDir(dir))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := b.Restore(ctx, backup.Latest, manager.RestoreOptions{Progress: func(backup.Progress) { cancel() }})
	wantError(t, err, context.Canceled, "its context has ended")
	m = openDir(t, dir)
	defer closeNow(t, m)
	var got string
	must(t, m.Load(t.Context(), "agent.state", "a", &got))
	if got != "new" {
		t.Errorf("got %q", got)
	}
}

func TestAStoreInMemoryHasNoBackups(t *testing.T) {
	m := value[*manager.Manager](t)(manager.OpenMemory(t.Context(), all()))
	defer closeNow(t, m)
	_, err := m.Backup(t.Context(), nil)
	wantError(t, err, tiers.ErrUnsupported, "there is nothing to back up")
	if h := m.Health(t.Context()); !h.LastBackup.IsZero() {
		t.Errorf("health tells of a backup: %+v", h)
	}
}

func TestADestinationThatIsAURLNeedsSomethingThatOpensIt(t *testing.T) {
	cfg := &config.Config{DataDir: t.TempDir(), Backup: config.Backup{Enabled: true, Dest: "s3://x"}}
	_, err := manager.Open(t.Context(), cfg, all())
	wantError(t, err, tiers.ErrUnsupported, "no opener was given")
	if !contains(err, "backup.dest") {
		t.Error(err)
	}
}

func TestTheCacheIsInABackupWhenItIsAskedFor(t *testing.T) {
	m := openEmbedded(t)
	must(t, m.Save(t.Context(), "session.history", "s-1/1", "hello"))
	must(t, m.Save(t.Context(), "agent.state", "a", 1))
	for _, c := range []struct {
		why  string
		opts []manager.BackupOption
		want []string
	}{
		{"it is left out by default", nil, []string{"database", "file"}},
		{"it is asked for", []manager.BackupOption{manager.BackupCache()}, []string{"cache", "database", "file"}},
	} {
		made := value[backup.Manifest](t)(m.Backup(t.Context(), nil, c.opts...))
		var got []string
		for _, p := range made.Parts {
			got = append(got, p.Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: parts %v, want %v", c.why, got, c.want)
		}
	}
}

func TestOneBackupRunsAtATime(t *testing.T) {
	m := openEmbedded(t)
	must(t, m.Save(t.Context(), "agent.state", "a", 1))
	b := value[*manager.Backups](t)(m.Backups(t.Context()))
	busy, free := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	told := false
	go func() {
		_, err := b.Run(context.Background(), m, manager.BackupProgress(func(backup.Progress) {
			if !told {
				told = true
				close(busy)
				<-free
			}
		}))
		first <- err
	}()
	<-busy
	_, err := b.Run(t.Context(), m)
	wantError(t, err, tiers.ErrConflict, "one is under way")
	if !contains(err, fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("%v does not say whose", err)
	}
	close(free)
	must(t, <-first)
	value[manager.BackupRun](t)(b.Run(t.Context(), m))
	if st := value[backup.State](t)(b.State(t.Context())); st.LastGood.IsZero() {
		t.Error("the schedule does not know of it")
	}
}

func TestTheDiagnosisTellsOfBackups(t *testing.T) {
	m := openEmbedded(t)
	must(t, m.Save(t.Context(), "agent.state", "a", 1))
	find := func() string {
		var all []string
		for _, f := range m.Diagnose(t.Context()) {
			if strings.HasPrefix(f.Subject, "backup") {
				all = append(all, fmt.Sprint(f.OK, " ", f.Subject, ": ", f.Message))
			}
		}
		return strings.Join(all, "\n")
	}
	if got := find(); !strings.Contains(got, "no backup is made by itself") || !strings.Contains(got, "same disk") || strings.Contains(got, "false") {
		t.Errorf("before: %s", got)
	}
	b := value[*manager.Backups](t)(m.Backups(t.Context()))
	run := value[manager.BackupRun](t)(b.Run(t.Context(), m))
	if got := find(); !strings.Contains(got, "true backup: the newest verified one, of 1") {
		t.Errorf("after: %s", got)
	}
	if !run.Report.Rehearsed {
		t.Error("the first backup was not rehearsed")
	}
	if h, s := m.Health(t.Context()), value[manager.Stats](t)(m.Stats(t.Context())); h.LastBackup.IsZero() || !h.LastBackup.Equal(s.LastBackup) || !s.NextBackup.IsZero() {
		t.Errorf("health %v, stats %v and %v", h.LastBackup, s.LastBackup, s.NextBackup)
	}
	run = value[manager.BackupRun](t)(b.Run(t.Context(), m))
	if run.Report.Rehearsed {
		t.Error("the second backup of a day was rehearsed as well")
	}
	object := filepath.Join(b.Effective().Backup.Dest, run.Manifest.ID, run.Manifest.Parts[0].Object)
	must(t, os.Truncate(object, 10))
	_, err := b.Repo().Verify(t.Context(), run.Manifest.ID, false)
	wantError(t, err, tiers.ErrCorrupt, "it was cut")
}
