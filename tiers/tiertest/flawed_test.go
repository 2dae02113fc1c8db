package tiertest

import (
	"context"
	"iter"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// flawed is a reference of which some methods are replaced.
type flawed struct {
	*reference
	load       func(ctx context.Context, k tiers.Key) (tiers.Record, error)
	save       func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error)
	remove     func(ctx context.Context, k tiers.Key, c tiers.Cond) (bool, error)
	list       func(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error]
	spaces     func(ctx context.Context) iter.Seq2[tiers.Space, error]
	end        func(ctx context.Context) error
	apply      func(ctx context.Context, rs []tiers.Record, over []tiers.Cond) error
	loadMany   func(ctx context.Context, ks []tiers.Key) ([]tiers.Record, error)
	saveMany   func(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error)
	deleteMany func(ctx context.Context, ks []tiers.Key, cs []tiers.Cond) ([]bool, error)
	exists     func(ctx context.Context, k tiers.Key) (bool, error)
	touch      func(ctx context.Context, k tiers.Key, ttl time.Duration) (bool, error)
	sweep      func(ctx context.Context, limit int) (int, error)
	stats      func(ctx context.Context) (tiers.Stats, error)
	count      func(ctx context.Context, s tiers.Space) (int64, int64, error)
	ping       func(ctx context.Context) error
	describe   func() tiers.Info
	diagnose   func(ctx context.Context) []tiers.Finding
	prepare    func(ctx context.Context, c tiers.Commit) (func() []tiers.Record, func(), error)
	reserve    func(ctx context.Context, ks []tiers.Key, above tiers.Version) ([]tiers.Reservation, error)
	snapshot   func(ctx context.Context) (tiers.Snapshot, error)
	search     func(ctx context.Context, s tiers.Search) iter.Seq2[tiers.Found, error]
	top        func(ctx context.Context, s tiers.Search) iter.Seq2[tiers.Ranked, error]
	reindex    func(ctx context.Context, rs []tiers.Record) error
}

func (f *flawed) Load(ctx context.Context, k tiers.Key) (tiers.Record, error) {
	if f.load != nil {
		return f.load(ctx, k)
	}
	return f.reference.Load(ctx, k)
}

func (f *flawed) Save(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
	if f.save != nil {
		return f.save(ctx, r, c)
	}
	return f.reference.Save(ctx, r, c)
}

func (f *flawed) Delete(ctx context.Context, k tiers.Key, c tiers.Cond) (bool, error) {
	if f.remove != nil {
		return f.remove(ctx, k, c)
	}
	return f.reference.Delete(ctx, k, c)
}

func (f *flawed) List(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
	if f.list != nil {
		return f.list(ctx, q)
	}
	return f.reference.List(ctx, q)
}

func (f *flawed) Spaces(ctx context.Context) iter.Seq2[tiers.Space, error] {
	if f.spaces != nil {
		return f.spaces(ctx)
	}
	return f.reference.Spaces(ctx)
}

func (f *flawed) Close(ctx context.Context) error {
	if f.end != nil {
		return f.end(ctx)
	}
	return f.reference.Close(ctx)
}

func (f *flawed) Apply(ctx context.Context, rs []tiers.Record, over []tiers.Cond) error {
	if f.apply != nil {
		return f.apply(ctx, rs, over)
	}
	return f.reference.Apply(ctx, rs, over)
}

func (f *flawed) LoadMany(ctx context.Context, ks []tiers.Key) ([]tiers.Record, error) {
	if f.loadMany != nil {
		return f.loadMany(ctx, ks)
	}
	return f.reference.LoadMany(ctx, ks)
}

func (f *flawed) SaveMany(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
	if f.saveMany != nil {
		return f.saveMany(ctx, rs, cs)
	}
	return f.reference.SaveMany(ctx, rs, cs)
}

func (f *flawed) DeleteMany(ctx context.Context, ks []tiers.Key, cs []tiers.Cond) ([]bool, error) {
	if f.deleteMany != nil {
		return f.deleteMany(ctx, ks, cs)
	}
	return f.reference.DeleteMany(ctx, ks, cs)
}

func (f *flawed) Exists(ctx context.Context, k tiers.Key) (bool, error) {
	if f.exists != nil {
		return f.exists(ctx, k)
	}
	return f.reference.Exists(ctx, k)
}

func (f *flawed) Touch(ctx context.Context, k tiers.Key, ttl time.Duration) (bool, error) {
	if f.touch != nil {
		return f.touch(ctx, k, ttl)
	}
	return f.reference.Touch(ctx, k, ttl)
}

func (f *flawed) Sweep(ctx context.Context, limit int) (int, error) {
	if f.sweep != nil {
		return f.sweep(ctx, limit)
	}
	return f.reference.Sweep(ctx, limit)
}

func (f *flawed) Stats(ctx context.Context) (tiers.Stats, error) {
	if f.stats != nil {
		return f.stats(ctx)
	}
	return f.reference.Stats(ctx)
}

func (f *flawed) Count(ctx context.Context, s tiers.Space) (int64, int64, error) {
	if f.count != nil {
		return f.count(ctx, s)
	}
	return f.reference.Count(ctx, s)
}

func (f *flawed) Ping(ctx context.Context) error {
	if f.ping != nil {
		return f.ping(ctx)
	}
	return f.reference.Ping(ctx)
}

func (f *flawed) Describe() tiers.Info {
	if f.describe != nil {
		return f.describe()
	}
	return f.reference.Describe()
}

func (f *flawed) Diagnose(ctx context.Context) []tiers.Finding {
	if f.diagnose != nil {
		return f.diagnose(ctx)
	}
	return f.reference.Diagnose(ctx)
}

func (f *flawed) Prepare(ctx context.Context, c tiers.Commit) (publish func() []tiers.Record, abort func(), err error) {
	if f.prepare != nil {
		return f.prepare(ctx, c)
	}
	return f.reference.Prepare(ctx, c)
}

func (f *flawed) Reserve(ctx context.Context, ks []tiers.Key, above tiers.Version) ([]tiers.Reservation, error) {
	if f.reserve != nil {
		return f.reserve(ctx, ks, above)
	}
	return f.reference.Reserve(ctx, ks, above)
}

func (f *flawed) Snapshot(ctx context.Context) (tiers.Snapshot, error) {
	if f.snapshot != nil {
		return f.snapshot(ctx)
	}
	return f.reference.Snapshot(ctx)
}

// filtered is a listing with some records changed or left out.
func filtered(seq iter.Seq2[tiers.Record, error], keep func(r *tiers.Record) bool) iter.Seq2[tiers.Record, error] {
	return func(yield func(tiers.Record, error) bool) {
		for r, err := range seq {
			if err != nil || keep(&r) {
				if !yield(r, err) {
					return
				}
			}
		}
	}
}

// inside runs f under the lock of the store.
func (t *reference) inside(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
}

// change edits the record of a key, expired or not, under the lock.
func (t *reference) change(k tiers.Key, f func(r *tiers.Record)) {
	t.inside(func() {
		if r, ok := t.records[k]; ok {
			f(&r)
			t.records[k] = r
		}
	})
}
