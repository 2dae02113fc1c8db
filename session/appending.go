package session

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sagestore/sagestore/tiers"
)

// turns let the callers of one process that change a session go one after the
// other, so that they do not spoil each other's transactions.
type turns struct {
	mu  sync.Mutex
	all map[string]*turn
}

type turn struct {
	free    chan struct{} // holds a token while it is nobody's turn
	waiting int
}

// wait answers what the caller does when he is done.
func (t *turns) wait(ctx context.Context, id string) (done func(), err error) {
	t.mu.Lock()
	if t.all == nil {
		t.all = map[string]*turn{}
	}
	one := t.all[id]
	if one == nil {
		one = &turn{free: make(chan struct{}, 1)}
		one.free <- struct{}{}
		t.all[id] = one
	}
	one.waiting++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.waiting--; one.waiting == 0 {
			delete(t.all, id)
		}
	}
	select {
	case <-one.free:
		return func() {
			one.free <- struct{}{}
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

// queues gather what is appended to a session while an append is under way.
type queues struct {
	mu  sync.Mutex
	all map[string][]*request // of sessions with an append under way
}

// request is one call of Append.
type request struct {
	events []Event
	last   uint64
	err    error
	done   chan struct{} // closed when last and err are set
}

// A batch holds at most this much, but one request at least.
const (
	mostInBatch  = 512
	bytesInBatch = 8 << 20
)

// append hands the request over and waits for the answer. Whoever finds nobody at
// work does the work, for the others as well, in a goroutine that ends with it.
func (q *queues) append(ctx context.Context, s *Store, id string, r *request) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	q.mu.Lock()
	if q.all == nil {
		q.all = map[string][]*request{}
	}
	waiting, busy := q.all[id]
	q.all[id] = append(waiting, r)
	q.mu.Unlock()
	if !busy {
		go q.work(context.WithoutCancel(ctx), s, id)
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
	}
	if q.takeBack(id, r) {
		return context.Cause(ctx)
	}
	select {
	case <-r.done:
		return nil
	default:
		return tiers.Hint(fmt.Errorf("%w: %w", tiers.ErrCommitUnknown, context.Cause(ctx)), "append the same events again")
	}
}

// takeBack removes a request that nobody has begun with.
func (q *queues) takeBack(id string, r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, other := range q.all[id] {
		if other == r {
			rest := make([]*request, 0, len(q.all[id])-1)
			q.all[id] = append(append(rest, q.all[id][:i]...), q.all[id][i+1:]...)
			return true
		}
	}
	return false
}

// work appends batch after batch until nothing waits.
func (q *queues) work(ctx context.Context, s *Store, id string) {
	for {
		batch := q.next(id)
		if batch == nil {
			return
		}
		s.appendBatch(ctx, id, batch)
	}
}

func (q *queues) next(id string) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := q.all[id]
	if len(waiting) == 0 {
		delete(q.all, id)
		return nil
	}
	n, events, size := 0, 0, 0
	for _, r := range waiting {
		events += len(r.events)
		for i := range r.events {
			size += len(r.events[i].Params) + len(r.events[i].More)
		}
		if n > 0 && (events > mostInBatch || size > bytesInBatch) {
			break
		}
		n++
	}
	q.all[id] = append([]*request{}, waiting[n:]...)
	return waiting[:n]
}

// appendBatch answers the requests. When they can't be stored together, each is
// tried by itself.
func (s *Store) appendBatch(ctx context.Context, id string, batch []*request) {
	err := s.update(ctx, id, func(v view) error { return v.appendAll(ctx, id, batch) })
	if err != nil && len(batch) > 1 && !errors.Is(err, tiers.ErrCommitUnknown) && !errors.Is(err, tiers.ErrNotFound) {
		for _, r := range batch {
			s.appendBatch(ctx, id, []*request{r})
		}
		return
	}
	for _, r := range batch {
		if err != nil {
			r.last, r.err = 0, err
		}
		close(r.done)
	}
}

func (v view) appendAll(ctx context.Context, id string, batch []*request) error {
	w, err := v.open(ctx, id)
	if err != nil {
		return err
	}
	var all []Event
	for _, r := range batch {
		all = append(all, r.events...)
	}
	if err := w.look(ctx, all); err != nil {
		return err
	}
	for _, r := range batch {
		r.last, r.err = w.add(r.events)
	}
	return w.flush(ctx)
}
