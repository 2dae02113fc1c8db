package pgtest

import (
	"os"
	"strings"
	"testing"
)

func TestPgBouncerThatDoesNotStartSaysWhyAndLeavesNothing(t *testing.T) {
	program := bouncer()
	if program == "" {
		t.Skip("PgBouncer is not installed")
	}
	s := Shared(t)
	dir, err := os.MkdirTemp("", "pgbouncer") //nolint:usetesting // nobody but root gets into that one
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Setenv("TMPDIR", dir)
	if port, err := s.bounce(t, program, []string{"pool_mode=none"}); err == nil || !strings.Contains(err.Error(), "pool_mode") {
		t.Errorf("it runs at port %d, %v", port, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}
