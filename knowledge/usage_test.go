package knowledge_test

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/knowledge"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

func TestLedgerStaysExactWhenLiveCountersAreGone(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			m, clock := r.Open(t)
			ctx, k := t.Context(), knowledge.New(m)
			add := func(id, session, model string, at time.Time, n int64) {
				t.Helper()
				must(t, k.AddUsage(ctx, knowledge.Usage{ID: id, Session: session, Model: model, At: at, Input: n, Output: 2 * n, CacheRead: 3 * n, CacheWrite: 4 * n}))
			}
			day := 24 * time.Hour
			add("1", "a", "m-1", start, 1)
			add("1", "a", "m-1", start, 1) // once
			add("1", "b", "m-1", start, 10)
			add("2", "b", "m-2", start.Add(day), 100)
			add("", "a", "m-1", start.Add(day), 1000)
			live := value[knowledge.Usage](t)(k.Live(ctx, "b"))
			if live.Input != 110 || live.Count != 2 || live.Total() != 1100 {
				t.Errorf("the live counter is %+v", live)
			}
			if !r.Server {
				clock.Advance(61 * time.Minute)
				_, err := k.Live(ctx, "b")
				wantIs(t, err, tiers.ErrNotFound, "the live counter after an hour")
			}
			for _, c := range []struct {
				why          string
				by           knowledge.By
				since, until time.Time
				want         map[string]int64
			}{
				{"by session", knowledge.BySession, time.Time{}, time.Time{}, map[string]int64{"a": 1001, "b": 110}},
				{"by model", knowledge.ByModel, time.Time{}, time.Time{}, map[string]int64{"m-1": 1011, "m-2": 100}},
				{"by day", knowledge.ByDay, time.Time{}, time.Time{}, map[string]int64{"2026-03-01": 11, "2026-03-02": 1100}},
				{"from a day", knowledge.ByDay, start.Add(day), time.Time{}, map[string]int64{"2026-03-02": 1100}},
				{"until a midnight", knowledge.ByDay, start, time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), map[string]int64{"2026-03-01": 11}},
				{"until the middle of a day", knowledge.ByDay, start, start.Add(day), map[string]int64{"2026-03-01": 11, "2026-03-02": 1100}},
				{"in other years", knowledge.BySession, start.AddDate(1, 0, 0), time.Time{}, map[string]int64{}},
			} {
				got := map[string]int64{}
				for name, u := range value[map[string]knowledge.Usage](t)(k.Usage(ctx, c.by, c.since, c.until)) {
					if got[name] = u.Input; u.Output != 2*u.Input || u.CacheRead != 3*u.Input || u.CacheWrite != 4*u.Input || u.Count == 0 {
						t.Errorf("%s: %+v", c.why, u)
					}
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%s:\n%s", c.why, diff)
				}
			}
			_, err := k.Usage(ctx, "hour", time.Time{}, time.Time{})
			wantIs(t, err, tiers.ErrType, "by what there is not")
			wantIs(t, k.AddUsage(ctx, knowledge.Usage{Input: -1}), tiers.ErrType, "fewer tokens than none")
			wantIs(t, k.AddUsage(ctx, knowledge.Usage{At: start.AddDate(9000, 0, 0)}), tiers.ErrType, "a year without a day")
		})
	}
}

