package redis

import (
	"context"
	"fmt"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sagestore/sagestore/tiers"
)

// A lane sends calls of one kind, reads or writes, over a few connections. A
// lone call goes out at once, in the goroutine of its caller; calls that arrive
// while others are on their way are collected and go out together, which is
// what makes many callers cheap.
type lane struct {
	tier *Tier
	wake chan *slot // one a flight to start

	mu     sync.Mutex
	queue  []*call
	free   []*slot
	closed bool
}

const (
	// flights is how many connections a lane has: while one batch is with the
	// server, the next is on its way. More make the batches smaller, which costs
	// more than it gains.
	flights  = 2
	maxCalls = 256     // in one flight
	maxBytes = 1 << 20 // in one flight, unless it is a single call
)

func (l *lane) start(t *Tier, slots []*slot) {
	l.tier, l.free = t, slots
	l.wake = make(chan *slot, flights)
	for range flights {
		t.workers.Go(func() {
			for s := range l.wake {
				l.work(s)
			}
		})
	}
}

// takeIdle answers a slot for a call that need not wait for others, nor could
// travel with them; nil when it should be submitted.
func (l *lane) takeIdle(c *call) *slot {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.queue) > 0 || len(l.free) == 0 || c.size > maxBytes {
		return nil
	}
	c.state.Store(sent)
	return l.take()
}

func (l *lane) take() *slot {
	s := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	return s
}

// put gives a slot back after a call that flew alone.
func (l *lane) put(s *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = append(l.free, s)
	l.launch()
}

func (l *lane) submit(c *call) error {
	c.done = make(chan struct{})
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return tiers.ErrClosed
	}
	l.queue = append(l.queue, c)
	l.launch()
	return nil
}

// launch starts a flight if there is something to send and a connection free.
// It is called under the lock.
func (l *lane) launch() {
	if !l.closed && len(l.free) > 0 && len(l.queue) > 0 {
		l.wake <- l.take()
	}
}

// work flies until there is nothing left to send.
func (l *lane) work(s *slot) {
	var batch []*call
	for {
		l.mu.Lock()
		batch = l.board(batch[:0])
		if len(batch) == 0 {
			l.free = append(l.free, s)
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		l.resubmit(l.fly(s, batch))
		clear(batch)
	}
}

// board moves calls from the queue to a flight.
func (l *lane) board(batch []*call) []*call {
	size, n := 0, 0
	for n < len(l.queue) && len(batch) < maxCalls {
		c := l.queue[n]
		if len(batch) > 0 && size+c.size > maxBytes {
			break
		}
		n++
		if c.state.CompareAndSwap(queued, sent) {
			size += c.size
			batch = append(batch, c)
		}
	}
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	return batch
}

// fly sends the calls, waits for the replies and finishes the calls. It answers
// those that have to be sent again.
func (l *lane) fly(s *slot, batch []*call) (again []*call) {
	t := l.tier
	began := t.time.now()
	within := time.Duration(0)
	ready := make([]*call, 0, len(batch))
	var saves []*call
	for _, c := range batch {
		if c.stamp.deadline <= began {
			c.finish(c.late("its time was over before it could be sent"))
			continue
		}
		within = max(within, c.within)
		if len(c.items) == 1 && !c.alone {
			saves = append(saves, c)
		} else {
			ready = append(ready, c)
		}
	}
	if len(saves) > 1 {
		ready = append(ready, t.merge(saves))
	} else {
		ready = append(ready, saves...)
	}
	if len(ready) == 0 {
		return nil
	}
	cmds := make([]goredis.Cmder, len(ready))
	ctx := deadline(within)
	for i, c := range ready {
		if c.items != nil || c.parts != nil {
			c.args = t.arguments(c)
		}
		cmds[i] = c.command(ctx)
	}
	s.run(ctx, cmds)
	ended := t.time.now()
	t.report(cmds, s.interrupted(), began, ended)
	for i, c := range ready {
		err := c.take(cmds[i])
		if c.parts != nil {
			again = append(again, t.settleMerged(c, err, began, ended)...)
		} else if t.settle(c, err, began, ended) {
			again = append(again, c)
		}
	}
	return again
}

// report tells the breaker how a flight went.
func (t *Tier) report(cmds []goredis.Cmder, interrupted bool, began, ended time.Duration) {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && (!isReply(err) || isDown(err)) {
			t.health.failed(err, interrupted, began, ended)
			return
		}
	}
	t.health.answered(ended)
}

