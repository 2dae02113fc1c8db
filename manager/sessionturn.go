package manager

import (
	"context"
	"fmt"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// SessionOption is an option of EndSession and ReopenSession.
type SessionOption func(*sessionOptions)

type sessionOptions struct {
	still func(context.Context) (bool, error)
}

// OnlyIf lets EndSession or ReopenSession go ahead only if still says so, and do nothing
// otherwise. Between that answer and what is done by it no other call with OnlyIf, of any
// process of the store, ends or reopens a session: so one that was held up does not undo
// what others have decided since. still may read and must not end or reopen sessions
// itself. tiers.ErrUnavailable: another process does not get on with such a call.
func OnlyIf(still func(ctx context.Context) (bool, error)) SessionOption {
	return func(o *sessionOptions) { o.still = still }
}

func sessionOptionsOf(opts []SessionOption) (o sessionOptions) {
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	return o
}

const (
	// turnLock is the lock of the store for calls with OnlyIf.
	turnLock = "sessions"
	// turnPatience is how long one waits for others, who need milliseconds.
	turnPatience = 10 * time.Second
	turnPoll     = 2 * time.Millisecond
)

// decide calls do in the turn of the options, and tells whether it was called.
func (s *sessions) decide(ctx context.Context, o sessionOptions, do func() error) (done bool, err error) {
	if o.still == nil {
		return true, do()
	}
	release, err := s.takeTurn(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	if ok, err := o.still(ctx); err != nil || !ok {
		return false, err
	}
	return true, do()
}

// takeTurn waits for calls of this process, then for those of others.
func (s *sessions) takeTurn(ctx context.Context) (release func(), err error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() {
		if err != nil {
			<-s.turn
		}
	}()
	for until := s.clock.Now().Add(turnPatience); ; {
		unlock, ok, err := s.system.Lock(ctx, turnLock)
		if err != nil {
			return nil, err
		}
		if ok {
			return func() { unlock(); <-s.turn }, nil
		}
		if s.clock.Now().After(until) {
			return nil, tiers.Hint(fmt.Errorf("%w: another process is about to end or reopen a session and does not get on", tiers.ErrUnavailable),
				"see whether a process of this store is stopped, and try again")
		}
		if err := s.clock.Sleep(ctx, turnPoll); err != nil {
			return nil, err
		}
	}
}
