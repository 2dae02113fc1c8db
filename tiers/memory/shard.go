package memory

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/memory/internal/spill"
)

const (
	shardCount = 256
	// backlog is how many changes a shard collects before the keeper is asked to
	// bring them into order.
	backlog = 512
)

// shard is one part of the exact map.
type shard struct {
	sync.RWMutex
	entries map[uint64]*entry // by hash; entries of equal hash are chained
	changed []*entry          // not yet seen by order and policy
	count   int64
	bytes   int64 // of keys and values, wherever they are
	soonest int64 // no record expires before; 0: none expires
	closed  bool

	hits, misses atomic.Int64
	_            [32]byte // keeps the neighbour's lock out of this cache line
}

// entry is a key that is stored. It lives until the key is removed; what is
// stored changes in place. What a load needs comes first, in two cache lines.
type entry struct {
	name  string
	space *space
	next  *entry

	// Guarded by the shard.
	stored
	gen    uint32 // grows with each change of what is stored
	queued bool   // in changed
	gone   bool

	indexed bool        // owned by order
	warm    atomic.Bool // was loaded from the spill file since it went there
	round   uint32      // of the keeper that told the policy of it last
	fed     int64       // owned by the keeper: cost in the policy, 0 when it is not there

	hash uint64
	id   uint64 // in the policy: unique, unlike a hash
	sh   *shard
}

// stored is what is kept of a record. Values are never changed in place, so a
// slice read under the lock may be copied after it.
type stored struct {
	value   []byte // nil when it is in the spill file
	expires int64  // microseconds since 1970; 0: never
	codec   string
	version uint64
	created int64
	updated int64
	schema  uint32
	flags   tiers.Flags
	at      spill.Extent[*entry]
}

// read copies what is stored; it leaves at alone when it means nothing, since
// that is one cache line less for a load.
func (s *stored) read(out *stored) {
	out.value, out.expires, out.codec, out.version = s.value, s.expires, s.codec, s.version
	out.created, out.updated, out.schema, out.flags = s.created, s.updated, s.schema, s.flags
	if s.value == nil {
		out.at = s.at
	}
}

// live tells whether the record is there at now, in microseconds.
func (s *stored) live(now int64) bool { return s.expires == 0 || now < s.expires }

func (s *stored) size() int64 { return int64(len(s.value)) + int64(s.at.Len()) }

// resident is how many bytes of the value are in memory.
func (s *stored) resident() int64 { return int64(len(s.value)) }

// record answers the record without its value.
func (s *stored) record(k tiers.Key) tiers.Record {
	return tiers.Record{
		Key: k, Codec: s.codec, Schema: s.schema, Flags: s.flags, Version: tiers.Version(s.version),
		Created: tiers.FromMicro(s.created), Updated: tiers.FromMicro(s.updated), Expires: tiers.FromMicro(s.expires),
	}
}

func (e *entry) key() tiers.Key {
	return tiers.Key{Namespace: e.space.Namespace, Category: e.space.Category, Name: e.name}
}

func (t *Tier) hash(k tiers.Key) uint64 {
	h := maphash.String(t.seed, k.Name)
	h = bits.RotateLeft64(h, 21)*0x9e3779b97f4a7c15 ^ maphash.String(t.seed, k.Category)
	if k.Namespace != "" {
		h = bits.RotateLeft64(h, 21)*0x9e3779b97f4a7c15 ^ maphash.String(t.seed, k.Namespace)
	}
	return h
}

func (t *Tier) shard(hash uint64) *shard { return &t.shards[shardOf(hash)] }

func shardOf(hash uint64) int { return int(hash >> 56 % shardCount) }

// find answers the entry of a key, or nil. The shard is locked.
func (sh *shard) find(hash uint64, k *tiers.Key) *entry {
	e := sh.entries[hash]
	for e != nil && (e.name != k.Name || e.space.Category != k.Category || e.space.Namespace != k.Namespace) {
		e = e.next
	}
	return e
}

// insert makes an entry. The shard is locked for writing.
func (t *Tier) insert(sh *shard, hash uint64, k tiers.Key) *entry {
	e := &entry{
		space: t.order.space(k.Space()), name: string([]byte(k.Name)), hash: hash,
		id: scramble(t.ids.Add(1)), next: sh.entries[hash], sh: sh,
	}
	sh.entries[hash] = e
	sh.count++
	sh.bytes += int64(len(e.name))
	t.change(sh, e)
	return e
}

// remove takes an entry out; the caller releases what it stored. The shard is
// locked for writing.
func (t *Tier) remove(sh *shard, e *entry) {
	if first := sh.entries[e.hash]; first != e {
		for first.next != e {
			first = first.next
		}
		first.next = e.next
	} else if e.next != nil {
		sh.entries[e.hash] = e.next
	} else {
		delete(sh.entries, e.hash)
	}
	e.gone = true
	e.gen++
	sh.count--
	sh.bytes -= int64(len(e.name)) + e.size()
	e.stored = stored{}
	t.change(sh, e)
}

// replace puts s in the place of what the entry stores and answers that. The
// shard is locked for writing.
func (t *Tier) replace(sh *shard, e *entry, s stored) (old stored) {
	old = e.stored
	e.stored = s
	e.gen++
	sh.bytes += s.size() - old.size()
	sh.expects(s.expires)
	if old.resident() != s.resident() && t.keeper.on.Load() {
		t.change(sh, e)
	}
	return old
}

// expects notes that a record expires.
func (sh *shard) expects(at int64) {
	if at != 0 && (sh.soonest == 0 || at < sh.soonest) {
		sh.soonest = at
	}
}

// change queues an entry for the order and the policy.
func (t *Tier) change(sh *shard, e *entry) {
	if e.queued {
		return
	}
	e.queued = true
	sh.changed = append(sh.changed, e)
	switch len(sh.changed) {
	case 1:
		i := shardOf(e.hash)
		t.marked[i/64].Or(1 << (i % 64))
	case backlog:
		t.rouse()
	}
}

func (sh *shard) close() {
	sh.Lock()
	defer sh.Unlock()
	sh.closed = true
	sh.entries, sh.changed = nil, nil
	sh.count, sh.bytes = 0, 0
}
