package tiertest

import (
	"fmt"
	"slices"

	"github.com/sagestore/sagestore/tiers"
)

func batchRules() []rule {
	return []rule{
		{
			name: "batches align with their arguments",
			why:  "a result that slipped by one belongs to another record",
			run:  batchesAlign,
		},
		{
			name: "a batch is seen by everything",
			why:  "half of a batch is not what was asked for",
			run: func(t *T) {
				want := t.fill("k", 250)
				t.wantNames("list", t.names(tiers.Query{Category: category}), want)
				for i := range want {
					t.wantValue("saved in a batch", numbered("k", i), fmt.Sprintf("value of %d", i))
				}
				if t.Durable {
					t.Reopen()
					t.wantNames("list after opening again", t.names(tiers.Query{Category: category}), want)
				}
			},
		},
		{
			name: "an empty batch does nothing",
			why:  "callers need no special case",
			run: func(t *T) {
				rs, err := tiers.SaveMany(t.ctx, t.Tier, nil, nil)
				if err != nil || len(rs) != 0 {
					t.Errorf("save many answers %d records and %s", len(rs), said(err))
				}
				rs, err = tiers.LoadMany(t.ctx, t.Tier, []tiers.Key{})
				if err != nil || len(rs) != 0 {
					t.Errorf("load many answers %d records and %s", len(rs), said(err))
				}
				existed, err := tiers.DeleteMany(t.ctx, t.Tier, []tiers.Key{}, []tiers.Cond{})
				if err != nil || len(existed) != 0 {
					t.Errorf("delete many answers %d results and %s", len(existed), said(err))
				}
			},
		},
		{
			name: "a key twice in a batch is done in turn",
			why:  "the last one counts, as it would one by one",
			run:  twiceInABatch,
		},
		{
			name: "conditions of a batch hold item by item",
			why:  "each item has its own answer, told by its key",
			run:  batchConditions,
		},
		{
			name: "an atomic batch is all or nothing", needs: []Capability{AtomicBatch},
			why: "half a transfer is worse than none",
			run: atomicBatch,
		},
		{
			name: "a batch that is not atomic does what it can", needs: []Capability{Batcher},
			why: "one bad item must not hold up the others, nor be passed over in silence",
			run: looseBatch,
		},
		{
			name: "a bad key in load many spoils no other",
			why:  "the others were asked for as well",
			run: func(t *T) {
				t.fill("k", 3)
				bad := named("bad\x00")
				rs, err := tiers.LoadMany(t.ctx, t.Tier, []tiers.Key{numbered("k", 0), bad, numbered("k", 2)})
				t.wantItem("load many", err, bad, tiers.ErrKey)
				if len(rs) != 3 || string(rs[0].Value) != "value of 0" || rs[1].Version != 0 || string(rs[2].Value) != "value of 2" {
					t.Errorf("load many answers %+v", rs)
				}
			},
		},
		{
			name: "many batches at once lose nothing",
			why:  "batches of several callers are merged on the way",
			run: func(t *T) {
				t.workers(8, func(worker int) {
					for round := range 5 {
						var rs []tiers.Record
						for i := range 20 {
							rs = append(rs, raw(numbered(fmt.Sprintf("w%d-%d-", worker, round), i), "v"))
						}
						if _, err := tiers.SaveMany(t.ctx, t.Tier, rs, nil); err != nil {
							t.Fatalf("save many: %v", err)
						}
					}
				})
				if got := len(t.names(tiers.Query{Category: category})); got != 8*5*20 {
					t.Errorf("%d records are there, want %d", got, 8*5*20)
				}
			},
		},
	}
}

func batchesAlign(t *T) {
	rs := []tiers.Record{raw(named("c"), "3"), raw(named("a"), "1"), raw(named("b"), "2")}
	saved, err := tiers.SaveMany(t.ctx, t.Tier, rs, nil)
	if err != nil || len(saved) != len(rs) {
		t.Fatalf("save many answers %d records and %s", len(saved), said(err))
	}
	for i := range rs {
		t.wantSame("saved", t.load(rs[i].Key), saved[i])
	}
	ks := []tiers.Key{named("b"), named("absent"), named("a"), named("b"), {Namespace: "n", Category: category, Name: "a"}, named("c")}
	want := []string{"2", "", "1", "2", "", "3"}
	loaded, err := tiers.LoadMany(t.ctx, t.Tier, ks)
	if err != nil || len(loaded) != len(ks) {
		t.Fatalf("load many answers %d records and %s", len(loaded), said(err))
	}
	for i, r := range loaded {
		if string(r.Value) != want[i] || (r.Version == 0) != (want[i] == "") {
			t.Errorf("load many answers %s at version %d for %s, want %s", cut(string(r.Value)), r.Version, show(ks[i]), cut(want[i]))
		}
		if r.Version != 0 {
			t.wantSame("loaded in a batch", r, t.load(ks[i]))
		}
	}
	existed, err := tiers.DeleteMany(t.ctx, t.Tier, []tiers.Key{named("absent"), named("b"), named("a")}, nil)
	if err != nil || !slices.Equal(existed, []bool{false, true, true}) {
		t.Errorf("delete many answers %v and %s, want [false true true]", existed, said(err))
	}
	t.wantNames("list", t.names(tiers.Query{Category: category}), []string{"c"})
}

