package database

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// How often a lock is tried that another process holds. These waits are real
// time, whatever clock the tier has: the other process has none of ours.
const (
	pollFirst = 100 * time.Microsecond
	pollLast  = 2 * time.Millisecond
)

// presence is the lock that every process with the database open holds shared,
// and that a migration or a restore holds exclusively. It also tells who holds
// it.
type presence struct {
	lock *fileLock
	pids *owners
}

func openPresence(db string) (*presence, error) {
	l, err := openLock(db + ".lock")
	if err != nil {
		return nil, err
	}
	o, err := openOwners(db + ".lock")
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return &presence{lock: l, pids: o}, nil
}

func (p *presence) close() error {
	if p == nil {
		return nil
	}
	return errors.Join(p.pids.close(), p.lock.close())
}

// refused says who is in the way.
func (p *presence) refused(does string) error {
	who := "another process"
	if pids := p.pids.others(); len(pids) > 0 {
		who = "process " + strings.Join(pids, ", ")
	}
	return tiers.Hint(fmt.Errorf("%w: %s %s", tiers.ErrUnavailable, who, does), "end "+who+", then try again")
}

// turn makes the writers of several processes take turns, one group each. A
// waiter stands in the turnstile, and who has just had a turn has to pass the
// turnstile too, so that the waiter comes first.
type turn struct{ gate, seat *fileLock }

func openTurn(db string) (*turn, error) {
	seat, err := openLock(db + ".writer")
	if err != nil {
		return nil, err
	}
	gate, err := openLock(db + ".turn")
	if err != nil {
		return nil, errors.Join(err, seat.close())
	}
	return &turn{gate: gate, seat: seat}, nil
}

// take waits for the turn, as long as still answers nil.
func (t *turn) take(ctx context.Context, still func() error) error {
	if t == nil {
		return nil
	}
	if err := poll(ctx, still, func() (bool, error) { return t.gate.try(true) }); err != nil {
		return err
	}
	err := poll(ctx, still, func() (bool, error) { return t.seat.try(true) })
	return errors.Join(err, t.gate.unlock())
}

func (t *turn) give() error {
	if t == nil {
		return nil
	}
	return t.seat.unlock()
}

func (t *turn) close() error {
	if t == nil {
		return nil
	}
	return errors.Join(t.gate.close(), t.seat.close())
}

// poll tries until it succeeds, the context ends, or still, which may be nil,
// answers an error.
func poll(ctx context.Context, still func() error, try func() (bool, error)) error {
	ok, err := try()
	if ok || err != nil {
		return err
	}
	wait := pollFirst
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		}
		if still != nil {
			if err := still(); err != nil {
				return err
			}
		}
		if ok, err := try(); ok || err != nil {
			return err
		}
		wait = min(wait*3/2, pollLast)
		timer.Reset(wait)
	}
}
