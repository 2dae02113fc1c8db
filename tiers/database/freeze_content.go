package database

import (
	"context"
	"database/sql/driver"

	"github.com/sagestore/sagestore/tiers"
)

const (
	countSpaces = `SELECT namespace, category, count(*) FROM records GROUP BY namespace, category ORDER BY namespace, category`
	countRows   = `SELECT (SELECT count(*) FROM facts), (SELECT count(*) FROM journal), (SELECT count(*) FROM sessions),
		(SELECT count(*) FROM commits), (SELECT count(*) FROM recent)`
	marks = `SELECT (` + journalSeq + `), (SELECT value FROM counters WHERE name = 'version')`
)

// contentOf counts what the database holds, as the connection's transaction shows
// it.
func contentOf(ctx context.Context, c *conn, facts []string) (content tiers.Content, err error) {
	content = tiers.Content{Format: tiers.FormatSQLite, Facts: map[string]string{}, Rows: map[string]int64{}}
	size, count, err := pagesOf(ctx, c)
	if err != nil {
		return content, err
	}
	content.Size = size * count
	if content.Schema, err = c.number(ctx, "PRAGMA user_version"); err != nil {
		return content, err
	}
	row, err := c.first(ctx, marks)
	if err != nil {
		return content, err
	}
	content.Sequence = uint64(intAt(row, 0))       //nolint:gosec // counted from 0
	content.Version = tiers.Version(intAt(row, 1)) //nolint:gosec // written from a version, never negative
	if row, err = c.first(ctx, countRows); err != nil {
		return content, err
	}
	for i, name := range []string{"facts", "journal", "sessions", "commits", "recent"} {
		content.Rows[name] = intAt(row, i)
	}
	for _, name := range facts {
		row, err := c.first(ctx, loadFact, name)
		if err != nil {
			return content, err
		}
		if row != nil {
			value, _ := row[0].([]byte)
			content.Facts[name] = string(value)
		}
	}
	content.Records, err = rows(ctx, c, countSpaces, nil, func(row []driver.Value) (n tiers.SpaceCount, err error) {
		n.Namespace, _ = row[0].(string)
		n.Category, _ = row[1].(string)
		n.Records = intAt(row, 2)
		return n, nil
	})
	return content, err
}

func intAt(row []driver.Value, i int) int64 {
	if i >= len(row) {
		return 0
	}
	n, _ := row[i].(int64)
	return n
}
