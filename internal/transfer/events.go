package transfer

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/sagestore/sagestore/tiers"
)

// eventRows makes JSON Lines of a table of events: a line for each row, with when it
// was received. It reads rows as its reader needs them.
type eventRows struct {
	rows  *sql.Rows
	fault func(where string, err error)
	left  []byte
	at    []span
	lines int
}

// span says which row a line came from, and those after it up to the next span.
type span struct {
	line int
	row  int64
}

const eventQuery = `SELECT id, session_id, CASE WHEN length(CAST(payload AS BLOB)) <= 67108864 THEN payload END, created_at FROM events ORDER BY id`

func openEvents(ctx context.Context, db *sql.DB, fault func(where string, err error)) (*eventRows, error) {
	rows, err := db.QueryContext(ctx, eventQuery) //nolint:rowserrcheck // Read does
	if err != nil {
		return nil, err
	}
	return &eventRows{rows: rows, fault: fault}, nil
}

// Read implements io.Reader.
func (e *eventRows) Read(p []byte) (int, error) {
	for len(e.left) == 0 {
		if !e.rows.Next() {
			if err := e.rows.Err(); err != nil {
				return 0, err
			}
			return 0, io.EOF
		}
		var row int64
		var session, payload sql.NullString
		var received any
		if err := e.rows.Scan(&row, &session, &payload, &received); err != nil {
			return 0, err
		}
		line, err := eventLine(session.String, payload, received)
		if err != nil {
			e.fault("row "+strconv.FormatInt(row, 10), err)
			continue
		}
		e.lines++
		if n := len(e.at); n == 0 || row-e.at[n-1].row != int64(e.lines-e.at[n-1].line) {
			e.at = append(e.at, span{e.lines, row})
		}
		e.left = line
	}
	n := copy(p, e.left)
	e.left = e.left[n:]
	return n, nil
}

// row answers which row a line came from.
func (e *eventRows) row(line int) int64 {
	for _, at := range slices.Backward(e.at) {
		if at.line <= line {
			return at.row + int64(line-at.line)
		}
	}
	return 0
}

func (e *eventRows) close() error { return e.rows.Close() }

// eventLine puts a row into one line.
func eventLine(session string, payload sql.NullString, received any) ([]byte, error) {
	if !payload.Valid {
		return nil, fmt.Errorf("%w: it has no payload, or one of more than 64 MiB", tiers.ErrCorrupt)
	}
	o, err := objectOf([]byte(payload.String))
	if err != nil {
		return nil, err
	}
	var params map[string]json.RawMessage
	if json.Unmarshal(o["params"], &params) == nil {
		if named := textOf(params["session_id"]); named != "" && named != session {
			return nil, fmt.Errorf("%w: it is of session %q and says it is of %q", tiers.ErrCorrupt, session, named)
		}
	}
	var text bytes.Buffer
	if err := json.Compact(&text, []byte(payload.String)); err != nil {
		return nil, fmt.Errorf("%w: %w", tiers.ErrCorrupt, err)
	}
	line := text.Bytes()
	if o["sagestore"] == nil {
		own := map[string]any{"session": session}
		if ms, ok := received.(int64); ok && ms > 0 {
			own["received"] = ms
		}
		member, err := json.Marshal(own)
		if err != nil {
			return nil, err
		}
		line = append(line[:len(line)-1], `,"sagestore":`...)
		line = append(append(line, member...), '}')
	}
	return append(line, '\n'), nil
}
