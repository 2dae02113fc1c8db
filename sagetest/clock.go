package sagetest

import (
	"context"
	"sync"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// Clock stands still until it is moved. It is a tiers.Clock for
// manager.WithClock, and safe for concurrent use.
type Clock struct{ tiers.Clock }

// NewClock answers a clock that stands at start.
func NewClock(start time.Time) *Clock {
	return &Clock{&handMoved{now: start, sleepers: make(map[*sleeper]struct{})}}
}

// Advance moves the clock, back when d is negative, and wakes who has slept long
// enough.
func (c *Clock) Advance(d time.Duration) {
	if h, ok := c.Clock.(*handMoved); ok {
		h.advance(d)
	}
}

type handMoved struct {
	mu       sync.Mutex
	now      time.Time
	sleepers map[*sleeper]struct{}
}

type sleeper struct {
	until time.Time
	wake  chan struct{}
}

func (h *handMoved) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *handMoved) Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	h.mu.Lock()
	s := &sleeper{until: h.now.Add(d), wake: make(chan struct{})}
	h.sleepers[s] = struct{}{}
	h.mu.Unlock()
	select {
	case <-s.wake:
		return nil
	case <-ctx.Done():
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.sleepers, s)
		return context.Cause(ctx)
	}
}

func (h *handMoved) advance(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
	for s := range h.sleepers {
		if !h.now.Before(s.until) {
			delete(h.sleepers, s)
			close(s.wake)
		}
	}
}
