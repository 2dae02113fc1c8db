package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

// Copies reads the copies that the Frozen of a tier writes.
func Copies() tiers.Copies { return copies{&schemas{}} }

type copies struct{ schemas *schemas }

// schemas remembers what a database of each schema consists of: it takes all
// migrations to find that out.
type schemas struct {
	mu    sync.Mutex
	known map[int64]map[string]string
}

func (s *schemas) of(ctx context.Context, schema int64) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all, ok := s.known[schema]; ok {
		return all, nil
	}
	fresh, err := connect(ctx, dsn(Memory, false))
	if err != nil {
		return nil, err
	}
	if _, err = fresh.exec(ctx, "BEGIN"); err == nil {
		err = up(ctx, fresh, schema)
	}
	var all map[string]string
	if err == nil {
		all, err = objects(ctx, fresh)
	}
	if err := errors.Join(err, fresh.close()); err != nil {
		return nil, err
	}
	if s.known == nil {
		s.known = map[int64]map[string]string{}
	}
	s.known[schema] = all
	return all, nil
}

// Format implements tiers.Copies.
func (copies) Format() string { return tiers.FormatSQLite }

// Beside implements tiers.Copies.
func (copies) Beside() []string { return []string{"-wal", "-shm", "-journal"} }

// OpenCopy implements tiers.Copies.
func (s copies) OpenCopy(ctx context.Context, path string) (_ tiers.Copy, err error) {
	t := &Tier{place: path}
	defer func() { err = t.fail("open copy", tiers.Key{}, err) }()
	if path, err = expand(path); err != nil {
		return nil, err
	}
	for _, ending := range s.Beside() {
		if _, err := os.Lstat(path + ending); err == nil {
			return nil, fmt.Errorf("%w: beside %s is %s, which a copy never has", tiers.ErrCorrupt, path, ending)
		}
	}
	// Immutable: SQLite makes no files beside it and takes no locks. Nothing is mapped: it
	// is read once, from one end to the other, and what is mapped counts as memory of the
	// process, which would be as much as the file.
	source := dsn(path, true, pragma{"query_only", "1"}, pragma{"trusted_schema", "0"}, pragma{"cell_size_check", "1"},
		pragma{"temp_store", "memory"}, pragma{"mmap_size", "0"}) + "&immutable=1"
	c, err := connect(ctx, source)
	if err != nil {
		return nil, err
	}
	schema, err := schemaOf(ctx, c, path)
	if err == nil && schema == 0 {
		err = fmt.Errorf("%w: %s is empty", tiers.ErrCorrupt, path)
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return &copied{t: t, c: c, source: source, schema: schema, schemas: s.schemas}, nil
}

// Adopt implements tiers.Copies.
func (copies) Adopt(ctx context.Context, path string, facts map[string]string) (err error) {
	t := &Tier{place: path, sync: Full}
	defer func() { err = t.fail("adopt", tiers.Key{}, err) }()
	if t.path, err = expand(path); err != nil {
		return err
	}
	c, err := t.connectWriter(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }() // the log goes with its last connection
	if _, err := schemaOf(ctx, c, t.path); err != nil {
		return err
	}
	if _, err := c.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		if _, err := c.exec(ctx, saveFact, name, []byte(facts[name])); err != nil {
			return err
		}
	}
	if _, err := c.exec(ctx, "COMMIT"); err != nil {
		return err
	}
	_, err = c.checkpoint(ctx, "TRUNCATE")
	return err
}

// Seize implements tiers.Copies.
func (copies) Seize(ctx context.Context, path string) (release func() error, err error) {
	t := &Tier{place: path}
	defer func() { err = t.fail("lock", tiers.Key{}, err) }()
	if path, err = expand(path); err != nil {
		return nil, err
	}
	p, err := openPresence(path)
	if err != nil {
		return nil, err
	}
	if err := p.alone(ctx, path, false); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p.close, nil
}

// copied is a copy that is open for reading.
type copied struct {
	t      *Tier // for messages
	c      *conn
	source string
	schema int64

	schemas *schemas
}

// Check implements tiers.Copy, on a connection of its own. A table, index, view or
// trigger that the schema does not have is damage as well: nothing in a copy may run
// when it becomes a store.
func (d *copied) Check(ctx context.Context) error {
	c, err := connect(ctx, d.source)
	if err != nil {
		return d.t.fail("check", tiers.Key{}, err)
	}
	for _, look := range []func(context.Context, *conn) error{d.checkSchema, checkIntegrity, checkReferences, d.checkIndex} {
		if err == nil {
			err = look(ctx, c)
		}
	}
	return d.t.fail("check", tiers.Key{}, errors.Join(err, c.close()))
}

