package manager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/internal/routetest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	every "github.com/sagestore/sagestore/tiers/all"
)

const movedCategory = "app.notes"

// migration is a store whose category is moved from home to home.
type migration struct {
	dir, redis string
	category   config.Category
}

func (g migration) config(tier string) *config.Config {
	g.category.Tier = tier
	cfg := &config.Config{
		DataDir: g.dir, Categories: map[string]config.Category{movedCategory: g.category},
		Encryption: config.Encryption{Current: "one", Keys: map[string]config.Secret{"one": config.Secret(strings.Repeat("ab", 32))}},
	}
	if g.redis != "" {
		cfg.Redis = &config.Redis{URL: config.Secret(g.redis)}
	}
	return cfg
}

func (g migration) open(t testing.TB, tier string) *manager.Manager {
	t.Helper()
	return value[*manager.Manager](t)(manager.Open(t.Context(), g.config(tier), everyTier(), manager.WithoutJobs()))
}

func (g migration) migrate(ctx context.Context, tier string, o manager.MigrateOptions) (manager.CategoryMigrated, error) {
	o.Stopped = routetest.OnPostgres()
	return manager.MigrateCategory(ctx, g.config(tier), everyTier(), movedCategory, o)
}

func everyTier() tiers.Drivers { return routetest.Drivers(every.Tiers()) }

// records answers what the category holds in a tier, as it is stored.
func (g migration) records(t testing.TB, home, tier string) []tiers.Record {
	t.Helper()
	m := g.open(t, home)
	defer closeNow(t, m)
	return value[[]tiers.Record](t)(m.RawRecords(t.Context(), tier, movedCategory))
}

// fill saves records of every shape.
func (g migration) fill(t testing.TB, tier string) {
	t.Helper()
	ctx, m := t.Context(), g.open(t, tier)
	defer closeNow(t, m)
	for _, ns := range []string{"", "acme"} {
		v := m.Namespace(ns)
		shapes := []any{
			map[string]any{"text": "plain", "n": 12.5},
			"",
			nil,
			strings.Repeat("long ", 4000),
			"a\x00b ü \u2028",
			manager.Encoded{Codec: "raw", Value: []byte{0, 255, 1}},
			manager.Encoded{Codec: "raw", Value: []byte{}},
			manager.Encoded{Codec: "json", Schema: 3, Value: []byte(`{"b": 1, "a": [1, 2]}`)},
		}
		for i, raw := range shapes {
			must(t, v.Save(ctx, movedCategory, fmt.Sprintf("s-%d/%%_*.json", i), raw))
		}
		must(t, v.Save(ctx, movedCategory, "s-ttl", "x", manager.TTL(time.Hour)))
		must(t, v.Save(ctx, movedCategory, "s-instant", "x", manager.ExpiresAt(time.Date(2199, 1, 2, 3, 4, 5, 6000, time.UTC))))
		must(t, v.Save(ctx, movedCategory, "s-again", "first"))
		value[bool](t)(v.Delete(ctx, movedCategory, "s-again"))
		must(t, v.Save(ctx, movedCategory, "s-again", "second"))
		must(t, v.Save(ctx, movedCategory, "s-again", "third"))
		must(t, v.Save(ctx, movedCategory, strings.Repeat("k", 1024), "long key"))
	}
}

func equalRecords(t testing.TB, got, want []tiers.Record, why string) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s (-want +got):\n%s", why, d)
	}
}

