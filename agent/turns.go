package agent

import (
	"context"
	"sync"
)

// turn names what a change wants to itself: an agent, or a conversation.
type turn struct{ agent, conversation string }

// turns let changes of the same thing in one process come one after the other.
// They are for speed alone: what is right is decided by the transactions.
type turns struct {
	mu    sync.Mutex
	queue map[turn]*waiting
}

type waiting struct {
	turn chan struct{} // holds one token
	n    int           // callers that wait or are at it
}

func (t *turns) wait(ctx context.Context, at turn) (leave func(), err error) {
	if at == (turn{}) {
		return func() {}, nil
	}
	t.mu.Lock()
	if t.queue == nil {
		t.queue = make(map[turn]*waiting)
	}
	w := t.queue[at]
	if w == nil {
		w = &waiting{turn: make(chan struct{}, 1)}
		w.turn <- struct{}{}
		t.queue[at] = w
	}
	w.n++
	t.mu.Unlock()
	select {
	case <-w.turn:
		return func() { w.turn <- struct{}{}; t.forget(at, w) }, nil
	case <-ctx.Done():
		t.forget(at, w)
		return nil, context.Cause(ctx)
	}
}

func (t *turns) forget(at turn, w *waiting) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.n--; w.n == 0 {
		delete(t.queue, at)
	}
}
