package manager_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
	drivers "github.com/sagestore/sagestore/tiers/all"
)

// What four processes do to one store: each has 16 callers that read a hot key and
// many cold ones, and one process writes.
const (
	staleProcesses = 4
	staleCallers   = 16
	staleHot       = "hot"
)

// staleRun is what each process is told, and staleSeen what it tells.
type staleRun struct {
	Dir, URL, Home string
	TTL            config.TTL
	Cold           int
	For            time.Duration
	Writes         bool
}

type staleSeen struct {
	// Acked has when the n-th save of a key was acknowledged, in nanoseconds.
	Acked map[string][]int64
	// Last has when the last load that found the n-th save of a key began.
	Last  map[string]map[int]int64
	Reads int64
	Loads map[string]int // of the home, since all are ready
	Lost  int64          // how often since then the layer has lost an entry, or all of them
}

func (r *staleRun) config() *config.Config {
	c := nearOn(r.Dir, r.URL, r.TTL)
	for name, category := range c.Categories {
		category.NearSize = "512MiB"
		c.Categories[name] = category
	}
	return c
}

// staleChild is one of the processes.
func staleChild(ctx context.Context) error {
	var run staleRun
	if err := json.Unmarshal([]byte(os.Getenv("SAGESTORE_TEST_RUN")), &run); err != nil {
		return err
	}
	seen := staleSeen{Acked: map[string][]int64{}, Last: map[string]map[int]int64{}, Loads: map[string]int{}}
	var mu sync.Mutex
	count := func(op string, k tiers.Key) error {
		if op == "load" && k.Category == "app."+run.Home {
			mu.Lock()
			seen.Loads[k.Name]++
			mu.Unlock()
		}
		return nil
	}
	m, err := manager.Open(ctx, run.config(), sagetest.Failing(drivers.Tiers(), count))
	if err != nil {
		return err
	}
	c := manager.For[int](m, "app."+run.Home)
	if _, err := c.Load(ctx, staleHot); err != nil {
		return err
	}
	if _, err := io.WriteString(os.Stdout, "\n"); err != nil {
		return err
	}
	lost := func() (int64, error) {
		s, err := m.Stats(ctx)
		n := s.Near["app."+run.Home]
		return n.Clears + n.Evicted, err
	}
	_, _ = io.ReadAll(os.Stdin) // until all are ready
	before, err := lost()
	if err != nil {
		return err
	}
	mu.Lock()
	clear(seen.Loads)
	mu.Unlock()
	end := tiers.SystemClock().Now().Add(run.For)
	var g sync.WaitGroup
	errs := make([]error, staleCallers+1)
	for caller := range staleCallers {
		g.Go(func() { errs[caller] = run.read(ctx, c, end, &mu, &seen) })
	}
	if run.Writes {
		g.Go(func() { errs[staleCallers] = run.write(ctx, c, end, &mu, &seen) })
	}
	g.Wait()
	seen.Lost, err = lost()
	seen.Lost -= before
	return errors.Join(errors.Join(errs...), err, json.NewEncoder(os.Stdout).Encode(seen), m.Close(ctx))
}

func (r *staleRun) read(ctx context.Context, c *manager.Collection[int], end time.Time, mu *sync.Mutex, seen *staleSeen) error {
	last, reads := map[string]map[int]int64{}, int64(0)
	for {
		key := staleHot
		if rand.IntN(2) == 0 {
			key = strconv.Itoa(rand.IntN(r.Cold))
		}
		began := tiers.SystemClock().Now()
		if began.After(end) {
			break
		}
		n, err := c.Load(ctx, key)
		if err != nil && !errors.Is(err, tiers.ErrUnavailable) {
			return fmt.Errorf("%s: %w", key, err)
		}
		if err != nil {
			continue
		}
		if reads++; reads%100 == 0 { // so that the one who saves gets his turn
			_ = tiers.SystemClock().Sleep(ctx, time.Millisecond)
		}
		if last[key] == nil {
			last[key] = map[int]int64{}
		}
		last[key][n] = max(last[key][n], began.UnixNano())
	}
	mu.Lock()
	defer mu.Unlock()
	seen.Reads += reads
	for key, ns := range last {
		if seen.Last[key] == nil {
			seen.Last[key] = ns
			continue
		}
		for n, at := range ns {
			seen.Last[key][n] = max(seen.Last[key][n], at)
		}
	}
	return nil
}

func (r *staleRun) write(ctx context.Context, c *manager.Collection[int], end time.Time, mu *sync.Mutex, seen *staleSeen) error {
	saved := map[string]int{}
	for i := 0; tiers.SystemClock().Now().Before(end); i++ {
		key := staleHot
		if i%2 == 1 {
			key = strconv.Itoa(rand.IntN(min(r.Cold, 1000)))
		}
		n := saved[key] + 1
		if err := c.Save(ctx, key, n); err != nil {
			return fmt.Errorf("save: %w", err)
		}
		saved[key] = n
		mu.Lock()
		seen.Acked[key] = append(seen.Acked[key], tiers.SystemClock().Now().UnixNano())
		mu.Unlock()
		_ = tiers.SystemClock().Sleep(ctx, time.Duration(rand.IntN(4))*time.Millisecond)
	}
	return nil
}

