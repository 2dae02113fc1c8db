package routetest

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/sagestore/sagestore/internal/pgtest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/database"
	"github.com/sagestore/sagestore/tiers/database/postgres"
)

// OnPostgres tells whether the tests are to keep their databases on PostgreSQL.
func OnPostgres() bool { return os.Getenv(variable) == "postgres" }

const variable = "SAGESTORE_TEST_DATABASE"

// StartServer starts the server that is needed for that, if it is, so that the processes of
// the tests share it. A TestMain whose tests start processes calls it.
func StartServer() error {
	if !OnPostgres() {
		return nil
	}
	_, err := pgtest.SharedURL()
	return err
}

// Pass gives the variables of the environment on by which a process that a test starts
// keeps its databases where the test does.
func Pass(set func(name, value string)) {
	for _, name := range []string{variable, pgtest.Variable} {
		if value := os.Getenv(name); value != "" {
			set(name, value)
		}
	}
}

// Drivers answers the drivers for a test: as they are, or with SAGESTORE_TEST_DATABASE
// set to postgres with one in the place of SQLite that keeps what would be in a file in
// a schema of a server that it starts.
func Drivers(ds tiers.Drivers) tiers.Drivers {
	if !OnPostgres() {
		return ds
	}
	ds = slices.Clone(ds)
	for i, d := range ds {
		if d.Tier == "database" && d.Name == "sqlite" {
			ds[i] = standIn(d)
		}
	}
	return ds
}

// standIn keeps on PostgreSQL what a driver of SQLite would keep in a file.
func standIn(d tiers.Driver) tiers.Driver {
	file := d.Open
	d.Copies = postgres.Copies()
	d.Open = func(ctx context.Context, env tiers.Env) (tiers.Tier, error) {
		var o database.Options
		if err := env.Options(&o); err != nil {
			return nil, err
		}
		if o.Path == database.Memory {
			return file(ctx, env)
		}
		if o.Path == "" {
			o.Path = filepath.Join(env.Dir, "sage.db")
		}
		path, err := filepath.Abs(o.Path)
		if err != nil {
			return nil, err
		}
		url, err := pgtest.SharedURL()
		if err != nil {
			return nil, fmt.Errorf("PostgreSQL in the place of SQLite: %w", err)
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte(path))
		return postgres.Open(ctx, postgres.Config{
			URL: url, Schema: "f_" + strconv.FormatUint(h.Sum64(), 36), Pool: 4, Log: env.Log, Clock: env.Clock,
		})
	}
	return d
}
