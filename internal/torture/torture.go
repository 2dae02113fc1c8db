//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sagestore/sagestore/internal/torture/check"
	"github.com/sagestore/sagestore/tiers"
)

// torture is the parent of all processes.
type torture struct {
	kills    int
	rounds   int // 0: any
	seed     uint64
	dir      string
	faults   []string
	cache    string
	callers  int
	plain    bool
	agents   bool
	postgres bool
	quiet    bool
	lanes    int    // stores at a time; 0: one
	exe      string // program of the children; empty: this one
	out      io.Writer

	clock   tiers.Clock
	rng     *rand.Rand
	redis   *server
	network *network // nil: the database is SQLite
	done    progress
	started time.Time
	mine    bool // the directory
}

// progress is what a run that was interrupted goes on from.
type progress struct {
	Seed    uint64
	Kills   int
	Rounds  int
	Stores  int
	Ops     int            // operations that were begun
	Acked   int            // and acknowledged
	Unknown int            // whose outcome nobody knew
	Points  map[string]int // how many died at each point
	Faults  map[string]int // rounds of each kind
	Seconds float64
}

// roundsPerStore is after how many rounds a new store is made.
const roundsPerStore = 60

func (t *torture) run(ctx context.Context) (err error) {
	t.clock = tiers.SystemClock()
	t.started = t.clock.Now()
	if err := t.begin(); err != nil {
		return err
	}
	if t.lanes > 1 {
		return t.sideBySide(ctx)
	}
	t.rng = rand.New(rand.NewPCG(t.done.Seed, uint64(t.done.Rounds))) //nolint:gosec // not a secret
	for _, f := range t.faults {
		if !slices.Contains(t.known(), f) {
			return fmt.Errorf("there is no fault %q; there are %v", f, t.known())
		}
	}
	defer func() { //nolint:contextcheck // the server ends whatever the context says
		t.network.stop()
		err = errors.Join(err, t.redis.stop())
	}()
	for !t.over() && ctx.Err() == nil {
		faults, err := t.oneStore(ctx)
		if err != nil && ctx.Err() == nil || len(faults) > 0 {
			return t.found(faults, err)
		}
	}
	t.tell(true)
	if t.mine && ctx.Err() == nil {
		return os.RemoveAll(t.dir)
	}
	return context.Cause(ctx)
}

// over tells whether it has done what it was asked for.
func (t *torture) over() bool {
	return t.done.Kills >= t.kills || t.rounds > 0 && t.done.Rounds >= t.rounds
}

// begin finds what an earlier run left.
func (t *torture) begin() error {
	if t.dir == "" {
		dir, err := os.MkdirTemp("", "torture-")
		if err != nil {
			return err
		}
		t.dir, t.mine = dir, true
	}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return err
	}
	var err error
	if t.dir, err = filepath.Abs(t.dir); err != nil {
		return err
	}
	t.done = progress{Seed: t.seed, Points: map[string]int{}, Faults: map[string]int{}}
	switch done, err := readProgress(t.saved()); {
	case err == nil:
		t.done = done
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if t.done.Seed == 0 {
		t.done.Seed = uint64(t.clock.Now().UnixNano())
	}
	return nil
}

func (t *torture) saved() string { return filepath.Join(t.dir, "progress.json") }

func readProgress(path string) (p progress, err error) {
	b, err := os.ReadFile(path) //nolint:gosec // below the directory that was asked for
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// tell saves and shows how far it has come.
func (t *torture) tell(last bool) {
	if t.lanes > 1 {
		t.gather()
	}
	d := t.done
	if t.lanes <= 1 {
		d.Seconds += t.clock.Now().Sub(t.started).Seconds()
	}
	if b, err := json.MarshalIndent(d, "", "  "); err == nil {
		_ = os.WriteFile(t.saved(), b, 0o600) // a run that can't go on begins anew
	}
	if t.quiet && !last {
		return
	}
	format := "\r%d kills, %d rounds, %d operations (%d acknowledged, %d unknown), %.0f s, seed %d "
	_, _ = fmt.Fprintf(t.out, format, d.Kills, d.Rounds, d.Ops, d.Acked, d.Unknown, d.Seconds, d.Seed)
	if last {
		_, _ = fmt.Fprintf(t.out, "\nrounds: %v\ndeaths at points: %v\n", d.Faults, d.Points)
	}
}

// found reports broken promises and keeps the directory.
func (t *torture) found(faults []check.Fault, err error) error {
	t.tell(true)
	var all []error
	for i, f := range faults {
		if i == 20 {
			all = append(all, fmt.Errorf("and %d more", len(faults)-i))
			break
		}
		all = append(all, errors.New(f.String()))
	}
	return fmt.Errorf("round %d, seed %d, after %d kills: %w\nthe store and the logs are in %s", t.done.Rounds, t.done.Seed, t.done.Kills, errors.Join(append(all, err)...), t.dir)
}

// oneStore makes a store and wears it out.
func (t *torture) oneStore(ctx context.Context) ([]check.Fault, error) {
	n := t.done.Stores
	t.done.Stores++
	dir := filepath.Join(t.dir, fmt.Sprintf("store-%d", n))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	h := &history{torture: t, dir: dir, store: store{Dir: filepath.Join(dir, "data")}, before: check.State{}}
	inRedis := t.postgres || t.cache == "redis" || t.cache == "" && n%4 != 3
	if inRedis {
		if err := t.redis.running(ctx, t); err != nil {
			return nil, err
		}
		h.store.Redis, h.store.Prefix = t.redis.addr(), fmt.Sprintf("t%d", n)
	}
	if t.postgres {
		if err := t.connected(); err != nil { //nolint:contextcheck // it waits within bounds of its own
			return nil, err
		}
		h.store.Postgres, h.store.Schema = urlOf(t.network.server.Addr()), fmt.Sprintf("store%d", n)
	}
	if t.agents {
		routes := agentRoutes()
		h.store.Agents = routes[n%len(routes)]
	} else if !t.plain {
		if err := h.child(ctx, "found", spec{Store: h.store}).Run(); err != nil {
			return nil, fmt.Errorf("make a store: %w", err)
		}
		if _, err := h.look(ctx); err != nil {
			return nil, err
		}
		h.before = h.now.State
	}
	for range roundsPerStore {
		if t.over() || ctx.Err() != nil {
			break
		}
		round := h.round
		if t.agents {
			round = h.agentRound
		}
		faults, err := round(ctx)
		if err != nil || len(faults) > 0 {
			return faults, err
		}
		t.done.Rounds++
		t.tell(false)
	}
	if inRedis {
		if err := t.redis.flush(ctx); err != nil {
			return nil, err
		}
	}
	if t.postgres {
		if err := t.network.drop(ctx, h.store.Schema); err != nil {
			return nil, err
		}
	}
	return nil, os.RemoveAll(dir)
}
