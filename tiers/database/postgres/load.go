package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/sagestore/sagestore/tiers"
)

const metaColumns = `version, created, updated, expires, schema, flags, codec`

var (
	liveSQL = `(expires = 0 OR expires > `                                                                                                               //nolint:gochecknoglobals // constant
	loadRow = `SELECT ` + metaColumns + `, value FROM ~.records WHERE namespace = $1 AND category = $2 AND key = $3 AND ` + liveSQL + nowSQL("$4") + `)` //nolint:gochecknoglobals // constant
	// One look for each key, whatever the planner thinks of a table that was just filled.
	//nolint:gochecknoglobals // constant
	loadRows = `SELECT w.key, r.* FROM unnest($3::text[]) AS w (key) CROSS JOIN LATERAL (SELECT ` + metaColumns + `, value FROM ~.records
		WHERE namespace = $1 AND category = $2 AND key = w.key AND ` + liveSQL + nowSQL("$4") + `) LIMIT 1) r`
	isThere = `SELECT EXISTS (SELECT FROM ~.records WHERE namespace = $1 AND category = $2 AND key = $3 AND ` + liveSQL + nowSQL("$4") + `))` //nolint:gochecknoglobals // constant
)

// metaRow is what stands beside a value, as it is scanned.
type metaRow struct {
	version, created, updated, expires, schema int64
	flags                                      int32
	codec                                      string
	value                                      []byte
}

func (m *metaRow) columns() []any {
	return []any{&m.version, &m.created, &m.updated, &m.expires, &m.schema, &m.flags, &m.codec, &m.value}
}

// fill fills a record from the row.
func (m *metaRow) fill(r *tiers.Record) error {
	if m.version < 1 || m.schema < 0 || m.schema > 1<<32-1 || m.flags < 0 || m.flags > 0xff|isText {
		return fmt.Errorf("%w: its row holds impossible numbers", tiers.ErrCorrupt)
	}
	r.Version = version(m.version)
	r.Created, r.Updated, r.Expires = tiers.FromMicro(m.created), tiers.FromMicro(m.updated), tiers.FromMicro(m.expires)
	r.Schema, r.Flags, r.Codec = uint32(m.schema), tiers.Flags(m.flags&0xff), m.codec
	r.Value = notNil(m.value)
	return nil
}

// lender is where loads read: the pool, or a snapshot.
type lender interface {
	lend(ctx context.Context, fn func(q querier) error) error
}

// lend lends fn the pool, twice when a connection has ended that lay idle: after a
// restart of the server none of them is good any more.
func (t *Tier) lend(ctx context.Context, fn func(q querier) error) error {
	if err := t.enter(ctx); err != nil {
		return err
	}
	defer t.leave()
	err := fn(t.read)
	if ctx.Err() == nil && dropped(err) {
		t.read.Reset()
		err = fn(t.read)
	}
	return left(ctx, err)
}

// ask collects the answer of a query.
func ask[T any](ctx context.Context, from lender, scan pgx.RowToFunc[T], query string, args ...any) (all []T, err error) {
	err = from.lend(ctx, func(q querier) error {
		rows, err := q.Query(ctx, tierOf(from).sql(query), args...)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, scan)
		return err
	})
	return all, err
}

func tierOf(l lender) *Tier {
	if s, ok := l.(*snapshot); ok {
		return s.t
	}
	t, _ := l.(*Tier)
	return t
}

// Load implements tiers.Tier.
func (t *Tier) Load(ctx context.Context, k tiers.Key) (tiers.Record, error) {
	return t.load(ctx, t, k)
}

func (t *Tier) load(ctx context.Context, from lender, k tiers.Key) (tiers.Record, error) {
	if err := k.Check(); err != nil {
		return tiers.Record{}, t.fail("load", k, err)
	}
	r := tiers.Record{Key: k}
	err := from.lend(ctx, func(q querier) error {
		var m metaRow
		if err := q.QueryRow(ctx, t.sql(loadRow), k.Namespace, k.Category, k.Name, t.now()).Scan(m.columns()...); err != nil {
			return err
		}
		return m.fill(&r)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		t.misses.Add(1)
		return tiers.Record{}, t.fail("load", k, tiers.ErrNotFound)
	case err != nil:
		return tiers.Record{}, t.failed("load", k, err)
	}
	t.hits.Add(1)
	return r, nil
}

// Exists implements tiers.Exister.
func (t *Tier) Exists(ctx context.Context, k tiers.Key) (there bool, err error) {
	if err := k.Check(); err != nil {
		return false, t.fail("exists", k, err)
	}
	err = t.lend(ctx, func(q querier) error {
		return q.QueryRow(ctx, t.sql(isThere), k.Namespace, k.Category, k.Name, t.now()).Scan(&there)
	})
	if err != nil {
		return false, t.failed("exists", k, err)
	}
	return there, nil
}

// LoadMany implements tiers.Batcher. Keys of one space are of one moment.
func (t *Tier) LoadMany(ctx context.Context, ks []tiers.Key) ([]tiers.Record, error) {
	return t.loadMany(ctx, t, ks)
}

func (t *Tier) loadMany(ctx context.Context, from lender, ks []tiers.Key) ([]tiers.Record, error) {
	out, bad := make([]tiers.Record, len(ks)), make([]error, len(ks))
	spaces := map[tiers.Space]map[string][]int{}
	for i, k := range ks {
		out[i] = tiers.Record{Key: k}
		if err := k.Check(); err != nil {
			bad[i] = t.fail("load", k, err)
			continue
		}
		names := spaces[k.Space()]
		if names == nil {
			names = map[string][]int{}
			spaces[k.Space()] = names
		}
		names[k.Name] = append(names[k.Name], i)
	}
	hits := int64(0)
	err := from.lend(ctx, func(q querier) error {
		hits = 0
		for s, at := range spaces {
			names := make([]string, 0, len(at))
			for name := range at {
				names = append(names, name)
			}
			rows, err := q.Query(ctx, t.sql(loadRows), s.Namespace, s.Category, names, t.now())
			if err != nil {
				return err
			}
			var name string
			var m metaRow
			err = each(rows, append([]any{&name}, m.columns()...), func() {
				for n, i := range at[name] {
					row := m
					if n > 0 { // each answer has memory of its own
						row.value = append([]byte{}, m.value...)
					}
					if bad[i] = t.failed("load", ks[i], row.fill(&out[i])); bad[i] == nil {
						hits++
					}
				}
				m.value = nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return make([]tiers.Record, len(ks)), t.failed("load", tiers.Key{}, err)
	}
	t.hits.Add(hits)
	t.misses.Add(int64(len(ks)) - hits)
	return out, errors.Join(bad...)
}
