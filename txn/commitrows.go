package txn

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/sagestore/sagestore/tiers"
)

// rows asks the journaled tiers for versions, compares what was read, and makes
// the rows.
func (c *commitment) rows(ctx context.Context, out *tiers.Commit) error {
	if len(c.journaled) == 0 {
		return nil
	}
	if err := c.since(ctx, out); err != nil {
		return err
	}
	keys, held := make([][]tiers.Key, len(c.journaled)), make([][]reservation, len(c.journaled))
	ask := func(i int) (err error) {
		p := c.journaled[i]
		keys[i] = p.keys()
		if held[i], err = p.rows.reserve(ctx, keys[i], p.wasRead); err != nil {
			return tiers.Fail("commit", p.name, tiers.Key{}, err)
		}
		return p.sameRanges(ctx)
	}
	// Servers are asked at once. To hand a look at a file to another goroutine costs
	// more than the look.
	var g errgroup.Group
	for i, p := range c.journaled {
		if !p.rows.local {
			g.Go(func() error { return ask(i) })
		}
	}
	var failed error
	for i, p := range c.journaled {
		if p.rows.local && failed == nil {
			failed = ask(i)
		}
	}
	switch err := g.Wait(); {
	case failed == nil && err != nil:
		return err
	case failed != nil && err == nil:
		return failed
	case failed != nil:
		return errors.Join(failed, err)
	}
	for i, p := range c.journaled {
		if err := p.collect(keys[i], held[i], out); err != nil {
			return err
		}
	}
	return nil
}

// since notes from where on the commit has to look for changes. It is not later than
// the last look of any tier, since rows up to that are known.
func (c *commitment) since(ctx context.Context, out *tiers.Commit) error {
	switch {
	case c.tx.since != nil:
		out.Since = *c.tx.since
	case !c.again:
		// Nothing was read, so an older one will do: if it finds a change that it
		// should not, the next attempt asks.
		out.Since = c.journaled[0].rows.sequence()
	default:
		now, err := c.e.committer.Sequence(ctx)
		if err != nil {
			return err
		}
		out.Since = now
	}
	return nil
}

// collect compares and adds what a journaled tier contributes.
func (p *part) collect(keys []tiers.Key, held []reservation, out *tiers.Commit) error {
	now, host := p.rows.now(), p.rows.clock.Now()
	for i, k := range keys {
		r := &held[i]
		was, read := p.reads[k]
		switch {
		case read && r.unknown:
			return tiers.Hint(tiers.Fail("commit", p.name, k, fmt.Errorf("%w: nobody can tell whether it is still as it was read", tiers.ErrUnavailable)),
				"nothing was changed; try again when the tier is back")
		case read && was != r.version:
			return tiers.Fail("commit", p.name, k, fmt.Errorf("%w: it was changed since the transaction read it", tiers.ErrConflict))
		}
		if !r.unknown {
			out.RowReads = append(out.RowReads, tiers.RowRead{Tier: p.name, Read: tiers.Read{Key: k, Version: r.version}, Unread: r.unread})
		}
		w := p.writes[k]
		if w == nil {
			continue
		}
		rec := w.settled(host)
		rec.Version, rec.Updated, rec.Created = r.next, tiers.Micro(now), r.created
		if rec.Created.IsZero() {
			rec.Created = rec.Updated
		}
		rec.Expires, rec.TTL = tiers.Deadline(now, rec.TTL), 0
		out.Rows = append(out.Rows, tiers.Row{
			Record: rec, Tier: p.name, Owner: p.rows.owner, Reserved: r.reserved,
		})
	}
	for _, r := range p.ranges {
		out.RowRanges = append(out.RowRanges, tiers.RowRange{Tier: p.name, Range: r})
	}
	out.RowLimits[p.name] = p.rows.limit
	return nil
}

// sameRanges tells whether the listings of a journaled tier are as they were.
func (p *part) sameRanges(ctx context.Context) error {
	for i, r := range p.ranges {
		var d tiers.Digest
		for rec, err := range p.tier.List(ctx, r.Query) {
			if rec.Name == "" && err != nil {
				return err
			}
			if past(rec.Name, r) {
				break
			}
			if err == nil && !p.stillUnreadable(ctx, i, rec.Key) {
				d.Add(rec.Name, rec.Version)
			}
		}
		if d.Sum() != r.Sum {
			k := tiers.Key{Namespace: r.Query.Namespace, Category: r.Query.Category}
			return tiers.Fail("commit", p.name, k, fmt.Errorf("%w: the category was changed since the transaction listed it", tiers.ErrConflict))
		}
	}
	return nil
}

// past tells whether a name lies beyond the end of a range.
func past(name string, r tiers.Range) bool {
	switch {
	case r.End == "":
		return false
	case r.Query.Reverse:
		return name < r.End
	}
	return name > r.End
}

func (p *part) reading() []tiers.Read {
	out := make([]tiers.Read, 0, len(p.reads))
	for k, v := range p.reads {
		out = append(out, tiers.Read{Key: k, Version: v})
	}
	return out
}
