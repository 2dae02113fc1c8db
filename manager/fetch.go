package manager

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/sagestore/sagestore/tiers"
)

// Fetch answers the value, and computes and saves it when there is none. Of
// many callers of one process that miss the same key, one computes and all get
// what came of it, error or value; each waits only as long as its own context
// allows and has a copy of its own. The context given to compute ends when no
// caller waits any more. A value that another process saved meanwhile stands,
// and is the answer. In a transaction it is a load and, on a miss, a save there;
// every caller computes for himself.
func (c *Collection[T]) Fetch(ctx context.Context, key string, compute func(context.Context) (T, error), opts ...SaveOption) (T, error) {
	var found loaded
	v, err := c.load(ctx, key, false, &found)
	if !errors.Is(err, tiers.ErrNotFound) {
		return v, err
	}
	if c.tx != nil {
		return c.fetchInTx(ctx, key, compute, saveOptionsOf(opts))
	}
	slot, open := c.route.core.gate.enter(ctx) // so that Close waits for the computation
	if !open {
		return v, c.fail("fetch", key, errNotStarted)
	}
	defer c.route.core.gate.leave(slot)
	id := flightID{Key: c.key(key), kind: reflect.TypeFor[T]()}
	rec, err := c.route.core.flights.join(ctx, c.route.core.jobs, id, func(ctx context.Context) (tiers.Record, error) {
		return c.computeOnce(ctx, key, compute, saveOptionsOf(opts))
	})
	if err == nil {
		rec.Value = bytes.Clone(rec.Value)
		v, err = c.decode(rec)
		return v, c.fail("fetch", key, err)
	}
	if errors.Is(err, errNotStarted) || ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		err = c.fail("fetch", key, err)
	}
	return v, err
}

func (c *Collection[T]) fetchInTx(ctx context.Context, key string, compute func(context.Context) (T, error), o saveOptions) (T, error) {
	v, err := compute(ctx)
	if err != nil {
		return v, err
	}
	rec, err := c.save(ctx, key, &v, o)
	if err == nil {
		v, err = c.decode(rec) // a copy of its own, as ever
		err = c.fail("fetch", key, err)
	}
	return v, err
}

func (c *Collection[T]) computeOnce(ctx context.Context, key string, compute func(context.Context) (T, error), o saveOptions) (tiers.Record, error) {
	var now loaded
	if _, err := c.load(ctx, key, true, &now); !errors.Is(err, tiers.ErrNotFound) {
		return now.Record, err // saved since the caller looked
	}
	v, err := compute(ctx)
	if err != nil {
		return tiers.Record{}, err
	}
	_, conditional := o.cond.Version()
	if !conditional {
		o.cond = tiers.If(0)
	}
	for {
		rec, err := c.save(ctx, key, &v, o)
		if conditional || !errors.Is(err, tiers.ErrExists) {
			return rec, err
		}
		if _, err := c.load(ctx, key, true, &now); !errors.Is(err, tiers.ErrNotFound) {
			return now.Record, err
		}
	}
}

// flights are the computations under way.
type flights struct {
	mu  sync.Mutex
	all map[flightID]*flight
}

type flightID struct {
	tiers.Key
	kind reflect.Type
}

type flight struct {
	done    chan struct{}
	waiting int
	cancel  context.CancelFunc
	record  tiers.Record
	err     error
}

var errNotStarted = fmt.Errorf("%w: the manager was closed", tiers.ErrClosed)

// errGoexit is for a computation that ends its goroutine, as FailNow of a test
// does.
var errGoexit = errors.New("the computation ended its goroutine")

// join waits for the flight, and starts it when there is none.
func (f *flights) join(ctx context.Context, owner *jobs, id flightID, run func(context.Context) (tiers.Record, error)) (tiers.Record, error) {
	f.mu.Lock()
	one := f.all[id]
	if one == nil {
		one = &flight{done: make(chan struct{})}
		if !f.start(ctx, owner, id, one, run) {
			f.mu.Unlock()
			return tiers.Record{}, errNotStarted
		}
	}
	one.waiting++
	f.mu.Unlock()

	select {
	case <-one.done:
		return one.record, one.err
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if one.waiting--; one.waiting == 0 {
		one.cancel()
		if f.all[id] == one {
			delete(f.all, id) // a later caller starts anew rather than join one that was given up
		}
	}
	return tiers.Record{}, context.Cause(ctx)
}

// start runs the flight in a goroutine of its own, with the values of the first
// caller's context but not its end.
func (f *flights) start(ctx context.Context, owner *jobs, id flightID, one *flight, run func(context.Context) (tiers.Record, error)) bool {
	inner, cancel := context.WithCancel(asOwnWork(context.WithoutCancel(ctx)))
	one.cancel = cancel
	started := owner.spawn(func(closing context.Context) {
		stop := context.AfterFunc(closing, cancel)
		defer stop()
		defer cancel()
		one.err = errGoexit // which stands when run does not come back
		defer func() {
			f.mu.Lock()
			if f.all[id] == one {
				delete(f.all, id)
			}
			f.mu.Unlock()
			close(one.done)
		}()
		one.record, one.err = guarded(inner, run)
	})
	if !started {
		cancel()
		return false
	}
	if f.all == nil {
		f.all = make(map[flightID]*flight)
	}
	f.all[id] = one
	return true
}

// guarded turns a panic of the computation into an error for all who wait: in a
// goroutine of the manager it would end the program.
func guarded(ctx context.Context, run func(context.Context) (tiers.Record, error)) (rec tiers.Record, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the computation panicked: %v", p)
		}
	}()
	return run(ctx)
}
