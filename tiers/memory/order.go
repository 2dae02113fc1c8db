package memory

import (
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sagestore/sagestore/tiers"
)

// order keeps the keys of each space sorted. A save only queues its new key in
// its shard; the queues are brought in by whoever lists next, or by the keeper
// when they get long.
type order struct {
	mu      sync.Mutex // guards the sequences, pending and scratch; taken before a shard's lock
	pending []*entry   // for the policy, when it is on
	scratch []arrival

	naming sync.RWMutex
	spaces map[tiers.Space]*space
}

// space is a namespace and a category with the entries in it.
type space struct {
	tiers.Space
	refs atomic.Int64 // entries that are not yet known to be gone
	keys sequence
}

type arrival struct {
	e    *entry
	gone bool
}

// space answers the space for a new entry.
func (o *order) space(name tiers.Space) *space {
	o.naming.RLock()
	s := o.spaces[name]
	if s != nil {
		s.refs.Add(1)
	}
	o.naming.RUnlock()
	if s != nil {
		return s
	}
	o.naming.Lock()
	defer o.naming.Unlock()
	if s = o.spaces[name]; s == nil {
		name = tiers.Space{Namespace: strings.Clone(name.Namespace), Category: strings.Clone(name.Category)}
		s = &space{Space: name}
		o.spaces[name] = s
	}
	s.refs.Add(1)
	return s
}

// known answers the space, nil when nothing is stored in it.
func (o *order) known(name tiers.Space) *space {
	o.naming.RLock()
	defer o.naming.RUnlock()
	return o.spaces[name]
}

// forget lets go of a space that has become empty.
func (o *order) forget(s *space) {
	o.naming.Lock()
	defer o.naming.Unlock()
	if s.refs.Load() == 0 {
		delete(o.spaces, s.Space)
	}
}

// arrange brings in what has changed since it was called last. The caller holds
// order.mu.
func (t *Tier) arrange() {
	t.eachMarked(func(sh *shard) {
		sh.Lock()
		t.order.drain(sh)
		sh.Unlock()
		t.bringIn()
	})
}

// arrangeHeld does the same for a caller that has locked all shards. For reading
// is enough: nobody else looks at what they collect without a lock for writing or
// order.mu.
func (t *Tier) arrangeHeld() {
	t.eachMarked(func(sh *shard) {
		t.order.drain(sh)
		t.bringIn()
	})
}

// eachMarked calls fn with the shards that have collected changes.
func (t *Tier) eachMarked(fn func(sh *shard)) {
	for w := range t.marked {
		if t.marked[w].Load() == 0 {
			continue
		}
		for set := t.marked[w].Swap(0); set != 0; set &= set - 1 {
			fn(&t.shards[w*64+bits.TrailingZeros64(set)])
		}
	}
	if o := &t.order; cap(o.scratch) > 16*backlog {
		o.scratch = nil
	}
}

// drain takes what a shard has collected.
func (o *order) drain(sh *shard) {
	o.scratch = o.scratch[:0]
	for _, e := range sh.changed {
		e.queued = false
		o.scratch = append(o.scratch, arrival{e, e.gone})
	}
	if cap(sh.changed) > 4*backlog {
		sh.changed = nil
	}
	clear(sh.changed)
	sh.changed = sh.changed[:0]
}

// bringIn puts what was drained in its place.
func (t *Tier) bringIn() {
	o := &t.order
	on := t.keeper.on.Load()
	for _, a := range o.scratch {
		e := a.e
		switch {
		case a.gone:
			if e.indexed {
				e.space.keys.remove(e)
				e.indexed = false
			}
			if e.space.refs.Add(-1) == 0 {
				o.forget(e.space)
			}
		case !e.indexed:
			e.space.keys.insert(e)
			e.indexed = true
		}
		if on {
			o.pending = append(o.pending, e)
		}
	}
	clear(o.scratch)
}

