package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/sagestore/sagestore/tiers"
)

// flushPatience bounds the last run of a job at Close.
const flushPatience = 10 * time.Second

// BackgroundOption is [OnePerStore].
type BackgroundOption interface{ background(j *job) }

// OnePerStore runs the work in one process at a time of those that share the
// data directory; when its owner goes, another takes over at its next turn. The
// last run at Close is the owner's alone as well.
func OnePerStore() BackgroundOption { return onePerStore{} }

type onePerStore struct{}

func (onePerStore) background(j *job) { j.sole = true }

// Background runs fn every so often until the manager is closed, and then once
// more, after the last caller has left and before the tiers are closed. fn may
// use the manager then as well. Runs of one job never overlap. An error is
// logged and the next turn is a new try. The name, of a-z, 0-9, "_" and "-",
// says in logs whose work it is, and names the lock of [OnePerStore]. fn must
// not close the manager.
func (m *Manager) Background(name string, every time.Duration, fn func(context.Context) error, opts ...BackgroundOption) error {
	j := &job{name: name, every: every, run: fn}
	for _, o := range opts {
		o.background(j)
	}
	if err := tiers.CheckNamespace(name); err != nil {
		return &tiers.Error{Op: "background", Err: fmt.Errorf("the name %q: %w", name, err)}
	}
	if every <= 0 || fn == nil {
		return &tiers.Error{Op: "background", Hint: "give an interval above 0 and a function", Err: errors.New("nothing to run")}
	}
	return m.core.jobs.start(j)
}

// jobs owns the goroutines of a manager.
type jobs struct {
	clock  tiers.Clock
	log    *slog.Logger
	dir    string          // of the locks; empty: every job is this process's own
	off    bool            // run nothing but the last time
	ctx    context.Context //nolint:containedctx // the life of the work, ended by stop
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu   sync.Mutex
	over bool
	all  []*job
}

type job struct {
	name   string
	every  time.Duration
	run    func(context.Context) error
	sole   bool
	noLast bool         // the run at Close is left out
	lock   *flock.Flock // held while this process is the owner
	failed bool         // the last run did; so that a lasting failure is logged once
}

func newJobs(clock tiers.Clock, log *slog.Logger, dir string, off bool) *jobs {
	j := &jobs{clock: clock, log: log, dir: dir, off: off}
	j.ctx, j.cancel = context.WithCancel(asOwnWork(context.Background()))
	return j
}

func (s *jobs) start(j *job) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return &tiers.Error{Op: "background", Err: tiers.ErrClosed}
	}
	s.all = append(s.all, j)
	if !s.off {
		s.work.Go(func() { s.loop(j) })
	}
	return nil
}

func (s *jobs) loop(j *job) {
	for s.clock.Sleep(s.ctx, j.every) == nil {
		if s.owns(j) {
			s.once(s.ctx, j)
		}
	}
}

func (s *jobs) once(ctx context.Context, j *job) {
	err := j.run(ctx)
	switch {
	case err == nil:
		j.failed = false
	case ctx.Err() != nil:
	case !j.failed:
		j.failed = true
		s.log.WarnContext(ctx, "background work failed; it is tried again", "job", j.name, "every", j.every,
			"error", tiers.Fail("work", "", tiers.Key{}, err))
	}
}

// owns takes the job's lock if nobody has it.
func (s *jobs) owns(j *job) bool {
	if !j.sole || s.dir == "" || j.lock != nil {
		return true
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		s.log.WarnContext(s.ctx, "no directory for the locks of background work", "job", j.name, "error", err)
		return false
	}
	// Open for reading and writing, what is a pipe holds nobody up.
	lock := flock.New(filepath.Join(s.dir, j.name+".lock"), flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDWR))
	if ok, err := lock.TryLock(); !ok || err != nil {
		return false
	}
	j.lock = lock
	return true
}

// stop ends the loops and waits for them.
func (s *jobs) stop() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.cancel()
	s.work.Wait()
}

// flush runs every job once more and gives up the locks. It comes after stop.
func (s *jobs) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(asOwnWork(context.WithoutCancel(ctx)), flushPatience)
	defer cancel()
	var errs []error
	for _, j := range s.all {
		if !j.noLast && (!j.sole || s.dir == "" || j.lock != nil) {
			errs = append(errs, j.run(ctx))
		}
		if j.lock != nil {
			errs = append(errs, j.lock.Close())
		}
	}
	return errors.Join(errs...)
}

// spawn runs fn in a goroutine that Close waits for.
func (s *jobs) spawn(fn func(ctx context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	s.work.Go(func() { fn(s.ctx) })
	return true
}
