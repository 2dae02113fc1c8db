package manager

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/sagestore/sagestore/tiers"
)

// List yields the entries that the options select, in bytewise order of the
// key. It reads in pages and holds no lock, so that saving in the loop is fine;
// what is saved meanwhile may or may not be seen. A record that can't be read
// is an error beside an entry that has only its key, and the list goes on; an
// error with an empty Key ends it.
func (c *Collection[T]) List(ctx context.Context, opts ...ListOption) iter.Seq2[Entry[T], error] {
	return func(yield func(Entry[T], error) bool) {
		o := listOptionsOf(opts)
		for rec, err := range c.scan(ctx, o) {
			e := Entry[T]{Key: rec.Name}
			if err == nil {
				e = c.entry(rec, e.Value)
				if !o.keysOnly {
					if e.Value, err = c.decode(rec); err != nil {
						e, err = Entry[T]{Key: rec.Name}, c.fail("list", rec.Name, err)
					}
				}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// All answers what List yields. It stops at the first error, and answers what
// it has until then.
func (c *Collection[T]) All(ctx context.Context, opts ...ListOption) ([]Entry[T], error) {
	var all []Entry[T]
	for e, err := range c.List(ctx, opts...) {
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}

// errLimit is what a negative limit answers.
var errLimit = errors.New("a limit is 0, for none, or more")

// scan yields records. While the caller looks at one, no call is under way.
func (p *place) scan(ctx context.Context, o listOptions) iter.Seq2[tiers.Record, error] {
	return func(yield func(tiers.Record, error) bool) {
		err := p.err
		if err == nil && o.limit < 0 {
			err = errLimit
		}
		if err != nil {
			yield(tiers.Record{}, p.fail("list", "", err))
			return
		}
		left := o.limit
		for _, q := range p.queries(o) {
			if o.limit > 0 {
				q.Limit = left
			}
			n, goOn := p.scanOne(ctx, q, yield)
			left -= n
			if !goOn || o.limit > 0 && left <= 0 {
				return
			}
		}
	}
}

// query is a tier's query, or a single key when only is set.
type query struct {
	tiers.Query
	only string
}

// queries answers what the options ask of the tier, in the order of the list. A
// sub-tree is its own key and what begins with the key and "/": two ranges,
// since "acme-corp" sorts between "acme" and "acme/x".
func (p *place) queries(o listOptions) []query {
	q := tiers.Query{
		Namespace: p.namespace, Category: p.route.category,
		Prefix: o.prefix, After: o.after, Reverse: o.reverse, KeysOnly: o.keysOnly,
	}
	if !o.isUnder {
		return []query{{Query: q}}
	}
	var qs []query
	beyond := o.after == "" || (!o.reverse && o.under > o.after) || (o.reverse && o.under < o.after)
	if strings.HasPrefix(o.under, o.prefix) && beyond && o.under != "" {
		qs = append(qs, query{Query: q, only: o.under})
	}
	below := o.under + "/"
	if sub, ok := both(below, o.prefix); ok {
		q.Prefix = sub
		qs = append(qs, query{Query: q})
	}
	if o.reverse {
		slices.Reverse(qs)
	}
	return qs
}

// both answers the prefix of the keys that begin with a and with b.
func both(a, b string) (string, bool) {
	switch {
	case strings.HasPrefix(a, b):
		return a, true
	case strings.HasPrefix(b, a):
		return b, true
	}
	return "", false
}

// scanOne yields what one query selects, and tells how many that were and
// whether the list may go on.
func (p *place) scanOne(ctx context.Context, q query, yield func(tiers.Record, error) bool) (n int, goOn bool) {
	ctx, c, err := p.begin(ctx, "list", 0)
	if err == nil {
		if err = p.route.settle(ctx); err != nil {
			c.finish(err)
		}
	}
	if err != nil {
		yield(tiers.Record{}, p.fail("list", "", err))
		return 0, false
	}
	records := p.records(ctx, q)
	var last error
	inside := true
	defer func() {
		if inside {
			c.finish(last)
		} else {
			c.abandon(last)
		}
	}()
	for rec, err := range records {
		last = p.fail("list", rec.Name, err)
		c.pause()
		inside = false
		n++
		if !yield(rec, last) || err != nil && rec.Name == "" {
			return n, false
		}
		last = nil
		if inside = c.resume(ctx); !inside {
			last = p.fail("list", "", tiers.Hint(tiers.ErrClosed, "the manager was closed"))
			yield(tiers.Record{}, last)
			return n, false
		}
	}
	return n, true
}

func (p *place) records(ctx context.Context, q query) iter.Seq2[tiers.Record, error] {
	if q.only == "" {
		return p.tier.List(ctx, q.Query)
	}
	return func(yield func(tiers.Record, error) bool) {
		k := p.key(q.only)
		rec, err := p.tier.Load(ctx, k)
		switch {
		case err == nil:
			yield(rec, nil)
		case errors.Is(err, tiers.ErrCorrupt):
			yield(tiers.Record{Key: k}, err)
		case !errors.Is(err, tiers.ErrNotFound):
			yield(tiers.Record{}, err)
		}
	}
}
