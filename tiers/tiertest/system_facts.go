package tiertest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/sagestore/sagestore/tiers"
)

func factRules() []rule {
	return []rule{
		{
			name: "facts are set and read",
			why:  "the epoch of a store is one",
			run: func(t *T) {
				s := t.system()
				_, err := s.Fact(t.ctx, "epoch")
				t.wantError("a fact that is not there", err, tiers.ErrNotFound)
				t.wantFact(s, "epoch", t.setFact(s, "epoch", "one", false))
				if got := t.setFact(s, "epoch", "two", false); got != "two" {
					t.Errorf("set answers %q, want the new value", got)
				}
				t.wantFact(s, "epoch", "two")
				t.setFact(s, "bytes", "a\x00\xff", false)
				t.wantFact(s, "bytes", "a\x00\xff")
				t.setFact(s, "empty", "", false)
				t.wantFact(s, "empty", "")
				if t.reopened() {
					t.wantFact(t.system(), "epoch", "two")
					t.wantFact(t.system(), "empty", "")
				}
			},
		},
		{
			name: "a fact set if absent stays",
			why:  "two processes that make up an epoch must end with one",
			run: func(t *T) {
				s := t.system()
				if got := t.setFact(s, "epoch", "one", true); got != "one" {
					t.Errorf("the first to set it is answered %q", got)
				}
				if got := t.setFact(s, "epoch", "two", true); got != "one" {
					t.Errorf("the second to set it is answered %q, want %q", got, "one")
				}
				t.wantFact(s, "epoch", "one")
				t.setFact(s, "empty", "", true)
				if got := t.setFact(s, "empty", "full", true); got != "" {
					t.Errorf("an empty value is taken for none: %q", got)
				}
				handles := []tiers.System{s}
				if other, ok := t.second(); ok {
					handles = append(handles, other)
				}
				var mu sync.Mutex
				answers := map[string]bool{}
				t.workers(8, func(worker int) {
					got := t.setFact(handles[worker%len(handles)], "race", fmt.Sprint(worker), true)
					mu.Lock()
					defer mu.Unlock()
					answers[got] = true
				})
				if len(answers) != 1 {
					t.Errorf("eight callers were answered %d different values", len(answers))
				}
			},
		},
		{
			name: "facts are listed in order",
			why:  "doctor and status show them",
			run: func(t *T) {
				s := t.system()
				for _, name := range []string{"b", "a/2", "a/1", "a", "a%", "A"} {
					t.setFact(s, name, "value of "+name, false)
				}
				for prefix, want := range map[string][]string{
					"": {"A", "a", "a%", "a/1", "a/2", "b"}, "a/": {"a/1", "a/2"}, "a%": {"a%"}, "c": nil,
				} {
					var got []string
					for _, f := range collect(t, "facts", s.Facts(t.ctx, prefix)) {
						if prefix != "" || slices.Contains(want, f.Name) { // a store may have facts of its own
							got = append(got, f.Name)
							if string(f.Value) != "value of "+f.Name {
								t.Errorf("%q is listed with %q", f.Name, f.Value)
							}
						}
					}
					t.wantNames(fmt.Sprintf("facts with the prefix %q", prefix), got, want)
				}
			},
		},
		{
			name: "facts are copied",
			why:  "changing what was set or read must never change what is stored",
			run: func(t *T) {
				s := t.system()
				mine := []byte("value")
				if _, err := s.SetFact(t.ctx, "fact", mine, false); err != nil {
					t.Fatalf("set: %v", err)
				}
				mine[0] = 'X'
				t.wantFact(s, "fact", "value")
				got, err := s.Fact(t.ctx, "fact")
				if err != nil {
					t.Fatalf("fact: %v", err)
				}
				got[0] = 'Y'
				t.wantFact(s, "fact", "value")
			},
		},
	}
}

func (t *T) setFact(s tiers.System, name, value string, ifAbsent bool) string {
	got, err := s.SetFact(t.ctx, name, []byte(value), ifAbsent)
	if err != nil {
		t.Fatalf("set fact %q: %v", name, err)
	}
	return string(got)
}

func (t *T) wantFact(s tiers.System, name, want string) {
	if got, err := s.Fact(t.ctx, name); err != nil || string(got) != want {
		t.Errorf("fact %q is %q with %s, want %q", name, got, said(err), want)
	}
}
