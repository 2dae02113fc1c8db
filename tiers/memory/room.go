package memory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/memory/internal/spill"
)

// room is the budget: who wants to store more takes from it first.
type room struct {
	budget int64
	ready  int64 // above it the keeper makes room; the rest absorbs bursts
	used   atomic.Int64
	names  atomic.Int64 // the part of used that can't leave: keys
	ended  chan struct{}

	mu   sync.Mutex
	next *verdict
}

// verdict is what the keeper answers to those who wait for room.
type verdict struct {
	done chan struct{}
	err  error
}

// take takes n bytes, if they are there.
func (r *room) take(n int64) bool {
	if n <= 0 {
		return true
	}
	for {
		used := r.used.Load()
		if used+n > r.budget {
			return false
		}
		if r.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

func (r *room) give(n int64) {
	if n != 0 {
		r.used.Add(-n)
	}
}

// wait joins those whom the keeper's next pass answers.
func (r *room) wait() *verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = &verdict{done: make(chan struct{})}
	}
	return r.next
}

// turn answers the verdict that the keeper's pass has to reach, nil when nobody
// waits.
func (r *room) turn() *verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.next
	r.next = nil
	return v
}

func (v *verdict) settle(err error) {
	if v != nil {
		v.err = err
		close(v.done)
	}
}

// reserve takes n bytes, and waits until there is room or there will be none.
func (t *Tier) reserve(ctx context.Context, n int64) error {
	for !t.room.take(n) {
		if t.spill == nil {
			if err := t.outdated(n); err != nil {
				return err
			}
			continue
		}
		v := t.room.wait()
		t.rouse()
		select {
		case <-v.done:
			switch {
			case t.room.take(n):
				return nil
			case v.err != nil:
				return v.err
			case t.outsized(n):
				return full(errors.New("there is never so much room at once"))
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-t.room.ended:
			return tiers.ErrClosed
		}
	}
	return nil
}

// outdated makes room by removing what has expired, the only thing that may
// leave when there is no overflow.
func (t *Tier) outdated(n int64) error {
	if t.sweep(t.clock.Now().UnixMicro(), backlog) > 0 {
		return nil
	}
	if t.room.take(n) {
		t.room.give(n)
		return nil
	}
	return tiers.Hint(fmt.Errorf("%w: the memory budget of %d bytes is used up", tiers.ErrFull, t.room.budget),
		"raise memory.budget, let it overflow to a spill file with memory.overflow: spill, or give records a TTL")
}

// pressed rouses the keeper when the tier is getting full.
func (t *Tier) pressed() {
	if t.spill == nil {
		return
	}
	used := t.room.used.Load()
	if used > t.room.ready || used > t.room.budget/2 && !t.keeper.on.Load() {
		t.rouse()
	}
}

// fits answers ErrTooLarge for a record that never could.
func (t *Tier) fits(k *tiers.Key, value []byte) error {
	size := int64(len(k.Name) + len(value))
	if t.spill == nil {
		if size > t.room.budget {
			return tiers.Hint(fmt.Errorf("%w: key and value have %d bytes, the memory budget is %d (%w)",
				tiers.ErrTooLarge, size, t.room.budget, tiers.ErrFull), "raise memory.budget")
		}
		return nil
	}
	if t.outsized(size) && int64(len(value)) > t.spill.Limit() {
		return tiers.Hint(fmt.Errorf("%w: the value has %d bytes, the spill file's limit is %d (%w)",
			tiers.ErrTooLarge, len(value), t.spill.Limit(), tiers.ErrFull), "raise memory.budget or memory.spill_limit")
	}
	return nil
}

// outsized tells whether values of n bytes go to the spill file at once, since
// the keeper could not promise to make so much room.
func (t *Tier) outsized(n int64) bool { return t.spill != nil && n > t.room.budget-t.room.ready }

// place writes values to the spill file and answers where they are, all of them
// or an error.
func (t *Tier) place(ctx context.Context, values [][]byte) ([]spill.Extent[*entry], error) {
	var out []spill.Extent[*entry]
	for squeezed := false; ; squeezed = true {
		at, err := t.spill.Append(values[len(out):], nil)
		if out = append(out, at...); err == nil {
			return out, nil
		}
		if squeezed || !errors.Is(err, spill.ErrLimit) {
			t.discard(out)
			return nil, full(err)
		}
		if err := t.squeeze(ctx); err != nil {
			t.discard(out)
			return nil, err
		}
	}
}

// squeeze waits until the keeper has compacted the spill file.
func (t *Tier) squeeze(ctx context.Context) error {
	t.keeper.squeeze.Store(true)
	v := t.room.wait()
	t.rouse()
	select {
	case <-v.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-t.room.ended:
		return tiers.ErrClosed
	}
}

// discard frees extents.
func (t *Tier) discard(at []spill.Extent[*entry]) {
	for _, x := range at {
		if !x.IsZero() {
			t.spill.Free(x)
		}
	}
}

// full makes a failure of the spill file what the caller sees.
func full(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return tiers.ErrClosed
	}
	return tiers.Hint(fmt.Errorf("%w: memory has to overflow, but: %w", tiers.ErrFull, err),
		"raise memory.budget or memory.spill_limit, make room where memory.spill_dir is, or give records a TTL")
}
