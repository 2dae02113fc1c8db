package near

import (
	"sync"
	"sync/atomic"

	"github.com/sagestore/sagestore/tiers"
)

// keeper tells the evictor what comes and goes, in a goroutine of its own, and takes
// out what has to leave.
type keeper struct {
	layer   *Layer
	evictor tiers.Evictor
	wake    chan struct{} // holds one
	stopped chan struct{}
	work    sync.WaitGroup
	evicted atomic.Int64

	mu    sync.Mutex
	queue []*Entry // that came or went since the last time, in any order
	bytes int64    // of those
}

// What may wait for the keeper, in entries and as a part of the budget, before
// nothing more is held.
const (
	mostWaiting = 16 << 10
	waitingPart = 8
)

func (k *keeper) start(l *Layer, e tiers.Evictor) {
	k.layer, k.evictor = l, e
	k.wake, k.stopped = make(chan struct{}, 1), make(chan struct{})
	k.work.Go(k.run)
}

func (k *keeper) stop() {
	close(k.stopped)
	k.work.Wait()
	k.evictor.Close()
}

// come tells of an entry that is to be held; false: there is no room. The shard of
// the entry is locked.
func (k *keeper) come(e *Entry) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.queue) >= mostWaiting || k.bytes > k.layer.budget/waitingPart {
		return false
	}
	k.bytes += e.cost
	k.push(e)
	return true
}

// gone tells of an entry that is no longer held. The shard of the entry is locked.
func (k *keeper) gone(e *Entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.push(e)
}

func (k *keeper) push(e *Entry) {
	k.queue = append(k.queue, e)
	if len(k.queue) == 1 {
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
}

func (k *keeper) run() {
	known := make(map[uint64]*Entry) // to the evictor
	for {
		select {
		case <-k.wake:
		case <-k.stopped:
			return
		}
		k.mu.Lock()
		news := k.queue
		k.queue, k.bytes = nil, 0
		k.mu.Unlock()
		k.settle(known, news)
	}
}

// settle brings what the evictor knows in line with what is held. Two keys of one
// number, which hardly happens, can't both be held.
func (k *keeper) settle(known map[uint64]*Entry, news []*Entry) {
	var come []tiers.Held
	var gone []uint64
	now := make(map[uint64]*Entry, len(news)) // what is held of each number; nil: nothing
	for _, e := range news {
		held := k.holds(e)
		if held && now[e.id] != nil && now[e.id] != e {
			k.forget(e)
			held = false
		}
		if held {
			now[e.id] = e
		} else if _, seen := now[e.id]; !seen {
			now[e.id] = nil
		}
	}
	for id, e := range now {
		was := known[id]
		switch {
		case e == was:
		case e != nil && was != nil && was.key != e.key && k.holds(was):
			k.forget(e)
		case e != nil:
			known[id] = e
			come = append(come, tiers.Held{ID: id, Cost: e.cost})
		case !k.holds(was):
			delete(known, id)
			gone = append(gone, id)
		}
	}
	for _, id := range k.evictor.Settle(come, gone) {
		if e := known[id]; e != nil {
			delete(known, id)
			k.forget(e)
			k.evicted.Add(1)
		}
	}
}

// holds tells whether the layer holds the entry.
func (k *keeper) holds(e *Entry) bool {
	sh := k.layer.shard(e.id)
	sh.RLock()
	defer sh.RUnlock()
	return sh.entries[e.key] == e
}

// forget takes the entry out, if it is still held. The evictor knows already.
func (k *keeper) forget(e *Entry) {
	sh := k.layer.shard(e.id)
	sh.Lock()
	defer sh.Unlock()
	if sh.entries[e.key] == e {
		delete(sh.entries, e.key)
	}
}
