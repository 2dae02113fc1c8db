package manager_test

import (
	"sync"
	"testing"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/pgtest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
	every "github.com/sagestore/sagestore/tiers/all"
)

// A process that is stopped while it writes files has no connection of PostgreSQL when it
// goes on, but the lock in the tree still.
func TestStoppedApplierOfFilesIsNotOvertakenOnPostgres(t *testing.T) {
	t.Parallel()
	srv, dir := pgtest.Start(t, pgtest.Config{NoSync: true}), t.TempDir()
	open := func(drivers tiers.Drivers) *manager.Manager {
		cfg := config.Default()
		cfg.DataDir = dir
		cfg.Database.Driver = "postgres"
		cfg.Postgres = &config.Postgres{URL: config.Secret(srv.URL("postgres"))}
		return value[*manager.Manager](t)(manager.Open(t.Context(), cfg, drivers))
	}
	settings := func(m manager.Scope) *manager.Collection[string] { return manager.For[string](m, "config") }
	writes, goOn := make(chan struct{}), make(chan struct{})
	stop := sync.OnceFunc(func() { close(writes); <-goOn })
	one := open(sagetest.Failing(every.Tiers(), func(op string, k tiers.Key) error {
		if op == "apply" && k.Name == "settings" {
			stop()
		}
		return nil
	}))
	must(t, one.Update(t.Context(), func(tx *manager.Tx) error { return settings(tx).Save(t.Context(), "settings", "v") }))
	<-writes
	two := open(every.Tiers())
	defer closeNow(t, two)
	srv.Exec(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
	for range 10 {
		left, _ := two.ApplyPending(t.Context(), "file", false) // the error is that another process is at it
		if left["file"] != 1 {
			t.Errorf("%d writes are left, as another process has applied one", left["file"])
			break
		}
	}
	_, err := settings(two).Delete(t.Context(), "settings")
	must(t, err)
	close(goOn)
	closeNow(t, one)
	_, err = two.ApplyPending(t.Context(), "file", true)
	must(t, err)
	_, err = settings(two).Load(t.Context(), "settings")
	wantError(t, err, tiers.ErrNotFound, "what was deleted")
}
