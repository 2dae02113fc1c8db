//go:build linux

package powerloss_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sagestore/sagestore/internal/powerloss"
	"github.com/sagestore/sagestore/internal/torture/check"
	"github.com/sagestore/sagestore/tiers"
)

// images answers how many power cuts a test makes.
func images(t *testing.T) int {
	t.Helper()
	if s := os.Getenv("SAGESTORE_IMAGES"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("SAGESTORE_IMAGES is %q, want a number", s)
		}
		return n
	}
	if os.Getenv("CI") == "true" {
		return 120
	}
	return 60
}

func seed(t *testing.T) uint64 {
	t.Helper()
	if s := os.Getenv("SAGESTORE_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return uint64(tiers.SystemClock().Now().UnixNano())
}

// machine runs one store until the power is cut.
type machine struct {
	binary string
	dir    string
	run    map[string]any // what the worker is told
}

// store is what the processes are told of the store at a place.
func (m *machine) store(dir string) map[string]any {
	s := map[string]any{"Dir": dir}
	if m.run["Normal"] == true {
		s["Normal"] = true
	}
	return s
}

func (m *machine) command(ctx context.Context, does string, spec map[string]any, wrapper ...string) *exec.Cmd {
	b, err := json.Marshal(spec)
	if err != nil {
		panic(err)
	}
	argv := append(wrapper, m.binary, does, string(b))
	return exec.CommandContext(ctx, argv[0], argv[1:]...)
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

// record runs a worker on a store that was made before, or on none.
func (m *machine) record(t *testing.T, fresh bool) powerloss.Recording {
	t.Helper()
	base, before := m.path("data"), m.path("before")
	if err := os.Mkdir(base, 0o700); err != nil {
		t.Fatal(err)
	}
	if !fresh {
		if out, err := m.command(t.Context(), "found", map[string]any{"Store": m.store(base)}).CombinedOutput(); err != nil {
			t.Fatalf("make a store: %v: %s", err, out)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", base, before).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	spec := map[string]any{"Store": m.store(base), "Log": m.path("log"), "Name": "w", "Seed": seed(t), "Callers": 4}
	maps.Copy(spec, m.run)
	if m.run["Normal"] == true {
		spec["Store"] = m.store(base)
	}
	cmd := m.command(t.Context(), "work", spec, "strace", "-f", "-xx", "-s", "16777216", "-qq",
		"-o", m.path("trace"), "-e", "trace="+powerloss.Calls, "-e", "signal=none")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the worker: %v: %s", err, out)
	}
	trace, err := os.Open(m.path("trace"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = trace.Close() })
	return powerloss.Recording{Trace: trace, Before: before, Base: base, Log: m.path("log"), Restart: restart}
}

// restart makes the mark of a file tree that of an earlier run of the machine.
func restart(path string, data []byte) []byte {
	const bootAt = 24
	if filepath.Base(path) == ".mark" && len(data) > bootAt {
		for i := range data[bootAt:] {
			data[bootAt+i] = 0
		}
		copy(data[bootAt:], "before the cut")
	}
	return data
}

// check opens the store behind a cut and answers what is wrong with it.
func (m *machine) check(ctx context.Context, dir string, cut powerloss.Cut, before check.State) ([]check.Fault, error) {
	lines, err := check.ParseLog(cut.Log)
	if err != nil {
		return nil, err
	}
	asks, answers := dir+".asks", dir+".answers"
	var ids []string
	for _, l := range lines {
		if l.Kind == check.Try && l.Tx && len(l.Writes) > 0 {
			ids = append(ids, l.Op)
		}
	}
	if err := os.WriteFile(asks, []byte(strings.Join(ids, "\n")), 0o600); err != nil {
		return nil, err
	}
	spec := map[string]any{"Store": m.store(dir), "Asks": asks, "Answers": answers}
	if out, err := m.command(ctx, "recover", spec).CombinedOutput(); err != nil {
		return []check.Fault{{Kind: "recovery", Text: fmt.Sprintf("%v: %s", err, bytes.TrimSpace(out))}}, nil
	}
	places := check.Places{Database: filepath.Join(dir, "sage.db"), Files: filepath.Join(dir, "files"), Cache: filepath.Join(dir, "cache"), Unsynced: true}
	found, err := check.Read(ctx, places)
	if err != nil {
		return []check.Fault{{Kind: "unreadable", Text: err.Error()}}, nil //nolint:nilerr // it is what was found
	}
	var outcomes map[string]bool
	b, err := os.ReadFile(answers)
	if err == nil {
		err = json.Unmarshal(b, &outcomes)
	}
	if err != nil {
		return nil, err
	}
	lossy := map[string]bool{"cache": true} // the local cache does not sync, and says so
	r := check.Round{Logs: [][]check.Line{lines}, Before: before, After: found.State, Commits: found.Commits, Outcomes: outcomes, Lossy: lossy}
	if m.run["Normal"] == true {
		r = r.Forgetful()
	}
	return append(found.Faults, r.Check()...), nil
}

var errEnough = errors.New("enough faults are found")

// cuts makes power cuts, checks each, and answers the faults of the first so many of them
// that had some, after which it stops.
func (m *machine) cuts(t *testing.T, rec powerloss.Recording, n, enough int, before check.State) (faulty []string) {
	t.Helper()
	type job struct {
		cut powerloss.Cut
		dir string
	}
	jobs := make(chan job, 4)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var done atomic.Int64
	for range 2 {
		wg.Go(func() {
			for j := range jobs {
				faults, err := m.check(t.Context(), j.dir, j.cut, before)
				done.Add(1)
				if err != nil {
					t.Errorf("%v", err)
				}
				if len(faults) == 0 {
					_ = os.RemoveAll(j.dir)
					continue
				}
				mu.Lock()
				faulty = append(faulty, fmt.Sprintf("cut after call %d (%s), of what was not synced %s is there: %v\nin %s", j.cut.After, j.cut.Call, j.cut.Mode, faults, j.dir))
				mu.Unlock()
			}
		})
	}
	i := 0
	err := rec.Cuts(n, seed(t), func(c powerloss.Cut) error {
		i++
		dir := m.path(fmt.Sprintf("image-%d", i))
		if err := c.Write(dir); err != nil {
			return err
		}
		jobs <- job{c, dir}
		mu.Lock()
		defer mu.Unlock()
		if len(faulty) >= enough {
			return errEnough
		}
		return t.Context().Err()
	})
	close(jobs)
	wg.Wait()
	if err != nil && !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	t.Logf("%d power cuts, %d of them with faults", done.Load(), len(faulty))
	return faulty
}

// build builds the program that works on a store, with a layer over its sources
// where one is given.
func build(t *testing.T, overlay string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "torture")
	args := []string{"build", "-o", out}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(t.Context(), "go", append(args, "github.com/sagestore/sagestore/internal/torture")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, text)
	}
	return out
}

func needStrace(t *testing.T) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "strace", "-qq", "-o", "/dev/null", "true").CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("strace: %v: %s", err, out)
		}
		t.Skipf("strace can't trace here: %v: %s", err, out)
	}
}

