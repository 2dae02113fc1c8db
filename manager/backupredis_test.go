package manager_test

import (
	"errors"
	"testing"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	drivers "github.com/sagestore/sagestore/tiers/all"
)

// TestARestoredStoreSeesNothingThatRedisKeptMeanwhile: it may be newer than the backup.
func TestARestoredStoreSeesNothingThatRedisKeptMeanwhile(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := &config.Config{DataDir: t.TempDir(), Redis: &config.Redis{URL: config.Secret(server.URL())}}
	open := func() *manager.Manager {
		t.Helper()
		return value[*manager.Manager](t)(manager.Open(t.Context(), cfg, drivers.Tiers()))
	}
	m := open()
	must(t, m.Save(t.Context(), "agent.state", "a", "then"))
	must(t, m.Save(t.Context(), "session.history", "s/1", "then"))
	value[backup.Manifest](t)(m.Backup(t.Context(), nil))
	must(t, m.Save(t.Context(), "agent.state", "a", "later"))
	must(t, m.Save(t.Context(), "session.history", "s/1", "later"))
	closeNow(t, m)

	m = open() // it is still there without a restore
	if got := value[string](t)(manager.For[string](m, "session.history").Load(t.Context(), "s/1")); got != "later" {
		t.Errorf("before the restore: %q", got)
	}
	closeNow(t, m)

	b := value[*manager.Backups](t)(manager.OpenBackups(t.Context(), cfg, drivers.Tiers()))
	value[manager.RestoredStore](t)(b.Restore(t.Context(), backup.Latest, manager.RestoreOptions{}))
	must(t, b.Close())
	m = open()
	defer closeNow(t, m)
	if got := value[string](t)(manager.For[string](m, "agent.state").Load(t.Context(), "a")); got != "then" {
		t.Errorf("the database says %q", got)
	}
	history := manager.For[string](m, "session.history")
	if got, err := history.Load(t.Context(), "s/1"); !errors.Is(err, tiers.ErrNotFound) {
		t.Errorf("of the cache there is %q, %v", got, err)
	}
	for item, err := range history.List(t.Context()) {
		t.Errorf("of the cache %v is listed, %v", item.Key, err)
	}
	must(t, history.Save(t.Context(), "s/1", "now"))
	if got := value[string](t)(history.Load(t.Context(), "s/1")); got != "now" {
		t.Errorf("what is saved from now on: %q", got)
	}
}
