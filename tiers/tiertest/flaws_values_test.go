package tiertest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/sagestore/sagestore/tiers"
)

func valueFlaws() []flaw {
	return []flaw{
		{"keeps the first of two quick saves", "values/the second of two quick saves wins", func(f *flawed) {
			var mu sync.Mutex
			saves := map[tiers.Key]int{}
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				mu.Lock()
				saves[r.Key]++
				n := saves[r.Key]
				mu.Unlock()
				if n == 2 {
					old, err := f.reference.Load(ctx, r.Key)
					old.Value = r.Value
					return old, err
				}
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"forgets every save", "values/what was saved is loaded", func(f *flawed) {
			f.load = func(_ context.Context, k tiers.Key) (tiers.Record, error) {
				return tiers.Record{}, tiers.Fail("load", "flawed", k, tiers.ErrNotFound)
			}
		}},
		{"saves late", "values/a save that is deleted at once is gone", func(f *flawed) {
			f.remove = func(ctx context.Context, k tiers.Key, c tiers.Cond) (bool, error) {
				r, loadErr := f.reference.Load(ctx, k)
				existed, err := f.reference.Delete(ctx, k, c)
				if loadErr == nil {
					_, _ = f.reference.Save(ctx, r, tiers.Cond{})
				}
				return existed, err
			}
		}},
		{"can't delete what is absent", "values/deleting twice is no error", func(f *flawed) {
			f.remove = func(ctx context.Context, k tiers.Key, c tiers.Cond) (bool, error) {
				existed, err := f.reference.Delete(ctx, k, c)
				if err == nil && !existed {
					err = tiers.ErrNotFound
				}
				return existed, err
			}
		}},
		{"hands out its own memory", "values/values are copied", func(f *flawed) {
			f.load = func(ctx context.Context, k tiers.Key) (tiers.Record, error) {
				r, err := f.reference.Load(ctx, k)
				f.change(k, func(stored *tiers.Record) { r.Value = stored.Value })
				return r, err
			}
		}},
		{"keeps the caller's slice", "values/values are copied", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				saved, err := f.reference.Save(ctx, r, c)
				f.change(r.Key, func(stored *tiers.Record) { stored.Value = r.Value })
				return saved, err
			}
		}},
		{"lists its own memory", "values/values are copied", func(f *flawed) {
			f.list = func(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
				return filtered(f.reference.List(ctx, q), func(r *tiers.Record) bool {
					f.change(r.Key, func(stored *tiers.Record) { r.Value = stored.Value })
					return true
				})
			}
		}},
		{"takes empty for missing", "values/values come back byte for byte", func(f *flawed) {
			f.load = func(ctx context.Context, k tiers.Key) (tiers.Record, error) {
				r, err := f.reference.Load(ctx, k)
				if err == nil && len(r.Value) == 0 {
					err = tiers.ErrNotFound
				}
				return r, err
			}
		}},
		{"ends values at NUL", "values/values come back byte for byte", func(f *flawed) {
			f.load = func(ctx context.Context, k tiers.Key) (tiers.Record, error) {
				r, err := f.reference.Load(ctx, k)
				before, _, _ := strings.Cut(string(r.Value), "\x00")
				r.Value = []byte(before)
				return r, err
			}
		}},
		{"cuts large values", "values/too large a value is refused with the limit named", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				r.Value = r.Value[:min(len(r.Value), referenceLimit)]
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"stores half of a large value", "values/a value of 10 MiB is stored whole or refused", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				r.Value = r.Value[:min(len(r.Value), referenceLimit/2)]
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"loses the codec", "values/codec, schema and flags are kept", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				saved, err := f.reference.Save(ctx, r, c)
				f.change(r.Key, func(stored *tiers.Record) { stored.Codec = "json" })
				return saved, err
			}
		}},
		{"answers bare sentinels", "values/errors say what failed on which key", func(f *flawed) {
			f.load = func(ctx context.Context, k tiers.Key) (tiers.Record, error) {
				r, err := f.reference.Load(ctx, k)
				if errors.Is(err, tiers.ErrNotFound) {
					err = tiers.ErrNotFound
				}
				return r, err
			}
		}},
		{"aliases keys", "keys/awkward keys are distinct and list back", func(f *flawed) {
			alias := func(k tiers.Key) tiers.Key {
				k.Name = strings.Map(func(c rune) rune {
					if strings.ContainsRune("./ ", c) {
						return '_'
					}
					return c
				}, k.Name)
				return k
			}
			f.load = func(ctx context.Context, k tiers.Key) (tiers.Record, error) {
				return f.reference.Load(ctx, alias(k))
			}
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				r.Key = alias(r.Key)
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"folds case", "keys/awkward keys are distinct and list back", func(f *flawed) {
			f.load = func(ctx context.Context, k tiers.Key) (tiers.Record, error) {
				k.Name = strings.ToLower(k.Name)
				return f.reference.Load(ctx, k)
			}
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				r.Name = strings.ToLower(r.Name)
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"takes any key", "keys/bad keys are refused", func(f *flawed) {
			f.load = func(ctx context.Context, k tiers.Key) (tiers.Record, error) {
				if k.Check() != nil {
					return tiers.Record{}, tiers.Fail("load", "flawed", k, tiers.ErrNotFound)
				}
				return f.reference.Load(ctx, k)
			}
		}},
		{"lists the categories below as well", "keys/spaces keep the same key apart", func(f *flawed) {
			f.list = func(_ context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
				return func(yield func(tiers.Record, error) bool) {
					var found []tiers.Record
					f.inside(func() {
						for k, r := range f.records {
							if k.Namespace == q.Namespace && (k.Category + ".")[:min(len(k.Category)+1, len(q.Category)+1)] == q.Category+"." {
								found = append(found, r)
							}
						}
					})
					slices.SortFunc(found, func(a, b tiers.Record) int { return strings.Compare(a.Name, b.Name) })
					for _, r := range found {
						if !yield(r, nil) {
							return
						}
					}
				}
			}
		}},
	}
}
