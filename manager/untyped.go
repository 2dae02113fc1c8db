package manager

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// Item is an entry whose value has not been decoded.
type Item struct {
	Key       string
	Namespace string
	Category  string
	Tier      string
	Codec     string
	Schema    uint32
	Version   tiers.Version
	Created   time.Time
	Updated   time.Time
	Expires   time.Time // zero: never
	Stale     bool

	record tiers.Record
	core   *core
}

// Decode fills what into points to; see [Manager.Load] for the types.
func (i Item) Decode(into any) error {
	if i.core == nil {
		return &tiers.Error{Op: "load", Err: tiers.ErrNotFound}
	}
	p := place{route: &route{core: i.core, category: i.Category, tierName: i.Tier}, namespace: i.Namespace}
	return p.fail("load", i.Key, p.decode(i.record, into))
}

// Size answers the bytes that are stored for the value.
func (i Item) Size() int { return len(i.record.Value) }

// Save stores a value of any type. It is [Collection.Save] without the type: the
// record keeps the schema number of the one that it replaces.
func (m *Manager) Save(ctx context.Context, category, key string, v any, opts ...SaveOption) error {
	p := m.core.place(m.scope(), category, nil)
	_, err := p.saveAny(ctx, key, v, saveOptionsOf(opts))
	return err
}

// SaveItem is Save, and answers what was stored.
func (m *Manager) SaveItem(ctx context.Context, category, key string, v any, opts ...SaveOption) (Item, error) {
	p := m.core.place(m.scope(), category, nil)
	return p.saveAny(ctx, key, v, saveOptionsOf(opts))
}

// Load fills what into points to, or answers tiers.ErrNotFound. Records of any
// schema number are decoded as they are. An *any gets maps, lists, text, numbers
// and so on; an *[]byte takes a value of the raw codec, and an *[Encoded] what
// is stored whatever its codec.
func (m *Manager) Load(ctx context.Context, category, key string, into any, opts ...LoadOption) error {
	p := m.core.place(m.scope(), category, nil)
	return p.loadAny(ctx, key, into, isFresh(opts))
}

// Item answers an entry without decoding its value.
func (m *Manager) Item(ctx context.Context, category, key string, opts ...LoadOption) (Item, error) {
	p := m.core.place(m.scope(), category, nil)
	return p.loadItem(ctx, key, isFresh(opts))
}

// Exists tells whether the key is there.
func (m *Manager) Exists(ctx context.Context, category, key string) (bool, error) {
	p := m.core.place(m.scope(), category, nil)
	return p.exists(ctx, key)
}

// Delete removes the key and tells whether it was there. Deleting what is
// absent is no error.
func (m *Manager) Delete(ctx context.Context, category, key string, opts ...DeleteOption) (existed bool, err error) {
	p := m.core.place(m.scope(), category, nil)
	return p.remove(ctx, key, opts)
}

// Touch is [Collection.Touch].
func (m *Manager) Touch(ctx context.Context, category, key string, life ...Life) (existed bool, err error) {
	p := m.core.place(m.scope(), category, nil)
	return p.touch(ctx, key, life)
}

// List is [Collection.List] without decoding: see [Item.Decode]. An error beside
// an item with a key is about that record, and the list goes on.
func (m *Manager) List(ctx context.Context, category string, opts ...ListOption) iter.Seq2[Item, error] {
	p := m.core.place(m.scope(), category, nil)
	return p.items(ctx, opts)
}

// Check answers what is wrong with the name of a category.
func (m *Manager) Check(category string) error {
	p := m.core.place(m.scope(), category, nil)
	return p.complete("check", "", p.err)
}

func (p *place) saveAny(ctx context.Context, key string, v any, o saveOptions) (Item, error) {
	if err := p.check(key); err != nil {
		return Item{}, p.fail("save", key, err)
	}
	ctx, c, err := p.begin(ctx, "save", 1)
	if err != nil {
		return Item{}, p.fail("save", key, err)
	}
	schema, err := p.schemaOf(ctx, key)
	var rec tiers.Record
	if err == nil {
		rec, err = p.encode(key, v, schema)
	}
	if err == nil {
		rec, err = p.put(ctx, rec, o)
	}
	err = p.fail("save", key, err)
	c.finish(err)
	if err != nil {
		return Item{}, err
	}
	return p.item(rec), nil
}

func (p *place) loadAny(ctx context.Context, key string, into any, fresh bool) error {
	if err := p.check(key); err != nil {
		return p.fail("load", key, err)
	}
	ctx, c, err := p.begin(ctx, "load", 1)
	if err != nil {
		return p.fail("load", key, err)
	}
	var rec loaded
	err = p.get(ctx, key, fresh, &rec)
	if err == nil {
		err = p.decode(rec.Record, into)
	}
	err = p.fail("load", key, err)
	c.finish(err)
	return err
}

func (p *place) loadItem(ctx context.Context, key string, fresh bool) (Item, error) {
	if err := p.check(key); err != nil {
		return Item{}, p.fail("load", key, err)
	}
	ctx, c, err := p.begin(ctx, "load", 1)
	if err != nil {
		return Item{}, p.fail("load", key, err)
	}
	var rec loaded
	err = p.get(ctx, key, fresh, &rec)
	err = p.fail("load", key, err)
	c.finish(err)
	if err != nil {
		return Item{}, err
	}
	i := p.item(rec.Record)
	i.Stale = rec.stale(p.route)
	return i, nil
}

func (p *place) items(ctx context.Context, opts []ListOption) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for rec, err := range p.scan(ctx, listOptionsOf(opts)) {
			i := Item{Key: rec.Name}
			if err == nil {
				i = p.item(rec)
			}
			if !yield(i, err) {
				return
			}
		}
	}
}

func (p *place) item(rec tiers.Record) Item {
	return Item{
		Key: rec.Name, Namespace: rec.Namespace, Category: rec.Category, Tier: p.route.tierName,
		Codec: rec.Codec, Schema: rec.Schema, Version: rec.Version,
		Created: rec.Created, Updated: rec.Updated, Expires: rec.Expires,
		record: rec, core: p.route.core,
	}
}

// decode fills what into points to, whatever the record's schema.
func (p *place) decode(rec tiers.Record, into any) error {
	e, ok := into.(*Encoded)
	if !ok {
		return p.route.core.codecs.Decode(rec, into)
	}
	if e == nil {
		return errors.Join(tiers.ErrType, errors.New("a nil *Encoded can't be loaded into"))
	}
	value, err := p.route.core.codecs.Payload(rec)
	*e = Encoded{Codec: rec.Codec, Schema: rec.Schema, Value: value}
	return err
}
