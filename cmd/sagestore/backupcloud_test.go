package main

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/internal/cloudtest"
)

// TestBackupsOfEachServiceComeBackByTheCommand: made, verified, listed, pruned and
// restored, with what the service refuses in between.
func TestBackupsOfEachServiceComeBackByTheCommand(t *testing.T) {
	for _, c := range []struct {
		name  string
		start func(testing.TB) *cloudtest.Server
		where string // of the credentials
	}{
		{"S3", cloudtest.S3, "AWS_ACCESS_KEY_ID"},
		{"Google", cloudtest.Google, "GOOGLE_APPLICATION_CREDENTIALS"},
		{"Azure", cloudtest.Azure, "AZURE_STORAGE_KEY"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("HOME", t.TempDir())
			t.Setenv("SAGESTORE_CONFIG", "")
			t.Chdir(t.TempDir())
			if err := os.WriteFile("one.yaml", []byte("backup: {retention: 1}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			s := c.start(t)
			command := func(want int, args ...string) string {
				t.Helper()
				args = append(args, "--data-dir", "store")
				if args[0] == "backup" {
					args = append(args, "--destination", s.URL("of/sage"))
				}
				code, out, diag := ran(t, args...)
				if code != want || strings.Contains(out+diag, cloudtest.Secret) {
					t.Fatalf("%v: code %d, want %d: %s%s", args, code, want, out, diag)
				}
				return out + diag
			}
			command(0, "save", "session.preferences", "user-42", `"light"`)
			command(0, "backup", "create")
			first := s.Objects()

			s.Refuse(func(r *http.Request) int {
				if r.Method == http.MethodPut || r.Method == http.MethodPost {
					return http.StatusForbidden
				}
				return 0
			})
			if text := command(exitUnavailable, "backup", "create"); !strings.Contains(text, c.where) {
				t.Errorf("what may not be written: %s", text)
			}
			s.Refuse(nil)
			if now := s.Objects(); !slices.Equal(now, first) {
				t.Errorf("a backup that failed has left %v", now)
			}

			command(0, "save", "session.preferences", "user-42", `"dark"`)
			command(0, "backup", "create")
			command(0, "backup", "verify", "latest", "--rehearse")
			if lines := strings.Count(command(0, "backup", "list"), "-"); lines == 0 {
				t.Error("none is listed")
			}
			command(0, "backup", "status", "--max-age", "1h")
			command(0, "backup", "prune", "--config", "one.yaml")
			for _, name := range first {
				if strings.HasSuffix(name, "manifest.json") && slices.Contains(s.Objects(), name) {
					t.Errorf("%s was not pruned", name)
				}
			}
			command(0, "backup", "restore", "latest", "--to", "restored")
			code, out, diag := ran(t, "load", "session.preferences", "user-42", "--data-dir", "restored")
			if code != 0 || !strings.Contains(out, "dark") {
				t.Errorf("what came back: code %d, %s%s", code, out, diag)
			}

			for _, name := range s.Objects() {
				if strings.Contains(name, "database") {
					s.Damage(t, name)
				}
			}
			command(exitNotFound, "backup", "verify", "latest")
			s.Refuse(func(*http.Request) int { return http.StatusForbidden })
			if text := command(exitUnavailable, "backup", "list"); !strings.Contains(text, c.where) {
				t.Errorf("what may not be read: %s", text)
			}
		})
	}
}
