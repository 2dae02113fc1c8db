package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.Loader = (*Tier)(nil)

// beside answers the name of a schema that belongs to this one.
func (t *Tier) beside(what string, id []byte) string {
	return t.schema[:min(len(t.schema), 34)] + "_" + what + "_" + hex.EncodeToString(id)
}

// LoadCopy implements tiers.Loader. What it prepares is in a schema of its own beside the
// one of the store, and what was there before stays under another name.
func (t *Tier) LoadCopy(ctx context.Context, path, fact string) (replaced string, err error) {
	defer func() {
		if err != nil {
			err = t.failed("load copy", tiers.Key{}, err)
		}
	}()
	unlock, ok, err := t.Lock(ctx, "restore")
	if err != nil {
		return "", err
	}
	if !ok {
		return "", fmt.Errorf("%w: another restore is under way", tiers.ErrUnavailable)
	}
	defer unlock()
	c, err := openCopy(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.Check(ctx); err != nil {
		return "", err
	}
	content, err := c.Content(ctx, fact)
	if err != nil {
		return "", err
	}
	if was, err := t.Fact(ctx, fact); err == nil && content.Facts[fact] == string(was) {
		return "", nil // an earlier call has done it
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(t.schema)) // never fails
	staged := t.beside("new", h.Sum(nil))
	if err := t.stage(ctx, c, content, staged); err != nil {
		return "", errors.Join(err, t.drop(context.WithoutCancel(ctx), staged))
	}
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	replaced = t.beside("old", id[:])
	return replaced, t.switchSchema(ctx, staged, replaced)
}

func (t *Tier) drop(ctx context.Context, schema string) error {
	_, err := t.write.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
	return err
}

// stage makes a store of the copy in a schema of its own, and counts it there.
func (t *Tier) stage(ctx context.Context, c *copyFile, want tiers.Content, schema string) (err error) {
	if err := t.drop(ctx, schema); err != nil {
		return err
	}
	config := t.config
	config.Schema = schema
	s, err := open(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	if err := s.fill(ctx, c); err != nil {
		return err
	}
	got, err := contentOf(ctx, s.write, s, nil)
	if err != nil {
		return err
	}
	if !maps.Equal(got.Rows, want.Rows) || !slices.Equal(got.Records, want.Records) {
		return fmt.Errorf("%w: %v and %v were loaded, not %v and %v", tiers.ErrCorrupt, got.Records, got.Rows, want.Records, want.Rows)
	}
	return nil
}

// fill brings the rows of a copy to tables that are empty.
func (t *Tier) fill(ctx context.Context, c *copyFile) error {
	return pgx.BeginFunc(ctx, t.write, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, t.sql("DELETE FROM ~.counters")); err != nil { // the copy brings them
			return err
		}
		r := c.reader(0)
		if _, err := r.head(); err != nil {
			return err
		}
		for _, table := range copied() {
			if err := r.expect(table.begin()[:len(table.begin())-1]); err != nil {
				return err
			}
			_, err := tx.Conn().PgConn().CopyFrom(ctx, &section{r: r}, t.sql("COPY ~."+table.name+" ("+table.list()+") FROM STDIN"))
			if err != nil {
				return fmt.Errorf("load the table %s: %w", table.name, err)
			}
		}
		if err := r.end(); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, t.sql(setMark), c.mark.version); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, t.sql(raiseGaps)) // nothing can be found yet
		return err
	})
}

// section reads the rows of one table.
type section struct {
	r    *copyReader
	rest []byte
	over bool
}

func (s *section) Read(p []byte) (n int, err error) {
	for len(s.rest) == 0 {
		if s.over {
			return 0, io.EOF
		}
		line, err := s.r.next()
		if err != nil {
			return 0, err
		}
		if s.over = string(line) == endOfTable; !s.over {
			s.rest = append(line, '\n')
		}
	}
	n = copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// switchSchema puts one schema in the place of the store's, while nobody commits.
func (t *Tier) switchSchema(ctx context.Context, staged, replaced string) error {
	return pgx.BeginFunc(ctx, t.write, func(tx pgx.Tx) error {
		for _, s := range []struct {
			query string
			args  []any
		}{
			{takeTurn, []any{lockKey(t.schema, "writer")}},
			{"ALTER SCHEMA " + t.schema + " RENAME TO " + replaced, nil},
			{"ALTER SCHEMA " + staged + " RENAME TO " + t.schema, nil},
			{t.sql(noteUnindexed), nil}, // its text names the schema
		} {
			if _, err := tx.Exec(ctx, s.query, s.args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// noteUnindexed is the function of the migrations, whose text names the schema.
const noteUnindexed = `CREATE OR REPLACE FUNCTION ~.note_unindexed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE ~.counters SET value = value + 1 WHERE name = 'unindexed';
    RETURN NULL;
END
$$`
