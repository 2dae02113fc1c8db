package memory

import (
	"context"
	"slices"

	"github.com/sagestore/sagestore/tiers"
)

// Prepare readies the part of a transaction that is in memory, see
// tiers.Publisher. Until publish or abort, whoever changes what was read waits,
// and whoever uses what is changed, and some others too, since many keys share a
// lock: so the caller should be quick, and must not use the tier in between.
func (t *Tier) Prepare(ctx context.Context, c tiers.Commit) (publish func() []tiers.Record, abort func(), err error) {
	s := t.newStage("commit", len(c.Saves))
	s.reads, s.ranges = c.Reads, c.Ranges
	now := t.clock.Now()
	for i := range c.Saves {
		if r := &c.Saves[i]; r.Deleted {
			s.writes[i] = write{key: r.Key, remove: true, now: now.UnixMicro()}
		} else {
			s.writes[i] = t.saving(now, r, tiers.Cond{}, clone)
		}
	}
	if err := s.stage(ctx); err != nil {
		return nil, nil, err
	}
	rs := c.Saves
	publish = func() []tiers.Record {
		s.publish()
		return s.committed(rs)
	}
	return publish, s.abort, nil
}

// committed completes the answer to a commit.
func (s *stage) committed(rs []tiers.Record) []tiers.Record {
	out := make([]tiers.Record, len(rs))
	for i := range rs {
		if rs[i].Deleted {
			out[i].Key = rs[i].Key
		} else {
			out[i] = saved(&rs[i], &s.outs[i].stored)
		}
	}
	return out
}

// check tells whether what the transaction has read is as it was. Its shards are
// locked.
func (s *stage) check() error {
	if len(s.reads) == 0 && len(s.ranges) == 0 {
		return nil
	}
	t := s.t
	now := t.clock.Now().UnixMicro()
	for i := range s.reads {
		r := &s.reads[i]
		hash := t.hash(r.Key)
		sh := t.shard(hash)
		if sh.closed {
			return t.fail(s.op, r.Key, tiers.ErrClosed)
		}
		var live tiers.Version
		if e := sh.find(hash, &r.Key); e != nil && e.live(now) {
			live = tiers.Version(e.version)
		}
		if live != r.Version {
			return t.fail(s.op, r.Key, tiers.ErrConflict)
		}
	}
	for i := range s.ranges {
		r := &s.ranges[i]
		if t.shards[0].closed {
			return t.fail(s.op, tiers.Key{}, tiers.ErrClosed)
		}
		if t.digest(r, now) != r.Sum {
			at := tiers.Key{Namespace: r.Query.Namespace, Category: r.Query.Category}
			return t.fail(s.op, at, tiers.ErrConflict)
		}
	}
	return nil
}

// digest sums up what a range holds now. All shards are locked, and the order is
// the caller's.
func (t *Tier) digest(r *tiers.Range, now int64) uint64 {
	var d tiers.Digest
	space := t.order.known(tiers.Space{Namespace: r.Query.Namespace, Category: r.Query.Category})
	if space == nil {
		return d.Sum()
	}
	after := r.Query.After
	for page := []*entry(nil); ; {
		page = space.keys.page(page[:0], &r.Query, after, pageSize)
		for _, e := range page {
			if r.End != "" && (e.name > r.End) != r.Query.Reverse && e.name != r.End {
				return d.Sum()
			}
			if !e.gone && e.live(now) {
				d.Add(e.name, tiers.Version(e.version))
			}
		}
		if len(page) < pageSize {
			return d.Sum()
		}
		after = page[len(page)-1].name
	}
}

// hold is a shard that a stage locks: twice its number, and one more when it is
// only read. So in order of them a lock for writing comes first.
type hold int

func (h hold) shard() int { return int(h >> 1) }

func (h hold) reads() bool { return h&1 != 0 }

// holding finds the shards that the stage locks, in order, each once.
func (s *stage) holding() {
	if len(s.ranges) > 0 {
		for i := range shardCount {
			s.holds = append(s.holds, hold(i<<1|1))
		}
	} else {
		for i := range s.reads {
			s.holds = append(s.holds, hold(shardOf(s.t.hash(s.reads[i].Key))<<1|1))
		}
	}
	for _, hash := range s.hashes {
		s.holds = append(s.holds, hold(shardOf(hash)<<1))
	}
	if len(s.holds) > 1 {
		slices.Sort(s.holds)
		s.holds = slices.CompactFunc(s.holds, func(a, b hold) bool { return a.shard() == b.shard() })
	}
}

// lock takes the shards. With ranges the order of the keys is brought up to date
// and stays the caller's: it is to be let go once they were checked.
func (s *stage) lock() {
	t := s.t
	if len(s.ranges) > 0 {
		t.order.mu.Lock()
		t.arrange()
	}
	for _, h := range s.holds {
		if sh := &t.shards[h.shard()]; h.reads() {
			sh.RLock()
		} else {
			sh.Lock()
		}
	}
	if len(s.ranges) > 0 {
		t.arrangeHeld()
	}
	s.locked = true
}

func (s *stage) unlock() {
	for _, h := range s.holds {
		if sh := &s.t.shards[h.shard()]; h.reads() {
			sh.RUnlock()
		} else {
			sh.Unlock()
		}
	}
	s.locked = false
}
