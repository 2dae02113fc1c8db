package config

import (
	"strings"
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"3600": time.Hour, "90s": 90 * time.Second, "24h": 24 * time.Hour, "30d": 720 * time.Hour, "2w": 336 * time.Hour,
		"15m": 15 * time.Minute, "500ms": 500 * time.Millisecond, "1h30m": 90 * time.Minute, "1w2d": 216 * time.Hour, "0h5m": 5 * time.Minute,
	} {
		if d, ok := TTL(text).Duration(); d != want || !ok {
			t.Errorf("%q is %v %v, want %v", text, d, ok, want)
		}
		if d, problem := parseSpan(formatSpan(want)); d != want || problem != "" {
			t.Errorf("%v is written %q, which is %v %s", want, formatSpan(want), d, problem)
		}
	}
	for _, text := range []string{
		"", "0", "0s", "-5", "-5s", "1x", "h", "1 h", "1.5h", "1h1h", "1m1h", "1h30", "30 ", "+3", "1_000", "0x10", "300y", "9223372036854775807", "106752d", "15251w", "9223372036s1000ms", "99999999999999999999", "never", "session", "١s",
	} {
		if d, ok := TTL(text).Duration(); ok {
			t.Errorf("%q is taken for %v", text, d)
		}
		if _, problem := parseSpan(text); problem == "" {
			t.Errorf("%q has no problem", text)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"65536": 65536, "1B": 1, "64KiB": 64 << 10, "64MiB": 64 << 20, "1GiB": 1 << 30, "2TiB": 2 << 40, "64KB": 64000, "64kB": 64000, "5MB": 5e6, "1GB": 1e9, "1TB": 1e12, "64 MiB": 64 << 20,
	} {
		if n, ok := Size(text).Bytes(); n != want || !ok {
			t.Errorf("%q is %d %v, want %d", text, n, ok, want)
		}
		if n, problem := parseSize(formatSize(want)); n != want || problem != "" {
			t.Errorf("%d is written %q, which is %d %s", want, formatSize(want), n, problem)
		}
	}
	for _, text := range []string{"", "0", "0MiB", "-1", "64M", "64m", "64mib", "1.5MiB", "MiB", "64  MiB", "never", "9223372036854775808", "8388608TiB"} {
		if n, ok := Size(text).Bytes(); ok {
			t.Errorf("%q is taken for %d", text, n)
		}
	}
}

func TestCronExpressions(t *testing.T) {
	for _, text := range []string{"30 3 * * *", "*/5 0-6,22 1,15 jan-mar MON-FRI", "0 0 31 12 7", "0-30/10 * * * *"} {
		if problem := checkCron(text); problem != "" {
			t.Errorf("%q: %s", text, problem)
		}
	}
	for _, text := range []string{"", "daily", "30 3 * *", "30 3 * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "5-1 * * * *", "*/0 * * * *", "a * * * *", ", * * * *", "1/ * * * *", "-1 * * * *"} {
		if checkCron(text) == "" {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestKeysInSnakeCase(t *testing.T) {
	for name, want := range map[string]string{"BasePath": "base_path", "URL": "url", "TTLDefault": "ttl_default", "APIKey": "api_key", "Path": "path", "S3Bucket": "s3_bucket"} {
		if got := snake(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// The key table and the types are two halves of one description.
func TestEverySettingIsInTheKeyTableOnce(t *testing.T) {
	full := &Config{
		Postgres: &Postgres{}, Redis: &Redis{}, Tiers: map[string]Tier{"x": {}}, Categories: map[string]Category{"x": {}},
		Encryption: Encryption{Keys: map[string]Secret{"x": ""}},
	}
	seen := make(map[string]int)
	walk(full, func(l leaf) {
		seen[l.path]++
		if l.path == "" || l.doc == "" {
			t.Errorf("%s is not in the table, or without a meaning", strings.Join(l.at, "."))
		}
	})
	for _, k := range keys() {
		if seen[k.path] != 1 {
			t.Errorf("%s of the table: %d settings", k.path, seen[k.path])
		}
	}
}

// Each default passes the checks that a written value has to pass.
func TestDefaultsAreValid(t *testing.T) {
	for _, c := range []*Config{Default(), InMemory(), {Redis: &Redis{URL: "redis://h"}}, {Postgres: &Postgres{URL: "postgres://h/d"}}} {
		e := newEffective(c, gather(nil))
		if err := e.cfg.Check(); err != nil {
			t.Error(err)
		}
	}
}
