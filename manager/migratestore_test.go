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

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/pgtest"
	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	every "github.com/sagestore/sagestore/tiers/all"
	"github.com/sagestore/sagestore/tiers/database"
	"github.com/sagestore/sagestore/tiers/database/postgres"
)

// engines is a store whose database is a file of SQLite, or a schema of PostgreSQL.
type engines struct{ dir, url, schema, redis string }

func newEngines(t testing.TB) engines {
	t.Helper()
	pgtest.Shared(t)
	dir := t.TempDir()
	return engines{dir: dir, url: value[string](t)(pgtest.SharedURL()), schema: schemaBy(dir)}
}

// schemaBy names a schema of its own for a directory.
func schemaBy(dir string) string {
	return "m_" + strings.NewReplacer("/", "_", "-", "_").Replace(strings.ToLower(dir[max(0, len(dir)-40):]))
}

func (e engines) config(driver string) *config.Config {
	cfg := &config.Config{DataDir: e.dir, Categories: map[string]config.Category{
		movedCategory: {Tier: "database"}, "app.file": {Tier: "file"}, "app.cached": {Tier: "cache"},
	}}
	if cfg.Database.Driver = driver; driver == "postgres" {
		cfg.Postgres = &config.Postgres{URL: config.Secret(e.url), Schema: e.schema}
	}
	if e.redis != "" {
		cfg.Redis = &config.Redis{URL: config.Secret(e.redis)}
	}
	return cfg
}

func (e engines) open(t testing.TB, driver string) *manager.Manager {
	t.Helper()
	return value[*manager.Manager](t)(manager.Open(t.Context(), e.config(driver), every.Tiers(), manager.WithoutJobs()))
}

func (e engines) migrate(ctx context.Context, from, to string, o manager.MigrateOptions) (manager.StoreMigrated, error) {
	o.Stopped = true
	return manager.MigrateStore(ctx, e.config(from), e.config(to), every.Tiers(), o)
}

// raw opens the database alone.
func (e engines) raw(t testing.TB, driver string) tiers.Tier {
	t.Helper()
	if driver == "postgres" {
		return value[*postgres.Tier](t)(postgres.Open(t.Context(), postgres.Config{URL: e.url, Schema: e.schema, Pool: 2}))
	}
	return value[*database.Tier](t)(database.Open(t.Context(), database.Config{Path: filepath.Join(e.dir, "sage.db")}))
}

// holdings are all that a store keeps, rows by the names that SQLite gives them.
type holdings struct {
	Records   []tiers.Record
	Sessions  []tiers.Session
	Decisions []tiers.Decision
	Facts     map[string]string
	Rows      []tiers.Row
	Marks     tiers.Marks
}

func (e engines) holdings(t testing.TB, driver string) (h holdings) {
	t.Helper()
	ctx, raw := t.Context(), e.raw(t, driver)
	defer func() { must(t, raw.Close(context.WithoutCancel(ctx))) }()
	local := func(name string) string {
		tier, rest, dotted := strings.Cut(name, ".")
		tier, _, _ = strings.Cut(tier, "@")
		if dotted {
			return tier + "." + rest
		}
		return tier
	}
	for s, err := range raw.Spaces(ctx) {
		must(t, err)
		for r, err := range raw.List(ctx, tiers.Query{Namespace: s.Namespace, Category: s.Category}) {
			must(t, err)
			h.Records = append(h.Records, r)
		}
	}
	c, ok := tiers.As[tiers.Carrier](raw)
	system, ok2 := tiers.As[tiers.System](raw)
	if !ok || !ok2 {
		t.Fatalf("%s carries no books", driver)
	}
	for s, err := range system.ListSessions(ctx) {
		must(t, err)
		h.Sessions = append(h.Sessions, s)
	}
	for d, err := range c.Decisions(ctx) {
		must(t, err)
		h.Decisions = append(h.Decisions, d)
	}
	h.Facts = map[string]string{}
	for f, err := range system.Facts(ctx, "") {
		must(t, err)
		if f.Name != "carrying" {
			h.Facts[local(f.Name)] = string(f.Value)
		}
	}
	h.Rows = value[[]tiers.Row](t)(c.Queue(ctx, 0, 1000))
	for i := range h.Rows {
		h.Rows[i].Tier = local(h.Rows[i].Tier)
	}
	h.Marks = value[tiers.Marks](t)(c.Marks(ctx))
	return h
}