// No load finds what was replaced longer ago than is promised, and each process asks
// the home once for what it has not seen or may not rely on any more.
func TestStalenessBetweenProcessesIsBounded(t *testing.T) { //nolint:tparallel // together they would starve each other
	t.Parallel()
	run := staleRun{Cold: 500, For: 1500 * time.Millisecond}
	if long, err := time.ParseDuration(os.Getenv("SAGESTORE_STALE")); err == nil {
		run.Cold, run.For = 100_000, long
	}
	for _, c := range []struct {
		why, home string
		ttl       config.TTL
		cuts      bool
	}{
		{"the cache on Redis", "cache", "1h", false}, // so nothing but messages makes an entry go
		{"the database", "database", "1h", false},
		{"the database, and connections are cut", "database", "1s", true},
	} {
		t.Run(c.why, func(t *testing.T) {
			run := run
			run.Home, run.TTL = c.home, c.ttl
			checkStaleness(t, run, c.cuts)
		})
	}
}

func checkStaleness(t *testing.T, run staleRun, cuts bool) {
	t.Helper()
	server := redistest.Start(t)
	run.Dir, run.URL = t.TempDir(), server.URL()
	fill := value[*manager.Manager](t)(manager.Open(t.Context(), run.config(), drivers.Tiers(), manager.WithoutJobs()))
	all := map[string]int{staleHot: 0}
	for i := range run.Cold {
		if all[strconv.Itoa(i)] = 0; len(all) == 10_000 || i == run.Cold-1 {
			must(t, manager.For[int](fill, "app."+run.Home).SaveMany(t.Context(), all))
			clear(all)
		}
	}
	closeNow(t, fill)

	seen := make([]staleSeen, staleProcesses)
	var g, ready sync.WaitGroup
	ready.Add(len(seen))
	for i := range seen {
		own := run
		own.Writes = i == 0
		g.Go(func() { seen[i] = own.start(t, &ready) })
	}
	over := make(chan struct{})
	var cutter sync.WaitGroup
	if cuts {
		cutter.Go(func() {
			for {
				select {
				case <-over:
					return
				case <-time.After(400 * time.Millisecond):
					server.Do("CLIENT", "KILL", "TYPE", "pubsub")
				}
			}
		})
	}
	g.Wait()
	close(over)
	cutter.Wait()
	if t.Failed() {
		return
	}
	ttl, _ := run.TTL.Duration()
	late := staleness(seen)
	if len(late) > 0 && late[len(late)-1] >= ttl {
		t.Errorf("a load found what was replaced %s before it began", late[len(late)-1])
	}
	reads, loads := int64(0), 0
	for i := range seen {
		reads += seen[i].Reads
		for _, n := range seen[i].Loads {
			loads += n
		}
		if n := len(seen[i].Last[staleHot]); n < 2 && len(seen[0].Acked[staleHot]) > 2 {
			t.Errorf("of %d saves of the hot key process %d found %d: it hears of none", len(seen[0].Acked[staleHot]), i, n)
		}
		if i > 0 { // in the process that saves, a load during a save can't be held
			run.checkLoads(t, &seen[i], seen[0].Acked)
		}
	}
	share := func(p float64) time.Duration { return late[min(len(late)-1, int(p*float64(len(late))))] }
	if len(late) > 0 {
		t.Logf("%d reads, %d loads of the home, %d saves; %d times a value was found after it was replaced, for %s (median), %s (99 %%), %s (longest)",
			reads, loads, saves(seen[0].Acked), len(late), share(0.5), share(0.99), late[len(late)-1])
	}
}

func saves(acked map[string][]int64) (n int) {
	for _, all := range acked {
		n += len(all)
	}
	return n
}

// staleness answers, in order, for how long each value was found by some process
// after the next one was acknowledged.
func staleness(seen []staleSeen) (late []time.Duration) {
	for i := range seen {
		for key, ns := range seen[i].Last {
			for n, began := range ns {
				if acked := seen[0].Acked[key]; n < len(acked) && began > acked[n] { // the (n+1)-th save
					late = append(late, time.Duration(began-acked[n]))
				}
			}
		}
	}
	slices.Sort(late)
	return late
}

// checkLoads demands that a process asks the home for a key once, again whenever its
// entry is over or was lost, and for each save of it: twice then at most, since a load
// that is on its way when the message comes may have found the save before or not, so
// that the next, which began before that one ended, may be the one to have looked too early.
func (r *staleRun) checkLoads(t *testing.T, seen *staleSeen, acked map[string][]int64) {
	t.Helper()
	ttl, _ := r.TTL.Duration()
	allowed := func(key string) int { return 1 + int(r.For/ttl) + int(seen.Lost) + 2*len(acked[key]) }
	for key, n := range seen.Loads {
		if n > allowed(key) {
			t.Errorf("a process asked the home %d times for %q, %d are allowed: it was saved %d times, and lost %d times", n, key, allowed(key), len(acked[key]), seen.Lost)
		}
	}
}

// start runs the process, which begins when all are ready, and answers what it has
// seen.
func (r *staleRun) start(t *testing.T, ready *sync.WaitGroup) (seen staleSeen) {
	t.Helper()
	what, err := json.Marshal(r)
	if err != nil {
		ready.Done()
		t.Error(err)
		return seen
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "SAGESTORE_TEST_CHILD=stale", "SAGESTORE_TEST_RUN="+string(what))
	var faults bytes.Buffer
	cmd.Stderr = &faults
	in, err := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err = errors.Join(err, err2); err == nil {
		err = cmd.Start()
	}
	lines := bufio.NewReader(out)
	if err == nil {
		_, err = lines.ReadString('\n')
	}
	ready.Done()
	ready.Wait()
	if err == nil {
		err = errors.Join(in.Close(), json.NewDecoder(lines).Decode(&seen), cmd.Wait())
	}
	if err != nil {
		t.Errorf("%v\n%s", err, faults.String())
	}
	return seen
}
