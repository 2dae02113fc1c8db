package memory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/memory/internal/spill"
)

// Load answers the record with a value that the caller owns.
func (t *Tier) Load(ctx context.Context, k tiers.Key) (tiers.Record, error) {
	s, err := t.look(ctx, &k)
	if err != nil {
		return tiers.Record{}, t.fail("load", k, err)
	}
	r := s.record(k)
	if r.Value, err = t.copyOut(&s); err != nil {
		return tiers.Record{}, t.fail("load", k, err)
	}
	return r, nil
}

// Lend is Load without the copy, for those who decode the value at once, see
// [tiers.Lender]. A value that is in the spill file is read from there.
func (t *Tier) Lend(ctx context.Context, k tiers.Key) (tiers.Record, error) {
	s, err := t.look(ctx, &k)
	if err != nil {
		return tiers.Record{}, t.fail("load", k, err)
	}
	r := s.record(k)
	if r.Value = s.value; !s.at.IsZero() {
		if r.Value, err = t.copyOut(&s); err != nil {
			return tiers.Record{}, t.fail("load", k, err)
		}
	}
	return r, nil
}

// Exists tells whether a live record is there.
func (t *Tier) Exists(ctx context.Context, k tiers.Key) (bool, error) {
	if err := t.begin(ctx); err != nil {
		return false, t.fail("exists", k, err)
	}
	hash := t.hash(k)
	sh := t.shard(hash)
	sh.RLock()
	closed, expires := sh.closed, int64(0)
	e := sh.find(hash, &k)
	if e != nil {
		expires = e.expires
	}
	sh.RUnlock()
	switch {
	case closed:
		return false, t.fail("exists", k, tiers.ErrClosed)
	case e == nil:
		return false, t.fail("exists", k, k.Check())
	}
	return expires == 0 || t.clock.Now().UnixMicro() < expires, nil
}

// look finds what is stored, holding it when it is in the spill file.
func (t *Tier) look(ctx context.Context, k *tiers.Key) (s stored, err error) {
	if err := t.begin(ctx); err != nil {
		return s, err
	}
	hash := t.hash(*k)
	sh := t.shard(hash)
	sh.RLock()
	e := sh.find(hash, k)
	if e == nil {
		closed := sh.closed
		sh.RUnlock()
		return s, t.missing(sh, k, closed)
	}
	e.read(&s)
	t.hold(&s)
	sh.RUnlock()
	if s.expires != 0 && t.clock.Now().UnixMicro() >= s.expires {
		t.letGo(&s)
		return s, t.missing(sh, k, false)
	}
	sh.hits.Add(1)
	if t.keeper.on.Load() {
		t.noticed(e, !s.at.IsZero())
	}
	return s, nil
}

func (t *Tier) missing(sh *shard, k *tiers.Key, closed bool) error {
	if closed {
		return tiers.ErrClosed
	}
	if err := k.Check(); err != nil {
		return err
	}
	sh.misses.Add(1)
	return tiers.ErrNotFound
}

// hold keeps a spilled value where it is until copyOut or letGo. The shard is
// locked.
func (t *Tier) hold(s *stored) {
	if !s.at.IsZero() {
		t.spill.Pin(s.at)
	}
}

func (t *Tier) letGo(s *stored) {
	if !s.at.IsZero() {
		t.spill.Unpin(s.at)
	}
}

// copyOut answers a copy of a held value.
func (t *Tier) copyOut(s *stored) ([]byte, error) {
	if s.at.IsZero() {
		return clone(s.value), nil
	}
	defer t.spill.Unpin(s.at)
	b, err := t.spill.Read(s.at)
	switch {
	case errors.Is(err, os.ErrClosed):
		return nil, tiers.ErrClosed
	case errors.Is(err, spill.ErrDamaged):
		return nil, fmt.Errorf("%w: %w", tiers.ErrCorrupt, err)
	}
	return b, err
}

// sampled is one in how many loads the policy hears of: it estimates
// frequencies, for which a sample does.
const sampled = 8

// noticed tells the policy that an entry was read, and the keeper when one that
// was spilled is wanted again.
func (t *Tier) noticed(e *entry, spilled bool) {
	if spilled && e.warm.Swap(true) {
		t.wish(e)
	}
	if !spilled && rand.Uint32N(sampled) != 0 { //nolint:gosec // a sample, not a secret
		return
	}
	t.keeper.touching.RLock()
	defer t.keeper.touching.RUnlock()
	if p := t.keeper.policy; p != nil {
		p.touch(e.id)
	}
}