// blockSize is how many entries a block of a sequence holds at most.
const blockSize = 512

// sequence is a sorted list of entries in blocks, none of which is empty.
type sequence struct {
	blocks [][]*entry
	n      int
}

// seek answers the position of the first entry whose name is not below name.
func (s *sequence) seek(name string) (block, i int) {
	block, _ = slices.BinarySearchFunc(s.blocks, name, func(b []*entry, name string) int {
		return strings.Compare(b[len(b)-1].name, name)
	})
	if block == len(s.blocks) {
		return block, 0
	}
	i, _ = slices.BinarySearchFunc(s.blocks[block], name, func(e *entry, name string) int {
		return strings.Compare(e.name, name)
	})
	return block, i
}

func (s *sequence) insert(e *entry) {
	s.n++
	if len(s.blocks) == 0 {
		s.blocks = append(s.blocks, []*entry{e})
		return
	}
	b, i := s.seek(e.name)
	if b == len(s.blocks) {
		b--
		i = len(s.blocks[b])
	}
	if len(s.blocks[b]) < blockSize {
		s.blocks[b] = slices.Insert(s.blocks[b], i, e)
		return
	}
	// Keys often arrive in order: a full last block is followed by a new one
	// rather than cut in half.
	cut := blockSize / 2
	if b == len(s.blocks)-1 && i == blockSize {
		cut = blockSize
	}
	low, high := s.blocks[b][:cut:cut], slices.Clone(s.blocks[b][cut:])
	if i > cut || cut == blockSize {
		high = slices.Insert(high, i-cut, e)
	} else {
		low = slices.Insert(low, i, e)
		clear(s.blocks[b][cut:])
	}
	s.blocks[b] = low
	s.blocks = slices.Insert(s.blocks, b+1, high)
}

func (s *sequence) remove(e *entry) {
	b, i := s.seek(e.name)
	for b < len(s.blocks) && s.blocks[b][i] != e {
		if i++; i == len(s.blocks[b]) {
			b, i = b+1, 0
		}
	}
	if b == len(s.blocks) {
		return
	}
	s.n--
	if s.blocks[b] = slices.Delete(s.blocks[b], i, i+1); len(s.blocks[b]) == 0 {
		s.blocks = slices.Delete(s.blocks, b, b+1)
	}
}

// page appends up to limit entries after the key after, or before it in
// reverse, that have the prefix.
func (s *sequence) page(out []*entry, q *tiers.Query, after string, limit int) []*entry {
	if q.Reverse {
		return s.pageDown(out, q.Prefix, after, limit)
	}
	b, i := s.seek(max(q.Prefix, after))
	for ; b < len(s.blocks); b, i = b+1, 0 {
		for _, e := range s.blocks[b][i:] {
			if !strings.HasPrefix(e.name, q.Prefix) || len(out) == limit {
				return out
			}
			if e.name != after {
				out = append(out, e)
			}
		}
	}
	return out
}

func (s *sequence) pageDown(out []*entry, prefix, before string, limit int) []*entry {
	b, i := len(s.blocks), 0
	switch end := beyond(prefix); {
	case before != "" && (end == "" || before < end):
		b, i = s.seek(before)
	case end != "":
		b, i = s.seek(end)
	}
	for {
		if i--; i < 0 {
			if b--; b < 0 {
				return out
			}
			i = len(s.blocks[b]) - 1
		}
		e := s.blocks[b][i]
		if len(out) == limit || e.name < prefix {
			return out
		}
		if strings.HasPrefix(e.name, prefix) {
			out = append(out, e)
		}
	}
}

// beyond answers the first string above all that have the prefix, "" when there
// is none.
func beyond(prefix string) string {
	for n := len(prefix); n > 0; n-- {
		if c := prefix[n-1]; c != 0xff {
			return prefix[:n-1] + string([]byte{c + 1})
		}
	}
	return ""
}
