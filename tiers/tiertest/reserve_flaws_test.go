package tiertest

import (
	"context"
	"sync"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func reserveFlaws() []flaw {
	edited := func(edit func(f *flawed, r *tiers.Reservation)) func(f *flawed) {
		return func(f *flawed) {
			f.reserve = func(ctx context.Context, ks []tiers.Key, above tiers.Version) ([]tiers.Reservation, error) {
				out, err := f.reference.Reserve(ctx, ks, above)
				for i := range out {
					edit(f, &out[i])
				}
				return out, err
			}
		}
	}
	// forgets lets what was reserved be issued again.
	forgets := func(f *flawed) {
		f.reserve = func(ctx context.Context, ks []tiers.Key, above tiers.Version) ([]tiers.Reservation, error) {
			var high tiers.Version
			f.inside(func() { high = f.high })
			out, err := f.reference.Reserve(ctx, ks, above)
			f.inside(func() { f.high = high })
			return out, err
		}
	}
	return []flaw{
		{"answers expired versions", "reserving/reserve answers what is live", func(f *flawed) {
			f.reserve = func(ctx context.Context, ks []tiers.Key, above tiers.Version) ([]tiers.Reservation, error) {
				out, err := f.reference.Reserve(ctx, ks, above)
				for i := range out {
					f.inside(func() { out[i].Version = f.records[ks[i]].Version })
				}
				return out, err
			}
		}},
		{"says nothing of created", "reserving/reserve answers what is live", edited(func(_ *flawed, r *tiers.Reservation) { r.Created = time.Time{} })},
		{"reserves below earlier saves", "reserving/a reserved version is between earlier saves and later ones", edited(func(_ *flawed, r *tiers.Reservation) {
			r.Next = r.Version
		})},
		{"forgets what it reserved", "reserving/a reserved version is between earlier saves and later ones", forgets},
		{"reserves by the clock", "reserving/reserved versions grow when the clock is set back", edited(func(f *flawed, r *tiers.Reservation) {
			r.Next = tiers.Version(f.clock.Now().UnixMicro())
		})},
		{"takes no notice of rows", "reserving/a reserved version is above what is told", func(f *flawed) {
			f.reserve = func(ctx context.Context, ks []tiers.Key, _ tiers.Version) ([]tiers.Reservation, error) {
				return f.reference.Reserve(ctx, ks, 0)
			}
		}},
		{"tells nobody what it was told", "reserving/a reserved version is above what is told", func(f *flawed) {
			f.reserve = func(ctx context.Context, ks []tiers.Key, above tiers.Version) ([]tiers.Reservation, error) {
				out, err := f.reference.Reserve(ctx, ks, 0)
				for i := range out {
					out[i].Next = max(out[i].Next, above+tiers.Version(i)+1)
				}
				return out, err
			}
		}},
		{"reserves for one handle", "reserving/other handles save above what was reserved", forgets},
		{"forgets when it is closed", "reserving/reserved versions last across opening again", func(f *flawed) {
			f.end = func(ctx context.Context) error {
				f.inside(func() { f.high = 0 })
				return f.reference.Close(ctx)
			}
		}},
		{"applies nothing that was reserved", "reserving/a reserved version is applied over what was seen", func(f *flawed) {
			f.apply = func(ctx context.Context, _ []tiers.Record, _ []tiers.Cond) error { return ctx.Err() }
		}},
		{"applies what was reserved over anything", "reserving/a reserved version gives way to a save that came between", func(f *flawed) {
			f.apply = func(ctx context.Context, rs []tiers.Record, over []tiers.Cond) error {
				if over != nil {
					for _, r := range rs {
						f.inside(func() { delete(f.records, r.Key) })
					}
				}
				return f.reference.Apply(ctx, rs, nil)
			}
		}},
		{"reserves one version for all", "reserving/nobody else gets a reserved version", func(f *flawed) {
			var once sync.Once
			var first tiers.Version
			f.reserve = func(ctx context.Context, ks []tiers.Key, above tiers.Version) ([]tiers.Reservation, error) {
				out, err := f.reference.Reserve(ctx, ks, above)
				once.Do(func() { first = out[0].Next })
				for i := range out {
					out[i].Next = first
				}
				return out, err
			}
		}},
		{"ignores what it is told", "reserving/reserve goes above what it is told", func(f *flawed) {
			f.reserve = func(ctx context.Context, ks []tiers.Key, _ tiers.Version) ([]tiers.Reservation, error) {
				return f.reference.Reserve(ctx, ks, 0)
			}
		}},
		{"reserves for any key", "reserving/reserve refuses what other calls refuse", func(f *flawed) {
			f.reserve = func(ctx context.Context, ks []tiers.Key, above tiers.Version) ([]tiers.Reservation, error) {
				out, err := f.reference.Reserve(ctx, ks, above)
				if err != nil {
					out = make([]tiers.Reservation, len(ks))
				}
				return out, nil
			}
		}},
	}
}