// keep answers a directory that stays when the test fails.
func keep(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "powerloss-") //nolint:usetesting // what was found is to be looked at
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			_ = os.RemoveAll(dir)
		}
	})
	return dir
}

// made answers what is stored in the store that was made before.
func (m *machine) made(t *testing.T) check.State {
	t.Helper()
	found, err := check.Read(t.Context(), check.Places{Database: m.path("before/sage.db"), Files: m.path("before/files"), Cache: m.path("before/cache")})
	if err != nil || len(found.Faults) > 0 {
		t.Fatal(err, found.Faults)
	}
	return found.State
}

func TestAPowerCutLosesNothing(t *testing.T) {
	needStrace(t)
	binary := build(t, "")
	for _, c := range []struct {
		why   string
		run   map[string]any
		fresh bool
		share int // of the images
	}{
		{"plain saves into a store that was there", map[string]any{"Plain": true, "Ops": 60}, false, 4},
		{"plain saves into a store that is new", map[string]any{"Plain": true, "Ops": 30}, true, 4},
		{"transactions", map[string]any{"Ops": 60}, false, 2},
		{"transactions of one caller", map[string]any{"Ops": 100, "Callers": 1}, false, 8},
		{"transactions with synchronous: normal are whole or not there", map[string]any{"Ops": 60, "Normal": true}, false, 8},
	} {
		t.Run(c.why, func(t *testing.T) {
			m := &machine{binary: binary, dir: keep(t), run: c.run}
			rec := m.record(t, c.fresh)
			before := check.State{}
			if !c.fresh {
				before = m.made(t)
			}
			for _, f := range m.cuts(t, rec, max(images(t)/c.share, 8), math.MaxInt, before) {
				t.Error(f)
			}
		})
	}
}
