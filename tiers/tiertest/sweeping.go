package tiertest

import (
	"sync/atomic"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func sweepRules() []rule {
	needs := []Capability{Sweeper}
	return []rule{
		{
			name: "sweep removes the expired in chunks", needs: needs,
			why: "one blocking sweep stalls everybody, and the count tells when to stop",
			run: sweepsInChunks,
		},
		{
			name: "sweep of nothing removes nothing", needs: needs,
			why: "it runs all the time",
			run: func(t *T) {
				t.fill("k", 10)
				t.save(lasting(named("later"), "v", time.Hour))
				if n := t.sweep(100); n != 0 {
					t.Errorf("it removed %d records, and none had expired", n)
				}
				if n := len(t.names(tiers.Query{Category: category})); n != 11 {
					t.Errorf("%d records are left of 11", n)
				}
			},
		},
		{
			name: "a record saved over an expired one is not swept", needs: needs,
			why: "a sweep that noted the key before must look again",
			run: func(t *T) {
				k := named("k")
				t.save(lasting(k, "old", t.short()))
				t.expire(k)
				t.save(raw(k, "new"))
				t.sweep(100)
				t.wantValue("swept", k, "new")
				t.wantNames("list", t.names(tiers.Query{Category: category}), []string{"k"})
			},
		},
		{
			name: "saves win over a sweep that runs", needs: needs,
			why: "a sweep must not take what was saved while it looked",
			run: func(t *T) {
				const n = 200
				for i := range n {
					t.save(lasting(numbered("k", i), "old", t.short()))
				}
				t.expire(numbered("k", n-1))
				var saved atomic.Bool
				t.workers(2, func(worker int) {
					if worker == 0 {
						for !saved.Load() {
							t.sweep(7)
						}
						return
					}
					defer saved.Store(true)
					for i := range n {
						t.save(raw(numbered("k", i), "new"))
					}
				})
				for i := range n {
					t.wantValue("saved during a sweep", numbered("k", i), "new")
				}
				if got := len(t.names(tiers.Query{Category: category})); got != n {
					t.Errorf("%d records are listed, want %d", got, n)
				}
			},
		},
	}
}

func (t *T) sweep(limit int) int {
	s, _ := tiers.As[tiers.Sweeper](t.Tier)
	n, err := s.Sweep(t.ctx, limit)
	if err != nil {
		t.Fatalf("sweep: %v", err)
	}
	if n < 0 || n > limit {
		t.Errorf("sweep removed %d records with a limit of %d", n, limit)
	}
	return n
}

func sweepsInChunks(t *T) {
	const expired, limit = 25, 10
	want := t.fill("live", 10)
	var last tiers.Key
	for i := range expired {
		last = numbered("gone", i)
		if i%2 == 0 {
			last.Category = category + ".other"
		}
		t.save(lasting(last, "v", t.short()))
	}
	t.save(lasting(named("zlater"), "v", time.Hour))
	want = append(want, "zlater")
	t.expire(last)
	total, calls := 0, 0
	for {
		n := t.sweep(limit)
		total += n
		if calls++; n < limit || calls > expired {
			break
		}
	}
	if !t.ServerClock && (total != expired || calls != 3) { // a server removes some by itself
		t.Errorf("%d calls removed %d records, want 3 calls and %d", calls, total, expired)
	}
	if total > expired {
		t.Errorf("%d records were removed, only %d had expired", total, expired)
	}
	if n := t.sweep(limit); n != 0 && !t.ServerClock {
		t.Errorf("a sweep after the last one removed %d more", n)
	}
	t.wantNames("what lives", t.names(tiers.Query{Category: category}), want)
	if got := t.spaces(); !t.ServerClock && len(got) != 1 {
		t.Errorf("after the sweep, spaces yields %v, want one", got)
	}
}
