package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/tiers"
)

func parse(t *testing.T, yaml string, opts ...config.Option) *config.Config {
	t.Helper()
	c, err := config.Parse([]byte(yaml), opts...)
	if err != nil {
		t.Fatalf("parse:\n%v", err)
	}
	return c
}

func resolve(t *testing.T, c *config.Config, opts ...config.Option) *config.Effective {
	t.Helper()
	e, err := c.Resolve(append([]config.Option{env(map[string]string{"HOME": "/home/u"})}, opts...)...)
	if err != nil {
		t.Fatalf("resolve:\n%v", err)
	}
	return e
}

func faultsOf(t *testing.T, yaml string, opts ...config.Option) string {
	t.Helper()
	_, err := config.Parse([]byte(yaml), opts...)
	if err == nil {
		t.Fatal("parses without an error")
	}
	return err.Error()
}

func TestTheReferenceBlockLoadsAndDoesWhatItSays(t *testing.T) {
	c, err := config.Load("testdata/reference.yaml")
	if err != nil {
		t.Fatal(err)
	}
	e := resolve(t, c)
	if e.DefaultStore != "database" {
		t.Errorf("default store is %q, want the database tier", e.DefaultStore)
	}
	if diff := cmp.Diff([]config.Route{{"memory", "memory"}, {"cache", "redis"}, {"database", "sqlite"}, {"file", "file"}}, e.Routes); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	var sqlite struct{ Path, Synchronous string }
	var redis struct{ URL, Prefix string }
	var file struct{ BasePath, Format string }
	for tier, into := range map[string]any{"database": &sqlite, "cache": &redis, "file": &file} {
		if err := e.Options(tier, nil)(into); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := fmt.Sprint(sqlite, redis, file), "{/home/u/.sage/sage.db full} {redis://localhost:6379 sage} {/home/u/.sage/data json}"; got != want {
		t.Errorf("options are %s, want %s", got, want)
	}
	b := e.Backup
	if n, _ := b.Retention.Count(); !b.Enabled || b.Interval != "daily" || b.At != "03:30" || n != 7 || b.Dest != "/home/u/.sage/backups" {
		t.Errorf("backup is %+v", b)
	}
	if p := policyOf(t, e, "store.cache"); p.TTL != time.Hour {
		t.Errorf("a cache category that names no TTL has %v, want the 3600 s of redis.ttl_default", p.TTL)
	}
	shown := make(map[string]config.Setting)
	for _, s := range e.Settings() {
		shown[s.Path] = s
	}
	for path, want := range map[string]config.Setting{
		"default_store":     {Value: "sqlite", Source: "testdata/reference.yaml:2", Note: "tier database"},
		"sqlite.path":       {Value: "/home/u/.sage/sage.db", Source: "testdata/reference.yaml:5"},
		"redis.url":         {Value: "redis://localhost:6379", Source: "testdata/reference.yaml:8"},
		"redis.ttl_default": {Value: "3600", Source: "testdata/reference.yaml:9"},
		"file.base_path":    {Value: "/home/u/.sage/data", Source: "testdata/reference.yaml:12"},
		"file.format":       {Value: "json", Source: "testdata/reference.yaml:13"},
		"backup.enabled":    {Value: "true", Source: "testdata/reference.yaml:16"},
		"backup.interval":   {Value: "daily", Source: "testdata/reference.yaml:17"},
		"backup.retention":  {Value: "7", Source: "testdata/reference.yaml:18"},
	} {
		want.Path = path
		if shown[path] != want {
			t.Errorf("shows %+v, want %+v", shown[path], want)
		}
	}
}

func TestKeysSitAtTheRootUnderPersistenceOrWhereAtSays(t *testing.T) {
	for _, c := range []struct {
		why, yaml string
		opts      []config.Option
		want      string // default_store, or an error
	}{
		{"the root", "default_store: file", nil, "file"},
		{"under persistence", "persistence: {default_store: file}", nil, "file"},
		{"a part of the app's file, whose other parts are its own", "app:\n  persistence: {default_store: file}\n  other: {x: 1, x: 1}\nyes: no\n", []config.Option{config.At("app.persistence")}, "file"},
		{"lines stay those of the whole file", "app:\n  persistence:\n    default_stor: file\n", []config.Option{config.At("app.persistence"), config.Source("app.yaml")}, `app.yaml:3: default_stor: is not a key; did you mean "default_store"?`},
		{"a misspelt part is no silent default", "app:\n  persistenc: {default_store: file}\n", []config.Option{config.At("app.persistence"), config.Source("app.yaml")}, `app.yaml: app.persistence: is not in the file; did you mean "persistenc"?`},
		{"a part that is no block", "app: 3\n", []config.Option{config.At("app.persistence")}, "line 1: app: is a single value; it takes a block of keys"},
		{"persistence within a part is no wrapper", "app: {persistence: {default_store: file}}", []config.Option{config.At("app")}, "line 1: persistence: is not a key"},
		{"nothing at all is the default", "", nil, ""},
		{"comments only", "# nothing\n", nil, ""},
		{"an empty document", "---\n...\n", nil, ""},
	} {
		t.Run(c.why, func(t *testing.T) {
			cfg, err := config.Parse([]byte(c.yaml), c.opts...)
			var got string
			if err != nil {
				got = err.Error()
			} else {
				got = cfg.DefaultStore
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestTextStaysAsWrittenAndNamesKeepTheirCase(t *testing.T) {
	c := parse(t, `
redis: {url: redis://h, prefix: 0123, password: 1.10, username: yes, server_name: 0x1F}
postgres: {url: postgres://h/d, schema: _1_0, password: 2024-01-02}
database: {driver: postgres}
categories: {App.Notes: {tier: file}, app.notes: {tier: cache}}
`)
	if got, want := c.Redis.Prefix+" "+string(c.Redis.Password)+" "+c.Redis.Username+" "+c.Redis.ServerName, "0123 1.10 yes 0x1F"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := c.Postgres.Schema+" "+string(c.Postgres.Password), "_1_0 2024-01-02"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if c.Categories["App.Notes"].Tier != "file" || c.Categories["app.notes"].Tier != "cache" {
		t.Errorf("categories are %v", c.Categories)
	}
}

func TestVariablesAndFilesAreExpandedInValues(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"pw": "p$a:b #c\n", "crlf": "x\r\n", "big": strings.Repeat("x", 65<<10), "rel/pw": "r"} {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink(filepath.Join("rel", "pw"), filepath.Join(dir, "link")), syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	vars := env(map[string]string{"A": "a", "EMPTY": "", "PW": "p$w #:@/ ü", "LOOP": "${env:A}", "HOME": dir})
	for _, c := range []struct{ why, value, want string }{
		{"a variable", "${env:A}", "a"},
		{"among text", "x${env:A}y${env:A}", "xaya"},
		{"a dollar sign", "$$x$$", "$x$"},
		{"a dollar sign before a brace", "$${env:A}", "${env:A}"},
		{"a lone dollar is itself", "a$b$", "a$b$"},
		{"set and empty", "${env:EMPTY}", ""},
		{"the default of an unset one", "${env:NONE:-d e}", "d e"},
		{"the default of an empty one", "${env:EMPTY:-d}", "d"},
		{"an empty default", "${env:NONE:-}", ""},
		{"a default is not needed", "${env:A:-d}", "a"},
		{"what was expanded is not expanded again", "${env:LOOP}", "${env:A}"},
		{"a file, without its line's end", "${file:" + dir + "/pw}", "p$a:b #c"},
		{"a file with a Windows line's end", "${file:" + dir + "/crlf}", "x"},
		{"a file in the home directory", "${file:~/pw}", "p$a:b #c"},
		{"a file beside the configuration", "${file:rel/pw}", "r"},
		{"a huge file", "${file:big}", "error: redis.password: the file big can't be read: has more than 65536 bytes"},
		{"a file at the end of a link", "${file:link}", "r"},
		{"a directory", "${file:rel}", "error: redis.password: the file rel can't be read: it is a directory: name a regular file"},
		{"a device", "${file:/dev/zero}", "error: redis.password: the file /dev/zero can't be read: it is a device: name a regular file"},
		{"a pipe that nobody writes to", "${file:pipe}", "error: redis.password: the file pipe can't be read: it is a pipe: name a regular file"},
		{"an unset variable", "${env:NONE}", "error: redis.password: the variable NONE is not set: set it, or write ${env:NONE:-default}"},
	} {
		t.Run(c.why, func(t *testing.T) {
			b := fmt.Appendf(nil, "redis: {url: redis://h, password: %q}", c.value)
			cfg, err := config.Parse(b, vars, config.Source(filepath.Join(dir, "c.yaml")))
			var got string
			if err != nil {
				got = "error: " + strings.TrimPrefix(err.Error(), filepath.Join(dir, "c.yaml")+":1: ")
			} else {
				got = string(cfg.Redis.Password)
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	t.Run("not in keys", func(t *testing.T) {
		if got := faultsOf(t, `"${env:A}": x`, vars); got != "line 1: ${env:A}: is not a key" {
			t.Errorf("got %q", got)
		}
	})
}

func TestAnyPasswordWorksInAURL(t *testing.T) {
	const password = "p$w #:@/?ü%41"
	vars := env(map[string]string{"PW": password, "USER": "a:b", "HOST": "h:1", "URL": "redis://u:x@h/2"})
	for _, c := range []struct{ why, url, want string }{
		{"as the password", "redis://u:${env:PW}@h:1/2", "redis://u:p$w%20%23%3A%40%2F%3F%C3%BC%2541@h:1/2"},
		{"as user and password", "redis://${env:USER}:${env:PW}@h", "redis://a%3Ab:p$w%20%23%3A%40%2F%3F%C3%BC%2541@h"},
		{"elsewhere it is text", "redis://u@${env:HOST}/3", "redis://u@h:1/3"},
		{"as the whole URL", "${env:URL}", "redis://u:x@h/2"},
	} {
		t.Run(c.why, func(t *testing.T) {
			cfg := parse(t, fmt.Sprintf("redis: {url: %q}", c.url), vars)
			if got := string(cfg.Redis.URL); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestAliasesAndMergesAreUnderstoodAndBounded(t *testing.T) {
	c := parse(t, `
categories:
  a: &a {tier: file, ttl: 1h, codec: msgpack}
  b: {<<: *a, ttl: 2h}
  c: {<<: [{tier: cache}, *a]}
  d: *a
`)
	got := fmt.Sprint(c.Categories["b"].TTL, c.Categories["b"].Codec, c.Categories["c"].Tier, c.Categories["c"].TTL, c.Categories["d"].Tier)
	if want := fmt.Sprint("2h", "msgpack", "cache", "1h", "file"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	bomb := "x0: &a0 [x,x,x,x,x,x,x,x,x,x]\ny0: &b0 {x: {}}\n"
	for i := range 9 {
		bomb += fmt.Sprintf("x%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 10), ","))
		bomb += fmt.Sprintf("y%d: &b%d {<<: [%s]}\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*b%d,", i), 10), ","))
	}
	for _, k := range []struct{ why, yaml, want string }{
		{"lists of lists", "tiers: {x: {driver: s3, zones: *a9}}", "is a list; it takes a single value"},
		{"lists of lists for a driver that has such", "tiers: {x: {driver: cube, deep: *a9}}", "aliases unfold to more than"},
		{"a block within itself", "tiers: {x: &x {driver: s3, labels: *x}}", "it takes a single value"},
		{"a merge of merges", "categories: {<<: *b9}", "aliases unfold to more than"},
		{"a merge of itself", "categories: &m {<<: *m}", ""},
		{"a list of itself", "tiers: {x: {driver: s3, zones: &z [*z]}}", "is a list; it takes a single value"},
	} {
		t.Run(k.why, func(t *testing.T) {
			cube := tiers.Driver{Name: "cube", Options: &struct{ Deep [][][][][][][][][][]string }{}}
			start := time.Now() //nolint:forbidigo // measures real work
			_, err := config.Parse([]byte(bomb+"cfg: {"+k.yaml+"}"), config.At("cfg"), config.Drivers(append(drivers(), cube)))
			if k.want == "" && err != nil || k.want != "" && (err == nil || !strings.Contains(err.Error(), k.want)) {
				t.Errorf("got %v, want %q", err, k.want)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
			if err != nil && len(err.Error()) > 1<<20 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestRelativePathsAreRelativeToTheFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "etc", "sage.yaml")
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(`
data_dir: .sage
sqlite: {path: ../db/x.db}
cache: {path: "~/cache"}
backup: {dest: s3://bucket/x}
tiers: {archive: {driver: s3, path: a/b, bucket: a/b}, other: {driver: s3, path: ~/a}}
`), 0o600)); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	e := resolve(t, c)
	d := e.Config()
	if got, want := fmt.Sprint(e.DataDir, " ", d.SQLite.Path, " ", d.Cache.Path, " ", d.File.BasePath, " ", e.Backup.Dest),
		strings.ReplaceAll("DIR/etc/.sage DIR/db/x.db /home/u/cache DIR/etc/.sage/data s3://bucket/x", "DIR", dir); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var o s3
	if err := e.Options("archive", nil)(&o); err != nil || o.Path != filepath.Join(dir, "etc/a/b") || o.Bucket != "a/b" {
		t.Errorf("got %+v, %v", o, err)
	}
	if err := e.Options("other", nil)(&o); err != nil || o.Path != "/home/u/a" {
		t.Errorf("got %+v, %v", o, err)
	}
}

func TestABackupBlockIsEnabledUnlessItSaysOtherwise(t *testing.T) {
	for yaml, want := range map[string]bool{
		"":                                   false,
		"backup: {interval: weekly}":         true,
		"backup: {}":                         true,
		"backup: {enabled: false, keep: {}}": false,
		"backup: {enabled: ${env:ON:-true}}": true,
	} {
		if got := parse(t, strings.ReplaceAll(yaml, "${env:ON:-true}", `"${env:ON_UNSET:-true}"`)).Backup.Enabled; got != want {
			t.Errorf("%q: enabled is %v, want %v", yaml, got, want)
		}
	}
}

func TestRetentionIsANumberOrAnAge(t *testing.T) {
	r := parse(t, "backup: {retention: 30d}").Backup.Retention
	if d, ok := r.Age(); !ok || d != 30*24*time.Hour || r != config.Days(30) || r.String() != "30d" {
		t.Errorf("got %v %v %v", r, d, ok)
	}
	if n, ok := config.Retention(7).Count(); !ok || n != 7 {
		t.Errorf("got %v %v", n, ok)
	}
}
