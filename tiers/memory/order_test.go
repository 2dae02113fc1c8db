package memory

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sagestore/sagestore/tiers"
)

// TestSequenceAgreesWithASortedSlice inserts, removes and pages at random.
func TestSequenceAgreesWithASortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s sequence
		model := map[string]*entry{}
		key := rapid.StringMatching(`[abc/\xc3\xa9]{1,3}`)
		for i := range rapid.IntRange(0, 3*blockSize).Draw(t, "filling") {
			e := &entry{name: fmt.Sprintf("b%04d", (i*37)%3000)}
			if model[e.name] == nil {
				s.insert(e)
				model[e.name] = e
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				name := key.Draw(t, "key")
				if model[name] == nil {
					model[name] = &entry{name: name}
					s.insert(model[name])
				}
			},
			"remove some": func(t *rapid.T) {
				prefix := key.Draw(t, "prefix")
				for name, e := range model {
					if strings.HasPrefix(name, prefix) {
						s.remove(e)
						delete(model, name)
					}
				}
			},
			"remove a stranger": func(*rapid.T) { s.remove(&entry{name: "b"}) },
			"page": func(t *rapid.T) {
				q := tiers.Query{Prefix: rapid.OneOf(rapid.Just(""), key).Draw(t, "prefix"), Reverse: rapid.Bool().Draw(t, "reverse")}
				after := rapid.OneOf(rapid.Just(""), key).Draw(t, "after")
				limit := rapid.IntRange(1, 20).Draw(t, "limit")
				var want []string
				for name := range model {
					if strings.HasPrefix(name, q.Prefix) && (after == "" || !q.Reverse && name > after || q.Reverse && name < after) {
						want = append(want, name)
					}
				}
				slices.Sort(want)
				if q.Reverse {
					slices.Reverse(want)
				}
				want = want[:min(limit, len(want))]
				var got []string
				for _, e := range s.page(nil, &q, after, limit) {
					got = append(got, e.name)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("page %+v after %q, %d: got %q, want %q", q, after, limit, got, want)
				}
			},
			"": func(t *rapid.T) {
				n := 0
				for _, b := range s.blocks {
					if n += len(b); len(b) == 0 || len(b) > blockSize {
						t.Fatalf("a block has %d entries", len(b))
					}
				}
				if n != len(model) || s.n != n {
					t.Fatalf("%d entries in blocks, %d counted, want %d", n, s.n, len(model))
				}
			},
		})
	})
}

func TestListingSeesEachSaveAndDelete(t *testing.T) {
	m := open(t, Config{})
	for i := range 3000 {
		put(t, m, fmt.Sprintf("s-%d/%d", i%3, i), nil)
	}
	for round := range 3 {
		n := 0
		for r, err := range m.List(t.Context(), tiers.Query{Category: "session.context", Prefix: "s-1/"}) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n <= 100 {
				if _, err := m.Delete(t.Context(), r.Key, tiers.Cond{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if want := 1000 - 100*round; n != want {
			t.Errorf("listed %d, want %d", n, want)
		}
	}
}

func TestEmptySpacesAreForgotten(t *testing.T) {
	m := open(t, Config{})
	for i := range 100 {
		k := tiers.Key{Namespace: fmt.Sprintf("tenant-%d", i), Category: "c", Name: "k"}
		for range 2 {
			if _, err := m.Save(t.Context(), tiers.Record{Key: k}, tiers.Cond{}); err != nil {
				t.Fatal(err)
			}
			if _, err := m.Delete(t.Context(), k, tiers.Cond{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for s, err := range m.Spaces(t.Context()) {
		t.Errorf("%v is a space without a record, %v", s, err)
	}
	if n := len(m.order.spaces); n != 0 {
		t.Errorf("%d spaces are remembered", n)
	}
}
