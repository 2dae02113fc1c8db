package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/sagestore/sagestore/tiers"
)

// schemaNow is the schema that this code writes: the number of the last file in
// migrations.
const schemaNow = 1

//go:embed migrations/*.sql
var migrations embed.FS

// applied is the table in which goose notes the migrations. It tells whether a schema
// is ours.
const applied = "sagestore_migrations"

const (
	lookAtSchema = `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1),
		count(*) FILTER (WHERE c.relname = '` + applied + `'),
		count(*) FILTER (WHERE c.relname IN ('records', 'counters', 'facts', 'journal', 'journal_tiers', 'recent', 'sessions', 'commits', 'leases', 'version')),
		count(*), coalesce(min(c.relname) FILTER (WHERE c.relname <> '` + applied + `'), '')
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')`
	ourRelations = 10
	lastApplied  = `SELECT coalesce(max(version_id), 0) FROM ~.` + applied + ` WHERE is_applied`
)

// settle brings the tables to the schema of this code. Of several processes that open
// an empty database at once one does, and the others wait for that. The first look is
// through the given pool, without a lock.
func (t *Tier) settle(ctx context.Context, pool querier) error {
	schema, err := t.inspect(ctx, pool)
	if err == nil && schema == schemaNow || err != nil && !errors.Is(err, tiers.ErrCorrupt) {
		return err
	}
	// If tables were missing, another process may have made them between two looks.
	// The lock is held by a transaction that does nothing else, so that it works behind
	// a pooler too.
	tx, err := t.write.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // gives the lock back
	if _, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", lockKey(t.schema, "migration")); err != nil {
		return err
	}
	schema, err = t.inspect(ctx, tx)
	if err != nil || schema == schemaNow {
		return err
	}
	return t.migrate(ctx)
}

// inspect answers the schema of the tables, 0 for none, or why they may not be used.
func (t *Tier) inspect(ctx context.Context, q querier) (int64, error) {
	var there bool
	var noted, ours, all int
	var other string
	if err := q.QueryRow(ctx, lookAtSchema, t.schema).Scan(&there, &noted, &ours, &all, &other); err != nil {
		return 0, err
	}
	if noted == 0 && all > 0 {
		return 0, tiers.Hint(fmt.Errorf("%w: the schema %s of %s is in use by another application: it has %s", tiers.ErrUnsupported, t.schema, t.place, other),
			"choose another name with postgres.schema; nothing was changed")
	}
	if noted == 0 {
		return 0, nil
	}
	var schema int64
	if err := q.QueryRow(ctx, t.sql(lastApplied)).Scan(&schema); err != nil {
		return 0, err
	}
	switch {
	case schema > schemaNow:
		return 0, tiers.Hint(fmt.Errorf("%w: the tables in schema %s of %s have schema %d, this version knows up to %d", tiers.ErrSchema, t.schema, t.place, schema, schemaNow),
			"use the newer version of sagestore that made them; nothing was changed")
	case schema > 0 && ours < ourRelations:
		return 0, tiers.Hint(fmt.Errorf("%w: %d of the %d tables in schema %s of %s are missing", tiers.ErrCorrupt, ourRelations-ours, ourRelations, t.schema, t.place),
			t.renameHint())
	case schema == 0 && ours == ourRelations:
		return 0, tiers.Hint(fmt.Errorf("%w: nothing is noted of the tables in schema %s of %s, as if somebody had emptied them", tiers.ErrCorrupt, t.schema, t.place), t.renameHint())
	}
	return schema, nil
}

// renameHint is about a schema that can't be opened, and so not be replaced.
func (t *Tier) renameHint() string {
	return fmt.Sprintf("rename the schema, ALTER SCHEMA %s RENAME TO %s_damaged, and restore a backup then; nothing was changed", t.schema, t.schema)
}

// migrate runs the migrations that are missing, each in a transaction.
func (t *Tier) migrate(ctx context.Context) (err error) {
	cc := t.write.Config().ConnConfig.Copy()
	cc.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // several statements at once
	db := stdlib.OpenDB(*cc)
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS "+t.schema); err != nil {
		return err
	}
	steps, err := t.steps()
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, nil, goose.WithGoMigrations(steps...),
		goose.WithTableName(t.schema+"."+applied), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

// steps are the migrations, with the name of the schema put in.
func (t *Tier) steps() (all []*goose.Migration, err error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		text, err := migrations.ReadFile(name)
		if err != nil {
			return nil, err
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, err
		}
		statements := t.sql(string(text))
		all = append(all, goose.NewGoMigration(version, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, statements)
			return err
		}}, nil))
	}
	return all, nil
}

// querier is a pool, a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
}

var (
	_ querier = (*pgxpool.Pool)(nil)
	_ querier = pgx.Tx(nil)
)
