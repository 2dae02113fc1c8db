package manager

import (
	"context"
	"iter"
)

// Save is [Manager.Save] in the transaction.
func (t *Tx) Save(ctx context.Context, category, key string, v any, opts ...SaveOption) error {
	p := t.place(category)
	_, err := p.saveAny(ctx, key, v, saveOptionsOf(opts))
	return err
}

// SaveItem is [Manager.SaveItem] in the transaction; the version is a
// provisional one.
func (t *Tx) SaveItem(ctx context.Context, category, key string, v any, opts ...SaveOption) (Item, error) {
	p := t.place(category)
	return p.saveAny(ctx, key, v, saveOptionsOf(opts))
}

// Load is [Manager.Load] in the transaction.
func (t *Tx) Load(ctx context.Context, category, key string, into any, _ ...LoadOption) error {
	p := t.place(category)
	return p.loadAny(ctx, key, into, true)
}

// Item is [Manager.Item] in the transaction.
func (t *Tx) Item(ctx context.Context, category, key string, _ ...LoadOption) (Item, error) {
	p := t.place(category)
	return p.loadItem(ctx, key, true)
}

// Exists is [Manager.Exists] in the transaction.
func (t *Tx) Exists(ctx context.Context, category, key string) (bool, error) {
	p := t.place(category)
	return p.exists(ctx, key)
}

// Delete is [Manager.Delete] in the transaction.
func (t *Tx) Delete(ctx context.Context, category, key string, opts ...DeleteOption) (existed bool, err error) {
	p := t.place(category)
	return p.remove(ctx, key, opts)
}

// Touch is [Collection.Touch] in the transaction.
func (t *Tx) Touch(ctx context.Context, category, key string, life ...Life) (existed bool, err error) {
	p := t.place(category)
	return p.touch(ctx, key, life)
}

// List is [Manager.List] in the transaction.
func (t *Tx) List(ctx context.Context, category string, opts ...ListOption) iter.Seq2[Item, error] {
	p := t.place(category)
	return p.items(ctx, opts)
}
