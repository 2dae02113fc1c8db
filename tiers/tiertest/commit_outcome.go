package tiertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func outcomeRules() []rule {
	return []rule{
		{
			name: "the outcome tells what was committed",
			why:  "who has lost the answer asks, and must not do it twice or leave it",
			run:  outcomeTells,
		},
		{
			name: "an outcome is final",
			why:  "a transaction that shows up after it was called lost is done twice",
			run:  outcomeIsFinal,
		},
		{
			name: "a context that is over commits nothing",
			why:  "the caller has left and takes it as not done",
			run: func(t *T) {
				d := t.desk()
				ctx, cancel := context.WithCancel(t.ctx)
				cancel()
				c := d.marked(tiers.Commit{})
				_, err := d.c.Commit(ctx, c)
				t.wantError("commit", err, context.Canceled)
				if errors.Is(err, tiers.ErrCommitUnknown) {
					t.Errorf("a commit that never began has an unknown outcome: %v", err)
				}
				_, err = d.c.Commit(ctx, tiers.Commit{ID: "checks"})
				t.wantError("a commit that only checks", err, context.Canceled)
				_, err = d.c.Outcome(ctx, c.ID)
				t.wantError("outcome", err, context.Canceled)
				_, err = d.c.Sequence(ctx)
				t.wantError("sequence", err, context.Canceled)
				d.wantMarks("afterwards", c, false)
			},
		},
		{
			name: "after Close nothing is committed",
			why:  "a late caller gets an error that it can tell, not a panic",
			run: func(t *T) {
				d := t.desk()
				done := d.id()
				d.commit(tiers.Commit{ID: done, Saves: []tiers.Record{raw(named("k"), "v")}})
				if err := t.Tier.Close(t.ctx); err != nil {
					t.Fatalf("close: %v", err)
				}
				for name, op := range map[string]func() error{
					"commit": func() error {
						_, err := d.try(tiers.Commit{Saves: []tiers.Record{raw(named("k"), "v")}})
						return err
					},
					"a commit that only checks": func() error { _, err := d.try(tiers.Commit{}); return err },
					"outcome of what was done":  func() error { _, err := d.c.Outcome(t.ctx, done); return err },
					"outcome of what never was": func() error { _, err := d.c.Outcome(t.ctx, "never"); return err },
					"sequence":                  func() error { _, err := d.c.Sequence(t.ctx); return err },
				} {
					t.guard(func() { t.wantError(name, op(), tiers.ErrClosed) })
				}
			},
		},
	}
}

func outcomeTells(t *T) {
	d := t.desk()
	d.wantOutcome("of what never was", "never", false)
	records, rows, facts, failed := d.id(), d.id(), d.id(), d.id()
	d.commit(tiers.Commit{ID: records, Saves: []tiers.Record{raw(named("k"), "v")}})
	d.commit(tiers.Commit{ID: rows, Rows: []tiers.Row{pendingRow("cache", "k", "v")}})
	d.commit(tiers.Commit{ID: facts, OnlyOnce: "once"})
	_, err := d.try(tiers.Commit{ID: failed, Reads: []tiers.Read{{Key: named("k"), Version: 1}}, Saves: []tiers.Record{raw(named("k"), "w")}})
	t.wantError("over another version", err, tiers.ErrConflict)
	check := func(when string, d *desk) {
		d.wantOutcome(when+", of records", records, true)
		d.wantOutcome(when+", of rows", rows, true)
		d.wantOutcome(when+", of a fact", facts, true)
		d.wantOutcome(when+", of a conflict", failed, false)
		d.wantOutcome(when+", of what never was", "never", false)
		d.wantOutcome(when+", of part of an id", records[:len(records)-1], false)
	}
	check("at once", d)
	d.commit(tiers.Commit{ID: failed, Saves: []tiers.Record{raw(named("k"), "w")}})
	d.wantOutcome("tried again", failed, true)
	if ds := t.desks(); len(ds) > 1 {
		ds[1].wantOutcome("of another handle", records, true)
		late := ds[1].id()
		ds[1].commit(tiers.Commit{ID: late, Saves: []tiers.Record{raw(named("k"), "v")}})
		d.wantOutcome("by another handle", late, true)
	}
	// For a day, whatever else is committed.
	for range 24 {
		for range 20 {
			d.commit(tiers.Commit{Saves: []tiers.Record{raw(named("k"), "v")}})
		}
		t.Clock.Advance(time.Hour)
	}
	d.wantOutcome("a day later", records, true)
	if t.reopened() {
		t.desk().wantOutcome("after it was opened again", rows, true)
	}
}

// outcomeIsFinal lets callers leave at any moment and asks then.
func outcomeIsFinal(t *T) {
	clock := tiers.SystemClock()
	const callers, rounds = 6, 25
	known := make([]int, callers)
	t.workers(callers, func(worker int) {
		d := t.deskOf(t.Tier)
		for i := range rounds {
			ctx, cancel := context.WithCancel(t.ctx)
			c := d.marked(tiers.Commit{Saves: []tiers.Record{raw(numbered(fmt.Sprintf("w%d/", worker), i), "v")}})
			go func() {
				defer cancel()
				_ = clock.Sleep(ctx, time.Duration(rand.IntN(600))*time.Microsecond) //nolint:gosec // not a secret
			}()
			_, err := d.c.Commit(ctx, c)
			cancel()
			committed, asked := d.c.Outcome(t.ctx, c.ID)
			if asked != nil {
				t.Fatalf("outcome: %v", asked)
			}
			switch {
			case err == nil && !committed:
				t.Errorf("an acknowledged commit is said not to be one")
			case err != nil && !errors.Is(err, tiers.ErrCommitUnknown) && committed:
				t.Errorf("a commit that answers %v is said to be one", err)
			case err != nil:
				known[worker]++
			}
			d.wantMarks("as the outcome says", c, committed)
			if i%5 == 4 {
				d.commit(tiers.Commit{Saves: []tiers.Record{raw(named("later"), "v")}})
				d.wantMarks("and later", c, committed)
			}
		}
	})
	t.Notef("%v commits were left", known)
}
