package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sagestore/sagestore/tiers"
)

// call is one command on its way: queued, then sent by a lane, then done; or
// left, when its caller went away first.
type call struct {
	args   []any
	reply  reply
	write  bool
	script *script    // nil for plain commands
	items  []saveItem // of a save, whose arguments are made when it is sent
	parts  []*call    // of a merged save
	alone  bool       // a save that is not sent in one script with others
	size   int        // about, of the arguments, in bytes
	within time.Duration
	stamp  stamp
	hurry  bool // the stamp's deadline is that of the caller's context

	state  atomic.Int32
	again  bool // it was sent before, and certainly changed nothing
	source bool // the script's text has to go along
	done   chan struct{}

	// Set before done is closed.
	text  []byte
	texts []string
	n     int64
	err   error
}

type reply uint8

const (
	replyText reply = iota
	replyTexts
	replyInt
)

// States of a call.
const (
	queued int32 = iota
	sent
	left
)

// stamp is the first argument of every script: the instant, in the server's
// time, after which the script changes nothing. It is computed when it is
// written, and tells that something was written at all.
type stamp struct {
	time     *serverTime
	deadline time.Duration // on the line of serverTime
	written  bool
	rest     []byte // what follows, after eight bytes for the instant; nil for nothing
	buf      [8]byte
}

// MarshalBinary is called by the client while it writes the command.
func (s *stamp) MarshalBinary() ([]byte, error) {
	s.written = true
	b := s.rest
	if b == nil {
		b = s.buf[:]
	}
	binary.BigEndian.PutUint64(b, bits(s.time.at(s.deadline)))
	return b, nil
}

func newRead(kind reply, args ...any) *call {
	return &call{args: args, reply: kind}
}

// newWrite is a call of a script with its keys and its arguments, before which
// the stamp goes.
func newWrite(s *script, keys []string, size int, argv ...any) *call {
	c := &call{reply: replyText, write: true, script: s, size: size}
	c.args = make([]any, 0, 4+len(keys)+len(argv))
	c.args = append(c.args, "evalsha", s.sha, len(keys))
	for _, k := range keys {
		c.args = append(c.args, k)
	}
	c.args = append(c.args, &c.stamp)
	c.args = append(c.args, argv...)
	return c
}

// command makes what goes to the client.
func (c *call) command(ctx context.Context) goredis.Cmder {
	if c.source {
		c.args[0], c.args[1] = "eval", c.script.source
	}
	switch c.reply {
	case replyTexts:
		return goredis.NewStringSliceCmd(ctx, c.args...)
	case replyInt:
		return goredis.NewIntCmd(ctx, c.args...)
	default:
		return goredis.NewStringCmd(ctx, c.args...)
	}
}

// take copies the reply out of the command; an absent value is an empty text.
func (c *call) take(cmd goredis.Cmder) error {
	err := cmd.Err()
	if errors.Is(err, goredis.Nil) {
		return nil
	}
	if err != nil {
		return err
	}
	switch cmd := cmd.(type) {
	case *goredis.StringCmd:
		c.text, _ = cmd.Bytes() // no copy; nobody else holds the bytes
	case *goredis.StringSliceCmd:
		c.texts = cmd.Val()
	case *goredis.IntCmd:
		c.n = cmd.Val()
	}
	return nil
}

func (c *call) finish(err error) {
	c.err = err
	if c.done != nil { // else its own caller flies it
		close(c.done)
	}
}

// late is the error of a call whose time was over and that changed nothing.
func (c *call) late(what string) error {
	if c.hurry {
		return fmt.Errorf("%w: %s", context.DeadlineExceeded, what)
	}
	return fmt.Errorf("%w: %s", tiers.ErrUnavailable, what)
}

// cancel ends a call that was not sent, if it still can.
func (c *call) cancel(err error) {
	if c.state.CompareAndSwap(queued, left) {
		c.finish(err)
	}
}

// do runs a call and waits for it, but not beyond the end of the context.
func (t *Tier) do(ctx context.Context, c *call) error {
	l, err := t.admit(ctx, c)
	if err != nil {
		return err
	}
	if s := l.takeIdle(c); s != nil {
		return t.flyAlone(ctx, l, s, c)
	}
	if err := l.submit(c); err != nil {
		return err
	}
	return t.await(ctx, c)
}

// doAll runs calls together. Of several errors it answers one that is not about
// a single key, if there is one; then nothing may be read from the calls.
func (t *Tier) doAll(ctx context.Context, cs []*call) error {
	var first error
	note := func(err error) {
		if err != nil && (first == nil || corrupt(first) && !corrupt(err)) {
			first = err
		}
	}
	started := cs
	for i, c := range cs {
		l, err := t.admit(ctx, c)
		if err == nil {
			err = l.submit(c)
		}
		if err != nil {
			note(err)
			started = cs[:i]
			break
		}
	}
	for _, c := range started {
		note(t.await(ctx, c))
	}
	return first
}

// admit gives a call its deadline and its lane.
func (t *Tier) admit(ctx context.Context, c *call) (*lane, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := t.health.away(); err != nil {
		return nil, err
	}
	// Large values get more time, at a rate that a slow network has.
	c.within = t.timeout + time.Duration(c.size)*time.Second/slowest
	now := t.time.now()
	limit := c.within
	if d, ok := ctx.Deadline(); ok {
		if left := time.Until(d); left < limit {
			limit, c.hurry = left, true
		}
	}
	c.stamp.time, c.stamp.deadline = &t.time, now+limit
	if c.write {
		return &t.writes, nil
	}
	return &t.reads, nil
}

// slowest is the throughput, in bytes a second, that a value may count on.
const slowest = 16 << 20

func (t *Tier) await(ctx context.Context, c *call) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	for {
		if c.state.CompareAndSwap(queued, left) {
			return context.Cause(ctx) // it never went out, or came back without a change
		}
		select {
		case <-c.done:
			return c.err
		default:
		}
		if c.state.CompareAndSwap(sent, left) {
			break
		}
	}
	return c.abandoned(context.Cause(ctx))
}

// abandoned is the error of a call that was sent and not waited for.
func (c *call) abandoned(cause error) error {
	switch {
	case c.write:
		return fmt.Errorf("%w: left before redis answered: %w", tiers.ErrCommitUnknown, cause)
	case errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("%w: no answer in time: %w", tiers.ErrUnavailable, cause)
	}
	return cause
}
