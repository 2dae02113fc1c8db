package config_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/config"
)

func TestShowPrintsEveryValueWithItsSourceAndNoSecret(t *testing.T) {
	c, err := config.Load("testdata/show.yaml", config.Source("show.yaml"), config.Drivers(drivers()),
		env(map[string]string{"REDIS_URL": "redis://u:hunter2@h:6379/1", "BUDGET": "1MiB", "AWS_KEY": "hunter2"}))
	if err != nil {
		t.Fatal(err)
	}
	c.File.Format = "msgpack" // changed in Go after loading
	c.Session.IdleLimit = "2h"
	e := resolve(t, c, config.DataDir("/d"))
	var b strings.Builder
	for _, s := range e.Settings() {
		if built := strings.HasPrefix(s.Path, "categories.") && (s.Source == "built-in" || s.Source == "default"); built && !strings.HasPrefix(s.Path, "categories.app.") {
			continue // the built-in categories have a test of their own
		}
		fmt.Fprintf(&b, "%s = %s | %s | %s\n", s.Path, s.Value, s.Source, s.Note)
	}
	b.WriteString("\n")
	for _, w := range e.Warnings() {
		fmt.Fprintln(&b, w)
	}
	const golden = "testdata/show.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if strings.Contains(b.String(), "hunter") {
		t.Error("a secret shows")
	}
}

func TestWarnings(t *testing.T) {
	for _, c := range []struct{ why, yaml, want string }{
		{"nothing to say", "default_store: file", ""},
		{"near layers", "categories: {a: {tier: file, near: memory, near_ttl: 5s}}", ""},
		{"the room of a near layer that is not there", "categories: {a: {tier: file, near_ttl: 5s}}", "line 1: categories.a.near_ttl: has no effect: the category has no near layer"},
		{"a name that misses a built-in one", "categories: {session.histroy: {tier: cache}}", "line 1: categories.session.histroy: is a category of its own: the built-in one is session.history"},
		{"names that are listed both", "categories: {session.histroy: {tier: cache}, session.history: {ttl: 7d}}", ""},
		{"a built-in name", "categories: {session.history: {ttl: 7d}}", ""},
		{"checkpoints", "checkpoints: {max: 3}", ""},
		{"backups", "backup: {interval: daily}", ""},
		{"backups that are off", "backup: {enabled: false, interval: daily}", "line 1: backup: is not enabled: no backup is made by itself, only by sagestore backup create or serve"},
		{"backups of what is gone at the end", "in_memory: true\nbackup: {}", "line 1: in_memory: keeps everything in this process: it is gone at the end\nline 2: backup: backs up nothing: everything lives in this process"},
		{"a cache that is in no backup", "redis: {url: redis://h}\nbackup: {cache: true}\ncategories: {session.context: {tier: file}, knowledge.content: {tier: file}, knowledge.bodies: {tier: file}}", "line 2: backup.cache: has no effect: what Redis holds is in no backup"},
		{"a rehearsal that lacks the key", "backup: {recipients: age1crkpp6awuxm9dhqvepnnrme53rnsf0t8dp0luqx4l4zq73e46sps9uwf9f, rehearse: daily}", "line 1: backup.rehearse: has no effect: without identities an encrypted backup can't be opened again later"},
		{"a block that is switched off", "redis: {url: redis://h}\ncache: {driver: file}", "line 1: redis: is not used, since cache.driver at line 2 is file"},
		{"a setting of the other driver", "database: {driver: postgres}\npostgres: {url: postgres://h/d}\nsqlite: {path: x}\ncategories: {session.context: {tier: file}, knowledge.content: {tier: file}, knowledge.bodies: {tier: file}}", "line 3: sqlite: is not used, since the database is PostgreSQL"},
		{"memory homes beside a shared server", "redis: {url: redis://h}\ncategories: {a: {tier: memory}}", "line 2: categories: a, knowledge.bodies, knowledge.content, session.context live in memory: each process sees only its own, although redis is shared between processes"},
		{"a database that is gone at the end", "sqlite: {path: ':memory:'}", "line 1: sqlite.path: keeps the database in this process: it is gone at the end"},
		{"a store that is gone at the end", "in_memory: true", "line 1: in_memory: keeps everything in this process: it is gone at the end"},
		{"a database among the files", "sqlite: {path: d/x}\nfile: {base_path: d}", "line 1: sqlite.path: is inside file.base_path: who lists or tidies the one meets the other; keep them apart"},
		{"a cache in the place of the files", "cache: {path: d}\nfile: {base_path: d}", "line 1: cache.path: is inside file.base_path: who lists or tidies the one meets the other; keep them apart"},
		{"files inside the cache", "cache: {path: d}\nfile: {base_path: d/e}", "line 2: file.base_path: is inside cache.path: who lists or tidies the one meets the other; keep them apart"},
		{"a cache that is not used", "cache: {driver: redis, path: d}\nredis: {url: redis://h}\nfile: {base_path: d}\ncategories: {session.context: {tier: file}, knowledge.content: {tier: file}, knowledge.bodies: {tier: file}}", "line 1: cache.path: is not used, since the cache is Redis"},
		{"keys that nobody named", "categories: {a: {tier: file, encrypt: true}}", "line 1: categories: a encrypt, and encryption names no current key: the program must bring keys of its own"},
		{"a rule of its own drops its parent's encryption", "categories:\n  a: {tier: file, encrypt: true}\n  a.b: {tier: cache}\nencryption: {current: k, keys: {k: " + strings.Repeat("ab", 32) + "}}", "line 3: categories.a.b: is not encrypted: it has a rule of its own, so that of a does not hold for it"},
	} {
		t.Run(c.why, func(t *testing.T) {
			var got []string
			for _, w := range resolve(t, parse(t, c.yaml)).Warnings() {
				got = append(got, w.String())
			}
			if strings.Join(got, "\n") != c.want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "\n"), c.want)
			}
		})
	}
}
