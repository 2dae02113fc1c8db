package tiertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// RunSwitcher checks every promise of [tiers.RowSwitcher] on the tiers that open answers.
func RunSwitcher(t *testing.T, open func(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error)) {
	t.Helper()
	runGroups(t, Config{Open: open}, []group{{"switch", []rule{
		{name: "what was prepared becomes rows, and what is not among it is deleted", why: "another tier gets what a restore brings", run: switchRows},
		{name: "rows that wait are replaced", why: "there is one row at most for a key", run: switchOverRows},
		{name: "a row that came since is a conflict", why: "it would be lost, or left over", run: switchConflicts},
		{name: "moves and rows are switched together", why: "one restore is one step", run: switchBoth},
		{name: "the row of a transaction that is replaced leaves its outcome", why: "somebody may still ask for it", run: switchOutcome},
		{name: "a switch of what can't be is refused", why: "nobody could read it", run: switchRefused},
	}}})
}

// bench is what a switch works with.
type bench struct {
	*desk
	switcher tiers.RowSwitcher
	applier  tiers.Applier
	move     tiers.RowMove
}

func (t *T) bench() *bench {
	b := &bench{desk: t.desk()}
	var switches, applies bool
	b.switcher, switches = tiers.As[tiers.RowSwitcher](t.Tier)
	b.applier, applies = tiers.As[tiers.Applier](t.Tier)
	if !switches || !applies {
		t.Fatalf("the tier is no tiers.RowSwitcher, or no tiers.Applier")
	}
	b.move = tiers.RowMove{
		From: tiers.Space{Category: "-from"}, Gone: tiers.Space{Category: "-gone"}, To: named("k").Space(),
		Tier: "file", Owner: "owner-2", Version: version(t.now().Add(time.Hour)), Since: b.sequence(),
	}
	return b
}

// at is when what was prepared was saved.
func (b *bench) at() time.Time { return tiers.Micro(b.now().Add(-time.Hour)) }

// prepare stores records in a space.
func (b *bench) prepare(s tiers.Space, values map[string]string) {
	var all []tiers.Record
	for name, value := range values {
		all = append(all, tiers.Record{
			Key: tiers.Key{Namespace: s.Namespace, Category: s.Category, Name: name}, Codec: "json", Schema: 3, Version: 7,
			Created: b.at(), Updated: b.at().Add(time.Minute), Expires: tiers.Micro(b.at().Add(300 * time.Hour)), Value: []byte(value),
		})
	}
	b.must(b.applier.Apply(b.ctx, all, nil), "prepare")
}

// rows switches rows alone.
func (b *bench) rows() error {
	_, _, err := b.switcher.SwitchRows(b.ctx, nil, []tiers.RowMove{b.move})
	return err
}

// due are the rows of the tier.
func (b *bench) due(s tiers.System) map[string]tiers.Row {
	all := map[string]tiers.Row{}
	last := uint64(0)
	for {
		some, err := s.Due(b.ctx, b.move.Tier, last, 7)
		b.must(err, "due")
		if len(some) == 0 {
			return all
		}
		for _, r := range some {
			if r.Seq <= last {
				b.Errorf("row %d comes after %d", r.Seq, last)
			}
			last = r.Seq
			all[r.Name] = r
		}
	}
}

