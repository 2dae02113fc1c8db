package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/config"
)

// What the example file has switched on are the defaults.
func TestTheExampleFileSaysTheDefaults(t *testing.T) {
	c, err := config.Load("../config.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	values := func(e *config.Effective) map[string]string {
		m := make(map[string]string)
		for _, s := range e.Settings() {
			m[s.Path] = s.Value
		}
		return m
	}
	if diff := cmp.Diff(values(resolve(t, config.Default())), values(resolve(t, c))); diff != "" {
		t.Errorf("differs from the defaults (-default +example):\n%s", diff)
	}
}

// Every setting of the example file loads once its "#" is gone.
func TestTheExampleFileLoadsWithEverythingSwitchedOn(t *testing.T) {
	b, err := os.ReadFile("../config.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^#(\w|  +\S)`).ReplaceAllString(string(b), "$1")
	if strings.Count(string(b), "\n#") < 30 || strings.Contains(all, "\n#redis") {
		t.Fatalf("the settings were not found:\n%s", all)
	}
	dir := t.TempDir()
	for _, name := range []string{"sage.key", "backup.sign", "backup.old.sign"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat("ab", 32)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Parse([]byte(all), config.Source(filepath.Join(dir, "c.yaml")), config.Drivers(drivers()), env(nil))
	if err != nil {
		t.Fatalf("%v\n%s", err, all)
	}
	e := resolve(t, c)
	if !e.Backup.Enabled || e.Encryption.Current != "k1" || policyOf(t, e, "app.drafts").Codec != "msgpack" {
		t.Errorf("not everything is on: %+v", e)
	}
}

func TestTheExampleFileOfPostgresLoads(t *testing.T) {
	c, err := config.Load("../config.postgres.example.yaml", config.Drivers(drivers()), env(map[string]string{"SAGE_DATABASE_PASSWORD": "pass word"}))
	if err != nil {
		t.Fatal(err)
	}
	e := resolve(t, c)
	written := make(map[string]string)
	for _, s := range e.Settings() {
		if strings.HasPrefix(s.Path, "postgres.") || s.Path == "database.driver" {
			written[s.Path] = s.Value
		}
	}
	want := map[string]string{
		"database.driver": "postgres", "postgres.url": "postgres://***@localhost:5432/sage", "postgres.password": "***",
		"postgres.sslmode": "prefer", "postgres.schema": "sagestore", "postgres.pool": "8", "postgres.pooler": "false",
		"postgres.statement_timeout": "1m", "postgres.lock_timeout": "30s",
	}
	if diff := cmp.Diff(want, written); diff != "" {
		t.Errorf("the settings (-want +got):\n%s", diff)
	}
	// What it writes out are the defaults.
	c.Postgres = &config.Postgres{URL: c.Postgres.URL}
	for _, s := range resolve(t, c).Settings() {
		if v, ok := written[s.Path]; ok && s.Path != "postgres.password" && s.Path != "postgres.sslmode" && s.Value != v {
			t.Errorf("%s is %q in the file, and %q by default", s.Path, v, s.Value)
		}
	}
}
