package tiertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// limits say how long a rule may take on a slow machine, how much longer a tier may
// take to notice that its context is over, and for how long a call is watched that
// should wait. Zero is the default.
type limits struct{ rule, grace, moment time.Duration }

const (
	ruleTime   = 60 * time.Second
	graceTime  = 5 * time.Second
	momentTime = 10 * time.Millisecond
	maxFaults  = 20 // that are kept of one rule
)

// T runs one rule: it collects faults, opens the tier and knows its clock.
type T struct {
	Config
	Clock *Clock
	Tier  tiers.Tier // the first handle, opened before the rule runs

	ctx    context.Context //nolint:containedctx // as in testing.T, it lives as long as the rule's run
	name   string
	dir    string
	moment time.Duration // for which [T.waiting] watches

	mu      sync.Mutex
	faults  []string
	notes   []string
	skipped string
	handles []tiers.Tier
}

// stop unwinds a rule that can't go on.
type stop struct{}

// outcome is what came of one rule.
type outcome struct {
	fault   *RuleError
	skipped string
	notes   []string
}

// startOfTime is far from the real time, so that a tier which looks at the
// wrong clock is found out, and it has nanoseconds that must be cut.
func startOfTime() time.Time { return time.Date(2024, 5, 6, 7, 8, 9, 123456789, time.UTC) }

// runRule runs the rule in a goroutine of its own: one that hangs although its
// context is over is reported and left behind.
func runRule(ctx context.Context, c Config, r rule, name, dir string, l limits) outcome {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(l.rule, r.time, ruleTime))
	defer cancel()
	start := startOfTime()
	if c.ServerClock {
		start = tiers.SystemClock().Now()
	}
	t := &T{Config: c, Clock: NewClock(start), ctx: ctx, name: name, dir: dir, moment: cmp.Or(l.moment, momentTime)}
	if r.when != nil && !r.when(c) {
		return outcome{skipped: "not in the scope of this tier"}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.guard(func() {
			defer t.closeAll(context.WithoutCancel(ctx))
			t.Tier = t.Open()
			for _, need := range r.needs {
				if !t.has(need) {
					t.mu.Lock()
					t.skipped = fmt.Sprintf("the tier has no %s", need)
					t.mu.Unlock()
					return
				}
			}
			r.run(t)
		})
	}()
	select {
	case <-done:
	case <-ctx.Done():
		grace := cmp.Or(l.grace, graceTime)
		late := time.NewTimer(grace)
		defer late.Stop()
		select {
		case <-done:
		case <-late.C:
			stacks := make([]byte, 64<<10)
			t.Errorf("it hangs: no return within %v of the end of its context\n%s", grace, stacks[:runtime.Stack(stacks, true)])
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	out := outcome{skipped: t.skipped, notes: t.notes}
	if len(t.faults) > 0 {
		out.fault = &RuleError{Rule: name, Why: r.why, Faults: slices.Clone(t.faults)}
	}
	return out
}

// guard turns a panic of f into a fault.
func (t *T) guard(f func()) {
	defer func() {
		switch p := recover().(type) {
		case nil, stop:
		default:
			t.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	f()
}

// Errorf notes a fault; the rule goes on. It is safe for concurrent use.
func (t *T) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.faults) < maxFaults {
		t.faults = append(t.faults, fmt.Sprintf(format, args...))
	}
}

// Fatalf notes a fault and ends the rule, or the worker that called it.
func (t *T) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	panic(stop{})
}

// Notef adds to what a verbose run shows.
func (t *T) Notef(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// Open opens one more handle of the rule's store.
func (t *T) Open() tiers.Tier {
	h, err := t.Config.Open(t.ctx, t.dir, t.Clock)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handles = append(t.handles, h)
	return h
}

// Reopen closes the first handle and opens it again.
func (t *T) Reopen() {
	if err := t.Tier.Close(t.ctx); err != nil {
		t.Fatalf("close: %v", err)
	}
	t.Tier = t.Open()
}

func (t *T) closeAll(ctx context.Context) {
	for _, h := range slices.Backward(t.handles) {
		if err := h.Close(ctx); err != nil {
			t.Errorf("close at the end: %v", err)
		}
	}
}

// workers runs f n times at once and waits for all.
func (t *T) workers(n int, f func(worker int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { t.guard(func() { f(i) }) })
	}
	wg.Wait()
}

// each spreads the numbers below n over some workers.
func (t *T) each(n int, f func(i int)) {
	const callers = 8
	t.workers(callers, func(worker int) {
		for i := worker; i < n; i += callers {
			f(i)
		}
	})
}

// poll asks every few milliseconds of real time until done, or until limit is
// over, and tells which.
func (t *T) poll(limit time.Duration, done func() bool) bool {
	clock := tiers.SystemClock()
	for start := clock.Now(); ; {
		if done() {
			return true
		}
		if clock.Now().Sub(start) > limit || clock.Sleep(t.ctx, 2*time.Millisecond) != nil {
			return false
		}
	}
}

// has tells whether the tier has the capability.
func (t *T) has(c Capability) bool {
	var ok bool
	switch c {
	case Applier:
		_, ok = tiers.As[tiers.Applier](t.Tier)
	case Batcher:
		_, ok = tiers.As[tiers.Batcher](t.Tier)
	case AtomicBatch:
		var b tiers.Batcher
		if b, ok = tiers.As[tiers.Batcher](t.Tier); ok {
			ok = b.Atomic()
		}
	case Exister:
		_, ok = tiers.As[tiers.Exister](t.Tier)
	case Toucher:
		_, ok = tiers.As[tiers.Toucher](t.Tier)
	case Sweeper:
		_, ok = tiers.As[tiers.Sweeper](t.Tier)
	case Pinger:
		_, ok = tiers.As[tiers.Pinger](t.Tier)
	case Statser:
		_, ok = tiers.As[tiers.Statser](t.Tier)
	case Counter:
		_, ok = tiers.As[tiers.Counter](t.Tier)
	case Describer:
		_, ok = tiers.As[tiers.Describer](t.Tier)
	case Diagnoser:
		_, ok = tiers.As[tiers.Diagnoser](t.Tier)
	case Publisher:
		_, ok = tiers.As[tiers.Publisher](t.Tier)
	case Reserver:
		_, ok = tiers.As[tiers.Reserver](t.Tier)
	case Snapshotter:
		_, ok = tiers.As[tiers.Snapshotter](t.Tier)
	case Searcher:
		_, ok = tiers.As[tiers.Searcher](t.Tier)
	case TopSearcher:
		_, ok = tiers.As[tiers.TopSearcher](t.Tier)
	case Waiter:
		_, ok = tiers.As[tiers.Waiter](t.Tier)
	}
	return ok
}

// wantError notes a fault unless err is the sentinel.
func (t *T) wantError(what string, err, sentinel error) {
	if !errors.Is(err, sentinel) {
		t.Errorf("%s answers %s, want %q", what, said(err), sentinel)
	}
}

func said(err error) string {
	if err == nil {
		return "no error"
	}
	return fmt.Sprintf("the error %q", err)
}
