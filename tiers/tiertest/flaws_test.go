package tiertest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// flaw is a way to break the contract, and the rule that has to notice.
type flaw struct {
	name string
	rule string
	make func(f *flawed) // replaces methods of a fresh handle
}

func flaws() []flaw {
	return slices.Concat(valueFlaws(), versionFlaws(), expiryFlaws(), listFlaws(), batchFlaws(), applyFlaws(), lifeFlaws())
}

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

func versionFlaws() []flaw {
	return []flaw{
		{"counts versions from 1 for each new record", "versions/versions grow across delete and re-create", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				old, _ := f.reference.Load(ctx, r.Key)
				saved, err := f.reference.Save(ctx, r, c)
				saved.Version = old.Version + 1
				f.change(r.Key, func(stored *tiers.Record) { stored.Version = old.Version + 1 })
				return saved, err
			}
		}},
		{"takes the clock for the version", "versions/versions grow with every save", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				f.inside(func() { f.high = 0 })
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"trusts the clock for a new key", "versions/versions grow when the clock is set back", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				f.inside(func() { f.high = f.records[r.Key].Version })
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"forgets the highest version at Close", "versions/versions grow across opening again", func(f *flawed) {
			f.end = func(ctx context.Context) error {
				f.inside(func() { f.high = 0 })
				return f.reference.Close(ctx)
			}
		}},
		{"forgets created", "versions/created stays and updated moves", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				saved, err := f.reference.Save(ctx, r, c)
				saved.Created = saved.Updated
				f.change(r.Key, func(stored *tiers.Record) { stored.Created = stored.Updated })
				return saved, err
			}
		}},
		{"counts versions by one", "versions/versions fit a JSON number and follow the clock", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				saved, err := f.reference.Save(ctx, r, c)
				saved.Version = 1
				return saved, err
			}
		}},
		{"swallows a conflict", "conditions/if-version saves over that version only", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				saved, err := f.reference.Save(ctx, r, c)
				if errors.Is(err, tiers.ErrConflict) {
					return r, nil
				}
				return saved, err
			}
		}},
		{"creates over a version that is not there", "conditions/if-version of an absent key is a conflict", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				if _, err := f.reference.Load(ctx, r.Key); errors.Is(err, tiers.ErrNotFound) {
					c = tiers.Cond{}
				}
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"answers a conflict for what exists", "conditions/if-absent saves once", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				saved, err := f.reference.Save(ctx, r, c)
				if errors.Is(err, tiers.ErrExists) {
					err = tiers.ErrConflict
				}
				return saved, err
			}
		}},
		{"takes an expired record for present", "conditions/if-absent sees an expired record as absent", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				var there bool
				f.inside(func() { _, there = f.records[r.Key] })
				if v, ok := c.Version(); ok && v == 0 && there {
					return tiers.Record{}, tiers.Fail("save", "flawed", r.Key, tiers.ErrExists)
				}
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"ignores the condition of a delete", "conditions/conditional delete", func(f *flawed) {
			f.remove = func(ctx context.Context, k tiers.Key, _ tiers.Cond) (bool, error) {
				return f.reference.Delete(ctx, k, tiers.Cond{})
			}
		}},
		{"checks, then saves", "conditions/no read-modify-write is lost", checksThenSaves},
		{"checks absence, then saves", "conditions/one of many wins if-absent", checksThenSaves},
		{"checks, then saves, seen by the checker", "linearizability/one key is linearizable", checksThenSaves},
	}
}

func checksThenSaves(f *flawed) {
	f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
		if _, conditional := c.Version(); conditional {
			old, _ := f.reference.Load(ctx, r.Key)
			if err := c.Holds(old.Version); err != nil {
				return tiers.Record{}, tiers.Fail("save", "flawed", r.Key, err)
			}
			for range 20 {
				runtime.Gosched()
			}
		}
		return f.reference.Save(ctx, r, tiers.Cond{})
	}
}

