package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/database"
)

// filled is how many rows a table has before it is measured.
const filled = 20_000

func databaseComparisons() []comparison {
	open := func(mine func(*database.Tier) op, raw func(*rawSQLite) op) func(context.Context, string) (op, op, func(), error) {
		return func(ctx context.Context, dir string) (op, op, func(), error) {
			t, err := database.Open(ctx, database.Config{Path: filepath.Join(dir, "sage.db")})
			if err != nil {
				return nil, nil, nil, err
			}
			s, err := openRawSQLite(ctx, dir, 1)
			if err != nil {
				return nil, nil, nil, err
			}
			if err := fill(ctx, t, filled); err != nil {
				return nil, nil, nil, err
			}
			if err := s.fill(ctx, filled); err != nil {
				return nil, nil, nil, err
			}
			return mine(t), raw(s), func() { closer(t)(); s.close() }, nil
		}
	}
	save := func(s *rawSQLite) op {
		return func(ctx context.Context, caller, i int) error {
			return s.save(ctx, name(caller, i, filled), value(caller, i))
		}
	}
	mySave := func(t *database.Tier) op { return saves(t, filled) }
	together := func(n int) func(ctx context.Context, dir string) (op, op, func(), error) {
		return func(ctx context.Context, dir string) (op, op, func(), error) {
			s, err := openRawSQLite(ctx, dir, 1)
			if err != nil {
				return nil, nil, nil, err
			}
			if err := s.fill(ctx, filled); err != nil {
				return nil, nil, nil, err
			}
			return func(ctx context.Context, _, i int) error {
				return s.saveTogether(ctx, n, func(j int) (string, []byte) { return name(j, i, filled), value(j, i) })
			}, save(s), s.close, nil
		}
	}
	load := func(s *rawSQLite) op {
		return func(ctx context.Context, caller, i int) error {
			_, err := s.load(ctx, name(caller, i, filled))
			return err
		}
	}
	return []comparison{
		{work: "database save, 1 caller", against: "prepared upsert, FULL", callers: 1, must: 1.1, aim: 1, setup: open(mySave, save)},
		{work: "database save, 64 callers", against: "autocommit, 64 callers", callers: 64, kind: faster, must: 8, aim: 12, setup: open(mySave, save)},
		{work: "database save, 256 callers", against: "autocommit, 64 callers", callers: 256, rawCallers: 64, kind: faster, must: 12, aim: 18, setup: open(mySave, save)},
		{work: "raw transaction of 64 upserts, per row", against: "autocommit, 64 callers", callers: 1, rawCallers: 64, oursUnits: 64, kind: faster, must: 8, aim: 12, setup: together(64)},
		{work: "raw transaction of 256 upserts, per row", against: "autocommit, 64 callers", callers: 1, rawCallers: 64, oursUnits: 256, kind: faster, must: 12, aim: 18, setup: together(256)},
		{
			work: "database save of 10,000 over stored ones, per key", against: "one transaction of upserts", callers: 1,
			oursUnits: filled / 2, rawUnits: filled / 2, must: 3, aim: 2,
			setup: open(func(t *database.Tier) op {
				return func(ctx context.Context, caller, i int) error {
					rs := make([]tiers.Record, filled/2)
					for j := range rs {
						rs[j] = record(caller, i+j, filled)
					}
					_, err := t.SaveMany(ctx, rs, nil)
					return err
				}
			}, func(s *rawSQLite) op {
				return func(ctx context.Context, _, _ int) error { return s.fill(ctx, filled/2) }
			}),
		},
		{
			work: "database load, 1 caller", against: "prepared SELECT", callers: 1, must: 1.15, aim: 1,
			setup: open(func(t *database.Tier) op { return loads(t, filled) }, load),
		},
		{
			work: "database load of 100, per key", against: "prepared SELECT", callers: 1, oursUnits: batch, kind: faster, must: 3, aim: 5,
			setup: open(func(t *database.Tier) op { return loadBatches(t, filled) }, load),
		},
		{
			work: "database load of 100, per key", against: "SELECT ... IN (100)", callers: 1, oursUnits: batch, rawUnits: batch, must: 1.3, aim: 1,
			setup: open(func(t *database.Tier) op { return loadBatches(t, filled) }, func(s *rawSQLite) op {
				return func(ctx context.Context, caller, i int) error {
					ks := make([]string, batch)
					for j := range ks {
						ks[j] = name(caller, i*batch+j, filled)
					}
					n, err := s.loadMany(ctx, ks)
					if err == nil && n != batch {
						err = fmt.Errorf("%d of %d rows", n, batch)
					}
					return err
				}
			}),
		},
	}
}
