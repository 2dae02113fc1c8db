package tiertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

// RunCommit checks every promise of [tiers.Committer] on the capability of the
// tier that open answers, which has to be a [tiers.System] as well. What it says
// of itself in Describe decides whether its store must survive Close, and be seen
// by other handles.
func RunCommit(t *testing.T, open func(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error)) {
	t.Helper()
	runGroups(t, Config{Open: open}, commitGroups())
}

func commitGroups() []group {
	return []group{
		{"commit", commitRules()},
		{"rows", commitRowRules()},
		{"outcome", outcomeRules()},
		{"commits at once", commitRaceRules()},
		{"commit model", commitModelRules()},
	}
}

// desk is where a rule commits on one handle.
type desk struct {
	*T
	tier tiers.Tier
	c    tiers.Committer
	s    tiers.System
}

func (t *T) desk() *desk { return t.deskOf(t.Tier) }

func (t *T) deskOf(h tiers.Tier) *desk {
	c, ok := tiers.As[tiers.Committer](h)
	if !ok {
		t.Fatalf("the tier decides no transactions")
	}
	return &desk{T: t, tier: h, c: c, s: t.systemOf(h)}
}

// desks are one on the handle of the rule, and one on another handle of the same
// store, if others see it.
func (t *T) desks() []*desk {
	all := []*desk{t.desk()}
	if tiers.Describe(t.Tier).Scope != tiers.ScopeProcess {
		all = append(all, t.deskOf(t.Open()))
	}
	return all
}

func (d *desk) id() string { return fmt.Sprintf("tx-%016x", rand.Uint64()) } //nolint:gosec // not a secret

// try gives the transaction an id if it has none.
func (d *desk) try(c tiers.Commit) (tiers.Committed, error) {
	if c.ID == "" {
		c.ID = d.id()
	}
	return d.c.Commit(d.ctx, c)
}

// commit commits what must pass.
func (d *desk) commit(c tiers.Commit) tiers.Committed {
	out, err := d.try(c)
	if err != nil {
		d.Fatalf("commit: %v", err)
	}
	if len(out.Saves) != len(c.Saves) || len(out.Rows) != len(c.Rows) {
		d.Fatalf("commit answers %d saves and %d rows for %d and %d", len(out.Saves), len(out.Rows), len(c.Saves), len(c.Rows))
	}
	return out
}

// marked adds to a commit one change of every kind, to be looked for afterwards.
func (d *desk) marked(c tiers.Commit) tiers.Commit {
	if c.ID == "" {
		c.ID = d.id()
	}
	mark := "marks/" + c.ID
	c.Saves = append(slices.Clip(c.Saves), raw(named(mark), "m"))
	c.Rows = append(slices.Clip(c.Rows), pendingRow("marks", mark, "m"))
	if c.OnlyOnce == "" {
		c.OnlyOnce = mark
	}
	return c
}

// passes commits what must pass, whole.
func (d *desk) passes(what string, c tiers.Commit) {
	m := d.marked(c)
	if _, err := d.try(m); err != nil {
		d.Errorf("%s: the commit answers %v", what, err)
		return
	}
	d.wantMarks(what, m, true)
}

// refused commits what must be refused for that reason, about that key (the zero
// key: any), with nothing of it done.
func (d *desk) refused(what string, c tiers.Commit, why error, k tiers.Key) {
	m := d.marked(c)
	_, err := d.try(m)
	if !errors.Is(err, why) || errors.Is(err, tiers.ErrCommitUnknown) {
		d.Errorf("%s: the commit answers %s, want %q", what, said(err), why)
	} else if e, ok := errors.AsType[*tiers.Error](err); !ok || e.Op != "commit" || e.Tx != m.ID {
		d.Errorf("%s: the error %v names no commit of the transaction %s", what, err, m.ID)
	} else if k != (tiers.Key{}) && (tiers.Key{Namespace: e.Namespace, Category: e.Category, Name: e.Key}) != k {
		d.Errorf("%s: the error is about %q in %q, want %s", what, e.Key, e.Category, show(k))
	}
	d.wantMarks(what, m, false)
}

// conflicts is refused with ErrConflict.
func (d *desk) conflicts(what string, c tiers.Commit, k tiers.Key) {
	d.refused(what, c, tiers.ErrConflict, k)
}

func (d *desk) wantMarks(what string, c tiers.Commit, want bool) {
	mark := named("marks/" + c.ID)
	_, recordErr := d.tier.Load(d.ctx, mark)
	_, rowErr := d.s.Pending(d.ctx, "marks", mark)
	_, factErr := d.s.Fact(d.ctx, "marks/"+c.ID)
	committed, err := d.c.Outcome(d.ctx, c.ID)
	if err != nil {
		d.Errorf("%s: outcome: %v", what, err)
	}
	if (recordErr == nil) != want || (rowErr == nil) != want || committed != want {
		d.Errorf("%s: of the commit there is record %v, row %v, outcome %v, want all %v", what, recordErr == nil, rowErr == nil, committed, want)
	}
	if own := c.OnlyOnce == "marks/"+c.ID; own && (factErr == nil) != want {
		d.Errorf("%s: the fact of the commit is there: %v, want %v", what, factErr == nil, want)
	}
}

func (d *desk) sequence() uint64 {
	n, err := d.c.Sequence(d.ctx)
	if err != nil {
		d.Fatalf("sequence: %v", err)
	}
	return n
}

func (d *desk) wantOutcome(when, id string, want bool) {
	if got, err := d.c.Outcome(d.ctx, id); err != nil || got != want {
		d.Errorf("%s: the outcome is %v with %s, want %v", when, got, said(err), want)
	}
}

// readOf is what a transaction notes that reads a key now.
func (d *desk) readOf(k tiers.Key) tiers.Read {
	r, err := d.tier.Load(d.ctx, k)
	if err != nil && !errors.Is(err, tiers.ErrNotFound) {
		d.Fatalf("load %s: %v", show(k), err)
	}
	return tiers.Read{Key: k, Version: r.Version}
}

// rangeOf is what a transaction notes that lists now, up to end.
func (d *desk) rangeOf(q tiers.Query, end string) tiers.Range {
	var sum tiers.Digest
	for _, r := range d.listIn(d.tier, q) {
		beyond := r.Name > end
		if q.Reverse {
			beyond = r.Name < end
		}
		if end == "" || !beyond {
			sum.Add(r.Name, r.Version)
		}
	}
	return tiers.Range{Query: q, End: end, Sum: sum.Sum()}
}

func reads(rs ...tiers.Read) tiers.Commit { return tiers.Commit{Reads: rs} }

func removal(name string) tiers.Record { return tiers.Record{Key: named(name), Deleted: true} }
