package config_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/tiers"
)

var update = flag.Bool("update", false, "write the golden files anew")

// s3 are the options of a driver for tiers of an app's own.
type s3 struct {
	Bucket   string
	Prefix   string
	MaxBytes int64
	Every    time.Duration
	Parallel int
	Ratio    float64
	Mirror   *bool
	Path     string
	Zones    []string
	Labels   map[string]string
	Deep     struct{ N int }
	APIKey   string
}

func noOpen(context.Context, tiers.Env) (tiers.Tier, error) { return nil, tiers.ErrUnsupported }

// drivers is a registry with every driver that the tests name.
func drivers() tiers.Drivers {
	ds := tiers.Drivers{{Name: "s3", Options: &s3{Parallel: 4, Prefix: "sage/"}, Open: noOpen}}
	for _, d := range []struct{ tier, name string }{
		{"memory", "memory"}, {"cache", "redis"}, {"cache", "file"}, {"database", "sqlite"}, {"database", "postgres"}, {"file", "file"},
	} {
		ds = append(ds, tiers.Driver{Tier: d.tier, Name: d.name, Options: &struct{}{}, Open: noOpen})
	}
	return ds
}

func env(vars map[string]string) config.Option {
	return config.Lookup(func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	})
}

func TestEveryFaultIsReportedAtOnceInOrderAndWithoutSecrets(t *testing.T) {
	files, err := filepath.Glob("testdata/faults/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("fault files: %d, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			_, err := config.Load(file, config.Drivers(drivers()), env(map[string]string{"SECRET": "hunter2", "HOME": "/home/u"}))
			if err == nil {
				t.Fatal("loads without an error")
			}
			got := err.Error() + "\n"
			golden := strings.TrimSuffix(file, ".yaml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err2 := os.ReadFile(golden)
			if err2 != nil {
				t.Fatal(err2)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			if strings.Contains(strings.ToLower(got), "hunter") {
				t.Errorf("an error holds a secret:\n%s", got)
			}
			var all config.Errors
			if !errors.As(err, &all) {
				t.Fatalf("the error is a %T, want config.Errors", err)
			}
			byLine := func(a, b *config.Error) int { return a.Line - b.Line }
			if !slices.IsSortedFunc(all, byLine) {
				t.Errorf("faults are not in the order of the file:\n%s", got)
			}
			for _, e := range all {
				if e.File != file || e.Line == 0 {
					t.Errorf("%q names no line", e)
				}
			}
		})
	}
}

func TestFaultsOfCategoriesAreErrCategory(t *testing.T) {
	_, err := config.Parse([]byte("categories: {a: {tier: databse}}"))
	if !errors.Is(err, tiers.ErrCategory) {
		t.Errorf("%v is not ErrCategory", err)
	}
}

func TestAMissingFileIsAnErrorThatNamesIt(t *testing.T) {
	_, err := config.Load("testdata/none.yaml")
	if !errors.Is(err, os.ErrNotExist) || err.Error() != "testdata/none.yaml: can't be read: no such file or directory" {
		t.Errorf("got %v", err)
	}
}

// A configuration made in Go has the same faults, without lines.
func TestCheckReportsAllFaultsOfAConfigMadeInGo(t *testing.T) {
	err := (&config.Config{
		DefaultStore: "sqlit",
		Memory:       config.Memory{Budget: "64M", Overflow: "spil"},
		Redis:        &config.Redis{},
		Categories:   map[string]config.Category{"a": {TTL: "-5", Near: []string{"memory", "memory"}}},
		Checkpoints:  config.Checkpoints{Max: -1},
		Backup:       config.Backup{Retention: -3},
		SQLite:       config.SQLite{Path: "~bob/x"},
		Tiers:        map[string]config.Tier{"archive": {}},
	}).Check()
	want := `memory.budget: "64M" is no size: did you mean 64MiB?
memory.overflow: "spil" is not known; did you mean "spill"?
sqlite.path: "~bob/x": only ~/ is understood: write the path in full
categories.a.ttl: -5 is negative: write seconds (3600), 90s, 15m, 24h, 30d, 2w, never, session
checkpoints.max: -1 is negative
backup.retention: -3 would keep no backup: write 1 or more
redis.url: is missing: write a URL that begins with redis:// or rediss:// or unix://
default_store: there is no tier "sqlit"; did you mean "sqlite"?
tiers.archive.driver: is missing: name the driver of this tier
categories.a.near: names memory twice`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestAFaultIsOneLineWhateverTheKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sagestore.yaml")
	if err := os.WriteFile(file, []byte(`categories: {"app.b\r\e[31mc": {tier: file}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := config.Load(file)
	if err == nil || strings.ContainsAny(err.Error(), "\r\x1b") || !strings.Contains(err.Error(), "categories.app.b  [31mc: ") {
		t.Errorf("it says %q", err)
	}
}
