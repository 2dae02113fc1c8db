package memory

import (
	"github.com/sagestore/sagestore/tiers/memory/internal/spill"
)

// batchBytes is about how much is written to the spill file at once.
const batchBytes = 1 << 20

// mover collects values on their way into the spill file.
type mover struct {
	entries []*entry
	gens    []uint32
	values  [][]byte
	bytes   int
}

func (m *mover) add(e *entry, gen uint32, value []byte) {
	m.entries = append(m.entries, e)
	m.gens = append(m.gens, gen)
	m.values = append(m.values, value)
	m.bytes += len(value)
}

func (m *mover) reset() {
	clear(m.values)
	m.entries, m.gens, m.values, m.bytes = m.entries[:0], m.gens[:0], m.values[:0], 0
}

// evict moves values to the spill file and answers the entries that stay because
// it could not be written.
func (t *Tier) evict(es []*entry) (rest []*entry, err error) {
	var m mover
	now := t.clock.Now().UnixMicro()
	for i, e := range es {
		e.sh.RLock()
		s, gen, gone := e.stored, e.gen, e.gone
		e.sh.RUnlock()
		switch {
		case gone || s.resident() == 0:
		case !s.live(now):
			t.expire(e, now)
		default:
			m.add(e, gen, s.value)
		}
		if m.bytes < batchBytes && i < len(es)-1 || len(m.entries) == 0 {
			continue
		}
		at, err := t.spill.Append(m.values, m.entries)
		t.counts.evicted.Add(int64(t.settle(&m, at)))
		if err != nil {
			return append(append(rest, m.entries[len(at):]...), es[i+1:]...), err
		}
		m.reset()
	}
	return nil, nil
}

// settle makes the entries point to where their values went, unless they have
// changed since, and answers how many did.
func (t *Tier) settle(m *mover, at []spill.Extent[*entry]) (moved int) {
	for i, x := range at {
		e, left := m.entries[i], int64(0)
		e.sh.Lock()
		old := e.at
		ok := !e.gone && e.gen == m.gens[i] && !e.sh.closed
		if ok {
			left = e.resident()
			e.at, e.value = x, nil
			e.warm.Store(false)
		} else if e.resident() > 0 {
			t.change(e.sh, e) // the policy has let go an older value of it
		}
		e.sh.Unlock()
		if !ok {
			t.spill.Free(x)
			continue
		}
		moved++
		t.room.give(left)
		if !old.IsZero() {
			t.spill.Free(old)
		}
	}
	return moved
}

// comeBack reads into memory what the policy has let in again.
func (t *Tier) comeBack(wishes []*entry) {
	p := t.keeper.policy
	for _, e := range wishes {
		if e.fed == 0 || !p.has(e) {
			continue
		}
		if !t.reload(e) {
			p.drop(e)
			e.fed = 0
		}
	}
}

// reload reads a spilled value into memory. It answers false when it is still in
// the file afterwards.
func (t *Tier) reload(e *entry) bool {
	e.sh.RLock()
	s, gen := e.stored, e.gen
	t.hold(&s)
	e.sh.RUnlock()
	if s.at.IsZero() {
		return true // a change that the policy hears of later
	}
	value, err := t.copyOut(&s)
	n := int64(len(value))
	if err != nil || !t.room.take(n) {
		return false
	}
	e.sh.Lock()
	ok := !e.gone && e.gen == gen && !e.sh.closed
	if ok {
		e.value, e.at = value, spill.Extent[*entry]{}
	} else {
		t.change(e.sh, e) // for the policy, which has let in what is no more
	}
	e.sh.Unlock()
	if !ok {
		t.room.give(n)
		return true
	}
	t.spill.Free(s.at)
	return true
}

// compact moves what is left in sparse parts of the spill file together, and
// tells whether that made room.
func (t *Tier) compact(pressed bool) (moved bool) {
	if t.spill == nil {
		return false
	}
	for range 8 {
		sparse, ok := t.spill.Sparse(pressed)
		if !ok {
			return moved
		}
		if !t.empty(&sparse) {
			t.spill.Return(sparse)
			return moved
		}
		moved = true
	}
	return moved
}

// empty moves the values of a sparse segment elsewhere.
func (t *Tier) empty(sparse *spill.Sparse[*entry]) bool {
	var m mover
	for _, e := range sparse.Owners {
		e.sh.RLock()
		s, gen := e.stored, e.gen
		if s.at.IsZero() || !sparse.Holds(s.at) {
			e.sh.RUnlock()
			continue
		}
		t.hold(&s)
		e.sh.RUnlock()
		value, err := t.copyOut(&s)
		if err != nil {
			return false // its reader is told
		}
		m.add(e, gen, value)
	}
	if len(m.entries) == 0 {
		return true
	}
	at, err := t.spill.Move(m.values, m.entries)
	t.settle(&m, at)
	return err == nil
}
