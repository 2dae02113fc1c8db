package sagetest

import (
	"context"
	"errors"
	"iter"

	"github.com/sagestore/sagestore/tiers"
)

// What a failing tier does for transactions.

type failingCommitter struct {
	f *failing
	tiers.Committer
}

func (c failingCommitter) Commit(ctx context.Context, t tiers.Commit) (tiers.Committed, error) {
	if err := c.f.askedAll("commit", t.Saves); err != nil {
		return tiers.Committed{}, err
	}
	return c.Committer.Commit(ctx, t)
}

type failingPublisher struct {
	f *failing
	tiers.Publisher
}

func (p failingPublisher) Prepare(ctx context.Context, t tiers.Commit) (publish func() []tiers.Record, abort func(), err error) {
	if err := p.f.askedAll("commit", t.Saves); err != nil {
		return nil, nil, err
	}
	return p.Publisher.Prepare(ctx, t)
}

func (f *failing) askedAll(op string, rs []tiers.Record) error {
	for i := range rs {
		if err := f.asked(op, rs[i].Key); err != nil {
			return err
		}
	}
	return nil
}

type failingReserver struct {
	f *failing
	tiers.Reserver
}

func (r failingReserver) Reserve(ctx context.Context, ks []tiers.Key, above tiers.Version) ([]tiers.Reservation, error) {
	for _, k := range ks {
		if err := r.f.asked("reserve", k); err != nil {
			return nil, err
		}
	}
	return r.Reserver.Reserve(ctx, ks, above)
}

type failingSnapshotter struct {
	f *failing
	tiers.Snapshotter
}

func (s failingSnapshotter) Snapshot(ctx context.Context) (tiers.Snapshot, error) {
	if err := s.f.asked("snapshot", tiers.Key{}); err != nil {
		return nil, err
	}
	now, err := s.Snapshotter.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return failingSnapshot{s.f, now}, nil
}

// failingSnapshot asks as the tier does.
type failingSnapshot struct {
	f *failing
	tiers.Snapshot
}

func (s failingSnapshot) Load(ctx context.Context, k tiers.Key) (tiers.Record, error) {
	if err := s.f.asked("load", k); err != nil {
		return tiers.Record{}, err
	}
	return s.Snapshot.Load(ctx, k)
}

func (s failingSnapshot) LoadMany(ctx context.Context, ks []tiers.Key) ([]tiers.Record, error) {
	out := make([]tiers.Record, len(ks))
	var errs []error
	var some []tiers.Key
	var at []int
	for i, k := range ks {
		out[i].Key = k
		if err := s.f.asked("load", k); err != nil {
			errs = append(errs, err)
			continue
		}
		some, at = append(some, k), append(at, i)
	}
	found, err := s.Snapshot.LoadMany(ctx, some)
	for i := range found {
		out[at[i]] = found[i]
	}
	return out, errors.Join(append(errs, err)...)
}

func (s failingSnapshot) List(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
	if err := s.f.asked("list", tiers.Key{Namespace: q.Namespace, Category: q.Category}); err != nil {
		return tiers.Failed[tiers.Record](err)
	}
	return s.Snapshot.List(ctx, q)
}
