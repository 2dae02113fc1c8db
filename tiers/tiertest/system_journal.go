package tiertest

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func journalRules() []rule {
	return []rule{
		{
			name: "an appended row is pending as it is",
			why:  "it is the truth about its key until it was applied",
			run:  rowIsPending,
		},
		{
			name: "versions of rows grow and respect floors",
			why:  "a row must come out as newer than all that its tier has seen",
			run:  rowVersionsGrow,
		},
		{
			name: "a row replaces the one before and goes over any",
			why:  "the first of them may be in the tier by now, and have its version there",
			run:  rowReplaces,
		},
		{
			name: "conditions of rows hold against what is pending",
			why:  "while the tier is away, the journal is the whole truth",
			run:  rowConditions,
		},
		{
			name: "a failed condition stores nothing of the commit",
			why:  "half a commit is worse than none",
			run: func(t *T) {
				s := t.system()
				first := t.appendRows(s, pendingRow("cache", "there", "v"))[0]
				rows := []tiers.Row{pendingRow("cache", "new", "v"), pendingRow("cache", "there", "w"), pendingRow("file", "other", "v")}
				_, err := s.Append(t.ctx, rows, []tiers.Cond{{}, tiers.If(0), {}}, 0)
				t.wantError("append", err, tiers.ErrExists)
				t.wantRow(s, first)
				t.wantNoRow(s, "cache", named("new"))
				t.wantNoRow(s, "file", named("other"))
			},
		},
		{
			name: "the limit refuses and deletes always fit",
			why:  "a tier that stays away must not fill the disk, and deleting makes room",
			run:  rowLimit,
		},
		{
			name: "rows are journaled for each tier alone",
			why:  "one key may be pending for several tiers",
			run: func(t *T) {
				s := t.system()
				both := t.appendRows(s, pendingRow("cache", "k", "of cache"), pendingRow("file", "k", "of file"))
				t.wantRow(s, both[0])
				t.wantRow(s, both[1])
				t.done(s, both[0])
				t.wantNoRow(s, "cache", named("k"))
				t.wantRow(s, both[1])
			},
		},
		{
			name: "many callers append in one order",
			why:  "versions and sequence numbers are what tells two commits apart",
			run: func(t *T) {
				handles := []tiers.System{t.system()}
				if other, ok := t.second(); ok {
					handles = append(handles, other)
				}
				var mu sync.Mutex
				seqs, versions := map[uint64]bool{}, map[tiers.Version]bool{}
				const callers, each = 8, 20
				t.workers(callers, func(worker int) {
					for i := range each {
						row := t.appendRows(handles[worker%len(handles)], pendingRow("cache", fmt.Sprintf("k%d", i), fmt.Sprint(worker)))[0]
						mu.Lock()
						seqs[row.Seq], versions[row.Version] = true, true
						mu.Unlock()
					}
				})
				if len(seqs) != callers*each || len(versions) != callers*each {
					t.Errorf("%d commits got %d sequence numbers and %d versions", callers*each, len(seqs), len(versions))
				}
			},
		},
	}
}

func pendingRow(tier, name, value string) tiers.Row {
	return tiers.Row{Record: raw(named(name), value), Tier: tier, Owner: "owner-1"}
}

func deletedRow(name string) tiers.Row {
	r := pendingRow("cache", name, "")
	r.Value, r.Deleted = nil, true
	return r
}

func (t *T) appendRows(s tiers.System, rows ...tiers.Row) []tiers.Row {
	got, err := s.Append(t.ctx, rows, nil, 0)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	if len(got) != len(rows) {
		t.Fatalf("append answers %d rows for %d", len(got), len(rows))
	}
	for i, want := range rows {
		row := got[i]
		if row.Seq == 0 || row.Version == 0 || row.Key != want.Key || row.Tier != want.Tier {
			t.Errorf("append answers row %d as %+v", i, row)
		}
	}
	return got
}

