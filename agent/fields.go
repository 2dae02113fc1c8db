package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// categoryFields keeps the fields of [Fields], by KEY/FIELD.
const categoryFields = "agent.fields"

// Fields are named values of one agent, kept for it apart from its [State]: its
// key is any text, such as a [CheckpointKey], and no agent of that id need be
// there; if one is, its deletion takes them. It is cheap to make, and safe for
// concurrent use.
type Fields struct {
	store *Store
	key   string
	c     *manager.Collection[json.RawMessage]
}

// Fields answers the fields that are kept under a key. In a transaction, make them
// of [Store.In].
func (s *Store) Fields(key string) *Fields {
	return &Fields{store: s, key: key, c: manager.For[json.RawMessage](s.scope, categoryFields)}
}

// In answers the fields as a transaction sees them.
func (f *Fields) In(tx *manager.Tx) *Fields {
	in := *f
	in.store, in.c = f.store.In(tx), f.c.In(tx)
	return &in
}

// Key answers the key.
func (f *Fields) Key() string { return f.key }

func (f *Fields) at(field string) string { return manager.Key(f.key, field) }

func (f *Fields) fail(op, field string, err error) error {
	at := manager.Key(f.key)
	if field != "" {
		at = f.at(field)
	}
	return fail(op, categoryFields, at, reveal(err))
}

// Save stores one field.
func (f *Fields) Save(ctx context.Context, field string, v any) error {
	raw, err := f.store.encode(v)
	if err == nil {
		err = f.c.Save(ctx, f.at(field), raw)
	}
	return f.fail("save field", field, err)
}

// Load fills what into points to with a field, or answers tiers.ErrNotFound. A
// stored null is not the same as a field that was never saved. A value of another
// type is tiers.ErrType.
func (f *Fields) Load(ctx context.Context, field string, into any) error {
	raw, err := f.c.Load(ctx, f.at(field))
	if err == nil {
		err = f.fit(raw, into)
	}
	return f.fail("load field", field, err)
}

// fit decodes what is stored.
func (f *Fields) fit(raw json.RawMessage, into any) error {
	if err := f.store.decode(raw, into); err != nil {
		return fmt.Errorf("%w: what is stored does not fit: %w", tiers.ErrType, err)
	}
	return nil
}

// LoadAll answers all fields, none for a key that has none. When some can't be
// read, it answers the others beside an error that names those.
func (f *Fields) LoadAll(ctx context.Context) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	var errs []error
	for entry, err := range f.c.List(ctx, manager.Under(f.key)) {
		if err != nil && entry.Key == "" {
			return nil, f.fail("load fields", "", err)
		}
		field, ok := f.field(entry.Key)
		switch {
		case err != nil:
			errs = append(errs, err)
		case ok:
			all[field] = entry.Value
		}
	}
	return all, f.fail("load fields", "", errors.Join(errs...))
}

// field answers the name of the field that a key below Key is for.
func (f *Fields) field(key string) (string, bool) {
	segments := manager.SplitKey(key)
	if len(segments) != 2 {
		return "", false
	}
	return segments[1], true
}

// SaveAll stores the fields named, all or none; others stay as they are. Of no
// fields it changes nothing.
func (f *Fields) SaveAll(ctx context.Context, all map[string]any) error {
	return f.fail("save fields", "", f.write(ctx, all, false))
}

// ReplaceAll stores the fields named and removes all others, in one step.
func (f *Fields) ReplaceAll(ctx context.Context, all map[string]any) error {
	return f.fail("replace fields", "", f.write(ctx, all, true))
}

func (f *Fields) write(ctx context.Context, all map[string]any, only bool) error {
	raws := make(map[string]json.RawMessage, len(all))
	var errs []error
	for _, field := range slices.Sorted(maps.Keys(all)) {
		raw, err := f.store.encode(all[field])
		if err != nil {
			errs = append(errs, fmt.Errorf("field %q: %w", field, err))
		}
		raws[f.at(field)] = raw
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if len(raws) == 0 && !only {
		return nil
	}
	return f.store.update(ctx, f.turn(), func(s *Store) error {
		c := f.c.In(s.tx)
		if only {
			var others []string
			for entry, err := range c.List(ctx, manager.Under(f.key), manager.KeysOnly()) {
				if err != nil && entry.Key == "" {
					return err
				}
				if _, stays := raws[entry.Key]; !stays {
					others = append(others, entry.Key) // a damaged one as well
				}
			}
			if _, err := c.DeleteMany(ctx, others...); err != nil {
				return err
			}
		}
		return c.SaveMany(ctx, raws)
	})
}

// turn is what changes of the fields wait for in this process.
func (f *Fields) turn() turn { return turn{conversation: categoryFields + "/" + f.key} }

// Delete removes all fields of the key, in one step, and tells whether there were
// any.
func (f *Fields) Delete(ctx context.Context) (existed bool, err error) {
	err = f.store.update(ctx, f.turn(), func(s *Store) (err error) {
		existed, err = f.In(s.tx).clear(ctx)
		return err
	})
	return existed && err == nil, f.fail("delete fields", "", err)
}

// clear removes all fields, damaged ones as well, in a transaction.
func (f *Fields) clear(ctx context.Context) (existed bool, err error) {
	var all []string
	for entry, err := range f.c.List(ctx, manager.Under(f.key), manager.KeysOnly()) {
		if err != nil && entry.Key == "" {
			return false, err
		}
		all = append(all, entry.Key)
	}
	_, err = f.c.DeleteMany(ctx, all...)
	return len(all) > 0, err
}

// DeleteField removes one field and tells whether it was there.
func (f *Fields) DeleteField(ctx context.Context, field string) (existed bool, err error) {
	existed, err = f.c.Delete(ctx, f.at(field))
	return existed, f.fail("delete field", field, err)
}

// Exists tells whether anything is kept under the key: false says that an agent
// runs for the first time.
func (f *Fields) Exists(ctx context.Context) (bool, error) {
	for entry, err := range f.c.List(ctx, manager.Under(f.key), manager.KeysOnly(), manager.Limit(1)) {
		if err != nil && entry.Key == "" {
			return false, f.fail("look for fields", "", err)
		}
		return true, nil
	}
	return false, nil
}
