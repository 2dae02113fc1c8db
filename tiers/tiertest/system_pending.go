package tiertest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func pendingRules() []rule {
	return []rule{
		{
			name: "done removes only what was not changed since",
			why:  "a row that was replaced while its value was applied is still to be applied",
			run: func(t *T) {
				s := t.system()
				old := t.appendRows(s, pendingRow("cache", "k", "old"))[0]
				fresh := t.appendRows(s, pendingRow("cache", "k", "new"))[0]
				other := t.appendRows(s, pendingRow("cache", "other", "v"))[0]
				t.done(s, old, other)
				t.wantRow(s, fresh)
				t.wantNoRow(s, "cache", other.Key)
				t.done(s, fresh)
				t.wantNoRow(s, "cache", fresh.Key)
				t.done(s, fresh, old)
				t.done(s)
				if t.reopened() {
					t.wantNoRow(t.system(), "cache", fresh.Key)
				}
			},
		},
		{
			name: "pending rows are listed as queries say",
			why:  "a list of the tier merges them, so order and selection must be the same",
			run:  pendingListed,
		},
		{
			name: "due rows come in order of their sequence",
			why:  "they are applied in the order of their commits, and in portions",
			run:  dueInOrder,
		},
		{
			name: "the backlog tells rows, bytes and age",
			why:  "health and limits go by it",
			run:  backlogTells,
		},
	}
}

func pendingListed(t *T) {
	s := t.system()
	all := []string{"%", "A", "_", "a", "a%b", "a/b", "a_b", "ab", "acme", "acme-corp", "acme/x", "b", "é", "😀"}
	slices.Sort(all)
	for i := range all {
		name := all[i*5%len(all)]
		row := pendingRow("cache", name, name)
		switch name {
		case "a_b":
			row = deletedRow(name)
		case "acme":
			row.Expires = tiers.Micro(t.now().Add(-time.Hour))
		}
		t.appendRows(s, row)
	}
	noise := pendingRow("cache", "a", "elsewhere")
	noise.Category = category + ".below"
	named := pendingRow("cache", "a", "elsewhere")
	named.Namespace = "n"
	t.appendRows(s, pendingRow("file", "a", "other tier"), noise, named)
	for _, prefix := range []string{"", "a", "a%", "a_", "acme/"} {
		for _, after := range []string{"", "a%c", "acme"} {
			for _, limit := range []int{0, 2} {
				for _, reverse := range []bool{false, true} {
					q := tiers.Query{Category: category, Prefix: prefix, After: after, Limit: limit, Reverse: reverse}
					var got []string
					for _, row := range collect(t, "list pending", s.ListPending(t.ctx, "cache", q)) {
						got = append(got, row.Name)
						if row.Category != category || row.Namespace != "" || row.Tier != "cache" || row.Seq == 0 {
							t.Errorf("the list yields %+v", row)
						}
						if !row.Deleted && string(row.Value) != row.Name {
							t.Errorf("%s comes with %q", show(row.Key), row.Value)
						}
						if row.Deleted != (row.Name == "a_b") {
							t.Errorf("%s comes with deleted %v", show(row.Key), row.Deleted)
						}
					}
					t.wantNames(fmt.Sprintf("prefix %q after %q limit %d reverse %v", prefix, after, limit, reverse), got, selected(all, q))
				}
			}
		}
	}
	for row, err := range s.ListPending(t.ctx, "cache", tiers.Query{Category: category}) {
		if err != nil {
			t.Fatalf("list pending: %v", err)
		}
		t.done(s, row) // in the loop, and then leave it
		break
	}
	var many []tiers.Row
	var want []string
	for i := range 1050 {
		want = append(want, fmt.Sprintf("n%04d", i))
		many = append(many, pendingRow("file", want[i], "v"))
	}
	t.appendRows(s, many...)
	var got []string
	for _, row := range collect(t, "list pending", s.ListPending(t.ctx, "file", tiers.Query{Category: category, Prefix: "n"})) {
		got = append(got, row.Name)
	}
	t.wantNames("many pages", got, want)
}

func dueInOrder(t *T) {
	s := t.system()
	var want []uint64
	for i := range 10 {
		rows := t.appendRows(s, pendingRow("cache", fmt.Sprintf("k%d", 9-i), "v"), pendingRow("file", "k", fmt.Sprint(i)))
		want = append(want, rows[0].Seq)
	}
	again := t.appendRows(s, pendingRow("cache", "k5", "later"))[0]
	want = append(slices.Delete(want, 4, 5), again.Seq)
	due := func(after uint64, limit int) []uint64 {
		rows, err := s.Due(t.ctx, "cache", after, limit)
		if err != nil {
			t.Fatalf("due: %v", err)
		}
		var seqs []uint64
		for _, row := range rows {
			seqs = append(seqs, row.Seq)
			t.wantRow(s, row)
		}
		return seqs
	}
	for _, c := range []struct {
		what  string
		after uint64
		limit int
		want  []uint64
	}{
		{"all", 0, 100, want},
		{"three", 0, 3, want[:3]},
		{"after the third", want[2], 100, want[3:]},
		{"two after the third", want[2], 2, want[3:5]},
		{"after the last", again.Seq, 100, nil},
	} {
		if got := due(c.after, c.limit); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
	expired := pendingRow("cache", "expired", "v")
	expired.Expires = tiers.Micro(t.now().Add(-time.Hour))
	late := t.appendRows(s, deletedRow("deleted"), expired)
	if got, want := due(again.Seq, 10), []uint64{late[0].Seq, late[1].Seq}; !slices.Equal(got, want) {
		t.Errorf("a delete and an expired row: %v, want %v", got, want)
	}
	if rows, err := s.Due(t.ctx, "no such tier", 0, 10); err != nil || len(rows) != 0 {
		t.Errorf("due for a tier without rows answers %d rows and %s", len(rows), said(err))
	}
}

func backlogTells(t *T) {
	s := t.system()
	want := func(when string, rows, bytes int64, oldest time.Time) {
		b, err := s.Backlog(t.ctx, "cache")
		if err != nil {
			t.Fatalf("backlog: %v", err)
		}
		if b.Rows != rows || b.Bytes != bytes || rows == 0 && !b.Oldest.IsZero() {
			t.Errorf("%s: %+v, want %d rows and %d bytes", when, b, rows, bytes)
		}
		if rows > 0 && !t.near(b.Oldest, oldest) {
			t.Errorf("%s: the oldest is of %v, want %v", when, b.Oldest, oldest)
		}
	}
	made := func(name, value string) tiers.Row {
		row := pendingRow("cache", name, value)
		row.Created, row.Updated = tiers.Micro(t.now()), tiers.Micro(t.now())
		return row
	}
	want("empty", 0, 0, time.Time{})
	began := t.now()
	first := t.appendRows(s, made("k1", strings.Repeat("x", 100)))[0]
	t.Clock.Advance(time.Hour)
	second := t.appendRows(s, made("k22", strings.Repeat("x", 10)))[0]
	t.appendRows(s, pendingRow("file", "k", "of another tier"))
	want("two rows", 2, 2+100+3+10, began)
	t.done(s, first)
	want("the older one done", 1, 3+10, began.Add(time.Hour))
	t.done(s, second)
	want("all done", 0, 0, time.Time{})
}
