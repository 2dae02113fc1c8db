//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 {
		switch os.Args[1] { // a process of the torture
		case "work", "recover", "found":
			if err := run(context.Background(), os.Args[1:]); err != nil {
				_, _ = fmt.Fprintln(os.Stderr, "torture:", err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	goleak.VerifyTestMain(m)
}

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
	for _, c := range []struct {
		why    string
		cache  string
		faults []string
	}{
		{"processes are killed, the cache in Redis", needRedis(t), []string{"kill"}},
		{"processes are killed, the cache in files", "file", []string{"kill"}},
		{"Redis, the disk and single files fail as well", needRedis(t), faultNames()[1:]},
	} {
		t.Run(c.why, func(t *testing.T) {
			kills, most := 16, 10*time.Second
			if os.Getenv("CI") == "true" {
				kills, most = 96, 28*time.Second
			}
			out, err := wear(t.Context(), &torture{kills: kills, cache: c.cache, faults: c.faults}, most)
			if err != nil {
				t.Error(err)
			}
			t.Log(out)
		})
	}
}
