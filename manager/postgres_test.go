package manager_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/pgtest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
	every "github.com/sagestore/sagestore/tiers/all"
)

// Two machines that share nothing but a server of PostgreSQL.
func TestPostgresHoldsAllThatMachinesShare(t *testing.T) {
	t.Parallel()
	pgtest.Shared(t)
	url, err := pgtest.SharedURL()
	must(t, err)
	open := func(dir string) *manager.Manager {
		cfg := config.Default()
		cfg.DataDir = dir
		cfg.Database.Driver = "postgres"
		cfg.Postgres = &config.Postgres{URL: config.Secret(url), Schema: "machines"}
		m := value[*manager.Manager](t)(manager.Open(t.Context(), cfg, every.Tiers()))
		t.Cleanup(func() { closeNow(t, m) })
		return m
	}
	here, there := t.TempDir(), t.TempDir()
	one, other := open(here), open(there)
	err = one.Update(t.Context(), func(tx *manager.Tx) error {
		if err := manager.For[string](tx, "config").Save(t.Context(), "settings", "of one"); err != nil {
			return err
		}
		return manager.For[string](tx, "session.preferences").Save(t.Context(), "user", "dark")
	})
	must(t, err)
	if got := value[string](t)(manager.For[string](other, "session.preferences").Load(t.Context(), "user")); got != "dark" {
		t.Errorf("the other machine loads %q", got)
	}
	_, err = manager.For[string](other, "session.preferences").Modify(t.Context(), "user", func(v *string, _ bool) error {
		*v += "er"
		return nil
	})
	must(t, err)
	if got := value[string](t)(manager.For[string](one, "session.preferences").Load(t.Context(), "user")); got != "darker" {
		t.Errorf("the first machine loads %q", got)
	}
	if got := value[string](t)(manager.For[string](one, "config").Load(t.Context(), "settings")); got != "of one" {
		t.Errorf("the file is %q", got)
	}
	// Their trees of files are their own, though the rows for both wait in one journal.
	settings := func(m *manager.Manager) *manager.Collection[string] { return manager.For[string](m, "config") }
	if _, err := settings(other).Load(t.Context(), "settings"); !errors.Is(err, tiers.ErrNotFound) {
		t.Errorf("the file of one machine is on the other as well: %v", err)
	}
	for range 20 {
		for name, m := range map[string]*manager.Manager{"one": one, "other": other} {
			must(t, m.Update(t.Context(), func(tx *manager.Tx) error {
				return settings(m).In(tx).Save(t.Context(), "settings", "of "+name)
			}))
		}
		for name, m := range map[string]*manager.Manager{"one": one, "other": other} {
			if got := value[string](t)(settings(m).Load(t.Context(), "settings")); got != "of "+name {
				t.Fatalf("the file of %s is %q", name, got)
			}
		}
	}
	must(t, other.EndSession(context.WithoutCancel(t.Context()), "user"))
	for _, dir := range []string{here, there} {
		if _, err := os.Stat(filepath.Join(dir, "sage.db")); err == nil {
			t.Errorf("%s holds a file of SQLite", dir)
		}
	}
}

// A session ends on all machines, also on one where no program runs.
func TestEveryMachineRemovesItsFilesOfASessionThatHasEnded(t *testing.T) {
	t.Parallel()
	ctx, e := t.Context(), newEngines(t)
	clock := sagetest.NewClock(tiers.SystemClock().Now())
	open := func(dir string) *manager.Manager {
		cfg := e.config("postgres")
		cfg.DataDir = dir
		cfg.Categories["app.parts"] = config.Category{Tier: "file", TTL: config.UntilSessionEnds}
		return value[*manager.Manager](t)(manager.Open(ctx, cfg, every.Tiers(), manager.WithoutJobs(), manager.WithClock(clock)))
	}
	far := t.TempDir()
	other := open(far)
	must(t, other.Save(ctx, "app.parts", "s/k", "private"))
	closeNow(t, other)
	m := open(e.dir)
	defer closeNow(t, m)
	must(t, m.EndSession(ctx, "s"))
	clock.Advance(time.Minute)
	must(t, m.FinishEnded(ctx))
	other = open(far)
	defer closeNow(t, other)
	must(t, other.FinishEnded(ctx))
	var v string
	wantError(t, other.Load(ctx, "app.parts", "s/k", &v), tiers.ErrNotFound, "the session has ended")
}

// What a machine has in files of its own is not hidden by another one that has moved the
// category.
func TestACategoryThatAnotherMachineMovedHidesNothing(t *testing.T) {
	t.Parallel()
	ctx, e := t.Context(), newEngines(t)
	far := e
	far.dir = t.TempDir()
	for _, e := range []engines{e, far} {
		m := e.open(t, "postgres")
		must(t, m.Save(ctx, "app.file", "k", "v"))
		closeNow(t, m)
	}
	moved := func(e engines) *config.Config {
		cfg := e.config("postgres")
		cfg.Categories["app.file"] = config.Category{Tier: "database"}
		return cfg
	}
	done := value[manager.CategoryMigrated](t)(manager.MigrateCategory(ctx, moved(e), every.Tiers(), "app.file", manager.MigrateOptions{Stopped: true}))
	if done.Records != 1 {
		t.Errorf("%+v", done)
	}
	m := value[*manager.Manager](t)(manager.Open(ctx, moved(e), every.Tiers()))
	defer closeNow(t, m)
	_, err := manager.Open(ctx, moved(far), every.Tiers())
	wantError(t, err, tiers.ErrCategory, "the other machine")
}