func TestMovedCategoryKeepsAllOfItsRecords(t *testing.T) {
	t.Parallel()
	for _, pair := range []string{
		"database file", "file database", "database cache", "cache database", "file cache", "cache file",
		"database redis", "redis database", "file redis", "redis file",
	} {
		t.Run(pair, func(t *testing.T) {
			t.Parallel()
			from, to, _ := strings.Cut(pair, " ")
			for name, c := range map[string]config.Category{
				"plain": {}, "session": {Codec: "msgpack", Encrypt: new(true), CompressOver: "1KiB", TTL: config.UntilSessionEnds},
			} {
				g := migration{dir: t.TempDir(), category: c}
				if strings.Contains(pair, "redis") {
					g.redis = redistest.Start(t).URL()
				}
				from, to := strings.ReplaceAll(from, "redis", "cache"), strings.ReplaceAll(to, "redis", "cache")
				g.fill(t, from)
				want := g.records(t, from, from)
				if len(want) < 20 {
					t.Fatalf("%s: only %d records", name, len(want))
				}

				_, err := manager.Open(t.Context(), g.config(to), everyTier())
				if !contains(err, "`sagestore migrate --category app.notes` moves them") {
					t.Errorf("%s: the error of Open names no way: %v", name, err)
				}
				dry := value[manager.CategoryMigrated](t)(g.migrate(t.Context(), to, manager.MigrateOptions{DryRun: true}))
				if dry.Records != int64(len(want)) || dry.Removed != 0 || dry.Hash != "" {
					t.Errorf("%s: a dry run answers %+v", name, dry)
				}
				equalRecords(t, g.records(t, from, from), want, name+": after a dry run")

				done := value[manager.CategoryMigrated](t)(g.migrate(t.Context(), to, manager.MigrateOptions{}))
				if done.Records != int64(len(want)) || done.Removed != done.Records || done.Hash == "" || done.From != from || done.To != to {
					t.Errorf("%s: %+v", name, done)
				}
				equalRecords(t, g.records(t, to, to), want, name+": in the new home")
				equalRecords(t, g.records(t, to, from), nil, name+": in the old home")
				again := value[manager.CategoryMigrated](t)(g.migrate(t.Context(), to, manager.MigrateOptions{}))
				if again.From != again.To || again.Records != 0 {
					t.Errorf("%s: the second time %+v", name, again)
				}
				if c.TTL == config.UntilSessionEnds {
					m := g.open(t, to)
					must(t, m.EndSession(t.Context(), "s-ttl"))
					if ok := value[bool](t)(m.Exists(t.Context(), movedCategory, "s-ttl")); ok {
						t.Error("a record outlives its session in the new home")
					}
					closeNow(t, m)
				}
			}
		})
	}
}

// migratingChild kills itself at a step of a migration.
func migratingChild(ctx context.Context) error {
	at, err := strconv.Atoi(os.Getenv("SAGESTORE_TEST_AT"))
	if err != nil {
		return err
	}
	g := migration{dir: os.Getenv("SAGESTORE_TEST_DIR")}
	_, err = g.migrate(ctx, os.Getenv("SAGESTORE_TEST_TO"), manager.MigrateOptions{Progress: func(manager.MigrateProgress) {
		if at--; at == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}})
	return err
}

func TestKilledMigrationGoesOn(t *testing.T) {
	t.Parallel()
	rounds := 1
	if n, err := strconv.Atoi(os.Getenv("SAGESTORE_KILLS")); err == nil {
		rounds = max(1, n/26)
	}
	for round := range rounds {
		killEachStep(t, "database", "file", 20, round)
		killEachStep(t, "cache", "database", 300, round) // in two batches
	}
}

