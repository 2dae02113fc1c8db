package tiertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func listingRules() []rule {
	return []rule{
		{
			name: "a list selects what the query says",
			why:  "prefix, after, limit and direction combine, and none has wildcards",
			run:  listSelects,
		},
		{
			name: "lists of many pages are whole and in order",
			why:  "page borders are where records get lost or doubled",
			run:  manyPages,
		},
		{
			name: "a list may be left early",
			why:  "a loop that ends must free what the list holds",
			run: func(t *T) {
				t.fill("k", 30)
				for n := range 20 {
					seen := 0
					for _, err := range t.Tier.List(t.ctx, tiers.Query{Category: category}) {
						if err != nil {
							t.Fatalf("list: %v", err)
						}
						if seen++; seen > n {
							break
						}
					}
				}
				for _, err := range t.Tier.Spaces(t.ctx) {
					if err != nil {
						t.Fatalf("spaces: %v", err)
					}
					break
				}
				t.save(raw(named("after"), "v"))
				t.wantValue("after many left lists", named("after"), "v")
			},
		},
		{
			name: "a list may be started again",
			why:  "an iterator is a description of the walk, not the walk",
			run: func(t *T) {
				want := t.fill("k", 5)
				seq := t.Tier.List(t.ctx, tiers.Query{Category: category})
				for range 2 {
					var got []string
					for r, err := range seq {
						if err != nil {
							t.Fatalf("list: %v", err)
						}
						got = append(got, r.Name)
					}
					t.wantNames("the same sequence", got, want)
				}
			},
		},
		{
			name: "saving and deleting within the loop is fine",
			why:  "a list that holds a lock while it yields hangs here",
			run:  savingInTheLoop,
		},
		{
			name: "keys-only lists tell the versions",
			why:  "sweeps and comparisons need no values, but must not mistake the record",
			run: func(t *T) {
				t.fill("k", 20)
				full := t.list(tiers.Query{Category: category})
				lean := t.list(tiers.Query{Category: category, KeysOnly: true})
				t.wantNames("keys only", namesOf(lean), namesOf(full))
				for i := range min(len(full), len(lean)) {
					if lean[i].Version != full[i].Version || lean[i].Key != full[i].Key {
						t.Errorf("%s has version %d, want %d", show(lean[i].Key), lean[i].Version, full[i].Version)
					}
				}
			},
		},
		{
			name: "an empty list is no error",
			why:  "nothing there is an answer",
			run: func(t *T) {
				t.wantNames("of a category that never was", t.names(tiers.Query{Category: "never.was"}), nil)
				t.wantNames("of a namespace that never was", t.names(tiers.Query{Namespace: "never", Category: category}), nil)
				if got := t.spaces(); len(got) != 0 {
					t.Errorf("spaces yields %v of an empty tier", got)
				}
			},
		},
		{
			name: "spaces yields what holds records, in order",
			why:  "backups, sweeps and migrations walk it",
			run:  spacesInOrder,
		},
		{
			name: "a list under concurrent saves keeps its order",
			why:  "a walk must not skip what was there all the time, nor yield it twice",
			run:  listUnderSaves,
		},
	}
}

