package transfer

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	_ "modernc.org/sqlite" // the driver of the files that are read

	"github.com/sagestore/sagestore/tiers"
)

// openDatabase opens a file of SQLite for reading. It changes nothing: a file that
// can't have its log beside it, as on a disk that is read-only, is read without.
func openDatabase(ctx context.Context, path string) (*sql.DB, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	options := []string{"mode=ro&_pragma=query_only(1)&_pragma=trusted_schema(0)&_pragma=busy_timeout(5000)"}
	if _, err := os.Stat(full + "-wal"); errors.Is(err, os.ErrNotExist) {
		options = append(options, "immutable=1&"+options[0])
	}
	for _, o := range options {
		var db *sql.DB
		if db, err = sql.Open("sqlite", (&url.URL{Scheme: "file", Path: full, RawQuery: o}).String()); err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(1)
		var n int
		if err = db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&n); err == nil {
			return db, nil
		}
		_ = db.Close() // it was not opened
	}
	return nil, fmt.Errorf("%w: %w", tiers.ErrCorrupt, err)
}

// columns answers those of a table, none when there is no such table.
func columns(ctx context.Context, db *sql.DB, table string) (names []string, err error) {
	rows, err := db.QueryContext(ctx,
		"SELECT p.name FROM sqlite_master m, pragma_table_info(m.name) p WHERE m.type = 'table' AND m.name = ?", table)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

func hasAll(names []string, want ...string) bool {
	return !slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(names, w) })
}

// tables are those of a database that are known.
type tables struct{ events, checkpoints, fields bool }

func tablesOf(ctx context.Context, db *sql.DB) (t tables, err error) {
	events, err := columns(ctx, db, "events")
	if err != nil {
		return t, err
	}
	checkpoints, err := columns(ctx, db, "checkpoints")
	t.events = hasAll(events, "id", "session_id", "payload", "created_at")
	t.checkpoints = hasAll(checkpoints, "id", "agent_id", "iteration", "conversation", "metadata", "created_at")
	t.fields = hasAll(checkpoints, "agent_key", "field", "value")
	return t, err
}

// database reads the tables of checkpoints and of fields.
func (r *reading) database(ctx context.Context) error {
	db, err := openDatabase(ctx, r.src.path)
	if err != nil {
		r.fault(0, "", err)
		return nil
	}
	defer func() { _ = db.Close() }() // it was read only
	t, err := tablesOf(ctx, db)
	if err == nil && t == (tables{}) {
		err = tiers.Hint(fmt.Errorf("%w: no table is one that is known", tiers.ErrUnsupported),
			"a database of sagestore is opened with --config or --data-dir, and copied by a backup")
	}
	if err == nil && t.checkpoints {
		err = r.rowsOf(ctx, db, `SELECT rowid, id, agent_id, iteration, conversation, metadata, created_at FROM checkpoints ORDER BY created_at, rowid`, 6, r.checkpointRow)
	}
	if err == nil && t.fields {
		err = r.fieldRows(ctx, db)
	}
	if err != nil && !emitted(err) && ctx.Err() == nil {
		r.fault(0, "", err)
		return nil
	}
	return err
}

// rowsOf reads rows of which the first column is the number of the row. Rows that fn
// has something against are faults.
func (r *reading) rowsOf(ctx context.Context, db *sql.DB, query string, n int, fn func(where string, values []string) error) (err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var row int64
		values := make([]sql.NullString, n)
		into := []any{&row}
		for i := range values {
			into = append(into, &values[i])
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		plain, size := make([]string, n), 0
		for i, v := range values {
			plain[i] = v.String
			size += len(v.String)
		}
		where := "row " + strconv.FormatInt(row, 10)
		if size > mostPiece {
			r.fault(0, where, errLong())
			continue
		}
		if err := fn(where, plain); err != nil {
			if emitted(err) {
				return err
			}
			r.fault(0, where, err)
		}
	}
	return rows.Err()
}

func (r *reading) checkpointRow(where string, v []string) error {
	o := object{
		"id": quoted(v[0]), "agent_id": quoted(v[1]), "iteration": json.RawMessage(v[2]),
		"conversation": json.RawMessage(v[3]), "metadata": json.RawMessage(v[4]), "created_at": json.RawMessage(v[5]),
	}
	if strings.TrimSpace(v[4]) == "" {
		delete(o, "metadata")
	}
	for i, raw := range v[3:5] {
		if err := sound([]byte(raw)); err != nil && json.Valid([]byte(raw)) {
			return fmt.Errorf("its %s: %w", []string{"conversation", "metadata"}[i], err)
		}
	}
	c, err := iterationCheckpoint(o)
	if err != nil {
		return err
	}
	return r.give(found{where: where, checkpoint: c})
}

// fieldRows reads the fields of agents, a key after the other.
func (r *reading) fieldRows(ctx context.Context, db *sql.DB) error {
	f := &fields{values: map[string]json.RawMessage{}}
	size := 0
	flush := func() error {
		if len(f.values) == 0 {
			return nil
		}
		full := *f
		f.values, size = map[string]json.RawMessage{}, 0
		return r.give(found{where: "agent_key " + strconv.Quote(full.key), fields: &full})
	}
	err := r.rowsOf(ctx, db, `SELECT rowid, agent_key, field, value FROM checkpoints ORDER BY agent_key, field`, 3, func(_ string, v []string) error {
		if !json.Valid([]byte(v[2])) {
			return fmt.Errorf("%w: the value of field %q is no JSON", tiers.ErrCorrupt, v[1])
		}
		if err := sound([]byte(v[2])); err != nil {
			return fmt.Errorf("the value of field %q: %w", v[1], err)
		}
		if f.key != v[0] || size+len(v[2]) > mostBytes {
			if err := flush(); err != nil {
				return err
			}
			f.key = v[0]
		}
		f.values[v[1]], size = json.RawMessage(v[2]), size+len(v[2])
		return nil
	})
	return errors.Join(err, flush())
}