func switchRows(t *T) {
	b := t.bench()
	values, gone := map[string]string{}, map[string]string{"old": "", "00001": ""}
	for i := range 20 {
		values[fmt.Sprintf("%05d", i)] = fmt.Sprint(i)
	}
	values["blob"] = "\xff\x00 no json"
	b.prepare(b.move.From, values)
	b.prepare(b.move.Gone, gone)
	_, brought, err := b.switcher.SwitchRows(b.ctx, nil, []tiers.RowMove{b.move})
	t.must(err, "switch")
	t.alike(brought, []int64{21}, "brought records")
	look := func(s tiers.System) {
		rows := b.due(s)
		if len(rows) != 22 {
			t.Errorf("%d rows wait, want 22", len(rows))
		}
		for name, r := range rows {
			want := tiers.Row{Record: tiers.Record{
				Key: named(name), Codec: "json", Schema: 3, Version: b.move.Version, Value: []byte(values[name]),
				Created: b.at(), Updated: b.at().Add(time.Minute), Expires: tiers.Micro(b.at().Add(300 * time.Hour)),
			}, Seq: r.Seq, Tier: "file", Owner: "owner-2"}
			if name == "old" {
				want.Record = tiers.Record{Key: named(name), Version: b.move.Version, Created: r.Created, Updated: r.Updated, Value: []byte{}}
				want.Deleted = true
			}
			t.wantSameRow("switched", r, want)
			t.wantRow(s, r)
		}
		if n := len(collect(t, "pending", s.ListPending(b.ctx, "file", tiers.Query{Category: b.move.To.Category}))); n != 22 {
			t.Errorf("%d rows are listed", n)
		}
		backlog, err := s.Backlog(b.ctx, "file")
		t.must(err, "backlog")
		if backlog.Rows != 22 || backlog.Bytes != 0 || backlog.Oldest.IsZero() {
			t.Errorf("the backlog is %+v", backlog)
		}
	}
	look(b.s)
	if other, shared := t.second(); shared {
		look(other)
	}
	if t.reopened() {
		b.desk = t.desk()
		look(b.s)
	}
	// They are rows like any other from then on.
	rows := b.due(b.s)
	next := t.appendRows(b.s, tiers.Row{Record: raw(named("00003"), "n"), Tier: "file"})[0]
	if next.Version <= b.move.Version || next.Seq <= rows["old"].Seq || !next.Created.Equal(b.at()) {
		t.Errorf("the next row of a key is %+v", next)
	}
	delete(rows, "00003")
	var all []tiers.Row
	for _, r := range rows {
		all = append(all, r)
	}
	t.must(b.s.Done(b.ctx, all), "done")
	backlog, err := b.s.Backlog(b.ctx, "file")
	t.must(err, "backlog")
	if backlog.Rows != 1 || backlog.Bytes != int64(len("00003n")) {
		t.Errorf("the backlog is %+v at last", backlog)
	}
}

func switchOverRows(t *T) {
	b := t.bench()
	kept := deletedRow("deleted")
	kept.Tier = "file"
	elsewhere := pendingRow("file", "a", "elsewhere")
	elsewhere.Category = "other.category"
	was := t.appendRows(b.s, pendingRow("file", "a", "1"), pendingRow("file", "b", "2"), kept, pendingRow("cache", "a", "other"), elsewhere)
	b.prepare(b.move.From, map[string]string{"a": "1"})
	b.prepare(b.move.Gone, map[string]string{"a": "", "b": ""})
	b.move.Since = b.sequence()
	t.must(b.rows(), "switch")
	rows := map[string]tiers.Row{}
	for _, r := range collect(t, "pending", b.s.ListPending(b.ctx, "file", tiers.Query{Category: b.move.To.Category})) {
		rows[r.Name] = r
	}
	if len(rows) != 3 || rows["a"].Deleted || !rows["b"].Deleted || rows["deleted"].Seq != was[2].Seq {
		t.Errorf("the rows are %+v", rows)
	}
	for _, name := range []string{"a", "b"} {
		if rows[name].Version != b.move.Version || rows[name].Seq <= was[4].Seq {
			t.Errorf("the row of %s is %+v", name, rows[name])
		}
	}
	t.wantRow(b.s, was[3])
	t.wantRow(b.s, was[4])
	backlog, err := b.s.Backlog(b.ctx, "file")
	t.must(err, "backlog")
	if backlog.Rows != 4 || backlog.Bytes != int64(len("deleted")+len("aelsewhere")) {
		t.Errorf("the backlog is %+v", backlog)
	}
	// What is done with the old ones does not matter any more.
	t.must(b.s.Done(b.ctx, was[:2]), "done")
	t.wantRow(b.s, rows["a"])
	// Who has read before is told.
	d := t.desk()
	d.conflicts("a read before", tiers.Commit{Since: b.move.Since, RowReads: []tiers.RowRead{{Tier: "file", Read: tiers.Read{Key: named("a"), Version: was[0].Version}}}}, named("a"))
}

