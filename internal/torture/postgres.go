//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/sagestore/sagestore/internal/pgtest"
	"github.com/sagestore/sagestore/internal/proxytest"
)

// network is a PostgreSQL server, and what stands between the servers and the workers
// and loses what a network loses.
type network struct {
	server          *pgtest.Server
	database, cache *proxytest.Proxy
}

// connected starts the server and the proxies when they do not run.
func (t *torture) connected() (err error) {
	if t.network != nil {
		return nil
	}
	n := &network{}
	// A kill takes nothing away that was written: only a power cut would, which is not
	// tried here, so that the server may do without its syncs.
	if n.server, err = pgtest.Run(pgtest.Config{NoSync: true}); err != nil {
		return err
	}
	t.network = n
	if n.database, err = proxytest.Open(n.server.Addr()); err != nil {
		return err
	}
	n.cache, err = proxytest.Open(t.redis.addr())
	return err
}

func (n *network) stop() {
	if n == nil {
		return
	}
	for _, p := range []*proxytest.Proxy{n.database, n.cache} {
		if p != nil {
			p.Close()
		}
	}
	n.server.End()
}

// between answers the store as the workers reach it.
func (n *network) between(s store) store {
	if n != nil {
		s.Postgres, s.Redis = urlOf(n.database.Addr()), n.cache.Addr()
	}
	return s
}

func (n *network) mend() {
	if n != nil {
		n.database.Mend()
		n.cache.Mend()
	}
}

func urlOf(addr string) string {
	return "postgres://" + pgtest.User + "@" + addr + "/postgres?sslmode=disable"
}

// drop removes the tables of a store.
func (n *network) drop(ctx context.Context, schema string) (err error) {
	c, err := pgx.Connect(ctx, urlOf(n.server.Addr()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	if _, err := c.Exec(ctx, "DROP SCHEMA "+schema+" CASCADE"); err != nil {
		return fmt.Errorf("drop the tables of %s: %w", schema, err)
	}
	return nil
}
