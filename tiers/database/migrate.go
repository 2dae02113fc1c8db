package database

import (
	"context"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sagestore/sagestore/tiers"
)

// applicationID marks a file as ours (PRAGMA application_id): "sage".
const applicationID = 0x73616765

// schemaNow is the schema that this code writes: the number of the last file in
// migrations. It is kept in PRAGMA user_version.
const schemaNow = 2

// The migrations are in the format of goose, forward only.
//
//go:embed migrations/*.sql
var migrations embed.FS

// inspect answers the schema of a file, 0 for an empty one, or why it may not
// be used. It opens the file for reading only and changes nothing.
func inspect(ctx context.Context, path string) (schema int64, err error) {
	c, err := connect(ctx, dsn(path, true, pragma{"query_only", "1"}))
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
	case schema > schemaNow:
		return 0, tiers.Hint(fmt.Errorf("%w: %s has schema %d, this version knows up to %d", tiers.ErrSchema, path, schema, schemaNow),
			"use the newer version of sagestore that wrote it; the file was not changed")
	}
	return schema, nil
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

// bookkeeping is the version table of the files' format (goose), so that its tools
// can tell what a database has.
const bookkeeping = `CREATE TABLE IF NOT EXISTS migrations (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	version_id INTEGER NOT NULL,
	is_applied INTEGER NOT NULL,
	tstamp     TIMESTAMP DEFAULT (datetime('now'))
)`

// up runs the migrations that are missing, up to one, inside the transaction
// that is open on c.
func up(ctx context.Context, c *conn, schema int64) error {
	if _, err := c.exec(ctx, bookkeeping); err != nil {
		return err
	}
	done, err := c.number(ctx, "SELECT coalesce(max(version_id), -1) FROM migrations WHERE is_applied")
	if err != nil {
		return err
	}
	if done < 0 { // the format begins with a version 0
		if err := c.migrated(ctx, 0); err != nil {
			return err
		}
	}
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		return err
	}
	for _, f := range files {
		number, _, _ := strings.Cut(f.Name(), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return fmt.Errorf("the migration %s has no number: %w", f.Name(), err)
		}
		if version <= done || version > schema {
			continue
		}
		text, err := migrations.ReadFile("migrations/" + f.Name())
		if err != nil {
			return err
		}
		if err := c.script(ctx, string(text)); err != nil {
			return fmt.Errorf("the migration %s failed: %w", f.Name(), err)
		}
		if err := c.migrated(ctx, version); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) migrated(ctx context.Context, version int64) error {
	_, err := c.exec(ctx, "INSERT INTO migrations (version_id, is_applied) VALUES (?, 1)", version)
	return err
}

// script runs several statements, which are not kept prepared.
func (c *conn) script(ctx context.Context, text string) error {
	e, ok := c.raw.(driver.ExecerContext)
	if !ok {
		return errors.New("the SQLite driver can't run scripts")
	}
	_, err := e.ExecContext(ctx, text, nil)
	return err
}
