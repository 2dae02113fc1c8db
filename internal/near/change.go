package near

import (
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// Change is a change of one key that is on its way to the home. Until one of its
// methods was called, exactly once, nothing is held of the key.
type Change struct {
	l     *Layer
	key   Key
	hash  uint64
	began time.Time
}

// Change is called before a key is changed.
func (l *Layer) Change(k Key) Change {
	c := Change{l: l, key: k, hash: l.hash(k), began: l.clock.Now()}
	sh := l.shard(c.hash)
	sh.Lock()
	defer sh.Unlock()
	if l.take(sh, k) != nil {
		l.count.drops.Add(1)
	}
	b := sh.busyOf(k)
	b.changes++
	if b.flight != nil {
		b.flight.keeps = false // it may be joined still: the change is not acknowledged
	}
	return c
}

// Saved says that the record, with the version that its home gave it, was
// acknowledged. Its value must not be changed any more.
func (c Change) Saved(r *tiers.Record) {
	c.end(c.l.entry(c.key, c.hash, r, false, c.began), 0)
}

// Removed says that the key was removed.
func (c Change) Removed() { c.end(c.l.entry(c.key, c.hash, nil, true, c.began), 0) }

// Dropped says that the change failed, or that its result is for the next load to
// find out.
func (c Change) Dropped() { c.end(nil, 0) }

// Unknown says that the change may still come. Nothing is held of the key for as
// long as the layer's TTL.
func (c Change) Unknown() { c.end(nil, c.l.ttl) }

func (c Change) end(e *Entry, block time.Duration) {
	l := c.l
	now := l.clock.Now()
	sh := l.shard(c.hash)
	sh.Lock()
	defer sh.Unlock()
	b := sh.busyOf(c.key)
	b.part()
	b.changes--
	if block > 0 {
		b.blocked = now.Add(block)
		sh.unblock(now)
	}
	switch {
	case e == nil || !now.Before(e.until):
		b.spoiled = true
	case b.best == nil:
		b.best = e
	case e.absent || b.best.absent: // which was first, nobody knows
		b.spoiled = true
	case e.record.Version > b.best.record.Version:
		b.best = e
	}
	if b.changes > 0 {
		return
	}
	if !b.spoiled && !now.Before(b.blocked) {
		l.put(sh, b.best)
	}
	b.best, b.spoiled = nil, false
	sh.rest(c.key, b, now)
}

// unblock forgets keys whose unknown changes are too old to come.
func (sh *shard) unblock(now time.Time) {
	for k, b := range sh.busy {
		if !b.blocked.IsZero() {
			sh.rest(k, b, now)
		}
	}
}

// Drop takes out what is held of a key that was changed elsewhere, unless that is
// what the change made: of the version, which is 0 for all but a save.
func (l *Layer) Drop(k Key, version tiers.Version) {
	h := l.hash(k)
	sh := l.shard(h)
	sh.Lock()
	defer sh.Unlock()
	if e := sh.entries[k]; e != nil && (version == 0 || e.absent || e.record.Version != version) {
		l.take(sh, k)
		l.count.drops.Add(1)
	}
	sh.disturb(k)
}

// disturb lets nothing be held that is on its way now.
func (sh *shard) disturb(k Key) {
	if b := sh.busy[k]; b != nil {
		b.part()
		if b.changes > 0 {
			b.spoiled = true
		} else if b.blocked.IsZero() {
			delete(sh.busy, k)
		}
	}
}

// DropIf takes out what is held of the keys that the function selects. It looks at
// all.
func (l *Layer) DropIf(selects func(Key) bool) {
	for i := range l.shards {
		sh := &l.shards[i]
		sh.Lock()
		for k := range sh.entries {
			if selects(k) {
				l.take(sh, k)
				l.count.drops.Add(1)
			}
		}
		for k := range sh.busy {
			if selects(k) {
				sh.disturb(k)
			}
		}
		sh.Unlock()
	}
}

// Clear takes out everything: whatever is answered from then on was asked for
// later.
func (l *Layer) Clear() {
	l.count.clears.Add(1)
	for i := range l.shards {
		sh := &l.shards[i]
		sh.Lock()
		for _, e := range sh.entries {
			l.keep.gone(e)
		}
		clear(sh.entries)
		for k := range sh.busy {
			sh.disturb(k)
		}
		sh.Unlock()
	}
}
