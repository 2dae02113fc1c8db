package tiertest

import (
	"context"
	"iter"
	"maps"

	"github.com/sagestore/sagestore/tiers"
)

var (
	_ tiers.Publisher   = (*reference)(nil)
	_ tiers.Reserver    = (*reference)(nil)
	_ tiers.Snapshotter = (*reference)(nil)
)

// Prepare keeps the store's lock until the end of the transaction.
func (t *reference) Prepare(ctx context.Context, c tiers.Commit) (publish func() []tiers.Record, abort func(), err error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := t.checkCommit(c); err != nil {
		leave()
		return nil, nil, err
	}
	rs := make([]tiers.Record, len(c.Saves))
	for i := range rs {
		rs[i] = copied(c.Saves[i])
	}
	return func() []tiers.Record {
		defer leave()
		return t.publish(rs)
	}, leave, nil
}

func (t *reference) checkCommit(c tiers.Commit) error {
	for _, r := range c.Reads {
		if old, _ := t.live(r.Key); old.Version != r.Version {
			return tiers.Fail("commit", "reference", r.Key, tiers.ErrConflict)
		}
	}
	for _, r := range c.Ranges {
		if t.digest(r) != r.Sum {
			return tiers.Fail("commit", "reference", tiers.Key{Category: r.Query.Category}, tiers.ErrConflict)
		}
	}
	for _, r := range c.Saves {
		if err := t.check(r, tiers.Cond{}); err != nil {
			return err
		}
	}
	return nil
}

func (t *reference) digest(r tiers.Range) uint64 {
	var d tiers.Digest
	for _, listed := range t.selected(r.Query) {
		if beyond := listed.Name > r.End != r.Query.Reverse && listed.Name != r.End; r.End != "" && beyond {
			break
		}
		d.Add(listed.Name, listed.Version)
	}
	return d.Sum()
}

func (t *reference) publish(rs []tiers.Record) []tiers.Record {
	out := make([]tiers.Record, len(rs))
	for i, r := range rs {
		if r.Deleted {
			delete(t.records, r.Key)
			out[i].Key = r.Key
			continue
		}
		out[i], _ = t.save(r, tiers.Cond{}) // was checked
	}
	return out
}

func (t *reference) Reserve(ctx context.Context, ks []tiers.Key, above tiers.Version) ([]tiers.Reservation, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	out := make([]tiers.Reservation, len(ks))
	t.high = max(t.high, above)
	for i, k := range ks {
		if err := k.Check(); err != nil {
			return nil, tiers.Fail("reserve", "reference", k, err)
		}
		r, _ := t.live(k)
		out[i] = tiers.Reservation{Version: r.Version, Created: r.Created, Next: t.next(tiers.Micro(t.clock.Now()))}
	}
	return out, nil
}

func (t *reference) Snapshot(ctx context.Context) (tiers.Snapshot, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	s := &store{records: maps.Clone(t.records), high: t.high}
	return &frozen{reference: &reference{store: s, clock: t.clock}, end: ctx}, nil
}

// frozen is a snapshot: a copy that ends with its context.
type frozen struct {
	*reference
	end context.Context // it lives as long as that
}

func (s *frozen) Load(ctx context.Context, k tiers.Key) (tiers.Record, error) {
	if err := s.end.Err(); err != nil {
		return tiers.Record{}, err
	}
	return s.reference.Load(ctx, k)
}

func (s *frozen) List(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
	return s.reference.List(ctx, q)
}

func (s *frozen) Close() error { return s.reference.Close(context.Background()) }
