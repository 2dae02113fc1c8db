package tiertest

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.TopSearcher = (*reference)(nil)

// finds tells whether a search is for the record.
func finds(r *tiers.Record, s tiers.Search) bool {
	here := r.Namespace == s.Namespace && r.Category == s.Category && strings.HasPrefix(r.Name, s.Prefix)
	if !here || r.Index == nil || r.Flags&tiers.Encrypted != 0 || !strings.Contains(r.Index.Text, s.Part) {
		return false
	}
	for _, w := range s.Words {
		if !slices.Contains(r.Index.Words, w) {
			return false
		}
	}
	return true
}

func (t *reference) Search(ctx context.Context, s tiers.Search) iter.Seq2[tiers.Found, error] {
	return t.searchBy(ctx, s, func(r *tiers.Record) bool { return r.Live(t.clock.Now()) && finds(r, s) })
}

func (t *reference) searchBy(ctx context.Context, s tiers.Search, wanted func(r *tiers.Record) bool) iter.Seq2[tiers.Found, error] {
	if err := s.Check(); err != nil {
		return tiers.Failed[tiers.Found](err)
	}
	leave, err := t.enter(ctx)
	if err != nil {
		return tiers.Failed[tiers.Found](err)
	}
	defer leave()
	var all []tiers.Found
	for _, r := range t.records {
		if wanted(&r) {
			all = append(all, tiers.Found{Name: r.Name, Version: r.Version})
		}
	}
	return yieldAll(all)
}

