package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/tiers"
)

func policyOf(t *testing.T, e *config.Effective, category string) config.Policy {
	t.Helper()
	p, err := e.Policy(category, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// brief puts what tests compare into one line.
func brief(p config.Policy, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	ttl := p.TTL.String()
	if p.Session {
		ttl = "session"
	}
	return fmt.Sprintf("%s %s %s by %s", p.Tier, ttl, p.Codec, p.Rule)
}

func TestBuiltInCategories(t *testing.T) {
	e := resolve(t, config.Default())
	want := map[string]string{
		"session.context":        "memory session json",
		"session.history":        "cache 24h0m0s json",
		"session.preferences":    "database 0s json",
		"session.state":          "database 0s json",
		"session.events":         "database 0s json",
		"knowledge.content":      "memory session json",
		"knowledge.bodies":       "memory 0s json",
		"knowledge.tokens":       "cache 1h0m0s json",
		"knowledge.usage":        "database 0s json",
		"knowledge.access":       "database 720h0m0s json",
		"learning.patterns":      "database 0s json",
		"learning.optimizations": "database 0s json",
		"learning.feedback":      "database 0s json",
		"config":                 "file 0s json",
		"agent.state":            "database 0s json",
		"agent.conversations":    "database 0s json",
		"agent.checkpoints":      "database 0s json",
		"agent.fields":           "database 0s json",
	}
	all := e.Policies()
	if len(all) != len(want) {
		t.Errorf("%d categories, want %d", len(all), len(want))
	}
	for _, p := range all {
		if got := brief(p, nil); got != want[p.Category]+" by built-in" {
			t.Errorf("%s is %s, want %s", p.Category, got, want[p.Category])
		}
		if p.MaxValue != 16<<20 || p.NearTTL != 30*time.Second || p.Encrypt || p.Near != nil || p.CompressOver != 0 {
			t.Errorf("%s has other defaults: %+v", p.Category, p)
		}
	}
}

func TestWhichRuleHoldsForAName(t *testing.T) {
	c := parse(t, `
redis: {url: redis://h, ttl_default: 3600}
file: {format: msgpack}
compress_over: 4KiB
tiers: {archive: {driver: s3}}
categories:
  session: {tier: file, ttl: 2w, codec: gob, max_value: 1MiB}
  session.preferences: {codec: msgpack}
  session.history: {tier: database}
  app: {tier: sqlite, ttl: 3h, encrypt: true}
  app.drafts: {tier: cache}
  app.kept: {tier: cache, ttl: never}
  app.small: {max_value: 1KiB}
  app.plain: {encrypt: false, compress_over: never}
  docs: {tier: file}
  docs.raw: {tier: file, codec: raw}
  old: {tier: archive}
  front: {tier: redis, near: memory, near_ttl: 5s}
  loose: {codec: json}
`, config.Source("c.yaml"))
	lib := &config.Category{Tier: "memory", TTL: "session"}
	for _, k := range []struct {
		why, category string
		lib           *config.Category
		want          string
	}{
		{"its own, with the rest of the built-in one", "session.preferences", nil, "database 0s msgpack by own"},
		{"its own tier keeps the built-in TTL", "session.history", nil, "database 24h0m0s json by own"},
		{"the built-in one before its parent's", "session.context", nil, "memory session json by built-in"},
		{"its parent's, the whole of it", "session.notes", nil, "file 336h0m0s gob by parent"},
		{"its grandparent's", "session.notes.old", nil, "file 336h0m0s gob by parent"},
		{"the parent may be built in", "config.app", nil, "file 0s msgpack by parent"},
		{"a library's before its parent's", "session.notes", lib, "memory session json by library"},
		{"the built-in one before a library's", "session.events", lib, "database 0s json by built-in"},
		{"its own before a library's, which fills the rest", "loose", lib, "memory session json by own"},
		{"an own tier is a rule by itself: not the parent's TTL", "app.drafts", nil, "cache 1h0m0s json by own"},
		{"never is a TTL", "app.kept", nil, "cache 0s json by own"},
		{"without a tier of its own, the rest is its parent's", "app.small", nil, "database 3h0m0s json by own"},
		{"file.format is the codec of file homes that name none", "docs", nil, "file 0s msgpack by own"},
		{"the category's codec first", "docs.raw", nil, "file 0s raw by own"},
		{"a tier of the app's own", "old", nil, "archive 0s json by own"},
		{"an engine stands for its tier", "front", nil, "cache 1h0m0s json by own"},
		{"a store by name", "store.cache", nil, "cache 1h0m0s json by built-in"},
		{"a store of the app's own by name", "store.archive", nil, "archive 0s json by built-in"},
		{"the file store by name", "store.file", nil, "file 0s msgpack by built-in"},
		{"no rule", "weather", nil, "error: use weather: unknown or invalid category (list it under categories, or set default_store)"},
		{"no rule, nearly another's name", "session.preferencs", nil, "file 336h0m0s gob by parent"},
		{"no rule, nearly a built-in name", "learning.pattern", nil, `error: use learning.pattern: unknown or invalid category (did you mean "learning.patterns"? else list it under categories, or set default_store)`},
		{"no such store", "store.cach", nil, `error: use store.cach: unknown or invalid category (did you mean "store.cache"? else names below store. are reserved for the tiers)`},
		{"a name that can't be", "a..b", nil, `error: use a..b: unknown or invalid category: "a..b" has an empty segment`},
		{"a library's rule with faults", "lib.x", &config.Category{Tier: "databse", TTL: "-1"}, "error: use lib.x: unknown or invalid category: the library's policy: lib.x.ttl: -1 is negative: write seconds (3600), 90s, 15m, 24h, 30d, 2w, never, session\nlib.x.tier: there is no tier \"databse\"; did you mean \"database\"?"},
	} {
		t.Run(k.why, func(t *testing.T) {
			e := resolve(t, c)
			if k.category == "loose" && k.lib == nil {
				t.Fatal("the case needs a library")
			}
			p, err := e.Policy(k.category, k.lib)
			if got := brief(p, err); got != k.want {
				t.Errorf("got  %s\nwant %s", got, k.want)
			}
			if err != nil && !errors.Is(err, tiers.ErrCategory) {
				t.Errorf("%v is not ErrCategory", err)
			}
		})
	}

	e := resolve(t, c)
	front := policyOf(t, e, "front")
	if fmt.Sprint(front.Near, front.NearTTL) != "[memory] 5s" {
		t.Errorf("near is %v for %v", front.Near, front.NearTTL)
	}
	small := policyOf(t, e, "app.small")
	if small.MaxValue != 1024 || !small.Encrypt || small.CompressOver != 4096 {
		t.Errorf("app.small is %+v", small)
	}
	if plain := policyOf(t, e, "app.plain"); plain.Encrypt || plain.CompressOver != 0 || plain.Tier != "database" {
		t.Errorf("app.plain is %+v", plain)
	}
	for field, want := range map[string]string{"tier": "parent app (c.yaml:8)", "max_value": "c.yaml:11", "codec": "default", "compress_over": "compress_over (c.yaml:4)"} {
		if got := small.Source[field]; !strings.HasPrefix(got, strings.Split(want, ":")[0]) {
			t.Errorf("the source of %s is %q, want %q", field, got, want)
		}
	}
	if got := policyOf(t, e, "store.cache").Source["ttl"]; got != "redis.ttl_default (c.yaml:2)" {
		t.Errorf("the source of the TTL is %q", got)
	}
}

func TestDefaultStoreTakesUnknownNamesButNoTypingErrors(t *testing.T) {
	e := resolve(t, parse(t, "default_store: sqlite\nredis: {url: redis://h, ttl_default: 60}\ncategories: {app.drafts: {tier: file}, app.draft: {}}"))
	for _, k := range []struct{ why, category, want string }{
		{"unknown", "weather", "database 0s json by default_store"},
		{"far from everything", "session.anything", "database 0s json by default_store"},
		{"one letter off", "session.preference", `error: use session.preference: unknown or invalid category (did you mean "session.preferences"? else list it under categories if it is not a typing error)`},
		{"two letters off", "session.preferenc", `error: use session.preferenc: unknown or invalid category (did you mean "session.preferences"? else list it under categories if it is not a typing error)`},
		{"two letters swapped", "app.drfats", `error: use app.drfats: unknown or invalid category (did you mean "app.drafts"? else list it under categories if it is not a typing error)`},
		{"one letter off, and listed", "app.draft", "database 0s json by own"},
		{"three letters off", "session.preferen", "database 0s json by default_store"},
	} {
		t.Run(k.why, func(t *testing.T) {
			if got := brief(e.Policy(k.category, nil)); got != k.want {
				t.Errorf("got  %s\nwant %s", got, k.want)
			}
		})
	}
	t.Run("a library's name is no typing error", func(t *testing.T) {
		if got := brief(e.Policy("session.preference", &config.Category{Tier: "cache"})); got != "cache 1m0s json by library" {
			t.Errorf("got %s", got)
		}
	})
}

func TestInMemoryKeepsEveryCategoryInMemory(t *testing.T) {
	c := config.InMemory()
	c.Categories = map[string]config.Category{"a": {Tier: "redis", Near: []string{"memory"}}, "b": {Tier: "file", TTL: "1h"}}
	c.Backup.Enabled = true
	e, err := c.Resolve(env(nil)) // and needs no home directory
	if err != nil {
		t.Fatal(err)
	}
	for _, category := range []string{"a", "b", "session.history", "config", "whatever", "store.database"} {
		if p := policyOf(t, e, category); p.Tier != "memory" || p.Near != nil {
			t.Errorf("%s lives in %s, near %v", category, p.Tier, p.Near)
		}
	}
	if fmt.Sprint(e.Routes) != "[{memory memory}]" || e.DataDir != "" || e.Backup.Enabled || !e.InMemory {
		t.Errorf("routes %v, data directory %q, backup %v", e.Routes, e.DataDir, e.Backup.Enabled)
	}
	var o struct{ Overflow string }
	if err := e.Options("memory", nil)(&o); err != nil || o.Overflow != "none" {
		t.Errorf("overflow is %q, %v", o.Overflow, err)
	}
}
