package manager

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// Collection is a category seen as a map from keys to values of one Go type. It
// is cheap to make, immutable, and safe for concurrent use.
//
// Errors are *tiers.Error values that wrap the sentinels of package tiers and
// name the operation, the tier, the category and the key. Values are encoded
// and decoded by every call, so that neither side sees what the other does to
// its own copy.
type Collection[T any] struct {
	place
	chain  chain
	schema uint32
	holds  bool // a near layer may hold decoded values
}

// Entry is a value with what the store knows about it.
type Entry[T any] struct {
	Key     string
	Value   T
	Version tiers.Version
	Created time.Time
	Updated time.Time
	Expires time.Time // zero: never
	Tier    string    // that it came from
	Stale   bool      // a near layer answered while the home was away
}

// For answers the collection of a category. It never fails: an unknown category
// or a broken chain of upgrades is the error of every call, and of Check.
func For[T any](s Scope, category string, opts ...CollectionOption) *Collection[T] {
	var o collectionOptions
	for _, opt := range opts {
		if opt != nil {
			opt.collection(&o)
		}
	}
	b := s.scope()
	c := &Collection[T]{chain: chainOf(o.steps)}
	c.place = b.core.place(b, category, o.policy)
	c.schema = c.chain.current()
	faults := c.chain.check(reflect.TypeFor[T]())
	if faults != nil {
		c.err = errors.Join(c.err, faults)
	}
	c.holds = c.route != nil && c.route.near.Load() != nil && b.core.nears.immutable(reflect.TypeFor[T]())
	return c
}

// Check answers everything that is wrong with the collections: unknown
// categories, policies that can't be, broken chains of upgrades. Call it once
// at start-up.
func Check(cs ...interface{ Check() error }) error {
	var errs []error
	for _, c := range cs {
		if c != nil {
			errs = append(errs, c.Check())
		}
	}
	return errors.Join(errs...)
}

// Check answers what is wrong with the collection.
func (c *Collection[T]) Check() error { return c.complete("check", "", c.err) }

// Category answers the name of the category.
func (c *Collection[T]) Category() string {
	if c.route == nil {
		return ""
	}
	return c.route.category
}

// In answers the collection as the transaction sees it. A save there answers a
// provisional version, see [Collection.VersionIn]; a transaction of another store
// is the error of every call.
func (c *Collection[T]) In(tx *Tx) *Collection[T] {
	in := *c
	in.place = c.in(tx)
	return &in
}

// VersionIn answers the version that the commit of a transaction gave to a key
// of the collection, see [Tx.Version].
func (c *Collection[T]) VersionIn(tx *Tx, key string) tiers.Version { return c.versionIn(tx, key) }

// Save stores v under the key. It returns nil only when every caller in the
// tier's scope can load v. Without an option the entry lives as long as the
// category says.
func (c *Collection[T]) Save(ctx context.Context, key string, v T, opts ...SaveOption) error {
	_, err := c.save(ctx, key, &v, saveOptionsOf(opts))
	return err
}

// SaveEntry is Save, and answers the entry with the version that it made.
func (c *Collection[T]) SaveEntry(ctx context.Context, key string, v T, opts ...SaveOption) (Entry[T], error) {
	rec, err := c.save(ctx, key, &v, saveOptionsOf(opts))
	if err != nil {
		return Entry[T]{}, err
	}
	return c.entry(rec, v), nil
}

func (c *Collection[T]) save(ctx context.Context, key string, v *T, o saveOptions) (tiers.Record, error) {
	if err := c.check(key); err != nil {
		return tiers.Record{}, c.fail("save", key, err)
	}
	ctx, call, err := c.begin(ctx, "save", 1)
	if err != nil {
		return tiers.Record{}, c.fail("save", key, err)
	}
	rec, err := c.encode(key, v, c.schema)
	if err == nil {
		rec, err = c.put(ctx, rec, o)
	}
	err = c.fail("save", key, err)
	call.finish(err)
	return rec, err
}

// Load answers the value, or tiers.ErrNotFound.
func (c *Collection[T]) Load(ctx context.Context, key string, opts ...LoadOption) (T, error) {
	var rec loaded
	v, err := c.load(ctx, key, isFresh(opts), &rec)
	return v, err
}

// LoadOr answers the value, or absent when there is none.
func (c *Collection[T]) LoadOr(ctx context.Context, key string, absent T, opts ...LoadOption) (T, error) {
	var rec loaded
	v, err := c.load(ctx, key, isFresh(opts), &rec)
	if errors.Is(err, tiers.ErrNotFound) {
		return absent, nil
	}
	return v, err
}

// Entry answers the value with its version and times, or tiers.ErrNotFound.
func (c *Collection[T]) Entry(ctx context.Context, key string, opts ...LoadOption) (Entry[T], error) {
	var found loaded
	v, err := c.load(ctx, key, isFresh(opts), &found)
	if err != nil {
		return Entry[T]{}, err
	}
	e := c.entry(found.Record, v)
	e.Stale = found.stale(c.route)
	return e, nil
}

func (c *Collection[T]) load(ctx context.Context, key string, fresh bool, rec *loaded) (v T, err error) {
	if err = c.check(key); err != nil {
		return v, c.fail("load", key, err)
	}
	ctx, call, err := c.begin(ctx, "load", 1)
	if err != nil {
		return v, c.fail("load", key, err)
	}
	err = c.get(ctx, key, fresh, rec)
	switch {
	case err != nil:
	case rec.near == nil:
		v, err = c.decode(rec.Record)
	default:
		v, err = c.decodeNear(rec)
	}
	err = c.fail("load", key, err)
	call.finish(err)
	return v, err
}

// decode answers the record's value, brought up to the collection's schema.
func (c *Collection[T]) decode(rec tiers.Record) (v T, err error) {
	switch {
	case rec.Schema == c.schema || rec.Schema == 0 && c.schema == 1:
		into := new(T)
		if err := c.route.core.codecs.Decode(rec, into); err != nil {
			return v, err
		}
		return *into, nil
	case rec.Schema > c.schema:
		return v, newerSchema(rec.Schema, c.schema)
	}
	up, err := c.chain.upgrade(rec.Schema, func(into any) error { return c.route.core.codecs.Decode(rec, into) })
	if err != nil {
		return v, err
	}
	last, ok := up.(*T)
	if !ok {
		return v, errBrokenChain
	}
	return *last, nil
}

func (c *Collection[T]) entry(rec tiers.Record, v T) Entry[T] {
	return Entry[T]{
		Key: rec.Name, Value: v, Version: rec.Version,
		Created: rec.Created, Updated: rec.Updated, Expires: rec.Expires, Tier: c.route.tierName,
	}
}

// Exists tells whether the key is there.
func (c *Collection[T]) Exists(ctx context.Context, key string) (bool, error) {
	return c.exists(ctx, key)
}

// Delete removes the key and tells whether it was there. Deleting what is
// absent is no error.
func (c *Collection[T]) Delete(ctx context.Context, key string, opts ...DeleteOption) (existed bool, err error) {
	return c.remove(ctx, key, opts)
}

// Touch lets the entry live anew, as long as the category or the option says,
// and tells whether it was there. Neither its version nor its time of change
// moves. A tier of the app's own that is no [tiers.Toucher] answers
// [tiers.ErrUnsupported]. In a transaction it is a load and a save: the version
// grows and the time of change moves.
func (c *Collection[T]) Touch(ctx context.Context, key string, life ...Life) (existed bool, err error) {
	return c.touch(ctx, key, life)
}
