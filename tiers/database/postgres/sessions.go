package postgres

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

const (
	sessionColumns = `namespace, id, generation, started, seen, ended, seq`
	loadSession    = `SELECT ` + sessionColumns + ` FROM ~.sessions WHERE namespace = $1 AND id = $2`
	nextSessions   = `SELECT ` + sessionColumns + ` FROM ~.sessions WHERE (namespace, id) > ($1, $2) ORDER BY namespace, id LIMIT 256`
	sessionsSince  = `SELECT ` + sessionColumns + ` FROM ~.sessions WHERE seq > $1 ORDER BY seq LIMIT 256`
	putSessions    = `INSERT INTO ~.sessions (` + sessionColumns + `)
		SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
		ON CONFLICT (namespace, id) DO UPDATE SET generation = excluded.generation, started = excluded.started, seen = excluded.seen,
			ended = excluded.ended, seq = excluded.seq`
	seeSessions = `UPDATE ~.sessions s SET seen = greatest(s.seen, u.seen) FROM
		(SELECT namespace, id, max(seen) AS seen FROM unnest($1::text[], $2::text[], $3::bigint[]) AS u (namespace, id, seen) GROUP BY namespace, id) u
		WHERE s.namespace = u.namespace AND s.id = u.id AND s.ended = 0`
)

type sessionKey struct{ namespace, id string }

// session is a session as the jobs of a group have left it.
type session struct {
	tiers.Session
	there, put bool
}

// sessionRow is a row as it is scanned.
type sessionRow struct {
	namespace, id string
	n             [5]int64
}

func (r *sessionRow) columns() []any {
	return []any{&r.namespace, &r.id, &r.n[0], &r.n[1], &r.n[2], &r.n[3], &r.n[4]}
}

func (r *sessionRow) session() tiers.Session {
	return tiers.Session{
		Namespace: r.namespace, ID: r.id, Generation: uint64(r.n[0]), //nolint:gosec // counted from 1
		Started: tiers.FromMicro(r.n[1]), Seen: tiers.FromMicro(r.n[2]), Ended: tiers.FromMicro(r.n[3]),
		Seq: uint64(r.n[4]), //nolint:gosec // counted from 1
	}
}

func scanSession(row pgx.CollectableRow) (tiers.Session, error) {
	var r sessionRow
	err := row.Scan(r.columns()...)
	return r.session(), err
}

// keep stores a session under the next Seq.
func (x *tx) keep(s tiers.Session) tiers.Session {
	was := x.books.session
	x.books.session++
	s.Seq = uint64(x.books.session) //nolint:gosec // counted from 1
	one := x.sessions[sessionKey{s.Namespace, s.ID}]
	before := *one
	x.change(func() { *one, x.books.session = before, was })
	*one = session{Session: s, there: true, put: true}
	return s
}

// start makes a session that there is not.
func (x *tx) start(k sessionKey) tiers.Session {
	now := tiers.FromMicro(x.time)
	return x.keep(tiers.Session{Namespace: k.namespace, ID: k.id, Generation: 1, Started: now, Seen: now})
}

