package manager

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/txn"
)

const (
	// factsAtOnce is how many facts are stored at the same time, so that they share
	// commits.
	factsAtOnce = 64
	// rowsAtOnce bounds the rows of a journal in memory, which may be large.
	rowsAtOnce = 32
	// decisionsMoved is for how long the outcome of a transaction has to be known.
	decisionsMoved = 24 * time.Hour
)

// rename answers what the target calls a tier, or something of a tier that is named after
// it.
func (v *carriage) rename(name string) string { return v.to.rows.in(v.from.rows.out(name)) }

// renamed are the marks as the target has to have them.
func (v *carriage) renamed(m tiers.Marks) tiers.Marks {
	issued := map[string]tiers.Version{}
	for tier, version := range m.Issued {
		issued[v.rename(tier)] = version
	}
	m.Issued = issued
	return m
}

// waiting visits the rows of a journal, in order.
func waiting(ctx context.Context, c tiers.Carrier, after uint64, visit func(rows []tiers.Row) error) error {
	for {
		rows, err := c.Queue(ctx, after, rowsAtOnce)
		if err != nil || len(rows) == 0 {
			return err
		}
		after = rows[len(rows)-1].Seq
		if err := visit(rows); err != nil {
			return err
		}
	}
}

// waits is 1 for a write that waits, and 0 for what else a journal holds.
func waits(r *tiers.Row) int64 {
	if txn.IsGuard(r.Tier) {
		return 0
	}
	return 1
}

