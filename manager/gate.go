package manager

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
)

// gate counts the calls in flight and refuses new ones once it is shut. The
// count is striped, so that callers on different cores do not fight for one
// cache line.
type gate struct {
	lanes [gateLanes]lane
	shut  atomic.Bool
	over  atomic.Bool   // shut for the manager's own work as well
	left  chan struct{} // gets a token whenever somebody left a shut gate
}

const gateLanes = 16

type lane struct {
	inside atomic.Int64
	_      [56]byte
}

func newGate() *gate { return &gate{left: make(chan struct{}, 1)} }

type ownWork struct{}

// asOwnWork marks the context of the manager's own goroutines and of the last
// flush, which may still call while Close waits.
func asOwnWork(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownWork{}, true)
}

// enter answers the lane to leave by, or false when the gate is shut.
func (g *gate) enter(ctx context.Context) (slot uint32, ok bool) {
	slot = rand.Uint32() % gateLanes //nolint:gosec // spreads load, guards nothing
	g.lanes[slot].inside.Add(1)
	if !g.shut.Load() {
		return slot, true
	}
	if !g.over.Load() && ctx.Value(ownWork{}) != nil {
		return slot, true
	}
	g.leave(slot)
	return 0, false
}

func (g *gate) leave(slot uint32) {
	g.lanes[slot].inside.Add(-1)
	if g.shut.Load() {
		select {
		case g.left <- struct{}{}:
		default:
		}
	}
}

// close refuses new calls and waits until nobody is inside or ctx is over. It
// tells whether it was open before.
func (g *gate) close(ctx context.Context) bool {
	if !g.shut.CompareAndSwap(false, true) {
		return false
	}
	g.drain(ctx)
	return true
}

func (g *gate) drain(ctx context.Context) {
	for g.busy() {
		select {
		case <-g.left:
		case <-ctx.Done():
			return
		}
	}
}

func (g *gate) busy() bool {
	var n int64
	for i := range g.lanes {
		n += g.lanes[i].inside.Load()
	}
	return n > 0
}