func listSelects(t *T) {
	all := []string{
		"%", "%a", "*", "*a", "A", "B", "_", "_a", "a", "a%", "a%b", "a*", "a*b", "a/b", "a/c", "a?", "a[b]", `a\`, `a\b`, "a_", "a_b",
		"aa", "aab", "ab", "abc", "acme", "acme-corp/x", "acme/", "acme/x", "acme/x/y", "acmf", "b", "é", "日本", "日本語", "😀", "\U0010ffff",
	}
	slices.Sort(all)
	for i := range all { // not in the order of keys
		j := i * 17 % len(all)
		t.save(raw(named(all[j]), all[j]))
	}
	if !slices.Equal(t.names(tiers.Query{Category: category}), all) {
		t.wantNames("all", t.names(tiers.Query{Category: category}), all)
	}
	prefixes := []string{"", "%", "_", "*", "a", "a%", "a_", "a*", "a?", "a[", `a\`, "aa", "acme", "acme/", "acme/x", "b", "z", "é", "日", "😀", "A", "\U0010ffff"}
	afters := []string{"", "!", "A", "a", "a%b", "aaaa", "acme/", "acme0", "zzz", "日本", "\U0010ffff"}
	for _, prefix := range prefixes {
		for _, after := range afters {
			for _, limit := range []int{0, 2} {
				for _, reverse := range []bool{false, true} {
					q := tiers.Query{Category: category, Prefix: prefix, After: after, Limit: limit, Reverse: reverse}
					t.wantNames(fmt.Sprintf("prefix %q after %q limit %d reverse %v", prefix, after, limit, reverse),
						t.names(q), selected(all, q))
				}
			}
		}
	}
}

// selected is the query on names in order, as the contract words it.
func selected(sorted []string, q tiers.Query) []string {
	names := slices.Clone(sorted)
	if q.Reverse {
		slices.Reverse(names)
	}
	var out []string
	for _, n := range names {
		beyond := q.After == "" || !q.Reverse && n > q.After || q.Reverse && n < q.After
		if beyond && strings.HasPrefix(n, q.Prefix) && (q.Limit == 0 || len(out) < q.Limit) {
			out = append(out, n)
		}
	}
	return out
}

func manyPages(t *T) {
	const n = 1100
	want := t.fill("k", n)
	t.wantNames("all", t.names(tiers.Query{Category: category}), want)
	for _, r := range t.list(tiers.Query{Category: category, After: numbered("k", 990).Name}) {
		var i int
		if _, err := fmt.Sscanf(r.Name, "k%d", &i); err != nil || string(r.Value) != fmt.Sprintf("value of %d", i) {
			t.Errorf("%s comes with the value %s", show(r.Key), cut(string(r.Value)))
		}
	}
	backward := slices.Clone(want)
	slices.Reverse(backward)
	t.wantNames("in reverse", t.names(tiers.Query{Category: category, Reverse: true, KeysOnly: true}), backward)
	t.wantNames("limited beyond a page", t.names(tiers.Query{Category: category, Limit: 1050, KeysOnly: true}), want[:1050])

	var paged []string
	after := ""
	for range n {
		page := t.names(tiers.Query{Category: category, After: after, Limit: 333, KeysOnly: true})
		if len(page) == 0 {
			break
		}
		paged = append(paged, page...)
		after = page[len(page)-1]
	}
	t.wantNames("page by page", paged, want)
}

func savingInTheLoop(t *T) {
	const n = 1100
	want := t.fill("k", n)
	ctx, cancel := context.WithTimeout(t.ctx, 20*time.Second)
	defer cancel()
	var seen []string
	i := 0
	for r, err := range t.Tier.List(ctx, tiers.Query{Category: category}) {
		if err != nil {
			t.Fatalf("list after %d records: %v", i, err)
		}
		if strings.HasPrefix(r.Name, "k") {
			seen = append(seen, r.Name)
		}
		if i%50 == 0 {
			if _, err := t.Tier.Save(ctx, raw(named("a"+r.Name), "behind the walk"), tiers.Cond{}); err != nil {
				t.Fatalf("save in the loop: %v", err)
			}
			if _, err := t.Tier.Save(ctx, raw(r.Key, "the record itself"), tiers.Cond{}); err != nil {
				t.Fatalf("save of the yielded record: %v", err)
			}
		}
		if i%50 == 25 {
			if _, err := t.Tier.Delete(ctx, r.Key, tiers.Cond{}); err != nil {
				t.Fatalf("delete in the loop: %v", err)
			}
		}
		if i++; i > 10*n {
			t.Fatalf("the list does not end")
		}
	}
	t.wantNames("with saves and deletes behind it", seen, want)
}

func spacesInOrder(t *T) {
	var want []tiers.Space
	for _, ns := range []string{"", "b", "a", "a-1", "10", "9"} {
		for _, c := range []string{"z", "a.b", "a", "Z", "a-b", "config", "a_b"} {
			s := tiers.Space{Namespace: ns, Category: c}
			want = append(want, s)
			t.save(raw(tiers.Key{Namespace: ns, Category: c, Name: "1"}, "v"))
			t.save(raw(tiers.Key{Namespace: ns, Category: c, Name: "2"}, "v"))
		}
	}
	want = inOrder(want)
	if got := t.spaces(); !slices.Equal(got, want) {
		t.Errorf("spaces yields %v, want %v", got, want)
	}
	gone := tiers.Key{Category: "expired.only", Name: "k"}
	t.save(lasting(gone, "v", t.short()))
	t.expire(gone)
	got := slices.DeleteFunc(t.spaces(), func(s tiers.Space) bool { return s.Category == "expired.only" })
	if !slices.Equal(got, want) {
		t.Errorf("beside an expired record, spaces yields %v, want %v", got, want)
	}
	for _, s := range want[1:] {
		for _, name := range []string{"1", "2"} {
			t.delete(tiers.Key{Namespace: s.Namespace, Category: s.Category, Name: name})
		}
	}
	got = slices.DeleteFunc(t.spaces(), func(s tiers.Space) bool { return s.Category == "expired.only" })
	if !slices.Equal(got, want[:1]) {
		t.Errorf("after deleting, spaces yields %v, want %v", got, want[:1])
	}
}

func listUnderSaves(t *T) {
	steady := t.fill("k", 300)
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	var written atomic.Int64
	t.workers(3, func(worker int) {
		if worker > 0 { // writers between the steady keys, until the lists are done
			for i := 0; ctx.Err() == nil; i = (i + 7) % 300 {
				k := named(fmt.Sprintf("%s-%d", steady[i], worker))
				t.save(raw(k, "v"))
				t.delete(k)
				written.Add(1)
			}
			return
		}
		defer cancel()
		for round := 0; round < 10 || written.Load() < 20; round++ {
			got := t.names(tiers.Query{Category: category, Reverse: round%2 == 1})
			if round%2 == 1 {
				slices.Reverse(got)
			}
			if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
				t.Errorf("the list is out of order, or has a key twice")
			}
			got = slices.DeleteFunc(got, func(n string) bool { return strings.Contains(n, "-") })
			t.wantNames("the steady keys", got, steady)
		}
	})
}
