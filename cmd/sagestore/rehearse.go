package main

import (
	"context"
	"errors"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// standing is what is known of a key while a file is rehearsed.
type standing struct {
	there   bool
	version tiers.Version // unmade when a line made it
	by      int           // that line
	err     error         // why it can't be read, or can't be known
}

// unmade stands for a version that the commit would make: no condition names it.
const unmade = ^tiers.Version(0)

// rehearse says what the changes would do. It looks at one instant of the
// database, and changes nothing.
func (a *app) rehearse(ctx context.Context, m *manager.Manager, changes []change, wrong *linesError) error {
	results := make([]result, len(changes))
	refused := 0
	err := m.View(ctx, func(tx *manager.Tx) error {
		known := map[txPlace]standing{}
		for i := range changes {
			c := &changes[i]
			at := txPlace{c.result.Namespace, c.result.Category, c.result.Key}
			now, seen := known[at]
			if !seen {
				now = look(ctx, tx, at)
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			next, err := c.rehearse(now)
			known[at] = next
			wrong.add(c.line, err)
			if err != nil {
				refused++
			}
			results[i] = c.result
		}
		return nil
	})
	if err == nil {
		err = a.printResults(results, txSummary{DryRun: true, Operations: len(results), Refused: refused})
	}
	wrong.last = ""
	return errors.Join(err, wrong.err())
}

// look answers what is stored.
func look(ctx context.Context, tx *manager.Tx, at txPlace) standing {
	item, err := tx.Namespace(at.namespace).Item(ctx, at.category, at.key)
	switch {
	case err == nil:
		return standing{there: true, version: item.Version}
	case errors.Is(err, tiers.ErrNotFound):
		return standing{}
	}
	return standing{there: errors.Is(err, tiers.ErrCorrupt), err: outsideTx(err)}
}

// rehearse sets the result, and answers what the operation would leave. A record
// that can't be read gives way to a save or a delete without a condition.
func (c *change) rehearse(now standing) (next standing, err error) {
	r := &c.result
	asks := c.version != nil || c.ifAbsent
	if now.err != nil && (asks || c.op == "touch" || c.op == "delete" && !now.there) {
		r.Result = "unknown"
		return now, now.err
	}
	if now.there && now.version != unmade {
		r.Version = now.version
	}
	if now.there {
		r.By = now.by
	}
	if err := c.holds(now.version); err != nil {
		r.Result = "conflict"
		return now, err
	}
	gone := c.op == "delete" || c.life == manager.TTL(0)
	next = standing{there: !gone, by: c.line}
	if !gone {
		next.version = unmade
	}
	switch {
	case now.err != nil && !now.there:
		r.Result = "create or replace"
	case c.op == "touch" && !now.there:
		r.Result = "not found"
		return now, c.notFound()
	case gone && !now.there:
		r.Result = "nothing"
	case gone:
		r.Result = "delete"
	case c.op == "touch":
		r.Result = "touch"
	case now.there:
		r.Result = "replace"
	default:
		r.Result = "create"
	}
	return next, nil
}

// holds tells whether the condition of an operation is met.
func (c *change) holds(now tiers.Version) error {
	var want tiers.Cond
	switch {
	case c.ifAbsent:
		want = tiers.If(0)
	case c.version != nil:
		want = tiers.If(tiers.Version(*c.version))
	}
	r, fault := c.result, want.Holds(now)
	if errors.Is(fault, tiers.ErrConflict) {
		fault = tiers.Hint(fault, "load --entry shows the version that is stored")
	}
	return tiers.Fail(c.op, r.Tier, tiers.Key{Namespace: r.Namespace, Category: r.Category, Name: r.Key}, fault)
}
