package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver
)

// rawSQLite is modernc's driver as its documentation shows it, at the
// durability of sagestore's default: WAL and synchronous=FULL, read back.
type rawSQLite struct {
	write, read *sql.DB
	upsert, get *sql.Stmt
}

func openRawSQLite(ctx context.Context, dir string, writers int) (*rawSQLite, error) {
	q := url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(10000)"}, "_txlock": {"immediate"}}
	dsn := "file:" + filepath.Join(dir, "raw.db") + "?" + q.Encode()
	w, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	w.SetMaxOpenConns(writers)
	w.SetMaxIdleConns(writers)
	var sync int
	var mode string
	if err := w.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&sync); err != nil {
		return nil, err
	}
	if err := w.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return nil, err
	}
	if sync != 2 || mode != "wal" {
		return nil, fmt.Errorf("raw SQLite runs with synchronous=%d, journal_mode=%s", sync, mode)
	}
	if _, err := w.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS kv (k TEXT PRIMARY KEY, v BLOB) STRICT"); err != nil {
		return nil, err
	}
	r, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	s := &rawSQLite{write: w, read: r}
	if s.upsert, err = w.PrepareContext(ctx, "INSERT INTO kv (k, v) VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = excluded.v"); err != nil {
		return nil, err
	}
	if s.get, err = r.PrepareContext(ctx, "SELECT v FROM kv WHERE k = ?"); err != nil {
		return nil, err
	}
	return s, nil
}

// fill writes n rows of the test's values in transactions.
func (s *rawSQLite) fill(ctx context.Context, n int) error {
	return s.saveTogether(ctx, n, func(i int) (string, []byte) { return name(0, i, n), value(0, i) })
}

// saveTogether writes n rows in one transaction, which is what a group commit
// can't be quicker than.
func (s *rawSQLite) saveTogether(ctx context.Context, n int, row func(i int) (string, []byte)) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	up := tx.StmtContext(ctx, s.upsert)
	for i := range n {
		k, v := row(i)
		if _, err := up.ExecContext(ctx, k, v); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (s *rawSQLite) save(ctx context.Context, key string, v []byte) error {
	_, err := s.upsert.ExecContext(ctx, key, v)
	return err
}

func (s *rawSQLite) load(ctx context.Context, key string) ([]byte, error) {
	var v []byte
	err := s.get.QueryRowContext(ctx, key).Scan(&v)
	return v, err
}

func (s *rawSQLite) loadMany(ctx context.Context, keys []string) (n int, err error) {
	args := make([]any, len(keys))
	for i, k := range keys {
		args[i] = k
	}
	rows, err := s.read.QueryContext(ctx, "SELECT k, v FROM kv WHERE k IN (?"+strings.Repeat(",?", len(keys)-1)+")", args...)
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var k string
		var v []byte
		if err := rows.Scan(&k, &v); err != nil {
			return 0, err
		}
		n++
	}
	return n, rows.Err()
}

func (s *rawSQLite) close() {
	_ = s.read.Close()
	_ = s.write.Close()
}
