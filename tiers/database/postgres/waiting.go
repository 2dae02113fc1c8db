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
	under int    // transactions that bring rows and are under way
	turns uint64 // grows with every end of one
}

// turn is asked for before a look.
func (w *waiting) turn() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.turns
}

// look notes what a look has shown, unless rows of this handle were on their way since
// it began: it may have been too early to see them.
func (w *waiting) look(empty bool, turn uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.empty = empty && w.under == 0 && turn == w.turns
}

// come notes that the transaction is to store rows.
func (x *tx) come() {
	if x.brings {
		return
	}
	x.brings = true
	w := &x.w.t.waiting
	w.mu.Lock()
	defer w.mu.Unlock()
	w.empty = false
	w.under++
}

// came notes that the transaction is over, if it was to store rows.
func (x *tx) came() {
	if !x.brings {
		return
	}
	x.brings = false
	w := &x.w.t.waiting
	w.mu.Lock()
	defer w.mu.Unlock()
	w.under--
	w.turns++
}

var _ tiers.Waiter = (*Tier)(nil)

// Waits implements tiers.Waiter. As long as any row waits it has to be asked for.
func (t *Tier) Waits(string, tiers.Key) bool {
	t.waiting.mu.Lock()
	defer t.waiting.mu.Unlock()
	return !t.waiting.empty
}
