package manager

import (
	"context"
	"iter"
	"strings"

	"github.com/sagestore/sagestore/config"
)

// Store is one tier used by name, with plain keys: see [Manager.Store]. It is
// immutable and safe for concurrent use.
type Store struct {
	scope scope
	own   place // the reserved category
	tier  string
}

// Store answers the store of that name: a tier, or sqlite, postgres or redis for
// theirs; the empty name is the configuration's default store, else the
// database. It never fails: a name that is not known is the error of every call,
// and of [Store.Check], and lists the names.
//
// Its records are those of the reserved category "store.TIER". On the file tier
// a key whose first segment is a category with that home is a record of the
// category: "config/settings" is "settings" of "config".
func (m *Manager) Store(name string) *Store {
	tier, err := m.core.plan.Store(name)
	if err != nil {
		return &Store{scope: m.scope(), own: place{namespace: m.namespace, err: err}}
	}
	return &Store{scope: m.scope(), tier: tier, own: m.core.place(m.scope(), "store."+tier, nil)}
}

// In answers the store as the transaction sees it; see [Collection.In].
func (s *Store) In(tx *Tx) *Store {
	in := *s
	in.scope.tx, in.own = tx, s.own.in(tx)
	return &in
}

// Check answers what is wrong with the name.
func (s *Store) Check() error { return s.own.complete("check", "", s.own.err) }

// Tier answers the tier that holds the records.
func (s *Store) Tier() string { return s.tier }

// at answers where the key is, and its name there.
func (s *Store) at(key string) (place, string) {
	category, name, split := strings.Cut(key, "/")
	if s.tier != "file" || !split || s.own.err != nil || !s.scope.core.plan.Has(category) {
		return s.own, key
	}
	p, err := s.scope.core.plan.Policy(category, nil)
	if err != nil || p.Tier != s.own.route.tierName || p.Rule == config.RuleDefaultStore || p.Rule == config.RuleParent {
		return s.own, key
	}
	return s.scope.core.place(s.scope, category, nil), name
}

// Save stores a value of any type under the key; see [Manager.Save].
func (s *Store) Save(ctx context.Context, key string, v any, opts ...SaveOption) error {
	p, name := s.at(key)
	_, err := p.saveAny(ctx, name, v, saveOptionsOf(opts))
	return err
}

// SaveItem is Save, and answers what was stored.
func (s *Store) SaveItem(ctx context.Context, key string, v any, opts ...SaveOption) (Item, error) {
	p, name := s.at(key)
	return p.saveAny(ctx, name, v, saveOptionsOf(opts))
}

// Load fills what into points to, or answers tiers.ErrNotFound; see
// [Manager.Load].
func (s *Store) Load(ctx context.Context, key string, into any, opts ...LoadOption) error {
	p, name := s.at(key)
	return p.loadAny(ctx, name, into, isFresh(opts))
}

// Item answers an entry without decoding its value.
func (s *Store) Item(ctx context.Context, key string, opts ...LoadOption) (Item, error) {
	p, name := s.at(key)
	return p.loadItem(ctx, name, isFresh(opts))
}

// Exists tells whether the key is there.
func (s *Store) Exists(ctx context.Context, key string) (bool, error) {
	p, name := s.at(key)
	return p.exists(ctx, name)
}

// Delete removes the key and tells whether it was there.
func (s *Store) Delete(ctx context.Context, key string, opts ...DeleteOption) (existed bool, err error) {
	p, name := s.at(key)
	return p.remove(ctx, name, opts)
}

// Touch is [Collection.Touch].
func (s *Store) Touch(ctx context.Context, key string, life ...Life) (existed bool, err error) {
	p, name := s.at(key)
	return p.touch(ctx, name, life)
}

// List yields the records of the reserved category only; see [Manager.List].
func (s *Store) List(ctx context.Context, opts ...ListOption) iter.Seq2[Item, error] {
	return s.own.items(ctx, opts)
}
