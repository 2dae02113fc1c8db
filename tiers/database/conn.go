package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net/url"

	"modernc.org/sqlite"
)

// conn is one connection with its prepared statements. It is used by one
// goroutine at a time. It talks to the driver directly: what database/sql adds
// costs as much as a point read.
type conn struct {
	raw   driver.Conn
	stmts map[string]statement
	args  []driver.NamedValue
	row   []driver.Value
}

type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// pragma is one setting of a connection.
type pragma struct{ name, value string }

// dsn is the address of a database with its pragmas.
func dsn(path string, readOnly bool, pragmas ...pragma) string {
	v := url.Values{"_dqs": {"0"}, "_defensive": {"1"}, "_error_rc": {"1"}}
	if readOnly {
		v.Set("mode", "ro")
	}
	for _, p := range pragmas {
		v.Add("_pragma", p.name+"("+p.value+")")
	}
	if path == Memory {
		return "file::memory:?" + v.Encode()
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: v.Encode()}
	return u.String()
}

func connect(ctx context.Context, dsn string) (*conn, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	raw, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return newConn(raw), nil
}

func newConn(raw driver.Conn) *conn { return &conn{raw: raw, stmts: map[string]statement{}} }

func (c *conn) prepare(ctx context.Context, query string) (statement, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	p, ok := c.raw.(driver.ConnPrepareContext)
	if !ok {
		return nil, errors.New("the SQLite driver can't prepare statements")
	}
	raw, err := p.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	s, ok := raw.(statement)
	if !ok {
		return nil, errors.Join(errors.New("the SQLite driver's statements take no context"), raw.Close())
	}
	c.stmts[query] = s
	return s, nil
}

func (c *conn) bind(args []driver.Value) []driver.NamedValue {
	c.args = c.args[:0]
	for i, a := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return c.args
}

// exec runs a statement and answers how many rows it changed.
func (c *conn) exec(ctx context.Context, query string, args ...driver.Value) (changed int64, err error) {
	s, err := c.prepare(ctx, query)
	if err != nil {
		return 0, err
	}
	res, err := s.ExecContext(ctx, c.bind(args))
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// query hands the rows to each until it answers false. A row is only good until
// each returns; the byte slices and strings in it may be kept.
func (c *conn) query(ctx context.Context, query string, args []driver.Value, each func(row []driver.Value) (more bool, err error)) (err error) {
	s, err := c.prepare(ctx, query)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(ctx, c.bind(args))
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := rows.Close(); err == nil {
			err = closeErr
		}
	}()
	n := len(rows.Columns())
	if cap(c.row) < n {
		c.row = make([]driver.Value, n)
	}
	row := c.row[:n]
	for {
		switch err := rows.Next(row); {
		case err == io.EOF: //nolint:errorlint // the driver contract demands it bare
			return nil
		case err != nil:
			return err
		}
		if more, err := each(row); err != nil || !more {
			return err
		}
	}
}

// first answers the first row, or nil. It is good until the connection is used
// again.
func (c *conn) first(ctx context.Context, query string, args ...driver.Value) (row []driver.Value, err error) {
	err = c.query(ctx, query, args, func(r []driver.Value) (bool, error) {
		row = r
		return false, nil
	})
	return row, err
}

// number answers the integer of a statement with one row and one column, 0 when
// there is none.
func (c *conn) number(ctx context.Context, query string, args ...driver.Value) (int64, error) {
	row, err := c.first(ctx, query, args...)
	if err != nil || row == nil {
		return 0, err
	}
	n, _ := row[0].(int64)
	return n, nil
}

// dataVersion answers a number that changes whenever the database does. Inside a
// transaction it tells whether another connection has committed since it was last
// asked for.
func (c *conn) dataVersion() (uint32, error) {
	f, ok := c.raw.(sqlite.FileControl)
	if !ok {
		return 0, errors.New("the SQLite driver can't tell whether the database has changed")
	}
	return f.FileControlDataVersion("main")
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.raw.Close())...)
}
