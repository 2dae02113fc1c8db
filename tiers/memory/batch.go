package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/sagestore/sagestore/tiers"
)

// Atomic tells that SaveMany and DeleteMany do all or nothing, and that no
// reader of a key sees a part.
func (t *Tier) Atomic() bool { return true }

// LoadMany loads all keys; what is absent has version 0.
func (t *Tier) LoadMany(ctx context.Context, ks []tiers.Key) ([]tiers.Record, error) {
	out := make([]tiers.Record, len(ks))
	var errs failures
	for i := range ks {
		out[i].Key = ks[i]
		s, err := t.look(ctx, &ks[i])
		if err == tiers.ErrNotFound { //nolint:errorlint // look answers the sentinel as it is
			continue
		}
		if err == nil {
			r := s.record(ks[i])
			if r.Value, err = t.copyOut(&s); err == nil {
				out[i] = r
			}
		}
		errs.add(t.fail("load", ks[i], err))
	}
	return out, errs.join()
}

// SaveMany saves all records, or none when any item fails.
func (t *Tier) SaveMany(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
	s, err := t.stageSaves(ctx, rs, cs)
	if err != nil {
		return make([]tiers.Record, len(rs)), err
	}
	s.publish()
	return s.saved(rs), nil
}

// DeleteMany deletes all keys, or none when any item fails.
func (t *Tier) DeleteMany(ctx context.Context, ks []tiers.Key, cs []tiers.Cond) ([]bool, error) {
	out := make([]bool, len(ks))
	if err := aligned("delete", t.name, len(ks), cs); err != nil {
		return out, err
	}
	s := t.newStage("delete", len(ks))
	now := t.clock.Now().UnixMicro()
	for i, k := range ks {
		s.writes[i] = write{key: k, remove: true, cond: condition(cs, i), now: now}
	}
	if err := s.stage(ctx); err != nil {
		return out, err
	}
	s.publish()
	for i := range out {
		out[i] = s.outs[i].existed
	}
	return out, nil
}

func (t *Tier) stageSaves(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) (*stage, error) {
	if err := aligned("save", t.name, len(rs), cs); err != nil {
		return nil, err
	}
	s := t.newStage("save", len(rs))
	now := t.clock.Now()
	for i := range rs {
		s.writes[i] = t.saving(now, &rs[i], condition(cs, i), clone)
	}
	return s, s.stage(ctx)
}

func condition(cs []tiers.Cond, i int) tiers.Cond {
	if cs == nil {
		return tiers.Cond{}
	}
	return cs[i]
}

func aligned(op, tier string, n int, cs []tiers.Cond) error {
	if cs == nil || len(cs) == n {
		return nil
	}
	return tiers.Fail(op, tier, tiers.Key{}, fmt.Errorf("%d conditions for %d items", len(cs), n))
}

// stage is a batch on its way: carried out, but under the locks of its shards.
type stage struct {
	t      *Tier
	op     string
	writes []write
	outs   []outcome
	hashes []uint64
	reads  []tiers.Read
	ranges []tiers.Range
	holds  []hold // in order, each shard once

	locked bool
	credit int64 // taken from the room
	delta  int64
	names  int64
	undo   []undo

	one struct { // room for all of that for one write
		writes [1]write
		outs   [1]outcome
		hashes [1]uint64
		undo   [1]undo
		holds  [2]hold
	}
}

// undo is what a write of a stage has changed.
type undo struct {
	e       *entry
	old     stored
	created bool
}

func (t *Tier) newStage(op string, n int) *stage {
	s := &stage{t: t, op: op}
	if n <= 1 {
		// Most transactions change one key here: let that cost one allocation.
		s.writes, s.outs, s.hashes, s.undo = s.one.writes[:n], s.one.outs[:n], s.one.hashes[:n], s.one.undo[:0]
		s.holds = s.one.holds[:0]
		return s
	}
	s.writes, s.outs, s.hashes, s.undo = make([]write, n), make([]outcome, n), make([]uint64, n), make([]undo, 0, n)
	s.holds = make([]hold, 0, n)
	return s
}

