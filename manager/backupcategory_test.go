package manager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// TestADamagedManifestIsNotTakenForThatOfAnotherStore: of which store it is can't be read,
// and whoever adopted it would be told that it holds nothing.
func TestADamagedManifestIsNotTakenForThatOfAnotherStore(t *testing.T) {
	m := openEmbedded(t)
	must(t, m.Save(t.Context(), "config", "a", 1))
	b := value[*manager.Backups](t)(m.Backups(t.Context()))
	made := value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	must(t, os.WriteFile(filepath.Join(b.Effective().Backup.Dest, made.ID, "manifest.json"), []byte("{"), 0o600))
	for _, o := range []manager.RestoreOptions{{}, {Adopt: true}} {
		_, err := b.RestoreCategories(t.Context(), m, made.ID, []string{"config"}, o)
		if !errors.Is(err, tiers.ErrCorrupt) || !strings.Contains(err.Error(), made.ID) {
			t.Errorf("with %+v it answers %v", o, err)
		}
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
