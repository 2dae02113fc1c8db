package manager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

// only are the records of some categories.
func only(all map[string]string, categories ...string) map[string]string {
	some := map[string]string{}
	for key, text := range all {
		for _, c := range categories {
			if strings.Contains(key, " "+c+" ") {
				some[key], _, _ = strings.Cut(text, " ") // without the version, which is a new one
			}
		}
	}
	return some
}

func TestACategoryGoesBackToABackupWhileTheStoreIsInUse(t *testing.T) {
	clock := sagetest.NewClock(start)
	m := openEmbedded(t, manager.WithClock(clock))
	fill(t, m)
	must(t, m.Save(t.Context(), "agent.state", "short", 1, manager.TTL(time.Hour)))
	must(t, m.Save(t.Context(), "config", "short", 1, manager.TTL(time.Hour)))
	must(t, m.Save(t.Context(), "agent.state", "long", 1, manager.TTL(100*time.Hour)))
	b := value[*manager.Backups](t)(m.Backups(t.Context()))
	made := value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	clock.Advance(2 * time.Hour)
	want := contents(t, m)

	for _, category := range []string{"agent.state", "config", "learning.patterns"} {
		must(t, m.Save(t.Context(), category, "key/0", "changed"))
		must(t, m.Save(t.Context(), category, "later", "new"))
		must(t, m.Namespace("other").Save(t.Context(), category, "later", "new"))
		value[bool](t)(m.Delete(t.Context(), category, "key/1"))
	}
	changed := contents(t, m)
	before := value[manager.Item](t)(m.Item(t.Context(), "agent.state", "key/0"))

	done := value[[]manager.CategoryRestored](t)(b.RestoreCategories(t.Context(), m, made.ID, []string{"agent.state", "config", "agent.state"}, manager.RestoreOptions{}))
	wantDone := []manager.CategoryRestored{
		{Category: "agent.state", Tier: "database", Records: 7, Expired: 1, Replaced: 9},
		{Category: "config", Tier: "file", Records: 6, Expired: 1, Replaced: 7},
	}
	for i := range done {
		done[i].Replaced = wantDone[i].Replaced // how many expired ones count is the tier's affair
	}
	if diff := cmp.Diff(wantDone, done); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got := contents(t, m)
	if diff := cmp.Diff(only(want, "agent.state", "config"), only(got, "agent.state", "config")); diff != "" {
		t.Errorf("(-backup +restored):\n%s", diff)
	}
	if diff := cmp.Diff(only(changed, "learning.patterns"), only(got, "learning.patterns")); diff != "" {
		t.Errorf("another category was changed:\n%s", diff)
	}
	for _, category := range []string{"agent.state", "config"} {
		if value[bool](t)(m.Namespace("other").Exists(t.Context(), category, "later")) {
			t.Errorf("%s keeps what another namespace had later", category)
		}
	}
	after := value[manager.Item](t)(m.Item(t.Context(), "agent.state", "key/0"))
	if after.Version <= before.Version {
		t.Errorf("version %d came after %d", after.Version, before.Version)
	}
	if got := value[manager.Item](t)(m.Item(t.Context(), "agent.state", "long")); !got.Expires.Equal(start.Add(100 * time.Hour)) {
		t.Errorf("it expires at %v", got.Expires)
	}
	for name := range value[manager.Stats](t)(m.Stats(t.Context())).Categories {
		if strings.HasPrefix(name, "-") {
			t.Errorf("%s was left", name)
		}
	}
}

func TestACategoryIsRestoredOnlyFromABackupThatHasIt(t *testing.T) {
	m := openEmbedded(t)
	must(t, m.Save(t.Context(), "agent.state", "a", 1))
	b := value[*manager.Backups](t)(m.Backups(t.Context()))
	value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	must(t, m.Save(t.Context(), "config", "a", 1))
	for _, c := range []struct {
		why, category string
		want          error
	}{
		{"the backup has no record of it", "config", tiers.ErrNotFound},
		{"it lives in memory", "session.context", tiers.ErrNotFound},
		{"there is no such category", "agent.stat", tiers.ErrCategory},
	} {
		_, err := b.RestoreCategories(t.Context(), m, backup.Latest, []string{"agent.state", c.category}, manager.RestoreOptions{})
		wantError(t, err, c.want, c.why)
	}
}

