package redis

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// saveItem is one record on its way to the script that saves. Saves of many
// callers are merged into one run of it, which costs the server much less than
// a run each; they stay independent of each other.
type saveItem struct {
	key   tiers.Key
	cond  tiers.Cond
	ttl   int64  // in microseconds
	value []byte // the stored value with an empty version and times
}

// noLimit is a time in microseconds that no clock will show.
const noLimit = 1 << 62

func newSaveItem(r *tiers.Record, c tiers.Cond) (saveItem, error) {
	value, err := encodeBody(r)
	return saveItem{key: r.Key, cond: c, ttl: micros(r.TTL), value: value}, err
}

// magic is what values begin with that this tier saves.
func (t *Tier) magic() string {
	if t.indexed {
		return magicIndexed
	}
	return magicPlain
}

// shortestTTL is above what can be over before its record is written.
const shortestTTL = 10_000 // microseconds

func (t *Tier) newSave(items []saveItem, size int) *call {
	c := &call{write: true, script: &t.scripts.save, items: items, size: size}
	if len(items) == 1 && (items[0].ttl == 0 || items[0].ttl >= shortestTTL) {
		c.script = &t.scripts.saveOne
	}
	return c
}

// merge makes one call out of several saves of one record each.
func (t *Tier) merge(parts []*call) *call {
	m := &call{write: true, script: &t.scripts.save, parts: parts}
	m.stamp.time = &t.time
	for _, c := range parts {
		m.stamp.deadline = max(m.stamp.deadline, c.stamp.deadline)
		m.source = m.source || c.source
	}
	return m
}

// Sizes within the argument of luaSave that says what to do.
const (
	saveHeadLen = 8 + 4 + 5 + 2
	saveOneLen  = 8 + 8 + 8 + 2 + 2 + 2 + 1
	saveItemLen = 8 + 8 + 8 + 2
)

// arguments makes those of a save, or of a merged one.
func (t *Tier) arguments(c *call) []any {
	if c.script == &t.scripts.saveOne {
		return t.argumentsOfOne(c)
	}
	parts, n := c.parts, len(c.parts)
	merged := parts != nil
	if !merged {
		parts, n = []*call{c}, len(c.items)
	}
	args := make([]any, 0, 3+2+n+1+n)
	args = append(args, "evalsha", c.script.sha, 2+n, t.names.mark, t.names.spaces)
	b := make([]byte, saveHeadLen, saveHeadLen+n*saveItemLen)
	choosy := false
	for _, p := range parts {
		latest := uint64(noLimit)
		if merged {
			latest = bits(t.time.at(p.stamp.deadline))
		}
		for i := range p.items {
			it := &p.items[i]
			key, bucket := t.names.valueAt(it.key)
			args = append(args, key)
			want, set := wanted(it.cond)
			choosy = choosy || set
			b = binary.BigEndian.AppendUint64(b, want)
			b = binary.BigEndian.AppendUint64(b, bits(it.ttl))
			b = binary.BigEndian.AppendUint64(b, latest)
			b = binary.BigEndian.AppendUint16(b, bucket)
		}
	}
	head := binary.BigEndian.AppendUint32(b[:8], count32(n))
	head = append(head, flag(t.indexed), flag(!t.allowEviction), flag(merged), flag(choosy), flag(repeats(args[5:])))
	_ = binary.BigEndian.AppendUint16(head, t.names.rootLen())
	c.stamp.rest = b
	args = append(args, &c.stamp)
	for _, p := range parts {
		for i := range p.items {
			args = append(args, p.items[i].value)
		}
	}
	return args
}

func (t *Tier) argumentsOfOne(c *call) []any {
	it := &c.items[0]
	key, bucket := t.names.valueAt(it.key)
	want, _ := wanted(it.cond)
	b := make([]byte, 8, saveOneLen)
	b = binary.BigEndian.AppendUint64(b, want)
	b = binary.BigEndian.AppendUint64(b, bits(it.ttl))
	b = binary.BigEndian.AppendUint16(b, bucket)
	b = binary.BigEndian.AppendUint16(b, t.names.rootLen())
	b = append(b, t.magic()...)
	c.stamp.rest = append(b, flag(!t.allowEviction))
	return []any{"evalsha", c.script.sha, 3, t.names.mark, t.names.spaces, key, &c.stamp, it.value}
}