func equalHoldings(t testing.TB, got, want holdings, why string) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(holdings{}, "Marks"), cmp.AllowUnexported(tiers.Cond{})); d != "" {
		t.Errorf("%s (-want +got):\n%s", why, d)
	}
	if got.Marks.Version < want.Marks.Version || got.Marks.Sequence < want.Marks.Sequence {
		t.Errorf("%s: it counts from %+v on, and was at %+v", why, got.Marks, want.Marks)
	}
}

// fill saves what a store of agents has.
func (e engines) fill(t testing.TB, driver string) {
	t.Helper()
	ctx, m := t.Context(), e.open(t, driver)
	defer closeNow(t, m)
	for _, ns := range []string{"", "acme"} {
		v := m.Namespace(ns)
		for i, raw := range []any{
			map[string]any{"text": "plain", "n": 12.5},
			"", nil, strings.Repeat("long ", 4000), "a\x00b ü \u2028",
			manager.Encoded{Codec: "raw", Value: []byte{0, 255, 1}},
			manager.Encoded{Codec: "json", Schema: 3, Value: []byte(`{"b": 1}`)},
		} {
			must(t, v.Save(ctx, movedCategory, fmt.Sprintf("s-%d/%%_*.json", i), raw))
		}
		must(t, v.Save(ctx, movedCategory, "ttl", "x", manager.TTL(time.Hour)))
		must(t, v.Save(ctx, movedCategory, "again", "first"))
		must(t, v.Save(ctx, movedCategory, "again", "second"))
		must(t, v.Save(ctx, movedCategory, strings.Repeat("k", 1024), "long key"))
		must(t, v.Save(ctx, "session.preferences", "user", "dark"))
		must(t, v.Save(ctx, "app.file", "in-a-file", "stays"))
		for range 2 {
			_, err := v.Once(ctx, "charge/1", func(tx *manager.Tx) error {
				return errors.Join(tx.Save(ctx, movedCategory, "charged", "once"), tx.Save(ctx, "app.file", "charged", "once"))
			})
			must(t, err)
		}
	}
	agents := agent.New(m)
	must(t, agents.Save(ctx, agent.NewState("support", "Support", "gpt-5")))
	conversation := agent.NewConversation("support")
	must(t, agents.SaveConversation(ctx, conversation))
	for i := range 20 {
		value[uint64](t)(agents.AppendMessage(ctx, conversation.ID, agent.NewMessage(agent.User, fmt.Sprintf("message %d about parcels", i))))
	}
	value[agent.CheckpointInfo](t)(agents.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "support", Name: "one"}))
	for _, id := range []string{"goes-on", "ended", "again"} {
		value[tiers.Session](t)(m.StartRawSession(ctx, "acme", id))
	}
	must(t, m.Namespace("acme").EndSession(ctx, "ended"))
	must(t, m.Namespace("acme").EndSession(ctx, "again"))
	value[tiers.Session](t)(m.StartRawSession(ctx, "", "of-none"))
}

