package manager

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// Op is what an [Observer] is told about a call. It names no key.
type Op struct {
	Name     string // save, load, delete, exists, touch, list, load many, ...
	Tier     string
	Category string
	Keys     int // how many the call is about; 0 when that is not known before
}

// Observer sees every call: Begin as it starts, which may change the context
// that the tiers get, and the function that it answers when the call is over.
// A manager without one pays nothing. It is called from many goroutines.
type Observer interface {
	Begin(ctx context.Context, op Op) (context.Context, func(error))
}

// meter counts the calls of a category. Latency is sampled where a call costs
// less than reading the clock.
type meter struct {
	calls, hits, misses, errors atomic.Int64
	took                        histogram
	mask                        int64 // calls whose number has these bits zero are timed
}

// sampleMemory times one call in 32: reading the clock twice costs as much as a
// load from memory.
const sampleMemory = 31

// call is one call under way. It is a value, so that it costs no allocation.
type call struct {
	route *route
	op    string
	start time.Time
	end   func(error)
	slot  uint32
	timed bool
	inTx  bool // its transaction is inside the gate
}

// begin is the route's, for a call of a place.
func (p *place) begin(ctx context.Context, op string, keys int) (context.Context, call, error) {
	if p.tx != nil && p.tx.over.Load() {
		return ctx, call{}, errTxDone
	}
	return p.route.begin(ctx, op, keys, p.tx != nil)
}

// begin enters the gate, starts the clock and tells the observer.
func (r *route) begin(ctx context.Context, op string, keys int, inTx bool) (context.Context, call, error) {
	c := call{route: r, op: op, inTx: inTx}
	if !c.enter(ctx) {
		return ctx, call{}, tiers.Hint(tiers.ErrClosed, "the manager was closed")
	}
	if (r.meter.calls.Add(1)-1)&r.meter.mask == 0 {
		c.timed, c.start = true, r.core.clock.Now()
	}
	if o := r.core.observer; o != nil {
		ctx, c.end = o.Begin(ctx, Op{Name: op, Tier: r.tierName, Category: r.category, Keys: keys})
	}
	return ctx, c, nil
}

// finish leaves the gate and counts how it went.
func (c *call) finish(err error) {
	r := c.route
	if c.timed {
		r.meter.took.add(r.core.clock.Now().Sub(c.start))
	}
	if err != nil && isFault(err) {
		r.meter.errors.Add(1)
	}
	if c.end != nil {
		c.end(err)
	}
	c.leave()
}

func (c *call) enter(ctx context.Context) (open bool) {
	if c.inTx {
		return true
	}
	c.slot, open = c.route.core.gate.enter(ctx)
	return open
}

func (c *call) leave() {
	if !c.inTx {
		c.route.core.gate.leave(c.slot)
	}
}

// isFault tells errors from answers: a key that is not there is no fault.
func isFault(err error) bool {
	return !errors.Is(err, tiers.ErrNotFound) && !errors.Is(err, tiers.ErrExists) && !errors.Is(err, tiers.ErrConflict) &&
		!errors.Is(err, tiers.ErrSessionEnded)
}

// pause leaves the gate while a list waits for its reader, whose time does not
// count either.
func (c *call) pause() {
	c.leave()
	c.timed = false
}

// resume enters the gate again.
func (c *call) resume(ctx context.Context) (open bool) { return c.enter(ctx) }

// abandon is finish for a call that is not inside the gate.
func (c *call) abandon(err error) {
	if err != nil && isFault(err) {
		c.route.meter.errors.Add(1)
	}
	if c.end != nil {
		c.end(err)
	}
}