// wanted is how the scripts that save take a condition.
func wanted(c tiers.Cond) (version uint64, set bool) {
	if v, set := c.Version(); set {
		return uint64(min(v, maxVersion+1)), true
	}
	return ^uint64(0), false
}

func flag(yes bool) byte {
	if yes {
		return 1
	}
	return 0
}

// repeats tells whether a key is there twice.
func repeats(keys []any) bool {
	if len(keys) == 1 {
		return false
	}
	seen := make(map[any]struct{}, len(keys))
	for _, k := range keys {
		seen[k] = struct{}{}
	}
	return len(seen) < len(keys)
}

// saved is the reply of luaSave.
type saved struct {
	now        int64         // microseconds
	first      tiers.Version // those of the others follow
	statuses   []byte        // nil when all were saved
	createdAll []byte        // nil when none was saved
}

func parseSaved(text []byte, n int) (saved, error) {
	if len(text) >= 9 {
		s, rest := saved{now: int64At(text[1:])}, text[9:]
		switch {
		case text[0] == 'f' && len(rest) == n:
			s.statuses = rest
			return s, nil
		case text[0] == 'm' && len(rest) == 8+n+8*n:
			s.statuses = rest[8:][:n]
			s.createdAll = rest[8+n:]
		case text[0] == 'k' && len(rest) == 8+8*n:
			s.createdAll = rest[8:]
		}
		if s.createdAll != nil {
			s.first = tiers.Version(binary.BigEndian.Uint64(rest))
			return s, nil
		}
	}
	return saved{}, fmt.Errorf("%w: redis answered %d bytes for %d records", tiers.ErrCorrupt, len(text), n)
}

func (s *saved) status(i int) byte {
	if s.statuses == nil {
		return 'k'
	}
	return s.statuses[i]
}

// created is when a saved record was, in microseconds.
func (s *saved) created(i int) int64 { return int64At(s.createdAll[8*i:]) }

// expiry is what luaSave computes: its numbers are floating point.
func expiry(now, ttl int64) int64 {
	if ttl == 0 {
		return 0
	}
	return int64(float64(now) + float64(ttl))
}

// settleMerged gives each caller its part of the reply to a merged save, and
// answers those that have to be sent again.
func (t *Tier) settleMerged(m *call, err error, began, ended time.Duration) (again []*call) {
	var reply saved
	whole := false
	if err == nil && len(m.text) > 0 && m.text[0] != 'l' {
		if r, bad := parseSaved(m.text, len(m.parts)); bad == nil {
			reply, whole = r, true
		}
	}
	version := uint64(reply.first)
	for i, c := range m.parts {
		c.stamp.written = m.stamp.written
		switch {
		case whole && reply.status(i) == 'k':
			c.text = append(make([]byte, 0, 9+16), 'k')
			c.text = append(c.text, m.text[1:9]...)
			c.text = binary.BigEndian.AppendUint64(c.text, version)
			c.text = append(c.text, reply.createdAll[8*i:][:8]...)
			version++
		case whole && reply.status(i) == 'l':
			c.text = append([]byte{'l'}, m.text[1:9]...)
		case whole:
			c.text = append([]byte{'f'}, m.text[1:9]...)
			c.text = append(c.text, reply.status(i))
		case err == nil:
			c.text = m.text
		case isReply(err) && !isDown(err) && code(err) != "NOSCRIPT":
			// One of them may be at fault, such as one whose index is no index.
			// The script changed nothing; each is tried by itself.
			c.alone = true
			again = append(again, c)
			continue
		}
		if t.settle(c, err, began, ended) {
			again = append(again, c)
		}
	}
	return again
}