func (x *tx) writeSessions(b *pgx.Batch) {
	cols := newColumns(2)
	n := make([][]int64, 5)
	all := make([]*session, 0, len(x.sessions))
	for _, s := range x.sessions {
		if s.put {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *session) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, s := range all {
		cols.add(s.Namespace, s.ID)
		for i, v := range []int64{
			int64(s.Generation), tiers.ToMicro(s.Started), tiers.ToMicro(s.Seen), tiers.ToMicro(s.Ended), int64(s.Seq), //nolint:gosec // counted from 1
		} {
			n[i] = append(n[i], v)
		}
	}
	if len(all) > 0 {
		b.Queue(x.w.t.sql(putSessions), append(cols.args(), n[0], n[1], n[2], n[3], n[4])...)
	}
	if len(x.seen) == 0 {
		return
	}
	cols = newColumns(2)
	var seen []int64
	for _, s := range x.seen {
		cols.add(s.Namespace, s.ID)
		seen = append(seen, tiers.ToMicro(s.Seen))
	}
	b.Queue(x.w.t.sql(seeSessions), append(cols.args(), seen)...)
}

// StartSession implements tiers.Sessions.
func (t *Tier) StartSession(ctx context.Context, namespace, id string) (tiers.Session, error) {
	if err := engine.CheckSession(namespace, id); err != nil {
		return tiers.Session{}, t.fail("start session", tiers.Key{}, err)
	}
	// Most sessions are there: they cost a read.
	all, err := ask(ctx, t, scanSession, loadSession, namespace, id)
	if err != nil {
		return tiers.Session{}, t.failed("start session", tiers.Key{}, err)
	}
	if len(all) > 0 {
		return all[0], nil
	}
	k := sessionKey{namespace, id}
	return t.changeSession(ctx, "start session", k, func(x *tx, s *session) (tiers.Session, error) {
		if s.there {
			return s.Session, nil
		}
		return x.start(k), nil
	})
}

// SeenSessions implements tiers.Sessions.
func (t *Tier) SeenSessions(ctx context.Context, seen []tiers.Session) error {
	if len(seen) == 0 {
		return engine.Over(ctx)
	}
	all := slices.DeleteFunc(slices.Clone(seen), func(s tiers.Session) bool { return engine.CheckSession(s.Namespace, s.ID) != nil })
	err := t.writer.do(ctx, &job{bytes: 64 * len(all), run: func(x *tx) error {
		n := len(x.seen)
		x.change(func() { x.seen = x.seen[:n] })
		x.seen = append(x.seen, all...)
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
	s, err = t.changeSession(ctx, "end session", sessionKey{namespace, id}, func(x *tx, s *session) (tiers.Session, error) {
		was = s.there
		one := s.Session
		if !s.there || !one.Ended.IsZero() {
			return one, nil
		}
		if !idleSince.IsZero() && one.Seen.After(idleSince) {
			return one, tiers.ErrConflict
		}
		one.Ended = tiers.FromMicro(x.time)
		one.Generation++
		return x.keep(one), nil
	})
	return s, err == nil && was, err
}

// ReopenSession implements tiers.Sessions.
func (t *Tier) ReopenSession(ctx context.Context, namespace, id string) (tiers.Session, error) {
	if err := engine.CheckSession(namespace, id); err != nil {
		return tiers.Session{}, t.fail("reopen session", tiers.Key{}, err)
	}
	k := sessionKey{namespace, id}
	return t.changeSession(ctx, "reopen session", k, func(x *tx, s *session) (tiers.Session, error) {
		one := s.Session
		switch {
		case !s.there:
			return x.start(k), nil
		case one.Ended.IsZero():
			return one, nil
		}
		one.Ended = time.Time{}
		one.Seen = tiers.FromMicro(x.time)
		one.Generation++
		return x.keep(one), nil
	})
}

// changeSession runs one change of one session through the group commit.
func (t *Tier) changeSession(ctx context.Context, op string, k sessionKey, change func(x *tx, s *session) (tiers.Session, error)) (tiers.Session, error) {
	var s tiers.Session
	err := t.writer.do(ctx, &job{
		bytes: 128,
		wants: func(w *wants) { w.sessions[k] = true },
		run: func(x *tx) (err error) {
			s, err = change(x, x.sessions[k])
			return err
		},
	})
	if err != nil {
		return tiers.Session{}, t.failed(op, tiers.Key{}, err)
	}
	return s, nil
}

// ListSessions implements tiers.Sessions.
func (t *Tier) ListSessions(ctx context.Context) iter.Seq2[tiers.Session, error] {
	return t.sessions(ctx, nextSessions, []any{"", ""}, func(s tiers.Session) []any { return []any{s.Namespace, s.ID} })
}

// SessionsSince implements tiers.Sessions.
func (t *Tier) SessionsSince(ctx context.Context, seq uint64) iter.Seq2[tiers.Session, error] {
	first := []any{int64(min(seq, 1<<62))}
	return t.sessions(ctx, sessionsSince, first, func(s tiers.Session) []any { return []any{int64(s.Seq)} }) //nolint:gosec // counted from 1
}

// sessions yields page after page; from answers where the next one begins.
func (t *Tier) sessions(ctx context.Context, query string, args []any, from func(tiers.Session) []any) iter.Seq2[tiers.Session, error] {
	return func(yield func(tiers.Session, error) bool) {
		for args := args; ; {
			page, err := ask(ctx, t, scanSession, query, args...)
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
