package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// write is one change of one key.
type write struct {
	key    tiers.Key
	stored      // what to store; version, created and updated only when applied
	remove bool // the key is to be absent
	cond   tiers.Cond
	rule   bool  // passes over a newer version, unless there is a condition
	apply  bool  // version and times are given
	now    int64 // microseconds since 1970
}

// outcome is what a write did.
type outcome struct {
	stored       // what is stored now, its value aside
	existed bool // a live record was there
	skipped bool // a newer one was there
}

// Save stores the record if the condition holds. It answers tiers.ErrFull when
// there is no room and none can be made, and tiers.ErrTooLarge for a record that
// never could be stored.
func (t *Tier) Save(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
	return t.save(ctx, &r, c, clone)
}

// Take is Save without the copy, see [tiers.Lender].
func (t *Tier) Take(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
	return t.save(ctx, &r, c, asItIs)
}

func asItIs(b []byte) []byte {
	if b == nil {
		return []byte{} // nil would mean the spill file
	}
	return b
}

func (t *Tier) save(ctx context.Context, r *tiers.Record, c tiers.Cond, own func([]byte) []byte) (tiers.Record, error) {
	if err := t.begin(ctx); err != nil {
		return tiers.Record{}, t.fail("save", r.Key, err)
	}
	w := t.saving(t.clock.Now(), r, c, own)
	out, err := t.write(ctx, &w)
	if err != nil {
		return tiers.Record{}, t.fail("save", r.Key, err)
	}
	return saved(r, &out.stored), nil
}

// saving makes the write of a save. own answers the value for the tier to keep.
func (t *Tier) saving(now time.Time, r *tiers.Record, c tiers.Cond, own func([]byte) []byte) write {
	w := write{key: r.Key, cond: c, now: now.UnixMicro()}
	w.codec, w.schema, w.flags = r.Codec, r.Schema, r.Flags
	w.expires = tiers.ToMicro(tiers.Deadline(now, r.TTL))
	w.remove = r.TTL < 0 || !w.live(w.now)
	if !w.remove {
		w.value = own(r.Value)
	}
	return w
}

// saved completes the answer to a save.
func saved(r *tiers.Record, s *stored) tiers.Record {
	out := s.record(r.Key)
	out.Value, out.TTL = r.Value, r.TTL
	return out
}

// Delete removes the key if the condition holds.
func (t *Tier) Delete(ctx context.Context, k tiers.Key, c tiers.Cond) (existed bool, err error) {
	if err := t.begin(ctx); err != nil {
		return false, t.fail("delete", k, err)
	}
	w := write{key: k, remove: true, cond: c, now: t.clock.Now().UnixMicro()}
	out, err := t.write(ctx, &w)
	return out.existed, t.fail("delete", k, err)
}

// Touch changes the expiry of a live record.
func (t *Tier) Touch(ctx context.Context, k tiers.Key, ttl time.Duration) (existed bool, err error) {
	if err := t.begin(ctx); err != nil {
		return false, t.fail("touch", k, err)
	}
	now := t.clock.Now()
	us, expires := now.UnixMicro(), tiers.ToMicro(tiers.Deadline(now, ttl))
	if ttl < 0 || expires != 0 && expires <= us {
		w := write{key: k, remove: true, now: us}
		out, err := t.write(ctx, &w)
		return out.existed, t.fail("touch", k, err)
	}
	hash := t.hash(k)
	sh := t.shard(hash)
	sh.Lock()
	defer sh.Unlock()
	if sh.closed {
		return false, t.fail("touch", k, tiers.ErrClosed)
	}
	e := sh.find(hash, &k)
	if e == nil {
		return false, t.fail("touch", k, k.Check())
	}
	if !e.live(us) {
		return false, nil
	}
	e.expires = expires
	sh.expects(expires)
	return true, nil
}

// Apply stores records with the versions and times they have, see tiers.Applier.
func (t *Tier) Apply(ctx context.Context, rs []tiers.Record, over []tiers.Cond) error {
	if over != nil && len(over) != len(rs) {
		return t.fail("apply", tiers.Key{}, fmt.Errorf("%d conditions for %d records", len(over), len(rs)))
	}
	var errs failures
	for i := range rs {
		r := &rs[i]
		if err := t.begin(ctx); err != nil {
			errs.add(t.fail("apply", r.Key, err))
			break
		}
		w := write{key: r.Key, rule: true, apply: true, now: t.clock.Now().UnixMicro()}
		w.codec, w.schema, w.flags, w.version = r.Codec, r.Schema, r.Flags, uint64(r.Version)
		w.created, w.updated, w.expires = tiers.ToMicro(r.Created), tiers.ToMicro(r.Updated), tiers.ToMicro(r.Expires)
		if over != nil {
			w.cond = over[i]
		}
		w.remove = r.Deleted || !w.live(w.now)
		if !w.remove {
			w.value = clone(r.Value)
		}
		_, err := t.write(ctx, &w)
		errs.add(t.fail("apply", r.Key, err))
	}
	return errs.join()
}