func TestStoreMovesBetweenEnginesWithAllItHas(t *testing.T) {
	t.Parallel()
	for _, way := range [][2]string{{"sqlite", "postgres"}, {"postgres", "sqlite"}} {
		t.Run(way[0]+" to "+way[1], func(t *testing.T) {
			t.Parallel()
			from, to := way[0], way[1]
			server := redistest.Start(t)
			e := newEngines(t)
			e.redis = server.URL()
			e.fill(t, from)
			server.Kill()
			m := e.open(t, from)
			must(t, m.Save(t.Context(), "app.cached", "waits", "for the server"))
			closeNow(t, m)
			want := e.holdings(t, from)
			if len(want.Records) < 40 || len(want.Sessions) == 0 || len(want.Decisions) == 0 || len(want.Facts) < 5 || len(want.Rows) == 0 {
				t.Fatalf("the store is not full: %d records, %d sessions, %d transactions, %d facts, %d rows",
					len(want.Records), len(want.Sessions), len(want.Decisions), len(want.Facts), len(want.Rows))
			}
			waiting := int64(0)
			for _, r := range want.Rows {
				if r.Tier == "cache" { // and no guard
					waiting++
				}
			}
			dry := value[manager.StoreMigrated](t)(e.migrate(t.Context(), from, to, manager.MigrateOptions{DryRun: true}))
			if dry.Records != int64(len(want.Records)) || dry.Waiting != waiting || waiting == 0 {
				t.Errorf("a dry run answers %+v", dry)
			}
			done := value[manager.StoreMigrated](t)(e.migrate(t.Context(), from, to, manager.MigrateOptions{}))
			if done.Records != int64(len(want.Records)) || done.Sessions != int64(len(want.Sessions)) || done.Transactions != int64(len(want.Decisions)) ||
				done.Facts != int64(len(want.Facts)) || done.Waiting != waiting || done.From != from || done.To != to || done.Resumed {
				t.Errorf("%+v", done)
			}
			for _, c := range done.Categories {
				if len(c.Hash) != 64 || c.Records == 0 {
					t.Errorf("category %s: %+v", c.Category, c)
				}
			}
			equalHoldings(t, e.holdings(t, to), want, "in the new store")
			equalHoldings(t, e.holdings(t, from), want, "in the old store")

			server.Restart()
			m = e.open(t, to)
			defer closeNow(t, m)
			value[map[string]int64](t)(m.ApplyPending(t.Context(), "cache", false))
			for _, k := range [][2]string{{movedCategory, "again"}, {"app.file", "in-a-file"}, {"app.cached", "waits"}, {movedCategory, "charged"}} {
				if ok := value[bool](t)(m.Exists(t.Context(), k[0], k[1])); !ok {
					t.Errorf("%s of %s is not there", k[1], k[0])
				}
			}
			ran := value[bool](t)(m.Once(t.Context(), "charge/1", func(*manager.Tx) error { return nil }))
			if ran {
				t.Error("what was done once was done again")
			}
			agents := agent.New(m)
			a := value[*agent.State](t)(agents.Load(t.Context(), "support"))
			c := value[*agent.Conversation](t)(agents.LoadConversation(t.Context(), a.Active[0], agent.Page{Limit: 100}))
			if c.Count != 20 {
				t.Errorf("the conversation has %d messages", c.Count)
			}
			must(t, m.Save(t.Context(), movedCategory, "again", "third"))
		})
	}
}

// carryingChild kills itself at a step of a migration.
func carryingChild(ctx context.Context) error {
	at, err := strconv.Atoi(os.Getenv("SAGESTORE_TEST_AT"))
	if err != nil {
		return err
	}
	e := engines{dir: os.Getenv("SAGESTORE_TEST_DIR"), url: os.Getenv("SAGESTORE_TEST_URL"), schema: os.Getenv("SAGESTORE_TEST_SCHEMA")}
	_, err = e.migrate(ctx, os.Getenv("SAGESTORE_TEST_FROM"), os.Getenv("SAGESTORE_TEST_TO"), manager.MigrateOptions{Progress: func(p manager.MigrateProgress) {
		if p.Step == "check" {
			return
		}
		if at--; at == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}})
	return err
}

