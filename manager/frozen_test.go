package manager_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	drivers "github.com/sagestore/sagestore/tiers/all"
)

// A server that is stopped in the midst of work holds nobody up: not beyond the
// deadline of a call that is for it, and not at all one that is for another tier.
func TestFrozenServerHoldsUpNobody(t *testing.T) {
	t.Parallel()
	ctx, server := t.Context(), redistest.Start(t)
	m := value[*manager.Manager](t)(manager.Open(ctx, &config.Config{
		DataDir: t.TempDir(), Redis: &config.Redis{URL: config.Secret(server.URL())},
	}, drivers.Tiers()))
	defer closeNow(t, m)
	history := manager.For[int](m, "session.history")
	prefs := manager.For[int](m, "session.preferences")

	const (
		callers  = 4
		deadline = 200 * time.Millisecond
		slack    = time.Second // one call in ten may take longer, on a busy machine
	)
	var over atomic.Bool
	var cached, stored, unknown, slow atomic.Int64
	last := make([]int, callers)  // acknowledged by the cache
	maybe := make([]int, callers) // not, and yet it may have been stored
	var work sync.WaitGroup
	for caller := range callers {
		key := fmt.Sprintf("s/%d", caller)
		work.Go(func() {
			for n := 1; !over.Load(); n++ {
				call, cancel := context.WithTimeout(ctx, deadline)
				began := tiers.SystemClock().Now()
				var err error
				if n%3 == 0 {
					if _, err = history.Load(call, key); errors.Is(err, tiers.ErrNotFound) {
						t.Errorf("%s was acknowledged and is not there", key)
					}
				} else if err = history.Save(call, key, n); err == nil {
					last[caller] = n
					cached.Add(1)
				} else {
					maybe[caller] = n
				}
				if time.Since(began) > deadline+slack {
					slow.Add(1)
				}
				cancel()
				switch {
				case err == nil:
				case errors.Is(err, context.DeadlineExceeded), errors.Is(err, tiers.ErrUnavailable), errors.Is(err, tiers.ErrCommitUnknown):
					unknown.Add(1)
				default:
					t.Errorf("a call for the cache answers %v", err)
				}
			}
		})
		work.Go(func() {
			for n := 1; !over.Load(); n++ {
				began := tiers.SystemClock().Now()
				if err := prefs.Save(ctx, key, n); err != nil {
					t.Errorf("a save for the database: %v", err)
				}
				if time.Since(began) > slack {
					slow.Add(1)
				}
				stored.Add(1)
			}
		})
	}
	more := func(what string, n *atomic.Int64, by int64) {
		t.Helper()
		from := n.Load()
		soon(t, what, func() bool { return n.Load() >= from+by })
	}
	more("saves reach the cache", &cached, 50)
	server.Freeze()
	soon(t, "the outage is noticed", func() bool { return m.Health(ctx).Degraded })
	more("saves of the database go on", &stored, 100)
	more("saves of the cache go on", &cached, 50)
	server.Thaw()
	thawed := tiers.SystemClock().Now()
	more("saves of the cache go on with the server", &cached, 50)
	over.Store(true)
	work.Wait()
	soon(t, "all of it is on the server", func() bool { h := m.Health(ctx); return h.Pending == 0 && !h.Degraded })
	whole := time.Since(thawed) // normally 20 ms
	if all := cached.Load() + stored.Load() + unknown.Load(); slow.Load() > all/10 {
		t.Errorf("%d of %d calls were held up", slow.Load(), all)
	}
	t.Logf("%d saves in the cache, %d calls without an answer, %d saves in the database; whole again after %v",
		cached.Load(), unknown.Load(), stored.Load(), whole)
	for caller := range callers {
		got := value[int](t)(history.Load(ctx, fmt.Sprintf("s/%d", caller)))
		if got < last[caller] || got > max(last[caller], maybe[caller]) {
			t.Errorf("caller %d saved %d last, tried %d, and %d is there", caller, last[caller], maybe[caller], got)
		}
	}
}