func killEachStep(t *testing.T, from, to string, records, round int) {
	t.Helper()
	ctx, first := t.Context(), migration{dir: t.TempDir()}
	fill := func(g migration) {
		m := g.open(t, from)
		defer closeNow(t, m)
		var all []tiers.Record
		for i := range records {
			all = append(all, tiers.Record{
				Key:   tiers.Key{Category: movedCategory, Name: fmt.Sprintf("k-%03d", i)},
				Value: fmt.Appendf(nil, `"%d of %d"`, i, round), Codec: "json", Schema: 1, Version: tiers.Version(1000 + i), Created: start, Updated: start,
			})
		}
		must(t, m.ApplyRaw(ctx, from, all...))
		must(t, m.Save(ctx, movedCategory, "last", "v")) // which makes the category known
	}
	fill(first)
	for at := 1; ; at++ {
		g := migration{dir: filepath.Join(t.TempDir(), "store")}
		if routetest.OnPostgres() {
			fill(g)
		} else {
			must(t, os.CopyFS(g.dir, os.DirFS(first.dir)))
		}
		want := g.records(t, from, from)

		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), "SAGESTORE_TEST_CHILD=migrate", "SAGESTORE_TEST_DIR="+g.dir, "SAGESTORE_TEST_TO="+to, "SAGESTORE_TEST_AT="+strconv.Itoa(at))
		out, err := cmd.CombinedOutput()
		if err == nil {
			if at < 6 {
				t.Errorf("it was over after %d steps", at)
			}
			return
		}
		if cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("%v\n%s", err, out)
		}
		// A program that still runs with the old configuration goes on, or is refused.
		if old, err := manager.Open(ctx, g.config(from), everyTier(), manager.WithoutJobs()); err == nil {
			must(t, old.Save(ctx, movedCategory, "k-000", "changed since"))
			value[bool](t)(old.Delete(ctx, movedCategory, "k-001"))
			must(t, old.Save(ctx, movedCategory, "new", "saved since"))
			want = value[[]tiers.Record](t)(old.RawRecords(ctx, from, movedCategory))
			closeNow(t, old)
		} else if !contains(err, "sagestore migrate --category app.notes") {
			t.Fatalf("killed at %d: %v", at, err)
		}
		value[manager.CategoryMigrated](t)(g.migrate(ctx, to, manager.MigrateOptions{}))
		why := fmt.Sprintf("%s to %s, killed at %d", from, to, at)
		equalRecords(t, g.records(t, to, to), want, why+": in the new home")
		equalRecords(t, g.records(t, to, from), nil, why+": in the old home")
	}
}

