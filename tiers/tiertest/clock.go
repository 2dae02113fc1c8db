package tiertest

import (
	"context"
	"sync"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// Clock is a [tiers.Clock] that stands still until it is told otherwise. It is
// safe for concurrent use.
type Clock struct {
	mu      sync.Mutex
	now     time.Time
	changed chan struct{} // closed and replaced at each change
}

var _ tiers.Clock = (*Clock)(nil)

// NewClock answers a clock that stands at start.
func NewClock(start time.Time) *Clock {
	return &Clock{now: start, changed: make(chan struct{})}
}

// Now answers where the clock stands.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock by d, which may be negative.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(c.now.Add(d))
}

// Set puts the clock to t, which may be in its past.
func (c *Clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(t)
}

func (c *Clock) set(t time.Time) {
	c.now = t
	close(c.changed)
	c.changed = make(chan struct{})
}

// Sleep waits until the clock has been moved by d beyond where it stands, or
// for the end of the context, whose cause it answers.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	until := c.now.Add(d)
	c.mu.Unlock()
	for {
		c.mu.Lock()
		now, changed := c.now, c.changed
		c.mu.Unlock()
		if !now.Before(until) {
			return context.Cause(ctx)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