func switchConflicts(t *T) {
	b := t.bench()
	b.prepare(b.move.From, map[string]string{"a": "1"})
	late := t.appendRows(b.s, pendingRow("file", "late", "1"))[0]
	err := b.rows()
	t.wantError("a row that waits since", err, tiers.ErrConflict)
	t.must(b.s.Done(b.ctx, []tiers.Row{late}), "done")
	t.wantError("a row that was applied since", b.rows(), tiers.ErrConflict)
	if rows := b.due(b.s); len(rows) != 0 {
		t.Errorf("there are rows of it: %+v", rows)
	}
	b.move.Since = b.sequence()
	t.must(b.rows(), "switch")
}

func switchBoth(t *T) {
	b := t.bench()
	to, aside := tiers.Space{Category: "moved"}, tiers.Space{Category: "-moved"}
	b.prepare(to, map[string]string{"old": "1", "both": "1"})
	b.prepare(aside, map[string]string{"both": "2", "new": "2"})
	b.prepare(b.move.From, map[string]string{"a": "1"})
	late := t.appendRows(b.s, pendingRow("file", "late", "1"))
	moves := []tiers.Move{{From: aside, To: to}}
	_, _, err := b.switcher.SwitchRows(b.ctx, moves, []tiers.RowMove{b.move})
	t.wantError("of rows that have changed", err, tiers.ErrConflict)
	if _, err := b.tier.Load(b.ctx, tiers.Key{Category: "moved", Name: "old"}); err != nil {
		t.Errorf("half of it was done: %v", err)
	}
	t.must(b.s.Done(b.ctx, late), "done")
	b.move.Since = b.sequence()
	moved, brought, err := b.switcher.SwitchRows(b.ctx, moves, []tiers.RowMove{b.move})
	t.must(err, "switch")
	t.alike(moved, []tiers.Moved{{Brought: 2, Replaced: 2}}, "moved records")
	t.alike(brought, []int64{1}, "brought records")
	r, err := b.tier.Load(b.ctx, tiers.Key{Category: "moved", Name: "both"})
	t.must(err, "load")
	if string(r.Value) != "2" || r.Version <= 7 {
		t.Errorf("it is %q of version %d", r.Value, r.Version)
	}
	_, err = b.tier.Load(b.ctx, tiers.Key{Category: "moved", Name: "old"})
	t.wantError("what was not prepared", err, tiers.ErrNotFound)
}

func switchOutcome(t *T) {
	b := t.bench()
	b.commit(tiers.Commit{ID: "of the row", Rows: []tiers.Row{pendingRow("file", "a", "1")}})
	b.prepare(b.move.From, map[string]string{"a": "2"})
	b.move.Since = b.sequence()
	t.must(b.rows(), "switch")
	b.wantOutcome("after the switch", "of the row", true)
	b.wantOutcome("of none", "never", false)
	if t.reopened() {
		b.desk = t.desk()
		b.wantOutcome("when it is opened again", "of the row", true)
	}
	if other, ok := b.due(b.s)["a"]; !ok || string(other.Value) != "2" {
		t.Errorf("the row is %+v", other)
	}
}

func switchRefused(t *T) {
	b := t.bench()
	for why, change := range map[string]func(m *tiers.RowMove){
		"no tier":      func(m *tiers.RowMove) { m.Tier = "" },
		"no category":  func(m *tiers.RowMove) { m.To.Category = "" },
		"no version":   func(m *tiers.RowMove) { m.Version = 0 },
		"a namespace?": func(m *tiers.RowMove) { m.From.Namespace = "a/b\x00" },
	} {
		m := b.move
		change(&m)
		if _, _, err := b.switcher.SwitchRows(b.ctx, nil, []tiers.RowMove{m}); err == nil || errors.Is(err, tiers.ErrConflict) {
			t.Errorf("%s: %v", why, err)
		}
	}
}
