package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sagestore/sagestore/internal/sessionlog"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// finishEvery is how often endings are looked for that a process has left undone.
const finishEvery = 10 * time.Second

// ending is there from the commit that ended a session, or let it go on, until the
// manager knows it too. So whoever dies in between leaves word of what is to be
// done.
type ending struct {
	Session string `json:"session"`
	Ended   bool   `json:"ended"` // else it goes on again
}

// End appends session.stop and ends the session as Manager.EndSession does: what
// belongs to it in categories with the TTL "session" is removed. Both are decided
// by one commit; what remains to be removed then is, even if the process dies
// meanwhile. The payload says how the session ended; without one it was a success.
//
// Ending a session that is over is no error and changes nothing, but that one which an
// import has ended is not let go on by another import. tiers.ErrNotFound: it was never
// begun with [Store.Start].
func (s *Store) End(ctx context.Context, id string, how ...Stop) error {
	stop := Stop{Success: true}
	if len(how) > 0 {
		stop = how[len(how)-1]
	}
	e, err := NewEvent(id, "", stop)
	if err != nil {
		return fail("end", id, err)
	}
	events, err := s.prepare(id, []Event{e})
	if err != nil {
		return fail("end", id, err)
	}
	return fail("end", id, s.update(ctx, id, func(v view) error {
		w, err := v.open(ctx, id)
		switch {
		case err != nil || w.head.Ended && !w.head.Imported:
			return err
		case w.head.Ended: // from here on no import lets it go on
			w.head.Imported = false
			return v.logs.Save(ctx, logKey(id), w.head)
		}
		if _, err := w.add(events); err != nil {
			return err
		}
		return w.flush(ctx)
	}))
}

// Resume lets a session that has ended go on: the events, such as a session.init
// of type Resume, are appended to its log. What ended with it does not come back.
// For a session that goes on it is Append; one that only the manager has ended goes
// on for it as well.
func (s *Store) Resume(ctx context.Context, id string, events ...Event) (last uint64, err error) {
	fresh, err := s.prepare(id, events)
	if err != nil {
		return 0, fail("resume", id, err)
	}
	err = s.update(ctx, id, func(v view) error {
		w, err := v.open(ctx, id)
		if err != nil {
			return err
		}
		w.head.Ended, w.head.Imported = false, false
		if err := w.look(ctx, fresh); err != nil {
			return err
		}
		if last, err = w.add(fresh); err != nil {
			return err
		}
		if w.ends == nil {
			if err := v.goOn(ctx, id); err != nil {
				return err
			}
		}
		if len(w.added) == 0 {
			return w.logs.Save(ctx, logKey(id), w.head)
		}
		return w.flush(ctx)
	})
	return last, fail("resume", id, err)
}

// end notes in a transaction that the session is over, for the manager to be told
// after the commit.
func (v view) end(ctx context.Context, id string, at time.Time) error {
	return v.turn(ctx, id, ending{id, true}, func(i *identity) { i.Ended = at })
}

// goOn is the opposite of end.
func (v view) goOn(ctx context.Context, id string) error {
	return v.turn(ctx, id, ending{id, false}, func(i *identity) { i.Ended = time.Time{} })
}

func (v view) turn(ctx context.Context, id string, to ending, change func(*identity)) error {
	if v.m == nil {
		return tiers.Hint(tiers.ErrUnsupported, "make the store with New of a manager, and join the transaction with In")
	}
	_, err := v.identities.Modify(ctx, manager.Key(id), func(i *identity, found bool) error {
		if !found {
			return errUnknown
		}
		change(i)
		return nil
	})
	if err == nil {
		err = v.endings.Save(ctx, sessionlog.Ending+manager.Key(id), to)
	}
	if err != nil {
		return err
	}
	v.tx.OnCommit(func(ctx context.Context) {
		// It stands whatever becomes of this: what fails is done again later.
		_ = v.Store.outside().finish(context.WithoutCancel(ctx), to)
	})
	return nil
}

// outside is the store out of the transaction that it was in.
func (s *Store) outside() *Store {
	return &Store{shared: s.shared, parts: partsOf(s.m), m: s.m, books: s.books}
}

// finish tells the manager what was decided, and forgets it.
func (s *Store) finish(ctx context.Context, to ending) error {
	key := sessionlog.Ending + manager.Key(to.Session)
	for {
		e, err := s.endings.Entry(ctx, key)
		if errors.Is(err, tiers.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		// What was decided anew meanwhile is not undone.
		still := manager.OnlyIf(func(ctx context.Context) (bool, error) {
			now, err := s.endings.Entry(ctx, key, manager.Fresh())
			if errors.Is(err, tiers.ErrNotFound) {
				return false, nil
			}
			return now.Version == e.Version, err
		})
		if e.Value.Ended {
			err = s.m.EndSession(ctx, e.Value.Session, still)
		} else {
			err = s.m.ReopenSession(ctx, e.Value.Session, still)
		}
		if err == nil && e.Value.Ended && s.knowledge != nil {
			_, err = s.knowledge.Collect(ctx)
		}
		if err != nil {
			return err
		}
		_, err = s.endings.Delete(ctx, key, manager.IfVersion(e.Version))
		if !errors.Is(err, tiers.ErrConflict) {
			return err
		}
		// It was decided anew meanwhile.
	}
}

// finishRest does what other calls, or other processes, have left undone of endings and
// deletions. What needs a tier that is away can wait, and so can what there was no time
// for: it stays noted.
func (s *Store) finishRest(ctx context.Context) error {
	err := errors.Join(s.finishAll(ctx), s.books.FinishAll(ctx))
	if errors.Is(err, tiers.ErrUnavailable) || ctx.Err() != nil {
		return nil //nolint:nilerr // the next run does it
	}
	return err
}

func (s *Store) finishAll(ctx context.Context) error {
	var errs []error
	for e, err := range s.endings.List(ctx, manager.Prefix(sessionlog.Ending)) {
		switch {
		case err == nil:
			errs = append(errs, s.finish(ctx, e.Value))
		case e.Key == "":
			return err
		default:
			errs = append(errs, fmt.Errorf("an ending that can't be read: %w", err))
		}
	}
	return errors.Join(errs...)
}
