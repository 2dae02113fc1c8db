package config_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/tiers"
)

func places(e *config.Effective) string {
	c := e.Config()
	return strings.Join([]string{e.DataDir, c.SQLite.Path, c.File.BasePath, c.Cache.Path, e.Backup.Dest}, " ")
}

func TestDefaultPlaces(t *testing.T) {
	home := "/home/u/.sage /home/u/.sage/sage.db /home/u/.sage/data /home/u/.sage/cache /home/u/.sage/backups"
	wd, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		why  string
		cfg  config.Config
		opts []config.Option
		want string
	}{
		{"below the home directory", config.Config{}, nil, home},
		{"data_dir moves all", config.Config{DataDir: "~/x"}, nil, "/home/u/x /home/u/x/sage.db /home/u/x/data /home/u/x/cache /home/u/x/backups"},
		{"the option moves all", config.Config{DataDir: "~/x"}, []config.Option{config.DataDir("/d")}, "/d /d/sage.db /d/data /d/cache /d/backups"},
		{"a relative one is absolute", config.Config{}, []config.Option{config.DataDir("d")}, strings.ReplaceAll("W/d W/d/sage.db W/d/data W/d/cache W/d/backups", "W", wd)},
		{"the option moves defaults only", config.Config{SQLite: config.SQLite{Path: "~/sage.db"}, File: config.File{BasePath: "/f/../g"}}, []config.Option{config.DataDir("/d")}, "/d /home/u/sage.db /g /d/cache /d/backups"},
		{"the option needs no home", config.Config{}, []config.Option{config.DataDir("/d"), env(nil)}, "/d /d/sage.db /d/data /d/cache /d/backups"},
		{"the home directory itself", config.Config{DataDir: "~"}, nil, "/home/u /home/u/sage.db /home/u/data /home/u/cache /home/u/backups"},
		{"what is no path stays", config.Config{DataDir: "/d", SQLite: config.SQLite{Path: ":memory:"}, Backup: config.Backup{Dest: "s3://b"}}, nil, "/d :memory: /d/data /d/cache s3://b"},
	} {
		t.Run(c.why, func(t *testing.T) {
			if got := places(resolve(t, &c.cfg, c.opts...)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestNoHomeDirectoryIsAnErrorThatNamesTheWayOut(t *testing.T) {
	for _, c := range []struct {
		why  string
		cfg  config.Config
		home map[string]string
		want string
	}{
		{"not set", config.Config{}, nil, "data_dir: there is no home directory, since HOME is not set: set it, or name a place with --data-dir DIR or data_dir"},
		{"empty", config.Config{}, map[string]string{"HOME": ""}, "data_dir: there is no home directory, since HOME is not set: set it, or name a place with --data-dir DIR or data_dir"},
		{"relative", config.Config{}, map[string]string{"HOME": "u"}, "data_dir: there is no home directory, since HOME is not an absolute path: correct it, or name a place with --data-dir DIR or data_dir"},
		{"in one path", config.Config{DataDir: "/d", File: config.File{BasePath: "~/f"}}, nil, "file.base_path: there is no home directory, since HOME is not set: set it, or name a place with --data-dir DIR or data_dir"},
		{"not needed", config.Config{DataDir: "/d"}, nil, "<nil>"},
	} {
		t.Run(c.why, func(t *testing.T) {
			if _, err := c.cfg.Resolve(env(c.home)); fmt.Sprint(err) != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestWhichDriverKeepsATier(t *testing.T) {
	redis, postgres := &config.Redis{URL: "redis://h"}, &config.Postgres{URL: "postgres://h/d"}
	for _, c := range []struct {
		why  string
		cfg  config.Config
		want string
	}{
		{"nothing said", config.Config{}, "[{memory memory} {cache file} {database sqlite} {file file}]"},
		{"a redis block", config.Config{Redis: redis}, "[{memory memory} {cache redis} {database sqlite} {file file}]"},
		{"a redis block that is switched off", config.Config{Redis: redis, Cache: config.Cache{Driver: "file"}}, "[{memory memory} {cache file} {database sqlite} {file file}]"},
		{"a postgres block", config.Config{Postgres: postgres}, "[{memory memory} {cache file} {database postgres} {file file}]"},
		{"both blocks, decided", config.Config{Postgres: postgres, SQLite: config.SQLite{Path: "x"}, Database: config.Database{Driver: "sqlite"}}, "[{memory memory} {cache file} {database sqlite} {file file}]"},
		{"own tiers by name", config.Config{Tiers: map[string]config.Tier{"z": {Driver: "s3"}, "a": {Driver: "gcs"}}}, "[{memory memory} {cache file} {database sqlite} {file file} {a gcs} {z s3}]"},
	} {
		t.Run(c.why, func(t *testing.T) {
			if got := fmt.Sprint(resolve(t, &c.cfg).Routes); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestStoresByName(t *testing.T) {
	e := resolve(t, parse(t, "redis: {url: redis://h}\ntiers: {archive: {driver: s3}}"))
	for name, want := range map[string]string{
		"": "database", "memory": "memory", "cache": "cache", "redis": "cache", "database": "database", "sqlite": "database", "file": "file", "archive": "archive",
		"databse":  `there is no tier "databse"; did you mean "database"?; the stores are memory, cache, database, file or archive`,
		"postgres": "postgres has no block: write postgres: {url: ...}, or database for the tier; the stores are memory, cache, database, file or archive",
	} {
		got, err := e.Store(name)
		if err != nil {
			got = strings.TrimPrefix(err.Error(), "store: ")
			if !errors.Is(err, tiers.ErrCategory) {
				t.Errorf("%v is no ErrCategory", err)
			}
		}
		if got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
	if got, _ := resolve(t, &config.Config{DefaultStore: "file"}).Store(""); got != "file" {
		t.Errorf("the empty name is %q, want the default store", got)
	}
}

func TestOptionsReachTheDriver(t *testing.T) {
	c := parse(t, `
memory: {budget: 1MiB}
redis: {url: redis://h/1, password: "a b", index: false, dial_timeout: 250ms, ca_file: ca.pem}
postgres: {url: "postgres://u@h/d?x=y", password: "a b:@", sslmode: require, pool: 7}
database: {driver: postgres}
tiers: {archive: {driver: s3, bucket: 0123, max_bytes: 5MiB, every: 2w, parallel: 8, ratio: 0.5, mirror: false, zones: [a, b], labels: {x: 1.10}, deep: {n: 3}}}
`, config.Drivers(drivers()), config.Source("/etc/sage.yaml"))
	e := resolve(t, c)

	var memory struct {
		Budget, SpillLimit int64
		Overflow, SpillDir string
	}
	var redis struct {
		URL, Username, Password, Prefix, Epoch string
		CAFile                                 string `yaml:"ca_file"`
		Index                                  *bool
		DialTimeout, Timeout                   time.Duration
	}
	var postgres struct {
		URL  string
		Pool int64
	}
	redis.Timeout = time.Second
	own := s3{Parallel: 4, Prefix: "sage/"}
	for tier, into := range map[string]any{"memory": &memory, "cache": &redis, "database": &postgres, "archive": &own} {
		if err := e.Options(tier, map[string]string{"epoch": "e1"})(into); err != nil {
			t.Fatal(err)
		}
	}
	if memory.Budget != 1<<20 || memory.SpillLimit != 4<<30 || memory.Overflow != "spill" || memory.SpillDir != "" {
		t.Errorf("memory: %+v", memory)
	}
	if redis.Index == nil || *redis.Index {
		t.Error("redis: index is not false")
	}
	redis.Index = nil
	if got, want := fmt.Sprintf("%+v", redis), "{URL:redis://h/1 Username: Password:a b Prefix:sage Epoch:e1 CAFile:/etc/ca.pem Index:<nil> DialTimeout:250ms Timeout:1s}"; got != want {
		t.Errorf("redis: %s\nwant   %s", got, want)
	}
	if postgres.URL != "postgres://u:a%20b%3A%40@h/d?sslmode=require&x=y" || postgres.Pool != 7 {
		t.Errorf("postgres: %+v", postgres)
	}
	want := s3{
		Bucket: "0123", Prefix: "sage/", MaxBytes: 5 << 20, Every: 336 * time.Hour, Parallel: 8, Ratio: 0.5, Mirror: new(bool),
		Zones: []string{"a", "b"}, Labels: map[string]string{"x": "1.10"}, Deep: struct{ N int }{3},
	}
	if diff := cmp.Diff(want, own); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
}

func TestOptionsThatADriverLacks(t *testing.T) {
	e := resolve(t, parse(t, "memory: {overflow: none}\ntiers: {archive: {driver: s3, bucket: b}}", config.Source("c.yaml")))
	for _, c := range []struct {
		why, tier string
		into      any
		want      string
	}{
		{"a default is left out", "memory", &struct{ Overflow string }{}, "<nil>"},
		{"what was written is an error", "memory", &struct{ Budget int64 }{}, "c.yaml:1: memory.overflow: the driver of this tier does not know it"},
		{"another type is an error", "memory", &struct{ Overflow bool }{}, "c.yaml:1: memory.overflow: the driver of tier memory takes a bool, the setting is a string"},
		{"of an own tier", "archive", &struct{ Path string }{}, "c.yaml:2: tiers.archive.bucket: is not a key of tiers.archive; it may be path"},
		{"no such tier", "archiv", &struct{}{}, `c.yaml:2: tiers.archiv: there is no such tier; did you mean "archive"?`},
		{"no pointer", "memory", struct{}{}, "options of tier memory: want a pointer to a struct, not struct {}: wrong type"},
	} {
		t.Run(c.why, func(t *testing.T) {
			if got := fmt.Sprint(e.Options(c.tier, nil)(c.into)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestOptionsOfAnOwnTierFromGo(t *testing.T) {
	for why, given := range map[string]any{"by value": s3{Bucket: "b"}, "by pointer": &s3{Bucket: "b"}} {
		e := resolve(t, &config.Config{Tiers: map[string]config.Tier{"archive": {Driver: "s3", Options: given}}}, config.Drivers(drivers()))
		var o s3
		if err := e.Options("archive", nil)(&o); err != nil || o.Bucket != "b" {
			t.Errorf("%s: %+v, %v", why, o, err)
		}
	}
	c := config.Config{Tiers: map[string]config.Tier{"archive": {Driver: "s3", Options: struct{ X int }{}}}}
	if err := c.Check(config.Drivers(drivers())); !errors.Is(err, tiers.ErrType) {
		t.Errorf("options of another type: %v", err)
	}
}

func TestDriversThatAProgramLacks(t *testing.T) {
	few := tiers.Drivers{{Tier: "memory", Name: "memory"}, {Tier: "database", Name: "sqlite"}}
	for _, c := range []struct{ why, yaml, want string }{
		{"what only defaults ask for may be missing", "memory: {budget: 1MiB}", "<nil>"},
		{"a redis block asks for Redis", "redis: {url: redis://h}", "line 1: redis: needs the driver redis of tier cache, which this program does not have: append it to the drivers, or pass all.Tiers()"},
		{"a postgres block asks for PostgreSQL", "postgres: {url: postgres://h/d}", "line 1: postgres: needs the driver postgres of tier database, which this program does not have: append it to the drivers, or pass all.Tiers()"},
		{"one that is switched off does not", "redis: {url: redis://h}\ncache: {driver: file}", "<nil>"},
		{"a category asks for its home", "categories: {a: {tier: file}}", "line 1: categories.a.tier: needs the driver file of tier file, which this program does not have: append it to the drivers, or pass all.Tiers()"},
		{"everything in memory needs nothing else", "in_memory: true\ncategories: {a: {tier: file}}", "<nil>"},
	} {
		t.Run(c.why, func(t *testing.T) {
			if _, err := config.Parse([]byte(c.yaml), config.Drivers(few)); fmt.Sprint(err) != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestPlans(t *testing.T) {
	e := resolve(t, config.Default())
	if want := (config.CheckpointPlan{Enabled: true, Interval: 5 * time.Minute, Max: 10, BeforeOperations: true, Strategy: "after_tool_call"}); e.Checkpoints != want {
		t.Errorf("checkpoints: %+v", e.Checkpoints)
	}
	if e.Backup.Enabled || e.IdleLimit != 0 || e.JournalLimit != 256<<20 {
		t.Errorf("backup %v, idle limit %v, journal limit %v", e.Backup.Enabled, e.IdleLimit, e.JournalLimit)
	}
	e = resolve(t, parse(t, "checkpoints: {enabled: false, strategy: every 3, before_operations: false}\nsession: {idle_limit: 2h}\nbackup: {cron: 0 4 * * *}"))
	if want := (config.CheckpointPlan{Interval: 5 * time.Minute, Max: 10, Strategy: "every", Every: 3}); e.Checkpoints != want {
		t.Errorf("checkpoints: %+v", e.Checkpoints)
	}
	if e.IdleLimit != 2*time.Hour || e.Backup.Interval != "" || e.Backup.At != "" || e.Backup.Cron != "0 4 * * *" {
		t.Errorf("idle limit %v, backup %+v", e.IdleLimit, e.Backup)
	}
	if got := resolve(t, parse(t, "backup: {interval: hourly}")).Backup; got.At != "" || got.Interval != "hourly" {
		t.Errorf("hourly: %+v", got)
	}
}

func TestResolvingKeepsTheConfigAsItWas(t *testing.T) {
	c := parse(t, "redis: {url: redis://h}\ncategories: {a: {tier: file, near: memory}}")
	before := fmt.Sprintf("%+v %+v", c, c.Redis)
	e := resolve(t, c)
	policyOf(t, e, "a").Near[0] = "changed"
	e.Config().Redis.Prefix = "changed"
	if after := fmt.Sprintf("%+v %+v", c, c.Redis); after != before {
		t.Errorf("before %s\nafter  %s", before, after)
	}
	c.Categories["a"].Near[0] = "x"
	c.Redis.URL = "redis://other"
	if got := policyOf(t, e, "a").Near[0]; got != "memory" {
		t.Errorf("near is %s", got)
	}
	if got := e.Config().Redis; got.Prefix != "sage" || got.URL != "redis://h" {
		t.Errorf("redis is %+v", got)
	}
}

func TestAnEffectiveConfigurationIsSafeForConcurrentUse(t *testing.T) {
	c := parse(t, "redis: {url: redis://h}\ntiers: {archive: {driver: s3, bucket: b, labels: {x: y}, zones: [z]}}\ncategories: {a: {tier: file, near: memory}}")
	e := resolve(t, c)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, category := range []string{"a", "a.b", "session.history", "nothing"} {
				_, err := e.Policy(category, nil)
				if (err != nil) != (category == "nothing") {
					t.Error(err)
				}
			}
			var o s3
			if err := e.Options("archive", nil)(&o); err != nil {
				t.Error(err)
			}
			e.Settings()
			e.Warnings()
			e.Config()
		})
	}
	wg.Wait()
}

func TestThousandsOfCategoriesAreNoBurden(t *testing.T) {
	c := config.Default()
	c.Categories = make(map[string]config.Category)
	for i := range 5000 {
		c.Categories[fmt.Sprintf("app.kind%d", i)] = config.Category{Tier: "file"}
	}
	start := time.Now() //nolint:forbidigo // measures real work
	if n := len(resolve(t, c).Policies()); n != 5018 {
		t.Errorf("%d policies", n)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}
