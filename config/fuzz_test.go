package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/config"
)

// FuzzParse checks that no text ends the program, that every fault names a
// problem, that secrets stay hidden, and that what parses also resolves.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, "testdata/reference.yaml", "testdata/show.yaml", "../config.example.yaml") {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	for _, s := range []string{"", "~", "a: &a [*a]", "<<: *x", "? [a]\n: b", "--- !!map {}\n", "memory: {<<: {budget: 1}}", "a: !!float .nan", "\xff", "categories: {a: {tier: \"${env:S}\", ttl: ${env:S}}}"} {
		f.Add(s)
	}
	vars := env(map[string]string{"S": "hunter2secret", "HOME": "/home/u"})
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "file:") { // reads the file system
			return
		}
		c, err := config.Parse([]byte(text), vars, config.Drivers(drivers()), config.Source("f.yaml"))
		if err != nil {
			if strings.Contains(err.Error(), "hunter2secret") && !strings.Contains(text, "hunter2secret") {
				t.Errorf("a secret shows: %v", err)
			}
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, "f.yaml") && !strings.Contains(err.Error(), "\\") {
					t.Errorf("a fault without a place: %q", line)
				}
			}
			return
		}
		e, err := c.Resolve(vars)
		if err != nil {
			t.Fatalf("parses and does not resolve: %v", err)
		}
		for _, s := range e.Settings() {
			if strings.Contains(s.Value, "hunter2secret") && (s.Path == "redis.password" || strings.HasPrefix(s.Path, "encryption.keys.")) {
				t.Errorf("%s shows", s.Path)
			}
		}
		e.Warnings()
		for _, r := range e.Routes {
			if _, err := e.Policy("store."+r.Tier, nil); err != nil {
				t.Error(err)
			}
		}
	})
}

func FuzzTexts(f *testing.F) {
	for _, s := range []string{"3600", "90s", "1h30m", "64MiB", "never", "-5", "99999999999999999999d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, ok := config.TTL(text).Duration(); ok && d <= 0 {
			t.Errorf("%q is %v", text, d)
		}
		if n, ok := config.Size(text).Bytes(); ok && n <= 0 {
			t.Errorf("%q is %d", text, n)
		}
		if shown := config.Secret(text).String(); len(text) > 8 && !strings.Contains(text, "://") && shown != "***" {
			t.Errorf("%q shows as %q", text, shown)
		}
	})
}
