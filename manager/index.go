package manager

import (
	"context"

	"github.com/sagestore/sagestore/tiers"
)

// Indexed lets [Index.Search] find the entry by the text, which is stored in the
// same step. It goes with the entry, and with the next save of the key that comes
// without one, which a touch in a transaction is as well. Homes that can't search
// ignore it, and so do categories that encrypt: no text of theirs is ever stored
// in the clear.
func Indexed(t tiers.IndexText) SaveOption { return indexed{&t} }

type indexed struct{ text *tiers.IndexText }

func (i indexed) save(o *saveOptions) { o.index = i.text }

// give puts the text of a save into its record.
func (o *saveOptions) give(rec *tiers.Record) error {
	if o.index == nil || rec.Flags&tiers.Encrypted != 0 {
		return nil
	}
	rec.Index = o.index
	return o.index.Check() // here, so that a text which is wrong is wrong on every tier
}

// Index is the full-text index of a category.
type Index struct {
	place
	searcher tiers.Searcher
}

// Index answers the full-text index of the collection's category, and false when
// its home has none, when it encrypts, and in a transaction, since an index does
// not show what the transaction has written.
func (c *Collection[T]) Index() (*Index, bool) {
	if c.err != nil || c.tx != nil || c.route.policy.Encrypt {
		return nil, false
	}
	s, ok := tiers.As[tiers.Searcher](c.route.tier)
	return &Index{place: c.place, searcher: s}, ok
}

// Search answers the keys of all entries that s looks for, each once and in no
// order; its namespace and category are those of the collection. There may be
// others among them, see [tiers.Searcher]: look at the entries.
func (x *Index) Search(ctx context.Context, s tiers.Search) (found []tiers.Found, err error) {
	s.Namespace, s.Category = x.namespace, x.route.category
	err = x.do(ctx, "search", func(ctx context.Context) error {
		for f, err := range x.searcher.Search(ctx, s) {
			if err != nil {
				return err
			}
			found = append(found, f)
		}
		return nil
	})
	return found, err
}

// Ranks tells whether the home finds the best first, see [Index.Top].
func (x *Index) Ranks() bool {
	_, ok := x.searcher.(tiers.TopSearcher)
	return ok
}

// Top hands out the keys of all entries that s looks for, as Search answers them, in
// the order of [tiers.TopSearcher] until fn answers false. It is tiers.ErrUnsupported
// where the home does not rank. fn may work with the manager.
func (x *Index) Top(ctx context.Context, s tiers.Search, fn func(tiers.Ranked) bool) error {
	s.Namespace, s.Category = x.namespace, x.route.category
	return x.do(ctx, "search", func(ctx context.Context) error {
		top, ok := x.searcher.(tiers.TopSearcher)
		if !ok {
			return tiers.ErrUnsupported
		}
		for r, err := range top.Top(ctx, s) {
			if err != nil {
				return err
			}
			if !fn(r) {
				return nil
			}
		}
		return nil
	})
}

// Missing answers up to limit entries whose key begins with prefix, beginning
// after one, that were saved without a text.
func (x *Index) Missing(ctx context.Context, prefix, after string, limit int) (found []tiers.Found, err error) {
	q := tiers.Query{Namespace: x.namespace, Category: x.route.category, Prefix: prefix, After: after, Limit: limit}
	err = x.do(ctx, "search", func(ctx context.Context) error {
		for f, err := range x.searcher.Unindexed(ctx, q) {
			if err != nil {
				return err
			}
			found = append(found, f)
		}
		return nil
	})
	return found, err
}

// Gaps answers a number that grows whenever entries may have come that are missing,
// other than by a save of a new one without a text.
func (x *Index) Gaps(ctx context.Context) (n uint64, err error) {
	err = x.do(ctx, "search", func(ctx context.Context) error {
		n, err = x.searcher.Gaps(ctx)
		return err
	})
	return n, err
}

// Text is what an entry that is stored already is to be found by.
type Text struct {
	Key     string
	Version tiers.Version // as it was when the text was made from it
	Text    tiers.IndexText
}

// Add gives entries their texts, and changes nothing else of them. It passes over
// those that were saved anew since, and over encrypted ones.
func (x *Index) Add(ctx context.Context, texts ...Text) error {
	rs := make([]tiers.Record, len(texts))
	for i := range texts {
		t := &texts[i]
		rs[i] = tiers.Record{Key: x.key(t.Key), Version: t.Version, Index: &t.Text}
	}
	return x.do(ctx, "index", func(ctx context.Context) error { return x.searcher.Reindex(ctx, rs) })
}

func (x *Index) do(ctx context.Context, op string, fn func(ctx context.Context) error) error {
	ctx, call, err := x.begin(ctx, op, 0)
	if err != nil {
		return x.fail(op, "", err)
	}
	if err = x.route.settle(ctx); err == nil {
		err = fn(ctx)
	}
	err = x.fail(op, "", err)
	call.finish(err)
	return err
}
