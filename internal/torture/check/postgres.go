package check

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// readPostgres is readDatabase for a store on PostgreSQL, at one instant.
func (f *Found) readPostgres(ctx context.Context, p Places) (epoch string, err error) {
	c, err := pgx.Connect(ctx, p.Postgres)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	err = pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT set_config('search_path', $1, true)", p.Schema); err != nil {
			return err
		}
		if err := f.postgresRecords(ctx, tx); err != nil {
			return err
		}
		if err := f.postgresJournal(ctx, tx); err != nil {
			return err
		}
		err := rowsOf(ctx, tx, "SELECT id FROM commits", func(rows pgx.Rows) error {
			var id string
			err := rows.Scan(&id)
			f.Commits[id] = true
			return err
		})
		if err != nil {
			return err
		}
		var raw []byte
		err = tx.QueryRow(ctx, "SELECT value FROM facts WHERE name = 'epoch'").Scan(&raw)
		epoch = string(raw)
		return err
	})
	return epoch, err
}

func (f *Found) postgresRecords(ctx context.Context, tx pgx.Tx) error {
	highest := uint64(0)
	err := rowsOf(ctx, tx, "SELECT category, key, version, value FROM records WHERE namespace = ''", func(rows pgx.Rows) error {
		var category, key string
		var version uint64
		var value []byte
		if err := rows.Scan(&category, &key, &version, &value); err != nil {
			return err
		}
		highest = max(highest, version)
		f.put("database/"+category+"/"+key, version, value)
		return nil
	})
	if err != nil {
		return err
	}
	var mark uint64
	if err := tx.QueryRow(ctx, "SELECT last_value FROM version").Scan(&mark); err != nil {
		return err
	}
	if mark < highest {
		f.fault("version", "the highest version is said to be %d, and %d is stored", mark, highest)
	}
	return nil
}

// postgresJournal finds what was left in the journal, and whether its sums are those
// of its rows.
func (f *Found) postgresJournal(ctx context.Context, tx pgx.Tx) error {
	type sums struct{ entries, bytes int64 }
	found := map[string]sums{}
	err := rowsOf(ctx, tx, "SELECT tier, category, key, bytes FROM journal", func(rows pgx.Rows) error {
		var tier, category, key string
		var bytes int64
		if err := rows.Scan(&tier, &category, &key, &bytes); err != nil {
			return err
		}
		s := found[tier]
		found[tier] = sums{s.entries + 1, s.bytes + bytes}
		if !strings.HasSuffix(tier, guard) {
			f.fault("journal", "a row of %s/%s/%s was left behind", tier, category, key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return rowsOf(ctx, tx, "SELECT tier, entries, bytes FROM journal_tiers", func(rows pgx.Rows) error {
		var tier string
		var s sums
		if err := rows.Scan(&tier, &s.entries, &s.bytes); err != nil {
			return err
		}
		if s != found[tier] {
			f.fault("journal", "%d rows of %d bytes are counted for %s, there are %d of %d", s.entries, s.bytes, tier, found[tier].entries, found[tier].bytes)
		}
		return nil
	})
}

func rowsOf(ctx context.Context, tx pgx.Tx, query string, row func(pgx.Rows) error) error {
	rows, err := tx.Query(ctx, query)
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
