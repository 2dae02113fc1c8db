package sagetest

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// Failing answers drivers whose tiers ask fail before they do anything: an error
// is the tier's answer, and nothing is done. op is load, save, delete, list,
// spaces, exists, touch, sweep, apply, commit, reserve, snapshot, ping, stats,
// count or close; batches ask for each of their keys, and so do commit, for what
// a transaction changes in a database or in memory, and reserve, for what it has
// read or changes in another tier, where apply follows. Operations that are about
// no single key give one without a name. Changes of the system store are not
// asked about.
func Failing(d tiers.Drivers, fail func(op string, k tiers.Key) error) tiers.Drivers {
	out := make(tiers.Drivers, len(d))
	for i, inner := range d {
		out[i] = inner
		out[i].Open = func(ctx context.Context, env tiers.Env) (tiers.Tier, error) {
			t, err := inner.Open(ctx, env)
			if err != nil {
				return nil, err
			}
			return &failing{inner: t, fail: fail}, nil
		}
	}
	return out
}

// failing has the capabilities of the tier inside.
type failing struct {
	inner tiers.Tier
	fail  func(op string, k tiers.Key) error
}

// As answers the capabilities that it can fail through itself, and all others
// from inside.
func (f *failing) As(target any) bool {
	switch into := target.(type) {
	case *tiers.Applier:
		return offer[tiers.Applier](f, into, func(a tiers.Applier) tiers.Applier { return failingApplier{f, a} })
	case *tiers.Batcher:
		return offer[tiers.Batcher](f, into, func(b tiers.Batcher) tiers.Batcher { return failingBatcher{f, b} })
	case *tiers.Exister:
		return offer[tiers.Exister](f, into, func(e tiers.Exister) tiers.Exister { return failingExister{f, e} })
	case *tiers.Toucher:
		return offer[tiers.Toucher](f, into, func(t tiers.Toucher) tiers.Toucher { return failingToucher{f, t} })
	case *tiers.Sweeper:
		return offer[tiers.Sweeper](f, into, func(s tiers.Sweeper) tiers.Sweeper { return failingSweeper{f, s} })
	case *tiers.Pinger:
		return offer[tiers.Pinger](f, into, func(p tiers.Pinger) tiers.Pinger { return failingPinger{f, p} })
	case *tiers.Statser:
		return offer[tiers.Statser](f, into, func(s tiers.Statser) tiers.Statser { return failingStatser{f, s} })
	case *tiers.Counter:
		return offer[tiers.Counter](f, into, func(c tiers.Counter) tiers.Counter { return failingCounter{f, c} })
	case *tiers.Committer:
		return offer[tiers.Committer](f, into, func(c tiers.Committer) tiers.Committer { return failingCommitter{f, c} })
	case *tiers.Publisher:
		return offer[tiers.Publisher](f, into, func(p tiers.Publisher) tiers.Publisher { return failingPublisher{f, p} })
	case *tiers.Reserver:
		return offer[tiers.Reserver](f, into, func(r tiers.Reserver) tiers.Reserver { return failingReserver{f, r} })
	case *tiers.Snapshotter:
		return offer[tiers.Snapshotter](f, into, func(s tiers.Snapshotter) tiers.Snapshotter { return failingSnapshotter{f, s} })
	case *tiers.System:
		return offer[tiers.System](f, into, func(s tiers.System) tiers.System { return s })
	case *tiers.Outage:
		return offer[tiers.Outage](f, into, func(o tiers.Outage) tiers.Outage { return o })
	case *tiers.Messenger:
		return offer[tiers.Messenger](f, into, func(m tiers.Messenger) tiers.Messenger { return m })
	case *tiers.Describer:
		return offer[tiers.Describer](f, into, func(d tiers.Describer) tiers.Describer { return d })
	case *tiers.Diagnoser:
		return offer[tiers.Diagnoser](f, into, func(d tiers.Diagnoser) tiers.Diagnoser { return d })
	}
	return false
}

func offer[T any](f *failing, into *T, wrap func(T) T) bool {
	inner, ok := tiers.As[T](f.inner)
	if ok {
		*into = wrap(inner)
	}
	return ok
}

func (f *failing) asked(op string, k tiers.Key) error { return tiers.Fail(op, "", k, f.fail(op, k)) }

func (f *failing) Load(ctx context.Context, k tiers.Key) (tiers.Record, error) {
	if err := f.asked("load", k); err != nil {
		return tiers.Record{}, err
	}
	return f.inner.Load(ctx, k)
}

func (f *failing) Save(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
	if err := f.asked("save", r.Key); err != nil {
		return tiers.Record{}, err
	}
	return f.inner.Save(ctx, r, c)
}

func (f *failing) Delete(ctx context.Context, k tiers.Key, c tiers.Cond) (bool, error) {
	if err := f.asked("delete", k); err != nil {
		return false, err
	}
	return f.inner.Delete(ctx, k, c)
}

func (f *failing) List(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
	if err := f.asked("list", tiers.Key{Namespace: q.Namespace, Category: q.Category}); err != nil {
		return tiers.Failed[tiers.Record](err)
	}
	return f.inner.List(ctx, q)
}

