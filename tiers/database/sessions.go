package database

import (
	"context"
	"database/sql/driver"
	"iter"
	"slices"
	"time"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

const (
	sessionColumns = `namespace, id, generation, started, seen, ended, seq`
	loadSession    = `SELECT ` + sessionColumns + ` FROM sessions WHERE namespace = ? AND id = ?`
	nextSessions   = `SELECT ` + sessionColumns + ` FROM sessions WHERE (namespace, id) > (?, ?) ORDER BY namespace, id LIMIT 256`
	sessionsSince  = `SELECT ` + sessionColumns + ` FROM sessions WHERE seq > ? ORDER BY seq LIMIT 256`
	saveSession    = `INSERT OR REPLACE INTO sessions (` + sessionColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?)`
	seenSession    = `UPDATE sessions SET seen = max(seen, ?) WHERE namespace = ? AND id = ? AND ended = 0`
)

func scanSession(row []driver.Value) (s tiers.Session, err error) {
	s.Namespace, _ = row[0].(string)
	s.ID, _ = row[1].(string)
	var n [5]int64
	for i := range n {
		n[i], _ = row[2+i].(int64)
	}
	s.Generation = uint64(n[0]) //nolint:gosec // counted from 1
	s.Started = tiers.FromMicro(n[1])
	s.Seen = tiers.FromMicro(n[2])
	s.Ended = tiers.FromMicro(n[3])
	s.Seq = uint64(n[4]) //nolint:gosec // counted from 1
	return s, nil
}

func (x *tx) session(namespace, id string) (s tiers.Session, found bool, err error) {
	row, err := x.first(loadSession, namespace, id)
	if err != nil || row == nil {
		return s, false, err
	}
	s, err = scanSession(row)
	return s, true, err
}

// keep stores a session under the next Seq.
func (x *tx) keep(s tiers.Session) (tiers.Session, error) {
	seq, err := x.number("UPDATE counters SET value = value + 1 WHERE name = 'sessions' RETURNING value")
	if err != nil {
		return s, err
	}
	s.Seq = uint64(seq)                                                  //nolint:gosec // counted from 1
	_, err = x.exec(saveSession, s.Namespace, s.ID, int64(s.Generation), //nolint:gosec // counted from 1
		tiers.ToMicro(s.Started), tiers.ToMicro(s.Seen), tiers.ToMicro(s.Ended), seq)
	return s, err
}

// start makes a session that there is not.
func (x *tx) start(namespace, id string) (tiers.Session, error) {
	now := tiers.Micro(x.clock.Now())
	return x.keep(tiers.Session{Namespace: namespace, ID: id, Generation: 1, Started: now, Seen: now})
}

// StartSession implements tiers.Sessions.
func (t *Tier) StartSession(ctx context.Context, namespace, id string) (tiers.Session, error) {
	if err := engine.CheckSession(namespace, id); err != nil {
		return tiers.Session{}, t.fail("start session", tiers.Key{}, err)
	}
	// Most sessions are there: they cost a read.
	var s tiers.Session
	found := false
	err := t.read(ctx, func(c *conn) error {
		row, err := c.first(ctx, loadSession, namespace, id)
		if err != nil || row == nil {
			return err
		}
		found = true
		s, err = scanSession(row)
		return err
	})
	if err != nil || found {
		return s, t.fail("start session", tiers.Key{}, err)
	}
	return t.changeSession(ctx, "start session", func(tx *tx) (tiers.Session, error) {
		s, found, err := tx.session(namespace, id)
		if err != nil || found {
			return s, err
		}
		return tx.start(namespace, id)
	})
}

// SeenSessions implements tiers.Sessions.
func (t *Tier) SeenSessions(ctx context.Context, seen []tiers.Session) error {
	if len(seen) == 0 {
		return engine.Over(ctx)
	}
	seen = slices.Clone(seen)
	err := t.writer.do(ctx, &job{bytes: 64 * len(seen), several: true, run: func(tx *tx) error {
		for _, s := range seen {
			if _, err := tx.exec(seenSession, tiers.ToMicro(s.Seen), s.Namespace, s.ID); err != nil {
				return err
			}
		}
		return nil
	}})
	if err != nil {
		return t.failed("see sessions", tiers.Key{}, err)
	}
	return nil
}

// EndSession implements tiers.Sessions.
func (t *Tier) EndSession(ctx context.Context, namespace, id string, idleSince time.Time) (s tiers.Session, existed bool, err error) {
	if err := engine.CheckSession(namespace, id); err != nil {
		return s, false, t.fail("end session", tiers.Key{}, err)
	}
	var was bool
	s, err = t.changeSession(ctx, "end session", func(tx *tx) (tiers.Session, error) {
		s, found, err := tx.session(namespace, id)
		was = found
		if err != nil || !found || !s.Ended.IsZero() {
			return s, err
		}
		if !idleSince.IsZero() && s.Seen.After(idleSince) {
			return s, tiers.ErrConflict
		}
		s.Ended = tiers.Micro(tx.clock.Now())
		s.Generation++
		return tx.keep(s)
	})
	return s, err == nil && was, err
}

// ReopenSession implements tiers.Sessions.
func (t *Tier) ReopenSession(ctx context.Context, namespace, id string) (tiers.Session, error) {
	if err := engine.CheckSession(namespace, id); err != nil {
		return tiers.Session{}, t.fail("reopen session", tiers.Key{}, err)
	}
	return t.changeSession(ctx, "reopen session", func(tx *tx) (tiers.Session, error) {
		s, found, err := tx.session(namespace, id)
		switch {
		case err != nil:
			return s, err
		case !found:
			return tx.start(namespace, id)
		case s.Ended.IsZero():
			return s, nil
		}
		s.Ended = time.Time{}
		s.Seen = tiers.Micro(tx.clock.Now())
		s.Generation++
		return tx.keep(s)
	})
}

// changeSession runs one change of one session through the group commit.
func (t *Tier) changeSession(ctx context.Context, op string, change func(tx *tx) (tiers.Session, error)) (tiers.Session, error) {
	var s tiers.Session
	err := t.writer.do(ctx, &job{bytes: 128, several: true, run: func(tx *tx) (err error) {
		s, err = change(tx)
		return err
	}})
	if err != nil {
		return tiers.Session{}, t.failed(op, tiers.Key{}, err)
	}
	return s, nil
}

// ListSessions implements tiers.Sessions.
func (t *Tier) ListSessions(ctx context.Context) iter.Seq2[tiers.Session, error] {
	return t.sessions(ctx, nextSessions, []driver.Value{"", ""}, func(s tiers.Session) []driver.Value {
		return []driver.Value{s.Namespace, s.ID}
	})
}

// SessionsSince implements tiers.Sessions.
func (t *Tier) SessionsSince(ctx context.Context, seq uint64) iter.Seq2[tiers.Session, error] {
	first := []driver.Value{int64(min(seq, 1<<62))}
	return t.sessions(ctx, sessionsSince, first, func(s tiers.Session) []driver.Value {
		return []driver.Value{int64(s.Seq)} //nolint:gosec // counted from 1
	})
}

// sessions yields page after page; from answers where the next one begins.
func (t *Tier) sessions(ctx context.Context, query string, args []driver.Value, from func(tiers.Session) []driver.Value) iter.Seq2[tiers.Session, error] {
	return func(yield func(tiers.Session, error) bool) {
		args := args
		for {
			var page []tiers.Session
			err := t.read(ctx, func(c *conn) (err error) {
				page, err = rows(ctx, c, query, args, scanSession)
				return err
			})
			if err != nil {
				yield(tiers.Session{}, t.failed("list sessions", tiers.Key{}, err))
				return
			}
			for _, s := range page {
				if !yield(s, nil) {
					return
				}
			}
			if len(page) == 0 {
				return
			}
			args = from(page[len(page)-1])
		}
	}
}
