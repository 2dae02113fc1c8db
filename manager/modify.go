package manager

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// How Modify behaves when others change the same key.
const (
	queuePatience = time.Second           // then it tries beside the caller whose turn it is
	firstPause    = 50 * time.Microsecond // after a conflict, doubled up to the longest
	longestPause  = 20 * time.Millisecond
	mostConflicts = 1000
)

// Modify changes a value: it loads it, lets fn change it, and saves the result
// if nobody changed the key meanwhile; else it begins again with what is there
// now. So fn may run several times, and should do nothing but change v. found
// is false, and v the zero value, when the key is absent. An error of fn leaves
// the key as it is and is the answer, as it is.
//
// Callers of one process take turns on a key, so that many of them get through
// without conflicts. fn must not change the same key by another call. With
// [IfVersion] or [IfAbsent] a conflict is the answer. In a transaction fn runs
// once, and it is for the commit to find a conflict.
func (c *Collection[T]) Modify(ctx context.Context, key string, fn func(v *T, found bool) error, opts ...SaveOption) (T, error) {
	var zero T
	if err := c.check(key); err != nil {
		return zero, c.fail("modify", key, err)
	}
	o := saveOptionsOf(opts)
	if c.tx != nil {
		return c.modifyOnce(ctx, key, fn, o)
	}
	_, conditional := o.cond.Version()
	slot, open := c.route.core.gate.enter(ctx) // so that Close waits for all of it
	if !open {
		return zero, c.fail("modify", key, errNotStarted)
	}
	defer c.route.core.gate.leave(slot)
	ctx = asOwnWork(ctx)
	leave := c.route.core.queues.wait(ctx, c.route.core.clock, c.key(key))
	defer leave()
	pause := firstPause
	for range mostConflicts {
		v, err := c.modifyOnce(ctx, key, fn, o)
		if conditional || !errors.Is(err, errRaced) {
			return v, err
		}
		if err := c.route.core.clock.Sleep(ctx, pause/2+rand.N(pause)); err != nil { //nolint:gosec // spreads callers, guards nothing
			return zero, c.fail("modify", key, err)
		}
		pause = min(2*pause, longestPause)
	}
	return zero, c.fail("modify", key, tiers.Hint(
		fmt.Errorf("%w: the key was changed by others at each of %d tries", tiers.ErrConflict, mostConflicts),
		"see that the function does not itself change the key"))
}

// errRaced marks a save that lost against another one.
var errRaced = errors.New("another caller was faster")

func (c *Collection[T]) modifyOnce(ctx context.Context, key string, fn func(v *T, found bool) error, o saveOptions) (T, error) {
	var zero T
	var rec loaded
	v, err := c.load(ctx, key, true, &rec) // a near layer would only make conflicts
	found := err == nil
	if err != nil && !errors.Is(err, tiers.ErrNotFound) {
		return zero, err
	}
	if err := o.cond.Holds(rec.Version); err != nil {
		return zero, c.fail("modify", key, err)
	}
	if !found {
		v = zero
	}
	if err := fn(&v, found); err != nil {
		return zero, err
	}
	o.cond = tiers.If(rec.Version)
	if _, err := c.save(ctx, key, &v, o); err != nil {
		if c.tx == nil && (errors.Is(err, tiers.ErrConflict) || errors.Is(err, tiers.ErrExists)) {
			return zero, errors.Join(errRaced, err)
		}
		return zero, err
	}
	return v, nil
}

// queues let the callers that modify a key take turns. They are for fairness
// alone: who waited long enough goes on without his turn.
type queues struct {
	mu  sync.Mutex
	all map[tiers.Key]*queue
}

type queue struct {
	turn    chan struct{} // holds a token while it is nobody's turn
	waiting int
}

// wait answers what the caller does when he is done. An ended context and lost
// patience end the waiting too.
func (q *queues) wait(ctx context.Context, clock tiers.Clock, k tiers.Key) (leave func()) {
	q.mu.Lock()
	if q.all == nil {
		q.all = make(map[tiers.Key]*queue)
	}
	one := q.all[k]
	if one == nil {
		one = &queue{turn: make(chan struct{}, 1)}
		one.turn <- struct{}{}
		q.all[k] = one
	}
	one.waiting++
	q.mu.Unlock()

	mine := one.take(ctx, clock)
	return func() {
		if mine {
			one.turn <- struct{}{}
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		if one.waiting--; one.waiting == 0 {
			delete(q.all, k)
		}
	}
}

func (q *queue) take(ctx context.Context, clock tiers.Clock) bool {
	select {
	case <-q.turn:
		return true
	default:
	}
	patience, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = clock.Sleep(patience, queuePatience) // its end is all that matters
	}()
	defer func() {
		cancel()
		<-over
	}()
	select {
	case <-q.turn:
		return true
	case <-over:
		return false
	}
}
