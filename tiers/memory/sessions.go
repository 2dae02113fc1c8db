package memory

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

type sessionKey struct{ namespace, id string }

// StartSession answers the session, which it makes when there is none.
func (s *system) StartSession(ctx context.Context, namespace, id string) (tiers.Session, error) {
	if err := s.enter(ctx, "start session"); err != nil {
		return tiers.Session{}, err
	}
	defer s.mu.Unlock()
	if known := s.sessions[sessionKey{namespace, id}]; known != nil {
		return *known, nil
	}
	return *s.start(namespace, id), nil
}

// start makes a session.
func (s *system) start(namespace, id string) *tiers.Session {
	now := tiers.Micro(s.clock.Now())
	s.turn++
	row := &tiers.Session{
		Namespace: strings.Clone(namespace), ID: strings.Clone(id), Generation: 1,
		Started: now, Seen: now, Seq: s.turn,
	}
	s.sessions[sessionKey{row.Namespace, row.ID}] = row
	return row
}

// SeenSessions raises Seen of sessions that go on.
func (s *system) SeenSessions(ctx context.Context, seen []tiers.Session) error {
	if err := s.enter(ctx, "seen sessions"); err != nil {
		return err
	}
	defer s.mu.Unlock()
	for i := range seen {
		row := s.sessions[sessionKey{seen[i].Namespace, seen[i].ID}]
		if at := tiers.Micro(seen[i].Seen); row != nil && row.Ended.IsZero() && at.After(row.Seen) {
			row.Seen = at
		}
	}
	return nil
}

// EndSession ends the session.
func (s *system) EndSession(ctx context.Context, namespace, id string, idleSince time.Time) (tiers.Session, bool, error) {
	if err := s.enter(ctx, "end session"); err != nil {
		return tiers.Session{}, false, err
	}
	defer s.mu.Unlock()
	row := s.sessions[sessionKey{namespace, id}]
	if row == nil {
		return tiers.Session{}, false, nil
	}
	if !row.Ended.IsZero() {
		return *row, true, nil
	}
	if !idleSince.IsZero() && row.Seen.After(idleSince) {
		return *row, true, s.fail("end session", tiers.ErrConflict)
	}
	s.turn++
	row.Ended, row.Seq = tiers.Micro(s.clock.Now()), s.turn
	row.Generation++
	return *row, true, nil
}

// ReopenSession makes an ended or unknown session go on.
func (s *system) ReopenSession(ctx context.Context, namespace, id string) (tiers.Session, error) {
	if err := s.enter(ctx, "reopen session"); err != nil {
		return tiers.Session{}, err
	}
	defer s.mu.Unlock()
	row := s.sessions[sessionKey{namespace, id}]
	if row == nil {
		return *s.start(namespace, id), nil
	}
	if row.Ended.IsZero() {
		return *row, nil
	}
	s.turn++
	row.Ended, row.Seen, row.Seq = time.Time{}, tiers.Micro(s.clock.Now()), s.turn
	row.Generation++
	return *row, nil
}

// ListSessions yields the sessions by namespace and id.
func (s *system) ListSessions(ctx context.Context) iter.Seq2[tiers.Session, error] {
	return s.listSessions(ctx, 0, func(a, b tiers.Session) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.ID, b.ID))
	})
}

// SessionsSince yields those with a higher Seq.
func (s *system) SessionsSince(ctx context.Context, seq uint64) iter.Seq2[tiers.Session, error] {
	return s.listSessions(ctx, seq, func(a, b tiers.Session) int { return cmp.Compare(a.Seq, b.Seq) })
}

func (s *system) listSessions(ctx context.Context, since uint64, order func(a, b tiers.Session) int) iter.Seq2[tiers.Session, error] {
	return func(yield func(tiers.Session, error) bool) {
		if err := s.enter(ctx, "list sessions"); err != nil {
			yield(tiers.Session{}, err)
			return
		}
		var out []tiers.Session
		for _, row := range s.sessions {
			if row.Seq > since {
				out = append(out, *row)
			}
		}
		s.mu.Unlock()
		slices.SortFunc(out, order)
		each(out, yield)
	}
}