func TestKilledMigrationOfAStoreGoesOn(t *testing.T) {
	t.Parallel()
	for _, way := range [][2]string{{"sqlite", "postgres"}, {"postgres", "sqlite"}} {
		t.Run(way[0]+" to "+way[1], func(t *testing.T) {
			t.Parallel()
			e := newEngines(t)
			e.fill(t, way[0])
			want := e.holdings(t, way[0])
			kills := 0
			for at := 1; at < 60; at += 2 { // each run goes on where the last one was killed
				cmd := exec.CommandContext(t.Context(), os.Args[0])
				cmd.Env = append(os.Environ(), "SAGESTORE_TEST_CHILD=carry", "SAGESTORE_TEST_DIR="+e.dir, "SAGESTORE_TEST_URL="+e.url,
					"SAGESTORE_TEST_SCHEMA="+e.schema, "SAGESTORE_TEST_FROM="+way[0], "SAGESTORE_TEST_TO="+way[1], "SAGESTORE_TEST_AT="+strconv.Itoa(at))
				out, err := cmd.CombinedOutput()
				if err == nil {
					break
				}
				if cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("%v\n%s", err, out)
				}
				kills++
				_, err = manager.Open(t.Context(), e.config(way[1]), every.Tiers())
				if !errors.Is(err, tiers.ErrUnavailable) || !contains(err, "a migration into this store is not over") {
					t.Fatalf("killed at %d, half of the store was opened: %v", at, err)
				}
			}
			if kills < 5 {
				t.Errorf("it was killed %d times only", kills)
			}
			equalHoldings(t, e.holdings(t, way[1]), want, "in the new store")
			equalHoldings(t, e.holdings(t, way[0]), want, "in the old store")
			closeNow(t, e.open(t, way[1]))
		})
	}
}

func TestMigrationOfAStoreFindsWhatChangesUnderIt(t *testing.T) {
	t.Parallel()
	e := newEngines(t)
	e.fill(t, "sqlite")
	other := e.raw(t, "postgres")
	defer func() { must(t, other.Close(context.WithoutCancel(t.Context()))) }()
	k := tiers.Key{Category: movedCategory, Name: "again"}
	for _, c := range []struct {
		why, says string
		change    func() error
	}{
		{why: "a record is saved behind the copies", says: `"again": it arrived changed`, change: func() error {
			_, err := other.Save(t.Context(), tiers.Record{Key: k, Codec: "json", Value: []byte(`"of somebody else"`)}, tiers.Cond{})
			return err
		}},
		{why: "a record is deleted behind the copies", says: `"again": it did not arrive`, change: func() error {
			_, err := other.Delete(t.Context(), k, tiers.Cond{})
			return err
		}},
		{why: "a session is ended behind the copies", says: "did not arrive as it is", change: func() error {
			_, _, err := other.(tiers.System).EndSession(t.Context(), "acme", "goes-on", time.Time{})
			return err
		}},
	} {
		changed := false
		_, err := e.migrate(t.Context(), "sqlite", "postgres", manager.MigrateOptions{Progress: func(p manager.MigrateProgress) {
			// The books come after the records.
			if p.Step == "copy" && p.Category == "facts" && !changed {
				changed = true
				must(t, c.change())
			}
		}})
		wantError(t, err, tiers.ErrCorrupt, c.why)
		if !contains(err, c.says) {
			t.Errorf("%s: %v does not say %s", c.why, err, c.says)
		}
	}
	done := value[manager.StoreMigrated](t)(e.migrate(t.Context(), "sqlite", "postgres", manager.MigrateOptions{}))
	if !done.Resumed {
		t.Errorf("%+v", done)
	}
	equalHoldings(t, e.holdings(t, "postgres"), e.holdings(t, "sqlite"), "in the new store")
}

