package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// health is the circuit breaker: after failures it answers for the server, at
// once, until a probe in the background has reached it again.
type health struct {
	clock    tiers.Clock
	log      *slog.Logger
	interval time.Duration
	timeout  time.Duration
	place    string

	fault atomic.Pointer[error] // nil while the server answers
	kick  chan struct{}         // wakes the probe; holds one

	mu       sync.Mutex
	failures int           // in a row
	silent   time.Duration // when the first of them was sent
	last     time.Duration // when the server answered last, on the line of serverTime
	changed  chan struct{} // closed at the next change of fault
	onAway   func(error)
}

// tolerated is how many flights in a row may lose their connection.
const tolerated = 2

// away answers nil while the server is there, else an error that wraps
// tiers.ErrUnavailable and says why.
func (h *health) away() error {
	if e := h.fault.Load(); e != nil {
		return *e
	}
	return nil
}

// answered notes a sign of life. It does not close an open breaker: only the
// probe does, which looks at more.
func (h *health) answered(at time.Duration) {
	h.mu.Lock()
	h.failures, h.last = 0, max(h.last, at)
	h.mu.Unlock()
}

// failed notes a flight that failed. The breaker opens at once when there is
// nobody to talk to, and when the server let a whole timeout pass without
// answering anybody; a lost connection alone happens, so it takes a few. An
// interrupted flight is one that its caller ended.
func (h *health) failed(err error, interrupted bool, began, ended time.Duration) {
	gone := !interrupted && (isDial(err) || isDown(err))
	h.mu.Lock()
	if began < h.last && !gone { // others were answered after this one was sent, or the probe was
		h.mu.Unlock()
		return
	}
	if h.failures == 0 {
		h.silent = began
	}
	h.failures++
	unanswered := interrupted || isTimeout(err)
	open := gone || unanswered && ended-h.silent >= h.timeout || !unanswered && h.failures > tolerated
	h.mu.Unlock()
	if open {
		h.open(err)
	}
}

// open opens the breaker, or changes what an open one says.
func (h *health) open(cause error) {
	text, hint := cause.Error(), hintOf(cause)
	if isTimeout(cause) || errors.Is(cause, net.ErrClosed) {
		text = "it gives no answer"
	}
	away := tiers.Hint(fmt.Errorf("%w: redis at %s is away: %s", tiers.ErrUnavailable, h.place, strings.TrimSuffix(text, " ("+hint+")")), hint) // once
	h.mu.Lock()
	first := h.fault.Load() == nil
	h.fault.Store(&away)
	if first {
		h.notify()
	}
	h.mu.Unlock()
	if first {
		h.log.Warn("redis is away", slog.String("place", h.place), slog.String("cause", text))
	}
	h.onAway(away)
	select {
	case h.kick <- struct{}{}:
	default:
	}
}

// heal closes the breaker.
func (h *health) heal(at time.Duration) {
	h.mu.Lock()
	was := h.fault.Swap(nil) != nil
	h.failures, h.last = 0, at
	if was {
		h.notify()
	}
	h.mu.Unlock()
	if was {
		h.log.Info("redis is back", slog.String("place", h.place))
	}
}

func (h *health) notify() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// wait returns once the server is there, or when the context or the tier ends.
func (h *health) wait(ctx context.Context, ended <-chan struct{}) error {
	for {
		h.mu.Lock()
		changed, away := h.changed, h.away()
		h.mu.Unlock()
		if away == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ended:
			return tiers.ErrClosed
		}
	}
}

// probe waits for the breaker to open and then tries until the server is back.
// It ends with the context.
func (h *health) probe(ctx context.Context, contact func(context.Context) error, now func() time.Duration) {
	for {
		select {
		case <-h.kick:
		case <-ctx.Done():
			return
		}
		for h.away() != nil {
			err := contact(ctx)
			if err == nil {
				h.heal(now())
				break
			}
			if ctx.Err() != nil {
				return
			}
			interval := h.interval
			if isSetup(err) { // somebody has to act; ask less often
				interval = max(interval, time.Second)
			}
			h.open(err)
			if h.clock.Sleep(ctx, interval) != nil {
				return
			}
		}
	}
}

func hintOf(err error) string {
	for err != nil {
		if e, ok := err.(*tiers.Error); ok && e.Hint != "" { //nolint:errorlint // walks the chain itself
			return e.Hint
		}
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			break
		}
		err = u.Unwrap()
	}
	return "start redis, or correct its url"
}