func (t *T) done(s tiers.System, rows ...tiers.Row) {
	if err := s.Done(t.ctx, rows); err != nil {
		t.Fatalf("done: %v", err)
	}
}

func (t *T) wantRow(s tiers.System, want tiers.Row) {
	got, err := s.Pending(t.ctx, want.Tier, want.Key)
	if err != nil {
		t.Errorf("pending of %s for %s: %v", show(want.Key), want.Tier, err)
		return
	}
	t.wantSameRow("pending", got, want)
}

func (t *T) wantSameRow(when string, got, want tiers.Row) {
	t.wantSame(when, got.Record, want.Record)
	if got.Seq != want.Seq || got.Tier != want.Tier || got.Owner != want.Owner || got.Over != want.Over || got.Deleted != want.Deleted {
		t.Errorf("%s: %s has seq %d, tier %s, owner %s, over %v, deleted %v; want %d, %s, %s, %v, %v", when, show(got.Key),
			got.Seq, got.Tier, got.Owner, got.Over, got.Deleted, want.Seq, want.Tier, want.Owner, want.Over, want.Deleted)
	}
}

func (t *T) wantNoRow(s tiers.System, tier string, k tiers.Key) {
	if row, err := s.Pending(t.ctx, tier, k); !errors.Is(err, tiers.ErrNotFound) {
		t.Errorf("pending of %s for %s answers %s with %s, want ErrNotFound", show(k), tier, said(err), cut(string(row.Value)))
	}
}

func rowIsPending(t *T) {
	s := t.system()
	t.wantNoRow(s, "cache", named("k"))
	now := tiers.Micro(t.now())
	full := pendingRow("cache", "full", "a\x00b")
	full.Codec, full.Schema = "msgpack", 7
	full.Created, full.Updated, full.Expires = now.Add(-time.Hour), now, now.Add(time.Hour)
	full.Over = tiers.If(17)
	absent := pendingRow("cache", "absent", "")
	absent.Over = tiers.If(0)
	expired := pendingRow("file", "expired", "v")
	expired.Expires = now.Add(-time.Second)
	elsewhere := pendingRow("cache", "k", "v")
	elsewhere.Key = tiers.Key{Namespace: "n", Category: "elsewhere", Name: "k"}
	rows := []tiers.Row{full, absent, expired, deletedRow("deleted"), elsewhere}
	got := t.appendRows(s, rows...)
	for i, row := range got {
		want := rows[i]
		want.Seq, want.Version = row.Seq, row.Version
		if want.Created.IsZero() { // a journal may fill in what was left out
			want.Created, want.Updated = row.Created, row.Updated
		}
		t.wantSameRow("appended", row, want)
		t.wantRow(s, row)
	}
	got[0].Value[0] = 'X'
	full.Value[0] = 'X'
	if row, err := s.Pending(t.ctx, "cache", full.Key); err != nil || string(row.Value) != "a\x00b" {
		t.Errorf("after changing slices, %q is pending with %s", row.Value, said(err))
	}
	got[0].Value = []byte("a\x00b")
	if t.reopened() {
		for _, row := range got {
			t.wantRow(t.system(), row)
		}
	}
	if other, ok := t.second(); ok {
		for _, row := range got {
			t.wantRow(other, row)
		}
	}
	if rows, err := t.system().Append(t.ctx, nil, nil, 0); err != nil || len(rows) != 0 {
		t.Errorf("append of nothing answers %d rows and %s", len(rows), said(err))
	}
}

