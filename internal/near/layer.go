package near

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// Config is what [New] takes.
type Config struct {
	TTL     time.Duration // how long an entry serves without the home being asked; positive
	Budget  int64         // bytes
	Evictor tiers.Evictor // decides what leaves; closed by Close
	Clock   tiers.Clock

	// Home answers the time of the clock that the expiry of records follows, and false
	// when nobody knows it: then records that expire are not held. nil: Clock.
	Home func() (time.Time, bool)
}

// Layer is the near layer of a category. It is safe for concurrent use.
type Layer struct {
	ttl    time.Duration
	budget int64
	clock  tiers.Clock
	home   func() (time.Time, bool)
	seed   maphash.Seed
	shards [shardCount]shard
	keep   keeper
	count  counters
}

const shardCount = 64

type shard struct {
	sync.RWMutex
	entries map[Key]*Entry
	busy    map[Key]*busy
	_       [24]byte // keeps the neighbour's lock out of this cache line
}

// busy is a key with loads or changes on their way, or with a change of which nobody
// knows whether it is still on its way.
type busy struct {
	flight  *Flight // that others may join; nil: none
	changes int     // on their way
	spoiled bool    // what they come to is not known in full
	best    *Entry  // of the highest version that one of them has made
	blocked time.Time
}

// counters count since the layer was made.
type counters struct {
	hits, misses, absent, loads, drops, clears, refused atomic.Int64
}

// Stats are the counters of a layer. Entries and Bytes are what it holds now.
type Stats struct {
	Entries  int64 `json:"entries"`
	Bytes    int64 `json:"bytes"`
	Hits     int64 `json:"hits"`     // that there is such a key among them, and that there is none
	Negative int64 `json:"negative"` // hits that there is no such key
	Misses   int64 `json:"misses"`   // that the home was asked for, by this caller or one whom it joined
	Loads    int64 `json:"loads"`    // by which the home was asked
	Drops    int64 `json:"drops"`    // entries that a change took out, in this process or another
	Clears   int64 `json:"clears"`   // how often all was dropped
	Evicted  int64 `json:"evicted"`  // entries that left, or were not let in, for want of room
}

// New makes a layer. The caller closes it.
func New(c Config) *Layer {
	l := &Layer{ttl: c.TTL, budget: c.Budget, clock: c.Clock, home: c.Home, seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].entries, l.shards[i].busy = make(map[Key]*Entry), make(map[Key]*busy)
	}
	l.keep.start(l, c.Evictor)
	return l
}

// Close ends the goroutines of the layer. Nobody may use it any more.
func (l *Layer) Close() { l.keep.stop() }

// Stats answers what was counted.
func (l *Layer) Stats() Stats {
	c := &l.count
	s := Stats{
		Hits: c.hits.Load(), Negative: c.absent.Load(), Misses: c.misses.Load(), Loads: c.loads.Load(),
		Drops: c.drops.Load(), Clears: c.clears.Load(), Evicted: l.keep.evicted.Load() + c.refused.Load(),
	}
	for i := range l.shards {
		sh := &l.shards[i]
		sh.RLock()
		s.Entries += int64(len(sh.entries))
		for _, e := range sh.entries {
			s.Bytes += e.cost
		}
		sh.RUnlock()
	}
	return s
}

func (l *Layer) hash(k Key) uint64 {
	h := maphash.String(l.seed, k.Name)
	if k.Namespace != "" {
		h = bits.RotateLeft64(h, 21)*0x9e3779b97f4a7c15 ^ maphash.String(l.seed, k.Namespace)
	}
	return max(h, 1) // no entry has the number 0
}

func (l *Layer) shard(hash uint64) *shard { return &l.shards[hash>>58] }

// Get answers what is held of a key, or nil.
func (l *Layer) Get(k Key) *Entry {
	h := l.hash(k)
	sh := l.shard(h)
	sh.RLock()
	e := sh.entries[k]
	sh.RUnlock()
	if e == nil || !l.clock.Now().Before(e.until) {
		return nil
	}
	l.hit(e)
	return e
}

// touchEach is how many hits one touch stands for, of whatever keys: it would cost as
// much as the rest.
const touchEach = 8

func (l *Layer) hit(e *Entry) {
	if l.count.hits.Add(1)%touchEach == 0 {
		l.keep.evictor.Touch(e.id)
	}
	if e.absent {
		l.count.absent.Add(1)
	}
}

// put makes the entry that is served, unless there is no room. The shard is locked,
// and holds nothing of the key.
func (l *Layer) put(sh *shard, e *Entry) (held bool) {
	if e.cost > l.budget/4 || !l.keep.come(e) {
		l.count.refused.Add(1)
		return false
	}
	sh.entries[e.key] = e
	return true
}

// take takes out what is held of a key. The shard is locked.
func (l *Layer) take(sh *shard, k Key) (was *Entry) {
	if was = sh.entries[k]; was != nil {
		delete(sh.entries, k)
		l.keep.gone(was)
	}
	return was
}

// entry makes what can be held of the answer of a home that was asked at began; nil
// when it can't be.
func (l *Layer) entry(k Key, hash uint64, r *tiers.Record, absent bool, began time.Time) *Entry {
	e := &Entry{key: k, id: hash, absent: absent, until: began.Add(l.ttl)}
	if !absent {
		if !r.Expires.IsZero() {
			left, known := l.left(r.Expires)
			if !known {
				return nil
			}
			if dies := l.clock.Now().Add(left); dies.Before(e.until) {
				e.until = dies
			}
		}
		e.record = *r
		e.record.Index = nil
	}
	e.cost = int64(overhead + len(k.Namespace) + len(k.Name) + 2*len(e.record.Value))
	return e
}

// left answers how long a record lives that expires at an instant of its home.
func (l *Layer) left(expires time.Time) (time.Duration, bool) {
	now, known := l.clock.Now(), true
	if l.home != nil {
		now, known = l.home()
	}
	return expires.Sub(now), known
}