func expiryFlaws() []flaw {
	return []flaw{
		{"loads expired records", "expiry/an expired record is absent for everything", func(f *flawed) {
			f.load = func(_ context.Context, k tiers.Key) (r tiers.Record, err error) {
				err = tiers.Fail("load", "flawed", k, tiers.ErrNotFound)
				f.change(k, func(stored *tiers.Record) { r, err = copied(*stored), nil })
				return r, err
			}
		}},
		{"lists expired records", "expiry/a list is the first to see an expired record", func(f *flawed) {
			f.list = func(_ context.Context, _ tiers.Query) iter.Seq2[tiers.Record, error] {
				return func(yield func(tiers.Record, error) bool) {
					var found []tiers.Record
					f.inside(func() { found = slices.Collect(maps.Values(f.records)) })
					slices.SortFunc(found, func(a, b tiers.Record) int { return strings.Compare(a.Name, b.Name) })
					for _, r := range found {
						if !yield(r, nil) {
							return
						}
					}
				}
			}
		}},
		{"ends a list at the first expired page", "expiry/a limited list reads past expired records", func(f *flawed) {
			f.list = func(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
				n := 0
				f.inside(func() {
					for _, r := range f.records {
						if !r.Live(f.clock.Now()) {
							n++
						}
					}
				})
				if q.Limit > 0 && n >= q.Limit {
					return func(func(tiers.Record, error) bool) {}
				}
				return f.reference.List(ctx, q)
			}
		}},
		{"keeps seconds only", "expiry/expires is the tier's time plus the TTL", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				saved, err := f.reference.Save(ctx, r, c)
				saved.Expires = saved.Expires.Truncate(time.Second)
				f.change(r.Key, func(stored *tiers.Record) { stored.Expires = saved.Expires })
				return saved, err
			}
		}},
		{"looks at the wrong clock", "expiry/expires is the tier's time plus the TTL", func(f *flawed) {
			f.clock = tiers.SystemClock()
		}},
		{"stores a negative TTL for ever", "expiry/a negative TTL makes the key absent at once", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				r.TTL = max(r.TTL, 0)
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"passes a negative TTL over", "expiry/a negative TTL makes the key absent at once", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				if r.TTL < 0 {
					return r, nil
				}
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"rounds a short TTL to none", "expiry/a TTL below a millisecond expires", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				r.TTL = r.TTL.Truncate(time.Millisecond)
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"has a default TTL", "expiry/no TTL is no TTL", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				if r.TTL == 0 {
					r.TTL = 24 * time.Hour
				}
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"keeps the TTL of before", "expiry/a save without TTL clears an earlier one", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				old, _ := f.reference.Load(ctx, r.Key)
				saved, err := f.reference.Save(ctx, r, c)
				if r.TTL == 0 {
					f.change(r.Key, func(stored *tiers.Record) { stored.Expires = old.Expires })
				}
				return saved, err
			}
		}},
		{"never shortens a TTL", "expiry/a save renews or shortens the TTL", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				old, _ := f.reference.Load(ctx, r.Key)
				saved, err := f.reference.Save(ctx, r, c)
				if old.Expires.After(saved.Expires) {
					f.change(r.Key, func(stored *tiers.Record) { stored.Expires = old.Expires })
				}
				return saved, err
			}
		}},
		{"keeps a year at most", "expiry/a TTL of ten years holds that long", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				r.TTL = min(r.TTL, 365*24*time.Hour)
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"forgets expiry at Close", "expiry/expiry survives opening again", func(f *flawed) {
			f.end = func(ctx context.Context) error {
				f.inside(func() {
					for k, r := range f.records {
						r.Expires = time.Time{}
						f.records[k] = r
					}
				})
				return f.reference.Close(ctx)
			}
		}},
		{"revives by touch", "expiry/touch does not revive", func(f *flawed) {
			f.touch = func(_ context.Context, k tiers.Key, ttl time.Duration) (there bool, err error) {
				f.change(k, func(stored *tiers.Record) {
					there = true
					stored.Expires = tiers.Deadline(f.clock.Now(), ttl)
				})
				return there, nil
			}
		}},
		{"counts a touch as a save", "expiry/touch changes expiry alone", func(f *flawed) {
			f.touch = func(ctx context.Context, k tiers.Key, ttl time.Duration) (bool, error) {
				there, err := f.reference.Touch(ctx, k, ttl)
				f.change(k, func(stored *tiers.Record) { stored.Version = f.next(f.clock.Now()) })
				return there, err
			}
		}},
		{"inherits a touched expiry", "model/random programs agree with a plain map", func(f *flawed) {
			touched := map[tiers.Key]time.Time{}
			f.touch = func(ctx context.Context, k tiers.Key, ttl time.Duration) (bool, error) {
				there, err := f.reference.Touch(ctx, k, ttl)
				f.change(k, func(stored *tiers.Record) { touched[k] = stored.Expires })
				return there, err
			}
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				saved, err := f.reference.Save(ctx, r, c)
				f.change(r.Key, func(stored *tiers.Record) {
					if at, ok := touched[r.Key]; ok && r.TTL == 0 && saved.Version != 0 {
						stored.Expires = at
					}
				})
				return saved, err
			}
		}},
	}
}

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

