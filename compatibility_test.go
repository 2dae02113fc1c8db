package sagestore_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryCounterpartIsThere holds that the tests which docs/COMPATIBILITY.md names
// beside those of others are there.
func TestEveryCounterpartIsThere(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("docs", "COMPATIBILITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `[a-z0-9_]+` \\| (.*) \\|$").FindAllStringSubmatch(string(text), -1)
	if len(rows) != 55 {
		t.Errorf("the page has %d tests of others, want 55", len(rows))
	}
	for _, row := range rows {
		for ours := range strings.SplitSeq(row[1], ", ") {
			dir, name := "agent", strings.Trim(ours, "`")
			if at, after, ok := strings.Cut(name, "` `"); ok {
				dir, name = at, after
			}
			files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, file := range files {
				code, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				found = found || strings.Contains(string(code), "\nfunc "+name+"(")
			}
			if !found {
				t.Errorf("%s has no %s, which is to be the counterpart of %s", dir, name, row[0])
			}
		}
	}
}