// Top implements tiers.TopSearcher.
func (t *reference) Top(ctx context.Context, s tiers.Search) iter.Seq2[tiers.Ranked, error] {
	return func(yield func(tiers.Ranked, error) bool) {
		var all []tiers.Ranked
		for f, err := range t.Search(ctx, s) {
			if err != nil {
				yield(tiers.Ranked{}, err)
				return
			}
			x := t.records[tiers.Key{Namespace: s.Namespace, Category: s.Category, Name: f.Name}].Index
			if slices.ContainsFunc(s.Marks, func(m string) bool { return !slices.Contains(x.Marks, m) }) {
				continue
			}
			grade, _ := gradeIn(x, s)
			all = append(all, tiers.Ranked{Found: f, Grade: grade, Order: x.Order})
		}
		slices.SortFunc(all, func(a, b tiers.Ranked) int {
			return cmp.Or(cmp.Compare(b.Grade, a.Grade), cmp.Compare(b.Order, a.Order))
		})
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (f *flawed) Top(ctx context.Context, s tiers.Search) iter.Seq2[tiers.Ranked, error] {
	if f.top != nil {
		return f.top(ctx, s)
	}
	return f.reference.Top(ctx, s)
}

func yieldAll(all []tiers.Found) iter.Seq2[tiers.Found, error] {
	return func(yield func(tiers.Found, error) bool) {
		for _, f := range all {
			if !yield(f, nil) {
				return
			}
		}
	}
}

func (t *reference) Unindexed(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Found, error] {
	leave, err := t.enter(ctx)
	if err != nil {
		return tiers.Failed[tiers.Found](err)
	}
	defer leave()
	var all []tiers.Found
	for _, r := range t.selected(q) {
		if r = t.records[r.Key]; (r.Index == nil || r.Flags&tiers.Encrypted != 0) && (q.Limit == 0 || len(all) < q.Limit) {
			all = append(all, tiers.Found{Name: r.Name, Version: r.Version})
		}
	}
	return yieldAll(all)
}

func (t *reference) Gaps(ctx context.Context) (uint64, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	return uint64(t.high), nil // any save may have left one
}

func (t *reference) Reindex(ctx context.Context, rs []tiers.Record) error {
	leave, err := t.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	for _, r := range rs {
		if now, ok := t.records[r.Key]; ok && now.Version == r.Version {
			now.Index = r.Index
			t.records[r.Key] = now
		}
	}
	return nil
}

func (f *flawed) Search(ctx context.Context, s tiers.Search) iter.Seq2[tiers.Found, error] {
	if f.search != nil {
		return f.search(ctx, s)
	}
	return f.reference.Search(ctx, s)
}

func searchFlaws() []flaw {
	search := func(wanted func(f *flawed, r *tiers.Record, s tiers.Search) bool) func(f *flawed) {
		return func(f *flawed) {
			f.search = func(ctx context.Context, s tiers.Search) iter.Seq2[tiers.Found, error] {
				return f.searchBy(ctx, s, func(r *tiers.Record) bool { return wanted(f, r, s) })
			}
		}
	}
	return []flaw{
		{"loads the text", "searching/the text for the index is never loaded", func(f *flawed) {
			f.load = func(ctx context.Context, k tiers.Key) (tiers.Record, error) {
				r, err := f.reference.Load(ctx, k)
				f.inside(func() { r.Index = f.records[k].Index })
				return r, err
			}
		}},
		{"looks for one of the words", "searching/a search finds what has all the words and the part", search(func(f *flawed, r *tiers.Record, s tiers.Search) bool {
			s.Words = s.Words[:min(1, len(s.Words))]
			return r.Live(f.clock.Now()) && finds(r, s)
		})},
		{"forgets the namespace", "searching/a search finds what has all the words and the part", search(func(f *flawed, r *tiers.Record, s tiers.Search) bool {
			s.Namespace = r.Namespace
			return r.Live(f.clock.Now()) && finds(r, s)
		})},
		{"finds what has expired", "searching/the text goes with the record", search(func(_ *flawed, r *tiers.Record, s tiers.Search) bool {
			return finds(r, s)
		})},
		{"keeps the text of what was replaced", "searching/the text goes with the record", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				if r.Index == nil {
					f.inside(func() { r.Index = f.records[r.Key].Index })
				}
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"drops the text before it looks at the condition", "searching/a refused save leaves the text as it is", func(f *flawed) {
			f.save = func(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
				f.change(r.Key, func(old *tiers.Record) { old.Index = nil })
				return f.reference.Save(ctx, r, c)
			}
		}},
		{"indexes what is encrypted", "searching/nothing of an encrypted record is indexed", search(func(f *flawed, r *tiers.Record, s tiers.Search) bool {
			plain := *r
			plain.Flags = 0
			return r.Live(f.clock.Now()) && finds(&plain, s)
		})},
		{"gives any version the text", "searching/records without a text are named and can get one", func(f *flawed) {
			f.reindex = func(ctx context.Context, rs []tiers.Record) error {
				for i := range rs {
					rs[i].Version = f.records[rs[i].Key].Version
				}
				return f.reference.Reindex(ctx, rs)
			}
		}},
		{"fails on a quote", "searching/any text can be looked for, and no bad one is stored", func(f *flawed) {
			f.search = func(ctx context.Context, s tiers.Search) iter.Seq2[tiers.Found, error] {
				if strings.Contains(s.Part, `"`) {
					return tiers.Failed[tiers.Found](tiers.ErrCorrupt)
				}
				return f.reference.Search(ctx, s)
			}
		}},
		{"misses one in a hundred", "searching/a search is what a plain look at the texts is", func(f *flawed) {
			n := 0
			f.search = func(ctx context.Context, s tiers.Search) iter.Seq2[tiers.Found, error] {
				if n++; n%100 == 0 {
					return yieldAll(nil)
				}
				return f.reference.Search(ctx, s)
			}
		}},
		{"yields the best in any order", "searching/the best are found first", func(f *flawed) {
			f.top = func(ctx context.Context, s tiers.Search) iter.Seq2[tiers.Ranked, error] {
				return func(yield func(tiers.Ranked, error) bool) {
					for found, err := range f.reference.Search(ctx, s) {
						if !yield(tiers.Ranked{Found: found, Grade: tiers.MaxGrade}, err) {
							return
						}
					}
				}
			}
		}},
		{"forgets the marks", "searching/the best are found first", func(f *flawed) {
			f.top = func(ctx context.Context, s tiers.Search) iter.Seq2[tiers.Ranked, error] {
				s.Marks = nil
				return f.reference.Top(ctx, s)
			}
		}},
		{"forgets the texts at a restart", "searching/texts survive a restart", func(f *flawed) {
			f.end = func(ctx context.Context) error {
				f.inside(func() {
					for k, r := range f.records {
						r.Index = nil
						f.records[k] = r
					}
				})
				return f.reference.Close(ctx)
			}
		}},
		{"searches after close", "searching/a search ends with its context and with the tier", func(f *flawed) {
			f.search = func(_ context.Context, s tiers.Search) iter.Seq2[tiers.Found, error] {
				return f.searchBy(context.Background(), s, func(*tiers.Record) bool { return true })
			}
		}},
	}
}

func (f *flawed) Reindex(ctx context.Context, rs []tiers.Record) error {
	if f.reindex != nil {
		return f.reindex(ctx, rs)
	}
	return f.reference.Reindex(ctx, rs)
}
