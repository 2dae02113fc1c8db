package postgres

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

// Options are the settings of the driver in a configuration.
type Options struct {
	URL              string        // postgres://user@host:5432/database, with sslmode, sslrootcert and the like
	Schema           string        // that holds the tables; default sagestore
	Pool             int           // connections for loads at most; default 8
	Pooler           bool          // a pooler such as PgBouncer stands in between
	StatementTimeout time.Duration // of a statement; default one minute
	LockTimeout      time.Duration // how long to wait for the writers of other processes; default 30 seconds
}

// Config says what to open.
type Config struct {
	// URL of the database, as libpq takes it; a connection string of keys and values
	// does as well. What it leaves open comes from the PG* variables of the
	// environment.
	URL string
	// Schema holds the tables, and nothing else; it is made when it is not there.
	// Default: DefaultSchema.
	Schema string
	// Pool is how many connections there are for loads at most, 8 by default. Besides
	// there are up to four for writing, one for locks, and up to four for snapshots.
	Pool int
	// Pooler says that a pooler stands in between, which lends a connection for one
	// transaction.
	Pooler bool
	// StatementTimeout ends a statement, by default after one minute.
	StatementTimeout time.Duration
	// LockTimeout is how long to wait for the writers of other processes, 30 seconds
	// by default.
	LockTimeout time.Duration
	Log         *slog.Logger // default: slog.Default
	// Clock that stands in for the server's when it is not nil and not
	// tiers.SystemClock: for tests, whose handles of one store have to share it.
	Clock tiers.Clock
}

// The defaults of [Config].
const (
	DefaultSchema    = "sagestore"
	defaultPool      = 8
	defaultStatement = time.Minute
	defaultLock      = 30 * time.Second
)

// Driver is how a configuration opens a database on PostgreSQL.
func Driver() tiers.Driver {
	return tiers.Driver{
		Tier:    "database",
		Name:    "postgres",
		Options: &Options{},
		Copies:  Copies(),
		Open: func(ctx context.Context, env tiers.Env) (tiers.Tier, error) {
			var o Options
			if env.Options != nil {
				if err := env.Options(&o); err != nil {
					return nil, err
				}
			}
			return Open(ctx, Config{
				URL: o.URL, Schema: o.Schema, Pool: o.Pool, Pooler: o.Pooler,
				StatementTimeout: o.StatementTimeout, LockTimeout: o.LockTimeout, Log: env.Log, Clock: env.Clock,
			})
		},
	}
}

// filled answers the config with its defaults, checked.
func (c Config) filled() (Config, error) {
	c.Schema = cmp.Or(c.Schema, DefaultSchema)
	c.Pool = cmp.Or(c.Pool, defaultPool)
	c.StatementTimeout = cmp.Or(c.StatementTimeout, defaultStatement)
	c.LockTimeout = cmp.Or(c.LockTimeout, defaultLock)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	switch {
	case c.URL == "":
		return c, tiers.Hint(fmt.Errorf("no URL of a PostgreSQL server: %w", tiers.ErrUnsupported), "set postgres.url, such as postgres://user@host:5432/database")
	case engine.CheckSchemaName(c.Schema) != "":
		return c, fmt.Errorf("schema is %q: %s", c.Schema, engine.CheckSchemaName(c.Schema))
	case c.Pool < 1 || c.Pool > 1000:
		return c, fmt.Errorf("pool is %d: it must be 1 to 1000 connections", c.Pool)
	case c.StatementTimeout < time.Millisecond || c.LockTimeout < time.Millisecond:
		return c, fmt.Errorf("statement timeout is %v, lock timeout %v: they must be a millisecond at least", c.StatementTimeout, c.LockTimeout)
	}
	return c, nil
}
