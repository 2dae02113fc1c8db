package manager_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

func TestFetchComputesOnceForAllWhoMiss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := manager.For[[]int](sagetest.Open(t), "session.preferences")
		first, cancel := context.WithCancel(t.Context())
		var ran atomic.Int64
		compute := func(ctx context.Context) ([]int, error) {
			ran.Add(1)
			select {
			case <-time.After(time.Second):
				return []int{1, 2}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		var callers sync.WaitGroup
		for i := range 10 {
			ctx := t.Context()
			if i == 0 {
				ctx = first
			}
			callers.Go(func() {
				got, err := c.Fetch(ctx, "k", compute)
				switch {
				case i == 0 && !errors.Is(err, context.Canceled):
					t.Errorf("the cancelled one got %v, %v", got, err)
				case i > 0 && (err != nil || len(got) != 2):
					t.Errorf("caller %d got %v, %v", i, got, err)
				case i > 0:
					got[0] = 100 + i // each has a copy of its own
				}
			})
			synctest.Wait()
		}
		cancel()
		callers.Wait()
		if ran.Load() != 1 {
			t.Errorf("computed %d times", ran.Load())
		}
		if got := value[[]int](t)(c.Load(t.Context(), "k")); got[0] != 1 {
			t.Errorf("stored %v", got)
		}
		if _, err := c.Fetch(t.Context(), "k", nil); err != nil {
			t.Errorf("a hit computes nothing: %v", err)
		}
	})
}

func TestFailedFetchGivesAllTheRealError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := manager.For[int](sagetest.Open(t), "session.preferences")
		cause := errors.New("the model is overloaded")
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() {
				_, err := c.Fetch(t.Context(), "k", func(context.Context) (int, error) {
					time.Sleep(time.Second)
					return 0, cause
				})
				wantError(t, err, cause, "each")
			})
		}
		callers.Wait()
		_, err := c.Load(t.Context(), "k")
		wantError(t, err, tiers.ErrNotFound, "nothing is stored")
		_, err = c.Fetch(t.Context(), "p", func(context.Context) (int, error) { panic("boom") })
		if err == nil {
			t.Error("a panic is an error of all who wait")
		}
	})
}

func TestComputationThatDoesNotComeBackHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := manager.For[int](sagetest.Open(t), "session.preferences")
		for why, compute := range map[string]func(context.Context) (int, error){
			"it panics":             func(context.Context) (int, error) { panic("no") },
			"it ends its goroutine": func(context.Context) (int, error) { runtime.Goexit(); return 0, nil },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			if _, err := c.Fetch(ctx, "k", compute); err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", why, err)
			}
			cancel()
		}
		if got, err := c.Fetch(t.Context(), "k", func(context.Context) (int, error) { return 7, nil }); got != 7 || err != nil {
			t.Errorf("the next one got %d, %v", got, err)
		}
	})
}

func TestComputationEndsWhenNobodyWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := manager.For[int](sagetest.Open(t), "session.preferences")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ended := make(chan time.Time, 1)
		begin := tiers.SystemClock().Now()
		_, err := c.Fetch(ctx, "k", func(ctx context.Context) (int, error) {
			<-ctx.Done()
			ended <- tiers.SystemClock().Now()
			return 0, ctx.Err()
		})
		wantError(t, err, context.DeadlineExceeded, "the caller")
		if took := (<-ended).Sub(begin); took != time.Second {
			t.Errorf("the computation went on for %v", took)
		}
		if got, err := c.Fetch(t.Context(), "k", func(context.Context) (int, error) { return 7, nil }); got != 7 || err != nil {
			t.Errorf("a later caller computes anew: %v, %v", got, err)
		}
	})
}

func TestFetchLeavesWhatAnotherSavedMeanwhile(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := manager.For[int](sagetest.Open(t), "session.preferences")
	got, err := c.Fetch(ctx, "k", func(ctx context.Context) (int, error) { return 1, c.Save(ctx, "k", 2) })
	if got != 2 || err != nil {
		t.Errorf("fetched %d, %v", got, err)
	}
}
