package memory

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/sagestore/sagestore/tiers"
)

// pageSize is how many records a listing takes at once.
const pageSize = 256

// List yields what the query selects. A page of it costs what the page holds,
// whatever the size of the category.
func (t *Tier) List(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
	return func(yield func(tiers.Record, error) bool) {
		k := tiers.Key{Namespace: q.Namespace, Category: q.Category}
		end := func(err error) { yield(tiers.Record{}, t.fail("list", k, err)) }
		if err := k.Space().Check(); err != nil {
			end(err)
			return
		}
		after, left := q.After, q.Limit
		var page []*entry
		for {
			if err := t.begin(ctx); err != nil {
				end(err)
				return
			}
			page = t.page(page[:0], &q, after)
			now := t.clock.Now().UnixMicro()
			for _, e := range page {
				r, found, err := t.fetch(e, now, q.KeysOnly)
				if t.closed.Load() {
					end(tiers.ErrClosed)
					return
				}
				if !found {
					continue
				}
				if err = t.fail("list", r.Key, err); !yield(r, err) {
					return
				}
				if left--; left == 0 {
					return
				}
			}
			if len(page) < pageSize {
				return
			}
			after = page[len(page)-1].name
		}
	}
}

// page collects the next entries of a listing.
func (t *Tier) page(out []*entry, q *tiers.Query, after string) []*entry {
	t.order.mu.Lock()
	defer t.order.mu.Unlock()
	t.arrange()
	s := t.order.known(tiers.Space{Namespace: q.Namespace, Category: q.Category})
	if s == nil {
		return out
	}
	return s.keys.page(out, q, after, pageSize)
}

// fetch reads what a listed entry stores now.
func (t *Tier) fetch(e *entry, now int64, keysOnly bool) (r tiers.Record, found bool, err error) {
	e.sh.RLock()
	if e.gone || e.sh.closed || !e.live(now) {
		e.sh.RUnlock()
		return r, false, nil
	}
	s := e.stored
	if keysOnly {
		e.sh.RUnlock()
		return s.record(e.key()), true, nil
	}
	t.hold(&s)
	e.sh.RUnlock()
	r = s.record(e.key())
	r.Value, err = t.copyOut(&s)
	return r, true, err
}

// Spaces yields the spaces that hold records.
func (t *Tier) Spaces(ctx context.Context) iter.Seq2[tiers.Space, error] {
	return func(yield func(tiers.Space, error) bool) {
		if err := t.begin(ctx); err != nil {
			yield(tiers.Space{}, t.fail("spaces", tiers.Key{}, err))
			return
		}
		for _, s := range t.spaces() {
			if !yield(s, nil) {
				return
			}
		}
	}
}

func (t *Tier) spaces() []tiers.Space {
	t.order.mu.Lock()
	defer t.order.mu.Unlock()
	t.arrange()
	t.order.naming.RLock()
	defer t.order.naming.RUnlock()
	out := make([]tiers.Space, 0, len(t.order.spaces))
	for _, s := range t.order.spaces {
		if s.keys.n > 0 {
			out = append(out, s.Space)
		}
	}
	slices.SortFunc(out, func(a, b tiers.Space) int {
		if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
			return c
		}
		return strings.Compare(a.Category, b.Category)
	})
	return out
}

// Count counts the live records of a space.
func (t *Tier) Count(ctx context.Context, s tiers.Space) (entries, bytes int64, err error) {
	q := tiers.Query{Namespace: s.Namespace, Category: s.Category}
	k := tiers.Key{Namespace: s.Namespace, Category: s.Category}
	if err := s.Check(); err != nil {
		return 0, 0, t.fail("count", k, err)
	}
	after := ""
	var page []*entry
	for {
		if err := t.begin(ctx); err != nil {
			return 0, 0, t.fail("count", k, err)
		}
		page = t.page(page[:0], &q, after)
		now := t.clock.Now().UnixMicro()
		for _, e := range page {
			e.sh.RLock()
			if !e.gone && e.live(now) {
				entries++
				bytes += int64(len(e.name)) + e.size()
			}
			e.sh.RUnlock()
		}
		if len(page) < pageSize {
			return entries, bytes, nil
		}
		after = page[len(page)-1].name
	}
}