// settle finishes a call, unless it has to be sent again.
func (t *Tier) settle(c *call, err error, began, ended time.Duration) (again bool) {
	switch {
	case err == nil && c.script != nil:
		return t.settleScript(c, began, ended)
	case err == nil:
		c.finish(nil)
	case isReply(err):
		if c.script != nil && code(err) == "NOSCRIPT" && !c.source {
			c.source = true
			return true
		}
		c.finish(t.refusal(err))
	case c.write && c.stamp.written:
		c.finish(fmt.Errorf("%w: no answer from redis: %w", tiers.ErrCommitUnknown, t.plain(err)))
	case !c.write && !c.again && t.health.away() == nil && connectionLost(err):
		// A connection that was closed while it was idle; reading twice is safe.
		c.again = true
		return true
	default:
		c.finish(fmt.Errorf("%w: %w", tiers.ErrUnavailable, t.plain(err)))
	}
	return false
}

// settleScript looks at the head of a script's reply.
func (t *Tier) settleScript(c *call, began, ended time.Duration) (again bool) {
	if len(c.text) < 9 {
		c.finish(fmt.Errorf("%w: redis answered %d bytes to a script", tiers.ErrCorrupt, len(c.text)))
		return false
	}
	t.time.sample(int64At(c.text[1:]), began, ended)
	if c.text[0] != 'l' {
		c.finish(nil)
		return false
	}
	// It arrived late, or the estimate of the server's clock was wrong, which
	// the sample has corrected. Nothing was changed.
	if !c.again && ended < c.stamp.deadline {
		c.again = true
		return true
	}
	c.finish(c.late("it reached redis too late and changed nothing"))
	return false
}

// resubmit puts calls in front, so that they keep their place, for the flight
// that the caller begins next. Those that nobody waits for any more are not
// sent again.
func (l *lane) resubmit(cs []*call) {
	front := cs[:0]
	for _, c := range cs {
		c.stamp.written = false
		if c.state.CompareAndSwap(sent, queued) {
			front = append(front, c)
		} else {
			c.finish(errLeft)
		}
	}
	if len(front) > 0 {
		l.mu.Lock()
		l.queue = append(front, l.queue...)
		l.mu.Unlock()
	}
}

// flyAlone sends a call from the goroutine of its caller.
func (t *Tier) flyAlone(ctx context.Context, l *lane, s *slot, c *call) error {
	disarm := s.arm(ctx)
	for {
		again := l.fly(s, []*call{c}) //nolint:contextcheck // the slot is armed with it
		if len(again) == 0 || s.interrupted() || t.health.away() != nil {
			if len(again) > 0 { // it changed nothing
				c.err = c.late("it was not answered in time and changed nothing")
			}
			break
		}
		c.stamp.written = false
	}
	interrupted := disarm()
	l.put(s)
	if interrupted && c.err != nil && ctx.Err() != nil {
		if !c.write || c.stamp.written {
			return c.abandoned(context.Cause(ctx))
		}
		return context.Cause(ctx)
	}
	return c.err
}

// drop ends the calls that wait, because the server went away.
func (l *lane) drop(err error) {
	l.mu.Lock()
	queue := l.queue
	l.queue = nil
	l.mu.Unlock()
	for _, c := range queue {
		c.cancel(err)
	}
}

// close ends the workers; nothing is queued any more.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.wake)
	}
}
