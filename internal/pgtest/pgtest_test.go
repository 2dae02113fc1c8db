package pgtest

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServerLivesAsItIsTold(t *testing.T) {
	s := Start(t, Config{Settings: []string{"max_connections=33"}})
	if got := s.Exec(t, "postgres", "SHOW max_connections; SHOW fsync"); got != "33\non" {
		t.Errorf("the settings are %q", got)
	}
	s.Exec(t, "postgres", "CREATE TABLE t (n int); INSERT INTO t VALUES (1)")
	for name, stop := range map[string]func(testing.TB){"killed": s.Kill, "stopped": s.Stop} {
		stop(t)
		if _, err := s.psql("postgres", "SELECT 1"); err == nil {
			t.Errorf("a server that was %s answers", name)
		}
		s.Restart(t)
		if got := s.Exec(t, "postgres", "SELECT n FROM t"); got != "1" {
			t.Errorf("%s and started again it has %q", name, got)
		}
	}
	s.End()
	if _, err := os.Stat(s.Dir()); err == nil {
		t.Errorf("its directory is left")
	}
}

func TestSharedServerIsOne(t *testing.T) {
	a, b := Shared(t), Shared(t)
	if a != b || a.Exec(t, "postgres", "SHOW fsync") != "off" {
		t.Errorf("there are two, or it syncs")
	}
}