func (f *failing) Spaces(ctx context.Context) iter.Seq2[tiers.Space, error] {
	if err := f.asked("spaces", tiers.Key{}); err != nil {
		return tiers.Failed[tiers.Space](err)
	}
	return f.inner.Spaces(ctx)
}

// Close closes the tier inside whatever the answer.
func (f *failing) Close(ctx context.Context) error {
	return errors.Join(f.asked("close", tiers.Key{}), f.inner.Close(ctx))
}

type failingApplier struct {
	f *failing
	tiers.Applier
}

func (a failingApplier) Apply(ctx context.Context, rs []tiers.Record, over []tiers.Cond) error {
	for _, r := range rs {
		if err := a.f.asked("apply", r.Key); err != nil {
			return err
		}
	}
	return a.Applier.Apply(ctx, rs, over)
}

type failingExister struct {
	f *failing
	tiers.Exister
}

func (e failingExister) Exists(ctx context.Context, k tiers.Key) (bool, error) {
	if err := e.f.asked("exists", k); err != nil {
		return false, err
	}
	return e.Exister.Exists(ctx, k)
}

type failingToucher struct {
	f *failing
	tiers.Toucher
}

func (t failingToucher) Touch(ctx context.Context, k tiers.Key, ttl time.Duration) (bool, error) {
	if err := t.f.asked("touch", k); err != nil {
		return false, err
	}
	return t.Toucher.Touch(ctx, k, ttl)
}

type failingSweeper struct {
	f *failing
	tiers.Sweeper
}

func (s failingSweeper) Sweep(ctx context.Context, limit int) (int, error) {
	if err := s.f.asked("sweep", tiers.Key{}); err != nil {
		return 0, err
	}
	return s.Sweeper.Sweep(ctx, limit)
}

type failingPinger struct {
	f *failing
	tiers.Pinger
}

func (p failingPinger) Ping(ctx context.Context) error {
	if err := p.f.asked("ping", tiers.Key{}); err != nil {
		return err
	}
	return p.Pinger.Ping(ctx)
}

type failingStatser struct {
	f *failing
	tiers.Statser
}

func (s failingStatser) Stats(ctx context.Context) (tiers.Stats, error) {
	if err := s.f.asked("stats", tiers.Key{}); err != nil {
		return tiers.Stats{}, err
	}
	return s.Statser.Stats(ctx)
}

type failingCounter struct {
	f *failing
	tiers.Counter
}

func (c failingCounter) Count(ctx context.Context, s tiers.Space) (entries, bytes int64, err error) {
	if err := c.f.asked("count", tiers.Key{Namespace: s.Namespace, Category: s.Category}); err != nil {
		return 0, 0, err
	}
	return c.Counter.Count(ctx, s)
}

// failingBatcher asks for each key, and does those that may go on.
type failingBatcher struct {
	f *failing
	tiers.Batcher
}

func (b failingBatcher) LoadMany(ctx context.Context, ks []tiers.Key) ([]tiers.Record, error) {
	return someOf(b, "load", ks, nil, keyItself, func(some []tiers.Key, _ []tiers.Cond) ([]tiers.Record, error) {
		return b.Batcher.LoadMany(ctx, some)
	})
}

func (b failingBatcher) SaveMany(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
	key := func(r tiers.Record) tiers.Key { return r.Key }
	return someOf(b, "save", rs, cs, key, func(some []tiers.Record, conds []tiers.Cond) ([]tiers.Record, error) {
		return b.Batcher.SaveMany(ctx, some, conds)
	})
}

func (b failingBatcher) DeleteMany(ctx context.Context, ks []tiers.Key, cs []tiers.Cond) ([]bool, error) {
	return someOf(b, "delete", ks, cs, keyItself, func(some []tiers.Key, conds []tiers.Cond) ([]bool, error) {
		return b.Batcher.DeleteMany(ctx, some, conds)
	})
}

func keyItself(k tiers.Key) tiers.Key { return k }

// someOf does what may go on and puts the results where they belong. When any
// item of an atomic batch fails, none goes on.
func someOf[In, Out any](b failingBatcher, op string, items []In, cs []tiers.Cond, key func(In) tiers.Key,
	do func([]In, []tiers.Cond) ([]Out, error),
) ([]Out, error) {
	var (
		errs  []error
		at    []int
		some  []In
		conds []tiers.Cond
	)
	for i, item := range items {
		if err := b.f.asked(op, key(item)); err != nil {
			errs = append(errs, err)
			continue
		}
		at, some = append(at, i), append(some, item)
		if cs != nil {
			conds = append(conds, cs[i])
		}
	}
	out := make([]Out, len(items))
	if len(some) == 0 || len(errs) > 0 && op != "load" && b.Atomic() {
		return out, errors.Join(errs...)
	}
	done, err := do(some, conds)
	for i, one := range done {
		out[at[i]] = one
	}
	return out, errors.Join(append(errs, err)...)
}
