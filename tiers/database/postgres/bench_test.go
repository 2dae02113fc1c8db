package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagestore/sagestore/internal/pgtest"
	"github.com/sagestore/sagestore/tiers"
)

// spread runs n pieces of work with so many callers.
func spread(b *testing.B, callers int, work func(i int) error) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := work(int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkSave measures saves of 1 KiB against plain upserts by the driver, at the
// same durability.
func BenchmarkSave(b *testing.B) {
	srv := pgtest.Start(b, pgtest.Config{})
	ctx := context.Background()
	value := func(i int) []byte {
		v := make([]byte, 1024)
		for j := range v {
			v[j] = byte(rand.Uint32())
		}
		copy(v, strconv.Itoa(i))
		return v
	}
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("raw/%d", callers), func(b *testing.B) {
			cfg, err := pgxpool.ParseConfig(srv.URL("postgres"))
			if err != nil {
				b.Fatal(err)
			}
			cfg.MaxConns = int32(callers)
			pool, err := pgxpool.NewWithConfig(ctx, cfg)
			if err != nil {
				b.Fatal(err)
			}
			defer pool.Close()
			if _, err := pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS raw (key text COLLATE "C" PRIMARY KEY, value bytea NOT NULL)`); err != nil {
				b.Fatal(err)
			}
			spread(b, callers, func(i int) error {
				_, err := pool.Exec(ctx, `INSERT INTO raw (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
					"key-"+strconv.Itoa(i%20000), value(i))
				return err
			})
		})
		b.Run(fmt.Sprintf("tier/%d", callers), func(b *testing.B) {
			t := open1(b, Config{URL: srv.URL("postgres")})
			spread(b, callers, func(i int) error {
				k := tiers.Key{Category: "bench", Name: "key-" + strconv.Itoa(i%20000)}
				_, err := t.Save(ctx, tiers.Record{Key: k, Value: value(i), Codec: "raw"}, tiers.Cond{})
				return err
			})
		})
	}
}
