package postgres

import (
	"sync"

	"github.com/sagestore/sagestore/tiers"
)

// waiting knows whether the journal was empty when it was looked at last, which it is
// nearly always.
type waiting struct {
	mu    sync.Mutex
	empty bool
	turns uint64 // grows with every row of this handle
}

// turn is asked for before a look.
func (w *waiting) turn() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.turns
}

// look notes what a look has shown, unless a row of this handle has come since.
func (w *waiting) look(empty bool, turn uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.empty = empty && turn == w.turns
}

// come notes that a row is about to be stored.
func (w *waiting) come() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.empty = false
	w.turns++
}

var _ tiers.Waiter = (*Tier)(nil)

// Waits implements tiers.Waiter. As long as any row waits it has to be asked for.
func (t *Tier) Waits(string, tiers.Key) bool {
	t.waiting.mu.Lock()
	defer t.waiting.mu.Unlock()
	return !t.waiting.empty
}
