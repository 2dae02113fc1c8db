package tiertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func contextRules() []rule {
	return []rule{
		{
			name: "a context that is over changes nothing",
			why:  "the caller has left and takes it as not done",
			run: func(t *T) {
				ctx, cancel := context.WithCancel(t.ctx)
				cancel()
				t.changesNothing(ctx, context.Canceled)
			},
		},
		{
			name: "a deadline that is over changes nothing",
			why:  "the caller has left and takes it as not done",
			run: func(t *T) {
				ctx, cancel := context.WithTimeout(t.ctx, 0)
				defer cancel()
				t.changesNothing(ctx, context.DeadlineExceeded)
			},
		},
		{
			name: "a plain failure changed nothing",
			why:  "a save that may have been stored has to say so, or its caller does it twice",
			run:  plainFailures,
		},
		{
			name: "a list ends with its context",
			why:  "a walk over millions of records must be stoppable",
			run: func(t *T) {
				t.fill("k", 1100)
				ctx, cancel := context.WithCancel(t.ctx)
				defer cancel()
				seen := 0
				var last error
				for _, err := range t.Tier.List(ctx, tiers.Query{Category: category}) {
					if last = err; err != nil {
						break
					}
					if seen++; seen == 10 {
						cancel()
					}
				}
				if seen < 1100 && !errors.Is(last, context.Canceled) {
					t.Errorf("after %d of 1100 records it ends with %s, want the context's error", seen, said(last))
				}
				t.wantValue("afterwards", numbered("k", 7), "value of 7")
			},
		},
	}
}

// operations are every method of the tier and its capabilities that takes a
// context, each on a store of its own making.
func (t *T) operations(h tiers.Tier) map[string]func(ctx context.Context) error {
	k := named("k")
	ops := map[string]func(ctx context.Context) error{
		"load": func(ctx context.Context) error { _, err := h.Load(ctx, k); return err },
		"save": func(ctx context.Context) error { _, err := h.Save(ctx, raw(k, "x"), tiers.Cond{}); return err },
		"save if absent": func(ctx context.Context) error {
			_, err := h.Save(ctx, raw(named("new"), "x"), tiers.If(0))
			return err
		},
		"save gone": func(ctx context.Context) error { _, err := h.Save(ctx, lasting(k, "x", -1), tiers.Cond{}); return err },
		"delete":    func(ctx context.Context) error { _, err := h.Delete(ctx, k, tiers.Cond{}); return err },
		"exists":    func(ctx context.Context) error { _, err := tiers.Exists(ctx, h, k); return err },
		"load many": func(ctx context.Context) error {
			_, err := tiers.LoadMany(ctx, h, []tiers.Key{k, named("other")})
			return err
		},
		"save many": func(ctx context.Context) error {
			_, err := tiers.SaveMany(ctx, h, []tiers.Record{raw(k, "x"), raw(named("other"), "x")}, nil)
			return err
		},
		"delete many": func(ctx context.Context) error {
			_, err := tiers.DeleteMany(ctx, h, []tiers.Key{k, named("other")}, nil)
			return err
		},
		"list": func(ctx context.Context) error {
			return lastError(h.List(ctx, tiers.Query{Category: category}))
		},
		"spaces": func(ctx context.Context) error { return lastError(h.Spaces(ctx)) },
	}
	if c, ok := tiers.As[tiers.Toucher](h); ok {
		ops["touch"] = func(ctx context.Context) error { _, err := c.Touch(ctx, k, time.Hour); return err }
	}
	if c, ok := tiers.As[tiers.Applier](h); ok {
		r := t.applied("k", 3_600_000_000, "x")
		ops["apply"] = func(ctx context.Context) error { return c.Apply(ctx, []tiers.Record{r}, nil) }
	}
	if c, ok := tiers.As[tiers.Sweeper](h); ok {
		ops["sweep"] = func(ctx context.Context) error { _, err := c.Sweep(ctx, 10); return err }
	}
	if c, ok := tiers.As[tiers.Pinger](h); ok {
		ops["ping"] = c.Ping
	}
	if c, ok := tiers.As[tiers.Statser](h); ok {
		ops["stats"] = func(ctx context.Context) error { _, err := c.Stats(ctx); return err }
	}
	if c, ok := tiers.As[tiers.Counter](h); ok {
		ops["count"] = func(ctx context.Context) error { _, _, err := c.Count(ctx, k.Space()); return err }
	}
	return ops
}

// lastError walks a listing and answers how it ends.
func lastError[V any](seq func(func(V, error) bool)) error {
	var last error
	for _, err := range seq {
		last = err
	}
	return last
}

func (t *T) changesNothing(ctx context.Context, want error) {
	k := named("k")
	before := t.save(raw(k, "before"))
	expired := named("expired")
	t.save(lasting(expired, "v", time.Hour))
	for name, op := range t.operations(t.Tier) {
		err := op(ctx)
		if name == "stats" && err == nil {
			continue // counters in memory need no context
		}
		t.wantError(name, err, want)
		if errors.Is(err, tiers.ErrCommitUnknown) {
			t.Errorf("%s began, and answers %q", name, err)
		}
	}
	t.wantSame("afterwards", t.load(k), before)
	t.wantNames("afterwards", t.names(tiers.Query{Category: category}), []string{"expired", "k"})
	if got := t.save(raw(k, "after")); got.Version <= before.Version {
		t.Errorf("a save afterwards gets version %d, before it was %d", got.Version, before.Version)
	}
}

// plainFailures saves with deadlines about as long as a save takes, so that
// they end at every point of it.
func plainFailures(t *T) {
	const workers, each = 8, 60
	type try struct {
		k   tiers.Key
		err error
	}
	tries := make([][]try, workers)
	clock := tiers.SystemClock()
	t.workers(workers, func(worker int) {
		took := time.Millisecond
		for i := range each {
			k := numbered(fmt.Sprintf("w%d-", worker), i)
			limit := time.Duration(rand.Int64N(int64(2 * took))) //nolint:gosec // not a secret
			ctx, cancel := context.WithTimeout(t.ctx, limit)
			start := clock.Now()
			_, err := t.Tier.Save(ctx, raw(k, "v"), tiers.Cond{})
			spent := clock.Now().Sub(start)
			cancel()
			if spent > limit+2*time.Second {
				t.Errorf("a save with a deadline of %v came back after %v", limit, spent)
			}
			if err == nil {
				took = max(time.Microsecond, min(spent, 100*time.Millisecond))
			} else if took < 10*time.Millisecond {
				took += took / 4
			}
			tries[worker] = append(tries[worker], try{k, err})
		}
	})
	for _, ts := range tries {
		for _, a := range ts {
			switch {
			case a.err == nil:
				t.wantValue("acknowledged", a.k, "v")
			case !errors.Is(a.err, context.DeadlineExceeded):
				t.Errorf("the error %q does not say that the deadline is over", a.err)
			case !errors.Is(a.err, tiers.ErrCommitUnknown):
				t.wantAbsent(fmt.Sprintf("failed with %q", a.err), a.k)
			}
		}
	}
}
