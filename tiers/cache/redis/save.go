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

func (t *Tier) newSave(items []saveItem, size int) *call {
	return &call{write: true, script: &t.scripts.save, items: items, size: size}
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
	saveHeadLen = 8 + 4 + 5 + 3
	saveItemLen = 8 + 8 + 8 + 2
)

// arguments makes those of a save, or of a merged one.
func (t *Tier) arguments(c *call) []any {
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
			want := ^uint64(0)
			if v, set := it.cond.Version(); set {
				choosy, want = true, uint64(min(v, maxVersion+1))
			}
			b = binary.BigEndian.AppendUint64(b, want)
			b = binary.BigEndian.AppendUint64(b, bits(it.ttl))
			b = binary.BigEndian.AppendUint64(b, latest)
			b = binary.BigEndian.AppendUint16(b, bucket)
		}
	}
	head := binary.BigEndian.AppendUint32(b[:8], count32(n))
	for _, yes := range []bool{t.indexed, !t.allowEviction, merged, choosy, repeats(args[5:])} {
		flag := byte(0)
		if yes {
			flag = 1
		}
		head = append(head, flag)
	}
	root := len(t.names.root)
	_ = append(head, byte(root>>16), byte(root>>8), byte(root)) //nolint:gosec // the three bytes
	c.stamp.rest = b
	args = append(args, &c.stamp)
	for _, p := range parts {
		for i := range p.items {
			args = append(args, p.items[i].value)
		}
	}
	return args
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
	now        int64 // microseconds
	first      tiers.Version
	statuses   []byte // nil when all were saved
	createdAll []byte // nil when none was saved
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
