package txn_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

// gated is a system store whose appends of one process wait.
type gated struct {
	tiers.System
	before func(rows []tiers.Row)
}

func (g *gated) Append(ctx context.Context, rows []tiers.Row, conds []tiers.Cond, limit int64) ([]tiers.Row, error) {
	g.before(rows)
	return g.System.Append(ctx, rows, conds, limit)
}

// A process that can't reach the server decides by the journal alone. If
// another one gets through to the server at that moment, the decision is void.
func TestAConditionIsNotDecidedByAJournalThatStoppedBeingTheTruth(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tiers.SystemClock())
	w.server.set(true)
	shared := w.system
	reached := false
	w.system = &gated{shared, func(rows []tiers.Row) {
		if rows[0].Tier != "cache" || reached {
			return
		}
		reached = true
		other := newServer() // the same records, over a way that works
		first := *w
		first.server, first.system = other, shared
		if _, err := first.open().Save(t.Context(), rec("k", "first"), tiers.If(0)); err != nil {
			t.Error(err)
		}
	}}
	late := w.open()
	if _, err := late.Save(t.Context(), rec("k", "second"), tiers.If(0)); !errors.Is(err, tiers.ErrUnavailable) {
		t.Errorf("the key was created twice: %v", err)
	}
	if got := shown(t, late, "other"); got != "unavailable" {
		t.Errorf("from then on nobody knows: %s", got)
	}
	w.server.set(false)
	if got := shown(t, late, "k"); got != "first" {
		t.Error(got)
	}
}

func TestOneOfTwoDeletersFindsTheRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tiers.SystemClock())
	w.server.set(true)
	other := w.open()
	raced := false
	w.system = &gated{w.system, func(rows []tiers.Row) {
		if !rows[0].Deleted || raced {
			return
		}
		raced = true
		if existed, err := other.Delete(t.Context(), key("k"), tiers.Cond{}); err != nil || !existed {
			t.Errorf("the first: %v, %v", existed, err)
		}
	}}
	save(t, other, "k", "1")
	j := w.open()
	if existed, err := j.Delete(t.Context(), key("k"), tiers.Cond{}); err != nil || existed {
		t.Errorf("the second: %v, %v", existed, err)
	}
	if existed, err := j.DeleteMany(t.Context(), []tiers.Key{key("k"), key("never")}, nil); err != nil || existed[0] || existed[1] {
		t.Errorf("later: %v, %v", existed, err)
	}
}

// A save that is on its way to the server when another one becomes a row is the
// newer of both if its version is higher. Loads have to say so at once, and not
// only when the row was passed over.
func TestARowThatWasOvertakenIsNotTheAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tiers.SystemClock())
	j := w.open()
	ahead := rec("other", "1")
	ahead.Version = tiers.Version(w.clock.Now().Add(1e12).UnixMicro()) // the server's versions run ahead
	if err := w.inner.Apply(t.Context(), []tiers.Record{ahead}, nil); err != nil {
		t.Fatal(err)
	}
	w.server.refuse = func(tiers.Record) error { return tiers.ErrTooLarge } // rows stay
	w.server.stored = func(r tiers.Record) {
		if string(r.Value) != "overtakes" {
			return
		}
		w.server.set(true)
		save(t, j, "k", "row")
		w.server.set(false)
	}
	save(t, j, "k", "overtakes")
	if got := shown(t, j, "k"); got != "overtakes" {
		t.Error(got)
	}
}
