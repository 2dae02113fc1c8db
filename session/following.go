package session

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// pollEvery is how often a log that is followed is looked at for what other
// processes, and other Stores of this one, have appended.
const pollEvery = 200 * time.Millisecond

// Follow yields the events after a sequence number, and then those that are
// appended, as they come. It ends when all events of a session that has ended were
// yielded, or with the error of ctx, or with tiers.ErrNotFound when the session is deleted, also when
// one of the same id was begun since. Other errors are as for [Store.Events]. No call is
// under way while it waits, so it does not hold up Manager.Close; after that it
// ends with tiers.ErrClosed.
func (s *Store) Follow(ctx context.Context, id string, after uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if s.tx != nil {
			yield(Event{}, fail("follow", id, tiers.Hint(tiers.ErrUnsupported, "a transaction is not shown what others append; follow outside of it")))
			return
		}
		w := s.watchers.watch(id)
		defer w.leave()
		born, first := "", true
		for {
			news := w.news() // before looking, so that nothing is missed
			head, err := s.head(ctx, id)
			switch {
			case first:
				born, first = head.Born, false
			case errors.Is(err, tiers.ErrNotFound), err == nil && head.Born != born:
				err = errDeleted
			}
			if err != nil {
				yield(Event{}, fail("follow", id, err))
				return
			}
			if head.Last > after {
				for e, err := range s.list(ctx, id, manager.After(eventKey(id, after))) {
					if !yield(e, err) || err != nil && e.Seq == 0 {
						return
					}
					after = max(after, e.Seq)
				}
				after = max(after, head.Last) // events that are gone are not waited for
				continue
			}
			if head.Ended {
				return
			}
			if err := s.wait(ctx, news); err != nil {
				yield(Event{}, fail("follow", id, err))
				return
			}
		}
	}
}

// wait ends with news, or when it is time to look.
func (s *Store) wait(ctx context.Context, news <-chan struct{}) error {
	patience, cancel := context.WithCancel(ctx)
	defer cancel()
	var slept error
	over := make(chan struct{})
	go func() {
		defer close(over)
		slept = s.clock.Sleep(patience, pollEvery)
	}()
	select {
	case <-news:
		cancel()
		<-over
		return context.Cause(ctx)
	case <-over:
		return slept
	}
}

// watchers are those of this process who follow logs through one Store.
type watchers struct {
	mu  sync.Mutex
	all map[string]*watched
}

// watched is a session with its followers.
type watched struct {
	changed   chan struct{} // closed, and replaced, by the next append
	followers int
}

// watcher is one who follows.
type watcher struct {
	from *watchers
	id   string
}

func (w *watchers) watch(id string) watcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[string]*watched{}
	}
	if w.all[id] == nil {
		w.all[id] = &watched{changed: make(chan struct{})}
	}
	w.all[id].followers++
	return watcher{w, id}
}

// tell wakes who follows the session.
func (w *watchers) tell(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.all[id]; one != nil {
		close(one.changed)
		one.changed = make(chan struct{})
	}
}

func (w watcher) news() <-chan struct{} {
	w.from.mu.Lock()
	defer w.from.mu.Unlock()
	return w.from.all[w.id].changed
}

func (w watcher) leave() {
	w.from.mu.Lock()
	defer w.from.mu.Unlock()
	one := w.from.all[w.id]
	if one.followers--; one.followers == 0 {
		delete(w.from.all, w.id)
	}
}

// collect answers what could be read, and the joined errors of the rest.
func collect(events iter.Seq2[Event, error]) ([]Event, error) {
	var all []Event
	var errs []error
	for e, err := range events {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, e)
	}
	return all, errors.Join(errs...)
}