func TestUsageOfManyCallersIsSummedUpExactly(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			m, _ := r.Open(t)
			ctx, k := t.Context(), knowledge.New(m)
			var work sync.WaitGroup
			for n := range 4 {
				work.Go(func() {
					for i := range 5 {
						us := []knowledge.Usage{{ID: fmt.Sprint(i), Session: "s", Model: "m", Input: 1}, {ID: fmt.Sprint(n, "-", i), Session: "s", Model: "m", Input: 100}}
						must(t, k.AddUsage(ctx, us...))
					}
				})
			}
			work.Wait()
			if got := value[map[string]knowledge.Usage](t)(k.Usage(ctx, knowledge.ByModel, time.Time{}, time.Time{}))["m"]; got.Input != 2005 || got.Count != 25 {
				t.Errorf("the sum is %+v", got)
			}
			wanted := errors.New("no")
			err := m.Update(ctx, func(tx *manager.Tx) error {
				must(t, k.In(tx).AddUsage(ctx, knowledge.Usage{Session: "s", Model: "m", Input: 1}))
				must(t, knowledge.New(tx).AddUsage(ctx, knowledge.Usage{Session: "s", Model: "m", Input: 1}))
				return wanted
			})
			wantIs(t, err, wanted, "the transaction")
			if got := value[knowledge.Usage](t)(k.Live(ctx, "s")); got.Input != 2005 {
				t.Errorf("the live counter is %+v", got)
			}
		})
	}
}

func TestSumThatNoNumberHoldsIsRefused(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			m, _ := r.Open(t)
			ctx, k := t.Context(), knowledge.New(m)
			whole := knowledge.Usage{Session: "s", Model: "m", At: start, Input: math.MaxInt64}
			one := knowledge.Usage{Session: "s", Model: "m", At: start, Output: 1}
			wantIs(t, k.AddUsage(ctx, whole, whole), tiers.ErrTooLarge, "both at once")
			wantIs(t, k.AddUsage(ctx, knowledge.Usage{Input: math.MaxInt64, Output: 1}), tiers.ErrTooLarge, "a total that is too large")
			must(t, k.AddUsage(ctx, whole))
			wantIs(t, k.AddUsage(ctx, whole), tiers.ErrTooLarge, "one after the other")
			wantIs(t, k.AddUsage(ctx, one), tiers.ErrTooLarge, "another number of the same line")
			other := one
			other.Session, other.ID = "t", "1"
			wantIs(t, k.AddUsage(ctx, other, one), tiers.ErrTooLarge, "one of two")
			sums := value[map[string]knowledge.Usage](t)(k.Usage(ctx, knowledge.BySession, time.Time{}, time.Time{}))
			if s := sums["s"]; len(sums) != 1 || s.Input != math.MaxInt64 || s.Total() != math.MaxInt64 || s.Count != 1 {
				t.Errorf("the sums are %+v", sums)
			}
			if live := value[knowledge.Usage](t)(k.Live(ctx, "s")); live.Input != math.MaxInt64 || live.Count != 1 {
				t.Errorf("the live counter is %+v", live)
			}
			must(t, k.AddUsage(ctx, other)) // it was not taken for counted
			other.Model, other.ID, other.Input = "n", "2", math.MaxInt64-1
			must(t, k.AddUsage(ctx, other))
			if _, err := k.Usage(ctx, knowledge.ByModel, time.Time{}, time.Time{}); !errors.Is(err, tiers.ErrTooLarge) {
				t.Errorf("the sums by model that hold too much: %v", err)
			}
			if live := value[knowledge.Usage](t)(k.Live(ctx, "t")); live.Total() < 0 {
				t.Errorf("the live counter is %+v", live)
			}
		})
	}
}

// A ledger that works is all that counts: the live counter may be away.
func TestLiveCounterThatFailsIsNoMatter(t *testing.T) {
	t.Parallel()
	m := sagetest.OpenWith(t, routeTo("memory").Config(t, ""), sagetest.Failing(drivers(), func(op string, k tiers.Key) error {
		if k.Category == "knowledge.tokens" && op == "save" {
			return tiers.ErrUnavailable
		}
		return nil
	}))
	k := knowledge.New(m)
	must(t, k.AddUsage(t.Context(), knowledge.Usage{Session: "s", Input: 1}))
	if got := value[map[string]knowledge.Usage](t)(k.Usage(t.Context(), knowledge.BySession, time.Time{}, time.Time{})); got["s"].Input != 1 {
		t.Errorf("the ledger has %+v", got)
	}
}