func twiceInABatch(t *T) {
	k := named("k")
	saved, err := tiers.SaveMany(t.ctx, t.Tier, []tiers.Record{raw(k, "1"), raw(named("other"), "x"), raw(k, "2"), raw(k, "3")}, nil)
	if err != nil || len(saved) != 4 {
		t.Fatalf("save many answers %d records and %s", len(saved), said(err))
	}
	t.wantValue("saved three times in a batch", k, "3")
	if got := t.load(k).Version; saved[3].Version != got || saved[0].Version >= saved[2].Version || saved[2].Version >= saved[3].Version {
		t.Errorf("the versions are %d, %d, %d, and %d is stored; want them to grow up to that", saved[0].Version, saved[2].Version, saved[3].Version, got)
	}
	existed, err := tiers.DeleteMany(t.ctx, t.Tier, []tiers.Key{k, named("other"), k}, nil)
	if err != nil || !slices.Equal(existed, []bool{true, true, false}) {
		t.Errorf("delete many answers %v and %s, want [true true false]", existed, said(err))
	}
	t.wantAbsent("deleted twice in a batch", k)

	twice := []tiers.Record{raw(k, "1"), raw(k, "2")}
	_, err = tiers.SaveMany(t.ctx, t.Tier, twice, []tiers.Cond{tiers.If(0), tiers.If(0)})
	t.wantItem("if-absent twice", err, k, tiers.ErrExists)
	if t.has(AtomicBatch) {
		t.wantAbsent("if-absent twice, all or nothing", k)
	} else {
		t.wantValue("if-absent twice", k, "1")
	}
}

func batchConditions(t *T) {
	present := t.save(raw(named("present"), "v"))
	other := t.save(raw(named("other"), "v"))
	saved, err := tiers.SaveMany(t.ctx, t.Tier,
		[]tiers.Record{raw(present.Key, "next"), raw(named("new"), "v"), raw(other.Key, "next")},
		[]tiers.Cond{tiers.If(present.Version), tiers.If(0), {}})
	if err != nil || len(saved) != 3 {
		t.Fatalf("save many with conditions that hold answers %d records and %s", len(saved), said(err))
	}
	for i, k := range []tiers.Key{present.Key, named("new"), other.Key} {
		if saved[i].Version == 0 || saved[i].Version != t.load(k).Version {
			t.Errorf("save many answers version %d for %s, want %d", saved[i].Version, show(k), t.load(k).Version)
		}
	}

	saved, err = tiers.SaveMany(t.ctx, t.Tier,
		[]tiers.Record{raw(present.Key, "refused"), raw(named("new"), "refused"), raw(named("absent"), "refused")},
		[]tiers.Cond{tiers.If(present.Version), tiers.If(0), tiers.If(5)})
	t.wantItem("if-version of another", err, present.Key, tiers.ErrConflict)
	t.wantItem("if-absent of a present", err, named("new"), tiers.ErrExists)
	t.wantItem("if-version of an absent", err, named("absent"), tiers.ErrConflict)
	for i, r := range saved {
		if r.Version != 0 {
			t.Errorf("save many answers version %d for item %d, which was refused", r.Version, i)
		}
	}
	t.wantValue("refused", present.Key, "next")
	t.wantValue("refused", named("new"), "v")
	t.wantAbsent("refused", named("absent"))

	existed, err := tiers.DeleteMany(t.ctx, t.Tier, []tiers.Key{present.Key, named("absent")}, []tiers.Cond{tiers.If(present.Version), tiers.If(5)})
	t.wantItem("delete of another version", err, present.Key, tiers.ErrConflict)
	t.wantItem("delete of an absent one if version", err, named("absent"), tiers.ErrConflict)
	if slices.Contains(existed, true) {
		t.Errorf("delete many answers %v for refused items", existed)
	}
	t.wantValue("refused", present.Key, "next")
	existed, err = tiers.DeleteMany(t.ctx, t.Tier, []tiers.Key{present.Key, named("absent")}, []tiers.Cond{tiers.If(t.load(present.Key).Version), tiers.If(0)})
	if err != nil || !slices.Equal(existed, []bool{true, false}) {
		t.Errorf("delete many with conditions that hold answers %v and %s, want [true false]", existed, said(err))
	}
}