func batchFlaws() []flaw {
	return []flaw{
		{"saves half of a batch", "batches/a batch is seen by everything", func(f *flawed) {
			f.saveMany = func(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
				saved, err := f.reference.SaveMany(ctx, rs, cs)
				for _, r := range rs[len(rs)/2:] {
					_, _ = f.reference.Delete(ctx, r.Key, tiers.Cond{})
				}
				return saved, err
			}
		}},
		{"leaves absent keys out", "batches/batches align with their arguments", func(f *flawed) {
			f.loadMany = func(ctx context.Context, ks []tiers.Key) ([]tiers.Record, error) {
				rs, err := f.reference.LoadMany(ctx, ks)
				return slices.DeleteFunc(rs, func(r tiers.Record) bool { return r.Version == 0 }), err
			}
		}},
		{"can't do nothing", "batches/an empty batch does nothing", func(f *flawed) {
			f.saveMany = func(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
				_ = rs[0]
				return f.reference.SaveMany(ctx, rs, cs)
			}
		}},
		{"saves a batch backwards", "batches/a key twice in a batch is done in turn", func(f *flawed) {
			f.saveMany = func(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
				rs, cs = slices.Clone(rs), slices.Clone(cs)
				slices.Reverse(rs)
				slices.Reverse(cs)
				saved, err := f.reference.SaveMany(ctx, rs, cs)
				slices.Reverse(saved)
				return saved, err
			}
		}},
		{"does not say which item failed", "batches/conditions of a batch hold item by item", func(f *flawed) {
			f.saveMany = func(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
				saved, err := f.reference.SaveMany(ctx, rs, cs)
				if errors.Is(err, tiers.ErrConflict) {
					err = tiers.ErrConflict
				}
				return saved, err
			}
		}},
		{"keeps what went well of an atomic batch", "batches/an atomic batch is all or nothing", func(f *flawed) {
			f.saveMany = func(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
				out := make([]tiers.Record, len(rs))
				var errs []error
				for i, r := range rs {
					var err error
					if out[i], err = f.reference.Save(ctx, r, at(cs, i)); err != nil {
						errs = append(errs, err)
					}
				}
				return out, errors.Join(errs...)
			}
		}},
		{"gives up a load of many for one bad key", "batches/a bad key in load many spoils no other", func(f *flawed) {
			f.loadMany = func(ctx context.Context, ks []tiers.Key) ([]tiers.Record, error) {
				rs, err := f.reference.LoadMany(ctx, ks)
				if err != nil {
					rs = make([]tiers.Record, len(ks))
				}
				return rs, err
			}
		}},
		{"merges batches and loses some", "batches/many batches at once lose nothing", func(f *flawed) {
			f.saveMany = func(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
				before := map[tiers.Key]tiers.Record{}
				f.inside(func() { before = maps.Clone(f.records) })
				runtime.Gosched()
				saved, err := f.reference.SaveMany(ctx, rs, cs)
				f.inside(func() {
					for _, r := range saved {
						before[r.Key] = r
					}
					f.records = before
				})
				return saved, err
			}
		}},
		{"does not number a batch", "versions/versions grow in batches", func(f *flawed) {
			f.saveMany = func(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
				saved, err := f.reference.SaveMany(ctx, rs, cs)
				for _, r := range rs {
					f.change(r.Key, func(stored *tiers.Record) { stored.Version = 1 })
				}
				return saved, err
			}
		}},
	}
}

