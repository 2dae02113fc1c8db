package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.Messenger = (*Tier)(nil)

// Send publishes the messages on the channel of prefix and epoch. Each is answered
// before the next is sent: together they might travel on two connections.
func (t *Tier) Send(ctx context.Context, messages ...[]byte) error {
	for _, m := range messages {
		if err := t.run(ctx, newRead(replyInt, "publish", t.names.changes, m)); err != nil {
			return t.fail("send", tiers.Key{}, err)
		}
	}
	return nil
}

// Listen hears what is published from the moment at which up is called, on a
// connection of its own.
func (t *Tier) Listen(ctx context.Context, up func(), deliver func([]byte)) error {
	if err := t.enter(); err != nil {
		return t.fail("listen", tiers.Key{}, err)
	}
	defer t.calls.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // Close ends it
		select {
		case <-t.ended:
			cancel(tiers.ErrClosed)
		case <-ctx.Done():
		}
	}()
	s := newSlot(t.options, t.tls)
	defer func() { _ = s.client.Close() }()
	disarm := s.arm(ctx) // a read that waits does not look at the context
	defer disarm()
	err := t.listen(ctx, s, up, deliver)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return t.fail("listen", tiers.Key{}, err)
}

func (t *Tier) listen(ctx context.Context, s *slot, up func(), deliver func([]byte)) error {
	sub, ok := s.client.(interface {
		Subscribe(ctx context.Context, channels ...string) *goredis.PubSub
	})
	if !ok {
		return tiers.ErrUnsupported
	}
	p := sub.Subscribe(ctx) // to nothing yet, which dials nothing
	defer func() { _ = p.Close() }()
	first, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	if err := p.Subscribe(first, t.names.changes); err != nil {
		return t.silence(err)
	}
	asked, heard := true, false // a sign of life, which the answer to SUBSCRIBE is as well
	for {
		m, err := p.ReceiveTimeout(ctx, tiers.QuietLimit/2)
		if isTimeout(err) && !asked {
			asked = true
			if err := p.Ping(ctx); err != nil {
				return t.silence(err)
			}
			continue
		}
		if err != nil {
			return t.silence(err)
		}
		asked = false
		switch m := m.(type) {
		case *goredis.Subscription:
			if heard {
				return errors.New("the connection was made anew")
			}
			heard = true
			up()
		case *goredis.Message:
			deliver([]byte(m.Payload))
		}
	}
}

// silence says why nothing is heard.
func (t *Tier) silence(err error) error {
	switch {
	case isReply(err):
		return t.refusal(err)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %s gave no sign of life for %s", tiers.ErrUnavailable, t.place, tiers.QuietLimit.Round(time.Millisecond))
	}
	return fmt.Errorf("%w: %w", tiers.ErrUnavailable, t.plain(err))
}
