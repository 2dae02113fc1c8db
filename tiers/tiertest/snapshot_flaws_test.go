package tiertest

import (
	"context"
	"iter"

	"github.com/sagestore/sagestore/tiers"
)

// through is a snapshot that looks at the store, in one way or another.
type through struct {
	tiers.Snapshot
	f    *flawed
	load func(ctx context.Context, k tiers.Key) (tiers.Record, error)
}

func (s through) Load(ctx context.Context, k tiers.Key) (tiers.Record, error) {
	if s.load != nil {
		return s.load(ctx, k)
	}
	return s.f.reference.Load(ctx, k)
}

// live is a snapshot that is none.
type live struct{ *flawed }

func (live) Close() error { return nil }

func snapshotFlaws() []flaw {
	snapshots := func(wrap func(f *flawed, ctx context.Context, s tiers.Snapshot) tiers.Snapshot) func(f *flawed) {
		return func(f *flawed) {
			f.snapshot = func(ctx context.Context) (tiers.Snapshot, error) {
				s, err := f.reference.Snapshot(ctx)
				if err != nil {
					return nil, err
				}
				return wrap(f, ctx, s), nil
			}
		}
	}
	// frozenClock shows what had not expired when the snapshot was taken.
	frozenClock := func(f *flawed, _ context.Context, s tiers.Snapshot) tiers.Snapshot {
		was := s.(*frozen)
		was.clock = NewClock(f.clock.Now())
		return was
	}
	return []flaw{
		{"shows the store as it is", "snapshots/a snapshot does not see what comes later", snapshots(func(f *flawed, _ context.Context, _ tiers.Snapshot) tiers.Snapshot {
			return live{f}
		})},
		{"loads from the store", "snapshots/a snapshot is the state of one instant", snapshots(func(f *flawed, _ context.Context, s tiers.Snapshot) tiers.Snapshot {
			return through{Snapshot: s, f: f}
		})},
		{"lists without order or limit", "snapshots/a snapshot lists as the store does", snapshots(func(_ *flawed, _ context.Context, s tiers.Snapshot) tiers.Snapshot {
			return unlimited{s}
		})},
		{"keeps what expires", "snapshots/records expire in a snapshot too", snapshots(frozenClock)},
		{"hands out its own values", "snapshots/values of a snapshot are copies", snapshots(func(f *flawed, _ context.Context, s tiers.Snapshot) tiers.Snapshot {
			return through{Snapshot: s, f: f, load: func(_ context.Context, k tiers.Key) (r tiers.Record, _ error) {
				f.inside(func() { r = f.records[k] })
				return r, nil
			}}
		})},
		{"outlives its context", "snapshots/a snapshot ends with its context and with close", snapshots(func(_ *flawed, _ context.Context, s tiers.Snapshot) tiers.Snapshot {
			s.(*frozen).end = context.Background()
			return s
		})},
		{"can't be closed", "snapshots/a snapshot ends with its context and with close", snapshots(func(_ *flawed, _ context.Context, s tiers.Snapshot) tiers.Snapshot {
			return unclosed{s}
		})},
	}
}

type unclosed struct{ tiers.Snapshot }

func (unclosed) Close() error { return nil }

// unlimited yields whole listings.
type unlimited struct{ tiers.Snapshot }

func (s unlimited) List(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
	q.Limit = 0
	return s.Snapshot.List(ctx, q)
}
