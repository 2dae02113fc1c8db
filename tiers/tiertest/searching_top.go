package tiertest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/sagestore/sagestore/tiers"
)

// bestAreFirst fills a store with more records than are found at once, of grades and
// orders that are often the same, and compares what a search yields first with all.
func bestAreFirst(t *T) {
	const records = 400
	rng := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // the same records every time
	texts := map[string]*tiers.IndexText{}
	var all []tiers.Record
	for i := range records {
		x := &tiers.IndexText{
			Words: []string{"everywhere", "often"}, Text: "everywhere often",
			Grades: []uint8{uint8(rng.IntN(4)), uint8(rng.IntN(tiers.MaxGrade + 1))}, //nolint:gosec // small
			Order:  int64(rng.IntN(50)), Marks: []string{fmt.Sprint("mark", i%3)},
		}
		switch rng.IntN(10) {
		case 0:
			x.Grades = nil
		case 1:
			x.Words, x.Grades = x.Words[:1], x.Grades[:1]
		case 2:
			x.Order = tiers.MaxOrder
		}
		r := raw(numbered("k", i), "v")
		r.Index = x
		texts[r.Name] = x
		all = append(all, r)
	}
	if _, err := tiers.SaveMany(t.ctx, t.Tier, all, nil); err != nil {
		t.Fatalf("save many: %v", err)
	}
	// What is saved again is where it belongs then, and what is gone nowhere.
	var again []tiers.Record
	for i := 0; i < records; i += 7 {
		r := all[i]
		x := *r.Index
		x.Order = int64(rng.IntN(50))
		texts[r.Name], r.Index = &x, &x
		again = append(again, r)
	}
	if _, err := tiers.SaveMany(t.ctx, t.Tier, again, nil); err != nil {
		t.Fatalf("save many: %v", err)
	}
	for i := 3; i < records; i += 100 {
		t.delete(all[i].Key)
		delete(texts, all[i].Name)
	}
	rare := raw(named("rare"), "v")
	rare.Index = &tiers.IndexText{Words: []string{"rare"}, Text: "rare", Grades: []uint8{3}, Order: 9}
	texts["rare"] = rare.Index
	t.save(rare)
	for _, s := range []tiers.Search{
		words("everywhere"), words("often"), words("often", "everywhere"), words("rare"), words("nowhere"),
		part("every"), part("often"),
		{Category: category, Words: []string{"everywhere"}, Part: "often"},
		{Category: category, Words: []string{"everywhere", "often"}, Marks: []string{"mark1"}},
		{Category: category, Part: "often", Marks: []string{"mark2"}},
		{Category: category, Words: []string{"often"}, Prefix: "k000"},
		{Category: category, Marks: []string{"mark0"}},
	} {
		t.wantTop(s, texts)
	}
}

// wantTop holds what a search yields against all there is.
func (t *T) wantTop(s tiers.Search, texts map[string]*tiers.IndexText) {
	var want []string
	for name, x := range texts {
		if _, ok := gradeIn(x, s); ok && strings.HasPrefix(name, s.Prefix) && strings.Contains(x.Text, s.Part) &&
			!slices.ContainsFunc(s.Marks, func(m string) bool { return !slices.Contains(x.Marks, m) }) {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	top, _ := tiers.As[tiers.TopSearcher](t.Tier)
	var got []string
	last := tiers.Ranked{Grade: tiers.MaxGrade, Order: tiers.MaxOrder}
	for r, err := range top.Top(t.ctx, s) {
		if err != nil {
			t.Fatalf("search %+v: %v", s, err)
		}
		if cmp.Or(cmp.Compare(last.Grade, r.Grade), cmp.Compare(last.Order, r.Order)) < 0 {
			t.Errorf("search %+v: behind grade %d and order %d come %d and %d", s, last.Grade, last.Order, r.Grade, r.Order)
		}
		if x := texts[r.Name]; x != nil {
			if grade, _ := gradeIn(x, s); cmp.Or(cmp.Compare(r.Grade, grade), cmp.Compare(r.Order, x.Order)) < 0 {
				t.Errorf("search %+v: %s comes as grade %d and order %d, and has %d and %d", s, r.Name, r.Grade, r.Order, grade, x.Order)
			}
		}
		last = r
		got = append(got, r.Name)
	}
	slices.Sort(got)
	t.wantNames(fmt.Sprintf("the best first: search for %q and %q with %q", s.Words, s.Part, s.Marks), got, want)
	for r, err := range top.Top(t.ctx, s) {
		if err != nil || r.Name == "" {
			t.Errorf("search %+v that ends early: %q and %s", s, r.Name, said(err))
		}
		break
	}
}

// gradeIn is the grade of a text for a search, and whether it has the words.
func gradeIn(x *tiers.IndexText, s tiers.Search) (grade uint8, ok bool) {
	grade = tiers.MaxGrade
	for _, w := range s.Words {
		i := slices.Index(x.Words, w)
		switch {
		case i < 0:
			return 0, false
		case x.Grades == nil:
			grade = 0
		default:
			grade = min(grade, x.Grades[i])
		}
	}
	return grade, true
}
