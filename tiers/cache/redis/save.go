package redis

import (
	"encoding/binary"
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

// savedLen is the part of each record in the reply: status, version, created,
// expires.
const savedLen = 1 + 3*8

// noLimit is a time in microseconds that no clock will show.
const noLimit = 1 << 62

func newSaveItem(r tiers.Record, c tiers.Cond) (saveItem, error) {
	r.Version, r.Created, r.Updated, r.Expires = 0, time.Time{}, time.Time{}, time.Time{}
	value, err := encode(&r)
	return saveItem{key: r.Key, cond: c, ttl: micros(r.TTL), value: value}, err
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

// arguments makes those of a save, or of a merged one.
func (t *Tier) arguments(c *call) []any {
	parts, apart := c.parts, byte(1)
	if parts == nil {
		parts, apart = []*call{c}, 0
	}
	n := 0
	var l layout
	numbers := make([]uint32, 0, len(parts))
	for _, p := range parts {
		for i := range p.items {
			numbers = append(numbers, l.add(p.items[i].key.Space()))
			n++
		}
	}
	m := len(l.spaces)
	args := make([]any, 0, 3+2+m+n+2+m+2*n)
	args = append(args, "evalsha", c.script.sha, 2+m+n, t.names.mark, t.names.spaces)
	for _, s := range l.spaces {
		args = append(args, t.names.bucket(s))
	}
	for _, p := range parts {
		for i := range p.items {
			args = append(args, t.names.value(p.items[i].key))
		}
	}
	indexed := byte(0)
	if t.indexed {
		indexed = 1
	}
	const metaLen = 4 + 9 + 8 + 4 + 8
	b := make([]byte, 0, 10+n*metaLen)
	b = binary.BigEndian.AppendUint32(b, count32(m))
	b = binary.BigEndian.AppendUint32(b, count32(n))
	b = append(b, indexed, apart)
	args = append(args, &c.stamp, b)
	for _, s := range l.spaces {
		args = append(args, member(s))
	}
	at := 0
	for _, p := range parts {
		latest := uint64(noLimit)
		if apart == 1 {
			latest = bits(t.time.at(p.stamp.deadline))
		}
		for i := range p.items {
			it := &p.items[i]
			begin := len(b)
			b = binary.BigEndian.AppendUint32(b, numbers[at])
			b = appendCond(b, it.cond)
			b = binary.BigEndian.AppendUint64(b, bits(it.ttl))
			b = append(b, it.value[atSum:atCheck]...)
			b = binary.BigEndian.AppendUint64(b, latest)
			args = append(args, b[begin:], it.value)
			at++
		}
	}
	return args
}

// settleMerged gives each caller its part of the reply to a merged save, and
// answers those that have to be sent again.
func (t *Tier) settleMerged(m *call, err error, began, ended time.Duration) (again []*call) {
	reply := m.text
	whole := err == nil && len(reply) == 9+savedLen*len(m.parts)
	for i, c := range m.parts {
		c.stamp.written = m.stamp.written
		switch {
		case whole:
			part := reply[9+savedLen*i:][:savedLen]
			c.text = append(make([]byte, 0, 9+savedLen), reply[:9]...)
			if part[0] == 'l' {
				c.text[0] = 'l'
			} else {
				c.text = append(c.text, part...)
			}
		case err == nil:
			c.text = reply
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