// interrupted begins to move the category from the database to files, and stops when
// the copies are there.
func (g migration) interrupted(t *testing.T, step string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := g.migrate(ctx, "file", manager.MigrateOptions{Progress: func(p manager.MigrateProgress) {
		if p.Step == step && p.Done == p.Total {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("it was not interrupted: %v", err)
	}
}

func TestCopiesOfAnInterruptedMigrationNeverComeToLight(t *testing.T) {
	t.Parallel()
	g := migration{dir: t.TempDir()}
	g.fill(t, "database")
	g.interrupted(t, "copy")
	ctx, m := t.Context(), g.open(t, "database")
	for _, ns := range []string{"", "acme"} {
		for i, err := range m.Namespace(ns).List(ctx, movedCategory) {
			must(t, err)
			value[bool](t)(m.Namespace(ns).Delete(ctx, movedCategory, i.Key))
		}
	}
	closeNow(t, m)
	_, err := manager.Open(ctx, g.config("file"), everyTier())
	if !contains(err, "a migration from database to file was interrupted") || !contains(err, "goes on with it") {
		t.Errorf("opened with the copies as records: %v", err)
	}
	done := value[manager.CategoryMigrated](t)(g.migrate(ctx, "file", manager.MigrateOptions{}))
	if done.Records != 0 || !done.Resumed {
		t.Errorf("%+v", done)
	}
	equalRecords(t, g.records(t, "file", "file"), nil, "what was deleted")
}

func TestMigrationThatWasGivenUpLeavesNoCopies(t *testing.T) {
	t.Parallel()
	g := migration{dir: t.TempDir()}
	g.fill(t, "database")
	want := g.records(t, "database", "database")
	g.interrupted(t, "copy")
	done := value[manager.CategoryMigrated](t)(g.migrate(t.Context(), "database", manager.MigrateOptions{}))
	if done.From != done.To {
		t.Errorf("%+v", done)
	}
	equalRecords(t, g.records(t, "database", "file"), nil, "copies")
	equalRecords(t, g.records(t, "database", "database"), want, "records")
}

func TestLeftoversOfAMigrationNeverComeToLight(t *testing.T) {
	t.Parallel()
	g := migration{dir: t.TempDir()}
	g.fill(t, "database")
	want := g.records(t, "database", "database")
	g.interrupted(t, "switch")
	equalRecords(t, g.records(t, "file", "file"), want, "in the new home")
	_, err := manager.Open(t.Context(), g.config("database"), everyTier())
	if !contains(err, "a migration from database to file was interrupted") {
		t.Errorf("opened with what is left over: %v", err)
	}
	done := value[manager.CategoryMigrated](t)(g.migrate(t.Context(), "database", manager.MigrateOptions{})) // and back
	if done.From != "file" || done.To != "database" || done.Records != int64(len(want)) {
		t.Errorf("%+v", done)
	}
	equalRecords(t, g.records(t, "database", "database"), want, "back again")
}

func TestMigrationIsRefusedBeforeAnythingChanges(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	note := func(name, text string, v tiers.Version) tiers.Record {
		return tiers.Record{Key: tiers.Key{Category: movedCategory, Name: name}, Value: []byte(text), Codec: "json", Schema: 1, Version: v, Created: start, Updated: start}
	}
	for _, c := range []struct {
		why, to string
		held    []tiers.Record
		want    error
		says    []string
	}{
		{why: "memory keeps nothing", to: "memory", want: tiers.ErrUnsupported, says: []string{"is the memory of one process"}},
		{
			why: "the new home holds another version that is not older", to: "file", want: tiers.ErrConflict, says: []string{`"s-again"`, `"other": only tier file has it`, "2 records"},
			held: []tiers.Record{note("s-again", `"newer"`, 1<<52), note("other", `"x"`, 7), note("s-ttl", `"older"`, 1)},
		},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			g := migration{dir: t.TempDir()}
			g.fill(t, "database")
			m := g.open(t, "database")
			must(t, m.ApplyRaw(ctx, "file", c.held...))
			closeNow(t, m)
			want := g.records(t, "database", "database")
			_, err := g.migrate(ctx, c.to, manager.MigrateOptions{})
			wantError(t, err, c.want, c.why)
			for _, text := range c.says {
				if !contains(err, text) {
					t.Errorf("%v does not say %s", err, text)
				}
			}
			equalRecords(t, g.records(t, "database", "database"), want, "afterwards")
		})
	}
}

func TestRecordsThatCantBeReadAreNamedBeforeAnythingMoves(t *testing.T) {
	t.Parallel()
	g := migration{dir: t.TempDir()}
	g.fill(t, "file")
	damaged := 0
	must(t, filepath.WalkDir(g.dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".raw.sage") && !strings.HasPrefix(filepath.Base(path), ".") {
			damaged++
			err = os.WriteFile(path, []byte("no envelope"), 0o600)
		}
		return err
	}))
	_, err := g.migrate(t.Context(), "database", manager.MigrateOptions{})
	wantError(t, err, tiers.ErrCorrupt, "damaged files")
	if damaged != 4 || !contains(err, "4 records, and nothing was moved") || !contains(err, `"s-5/%_*.json" in namespace acme`) {
		t.Errorf("%d files were damaged: %v", damaged, err)
	}
	m := g.open(t, "file")
	defer closeNow(t, m)
	if moved := value[[]tiers.Record](t)(m.RawRecords(t.Context(), "database", movedCategory)); len(moved) > 0 {
		t.Errorf("%d records were moved", len(moved))
	}
}

func TestOlderRecordsOfTheNewHomeAreReplaced(t *testing.T) {
	t.Parallel()
	g := migration{dir: t.TempDir()}
	g.fill(t, "database")
	want := g.records(t, "database", "database")
	m := g.open(t, "database")
	must(t, m.ApplyRaw(t.Context(), "file", tiers.Record{
		Key: tiers.Key{Category: movedCategory, Name: "s-ttl"}, Value: []byte(`"old"`), Codec: "json", Schema: 1, Version: 1, Created: start, Updated: start,
	}))
	closeNow(t, m)
	value[manager.CategoryMigrated](t)(g.migrate(t.Context(), "file", manager.MigrateOptions{}))
	equalRecords(t, g.records(t, "file", "file"), want, "in the new home")
}

