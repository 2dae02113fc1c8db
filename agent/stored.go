package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// stored is a record of a listing.
type stored struct {
	rest string          // of its key, after the prefix
	raw  json.RawMessage // nil: the tier can't read it
}

// aside runs a read that may fail and whose failure is no reason to give up the
// transaction.
func (s *Store) aside(ctx context.Context, fn func(*Store) error) error {
	if s.tx == nil {
		return fn(s)
	}
	return s.tx.Update(ctx, func(tx *manager.Tx) error { return fn(s.In(tx)) })
}

func (s *Store) joined(c *manager.Collection[json.RawMessage]) *manager.Collection[json.RawMessage] {
	if s.tx == nil {
		return c
	}
	return c.In(s.tx)
}

// under answers the records with a prefix, in order, those that the tier can't read
// as well. In a transaction they are no reason to give it up.
func (s *Store) under(ctx context.Context, c *manager.Collection[json.RawMessage], prefix string, opts ...manager.ListOption) ([]stored, error) {
	var all []stored
	var unreadable error
	err := s.aside(ctx, func(in *Store) error {
		for entry, err := range in.joined(c).List(ctx, append(opts, manager.Prefix(prefix))...) {
			if err != nil && (entry.Key == "" || !errors.Is(err, tiers.ErrCorrupt)) {
				return err
			}
			one := stored{strings.TrimPrefix(entry.Key, prefix), entry.Value}
			if err != nil {
				one.raw, unreadable = nil, err
			}
			all = append(all, one)
		}
		return unreadable
	})
	if err != nil && err != unreadable { //nolint:errorlint // it is the one above, or another
		return nil, err
	}
	return all, nil
}

// peek answers a record as raw does, and no bytes for one that the tier can't read.
func (s *Store) peek(ctx context.Context, c *manager.Collection[json.RawMessage], key string) (raw json.RawMessage, err error) {
	err = s.aside(ctx, func(in *Store) error {
		raw, err = in.raw(ctx, in.joined(c), key)
		return err
	})
	if errors.Is(err, tiers.ErrCorrupt) {
		return nil, nil
	}
	return raw, err
}

// readable answers the records under a prefix by the rest of their keys. One that
// the tier can't read has no bytes: it can be replaced, and not be kept.
func (s *Store) readable(ctx context.Context, c *manager.Collection[json.RawMessage], prefix string) (map[string]json.RawMessage, error) {
	list, err := s.under(ctx, c, prefix)
	all := make(map[string]json.RawMessage, len(list))
	for _, r := range list {
		all[r.rest] = r.raw
	}
	return all, err
}

// remove takes away what can't be read.
func (s *Store) remove(ctx context.Context, c *manager.Collection[json.RawMessage], key string) error {
	if _, err := c.Delete(ctx, key); err != nil {
		return fmt.Errorf("the record %q can't be read, nor removed: %w", key, err)
	}
	return nil
}
