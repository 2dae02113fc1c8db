//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sagestore/sagestore/internal/pgtest"
)

// build builds the program, with a layer over its sources where one is given.
func build(t *testing.T, layer string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "torture")
	args := []string{"build", "-o", binary}
	if layer != "" {
		args = append(args, "-overlay", layer)
	}
	cmd := exec.CommandContext(t.Context(), "go", append(args, ".")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	return binary
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// needRedis answers which cache can be tested.
func needRedis(t *testing.T) (cache string) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("redis-server is needed: %v", err)
		}
		t.Logf("the cache is kept in files: %v", err)
		return "file"
	}
	return ""
}

// needPostgres tells whether stores on PostgreSQL can be tested.
func needPostgres(t *testing.T) {
	t.Helper()
	switch needRedis(t) {
	case "file":
		t.Skip("with PostgreSQL the cache is in Redis")
	default:
		pgtest.Need(t)
	}
}

// wear tortures stores for a while. The directory stays when something is found.
func wear(ctx context.Context, t *torture, most time.Duration) (out string, err error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	var b bytes.Buffer
	t.out, t.quiet, t.callers = &b, true, 4
	err = t.run(ctx)
	if errors.Is(err, context.DeadlineExceeded) && t.clock.Now().Sub(t.started) >= most-time.Second {
		err = errors.Join(os.RemoveAll(t.dir)) // it found nothing in that time
	}
	return b.String(), err
}

func TestKillsBreakNoPromise(t *testing.T) {
	// Not the test's own binary: the race detector makes it slow, and nobody reads
	// what it says in a process that is killed.
	binary := build(t, "")
	for _, c := range []struct {
		why    string
		cache  string
		faults []string
		agents bool
	}{
		{"processes are killed, the cache in Redis", needRedis(t), []string{"kill"}, false},
		{"processes are killed, the cache in files", "file", []string{"kill"}, false},
		{"Redis, the disk and single files fail as well", needRedis(t), faultNames()[1:], false},
		{"agents of all kinds of stores are killed amid their work", needRedis(t), []string{"kill"}, true},
	} {
		t.Run(c.why, func(t *testing.T) {
			kills, most := 24, 8*time.Second
			if os.Getenv("CI") == "true" {
				kills, most = 96, 28*time.Second
			}
			if c.agents {
				kills, most = kills/3, most/3
			}
			out, err := wear(t.Context(), &torture{exe: binary, lanes: 2, kills: kills, cache: c.cache, faults: c.faults, agents: c.agents}, most)
			if err != nil {
				t.Error(err)
			}
			t.Log(out)
		})
	}
}

// The servers are restarted and lose connections in each round, which takes a while: a
// few rounds here, make torture-postgres for more.
func TestNothingThatHappensToServersBreaksAPromise(t *testing.T) {
	needPostgres(t)
	rounds := 4
	if os.Getenv("CI") == "true" {
		rounds = 8
	}
	out, err := wear(t.Context(), &torture{
		exe: build(t, ""), lanes: 2, kills: 1000, rounds: rounds, postgres: true, faults: networkFaults(),
	}, 14*time.Second)
	if err != nil {
		t.Error(err)
	}
	t.Log(out)
}
