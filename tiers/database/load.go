package database

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

const (
	loadRow = `SELECT ` + meta + `, value FROM records WHERE namespace = ? AND category = ? AND key = ?`
	// The keys are one JSON array, so that one statement serves any number. The
	// join must go from the keys to the records.
	loadRows = `SELECT wanted.key, ` + metaColumns + `, records.value FROM json_each(?) AS wanted CROSS JOIN records
		ON records.namespace = ? AND records.category = ? AND records.key = wanted.value`
	existsRow = `SELECT expires FROM records WHERE namespace = ? AND category = ? AND key = ?`
)

// Load implements tiers.Tier.
func (t *Tier) Load(ctx context.Context, k tiers.Key) (tiers.Record, error) {
	return t.load(ctx, t, k)
}

func (t *Tier) load(ctx context.Context, from lender, k tiers.Key) (tiers.Record, error) {
	if err := k.Check(); err != nil {
		return tiers.Record{}, t.fail("load", k, err)
	}
	r := tiers.Record{Key: k}
	found := false
	err := from.read(ctx, func(c *conn) error {
		// A point read is shorter than the watching of a context would be.
		row, err := c.first(context.WithoutCancel(ctx), loadRow, k.Namespace, k.Category, k.Name)
		if err != nil || row == nil {
			return err
		}
		found = true
		return unpack(row[0], row[1], &r)
	})
	switch {
	case err != nil:
		return tiers.Record{}, t.failed("load", k, err)
	case !found || !r.Live(t.clock.Now()):
		t.misses.Add(1)
		return tiers.Record{}, t.fail("load", k, tiers.ErrNotFound)
	}
	t.hits.Add(1)
	return r, nil
}

// Exists implements tiers.Exister.
func (t *Tier) Exists(ctx context.Context, k tiers.Key) (bool, error) {
	if err := k.Check(); err != nil {
		return false, t.fail("exists", k, err)
	}
	expires, found := int64(0), false
	err := t.read(ctx, func(c *conn) error {
		row, err := c.first(context.WithoutCancel(ctx), existsRow, k.Namespace, k.Category, k.Name)
		if err == nil && row != nil {
			expires, found = row[0].(int64)
		}
		return err
	})
	if err != nil {
		return false, t.failed("exists", k, err)
	}
	return found && (expires == 0 || expires > t.clock.Now().UnixMicro()), nil
}

// chunkKeys is how many keys are looked for at a time: between them the context
// may end.
const chunkKeys = 128

// splitKeys is from how many keys on LoadMany uses two connections at once.
const splitKeys = 64

// LoadMany implements tiers.Batcher. It reads a large batch in two halves, side by
// side: it is not of one moment.
func (t *Tier) LoadMany(ctx context.Context, ks []tiers.Key) ([]tiers.Record, error) {
	half := len(ks)
	if half >= splitKeys && t.path != Memory {
		half /= 2
	}
	return t.loadMany(ctx, t, ks, half)
}

// loadMany loads the keys up to half, and the others side by side with them.
func (t *Tier) loadMany(ctx context.Context, from lender, ks []tiers.Key, half int) ([]tiers.Record, error) {
	out, bad := make([]tiers.Record, len(ks)), make([]error, len(ks))
	errs := make(chan error, 1)
	if half < len(ks) {
		go func() { errs <- loadAll(ctx, from, ks[half:], out[half:], bad[half:]) }()
	} else {
		errs <- nil
	}
	err := errors.Join(loadAll(ctx, from, ks[:half], out[:half], bad[:half]), <-errs)
	if err != nil {
		return make([]tiers.Record, len(ks)), t.failed("load", tiers.Key{}, err)
	}
	now, hits := t.clock.Now(), int64(0)
	for i := range out {
		if bad[i] != nil {
			bad[i] = t.failed("load", ks[i], bad[i])
		}
		if bad[i] != nil || !out[i].Live(now) {
			out[i] = tiers.Record{Key: ks[i]}
		}
		if out[i].Version != 0 {
			hits++
		}
	}
	t.hits.Add(hits)
	t.misses.Add(int64(len(out)) - hits)
	return out, errors.Join(bad...)
}

// loadAll fills out and bad, both aligned with the keys.
func loadAll(ctx context.Context, from lender, ks []tiers.Key, out []tiers.Record, bad []error) error {
	return from.read(ctx, func(c *conn) error {
		for i, k := range ks {
			out[i], bad[i] = tiers.Record{Key: k}, k.Check()
		}
		for space, at := range bySpace(ks, bad) {
			for part := range slices.Chunk(at, chunkKeys) {
				if err := engine.Over(ctx); err != nil {
					return err
				}
				// As short as a few point reads: see Load.
				if err := loadSpace(context.WithoutCancel(ctx), c, space, ks, part, out, bad); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// bySpace groups the indexes of the good keys by their space.
func bySpace(ks []tiers.Key, bad []error) map[tiers.Space][]int {
	m := map[tiers.Space][]int{}
	for i, k := range ks {
		if bad[i] == nil {
			m[k.Space()] = append(m[k.Space()], i)
		}
	}
	return m
}

// loadSpace loads the keys at these indexes, all of one space.
func loadSpace(ctx context.Context, c *conn, s tiers.Space, ks []tiers.Key, at []int, out []tiers.Record, bad []error) error {
	names := make([]string, len(at))
	for n, i := range at {
		names[n] = ks[i].Name
	}
	wanted, err := json.Marshal(names)
	if err != nil {
		return err
	}
	return c.query(ctx, loadRows, []driver.Value{string(wanted), s.Namespace, s.Category}, func(row []driver.Value) (bool, error) {
		n, ok := row[0].(int64)
		if !ok || n < 0 || int(n) >= len(at) {
			return false, fmt.Errorf("the index %v of a key is impossible", row[0])
		}
		i := at[n]
		bad[i] = unpackRow(row[1:], &out[i])
		return true, nil
	})
}
