package main

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagestore/sagestore/internal/pgtest"
	"github.com/sagestore/sagestore/tiers/database/postgres"
)

const (
	rawTable  = `CREATE TABLE IF NOT EXISTS raw (key text COLLATE "C" PRIMARY KEY, value bytea NOT NULL)`
	rawUpsert = `INSERT INTO raw (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value`
	rawSelect = `SELECT value FROM raw WHERE key = $1`
)

// postgresComparisons start a server of their own, which syncs, for each line. Both sides
// find it as far away as rtt says.
func postgresComparisons(rtt time.Duration) []comparison {
	open := func(callers int32, mine func(*postgres.Tier) op, raw func(*pgxpool.Pool) op) func(context.Context, string) (op, op, func(), error) {
		return func(ctx context.Context, _ string) (op, op, func(), error) {
			srv, err := pgtest.Run(pgtest.Config{})
			if err != nil {
				return nil, nil, nil, err
			}
			url, near := srv.URL("postgres"), func() {}
			if rtt > 0 {
				addr, end, err := farAway(ctx, srv.Addr(), rtt)
				if err != nil {
					return nil, nil, nil, err
				}
				url, near = strings.Replace(url, srv.Addr(), addr, 1), end
			}
			t, err := postgres.Open(ctx, postgres.Config{URL: url, Pool: int(callers)})
			if err != nil {
				return nil, nil, nil, err
			}
			cfg, err := pgxpool.ParseConfig(url)
			if err != nil {
				return nil, nil, nil, err
			}
			cfg.MaxConns = callers
			pool, err := pgxpool.NewWithConfig(ctx, cfg)
			if err != nil {
				return nil, nil, nil, err
			}
			if _, err := pool.Exec(ctx, rawTable); err != nil {
				return nil, nil, nil, err
			}
			if err := fill(ctx, t, filled); err != nil {
				return nil, nil, nil, err
			}
			_, err = pool.Exec(ctx, `INSERT INTO raw SELECT key, value FROM sagestore.records`)
			return mine(t), raw(pool), func() { closer(t)(); pool.Close(); near(); srv.End() }, err
		}
	}
	save := func(pool *pgxpool.Pool) op {
		return func(ctx context.Context, caller, i int) error {
			_, err := pool.Exec(ctx, rawUpsert, name(caller, i, filled), value(caller, i))
			return err
		}
	}
	load := func(pool *pgxpool.Pool) op {
		return func(ctx context.Context, caller, i int) error {
			var v []byte
			return pool.QueryRow(ctx, rawSelect, name(caller, i, filled)).Scan(&v)
		}
	}
	mySave := func(t *postgres.Tier) op { return saves(t, filled) }
	myLoad := func(t *postgres.Tier) op { return loads(t, filled) }
	return []comparison{
		{work: "PostgreSQL save, 1 caller", against: "pgx upsert", callers: 1, must: 1.5, aim: 1.2, setup: open(8, mySave, save)},
		{work: "PostgreSQL save, 64 callers", against: "pgx upsert, 64 callers", callers: 64, kind: faster, must: 2.5, aim: 3.5, setup: open(64, mySave, save)},
		{work: "PostgreSQL load, 1 caller", against: "pgx SELECT", callers: 1, must: 1.2, aim: 1.1, setup: open(8, myLoad, load)},
		{
			work: "PostgreSQL load of 100, per key", against: "pgx SELECT", callers: 1, oursUnits: batch, kind: faster, must: 5, aim: 10,
			setup: open(8, func(t *postgres.Tier) op { return loadBatches(t, filled) }, load),
		},
	}
}
