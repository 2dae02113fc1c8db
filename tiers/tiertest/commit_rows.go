package tiertest

import (
	"fmt"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func commitRowRules() []rule {
	return []rule{
		{
			name: "rows of a commit are rows like any other",
			why:  "they are applied by the same hands, in the order of the commits",
			run:  commitRowsWait,
		},
		{
			name: "a reserved version is taken as it is",
			why:  "the tier has issued it, so that later saves there come after it",
			run:  commitRowsReserved,
		},
		{
			name: "a limit refuses the whole commit",
			why:  "a tier that stays away must not fill the disk",
			run:  commitRowsLimited,
		},
		{
			name: "a read of another tier holds against the row that waits",
			why:  "as long as it waits, the row is the truth about its key",
			run:  commitReadsWaiting,
		},
		{
			name: "a read of another tier holds against rows that were applied since",
			why:  "once applied, the row is gone, and what was read before it is old",
			run:  commitReadsRecent,
		},
		{
			name: "a key that is only written holds against later rows that were applied",
			why:  "what has left the journal may be above the version that was reserved before",
			run:  commitUnread,
		},
		{
			name: "a listing of another tier holds against rows",
			why:  "a row that waits or was applied may be one that the list did not have",
			run:  commitListsRows,
		},
		{
			name: "the sequence is that of the rows",
			why:  "a transaction tells by it what came after its first read",
			run:  commitSequence,
		},
	}
}

func commitRowsWait(t *T) {
	d := t.desk()
	full := pendingRow("cache", "full", "a\x00b")
	full.Codec, full.Schema, full.Over = "msgpack", 7, tiers.If(17)
	full.Expires = tiers.Micro(t.now().Add(time.Hour))
	out := d.commit(tiers.Commit{Rows: []tiers.Row{full, deletedRow("gone"), pendingRow("file", "full", "of file")}})
	full.Seq, full.Version, full.Created, full.Updated = out.Rows[0].Seq, out.Rows[0].Version, out.Rows[0].Created, out.Rows[0].Updated
	t.wantSameRow("answered", out.Rows[0], full)
	for i, row := range out.Rows {
		t.wantRow(d.s, row)
		if row.Version < version(t.now().Add(-t.slack())) {
			t.Errorf("row %d has version %d, which is below the time", i, row.Version)
		}
		if i > 0 && row.Seq <= out.Rows[i-1].Seq {
			t.Errorf("row %d has seq %d after %d", i, row.Seq, out.Rows[i-1].Seq)
		}
	}
	bare := t.appendRows(d.s, pendingRow("cache", "bare", "v"))[0]
	if bare.Version <= out.Rows[1].Version || bare.Seq <= out.Rows[2].Seq {
		t.Errorf("a row after the commit has version %d and seq %d", bare.Version, bare.Seq)
	}
	again := pendingRow("cache", "full", "2")
	again.Over = tiers.If(99)
	second := d.commit(tiers.Commit{Rows: []tiers.Row{again}}).Rows[0]
	if second.Version <= bare.Version || second.Seq <= bare.Seq {
		t.Errorf("a second row has version %d and seq %d after %d and %d", second.Version, second.Seq, bare.Version, bare.Seq)
	}
	if v, ok := second.Over.Version(); ok {
		t.Errorf("a row in place of another goes over %d alone, want any: the first may be in the tier already", v)
	}
	t.wantRow(d.s, second)
	floor := pendingRow("cache", "floor", "v")
	floor.Version = second.Version + 1_000_000_000
	if got := d.commit(tiers.Commit{Rows: []tiers.Row{floor}}).Rows[0]; got.Version < floor.Version {
		t.Errorf("version %d is below the floor of %d", got.Version, floor.Version)
	}
	due, err := d.s.Due(t.ctx, "cache", 0, 10)
	if err != nil || len(due) != 4 {
		t.Fatalf("%d rows are due with %s, want 4", len(due), said(err))
	}
	t.done(d.s, due...)
	b, err := d.s.Backlog(t.ctx, "cache")
	if err != nil || b.Rows != 0 || b.Bytes != 0 {
		t.Errorf("when all is done the backlog is %+v with %s", b, said(err))
	}
	if before := t.changes(d.s); d.commit(tiers.Commit{Rows: []tiers.Row{deletedRow("x")}}).Rows[0].Seq > 0 && t.changes(d.s).Journal <= before.Journal {
		t.Errorf("a commit with a row leaves the counters at %+v", before)
	}
}

func reservedRow(name string, v tiers.Version) tiers.Row {
	r := pendingRow("cache", name, fmt.Sprint(v))
	r.Version, r.Reserved = v, true
	return r
}

func commitRowsReserved(t *T) {
	d := t.desk()
	one := func(row tiers.Row) tiers.Row {
		got := d.commit(tiers.Commit{Rows: []tiers.Row{row}}).Rows[0]
		if got.Reserved {
			t.Errorf("a row is answered as reserved, which is not stored")
		}
		t.wantRow(d.s, got)
		return got
	}
	if got := one(reservedRow("k", 1000)); got.Version != 1000 {
		t.Errorf("version 1000 has become %d", got.Version)
	}
	issued := t.appendRows(d.s, pendingRow("cache", "other", "v"))[0].Version
	if got := one(reservedRow("low", 77)); got.Version != 77 {
		t.Errorf("version 77 has become %d after %d was issued", got.Version, issued)
	}
	if got := one(reservedRow("k", 1000)); got.Version != 1001 {
		t.Errorf("version 1000 over a row with 1000 has become %d, want 1001", got.Version)
	}
	if got := one(reservedRow("k", 5)); got.Version != 1002 {
		t.Errorf("version 5 over a row with 1001 has become %d, want 1002", got.Version)
	}
	gone := reservedRow("k", 2000)
	gone.Deleted, gone.Value = true, nil
	if got := one(gone); got.Version != 2000 {
		t.Errorf("the delete with version 2000 has become %d", got.Version)
	}
	if got := one(reservedRow("k", 1500)); got.Version != 2001 {
		t.Errorf("version 1500 over a delete with 2000 has become %d, want 2001", got.Version)
	}
	high := issued + 1_000_000_000_000
	if got := one(reservedRow("high", high)); got.Version != high {
		t.Errorf("version %d has become %d", high, got.Version)
	}
	if got := t.appendRows(d.s, pendingRow("cache", "next", "v"))[0]; got.Version <= high {
		t.Errorf("after %d was reserved the journal issues %d", high, got.Version)
	}
	if got := t.appendRows(d.s, pendingRow("file", "next", "v"))[0]; got.Version >= high {
		t.Errorf("the mark of another tier has risen to %d", got.Version)
	}
	if got := t.appendRows(d.s, reservedRow("appended", 88))[0]; got.Version != 88 {
		t.Errorf("Append makes version 88 to %d", got.Version)
	}
}

func commitRowsLimited(t *T) {
	d := t.desk()
	big := func(tier, name string, size int) tiers.Row { return pendingRow(tier, name, string(make([]byte, size))) }
	limits := map[string]int64{"cache": 1000, "file": 1 << 20}
	try := func(what string, why error, rows ...tiers.Row) {
		c := tiers.Commit{Rows: rows, RowLimits: limits}
		if why == nil {
			d.passes(what, c)
		} else {
			d.refused(what, c, why, tiers.Key{})
		}
	}
	try("below the limit", nil, big("cache", "a", 600))
	try("beyond it", tiers.ErrFull, big("cache", "b", 600))
	try("the last of three is beyond it", tiers.ErrFull, big("cache", "c", 10), big("file", "d", 10), big("cache", "e", 600))
	t.wantNoRow(d.s, "cache", named("c"))
	t.wantNoRow(d.s, "file", named("d"))
	try("for a tier with another limit", nil, big("file", "b", 6000))
	try("for a tier without one", nil, big("else", "b", 6000))
	try("in place of what waits", nil, big("cache", "a", 700))
	try("a delete of what waits", nil, deletedRow("a"))
	try("when there is room again", nil, big("cache", "b", 600))
	many := make([]tiers.Row, 50)
	for i := range many {
		many[i] = deletedRow(fmt.Sprintf("deleted-%0100d", i))
	}
	try("deletes at the limit", nil, many...)
	limits = nil
	try("without limits", nil, big("cache", "f", 5000))
}

func rowRead(name string, v tiers.Version) tiers.RowRead {
	return tiers.RowRead{Tier: "cache", Read: tiers.Read{Key: named(name), Version: v}}
}

func commitReadsWaiting(t *T) {
	d := t.desk()
	check := func(what string, holds bool, name string, v tiers.Version) {
		c := tiers.Commit{Since: d.sequence(), RowReads: []tiers.RowRead{rowRead(name, v)}}
		if holds {
			d.passes(what, c)
		} else {
			d.conflicts(what, c, named(name))
		}
	}
	check("nothing waits, the tier had nothing", true, "k", 0)
	check("nothing waits, the tier had something", true, "k", 12345)
	row := d.commit(tiers.Commit{Rows: []tiers.Row{pendingRow("cache", "k", "v")}}).Rows[0]
	check("the version that waits", true, "k", row.Version)
	check("an older version", false, "k", row.Version-1)
	check("absent, while a row waits", false, "k", 0)
	t.appendRows(d.s, pendingRow("file", "alone", "v"))
	check("a row of another tier", true, "alone", 0)
	bare := t.appendRows(d.s, pendingRow("cache", "k", "w"))[0]
	check("a version that was replaced", false, "k", row.Version)
	check("the version in its place", true, "k", bare.Version)
	gone := d.commit(tiers.Commit{Rows: []tiers.Row{deletedRow("k")}}).Rows[0]
	check("absent, while a delete waits", true, "k", 0)
	check("the version of a delete that waits", false, "k", gone.Version)
	check("a version before a delete", false, "k", bare.Version)
	short := pendingRow("cache", "k", "short")
	short.Expires = tiers.Micro(t.now().Add(time.Minute))
	short = d.commit(tiers.Commit{Rows: []tiers.Row{short}}).Rows[0]
	check("before it expires", true, "k", short.Version)
	t.Clock.Advance(time.Minute)
	check("an expired version", false, "k", short.Version)
	check("absent, while an expired row waits", true, "k", 0)

	row = t.appendRows(d.s, pendingRow("cache", "race", "1"))[0]
	c := tiers.Commit{Since: d.sequence(), RowReads: []tiers.RowRead{rowRead("race", row.Version)}, Rows: []tiers.Row{pendingRow("cache", "race", "first")}}
	d.commit(c)
	c.Rows = []tiers.Row{pendingRow("cache", "race", "second")}
	d.conflicts("the second of two that read the same", c, named("race"))
	if got, err := d.s.Pending(t.ctx, "cache", named("race")); err != nil || string(got.Value) != "first" {
		t.Errorf("%q waits with %s, want the first", got.Value, said(err))
	}
}

func commitReadsRecent(t *T) {
	d := t.desk()
	before := d.sequence()
	row := d.commit(tiers.Commit{Rows: []tiers.Row{pendingRow("cache", "k", "v")}}).Rows[0]
	gone := d.commit(tiers.Commit{Rows: []tiers.Row{deletedRow("gone")}}).Rows[0]
	short := pendingRow("cache", "short", "v")
	short.Expires = tiers.Micro(t.now().Add(time.Minute))
	short = d.commit(tiers.Commit{Rows: []tiers.Row{short}}).Rows[0]
	between := d.sequence()
	t.done(d.s, row, gone, short)
	check := func(d *desk, what string, holds bool, since uint64, reads ...tiers.RowRead) {
		c := tiers.Commit{Since: since, RowReads: reads}
		if holds {
			d.passes(what, c)
		} else {
			d.conflicts(what, c, reads[len(reads)-1].Key)
		}
	}
	both := func(d *desk) {
		check(d, "applied since, another version", false, before, rowRead("k", row.Version-1))
		check(d, "applied since, absent before", false, before, rowRead("k", 0))
		check(d, "applied since, among others", false, before, rowRead("other", 0), rowRead("k", 0))
		check(d, "applied since, but that was read", true, before, rowRead("k", row.Version))
		check(d, "deleted since, absent was read", true, before, rowRead("gone", 0))
		check(d, "deleted since", false, before, rowRead("gone", gone.Version-1))
		check(d, "another key", true, before, rowRead("other", 5))
		check(d, "applied before the transaction began", true, between, rowRead("k", 5), rowRead("gone", 5))
		c := tiers.Commit{Since: before, RowReads: []tiers.RowRead{rowRead("k", 5)}}
		c.RowReads[0].Tier = "file"
		d.passes("the key of another tier", c)
	}
	both(d)
	if t.reopened() {
		d = t.deskOf(t.Tier)
		both(d)
	}
	if ds := t.desks(); len(ds) > 1 {
		both(ds[1])
	}
	t.Clock.Advance(time.Minute)
	check(d, "what was read has been applied and has expired", true, before, rowRead("short", short.Version))
	check(d, "applied since and expired, absent was read", true, before, rowRead("short", 0))

	// Twice applied: what counts is the last.
	since := d.sequence()
	first := d.commit(tiers.Commit{Rows: []tiers.Row{pendingRow("cache", "k", "2")}}).Rows[0]
	t.done(d.s, first)
	second := d.commit(tiers.Commit{Rows: []tiers.Row{pendingRow("cache", "k", "3")}}).Rows[0]
	t.done(d.s, second)
	check(d, "the first of two that were applied since", false, since, rowRead("k", first.Version))
	third := d.commit(tiers.Commit{Rows: []tiers.Row{pendingRow("cache", "k", "4")}}).Rows[0]
	check(d, "applied since, while another row waits", false, since, rowRead("k", second.Version))
	check(d, "the row that waits, whatever was applied since", true, since, rowRead("k", third.Version))
}

func commitUnread(t *T) {
	d := t.desk()
	unread := tiers.RowRead{Tier: "cache", Read: tiers.Read{Key: named("k")}, Unread: true}
	at := func(since uint64, row tiers.Row) tiers.Commit {
		return tiers.Commit{Since: since, RowReads: []tiers.RowRead{unread}, Rows: []tiers.Row{row}}
	}
	before := d.sequence()
	d.commit(at(before, pendingRow("cache", "k", "1")))
	second := d.commit(at(before, pendingRow("cache", "k", "2"))).Rows[0]
	t.wantRow(d.s, second)
	t.done(d.s, second)
	d.conflicts("a later row was applied", at(before, pendingRow("cache", "k", "3")), named("k"))
	other := at(before, pendingRow("cache", "other", "v"))
	other.RowReads[0].Key = named("other")
	d.commit(other)
	d.commit(at(second.Seq, pendingRow("cache", "k", "3")))
}

func commitListsRows(t *T) {
	d := t.desk()
	query := tiers.Query{Category: category, Prefix: "b/"}
	list := func(since uint64, q tiers.Query, end string) tiers.Commit {
		return tiers.Commit{Since: since, RowRanges: []tiers.RowRange{{Tier: "cache", Range: tiers.Range{Query: q, End: end, Sum: 12345}}}}
	}
	after := query
	after.After = "b/c"
	down := after
	down.Reverse = true
	cases := []struct {
		what string
		q    tiers.Query
		end  string
		key  string
		hit  bool
	}{
		{"within", query, "", "b/e", true},
		{"before", query, "", "a", false},
		{"behind", query, "", "c", false},
		{"at its end", query, "b/e", "b/e", true},
		{"beyond its end", query, "b/e", "b/f", false},
		{"where it went on from", after, "", "b/c", false},
		{"behind where it went on from", after, "", "b/d", true},
		{"downwards, where it went on from", down, "", "b/c", false},
		{"downwards, below that", down, "", "b/b", true},
		{"downwards, at its end", down, "b/b", "b/b", true},
		{"downwards, beyond its end", down, "b/b", "b/a", false},
		{"in another space", tiers.Query{Namespace: "n", Category: category}, "", "b/e", false},
	}
	for _, c := range cases {
		check := func(what string, hit bool, since uint64) {
			if what = "a row " + c.what + ", " + what; hit {
				d.conflicts(what, list(since, c.q, c.end), named(c.key))
			} else {
				d.passes(what, list(since, c.q, c.end))
			}
		}
		since := d.sequence()
		row := d.commit(tiers.Commit{Rows: []tiers.Row{pendingRow("cache", c.key, "v")}}).Rows[0]
		check("waiting", c.hit, since)
		check("waiting before the transaction began", false, d.sequence())
		mid := d.sequence()
		gone := d.commit(tiers.Commit{Rows: []tiers.Row{deletedRow(c.key)}}).Rows[0]
		check("deleted", c.hit, mid)
		t.done(d.s, row, gone)
		check("applied", c.hit, since)
		check("applied as a delete", c.hit, mid)
		check("applied before the transaction began", false, d.sequence())
	}
	since := d.sequence()
	t.appendRows(d.s, pendingRow("file", "b/e", "v"))
	d.passes("a row of another tier", list(since, query, ""))
}

func commitSequence(t *T) {
	ds := t.desks()
	d := ds[0]
	last := d.sequence()
	var rows []tiers.Row
	for i := range 12 {
		d := ds[i%len(ds)]
		var row tiers.Row
		if i%2 == 0 {
			row = d.commit(tiers.Commit{Rows: []tiers.Row{pendingRow("cache", fmt.Sprint(i%3), "v")}}).Rows[0]
		} else {
			row = t.appendRows(d.s, pendingRow("file", fmt.Sprint(i%3), "v"))[0]
		}
		rows = append(rows, row)
		if row.Seq <= last {
			t.Errorf("step %d: the row has seq %d after a sequence of %d", i, row.Seq, last)
		}
		for _, other := range ds {
			if last = other.sequence(); last < row.Seq {
				t.Errorf("step %d: the sequence is %d, a row has %d", i, last, row.Seq)
			}
		}
		d.commit(tiers.Commit{Saves: []tiers.Record{raw(named("k"), "v")}})
		d.sequence()
	}
	t.done(d.s, rows...)
	if now := d.sequence(); now < last {
		t.Errorf("when rows are done the sequence falls from %d to %d", last, now)
	}
	last = d.sequence()
	if t.reopened() {
		if now := t.desk().sequence(); now < last {
			t.Errorf("after it was opened again the sequence is %d, it was %d", now, last)
		}
	}
}