// write carries out w. It waits for room if it must, holding nothing.
func (t *Tier) write(ctx context.Context, w *write) (out outcome, err error) {
	hash := t.hash(w.key)
	sh := t.shard(hash)
	if !w.remove {
		if err := t.fits(&w.key, w.value); err != nil {
			return out, err
		}
		if len(w.value) > 0 && t.outsized(int64(len(w.key.Name)+len(w.value))) {
			at, err := t.place(ctx, [][]byte{w.value})
			if err != nil {
				return out, err
			}
			w.value, w.at = nil, at[0]
		}
	}
	for credit := int64(0); ; {
		done, need, err := t.attempt(sh, hash, w, &credit, &out)
		if done && err == nil {
			t.pressed()
			return out, nil
		}
		if err == nil {
			// Who waits holds nothing, since others may wait for that.
			t.room.give(credit)
			credit = 0
			if err = t.reserve(ctx, need); err == nil {
				credit = need
				continue
			}
		}
		t.room.give(credit)
		if !w.at.IsZero() {
			t.spill.Free(w.at)
		}
		return out, err
	}
}

// attempt carries out w, or tells how much room it needs.
func (t *Tier) attempt(sh *shard, hash uint64, w *write, credit *int64, out *outcome) (done bool, need int64, err error) {
	sh.Lock()
	e, err := t.judge(sh, hash, w, out)
	if err != nil || out.skipped {
		sh.Unlock()
		if out.skipped && !w.at.IsZero() {
			t.spill.Free(w.at)
		}
		if err == nil {
			t.room.give(*credit)
		}
		return true, 0, err
	}
	delta, names := cost(e, w)
	if !t.room.take(delta - *credit) {
		sh.Unlock()
		return false, delta, nil
	}
	old := t.carryOut(sh, hash, e, w, out)
	sh.Unlock()
	if surplus := *credit - delta; surplus > 0 {
		t.room.give(surplus)
	}
	if names != 0 {
		t.room.names.Add(names)
	}
	if !old.at.IsZero() {
		t.spill.Free(old.at)
	}
	return true, 0, nil
}

// judge tells whether w may be carried out, and on what. The shard is locked.
func (t *Tier) judge(sh *shard, hash uint64, w *write, out *outcome) (*entry, error) {
	*out = outcome{}
	if sh.closed {
		return nil, tiers.ErrClosed
	}
	e := sh.find(hash, &w.key)
	var version tiers.Version
	if e == nil {
		if err := w.key.Check(); err != nil {
			return nil, err
		}
	} else if out.existed = e.live(w.now); out.existed {
		version = tiers.Version(e.version)
	}
	_, demanded := w.cond.Version()
	if w.rule {
		out.skipped = w.cond.Holds(version) != nil || !demanded && e != nil && e.version > w.version
		if !out.skipped && !w.remove && w.version == 0 {
			return nil, errors.New("a record without a version can't be applied")
		}
		return e, nil
	}
	return e, w.cond.Holds(version)
}

// cost answers by how much w changes what is used, and the part of it that is
// keys.
func cost(e *entry, w *write) (delta, names int64) {
	if e != nil {
		delta -= e.resident()
		if w.remove {
			return delta - int64(len(e.name)), -int64(len(e.name))
		}
		return delta + w.resident(), 0
	}
	if w.remove {
		return 0, 0
	}
	names = int64(len(w.key.Name))
	return w.resident() + names, names
}

// carryOut changes the shard, which is locked, and answers what was there.
func (t *Tier) carryOut(sh *shard, hash uint64, e *entry, w *write, out *outcome) (old stored) {
	if w.apply {
		t.passed(w.version)
	} else if !w.remove || w.expires != 0 {
		w.version, w.created, w.updated = t.issue(w.now), w.now, w.now
		if out.existed {
			w.created = e.created
		}
	}
	out.stored = w.stored
	switch {
	case w.remove && e != nil:
		old = e.stored
		t.remove(sh, e)
	case w.remove:
	default:
		if e == nil {
			e = t.insert(sh, hash, w.key)
		}
		old = t.replace(sh, e, w.stored)
		if !w.at.IsZero() {
			t.spill.Own(w.at, e)
		}
	}
	return old
}

func clone(b []byte) []byte { return append(make([]byte, 0, len(b)), b...) }