func rowVersionsGrow(t *T) {
	s := t.system()
	var last tiers.Version
	var seq uint64
	for i := range 12 {
		switch i {
		case 3:
			t.Clock.Advance(-24 * time.Hour)
		case 6:
			t.done(s, t.appendRows(s, pendingRow("cache", "k", "done"))...)
		case 9:
			if t.reopened() {
				s = t.system()
			}
		}
		row := t.appendRows(s, pendingRow("cache", "k", fmt.Sprint(i)))[0]
		if row.Version <= last || row.Seq <= seq {
			t.Errorf("step %d: version %d and seq %d do not follow %d and %d", i, row.Version, row.Seq, last, seq)
		}
		if i == 0 && row.Version < version(t.now().Add(-t.slack())) {
			t.Errorf("version %d is below the time", row.Version)
		}
		last, seq = row.Version, row.Seq
	}

	floor := pendingRow("cache", "floor", "v")
	floor.Version = last + 1_000_000_000
	row := t.appendRows(s, floor)[0]
	if row.Version < floor.Version {
		t.Errorf("version %d is below the floor of %d", row.Version, floor.Version)
	}
	next := t.appendRows(s, pendingRow("cache", "other", "v"))[0]
	if next.Version <= row.Version {
		t.Errorf("another key gets version %d after %d was issued", next.Version, row.Version)
	}
	low := pendingRow("cache", "low", "v")
	low.Version = 1
	if row := t.appendRows(s, low)[0]; row.Version <= next.Version {
		t.Errorf("with a floor of 1 the version is %d after %d was issued", row.Version, next.Version)
	}
	rows := t.appendRows(s, pendingRow("cache", "a", "v"), pendingRow("cache", "b", "v"), deletedRow("c"))
	for i, row := range rows[1:] {
		if row.Seq <= rows[i].Seq || row.Version <= rows[i].Version {
			t.Errorf("in one commit seq %d and version %d follow %d and %d", row.Seq, row.Version, rows[i].Seq, rows[i].Version)
		}
	}
}

func rowReplaces(t *T) {
	s := t.system()
	first := pendingRow("cache", "k", "1")
	first.Over = tiers.If(17)
	first = t.appendRows(s, first)[0]
	second := pendingRow("cache", "k", "2")
	second.Over, second.Owner = tiers.If(first.Version), "owner-2"
	second = t.appendRows(s, second)[0]
	if v, ok := second.Over.Version(); ok {
		t.Errorf("the second row goes over %d alone, want any: the first may be in the tier already", v)
	}
	if second.Owner != "owner-2" || string(second.Value) != "2" {
		t.Errorf("append answers owner %s and value %q", second.Owner, second.Value)
	}
	t.wantRow(s, second)
	due, err := s.Due(t.ctx, "cache", 0, 10)
	if err != nil || len(due) != 1 || due[0].Seq != second.Seq {
		t.Errorf("due answers %+v and %s, want the second row alone", due, said(err))
	}
	third := t.appendRows(s, deletedRow("k"))[0]
	if v, ok := third.Over.Version(); ok {
		t.Errorf("the delete goes over %d alone, want any", v)
	}
	free := t.appendRows(s, pendingRow("cache", "any", "1"))[0]
	if _, ok := free.Over.Version(); ok {
		t.Errorf("a row without a condition goes over %v", free.Over)
	}
	again := pendingRow("cache", "any", "2")
	again.Over = tiers.If(5)
	if again = t.appendRows(s, again)[0]; again.Over != free.Over {
		t.Errorf("it goes over %v, want any as the first did", again.Over)
	}
	t.done(s, third)
	fresh := pendingRow("cache", "k", "fresh")
	fresh.Over = tiers.If(99)
	if fresh = t.appendRows(s, fresh)[0]; fresh.Over != tiers.If(99) {
		t.Errorf("a row after the earlier one is done goes over %v, want its own", fresh.Over)
	}
}