// TestACategoryOfFilesIsRestoredUpToTheBoundOfATransaction: one that is larger is told so,
// and stays as it is.
func TestACategoryOfFilesIsRestoredUpToTheBoundOfATransaction(t *testing.T) {
	cfg := &config.Config{DataDir: t.TempDir(), Categories: map[string]config.Category{"app.blobs": {Tier: "file", Codec: "raw"}}}
	m := value[*manager.Manager](t)(manager.Open(t.Context(), cfg, all()))
	defer closeNow(t, m)
	large := make([]byte, 14<<20)
	for i := range 5 {
		must(t, m.Save(t.Context(), "app.blobs", fmt.Sprint(i), large))
	}
	must(t, m.Save(t.Context(), "agent.state", "a", "old"))
	b := value[*manager.Backups](t)(m.Backups(t.Context()))
	value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	must(t, m.Save(t.Context(), "agent.state", "a", "new"))
	must(t, m.Save(t.Context(), "app.blobs", "0", []byte("new")))
	_, err := b.RestoreCategories(t.Context(), m, backup.Latest, []string{"agent.state", "app.blobs"}, manager.RestoreOptions{})
	wantError(t, err, tiers.ErrTooLarge, "there are 70 MiB of it")
	if text := err.Error(); !strings.Contains(text, "64 MiB") || !strings.Contains(text, "--to") || !strings.Contains(text, "app.blobs") {
		t.Errorf("it says %q", text)
	}
	if got := value[string](t)(manager.For[string](m, "agent.state").Load(t.Context(), "a")); got != "new" {
		t.Errorf("another category of the same restore was changed: %q", got)
	}
	if got := value[[]byte](t)(manager.For[[]byte](m, "app.blobs").Load(t.Context(), "0")); string(got) != "new" {
		t.Errorf("it was changed to %d bytes", len(got))
	}
}

func TestACategoryOfFilesIsRestoredWhileOthersCommitWithoutPause(t *testing.T) {
	cfg := &config.Config{DataDir: t.TempDir(), Categories: map[string]config.Category{"app.files": {Tier: "file"}}}
	m := value[*manager.Manager](t)(manager.Open(t.Context(), cfg, all()))
	defer closeNow(t, m)
	must(t, m.Save(t.Context(), "app.files", "a", "old"))
	b := value[*manager.Backups](t)(m.Backups(t.Context()))
	value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	times := 0
	getInTheWay := func(p backup.Progress) {
		if p.Step == "restore" && times < 9 {
			times++
			must(t, m.Save(t.Context(), "app.files", "a", fmt.Sprint("of a writer ", times)))
		}
	}
	value[[]manager.CategoryRestored](t)(b.RestoreCategories(t.Context(), m, backup.Latest, []string{"app.files"}, manager.RestoreOptions{Progress: getInTheWay}))
	if got := value[string](t)(manager.For[string](m, "app.files").Load(t.Context(), "a")); got != "old" || times != 9 {
		t.Errorf("%q after %d writes", got, times)
	}
}

