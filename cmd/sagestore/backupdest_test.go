package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ran runs a command and answers its exit code and what it says.
func ran(t *testing.T, args ...string) (code int, out, diag string) {
	t.Helper()
	var o, e strings.Builder
	a := &app{in: strings.NewReader(""), out: &o, err: &e}
	code = a.run(t.Context(), args)
	return code, o.String(), e.String()
}

func TestATimeOfAtIncludesTheWholeSecondOrMinute(t *testing.T) {
	noon := time.Date(2026, 11, 28, 12, 30, 0, 0, time.Local)
	utc := time.Date(2026, 11, 28, 12, 30, 0, 0, time.UTC)
	for _, c := range []struct {
		text string
		want time.Time
	}{
		{"2026-11-28 12:30", noon.Add(time.Minute - 1)},
		{"2026-11-28 12:30:00", noon.Add(time.Second - 1)},
		{"2026-11-28 12:30:00.25", noon.Add(250 * time.Millisecond)},
		{"2026-11-28T12:30:00Z", utc.Add(time.Second - 1)},
		{"2026-11-28T14:30:00+02:00", utc.Add(time.Second - 1)},
		{"2026-11-28T12:30:00.000Z", utc},
		{"2026-11-28T12:30:00.000001Z", utc.Add(time.Microsecond)},
		{"2026-11-28", time.Date(2026, 11, 28, 0, 0, 0, 0, time.Local)},
	} {
		if got, err := parseTime(c.text); err != nil || !got.Equal(c.want) {
			t.Errorf("%s: got %v, %v; want %v", c.text, got, err, c.want)
		}
	}
}

func TestTheTimeThatTheListShowsFindsItsBackup(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("SAGESTORE_CONFIG", "")
	t.Chdir(t.TempDir())
	for _, args := range [][]string{{"save", "session.preferences", "k", "1"}, {"backup", "create"}} {
		if code, _, diag := ran(t, append(args, "--data-dir", "store")...); code != 0 {
			t.Fatalf("%v: code %d: %s", args, code, diag)
		}
	}
	_, out, _ := ran(t, "backup", "list", "--data-dir", "store")
	lines := strings.Split(out, "\n")
	if len(lines) < 2 || len(strings.Fields(lines[1])) < 3 {
		t.Fatalf("the list is %q", out)
	}
	row := strings.Fields(lines[1])
	code, out, diag := ran(t, "backup", "restore", "--data-dir", "store", "--at", row[1], "--to", "there")
	if code != 0 || !strings.Contains(out, row[0]) {
		t.Errorf("--at %s: code %d, %q, %q; want backup %s", row[1], code, out, diag, row[0])
	}
}

func TestAPlaceThatCanHoldNoBackupsIsRefused(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("SAGESTORE_CONFIG", "")
	t.Chdir(t.TempDir())
	for _, args := range [][]string{{"save", "session.preferences", "k", "1"}, {"backup", "create"}} {
		if code, _, diag := ran(t, append(args, "--data-dir", "store")...); code != 0 {
			t.Fatalf("%v: code %d: %s", args, code, diag)
		}
	}
	if err := os.Symlink(filepath.Join("store", "data"), "link"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		why, want string
		args      []string
	}{
		{"nothing is kept in memory", "keeps nothing", []string{"create", "--destination", "mem://x"}},
		{"the files are not for backups", "file.base_path", []string{"create", "--destination", "store/data/backups"}},
		{"nor are they through a link", "file.base_path", []string{"create", "--destination", "link/backups"}},
		{"a list of them is of no use", "file.base_path", []string{"list", "--destination", "store/data"}},
		{"the files are not for another store", "file.base_path", []string{"restore", "latest", "--to", "store/data/drill"}},
		{"nor is what jobs note", "jobs", []string{"restore", "latest", "--to", "store/jobs/drill"}},
		{"no scheme of that name is there", "azblob, file, gs, s3", []string{"create", "--destination", "ftp://x"}},
	} {
		code, _, diag := ran(t, append([]string{"backup", "--data-dir", "store"}, c.args...)...)
		if code == 0 || !strings.Contains(diag, c.want) || strings.Contains(diag, "mem, ") {
			t.Errorf("%s: code %d, %q; want %q", c.why, code, diag, c.want)
		}
	}
}
