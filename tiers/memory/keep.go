package memory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/memory/internal/spill"
)

// keeper is the goroutine that brings keys into order and lets values leave. It
// starts when there is something to do for it and ends with Close.
type keeper struct {
	start sync.Once
	wake  chan struct{}
	done  sync.WaitGroup
	on    atomic.Bool // the policy wants to hear of changes

	squeeze  atomic.Bool // somebody waits for the spill file to be compacted
	round    uint32      // counts passes; owned by the goroutine
	stranded []*entry    // should have left, but could not; owned by the goroutine

	touching sync.RWMutex // held while the policy is told of a read, against its end
	policy   *policy      // nil until the tier is half full

	wishing sync.Mutex
	wishes  []*entry // spilled entries that were read again
}

const (
	// chunk is how many changes the keeper tells the policy at once.
	chunk = 1024
	// wishLimit is how many spilled entries may wait to come back.
	wishLimit = 256
)

// rouse makes the keeper look.
func (t *Tier) rouse() {
	t.keeper.start.Do(func() {
		if !t.closed.Load() {
			t.keeper.done.Go(t.keep)
		}
	})
	select {
	case t.keeper.wake <- struct{}{}:
	default:
	}
}

// stop waits for the keeper's end; room.ended is closed before.
func (k *keeper) stop() {
	k.start.Do(func() {})
	k.done.Wait()
}

func (t *Tier) keep() {
	defer t.endPolicy()
	for {
		select {
		case <-t.room.ended:
			return
		case <-t.keeper.wake:
		}
		for more := true; more; {
			select {
			case <-t.room.ended:
				return
			default:
				more = t.pass()
			}
		}
	}
}

// pass does one round of the keeper's work and tells whether there is more.
func (t *Tier) pass() (more bool) {
	k := &t.keeper
	k.round++
	v := t.room.turn()
	if k.policy == nil && t.spill != nil && t.room.used.Load() > t.room.budget/2 {
		if err := t.beginPolicy(); err != nil {
			v.settle(fmt.Errorf("start the eviction policy: %w", err))
			return false
		}
	}
	changes, more := t.pending()
	if k.squeeze.Swap(false) {
		t.compact(true)
	}
	if k.policy == nil {
		v.settle(nil)
		return false
	}
	for _, e := range changes {
		t.feed(e)
	}
	wishes := t.wished()
	// Ristretto lets updates outgrow its limit, so it is enforced here.
	k.policy.limit(t.room.ready - t.room.names.Load())
	err := t.leave(k.policy.wait(), v != nil)
	t.comeBack(wishes)
	t.compact(false)
	v.settle(t.judgement(err))
	return more
}

// judgement is what those who wait for room are told: nil to try again.
func (t *Tier) judgement(err error) error {
	if t.room.used.Load() <= t.room.ready {
		return nil
	}
	switch {
	case err != nil:
		return full(err)
	case t.room.names.Load() >= t.room.ready:
		return tiers.Hint(fmt.Errorf("%w: keys alone fill the memory budget of %d bytes", tiers.ErrFull, t.room.budget),
			"raise memory.budget, or give records a TTL")
	}
	return nil
}

// beginPolicy starts the policy and tells it of everything that is there.
func (t *Tier) beginPolicy() error {
	p, err := newPolicy(t.room.budget)
	if err != nil {
		return err
	}
	t.keeper.touching.Lock()
	t.keeper.policy = p
	t.keeper.touching.Unlock()
	t.keeper.on.Store(true)
	for i := range t.shards {
		t.renew(&t.shards[i])
	}
	return nil
}

// renew queues all entries of a shard.
func (t *Tier) renew(sh *shard) {
	sh.Lock()
	defer sh.Unlock()
	for _, e := range sh.entries {
		for ; e != nil; e = e.next {
			t.change(sh, e)
		}
	}
}

func (t *Tier) endPolicy() {
	k := &t.keeper
	k.touching.Lock()
	p := k.policy
	k.policy = nil
	k.touching.Unlock()
	if p != nil {
		p.close()
	}
}

// pending answers the next changes for the policy.
func (t *Tier) pending() (changes []*entry, more bool) {
	o := &t.order
	o.mu.Lock()
	defer o.mu.Unlock()
	t.arrange()
	if len(o.pending) <= chunk {
		changes, o.pending = o.pending, nil
		return changes, false
	}
	changes, o.pending = o.pending[:chunk:chunk], o.pending[chunk:]
	return changes, true
}

// feed makes the policy's view of an entry that of the map.
func (t *Tier) feed(e *entry) {
	p := t.keeper.policy
	e.sh.RLock()
	cost := e.resident()
	e.sh.RUnlock()
	switch cost {
	case e.fed:
	case 0:
		p.drop(e)
	default:
		p.put(e, cost)
	}
	e.fed, e.round = cost, t.keeper.round
}

// wish asks for a spilled entry to come back.
func (t *Tier) wish(e *entry) {
	k := &t.keeper
	k.wishing.Lock()
	first := len(k.wishes) == 0
	if len(k.wishes) < wishLimit {
		k.wishes = append(k.wishes, e)
	}
	k.wishing.Unlock()
	if first {
		t.rouse()
	}
}

// wished offers the policy the spilled entries that were read again.
func (t *Tier) wished() []*entry {
	k := &t.keeper
	k.wishing.Lock()
	wishes := k.wishes
	k.wishes = nil
	k.wishing.Unlock()
	for _, e := range wishes {
		e.sh.RLock()
		cost := int64(e.at.Len())
		e.sh.RUnlock()
		if cost > 0 && e.fed == 0 && !t.outsized(cost) {
			k.policy.put(e, cost)
			e.fed, e.round = cost, k.round
		}
	}
	return wishes
}

// leave moves to the spill file what the policy let go. With pressed set it
// tries again what could not leave before.
func (t *Tier) leave(leaving []*entry, pressed bool) error {
	k := &t.keeper
	gone := leaving[:0]
	for _, e := range leaving {
		// It may have left and come again within the batch.
		if e.round != k.round || !k.policy.has(e) {
			e.fed = 0
			gone = append(gone, e)
		}
	}
	if len(k.stranded) > 0 && (pressed || t.room.used.Load() <= t.room.ready) {
		for _, e := range k.stranded {
			if !k.policy.has(e) {
				gone = append(gone, e)
			}
		}
		k.stranded = nil
	}
	rest, err := t.evict(gone)
	for errors.Is(err, spill.ErrLimit) && t.compact(true) {
		rest, err = t.evict(rest)
	}
	k.stranded = append(k.stranded, rest...)
	if err != nil {
		t.log.LogAttrs(context.Background(), slog.LevelDebug, "memory can't overflow", slog.String("cause", err.Error()))
	}
	return err
}