// checkRows counts what waits, and refuses what waits for the tree of another machine.
func (v *carriage) checkRows(ctx context.Context) error {
	foreign := map[string]int{}
	v.done.Waiting = 0
	err := waiting(ctx, v.from.carrier, 0, func(rows []tiers.Row) error {
		for i := range rows {
			v.done.Waiting += waits(&rows[i])
			if tier := v.from.rows.out(rows[i].Tier); strings.Contains(tier, "@") {
				foreign[tier]++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for tier, n := range foreign {
		name, _, _ := strings.Cut(tier, "@")
		return tiers.Hint(fmt.Errorf("%w: %d writes wait for tier %s of another machine", tiers.ErrUnsupported, n, name),
			"open the store on that machine with the old configuration, which applies them, or see `sagestore journal list`")
	}
	return nil
}

// copyBooks makes the books of the target those of the source. The marks come last:
// rows have to be above them.
func (v *carriage) copyBooks(ctx context.Context) error {
	marks, err := v.from.carrier.Marks(ctx)
	if err != nil {
		return err
	}
	err = takeOver(ctx, v, "sessions", v.from.c.system.ListSessions(ctx), func(all []tiers.Session) tiers.Books { return tiers.Books{Sessions: all} })
	if err != nil {
		return err
	}
	err = takeOver(ctx, v, "transactions", v.from.carrier.Decisions(ctx), func(all []tiers.Decision) tiers.Books { return tiers.Books{Decisions: all} })
	if err != nil {
		return err
	}
	if err := v.copyRows(ctx); err != nil {
		return err
	}
	if err := v.to.carrier.TakeOver(ctx, tiers.Books{Marks: v.renamed(marks)}); err != nil {
		return err
	}
	return v.copyFacts(ctx)
}

// takeOver brings all of one kind to the target, in chunks.
func takeOver[T any](ctx context.Context, v *carriage, what string, all iter.Seq2[T, error], books func([]T) tiers.Books) error {
	var chunk []T
	n := int64(0)
	flush := func() error {
		n += int64(len(chunk))
		err := v.to.carrier.TakeOver(ctx, books(chunk))
		chunk = nil
		v.tell("copy", what, n, 0)
		return err
	}
	for one, err := range all {
		if err != nil {
			return err
		}
		if chunk = append(chunk, one); len(chunk) < moveBatch {
			continue
		}
		if err := flush(); err != nil {
			return err
		}
	}
	if len(chunk) == 0 {
		return nil
	}
	return flush()
}

// copyRows goes on behind the rows that an earlier run has brought.
func (v *carriage) copyRows(ctx context.Context) error {
	last := uint64(0)
	err := waiting(ctx, v.to.carrier, 0, func(rows []tiers.Row) error {
		last = rows[len(rows)-1].Seq
		return nil
	})
	if err != nil {
		return err
	}
	n := int64(0)
	return waiting(ctx, v.from.carrier, last, func(rows []tiers.Row) error {
		for i := range rows {
			n += waits(&rows[i])
			rows[i].Tier = v.rename(rows[i].Tier)
		}
		v.tell("copy", "journal", n, v.done.Waiting)
		return tiers.Hint(v.to.carrier.TakeOver(ctx, tiers.Books{Rows: rows}), startAnew)
	})
}

const startAnew = "if the old store was used since the migration began, empty the new place and begin anew"

func (v *carriage) copyFacts(ctx context.Context) error {
	g, at := errgroup.WithContext(ctx)
	g.SetLimit(factsAtOnce)
	n := int64(0)
	for f, err := range v.from.c.system.Facts(ctx, "") {
		if err != nil {
			_ = g.Wait() // the first error counts
			return err
		}
		if f.Name == factCarrying {
			continue
		}
		if n++; n%moveBatch == 0 {
			v.tell("copy", "facts", n, 0)
		}
		g.Go(func() error {
			_, err := v.to.c.system.SetFact(at, v.rename(f.Name), f.Value, false)
			return err
		})
	}
	v.tell("copy", "facts", n, n)
	return g.Wait()
}

// verifyBooks answers an error unless both stores have the same books.
func (v *carriage) verifyBooks(ctx context.Context) error {
	for _, look := range []func(context.Context) error{v.sameMarks, v.sameSessions, v.sameDecisions, v.sameRows, v.sameFacts} {
		if err := look(ctx); err != nil {
			return err
		}
	}
	return nil
}

func differs(format string, args ...any) error {
	return tiers.Hint(fmt.Errorf("%w: %s", tiers.ErrCorrupt, fmt.Sprintf(format, args...)),
		"see that no program uses either store, then run it again; "+startAnew)
}

func (v *carriage) sameMarks(ctx context.Context) error {
	from, err := v.from.carrier.Marks(ctx)
	if err != nil {
		return err
	}
	to, err := v.to.carrier.Marks(ctx)
	if err != nil {
		return err
	}
	from = v.renamed(from)
	if to.Version < from.Version || to.Sequence < from.Sequence {
		return differs("the new store would count from version %d and row %d on, and the old one is at %d and %d", to.Version, to.Sequence, from.Version, from.Sequence)
	}
	for tier, issued := range from.Issued {
		if to.Issued[tier] < issued {
			return differs("the new journal would count versions of tier %s from %d on, and the old one is at %d", tier, to.Issued[tier], issued)
		}
	}
	return nil
}

func (v *carriage) sameSessions(ctx context.Context) error {
	next, stop := iter.Pull2(v.to.c.system.ListSessions(ctx))
	defer stop()
	v.done.Sessions = 0
	for s, err := range v.from.c.system.ListSessions(ctx) {
		if err != nil {
			return err
		}
		v.done.Sessions++
		there, err, ok := next()
		if err != nil {
			return err
		}
		if !ok || there != s {
			return differs("session %q did not arrive as it is", s.ID)
		}
	}
	if there, err, ok := next(); ok {
		return errors.Join(err, differs("session %q is no longer in the old store", there.ID))
	}
	v.tell("verify", "sessions", v.done.Sessions, v.done.Sessions)
	return nil
}

func (v *carriage) sameDecisions(ctx context.Context) error {
	next, stop := iter.Pull2(v.to.carrier.Decisions(ctx))
	defer stop()
	since := v.from.c.clock.Now().Add(-decisionsMoved)
	v.done.Transactions = 0
	there, err, ok := next()
	for d, failed := range v.from.carrier.Decisions(ctx) {
		for ok && err == nil && there.ID < d.ID {
			there, err, ok = next()
		}
		switch {
		case failed != nil || err != nil:
			return errors.Join(failed, err)
		case ok && there.ID == d.ID:
			v.done.Transactions++
		case d.At.After(since): // an older one may have been forgotten
			return differs("transaction %s did not arrive", d.ID)
		}
	}
	v.tell("verify", "transactions", v.done.Transactions, v.done.Transactions)
	return nil
}

func (v *carriage) sameRows(ctx context.Context) error {
	last := uint64(0)
	v.done.Waiting = 0
	err := waiting(ctx, v.from.carrier, 0, func(rows []tiers.Row) error {
		there, err := v.to.carrier.Queue(ctx, last, len(rows))
		if err != nil {
			return err
		}
		if len(there) != len(rows) {
			return differs("of the journal %d rows did not arrive", len(rows)-len(there))
		}
		for i := range rows {
			v.done.Waiting += waits(&rows[i])
			if !sameRow(&rows[i], &there[i], v.rename(rows[i].Tier)) {
				return differs("row %d of the journal did not arrive as it is", rows[i].Seq)
			}
		}
		last = rows[len(rows)-1].Seq
		return nil
	})
	if err != nil {
		return err
	}
	more, err := v.to.carrier.Queue(ctx, last, 1)
	if err == nil && len(more) > 0 {
		err = differs("row %d of the journal is no longer in the old store", more[0].Seq)
	}
	v.tell("verify", "journal", v.done.Waiting, v.done.Waiting)
	return err
}

func sameRow(a, b *tiers.Row, tier string) bool {
	return a.Seq == b.Seq && tier == b.Tier && a.Key == b.Key && a.Owner == b.Owner && a.Over == b.Over && a.Deleted == b.Deleted && same(&a.Record, &b.Record)
}

func (v *carriage) sameFacts(ctx context.Context) error {
	there := map[string][]byte{}
	for f, err := range v.to.c.system.Facts(ctx, "") {
		if err != nil {
			return err
		}
		if f.Name != factCarrying {
			there[f.Name] = slices.Clone(f.Value)
		}
	}
	v.done.Facts = 0
	for f, err := range v.from.c.system.Facts(ctx, "") {
		if err != nil {
			return err
		}
		if f.Name == factCarrying {
			continue
		}
		v.done.Facts++
		value, ok := there[v.rename(f.Name)]
		if !ok || !bytes.Equal(value, f.Value) {
			return differs("the fact %q did not arrive as it is", f.Name)
		}
	}
	if n := int64(len(there)); n != v.done.Facts {
		return differs("%d facts became %d", v.done.Facts, n)
	}
	v.tell("verify", "facts", v.done.Facts, v.done.Facts)
	return nil
}

func (v *carriage) tell(step, what string, done, total int64) {
	if v.options.Progress != nil {
		v.options.Progress(MigrateProgress{Step: step, Category: what, Done: done, Total: total})
	}
}