// stage carries out the writes and keeps the locks, or answers why not, with
// everything as it was.
func (s *stage) stage(ctx context.Context) error {
	t := s.t
	if err := t.begin(ctx); err != nil {
		return t.fail(s.op, tiers.Key{}, err)
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	for {
		s.lock()
		err := s.check()
		if len(s.ranges) > 0 {
			t.order.mu.Unlock()
		}
		if err == nil {
			err = s.carryOut()
		}
		if err != nil {
			s.abort()
			return err
		}
		need := s.delta - s.credit
		if t.room.take(need) {
			s.credit += max(need, 0)
			return nil
		}
		all := s.delta
		s.rollback()
		s.unlock()
		// What it needs grows when a value that it replaces leaves meanwhile. Who waits
		// holds nothing, since others may wait for that.
		t.room.give(s.credit)
		s.credit = 0
		if err := t.reserve(ctx, all); err != nil {
			s.abort()
			return t.fail(s.op, tiers.Key{}, err)
		}
		s.credit = all
	}
}

// prepare checks sizes and finds the shards.
func (s *stage) prepare(ctx context.Context) error {
	t := s.t
	var errs failures
	var total int64
	for i := range s.writes {
		w := &s.writes[i]
		s.hashes[i] = t.hash(w.key)
		if !w.remove {
			total += int64(len(w.key.Name) + len(w.value))
			errs.add(t.fail(s.op, w.key, t.fits(&w.key, w.value)))
		}
	}
	if err := errs.join(); err != nil {
		return err
	}
	s.holding()
	if t.outsized(total) {
		return s.spillAll(ctx)
	}
	return nil
}

// spillAll writes the values to the spill file: the batch is too large for the
// room that the keeper promises.
func (s *stage) spillAll(ctx context.Context) error {
	var which []int
	var values [][]byte
	for i := range s.writes {
		if w := &s.writes[i]; !w.remove && len(w.value) > 0 {
			which = append(which, i)
			values = append(values, w.value)
		}
	}
	at, err := s.t.place(ctx, values)
	if err != nil {
		return s.t.fail(s.op, tiers.Key{}, err)
	}
	for j, i := range which {
		s.writes[i].value, s.writes[i].at = nil, at[j]
	}
	return nil
}

// carryOut does all writes, in order, unless one can't be done.
func (s *stage) carryOut() error {
	t := s.t
	var errs failures
	for i := range s.writes {
		w, out, hash := &s.writes[i], &s.outs[i], s.hashes[i]
		sh := t.shard(hash)
		e, err := t.judge(sh, hash, w, out)
		if err != nil {
			errs.add(t.fail(s.op, w.key, err))
			continue
		}
		delta, names := cost(e, w)
		s.delta += delta
		s.names += names
		old := t.carryOut(sh, hash, e, w, out)
		if e != nil {
			s.undo = append(s.undo, undo{e: e, old: old})
		} else if !w.remove {
			s.undo = append(s.undo, undo{e: sh.find(hash, &w.key), created: true})
		}
	}
	return errs.join()
}

// rollback undoes what carryOut did.
func (s *stage) rollback() {
	for _, u := range slices.Backward(s.undo) {
		sh := u.e.sh
		switch {
		case u.created:
			s.t.remove(sh, u.e)
		case u.e.gone:
			s.t.revive(sh, u.e, u.old)
		default:
			s.t.replace(sh, u.e, u.old)
		}
	}
	s.undo, s.delta, s.names = s.undo[:0], 0, 0
}

// publish makes the batch visible.
func (s *stage) publish() {
	s.unlock()
	s.t.room.give(s.credit - s.delta)
	s.t.room.names.Add(s.names)
	for _, u := range s.undo {
		if !u.old.at.IsZero() {
			s.t.spill.Free(u.old.at)
		}
	}
	s.t.pressed()
}

// abort leaves everything as it was.
func (s *stage) abort() {
	if s.locked {
		s.rollback()
		s.unlock()
	}
	s.t.room.give(s.credit)
	for i := range s.writes {
		if at := s.writes[i].at; !at.IsZero() {
			s.t.spill.Free(at)
		}
	}
}

// saved completes the answer to a batch of saves.
func (s *stage) saved(rs []tiers.Record) []tiers.Record {
	out := make([]tiers.Record, len(rs))
	for i := range rs {
		out[i] = saved(&rs[i], &s.outs[i].stored)
	}
	return out
}

// revive puts an entry back that was removed under the lock that is still held.
func (t *Tier) revive(sh *shard, e *entry, old stored) {
	e.gone = false
	e.next, sh.entries[e.hash] = sh.entries[e.hash], e
	e.stored = old
	sh.count++
	sh.bytes += int64(len(e.name)) + e.size()
	sh.expects(e.expires)
	t.change(sh, e)
}