func TestMigrationNeedsTheStoreForItself(t *testing.T) {
	t.Parallel()
	if routetest.OnPostgres() {
		t.Skip("a server can't tell who has a store open")
	}
	g := migration{dir: t.TempDir()}
	g.fill(t, "database")
	m := g.open(t, "database")
	_, err := g.migrate(t.Context(), "file", manager.MigrateOptions{})
	wantError(t, err, tiers.ErrUnavailable, "another handle has the store open")
	if !contains(err, "process "+strconv.Itoa(os.Getpid())+" has it open") {
		t.Errorf("it does not name the owner: %v", err)
	}
	closeNow(t, m)
}

func TestMigrationWaitsForNoServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	g := migration{dir: t.TempDir(), redis: server.URL()}
	m := g.open(t, "cache")
	must(t, m.Save(t.Context(), movedCategory, "before", "v"))
	closeNow(t, m)
	server.Kill()
	_, err := g.migrate(t.Context(), "database", manager.MigrateOptions{})
	wantError(t, err, tiers.ErrUnavailable, "the server of the old home is away")
	m = g.open(t, "cache")
	must(t, m.Save(t.Context(), movedCategory, "while-away", "waits in the journal"))
	closeNow(t, m)
	server.Restart()
	value[manager.CategoryMigrated](t)(g.migrate(t.Context(), "database", manager.MigrateOptions{}))
	m = g.open(t, "database")
	defer closeNow(t, m)
	if ok := value[bool](t)(m.Exists(t.Context(), movedCategory, "while-away")); !ok {
		t.Error("what waited in the journal was lost")
	}
}

func TestFullDiskLosesNothingOfAMigration(t *testing.T) {
	t.Parallel()
	small := t.TempDir()
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=128k,mode=700"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(small, syscall.MNT_DETACH)) })
	g := migration{dir: t.TempDir()}
	must(t, os.Symlink(small, filepath.Join(g.dir, "data")))
	m := g.open(t, "database")
	must(t, m.Save(t.Context(), movedCategory, "small", "x"))
	must(t, m.Save(t.Context(), movedCategory, "large", strings.Repeat("x", 200<<10)))
	closeNow(t, m)
	want := g.records(t, "database", "database")
	_, err := g.migrate(t.Context(), "file", manager.MigrateOptions{})
	wantError(t, err, tiers.ErrFull, "the disk is full")
	equalRecords(t, g.records(t, "database", "database"), want, "afterwards")
	must(t, syscall.Mount("", small, "", syscall.MS_REMOUNT, "size=16m"))
	value[manager.CategoryMigrated](t)(g.migrate(t.Context(), "file", manager.MigrateOptions{}))
	equalRecords(t, g.records(t, "file", "file"), want, "with room")
}

func TestNothingToMove(t *testing.T) {
	t.Parallel()
	g := migration{dir: t.TempDir()}
	done := value[manager.CategoryMigrated](t)(g.migrate(t.Context(), "file", manager.MigrateOptions{}))
	if done.From != done.To || done.Records != 0 {
		t.Errorf("%+v", done)
	}
	_, err := manager.MigrateCategory(t.Context(), g.config("file"), everyTier(), "app.note", manager.MigrateOptions{Stopped: true})
	wantError(t, err, tiers.ErrCategory, "a category that there is not")
	if !contains(err, "app.notes") {
		t.Errorf("it does not name the nearest: %v", err)
	}
	m := g.open(t, "memory")
	must(t, m.Save(t.Context(), movedCategory, "k", "v"))
	closeNow(t, m)
	_, err = g.migrate(t.Context(), "file", manager.MigrateOptions{})
	wantError(t, err, tiers.ErrUnsupported, "the home was memory")
}
