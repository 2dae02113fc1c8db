package config_test

import (
	"path/filepath"
	"testing"

	"github.com/sagestore/sagestore/config"
)

func TestWhatWasRestoredBesideIsAStoreOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	live := filepath.Join(dir, "live")
	for _, c := range []struct{ why, text string }{
		{"places", "sqlite: {path: " + live + "/s.db}\nfile: {base_path: " + live + "/f}\ncache: {path: " + live + "/c}\nbackup: {dest: " + live + "/b}"},
		{"Redis by name", "redis: {url: 'redis://127.0.0.1:1'}\ndefault_store: redis\ncategories: {app.a: {tier: redis}}"},
		{"PostgreSQL by name", "postgres: {url: 'postgres://h/d'}\ndefault_store: postgres\ncategories: {app.a: {tier: postgres}}"},
		{"drivers by name", "database: {driver: postgres}\ncache: {driver: redis}\npostgres: {url: 'postgres://h/d'}\nredis: {url: 'redis://127.0.0.1:1'}"},
	} {
		cfg, err := config.Parse([]byte(c.text))
		if err != nil {
			t.Fatalf("%s: %v", c.why, err)
		}
		drill := filepath.Join(dir, "drill")
		e, err := cfg.Resolve(config.Restored(drill))
		if err != nil {
			t.Errorf("%s: %v", c.why, err)
			continue
		}
		got := e.Config()
		if e.DataDir != drill || got.SQLite.Path != filepath.Join(drill, "sage.db") || got.File.BasePath != filepath.Join(drill, "data") ||
			got.Cache.Path != filepath.Join(drill, "cache") || got.Backup.Dest != filepath.Join(drill, "backups") {
			t.Errorf("%s: it lies in %s: %q, %q, %q, %q", c.why, e.DataDir, got.SQLite.Path, got.File.BasePath, got.Cache.Path, got.Backup.Dest)
		}
		if got.Redis != nil || got.Postgres != nil || got.Database.Driver != "sqlite" || got.Cache.Driver != "file" {
			t.Errorf("%s: a server is used: %v, %v, %s, %s", c.why, got.Redis != nil, got.Postgres != nil, got.Database.Driver, got.Cache.Driver)
		}
		if placed := e.PlacedOutside(); len(placed) != 0 {
			t.Errorf("%s: %q", c.why, placed)
		}
	}
}

func TestPlacesOutsideOfTheDataDirectoryAreTold(t *testing.T) {
	dir := t.TempDir()
	cfg, err := config.Parse([]byte("data_dir: " + dir + "/a\nsqlite: {path: " + dir + "/b.db}\nfile: {base_path: " + dir + "/a/f}"))
	if err != nil {
		t.Fatal(err)
	}
	e, err := cfg.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	if placed := e.PlacedOutside(); len(placed) != 1 || placed[0] != "sqlite.path names "+filepath.Join(dir, "b.db") {
		t.Errorf("%q", placed)
	}
}
