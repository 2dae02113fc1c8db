package tiertest

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sagestore/sagestore/tiers"
)

func listFlaws() []flaw {
	reordered := func(less func(a, b tiers.Record) int) func(f *flawed) {
		return func(f *flawed) {
			f.list = func(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
				var all []tiers.Record
				for r, err := range f.reference.List(ctx, q) {
					if err != nil {
						return tiers.Failed[tiers.Record](err)
					}
					all = append(all, r)
				}
				slices.SortStableFunc(all, less)
				return func(yield func(tiers.Record, error) bool) {
					for _, r := range all {
						if !yield(r, nil) {
							return
						}
					}
				}
			}
		}
	}
	return []flaw{
		{"lists without regard to case", "listing/a list selects what the query says", reordered(func(a, b tiers.Record) int {
			return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
		})},
		{"lists in order of age", "model/random programs agree with a plain map", reordered(func(a, b tiers.Record) int {
			return int(int64(a.Version) - int64(b.Version))
		})},
		{"takes % and _ for wildcards", "listing/a list selects what the query says", func(f *flawed) {
			f.list = func(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
				pattern := q.Prefix
				if at := strings.IndexAny(pattern, "%_"); at >= 0 {
					q.Prefix = pattern[:at]
				}
				return f.reference.List(ctx, q)
			}
		}},
		{"includes the key it goes on after", "listing/a list selects what the query says", func(f *flawed) {
			f.list = func(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
				if q.After != "" && !q.Reverse {
					q.After = q.After[:len(q.After)-1]
				}
				return f.reference.List(ctx, q)
			}
		}},
		{"loses the record at a page border", "listing/lists of many pages are whole and in order", func(f *flawed) {
			f.list = func(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
				n := 0
				return filtered(f.reference.List(ctx, q), func(*tiers.Record) bool { n++; return n%1000 != 0 })
			}
		}},
		{"goes on after the loop has ended", "listing/a list may be left early", func(f *flawed) {
			f.list = func(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
				return func(yield func(tiers.Record, error) bool) {
					for r, err := range f.reference.List(ctx, q) {
						yield(r, err)
					}
				}
			}
		}},
		{"lists once", "listing/a list may be started again", func(f *flawed) {
			f.list = func(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
				used := false
				return filtered(f.reference.List(ctx, q), func(r *tiers.Record) bool {
					if r.Name == "k00004" {
						defer func() { used = true }()
					}
					return !used
				})
			}
		}},
		{"holds its lock while it yields", "listing/saving and deleting within the loop is fine", func(f *flawed) {
			f.list = func(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
				return func(yield func(tiers.Record, error) bool) {
					page, err := f.page(ctx, q)
					if err != nil {
						yield(tiers.Record{}, err)
						return
					}
					f.mu.Lock()
					defer f.mu.Unlock()
					for _, r := range page {
						if !yield(r, nil) {
							return
						}
					}
				}
			}
		}},
		{"lists keys without versions", "listing/keys-only lists tell the versions", func(f *flawed) {
			f.list = func(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
				return filtered(f.reference.List(ctx, q), func(r *tiers.Record) bool {
					if q.KeysOnly {
						r.Version = 0
					}
					return true
				})
			}
		}},
		{"can't list nothing", "listing/an empty list is no error", func(f *flawed) {
			f.list = func(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
				if page, err := f.page(ctx, q); err == nil && len(page) == 0 {
					return tiers.Failed[tiers.Record](tiers.ErrNotFound)
				}
				return f.reference.List(ctx, q)
			}
		}},
		{"remembers emptied spaces", "listing/spaces yields what holds records, in order", func(f *flawed) {
			seen := map[tiers.Space]bool{}
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				f.inside(func() { seen[r.Space()] = true })
				return f.reference.Save(ctx, r, c)
			}
			f.spaces = func(context.Context) iter.Seq2[tiers.Space, error] {
				return func(yield func(tiers.Space, error) bool) {
					for _, s := range inOrder(slices.Collect(maps.Keys(seen))) {
						if !yield(s, nil) {
							return
						}
					}
				}
			}
		}},
		{"skips a record when somebody writes", "listing/a list under concurrent saves keeps its order", func(f *flawed) {
			var saves atomic.Int64
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				saves.Add(1)
				return f.reference.Save(ctx, r, c)
			}
			f.list = func(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
				return filtered(f.reference.List(ctx, q), func(r *tiers.Record) bool { return saves.Load() == 0 || r.Name != "k00007" })
			}
		}},
	}
}
