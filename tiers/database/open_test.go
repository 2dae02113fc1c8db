package database

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func mustOpen(tb testing.TB, c Config) *Tier {
	tb.Helper()
	tier, err := Open(context.Background(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := tier.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return tier
}

func key(name string) tiers.Key { return tiers.Key{Category: "session.preferences", Name: name} }

func plainJSON(name, value string) tiers.Record {
	return tiers.Record{Key: key(name), Codec: "json", Schema: 1, Value: []byte(value)}
}

// rawDB opens a file as any other program would.
func rawDB(tb testing.TB, path string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

func execRaw(tb testing.TB, db *sql.DB, query string, args ...any) {
	tb.Helper()
	if _, err := db.Exec(query, args...); err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
}

func TestOpenMakesPrivateFilesAndDirectories(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	tier := mustOpen(t, Config{Path: "~/a/b/sage.db"})
	if _, err := tier.Save(t.Context(), plainJSON("u1", `{}`), tiers.Cond{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{
		"a": 0o700, "a/b": 0o700, "a/b/sage.db": 0o600, "a/b/sage.db-wal": 0o600, "a/b/sage.db-shm": 0o600,
		"a/b/sage.db.lock": 0o600, "a/b/sage.db.writer": 0o600, "a/b/sage.db.turn": 0o600,
	} {
		st, err := os.Stat(filepath.Join(home, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if got := st.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
}

func TestAPathWithoutAHomeSaysWhatToSet(t *testing.T) {
	t.Setenv("HOME", "")
	_, err := Open(t.Context(), Config{})
	if err == nil || !strings.Contains(err.Error(), "HOME") || !strings.Contains(err.Error(), "--data-dir") {
		t.Fatalf("got %v, want an error that names HOME and --data-dir", err)
	}
}

func TestAwkwardPathsAreTakenAsTheyAre(t *testing.T) {
	for _, name := range []string{"a b.db", "a?b=c.db", "a#b.db", "a%20b.db", "ä.db", "a;b.db", "file:x.db"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			mustOpen(t, Config{Path: path})
			if _, err := os.Stat(path); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestANetworkFileSystemIsRefusedBeforeAnythingIsTouched(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "not", "there", "sage.db")
	asked := ""
	_, err := open(t.Context(), Config{Path: path}, surroundings{network: func(dir string) (string, error) {
		asked = dir
		return "NFS", nil
	}})
	if !errors.Is(err, tiers.ErrUnsupported) || !strings.Contains(err.Error(), "NFS") || !strings.Contains(err.Error(), path) {
		t.Fatalf("got %v, want an error that names NFS and the path", err)
	}
	if asked != dir {
		t.Errorf("%q was looked at, want the nearest directory that exists, %q", asked, dir)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%v was made", left)
	}
}

func TestFilesThatAreNotOursAreRefusedUnchanged(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T, path string)
		want error
		says string
	}{
		{"text", func(t *testing.T, path string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(strings.Repeat("not a database ", 400)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, tiers.ErrCorrupt, "not a SQLite database"},
		{"another application", func(t *testing.T, path string) {
			t.Helper()
			db := rawDB(t, path)
			execRaw(t, db, "CREATE TABLE users (id INTEGER)")
			_ = db.Close()
		}, tiers.ErrUnsupported, "another application"},
		{"another application id", func(t *testing.T, path string) {
			t.Helper()
			db := rawDB(t, path)
			execRaw(t, db, "PRAGMA application_id = 7")
			execRaw(t, db, "PRAGMA user_version = 1")
			_ = db.Close()
		}, tiers.ErrUnsupported, "another application"},
		{"newer schema", func(t *testing.T, path string) {
			t.Helper()
			mustOpenAndClose(t, path)
			db := rawDB(t, path)
			execRaw(t, db, "CREATE TABLE from_the_future (id INTEGER)")
			execRaw(t, db, fmt.Sprintf("PRAGMA user_version = %d", schemaNow+1))
			_ = db.Close()
		}, tiers.ErrSchema, "newer version of sagestore"},
		{"tables are missing", func(t *testing.T, path string) {
			t.Helper()
			mustOpenAndClose(t, path)
			db := rawDB(t, path)
			execRaw(t, db, "DROP TABLE journal")
			execRaw(t, db, "DROP TABLE recent")
			_ = db.Close()
		}, tiers.ErrCorrupt, "has no table journal, recent"},
		{"tables of an older schema are missing", func(t *testing.T, path string) {
			t.Helper()
			makeOld(t, path)
			db := rawDB(t, path)
			execRaw(t, db, "DROP TABLE records")
			_ = db.Close()
		}, tiers.ErrCorrupt, "restore a backup"},
		{"directory", func(t *testing.T, path string) {
			t.Helper()
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, nil, "is a directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sage.db")
			c.make(t, path)
			before := sumOf(path)
			_, err := Open(t.Context(), Config{Path: path})
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
				t.Fatalf("got %v, want %v, with %q and the path", err, c.want, c.says)
			}
			if sumOf(path) != before {
				t.Error("the file was changed")
			}
		})
	}
}

// sumOf reads a file that no process has open.
func sumOf(path string) [32]byte {
	b, _ := os.ReadFile(path)
	return sha256.Sum256(b)
}

func mustOpenAndClose(tb testing.TB, path string) {
	tb.Helper()
	tier, err := Open(context.Background(), Config{Path: path})
	if err != nil {
		tb.Fatal(err)
	}
	if err := tier.Close(context.Background()); err != nil {
		tb.Fatal(err)
	}
}

// TestANewerSchemaInTheLogIsRefusedUnchanged: the newer version may have ended in
// a crash, so that its schema is in the log only.
func TestANewerSchemaInTheLogIsRefusedUnchanged(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sage.db")
	mustOpenAndClose(t, path)
	db := rawDB(t, path)
	db.SetMaxOpenConns(1)
	execRaw(t, db, "PRAGMA wal_autocheckpoint = 0")
	execRaw(t, db, fmt.Sprintf("PRAGMA user_version = %d", schemaNow+1))
	// A crash: the files as they are now, in another place.
	crashed := filepath.Join(t.TempDir(), "sage.db")
	for _, end := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + end)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(crashed+end, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_ = db.Close()
	before, beforeLog := sumOf(crashed), sumOf(crashed+"-wal")
	if _, err := Open(t.Context(), Config{Path: crashed}); !errors.Is(err, tiers.ErrSchema) {
		t.Fatalf("got %v, want %v", err, tiers.ErrSchema)
	}
	if sumOf(crashed) != before || sumOf(crashed+"-wal") != beforeLog {
		t.Error("a file was changed")
	}
}

// makeOld makes a database as the first schema had it.
func makeOld(tb testing.TB, path string) {
	tb.Helper()
	makeSchema(tb, path, 1)
}

// makeSchema makes a database as an older schema had it, with what it held.
func makeSchema(tb testing.TB, path string, schema int64) {
	tb.Helper()
	ctx := context.Background()
	c, err := connect(ctx, dsn(path, false, pragma{"journal_mode", "wal"}))
	if err != nil {
		tb.Fatal(err)
	}
	if err := up(ctx, c, schema); err != nil {
		tb.Fatal(err)
	}
	queries := []string{
		fmt.Sprintf("PRAGMA application_id = %d", applicationID), fmt.Sprintf("PRAGMA user_version = %d", schema),
		`INSERT INTO records VALUES ('', 'session.preferences', 'u1', 'json', 1, 0, 77, 5, 6, 0, '{"theme":"dark"}')`,
		`UPDATE counters SET value = 9000000000000000 WHERE name = 'version'`,
	}
	if schema >= 2 { // a row that waits, after others that were applied and are forgotten
		queries = append(queries,
			`INSERT INTO journal VALUES (40, 'cache', '', 'session.preferences', 'u1', 'owner', 5, 0, 7, 6, 'json', 1, 0, 77, 5, 6, 0, x'22646f6e2274')`,
			`INSERT INTO journal_tiers VALUES ('cache', 77, 1, 6)`, `UPDATE counters SET value = 41 WHERE name = 'journal'`,
			`INSERT INTO facts VALUES ('epoch', x'31')`)
	}
	for _, q := range queries {
		if _, err := c.exec(ctx, q); err != nil {
			tb.Fatal(err)
		}
	}
	if err := c.close(); err != nil {
		tb.Fatal(err)
	}
}

func TestAnOlderSchemaIsMigratedWithItsRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	makeOld(t, path)
	tier := mustOpen(t, Config{Path: path})
	r, err := tier.Load(t.Context(), key("u1"))
	if err != nil || string(r.Value) != `{"theme":"dark"}` || r.Version != 77 {
		t.Fatalf("got %+v, %v", r, err)
	}
	if _, err := tier.StartSession(t.Context(), "", "s-1"); err != nil {
		t.Error(err)
	}
	saved, err := tier.Save(t.Context(), plainJSON("u2", `1`), tiers.Cond{})
	if err != nil || saved.Version <= 9_000_000_000_000_000 {
		t.Errorf("version %d, %v: the mark of the old file was lost", saved.Version, err)
	}
}

func TestAnOlderJournalIsMigratedWithItsRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	makeSchema(t, path, 2)
	tier := mustOpen(t, Config{Path: path})
	if r, err := tier.Load(t.Context(), key("u1")); err != nil || r.Version != 77 {
		t.Errorf("got %+v, %v", r, err)
	}
	if v, err := tier.Fact(t.Context(), "epoch"); err != nil || string(v) != "1" {
		t.Errorf("the fact is %q, %v", v, err)
	}
	waits, err := tier.Pending(t.Context(), "cache", key("u1"))
	if err != nil || waits.Seq != 40 || waits.Version != 77 || waits.Over != tiers.If(5) {
		t.Fatalf("%+v waits, %v", waits, err)
	}
	if n, err := tier.Sequence(t.Context()); err != nil || n != 41 {
		t.Errorf("the sequence is %d, %v; want 41", n, err)
	}
	commit := func(id string, since uint64) (tiers.Committed, error) {
		return tier.Commit(t.Context(), tiers.Commit{
			ID: id, Since: since, Rows: []tiers.Row{row("cache", id)},
			RowReads: []tiers.RowRead{{Tier: "cache", Read: tiers.Read{Key: key("other"), Version: 9}}},
		})
	}
	if _, err := commit("before", 40); !errors.Is(err, tiers.ErrConflict) {
		t.Errorf("from before the migration: %v, want %v, since nobody knows what was applied then", err, tiers.ErrConflict)
	}
	out, err := commit("after", 41)
	if err != nil || out.Rows[0].Seq != 42 || out.Rows[0].Version <= 77 {
		t.Fatalf("got %+v, %v", out, err)
	}
	if err := tier.Done(t.Context(), []tiers.Row{waits, out.Rows[0]}); err != nil {
		t.Fatal(err)
	}
	if b, err := tier.Backlog(t.Context(), "cache"); err != nil || b.Rows != 0 || b.Bytes != 0 {
		t.Errorf("when all is applied the backlog is %+v, %v", b, err)
	}
}

func TestAMigrationThatFailsChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	makeOld(t, path)
	db := rawDB(t, path)
	execRaw(t, db, "CREATE TABLE sessions (mine INTEGER)") // in the way of the second half of the migration
	_ = db.Close()
	if _, err := Open(t.Context(), Config{Path: path}); err == nil {
		t.Fatal("it opens")
	}
	db = rawDB(t, path)
	var schema, journals int
	if err := db.QueryRow("PRAGMA user_version").Scan(&schema); err != nil {
		t.Fatal(err)
	}
	if err := db.QueryRow("SELECT count(*) FROM sqlite_schema WHERE name IN ('journal', 'facts')").Scan(&journals); err != nil {
		t.Fatal(err)
	}
	if schema != 1 || journals != 0 {
		t.Errorf("schema %d with %d new tables, want the old one whole", schema, journals)
	}
}

func TestAMigrationIsRefusedWhileOthersHaveTheFileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	makeOld(t, path)
	other, err := openPresence(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.close() }()
	if ok, err := other.lock.try(false); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := other.pids.join(); err != nil {
		t.Fatal(err)
	}
	before := sumOf(path)
	_, err = open(t.Context(), Config{Path: path}, surroundings{network: networkKind, patience: 100 * time.Millisecond})
	if !errors.Is(err, tiers.ErrUnavailable) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Fatalf("got %v, want an error that names process %d", err, os.Getpid())
	}
	if sumOf(path) != before {
		t.Error("the file was changed")
	}
}

func TestManyMayOpenANewFileAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			tier, err := Open(context.Background(), Config{Path: path})
			if err != nil {
				t.Error(err)
				return
			}
			_, err = tier.Save(context.Background(), plainJSON(fmt.Sprint(i), `1`), tiers.Cond{})
			if err := errors.Join(err, tier.Close(context.Background())); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestMemoryIsOnePrivateStore(t *testing.T) {
	a, b := mustOpen(t, Config{Path: Memory}), mustOpen(t, Config{Path: Memory})
	if _, err := a.Save(t.Context(), plainJSON("u1", `1`), tiers.Cond{}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := a.Load(context.Background(), key("u1")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if _, err := b.Load(t.Context(), key("u1")); !errors.Is(err, tiers.ErrNotFound) {
		t.Errorf("another store answers %v", err)
	}
	if _, err := os.Stat(Memory); err == nil {
		t.Error("a file of that name was made")
	}
}

func TestAWrongSynchronousIsRefused(t *testing.T) {
	if _, err := Open(t.Context(), Config{Path: Memory, Synchronous: "off"}); err == nil || !strings.Contains(err.Error(), `"full"`) {
		t.Fatalf("got %v", err)
	}
}

func TestDriverOpensFromOptions(t *testing.T) {
	dir := t.TempDir()
	d := Driver()
	for _, c := range []struct{ set, want string }{{"", filepath.Join(dir, "sage.db")}, {filepath.Join(dir, "own.db"), filepath.Join(dir, "own.db")}} {
		tier, err := d.Open(t.Context(), tiers.Env{Dir: dir, Options: func(into any) error {
			into.(*Options).Path = c.set
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if got := tiers.Describe(tier).Place; got != c.want {
			t.Errorf("it is at %s, want %s", got, c.want)
		}
		if err := tier.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