func applyFlaws() []flaw {
	each := func(edit func(f *flawed, r *tiers.Record, over *tiers.Cond) (skip bool)) func(f *flawed) {
		return func(f *flawed) {
			f.apply = func(ctx context.Context, rs []tiers.Record, over []tiers.Cond) error {
				for i, r := range rs {
					c := at(over, i)
					if edit(f, &r, &c) {
						continue
					}
					if err := f.reference.Apply(ctx, []tiers.Record{r}, []tiers.Cond{c}); err != nil {
						return err
					}
				}
				return ctx.Err()
			}
		}
	}
	return []flaw{
		{"gives applied records a version of its own", "apply/applied records are stored as they are", each(func(f *flawed, r *tiers.Record, _ *tiers.Cond) bool {
			r.Version += 5
			return false
		})},
		{"applies over newer ones", "apply/apply keeps what is newer", each(func(f *flawed, r *tiers.Record, c *tiers.Cond) bool {
			f.inside(func() { delete(f.records, r.Key) })
			return false
		})},
		{"deletes whatever the version", "apply/an applied delete follows the same rule", each(func(f *flawed, r *tiers.Record, _ *tiers.Cond) bool {
			if r.Deleted {
				f.inside(func() { delete(f.records, r.Key) })
			}
			return r.Deleted
		})},
		{"ignores the condition of apply", "apply/a condition replaces the rule", each(func(_ *flawed, _ *tiers.Record, c *tiers.Cond) bool {
			*c = tiers.Cond{}
			return false
		})},
		{"passes expired records over", "apply/an expired applied record is a delete", each(func(f *flawed, r *tiers.Record, _ *tiers.Cond) bool {
			return !r.Live(f.clock.Now())
		})},
		{"renews the time of applied records", "apply/an applied expiry is an instant", each(func(f *flawed, r *tiers.Record, _ *tiers.Cond) bool {
			if !r.Expires.IsZero() {
				r.Expires = r.Expires.Add(time.Hour)
			}
			return false
		})},
		{"issues versions below applied ones", "apply/later saves get higher versions than applied ones", func(f *flawed) {
			f.apply = func(ctx context.Context, rs []tiers.Record, over []tiers.Cond) error {
				var high tiers.Version
				f.inside(func() { high = f.high })
				err := f.reference.Apply(ctx, rs, over)
				f.inside(func() { f.high = high })
				return err
			}
		}},
		{"applies twice as two", "apply/apply is idempotent", each(func(f *flawed, r *tiers.Record, _ *tiers.Cond) bool {
			f.change(r.Key, func(stored *tiers.Record) {
				if stored.Version == r.Version {
					r.Value = append(stored.Value, r.Value...)
				}
			})
			return false
		})},
		{"compares with expired records", "apply/an expired record gives way to any applied one", each(func(f *flawed, r *tiers.Record, c *tiers.Cond) bool {
			var there bool
			f.inside(func() { _, there = f.records[r.Key] })
			v, ok := c.Version()
			return ok && v == 0 && there
		})},
	}
}

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
