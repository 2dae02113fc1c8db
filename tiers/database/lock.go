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

// grace is for how long a lock that somebody has is tried before that is said. A
// process that one of ours starts has our open files, and with them our locks, until it
// has become the other program.
const grace = time.Second

// alone takes the lock of the database that others share, for a while if need be. Who
// holds it shared meanwhile, held, gives that up for each try (so does Linux by itself),
// so only one process at a time tries.
func (p *presence) alone(ctx context.Context, db string, held bool) (err error) {
	trying, err := openLock(db + ".migration")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, trying.close()) }()
	wait, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	err = poll(wait, nil, func() (bool, error) { return trying.try(true) })
	if err == nil {
		err = poll(wait, nil, func() (bool, error) {
			ok, err := p.lock.try(true)
			if ok || err != nil || !held {
				return ok, err
			}
			_, err = p.lock.try(false)
			return false, err
		})
	}
	if err != nil && wait.Err() != nil && ctx.Err() == nil {
		return p.refused("has it open")
	}
	return err
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