func (d *copied) checkSchema(ctx context.Context, c *conn) error {
	want, err := d.schemas.of(ctx, d.schema)
	if err != nil {
		return err
	}
	got, err := objects(ctx, c)
	if err != nil {
		return err
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			return fmt.Errorf("%w: it has a %s, which schema %d does not have", tiers.ErrCorrupt, name, d.schema)
		}
	}
	for name, sql := range want {
		if got[name] != sql {
			return fmt.Errorf("%w: its %s is not that of schema %d", tiers.ErrCorrupt, name, d.schema)
		}
	}
	return nil
}

// objects answers how everything in a database was made, by type and name. What
// SQLite keeps for itself is left out, and so is how it made the tables behind the
// full-text indexes, which is its own affair.
func objects(ctx context.Context, c *conn) (map[string]string, error) {
	all := map[string]string{}
	err := c.query(ctx, `SELECT type, name, iif(type = 'table' AND name IN (SELECT name FROM pragma_table_list WHERE type = 'shadow'), '', coalesce(sql, ''))
		FROM sqlite_schema WHERE type <> 'index' OR sql IS NOT NULL`, nil,
		func(row []driver.Value) (bool, error) {
			kind, _ := row[0].(string)
			name, _ := row[1].(string)
			sql, _ := row[2].(string)
			if kind != "table" || !strings.HasPrefix(name, "sqlite_stat") && name != "sqlite_sequence" {
				all[kind+" "+name] = sql
			}
			return true, nil
		})
	return all, err
}

func checkIntegrity(ctx context.Context, c *conn) error {
	return c.query(ctx, "PRAGMA integrity_check(1)", nil, func(row []driver.Value) (bool, error) {
		if s, _ := row[0].(string); s != "ok" {
			return false, fmt.Errorf("%w: %s", tiers.ErrCorrupt, s)
		}
		return true, nil
	})
}

func checkReferences(ctx context.Context, c *conn) error {
	return c.query(ctx, "PRAGMA foreign_key_check", nil, func(row []driver.Value) (bool, error) {
		return false, fmt.Errorf("%w: a row of table %v refers to nothing", tiers.ErrCorrupt, row[0])
	})
}

// Content implements tiers.Copy.
func (d *copied) Content(ctx context.Context, facts ...string) (tiers.Content, error) {
	content, err := contentOf(ctx, d.c, facts)
	if err != nil {
		return tiers.Content{}, d.t.fail("read copy", tiers.Key{}, err)
	}
	return content, nil
}

// Records implements tiers.Copy.
func (d *copied) Records(ctx context.Context, s tiers.Space) iter.Seq2[tiers.Record, error] {
	const never = int64(-1) // before every expiry
	return func(yield func(tiers.Record, error) bool) {
		space := tiers.Key{Namespace: s.Namespace, Category: s.Category}
		for low := ""; ; {
			var page []listed[tiers.Record]
			err := engine.Over(ctx)
			if err == nil {
				page, err = d.page(ctx, space, low, never)
			}
			if err != nil {
				yield(tiers.Record{}, d.t.fail("read copy", space, err))
				return
			}
			for _, l := range page {
				if !yield(l.item, d.t.fail("read copy", l.item.Key, l.err)) {
					return
				}
				low = l.item.Name + "\x00"
			}
			if len(page) == 0 {
				return
			}
		}
	}
}

func (d *copied) page(ctx context.Context, space tiers.Key, low string, now int64) (page []listed[tiers.Record], err error) {
	bytes := 0
	err = d.c.query(ctx, listForward, []driver.Value{space.Namespace, space.Category, low, beyond, now, int64(pageRows)},
		func(row []driver.Value) (bool, error) {
			l := listed[tiers.Record]{item: tiers.Record{Key: space}}
			l.item.Name, _ = row[0].(string)
			if l.err = unpackRow(row[1:], &l.item); l.err != nil {
				k := l.item.Key
				l.item = tiers.Record{Key: k}
			}
			page = append(page, l)
			bytes += len(l.item.Value)
			return bytes < pageBytes, nil
		})
	return page, err
}

// Close implements tiers.Copy.
func (d *copied) Close() error { return d.t.fail("close copy", tiers.Key{}, d.c.close()) }
