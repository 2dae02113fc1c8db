package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.Freezer = (*Tier)(nil)

// frozen is a snapshot that was opened while nobody could commit.
type frozen struct {
	*snapshot
	held time.Duration
	mark mark
}

// mark is what is no part of a snapshot, since a sequence is not: it is read while nobody
// can commit.
type mark struct{ version, sequence int64 }

const markNow = `SELECT last_value, ` + journalSeq + ` FROM ~.version`

// Freeze implements tiers.Freezer. Writers of all processes wait for the lock of the
// writer meanwhile, but not for a connection of a snapshot. The copy is read from the
// snapshot, with a connection of its own.
func (t *Tier) Freeze(ctx context.Context, during func(context.Context) error) (tiers.Frozen, error) {
	f, err := t.freeze(ctx, during)
	if err != nil {
		return nil, t.failed("freeze", tiers.Key{}, err)
	}
	return f, nil
}

func (t *Tier) freeze(ctx context.Context, during func(context.Context) error) (_ *frozen, err error) {
	if err := t.enter(ctx); err != nil {
		return nil, err
	}
	defer t.leave()
	conn, err := t.snapshotConn(ctx)
	if err != nil {
		return nil, err
	}
	lock, err := t.holdWriters(ctx, conn)
	if err != nil {
		conn.Release()
		return nil, left(ctx, err)
	}
	defer func() { _ = lock.Rollback(context.WithoutCancel(ctx)) }() // gives the lock back
	clock := tiers.SystemClock()
	begun := clock.Now()
	f := &frozen{}
	if f.snapshot, err = t.beginOn(ctx, conn); err != nil {
		return nil, err
	}
	err = f.on(ctx, func(c *pgxpool.Conn) error {
		if _, err := c.Exec(ctx, "SET LOCAL statement_timeout = 0"); err != nil { // all of it is read in one
			return err
		}
		return c.QueryRow(ctx, t.sql(markNow)).Scan(&f.mark.version, &f.mark.sequence)
	})
	if err == nil && during != nil {
		err = during(ctx)
	}
	if err == nil { // a lock that was lost held nobody
		err = left(ctx, lock.Commit(ctx))
	}
	f.held = clock.Now().Sub(begun)
	if err != nil {
		return nil, errors.Join(err, f.Close()) //nolint:contextcheck // the tier's own life bounds it
	}
	return f, nil
}

// holdWriters takes the lock of the writer, in a transaction that it answers. What the
// connection of the snapshot does first is done before anybody waits for it.
func (t *Tier) holdWriters(ctx context.Context, conn *pgxpool.Conn) (pgx.Tx, error) {
	if err := t.beginReading(ctx, conn); err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
		return nil, err
	}
	lock, err := t.write.Begin(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := lock.Exec(ctx, takeTurn, lockKey(t.schema, "writer")); err != nil {
		return nil, errors.Join(err, lock.Rollback(context.WithoutCancel(ctx)))
	}
	return lock, nil
}

// on lends fn the connection of the snapshot.
func (s *snapshot) on(ctx context.Context, fn func(c *pgxpool.Conn) error) error {
	if err := engine.Over(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return s.why
	}
	return left(ctx, fn(s.conn))
}

// Content implements tiers.Frozen.
func (f *frozen) Content(ctx context.Context, facts ...string) (c tiers.Content, err error) {
	err = f.on(ctx, func(conn *pgxpool.Conn) error {
		c, err = contentOf(ctx, conn, f.t, facts)
		return err
	})
	if err != nil {
		return tiers.Content{}, f.t.failed("read the frozen store", tiers.Key{}, err)
	}
	c.Sequence, c.Version, c.Held = uint64(f.mark.sequence), version(f.mark.version), f.held //nolint:gosec // counted from 0
	return c, nil
}

const (
	countSpaces = `SELECT namespace, category, count(*) FROM ~.records GROUP BY namespace, category ORDER BY namespace, category`
	factsNamed  = `SELECT name, value FROM ~.facts WHERE name = ANY($1::text[])`
)

// countedTables are those whose rows are counted beside the records.
func countedTables() []string { return []string{"facts", "journal", "sessions", "commits", "recent"} }

// contentOf counts what the tables hold.
func contentOf(ctx context.Context, q querier, t *Tier, facts []string) (tiers.Content, error) {
	c := tiers.Content{Format: tiers.FormatPostgres, Size: -1, Schema: schemaNow, Facts: map[string]string{}, Rows: map[string]int64{}}
	for _, name := range countedTables() {
		var n int64
		if err := q.QueryRow(ctx, t.sql("SELECT count(*) FROM ~."+name)).Scan(&n); err != nil {
			return c, err
		}
		c.Rows[name] = n
	}
	var n tiers.SpaceCount
	rows, err := q.Query(ctx, t.sql(countSpaces))
	if err != nil {
		return c, err
	}
	if err := each(rows, []any{&n.Namespace, &n.Category, &n.Records}, func() { c.Records = append(c.Records, n) }); err != nil {
		return c, err
	}
	if rows, err = q.Query(ctx, t.sql(factsNamed), facts); err != nil {
		return c, err
	}
	var name string
	var value []byte
	return c, each(rows, []any{&name, &value}, func() { c.Facts[name] = string(value) })
}

// Copy implements tiers.Frozen. What goes over the wire goes to w: nothing is kept.
func (f *frozen) Copy(ctx context.Context, w io.Writer) error {
	err := f.on(ctx, func(conn *pgxpool.Conn) error {
		if _, err := io.WriteString(w, headOf(f.mark)); err != nil {
			return err
		}
		for _, table := range copied() {
			if _, err := io.WriteString(w, table.begin()); err != nil {
				return err
			}
			_, err := conn.Conn().PgConn().CopyTo(ctx, w, f.t.sql("COPY (SELECT "+table.list()+" FROM ~."+table.name+" ORDER BY "+table.order+") TO STDOUT"))
			if err != nil {
				return fmt.Errorf("copy the table %s: %w", table.name, err)
			}
			if _, err := io.WriteString(w, endOfTable+"\n"); err != nil {
				return err
			}
		}
		_, err := io.WriteString(w, endOfCopy+"\n")
		return err
	})
	if err != nil {
		return f.t.failed("copy", tiers.Key{}, err)
	}
	return nil
}