func rowConditions(t *T) {
	s := t.system()
	appendIf := func(row tiers.Row, c tiers.Cond) (tiers.Row, error) {
		got, err := s.Append(t.ctx, []tiers.Row{row}, []tiers.Cond{c}, 0)
		if err != nil || len(got) != 1 {
			return tiers.Row{}, err
		}
		return got[0], nil
	}
	_, err := appendIf(pendingRow("cache", "k", "v"), tiers.If(5))
	t.wantError("over a version, nothing pending", err, tiers.ErrConflict)
	row, err := appendIf(pendingRow("cache", "k", "1"), tiers.If(0))
	if err != nil {
		t.Fatalf("if absent: %v", err)
	}
	_, err = appendIf(pendingRow("cache", "k", "2"), tiers.If(0))
	t.wantError("if absent, pending", err, tiers.ErrExists)
	_, err = appendIf(pendingRow("cache", "k", "2"), tiers.If(row.Version+1))
	t.wantError("over another version", err, tiers.ErrConflict)
	t.wantRow(s, row)
	if row, err = appendIf(deletedRow("k"), tiers.If(row.Version)); err != nil {
		t.Fatalf("delete over the right version: %v", err)
	}
	_, err = appendIf(pendingRow("cache", "k", "3"), tiers.If(row.Version))
	t.wantError("over a deleted version", err, tiers.ErrConflict)
	short := pendingRow("cache", "k", "short")
	short.Expires = tiers.Micro(t.now().Add(time.Minute))
	if row, err = appendIf(short, tiers.If(0)); err != nil {
		t.Fatalf("if absent over a deleted row: %v", err)
	}
	_, err = appendIf(pendingRow("cache", "k", "4"), tiers.If(0))
	t.wantError("if absent before it expires", err, tiers.ErrExists)
	t.Clock.Advance(time.Minute)
	_, err = appendIf(pendingRow("cache", "k", "4"), tiers.If(row.Version))
	t.wantError("over an expired version", err, tiers.ErrConflict)
	if _, err = appendIf(pendingRow("cache", "k", "4"), tiers.If(0)); err != nil {
		t.Errorf("if absent over an expired row: %v", err)
	}
	_, err = appendIf(pendingRow("file", "k", "4"), tiers.If(0))
	if err != nil {
		t.Errorf("if absent of another tier: %v", err)
	}
}

func rowLimit(t *T) {
	const limit = 1000
	s := t.system()
	try := func(rows ...tiers.Row) error {
		_, err := s.Append(t.ctx, rows, nil, limit)
		return err
	}
	big := func(tier, name string, size int) tiers.Row { return pendingRow(tier, name, string(make([]byte, size))) }
	if err := try(big("cache", "a", 600)); err != nil {
		t.Fatalf("append below the limit: %v", err)
	}
	t.wantError("append beyond the limit", try(big("cache", "b", 600)), tiers.ErrFull)
	t.wantNoRow(s, "cache", named("b"))
	t.wantError("a commit of which one row is beyond it", try(big("cache", "c", 10), big("cache", "d", 600)), tiers.ErrFull)
	t.wantNoRow(s, "cache", named("c"))
	if err := try(big("file", "b", 600)); err != nil {
		t.Errorf("append for another tier: %v", err)
	}
	if err := try(big("cache", "a", 700)); err != nil {
		t.Errorf("append in place of a row that goes: %v", err)
	}
	t.wantError("append in place of a row, beyond it", try(big("cache", "a", 2000)), tiers.ErrFull)
	if err := try(big("cache", "e", 250)); err != nil {
		t.Errorf("append of what still fits: %v", err)
	}
	many := make([]tiers.Row, 100)
	for i := range many {
		many[i] = deletedRow(fmt.Sprintf("deleted-%0100d", i))
	}
	if err := try(many...); err != nil {
		t.Errorf("deletes at the limit: %v", err)
	}
	if err := try(deletedRow("a")); err != nil {
		t.Errorf("delete of what is pending: %v", err)
	}
	if _, err := s.Append(t.ctx, []tiers.Row{big("cache", "f", 5000)}, nil, 0); err != nil {
		t.Errorf("append without a limit: %v", err)
	}
	if _, err := s.Append(t.ctx, []tiers.Row{big("cache", "g", 5000)}, nil, math.MaxInt64); err != nil {
		t.Errorf("append with the largest limit: %v", err)
	}
}