func TestMigrationOfAStoreIsRefusedBeforeAnythingChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why  string
		make func(t *testing.T, e engines) (from, to *config.Config)
		want error
		says string
	}{
		{why: "the target has records", want: tiers.ErrConflict, says: "it has records of ", make: func(t *testing.T, e engines) (from, to *config.Config) {
			t.Helper()
			e.fill(t, "postgres")
			return e.config("sqlite"), e.config("postgres")
		}},
		{why: "the target has sessions", want: tiers.ErrConflict, says: "is not empty", make: func(t *testing.T, e engines) (from, to *config.Config) {
			t.Helper()
			raw := e.raw(t, "postgres")
			_, err := raw.(tiers.System).StartSession(t.Context(), "", "s")
			must(t, errors.Join(err, raw.Close(t.Context())))
			return e.config("sqlite"), e.config("postgres")
		}},
		{why: "the target was opened on Redis before", want: tiers.ErrConflict, says: "it was opened before", make: func(t *testing.T, e engines) (from, to *config.Config) {
			t.Helper()
			e.redis = redistest.Start(t).URL()
			m := e.open(t, "postgres")
			var v string
			err := m.Load(t.Context(), "app.cached", "none", &v)
			wantError(t, err, tiers.ErrNotFound, "a key that is not there")
			closeNow(t, m)
			return e.config("sqlite"), e.config("postgres")
		}},
		{why: "it is over", want: tiers.ErrConflict, says: "is this store already", make: func(t *testing.T, e engines) (from, to *config.Config) {
			t.Helper()
			_, err := e.migrate(t.Context(), "sqlite", "postgres", manager.MigrateOptions{})
			must(t, err)
			return e.config("sqlite"), e.config("postgres")
		}},
		{why: "the target holds another store's half", want: tiers.ErrConflict, says: "an unfinished migration of another one", make: func(t *testing.T, e engines) (from, to *config.Config) {
			t.Helper()
			raw := e.raw(t, "postgres")
			_, err := raw.(tiers.System).SetFact(t.Context(), "carrying", []byte(`{"epoch":"x","from":"sqlite"}`), false)
			must(t, errors.Join(err, raw.Close(t.Context())))
			return e.config("sqlite"), e.config("postgres")
		}},
		{why: "there is no source", want: tiers.ErrNotFound, says: "there is no store in", make: func(t *testing.T, e engines) (from, to *config.Config) {
			t.Helper()
			to = e.config("sqlite")
			to.SQLite.Path = filepath.Join(e.dir, "other.db")
			return e.config("postgres"), to
		}},
		{why: "there is no file", want: tiers.ErrNotFound, says: "there is no store at", make: func(_ *testing.T, e engines) (from, to *config.Config) {
			from = e.config("sqlite")
			from.SQLite.Path = filepath.Join(e.dir, "absent.db")
			return from, e.config("postgres")
		}},
		{why: "both are one store", want: tiers.ErrConflict, says: "both configurations name the store in", make: func(_ *testing.T, e engines) (from, to *config.Config) {
			return e.config("sqlite"), e.config("sqlite")
		}},
		{why: "the files are elsewhere", want: tiers.ErrUnsupported, says: "only the database moves", make: func(t *testing.T, e engines) (from, to *config.Config) {
			t.Helper()
			to = e.config("postgres")
			to.File.BasePath = t.TempDir()
			return e.config("sqlite"), to
		}},
		{why: "memory", want: tiers.ErrUnsupported, says: "lives in memory", make: func(_ *testing.T, e engines) (from, to *config.Config) {
			return e.config("sqlite"), config.InMemory()
		}},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			e := newEngines(t)
			m := e.open(t, "sqlite")
			must(t, m.Save(t.Context(), movedCategory, "k", "v"))
			closeNow(t, m)
			want := e.holdings(t, "sqlite")
			from, to := c.make(t, e)
			var before holdings
			if to.Database.Driver == "postgres" {
				before = e.holdings(t, "postgres")
			}
			_, err := manager.MigrateStore(t.Context(), from, to, every.Tiers(), manager.MigrateOptions{Stopped: true})
			wantError(t, err, c.want, c.why)
			if !contains(err, c.says) {
				t.Errorf("%v does not say %s", err, c.says)
			}
			equalHoldings(t, e.holdings(t, "sqlite"), want, "the source afterwards")
			if to.Database.Driver == "postgres" {
				equalHoldings(t, e.holdings(t, "postgres"), before, "the target afterwards")
			}
		})
	}
}

func TestMigrationOfAStoreNeedsBothForItself(t *testing.T) {
	t.Parallel()
	e := newEngines(t)
	m := e.open(t, "sqlite")
	_, err := e.migrate(t.Context(), "sqlite", "postgres", manager.MigrateOptions{})
	wantError(t, err, tiers.ErrUnavailable, "another handle has the store open")
	closeNow(t, m)
	_, err = manager.MigrateStore(t.Context(), e.config("sqlite"), e.config("postgres"), every.Tiers(), manager.MigrateOptions{})
	wantError(t, err, tiers.ErrUnsupported, "nobody can tell who has a server's store open")
	if !contains(err, "--stopped") {
		t.Errorf("%v names no way", err)
	}
}
