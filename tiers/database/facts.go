package database

import (
	"context"
	"database/sql/driver"
	"fmt"
	"iter"

	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.System = (*Tier)(nil)

const (
	loadFact = `SELECT value FROM facts WHERE name = ?`
	nextFact = `SELECT name, value FROM facts WHERE name >= ? AND name < ? ORDER BY name LIMIT 1`
	saveFact = `INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`
)

// Fact implements tiers.Facts.
func (t *Tier) Fact(ctx context.Context, name string) ([]byte, error) {
	var value []byte
	found := false
	err := t.read(ctx, func(c *conn) error {
		row, err := c.first(ctx, loadFact, name)
		if err == nil && row != nil {
			value, found = row[0].([]byte)
		}
		return err
	})
	if err == nil && !found {
		err = fmt.Errorf("fact %q: %w", name, tiers.ErrNotFound)
	}
	if err != nil {
		return nil, t.failed("load fact", tiers.Key{}, err)
	}
	return notNil(value), nil
}

// SetFact implements tiers.Facts.
func (t *Tier) SetFact(ctx context.Context, name string, value []byte, ifAbsent bool) ([]byte, error) {
	if err := tiers.CheckName(name); err != nil {
		return nil, t.fail("save fact", tiers.Key{}, err)
	}
	value = append([]byte{}, value...)
	answer := value
	err := t.writer.do(ctx, &job{bytes: len(value), run: func(tx *tx) error {
		answer = value
		if ifAbsent {
			row, err := tx.first(loadFact, name)
			if err != nil {
				return err
			}
			if row != nil {
				stored, _ := row[0].([]byte)
				answer = notNil(stored)
				return nil
			}
		}
		_, err := tx.exec(saveFact, name, value)
		return err
	}})
	if err != nil {
		return nil, t.failed("save fact", tiers.Key{}, err)
	}
	return answer, nil
}

// Facts implements tiers.Facts.
func (t *Tier) Facts(ctx context.Context, prefix string) iter.Seq2[tiers.Fact, error] {
	return func(yield func(tiers.Fact, error) bool) {
		low, high := prefix, after(prefix)
		for {
			var f tiers.Fact
			found := false
			err := t.read(ctx, func(c *conn) error {
				row, err := c.first(ctx, nextFact, low, high)
				if err == nil && row != nil {
					value, _ := row[1].([]byte)
					f.Name, found = row[0].(string)
					f.Value = notNil(value)
				}
				return err
			})
			if err != nil {
				yield(tiers.Fact{}, t.failed("list facts", tiers.Key{}, err))
				return
			}
			if !found || !yield(f, nil) {
				return
			}
			low = f.Name + "\x00"
		}
	}
}

// notNil makes an empty value of what the driver answers for one.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// rows collects the answer of a query.
func rows[T any](ctx context.Context, c *conn, query string, args []driver.Value, scan func(row []driver.Value) (T, error)) (all []T, err error) {
	err = c.query(ctx, query, args, func(row []driver.Value) (bool, error) {
		v, err := scan(row)
		if err != nil {
			return false, err
		}
		all = append(all, v)
		return true, nil
	})
	return all, err
}
