package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers/all"
)

// homes are a category on each tier.
var homes = []string{"memory", "cache", "database", "file"}

func onEachTier(dir, redisURL string) *config.Config {
	cfg := config.Default()
	cfg.DataDir = dir
	cfg.Categories = map[string]config.Category{}
	for _, tier := range homes {
		cfg.Categories["bench."+tier] = config.Category{Tier: tier, Codec: "raw"}
	}
	if redisURL != "" {
		cfg.Redis = &config.Redis{URL: config.Secret(redisURL), Prefix: filepath.Base(dir)}
	}
	return cfg
}

// transactionComparisons measure a commit over all tiers beside one save into the
// database, by the same manager.
func transactionComparisons(redisURL string) []comparison {
	const n = 10_000
	var rest func(ctx context.Context) error
	resting := func(ctx context.Context) error { return rest(ctx) }
	open := func(url string) func(context.Context, string) (op, op, func(), error) {
		return func(ctx context.Context, dir string) (op, op, func(), error) {
			m, err := manager.Open(ctx, onEachTier(dir, url), all.Tiers())
			if err != nil {
				return nil, nil, nil, err
			}
			rest = func(ctx context.Context) error { return drained(ctx, m) }
			all := make([]*manager.Collection[[]byte], len(homes))
			for i, tier := range homes {
				all[i] = manager.For[[]byte](m, "bench."+tier)
			}
			one := manager.For[[]byte](m, "bench.database")
			values := map[string][]byte{}
			for i := range n {
				values[name(0, i, n)] = value(0, i)
			}
			if err := one.SaveMany(ctx, values); err != nil {
				return nil, nil, nil, err
			}
			ours := func(ctx context.Context, caller, i int) error {
				return m.Update(ctx, func(tx *manager.Tx) error {
					for _, c := range all {
						if err := c.In(tx).Save(ctx, name(caller, i, n), value(caller, i)); err != nil {
							return err
						}
					}
					return nil
				})
			}
			raw := func(ctx context.Context, caller, i int) error {
				return one.Save(ctx, name(caller, i, n), value(caller, i))
			}
			return ours, raw, func() { _ = m.Close(ctx) }, nil
		}
	}
	out := []comparison{
		{work: "raw transaction with the same rows", against: "prepared upsert, FULL", callers: 1, must: 2, aim: 1.5, setup: rawTransaction},
		{work: "transaction over database, file, cache, memory", against: "one database save", callers: 1, must: 1.5, aim: 1.2, rest: resting, setup: open("")},
		{work: "the same transaction, 64 callers", against: "1 caller's database save", callers: 64, rawCallers: 1, kind: faster, must: 1, aim: 2, rest: resting, setup: open("")},
	}
	if redisURL != "" {
		out = append(out, comparison{
			work: "the same with the cache on Redis", against: "one database save", callers: 1, must: 1.5, aim: 1.2, rest: resting, setup: open(redisURL),
		}, comparison{
			work: "open with 10,000 journal rows and serve one", kind: millis, must: 100, aim: 50, setup: withRows(redisURL, false),
		}, comparison{
			work: "open with 10,000 journal rows and drain them", kind: millis, must: 10_000, aim: 5_000, setup: withRows(redisURL, true),
		})
	}
	return out
}

// rawTransaction is the least that a transaction over these tiers can cost: the
// modernc driver stores a row, the rows that wait for two other tiers, and nothing
// that tells what became of it.
func rawTransaction(ctx context.Context, dir string) (op, op, func(), error) {
	const n = 10_000
	s, err := openRawSQLite(ctx, dir, 1)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := s.fill(ctx, n); err != nil {
		return nil, nil, nil, err
	}
	if _, err := s.write.ExecContext(ctx, "CREATE TABLE log (seq INTEGER PRIMARY KEY, tier TEXT, k TEXT, v BLOB) STRICT"); err != nil {
		return nil, nil, nil, err
	}
	wait, err := s.write.PrepareContext(ctx, "INSERT INTO log (tier, k, v) VALUES (?, ?, ?)")
	if err != nil {
		return nil, nil, nil, err
	}
	ours := func(ctx context.Context, caller, i int) error {
		tx, err := s.write.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.StmtContext(ctx, s.upsert).ExecContext(ctx, name(caller, i, n), value(caller, i)); err != nil {
			return err
		}
		for _, tier := range []string{"cache", "file"} {
			if _, err := tx.StmtContext(ctx, wait).ExecContext(ctx, tier, name(caller, i, n), value(caller, i)); err != nil {
				return err
			}
		}
		return tx.Commit()
	}
	raw := func(ctx context.Context, caller, i int) error {
		return s.save(ctx, name(caller, i, n), value(caller, i))
	}
	return ours, raw, func() { _ = wait.Close(); s.close() }, nil
}

// withRows opens a store in whose journal 10,000 saves of 1 KiB wait for the cache.
func withRows(redisURL string, drain bool) func(context.Context, string) (op, op, func(), error) {
	const n = 10_000
	fillJournal := func(ctx context.Context, dir string) error {
		m, err := manager.Open(ctx, onEachTier(dir, nobodyAt()), all.Tiers())
		if err != nil {
			return err
		}
		c := manager.For[[]byte](m, "bench.cache")
		values := map[string][]byte{}
		for i := range n {
			values[name(0, i, n)] = value(0, int(time.Now().UnixNano())+i)
		}
		return errors.Join(c.SaveMany(ctx, values), m.Close(ctx))
	}
	return func(ctx context.Context, dir string) (op, op, func(), error) {
		opened := 0
		ours := func(ctx context.Context, _, _ int) error {
			opened++
			at := filepath.Join(dir, fmt.Sprint(opened))
			if err := fillJournal(ctx, at); err != nil {
				return err
			}
			begun := time.Now()
			m, err := manager.Open(ctx, onEachTier(at, redisURL), all.Tiers())
			if err != nil {
				return err
			}
			c := manager.For[[]byte](m, "bench.cache")
			if _, err := c.Load(ctx, name(0, n/2, n)); err != nil {
				return err
			}
			if drain {
				if err := drained(ctx, m); err != nil {
					return err
				}
			}
			took := time.Since(begun)
			return errors.Join(m.Close(ctx), measured{took})
		}
		return ours, nil, func() {}, nil
	}
}

// drained waits until nothing waits in the journal.
func drained(ctx context.Context, m *manager.Manager) error {
	for {
		s, err := m.Stats(ctx)
		if err != nil || s.Pending == 0 {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// measured is an answer of an operation that has looked at the clock itself.
type measured struct{ took time.Duration }

func (m measured) Error() string { return m.took.String() }

// nobodyAt is the address of a Redis that does not answer.
func nobodyAt() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "redis://127.0.0.1:1"
	}
	defer func() { _ = l.Close() }()
	return "redis://" + l.Addr().String()
}