func TestAReaderSeesTheOldOrTheNewCategory(t *testing.T) {
	m := openEmbedded(t)
	const n = 300
	saveAll := func(text string) {
		values := map[string]any{}
		for i := range n {
			values[fmt.Sprint(i)] = text + strings.Repeat("x", 8<<10)
		}
		must(t, m.Update(t.Context(), func(tx *manager.Tx) error {
			for key, v := range values {
				if err := tx.Save(t.Context(), "agent.state", key, v); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	saveAll("old")
	b := value[*manager.Backups](t)(m.Backups(t.Context()))
	value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	saveAll("new")
	var over atomic.Bool
	read := make(chan error, 1)
	go func() {
		for {
			counts := map[string]int{}
			err := m.View(context.Background(), func(tx *manager.Tx) error {
				for item, err := range tx.List(context.Background(), "agent.state") {
					if err != nil {
						return err
					}
					var v string
					if err := item.Decode(&v); err != nil {
						return err
					}
					counts[v[:3]]++
				}
				return nil
			})
			if err == nil && (len(counts) != 1 || counts["old"]+counts["new"] != n) {
				err = fmt.Errorf("a reader saw %v", counts)
			}
			if err != nil || over.Load() {
				read <- err
				return
			}
		}
	}()
	// A key that is in both is there at every moment.
	looked := make(chan error, 1)
	go func() {
		for !over.Load() {
			ok, err := m.Exists(context.Background(), "agent.state", "7")
			if err == nil && !ok {
				err = errors.New("a reader found nothing")
			}
			if err != nil {
				looked <- err
				return
			}
		}
		looked <- nil
	}()
	for range 3 {
		_, err := b.RestoreCategories(t.Context(), m, backup.Latest, []string{"agent.state"}, manager.RestoreOptions{})
		must(t, err)
	}
	over.Store(true)
	must(t, <-read)
	must(t, <-looked)
	var v string
	must(t, m.Load(t.Context(), "agent.state", "7", &v))
	if !strings.HasPrefix(v, "old") {
		t.Error("it is not restored")
	}
}

// restoring is a child that restores a category again and again until it is killed.
func restoring(ctx context.Context, m *manager.Manager) error {
	b, err := m.Backups(ctx)
	for err == nil {
		_, err = b.RestoreCategories(ctx, m, backup.Latest, []string{"agent.state"}, manager.RestoreOptions{})
	}
	return err
}

func TestAKilledRestoreOfACategoryLeavesOldOrNew(t *testing.T) {
	dir := t.TempDir()
	m := openDir(t, dir)
	const n = 400
	save := func(text string) {
		must(t, m.Update(t.Context(), func(tx *manager.Tx) error {
			for i := range n {
				if err := tx.Save(t.Context(), "agent.state", fmt.Sprint(i), text+strings.Repeat("x", 8<<10)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	save("old")
	value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	rounds := 3
	if os.Getenv("CI") == "true" {
		rounds = 6
	}
	for round := range rounds {
		save("new")
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		child.Env = append(os.Environ(), "SAGESTORE_TEST_CHILD=restore", "SAGESTORE_TEST_DIR="+dir)
		must(t, child.Start())
		must(t, tiers.SystemClock().Sleep(t.Context(), time.Duration(60+40*round)*time.Millisecond)) // anywhere in its work
		must(t, child.Process.Kill())
		_ = child.Wait() // it was killed
		counts := map[string]int{}
		for item, err := range m.List(t.Context(), "agent.state") {
			must(t, err)
			var v string
			must(t, item.Decode(&v))
			counts[v[:3]]++
		}
		if len(counts) != 1 || counts["old"]+counts["new"] != n {
			t.Fatalf("round %d left %v", round, counts)
		}
	}
	closeNow(t, m)
}

func TestWhatAKilledRestoreHasPreparedIsSwept(t *testing.T) {
	clock := sagetest.NewClock(start)
	cfg := &config.Config{DataDir: t.TempDir(), DefaultStore: "database"}
	m := value[*manager.Manager](t)(manager.Open(t.Context(), cfg, all(), manager.WithClock(clock)))
	defer closeNow(t, m)
	must(t, m.Save(t.Context(), "agent.state", "a", 1))
	must(t, m.Namespace("acme").Save(t.Context(), "-restore-0011223344556677", "a", 1)) // as one would be left
	for tries := 0; ; tries++ {
		clock.Advance(time.Hour)
		must(t, tiers.SystemClock().Sleep(t.Context(), 20*time.Millisecond)) // a backup under way puts it off
		made := value[backup.Manifest](t)(m.Backup(t.Context(), nil))
		if records := made.Records(); len(records) == 1 && records["agent.state"] == 1 {
			return
		}
		if tries > 100 {
			t.Fatalf("it is not swept: %v", made.Records())
		}
	}
}

func TestAnEncryptedCategoryIsBackedUpAndRestored(t *testing.T) {
	cfg := &config.Config{
		DataDir:    t.TempDir(),
		Categories: map[string]config.Category{"app.secrets": {Tier: "database", Encrypt: new(true)}, "app.files": {Tier: "file", Encrypt: new(true)}},
		Encryption: config.Encryption{Current: "k", Keys: map[string]config.Secret{"k": config.Secret(strings.Repeat("ab", 32))}},
	}
	m := value[*manager.Manager](t)(manager.Open(t.Context(), cfg, all()))
	defer closeNow(t, m)
	names := []string{"app.secrets", "app.files"}
	for _, name := range names {
		must(t, m.Save(t.Context(), name, "a", "old"))
	}
	value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	for _, name := range names {
		must(t, m.Save(t.Context(), name, "a", "new"))
	}
	b := value[*manager.Backups](t)(m.Backups(t.Context()))
	value[[]manager.CategoryRestored](t)(b.RestoreCategories(t.Context(), m, backup.Latest, names, manager.RestoreOptions{}))
	for _, name := range names {
		var v string
		must(t, m.Load(t.Context(), name, "a", &v))
		if v != "old" {
			t.Errorf("%s holds %q", name, v)
		}
	}
}
