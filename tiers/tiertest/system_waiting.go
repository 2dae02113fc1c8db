package tiertest

import (
	"fmt"

	"github.com/sagestore/sagestore/tiers"
)

func waitingRules() []rule {
	return []rule{
		{
			name: "no row that waits is denied", needs: []Capability{Waiter},
			why: "who is told that none waits takes what the tier has for the newest",
			run: waitingIsTold,
		},
		{
			name: "a row waits from its append on, whoever looks meanwhile", needs: []Capability{Waiter},
			why: "a look that began before a row came must not hide it",
			run: waitingRaces,
		},
		{
			name: "of an empty journal nothing waits", needs: []Capability{Waiter},
			why: "it spares each load a look into the journal, and nearly always it is empty",
			run: func(t *T) {
				s := t.system()
				rows := t.appendRows(s, pendingRow("cache", "a", "v"), pendingRow("file", "b", "v"))
				t.done(s, rows...)
				t.changes(s)
				for _, r := range rows {
					if t.waits(s, r.Tier, r.Key) {
						t.Errorf("%s is to be looked for in %s, although all was done", show(r.Key), r.Tier)
					}
				}
			},
		},
	}
}

func (t *T) waits(s tiers.System, tier string, k tiers.Key) bool {
	w, ok := s.(tiers.Waiter)
	if !ok {
		t.Fatalf("the system store does not tell what waits")
	}
	return w.Waits(tier, k)
}

func (t *T) wantWaits(when string, s tiers.System, row tiers.Row) {
	if !t.waits(s, row.Tier, row.Key) {
		t.Errorf("%s: the row of %s in %s waits, and is denied", when, show(row.Key), row.Tier)
	}
}

func waitingIsTold(t *T) {
	s := t.system()
	t.changes(s)
	mine := t.appendRows(s, pendingRow("cache", "mine", "v"))[0]
	t.wantWaits("at once", s, mine)
	t.changes(s)
	t.wantWaits("after a look", s, mine)
	again := t.appendRows(s, pendingRow("cache", "mine", "w"))[0]
	t.done(s, mine) // which is another row by now
	t.changes(s)
	t.wantWaits("after the row before it was done", s, again)
	if c, ok := tiers.As[tiers.Committer](t.Tier); ok {
		t.done(s, again)
		t.changes(s)
		out, err := c.Commit(t.ctx, tiers.Commit{ID: "tx", Rows: []tiers.Row{pendingRow("cache", "committed", "v")}})
		if err != nil {
			t.Fatalf("commit: %v", err)
		}
		t.wantWaits("after its commit", s, out.Rows[0])
		t.changes(s)
		t.wantWaits("after its commit and a look", s, out.Rows[0])
		again = out.Rows[0]
	}
	if other, ok := t.second(); ok {
		t.done(s, again)
		t.changes(s)
		again = t.appendRows(other, pendingRow("cache", "theirs", "v"))[0]
		t.changes(s)
		t.wantWaits("after a look at what another handle has made", s, again)
	}
	if t.reopened() {
		s = t.system()
		t.changes(s)
		t.wantWaits("after another start", s, again)
	}
}

func waitingRaces(t *T) {
	s := t.system()
	const workers, each = 4, 25
	t.workers(2*workers, func(worker int) {
		for i := range each {
			if worker >= workers {
				t.changes(s)
				continue
			}
			row := t.appendRows(s, pendingRow("cache", fmt.Sprintf("w%d-%d", worker, i), "v"))[0]
			t.wantWaits("while others look", s, row)
			t.changes(s)
			t.wantWaits("after a look, while others look", s, row)
			t.done(s, row)
		}
	})
}