// wantItem notes a fault unless the joined error holds one for the key.
func (t *T) wantItem(what string, err error, k tiers.Key, sentinel error) {
	e, ok := fails(err)[k.Name]
	if !ok {
		t.Errorf("%s: the error names no %s: %s", what, show(k), said(err))
		return
	}
	t.wantError(what, e, sentinel)
}

func atomicBatch(t *T) {
	kept := t.save(raw(named("kept"), "old"))
	gone := t.save(raw(named("gone"), "old"))
	t.delete(gone.Key)
	for _, c := range []struct {
		why  string
		bad  tiers.Record
		cond tiers.Cond
		want error
	}{
		{"a conflict", raw(named("bad"), "v"), tiers.If(7), tiers.ErrConflict},
		{"one that exists", raw(kept.Key, "v"), tiers.If(0), tiers.ErrExists},
		{"a bad key", raw(named("bad\x00"), "v"), tiers.Cond{}, tiers.ErrKey},
		{"a bad category", raw(tiers.Key{Category: "a..b", Name: "k"}, "v"), tiers.Cond{}, tiers.ErrCategory},
	} {
		for place := range 3 { // whether it comes first, in between or last
			rs := []tiers.Record{raw(named("x"), "v"), raw(named("y"), "v")}
			cs := make([]tiers.Cond, 2)
			rs, cs = slices.Insert(rs, place, c.bad), slices.Insert(cs, place, c.cond)
			_, err := tiers.SaveMany(t.ctx, t.Tier, rs, cs)
			t.wantItem(c.why, err, c.bad.Key, c.want)
			t.wantNames(fmt.Sprintf("after a batch with %s at place %d", c.why, place), t.names(tiers.Query{Category: category}), []string{"kept"})
		}
	}
	existed, err := tiers.DeleteMany(t.ctx, t.Tier, []tiers.Key{kept.Key, gone.Key}, []tiers.Cond{{}, tiers.If(gone.Version)})
	t.wantItem("delete of a deleted version", err, gone.Key, tiers.ErrConflict)
	if len(existed) != 2 || existed[1] {
		t.Errorf("delete many answers %v", existed)
	}
	t.wantSame("after a batch of deletes that failed", t.load(kept.Key), kept)
}

func looseBatch(t *T) {
	if t.has(AtomicBatch) {
		return
	}
	kept := t.save(raw(named("kept"), "old"))
	saved, err := tiers.SaveMany(t.ctx, t.Tier,
		[]tiers.Record{raw(named("x"), "v"), raw(kept.Key, "v"), raw(named("bad\x00"), "v"), raw(named("y"), "v")},
		[]tiers.Cond{{}, tiers.If(0), {}, {}})
	t.wantItem("one that exists", err, kept.Key, tiers.ErrExists)
	t.wantItem("a bad key", err, named("bad\x00"), tiers.ErrKey)
	if n := len(fails(err)); n != 2 {
		t.Errorf("the error names %d keys, want 2: %v", n, err)
	}
	if len(saved) != 4 || saved[0].Version == 0 || saved[1].Version != 0 || saved[2].Version != 0 || saved[3].Version == 0 {
		t.Errorf("save many answers %+v", saved)
	}
	t.wantNames("the others", t.names(tiers.Query{Category: category}), []string{"kept", "x", "y"})
	t.wantSame("refused", t.load(kept.Key), kept)
	existed, err := tiers.DeleteMany(t.ctx, t.Tier, []tiers.Key{named("x"), kept.Key, named("y")}, []tiers.Cond{{}, tiers.If(1), {}})
	t.wantItem("delete of another version", err, kept.Key, tiers.ErrConflict)
	if !slices.Equal(existed, []bool{true, false, true}) {
		t.Errorf("delete many answers %v, want [true false true]", existed)
	}
	t.wantNames("the rest", t.names(tiers.Query{Category: category}), []string{"kept"})
}
