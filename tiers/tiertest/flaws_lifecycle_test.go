package tiertest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func lifeFlaws() []flaw {
	return []flaw{
		{"sweeps everything at once", "sweeping/sweep removes the expired in chunks", func(f *flawed) {
			f.sweep = func(ctx context.Context, _ int) (int, error) { return f.reference.Sweep(ctx, 1<<30) }
		}},
		{"sweeps what lives", "sweeping/sweep of nothing removes nothing", func(f *flawed) {
			f.sweep = func(context.Context, int) (n int, err error) {
				f.inside(func() {
					for k, r := range f.records {
						if !r.Expires.IsZero() {
							delete(f.records, k)
							n++
						}
					}
				})
				return n, nil
			}
		}},
		{"sweeps by a note from before", "sweeping/a record saved over an expired one is not swept", func(f *flawed) {
			noted := map[tiers.Key]bool{}
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				if r.TTL != 0 {
					noted[r.Key] = true
				}
				return f.reference.Save(ctx, r, c)
			}
			f.sweep = func(context.Context, int) (int, error) {
				f.inside(func() {
					for k := range noted {
						delete(f.records, k)
					}
				})
				return len(noted), nil
			}
		}},
		{"sweeps what was saved meanwhile", "sweeping/saves win over a sweep that runs", func(f *flawed) {
			var once sync.Once
			noted := make(chan struct{})
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				if r.TTL == 0 { // not before the sweep has begun
					select {
					case <-noted:
					case <-ctx.Done():
					}
				}
				return f.reference.Save(ctx, r, c)
			}
			f.sweep = func(context.Context, int) (int, error) {
				var old []tiers.Key
				f.inside(func() {
					for k, r := range f.records {
						if !r.Live(f.clock.Now()) {
							old = append(old, k)
						}
					}
				})
				once.Do(func() { close(noted) })
				for i := 0; i < 100 && len(old) > 0; i++ { // until one of them was saved
					time.Sleep(time.Millisecond)
					saved := false
					f.inside(func() {
						for _, k := range old {
							r := f.records[k]
							saved = saved || r.Live(f.clock.Now())
						}
					})
					if saved {
						break
					}
				}
				f.inside(func() {
					for _, k := range old {
						delete(f.records, k)
					}
				})
				return 0, nil
			}
		}},
		{"ignores a cancelled context", "contexts/a context that is over changes nothing", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				return f.reference.Save(context.WithoutCancel(ctx), r, c)
			}
		}},
		{"ignores a deadline", "contexts/a deadline that is over changes nothing", func(f *flawed) {
			f.remove = func(ctx context.Context, k tiers.Key, c tiers.Cond) (bool, error) {
				return f.reference.Delete(context.WithoutCancel(ctx), k, c)
			}
		}},
		{"saves and says that it did not", "contexts/a plain failure changed nothing", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				saved, err := f.reference.Save(context.WithoutCancel(ctx), r, c)
				return saved, errors.Join(err, ctx.Err())
			}
		}},
		{"ends a list in silence with its context", "contexts/a list ends with its context", func(f *flawed) {
			f.list = func(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
				return filtered(f.reference.List(context.WithoutCancel(ctx), q), func(*tiers.Record) bool { return ctx.Err() == nil })
			}
		}},
		{"fails on a second Close", "lifecycle/closing twice is no error", func(f *flawed) {
			f.end = func(ctx context.Context) error {
				var closed bool
				f.inside(func() { closed = f.closed })
				if closed {
					return tiers.ErrClosed
				}
				return f.reference.Close(ctx)
			}
		}},
		{"panics on late use", "lifecycle/after Close everything answers ErrClosed", func(f *flawed) {
			f.load = func(ctx context.Context, k tiers.Key) (tiers.Record, error) {
				r, err := f.reference.Load(ctx, k)
				if errors.Is(err, tiers.ErrClosed) {
					panic("send on closed channel")
				}
				return r, err
			}
		}},
		{"hangs on late use", "lifecycle/after Close everything answers ErrClosed", func(f *flawed) {
			f.load = func(ctx context.Context, k tiers.Key) (tiers.Record, error) {
				r, err := f.reference.Load(ctx, k)
				if errors.Is(err, tiers.ErrClosed) {
					<-ctx.Done()
					return tiers.Record{}, ctx.Err()
				}
				return r, err
			}
		}},
		{"cuts a list at Close", "lifecycle/a list that was begun before Close ends", func(f *flawed) {
			f.list = func(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
				n := 0
				return filtered(f.reference.List(ctx, q), func(*tiers.Record) bool { n++; return n < 100 })
			}
		}},
		{"acknowledges after Close what it drops", "lifecycle/closing among calls neither panics nor loses", func(f *flawed) {
			var n int
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				var drop bool
				f.inside(func() { n++; drop = n%50 == 0 && !f.closed })
				if drop {
					return r, nil
				}
				return f.reference.Save(ctx, r, c)
			}
			f.load = func(ctx context.Context, k tiers.Key) (tiers.Record, error) {
				r, err := f.reference.Load(ctx, k)
				if errors.Is(err, tiers.ErrNotFound) {
					return tiers.Record{Key: k}, nil
				}
				return r, err
			}
		}},
		{"loses a record at Close", "lifecycle/everything is there after opening again", func(f *flawed) {
			f.end = func(ctx context.Context) error {
				f.inside(func() { delete(f.records, numbered("k", 7)) })
				return f.reference.Close(ctx)
			}
		}},
		{"is blind to other handles", "lifecycle/another handle sees every save at once", func(f *flawed) {
			f.store = newStore()
		}},
		{"keeps what it loaded", "linearizability/one key is linearizable across handles", func(f *flawed) {
			kept := map[tiers.Key]tiers.Record{}
			var mu sync.Mutex
			f.load = func(ctx context.Context, k tiers.Key) (tiers.Record, error) {
				mu.Lock()
				defer mu.Unlock()
				if r, ok := kept[k]; ok {
					return r, nil
				}
				r, err := f.reference.Load(ctx, k)
				if err == nil {
					kept[k] = r
				}
				return r, err
			}
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				mu.Lock()
				defer mu.Unlock()
				delete(kept, r.Key)
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"numbers each handle by itself", "lifecycle/versions grow across handles", func(f *flawed) {
			var own tiers.Version
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				saved, err := f.reference.Save(ctx, r, c)
				own++
				saved.Version = tiers.Version(f.clock.Now().UnixMicro()) + own
				f.change(r.Key, func(stored *tiers.Record) { stored.Version = saved.Version })
				return saved, err
			}
		}},
		{"checks, then saves, among handles", "lifecycle/two handles count to 400", checksThenSaves},
		{"checks absence, then saves, among handles", "lifecycle/one of two handles wins if-absent", checksThenSaves},
		{"closes the store of all", "lifecycle/closing one handle leaves the other", func(f *flawed) {
			f.end = func(ctx context.Context) error {
				f.inside(func() { clear(f.records) })
				return f.reference.Close(ctx)
			}
		}},
		{"says exists of everything", "capabilities/exists tells without loading", func(f *flawed) {
			f.exists = func(context.Context, tiers.Key) (bool, error) { return true, nil }
		}},
		{"never answers a ping", "capabilities/ping answers", func(f *flawed) {
			f.ping = func(context.Context) error { return tiers.ErrUnavailable }
		}},
		{"counts nothing", "capabilities/stats count entries, hits and misses", func(f *flawed) {
			f.stats = func(context.Context) (tiers.Stats, error) { return tiers.Stats{}, nil }
		}},
		{"counts the expired", "capabilities/count counts live records", func(f *flawed) {
			f.count = func(_ context.Context, s tiers.Space) (n, bytes int64, err error) {
				f.inside(func() {
					for k := range f.records {
						if k.Space() == s {
							n++
							bytes++
						}
					}
				})
				return n, bytes, nil
			}
		}},
		{"says that nobody else sees it", "capabilities/describe tells the truth", func(f *flawed) {
			f.describe = func() tiers.Info { return tiers.Info{Driver: "flawed"} }
		}},
		{"complains without a hint", "capabilities/diagnose has something to say", func(f *flawed) {
			f.diagnose = func(context.Context) []tiers.Finding { return []tiers.Finding{{Subject: "room", Message: "none"}} }
		}},
		{"forgets every tenth save", "model/a thousand concurrent operations agree with a plain map", func(f *flawed) {
			var n int
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				saved, err := f.reference.Save(ctx, r, c)
				f.inside(func() {
					if n++; n%10 == 0 {
						delete(f.records, r.Key)
					}
				})
				return saved, err
			}
		}},
		{"forgets old versions when they expire", "versions/versions grow after expiry", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				_, loadErr := f.reference.Load(ctx, r.Key)
				saved, err := f.reference.Save(ctx, r, c)
				if errors.Is(loadErr, tiers.ErrNotFound) {
					saved.Version = tiers.Version(len(fmt.Sprint(saved.Version)))
					f.change(r.Key, func(stored *tiers.Record) { stored.Version = saved.Version })
				}
				return saved, err
			}
		}},
	}
}
