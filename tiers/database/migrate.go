package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sagestore/sagestore/tiers"
)

// applicationID marks a file as ours (PRAGMA application_id): "sage".
const applicationID = 0x73616765

// schemaNow is the schema that this code writes: the number of the last file in
// migrations. It is kept in PRAGMA user_version.
const schemaNow = 6

//go:embed migrations/*.sql
var migrations embed.FS

// inspect answers the schema of a file, 0 for an empty one, or why it may not
// be used. It opens the file for reading only and changes nothing.
//
// Only a transaction that was cut off before the file was made ready for many
// readers is rolled back, which SQLite leaves to one that may write.
func inspect(ctx context.Context, path string) (schema int64, err error) {
	schema, err = inspectBy(ctx, path, true)
	if codeOf(err) == sqlite3.SQLITE_READONLY {
		schema, err = inspectBy(ctx, path, false)
	}
	return schema, err
}

func inspectBy(ctx context.Context, path string, readOnly bool) (schema int64, err error) {
	c, err := connect(ctx, dsn(path, readOnly, pragma{"query_only", "1"}))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return schemaOf(ctx, c, path)
}

func schemaOf(ctx context.Context, c *conn, path string) (int64, error) {
	app, err := c.number(ctx, "PRAGMA application_id")
	if err != nil {
		return 0, notOurs(path, err)
	}
	schema, err := c.number(ctx, "PRAGMA user_version")
	if err != nil {
		return 0, notOurs(path, err)
	}
	tables, err := c.number(ctx, "SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return 0, notOurs(path, err)
	}
	switch {
	case app == 0 && schema == 0 && tables == 0:
		return 0, nil
	case app != applicationID:
		return 0, tiers.Hint(fmt.Errorf("%w: %s is the database of another application", tiers.ErrUnsupported, path),
			"choose another path; the file was not changed")
	case schema > schemaNow || schema < 0:
		return 0, tiers.Hint(fmt.Errorf("%w: %s has schema %d, this version knows up to %d", tiers.ErrSchema, path, schema, schemaNow),
			"use the newer version of sagestore that wrote it; the file was not changed")
	}
	return schema, whole(ctx, c, path, schema)
}

// tablesOf are the tables that each schema has beyond those of the one before.
func tablesOf(schema int64) []string {
	all := [][]string{
		{"records", "counters", "migrations"},
		{"facts", "journal", "journal_tiers", "sessions"},
		{"commits", "recent"},
		{"search_words", "search_parts"},
		{},
		{},
	}
	return slices.Concat(all[:schema]...)
}

// whole tells which tables are missing of a file that is ours.
func whole(ctx context.Context, c *conn, path string, schema int64) error {
	there := map[string]bool{}
	err := c.query(ctx, "SELECT name FROM sqlite_schema WHERE type = 'table'", nil, func(row []driver.Value) (bool, error) {
		name, _ := row[0].(string)
		there[name] = true
		return true, nil
	})
	if err != nil {
		return notOurs(path, err)
	}
	missing := slices.DeleteFunc(tablesOf(schema), func(name string) bool { return there[name] })
	if len(missing) == 0 {
		return nil
	}
	return tiers.Hint(fmt.Errorf("%w: %s has no table %s, which schema %d has", tiers.ErrCorrupt, path, strings.Join(missing, ", "), schema),
		"restore a backup; the file was not changed")
}

// notOurs explains why a file could not be read as a database.
func notOurs(path string, err error) error {
	if busy(err) {
		return err
	}
	if codeOf(err) == sqlite3.SQLITE_NOTADB {
		return tiers.Hint(fmt.Errorf("%w: %s is not a SQLite database", tiers.ErrCorrupt, path),
			"choose another path, or restore a backup; the file was not changed")
	}
	return fmt.Errorf("%s can't be read: %w", path, err)
}

// migrate brings the database to the schema of this code in one transaction.
func migrate(ctx context.Context, c *conn) (err error) {
	if _, err := c.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, rollbackErr := c.exec(context.WithoutCancel(ctx), "ROLLBACK")
			err = errors.Join(err, rollbackErr)
		}
	}()
	if err := up(ctx, c, schemaNow); err != nil {
		return err
	}
	for name, n := range map[string]int{"application_id": applicationID, "user_version": schemaNow} {
		if _, err := c.exec(ctx, "PRAGMA "+name+"="+strconv.Itoa(n)); err != nil {
			return err
		}
	}
	_, err = c.exec(ctx, "COMMIT")
	return err
}

// up runs the migrations that are missing, up to one, inside the transaction
// that is open on c.
func up(ctx context.Context, c *conn, schema int64) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	db := sql.OpenDB(lent{c})
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files,
		goose.WithTableName("migrations"), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return errors.Join(err, db.Close())
	}
	_, err = p.UpTo(ctx, schema)
	return errors.Join(err, db.Close())
}

// lent lets database/sql use a connection that stays ours. A transaction on it
// is a savepoint in the one that is open already.
type lent struct{ c *conn }

var (
	_ driver.Connector      = lent{}
	_ driver.ConnBeginTx    = lentConn{}
	_ driver.ExecerContext  = lentConn{}
	_ driver.QueryerContext = lentConn{}
)

func (l lent) Connect(context.Context) (driver.Conn, error) { return lentConn(l), nil }

func (l lent) Driver() driver.Driver { return nil }

type lentConn struct{ c *conn }

func (l lentConn) Prepare(query string) (driver.Stmt, error) { return l.c.raw.Prepare(query) }

func (l lentConn) Close() error { return nil }

func (l lentConn) Begin() (driver.Tx, error) {
	return l.BeginTx(context.Background(), driver.TxOptions{})
}

func (l lentConn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	_, err := l.c.exec(ctx, "SAVEPOINT migration")
	return lentTx(l), err
}

func (l lentConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	e, ok := l.c.raw.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	return e.ExecContext(ctx, query, args)
}

func (l lentConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	q, ok := l.c.raw.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	return q.QueryContext(ctx, query, args)
}

type lentTx struct{ c *conn }

func (l lentTx) Commit() error {
	_, err := l.c.exec(context.Background(), "RELEASE migration")
	return err
}

func (l lentTx) Rollback() error {
	if _, err := l.c.exec(context.Background(), "ROLLBACK TO migration"); err != nil {
		return err
	}
	return l.Commit()
}
