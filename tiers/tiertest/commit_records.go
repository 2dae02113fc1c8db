package tiertest

import (
	"fmt"
	"strings"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func commitRules() []rule {
	return []rule{
		{
			name: "a commit does all that it says",
			why:  "a transaction is one step for everybody",
			run:  commitDoesAll,
		},
		{
			name: "a read that has changed refuses the commit",
			why:  "the first of two that meet wins, and the other one runs again",
			run:  commitChecksReads,
		},
		{
			name: "a read that holds lets the commit pass",
			why:  "what nobody has changed is no reason to run a transaction again",
			run:  commitKeepsReads,
		},
		{
			name: "a listing that has changed refuses the commit",
			why:  "what appears in a list, or goes from it, was not there when the transaction decided",
			run:  commitChecksRanges,
		},
		{
			name: "changes outside of a listing let the commit pass",
			why:  "a transaction that read a page must not wait for the whole category to be quiet",
			run:  commitKeepsRanges,
		},
		{
			name: "a commit that only checks changes nothing",
			why:  "a transaction that only read must not cost what a write costs",
			run:  commitOnlyChecks,
		},
		{
			name: "what is done once is done once",
			why:  "a migration of data that runs twice may destroy it",
			run:  commitOnce,
		},
		{
			name: "what can't be stored refuses the whole commit",
			why:  "half a commit is worse than none",
			run:  commitRefusesBadKeys,
		},
		{
			name: "a commit keeps copies",
			why:  "changing what was given or answered must never change what is stored",
			run:  commitCopies,
		},
		{
			name: "versions grow over commits and saves",
			why:  "a version that comes twice makes a changed record look unchanged",
			run:  commitVersionsGrow,
		},
	}
}

func commitDoesAll(t *T) {
	d := t.desk()
	old := t.save(raw(named("old"), "1"))
	t.save(raw(named("gone"), "1"))
	t.Clock.Advance(time.Second)
	short := lasting(named("short"), "s", time.Minute)
	full := raw(named("new"), "a\x00b")
	full.Codec, full.Schema = "msgpack", 7
	c := tiers.Commit{
		Saves:    []tiers.Record{raw(named("old"), "2"), removal("gone"), full, removal("never"), short, lasting(named("at once"), "v", -1)},
		Rows:     []tiers.Row{pendingRow("cache", "k", "v"), deletedRow("k2"), pendingRow("file", "k", "w")},
		OnlyOnce: "once/all", OnceValue: []byte("why"),
	}
	out := d.commit(c)
	for i, want := range c.Saves {
		got := out.Saves[i]
		if got.Key != want.Key {
			t.Fatalf("save %d is answered for %s, want %s", i, show(got.Key), show(want.Key))
		}
		if want.Deleted || want.TTL < 0 {
			t.wantAbsent("after the commit", want.Key)
			continue
		}
		if got.Version == 0 || string(got.Value) != string(want.Value) {
			t.Errorf("%s is answered with version %d and %q", show(got.Key), got.Version, got.Value)
		}
		t.wantSame("after the commit", t.load(want.Key), got)
	}
	if got := out.Saves[0]; got.Version <= old.Version || !got.Created.Equal(old.Created) || got.Updated.Equal(old.Updated) {
		t.Errorf("the record that was replaced is answered with version %d, created %v, updated %v; it had %d, %v, %v",
			got.Version, got.Created, got.Updated, old.Version, old.Created, old.Updated)
	}
	if want := t.now().Add(time.Minute); !t.near(out.Saves[4].Expires, want) {
		t.Errorf("it expires at %v, want %v", out.Saves[4].Expires, want)
	}
	check := func(when string) {
		for _, row := range out.Rows {
			t.wantRow(d.s, row)
		}
		t.wantFact(d.s, "once/all", "why")
		t.wantValue(when, named("old"), "2")
		t.wantAbsent(when, named("gone"))
	}
	check("after the commit")
	if t.reopened() {
		d = t.desk()
		check("after it was opened again")
	}
	t.Clock.Advance(time.Minute)
	t.wantAbsent("after its time", named("short"))
}

func commitChecksReads(t *T) {
	d := t.desk()
	k := named("k")
	for _, c := range []struct {
		what          string
		before, after func()
	}{
		{"saved again", func() { t.save(raw(k, "1")) }, func() { t.save(raw(k, "1")) }},
		{"deleted", func() { t.save(raw(k, "1")) }, func() { t.delete(k) }},
		{"made", func() { t.delete(k) }, func() { t.save(raw(k, "1")) }},
		{"deleted and made again", func() { t.save(raw(k, "1")) }, func() { t.delete(k); t.save(raw(k, "1")) }},
		{"changed by another commit", func() { t.save(raw(k, "1")) }, func() { d.commit(tiers.Commit{Saves: []tiers.Record{raw(k, "2")}}) }},
		{"deleted by another commit", func() { t.save(raw(k, "1")) }, func() { d.commit(tiers.Commit{Saves: []tiers.Record{removal("k")}}) }},
		{"expired", func() { t.save(lasting(k, "1", time.Minute)) }, func() { t.Clock.Advance(time.Minute) }},
	} {
		c.before()
		read := d.readOf(k)
		c.after()
		d.conflicts(c.what, reads(read), k)
		d.conflicts(c.what+", among others", reads(d.readOf(named("a")), read, d.readOf(named("z"))), k)
		only := reads(read)
		only.ID = d.id()
		_, err := d.try(only)
		t.wantError(c.what+", only checked", err, tiers.ErrConflict)
	}
	t.save(raw(k, "1"))
	stale := d.readOf(k)
	own := tiers.Commit{Reads: []tiers.Read{stale}, Saves: []tiers.Record{raw(k, "first")}}
	d.commit(own)
	own.Saves = []tiers.Record{raw(k, "second")}
	d.conflicts("the second of two that read the same", own, k)
	t.wantValue("after both", k, "first")
}

func commitKeepsReads(t *T) {
	d := t.desk()
	k := named("k")
	t.save(lasting(k, "1", time.Hour))
	held, absent := d.readOf(k), d.readOf(named("absent"))
	expired := t.save(lasting(named("expired"), "1", time.Second))
	t.Clock.Advance(time.Second)
	gone := d.readOf(expired.Key)
	if gone.Version != 0 {
		t.Fatalf("an expired record is loaded")
	}
	t.save(raw(named("another"), "1"))
	elsewhere := raw(tiers.Key{Namespace: "n", Category: category, Name: "k"}, "1")
	t.save(elsewhere)
	d.passes("nothing of it has changed", reads(held, absent, gone))
	if ok, err := tiers.Touch(t.ctx, t.Tier, k, 2*time.Hour); err == nil && ok {
		d.passes("it was touched", reads(held))
	}
	c := reads(held, absent)
	c.Saves = []tiers.Record{raw(k, "2"), raw(named("absent"), "1")}
	d.passes("what was read is saved", c)
	t.wantValue("what was read is saved", k, "2")
	last := reads(d.readOf(k))
	last.Saves = []tiers.Record{removal("k")}
	d.passes("what was read is deleted", last)
	t.wantAbsent("what was read is deleted", k)
}

// listed are the keys of the rules on listings.
const listed = "b/a b/c b/e b/g b/i"

// listedFresh makes them all that there is.
func listedFresh(t *T) {
	for _, r := range t.list(tiers.Query{Category: category}) {
		t.delete(r.Key)
	}
	for name := range strings.FieldsSeq(listed) {
		t.save(raw(named(name), "1"))
	}
}

func commitChecksRanges(t *T) {
	d := t.desk()
	q := func(after string, reverse bool, limit int) tiers.Query {
		return tiers.Query{Category: category, Prefix: "b/", After: after, Reverse: reverse, Limit: limit}
	}
	queries := []struct {
		q   tiers.Query
		end string
		mid string // a key of the list
		gap string // a key that would be in it
	}{
		{q("", false, 0), "", "b/e", "b/d"},
		{q("", true, 0), "", "b/e", "b/j"},
		{q("", false, 0), "b/e", "b/e", "b/d"},
		{q("b/c", false, 0), "b/g", "b/g", "b/d"},
		{q("b/i", true, 0), "b/c", "b/c", "b/d"},
		{q("", true, 0), "b/g", "b/g", "b/j"},
		{q("b/c", false, 2), "b/g", "b/e", "b/d"},
		{tiers.Query{Category: category}, "", "b/a", "c"},
	}
	for _, c := range queries {
		for what, change := range map[string]func(){
			"saved again":       func() { t.save(raw(named(c.mid), "1")) },
			"deleted":           func() { t.delete(named(c.mid)) },
			"made":              func() { t.save(raw(named(c.gap), "1")) },
			"made by a commit":  func() { d.commit(tiers.Commit{Saves: []tiers.Record{raw(named(c.gap), "1")}}) },
			"one goes, one new": func() { t.delete(named(c.mid)); t.save(raw(named(c.gap), "1")) },
			"expired":           func() { t.Clock.Advance(time.Minute) },
		} {
			listedFresh(t)
			t.save(lasting(named(c.mid), "1", time.Minute))
			r := d.rangeOf(c.q, c.end)
			change()
			d.conflicts(fmt.Sprintf("%+v up to %q, %s", c.q, c.end, what), tiers.Commit{Ranges: []tiers.Range{r}}, tiers.Key{})
		}
	}
	none := tiers.Query{Category: category, Prefix: "nothing/"}
	r := d.rangeOf(none, "")
	if r.Sum != 0 {
		t.Fatalf("an empty list has the sum %d", r.Sum)
	}
	t.save(raw(named("nothing/1"), "1"))
	_, err := d.try(tiers.Commit{Ranges: []tiers.Range{r}})
	t.wantError("the first key of an empty list", err, tiers.ErrConflict)
}

func commitKeepsRanges(t *T) {
	d := t.desk()
	query := tiers.Query{Category: category, Prefix: "b/"}
	for _, c := range []struct {
		q       tiers.Query
		end     string
		outside []string
	}{
		{query, "", []string{"a", "c", "b"}},
		{query, "b/e", []string{"b/f", "b/g", "c"}},
		{tiers.Query{Category: category, Prefix: "b/", After: "b/c"}, "b/g", []string{"b/a", "b/b", "b/c", "b/h", "b/i"}},
		{tiers.Query{Category: category, Prefix: "b/", After: "b/g", Reverse: true}, "b/c", []string{"b/g", "b/h", "b/b", "b/a"}},
		{tiers.Query{Category: category, Prefix: "b/", Reverse: true}, "b/g", []string{"b/f", "b/a", "c"}},
		{tiers.Query{Category: category, Prefix: "b/", Limit: 2}, "b/c", []string{"b/d", "b/e"}},
		{tiers.Query{Category: category, Prefix: "empty/"}, "", []string{"empty", "emptz"}},
		{tiers.Query{Namespace: "n", Category: category}, "", []string{"b/c", "x"}},
		{tiers.Query{Category: category + ".below"}, "", []string{"b/c", "x"}},
	} {
		listedFresh(t)
		r := d.rangeOf(c.q, c.end)
		what := fmt.Sprintf("%+v up to %q", c.q, c.end)
		d.passes(what, tiers.Commit{Ranges: []tiers.Range{r}})
		for _, name := range c.outside {
			t.save(raw(named(name), "2"))
		}
		d.passes(what+", after saves outside", tiers.Commit{Ranges: []tiers.Range{r}})
	}
}

func commitOnlyChecks(t *T) {
	d := t.desk()
	t.save(raw(named("k"), "1"))
	read, r := d.readOf(named("k")), d.rangeOf(tiers.Query{Category: category}, "")
	before, seq := t.changes(d.s), d.sequence()
	c := tiers.Commit{ID: d.id(), Reads: []tiers.Read{read}, Ranges: []tiers.Range{r}, Since: seq, RowReads: []tiers.RowRead{{Tier: "cache", Read: tiers.Read{Key: named("k")}}}}
	out := d.commit(c)
	if len(out.Saves) != 0 || len(out.Rows) != 0 {
		t.Errorf("a commit that changes nothing answers %+v", out)
	}
	d.commit(tiers.Commit{ID: d.id()})
	if after := t.changes(d.s); after != before || d.sequence() != seq {
		t.Errorf("checking took the counters from %+v to %+v", before, after)
	}
	d.wantOutcome("of a commit that changed nothing", c.ID, false)
}

func commitOnce(t *T) {
	d := t.desk()
	first := tiers.Commit{OnlyOnce: "once/1", OnceValue: []byte("mine")}
	d.commit(first)
	t.wantFact(d.s, "once/1", "mine")
	d.refused("done a second time", tiers.Commit{OnlyOnce: "once/1", OnceValue: []byte("other")}, tiers.ErrExists, tiers.Key{})
	t.wantFact(d.s, "once/1", "mine")
	t.setFact(d.s, "once/2", "", false)
	d.refused("a fact that was set before", tiers.Commit{OnlyOnce: "once/2"}, tiers.ErrExists, tiers.Key{})
	d.refused("a fact without a proper name", tiers.Commit{OnlyOnce: "a\x00b"}, tiers.ErrKey, tiers.Key{})
	d.commit(tiers.Commit{OnlyOnce: "once/empty"})
	t.wantFact(d.s, "once/empty", "")
	stale := d.readOf(named("k"))
	t.save(raw(named("k"), "1"))
	d.conflicts("once, but on what has changed", tiers.Commit{Reads: []tiers.Read{stale}, OnlyOnce: "once/3"}, named("k"))
	if _, err := d.s.Fact(t.ctx, "once/3"); err == nil {
		t.Errorf("a refused commit has set its fact")
	}
	ds := t.desks()
	var done [8]int
	t.workers(len(done), func(worker int) {
		d := t.deskOf(ds[worker%len(ds)].tier)
		if _, err := d.try(tiers.Commit{OnlyOnce: "once/race", OnceValue: []byte("v")}); err == nil {
			done[worker]++
		} else {
			t.wantError("all but one", err, tiers.ErrExists)
		}
	})
	sum := 0
	for _, n := range done {
		sum += n
	}
	if sum != 1 {
		t.Errorf("%d of %d did it, want one", sum, len(done))
	}
}

func commitRefusesBadKeys(t *T) {
	d := t.desk()
	long := strings.Repeat("k", tiers.MaxKey+1)
	for _, c := range []struct {
		k   tiers.Key
		why error
	}{
		{named(""), tiers.ErrKey},
		{named("a\x00b"), tiers.ErrKey},
		{named("\xff"), tiers.ErrKey},
		{named(long), tiers.ErrKey},
		{tiers.Key{Category: "a..b", Name: "k"}, tiers.ErrCategory},
		{tiers.Key{Namespace: "UPPER", Category: category, Name: "k"}, tiers.ErrKey},
	} {
		d.refused("a save", tiers.Commit{Saves: []tiers.Record{raw(c.k, "v")}}, c.why, c.k)
		d.refused("a delete", tiers.Commit{Saves: []tiers.Record{{Key: c.k, Deleted: true}}}, c.why, c.k)
		row := pendingRow("cache", "k", "v")
		row.Key = c.k
		d.refused("a row", tiers.Commit{Rows: []tiers.Row{row}}, c.why, c.k)
	}
	_, err := d.c.Commit(t.ctx, tiers.Commit{ID: strings.Repeat("x", 65), Saves: []tiers.Record{raw(named("id"), "v")}})
	if err == nil {
		t.Errorf("an id of 65 bytes is taken")
	}
	t.wantAbsent("after a commit without a proper id", named("id"))
	longest := strings.Repeat("x", 64)
	d.commit(tiers.Commit{ID: longest, Saves: []tiers.Record{raw(named("id"), "v")}})
	d.wantOutcome("of the longest id", longest, true)
}

func commitCopies(t *T) {
	d := t.desk()
	value, row, once := []byte("value"), pendingRow("cache", "k", "value"), []byte("value")
	r := raw(named("k"), "")
	r.Value = value
	out := d.commit(tiers.Commit{Saves: []tiers.Record{r}, Rows: []tiers.Row{row}, OnlyOnce: "once", OnceValue: once})
	value[0], row.Value[0], once[0] = 'X', 'X', 'X'
	out.Saves[0].Value[1], out.Rows[0].Value[1] = 'Y', 'Y'
	t.wantValue("after changing slices", named("k"), "value")
	t.wantFact(d.s, "once", "value")
	if got, err := d.s.Pending(t.ctx, "cache", named("k")); err != nil || string(got.Value) != "value" {
		t.Errorf("after changing slices, %q is pending with %s", got.Value, said(err))
	}
}

func commitVersionsGrow(t *T) {
	ds := t.desks()
	var last tiers.Version
	for i := range 30 {
		d := ds[i%len(ds)]
		switch i {
		case 8:
			t.Clock.Advance(-24 * time.Hour)
		case 16:
			t.Clock.Advance(time.Microsecond)
		case 24:
			t.delete(named("k"))
		}
		var got []tiers.Version
		if i%3 == 0 {
			got = append(got, t.saveIn(d.tier, raw(named("k"), "v")).Version)
		} else {
			out := d.commit(tiers.Commit{Saves: []tiers.Record{raw(named("k"), "v"), removal("other"), raw(named("l"), "v")}})
			got = append(got, out.Saves[0].Version, out.Saves[2].Version)
		}
		for _, v := range got {
			if v <= last {
				t.Errorf("step %d: version %d follows %d", i, v, last)
			}
			last = v
		}
	}
}
