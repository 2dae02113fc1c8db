package manager

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// How often the background work about sessions is done.
const (
	watchEvery  = 100 * time.Millisecond
	seenEvery   = time.Minute
	purgeEvery  = 10 * time.Second
	purgeSettle = 2 * time.Second // until then the process that ended a session may still be at it
	forgetAfter = time.Hour
)

// factPurged holds the Seq up to which ended sessions are known to be empty. Where several
// machines share the system store, and each has tiers of its own, each has such a fact: it
// is named after one of these tiers.
const factPurged = "sessions.purged"

func (c *core) purgedFact() string {
	l, shared := c.system.(*localRows)
	if !shared {
		return factPurged
	}
	return slices.Min(slices.Collect(maps.Keys(l.ids))) + "." + factPurged
}

// seenInterval is a quarter of the idle limit, so that a session in use is
// never taken for an idle one.
func seenInterval(idle time.Duration) time.Duration {
	if idle <= 0 {
		return seenEvery
	}
	return min(seenEvery, max(idle/4, 10*time.Millisecond))
}

// watchFrom begins to watch for changes after a Seq, unless it is done already.
// What changed before this process used its first session is of no interest.
func (s *sessions) watchFrom(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.watches || seq < s.from && s.counter == 0 {
		s.watches, s.from = true, seq
	}
}

// watch learns what other processes did to sessions since the last time.
func (s *sessions) watch(ctx context.Context) error {
	s.mu.Lock()
	from, watches, counter := s.from, s.watches, s.counter
	s.mu.Unlock()
	if !watches {
		return nil
	}
	changes, err := s.system.Changes(ctx)
	if err != nil || changes.Sessions == counter {
		return err
	}
	var over []tiers.Session
	for row, err := range s.system.SessionsSince(ctx, from) {
		if err != nil {
			return err
		}
		from = row.Seq
		if p, ok := s.present.Load(sessionID{row.Namespace, row.ID}); ok {
			p.(*presence).learn(row) //nolint:forcetypeassert // the map holds nothing else
		}
		if ended(row) {
			over = append(over, row)
		}
	}
	var errs []error
	for _, row := range over {
		errs = append(errs, s.forget(ctx, row))
	}
	if err := errors.Join(errs...); err != nil {
		return err // all of it is done again
	}
	s.mu.Lock()
	s.from, s.counter = max(s.from, from), changes.Sessions
	s.mu.Unlock()
	return nil
}

// forget removes what this process holds of a session that has ended, and what
// it saved in the moments before it learned of that.
func (s *sessions) forget(ctx context.Context, row tiers.Session) error {
	id := sessionID{row.Namespace, row.ID}
	known, used := s.present.Load(id)
	if !used {
		return s.purge(ctx, id, row, true, true)
	}
	if known.(*presence).isPurged(row.Seq) { //nolint:forcetypeassert // the map holds nothing else
		return nil
	}
	p, now, err := s.hold(ctx, id, wholePresence) // waits for saves under way
	if err != nil {
		return err
	}
	p.shares.Release(wholePresence)
	if now.Seq > row.Seq {
		return nil // reopened since
	}
	return s.purge(ctx, id, row, true, false)
}

// writeSeen writes the last uses of sessions, and forgets those that have not
// been used for long.
func (s *sessions) writeSeen(ctx context.Context) error {
	var rows []tiers.Session
	var from []*presence
	s.present.Range(func(_, value any) bool {
		p := value.(*presence) //nolint:forcetypeassert // the map holds nothing else
		seen := p.seen.Load()
		row, _ := p.state()
		p.mu.Lock()
		fresh := seen > p.flushed
		p.mu.Unlock()
		if fresh && !ended(row) {
			row.Namespace, row.ID, row.Seen = p.namespace, p.id, tiers.FromMicro(seen)
			rows, from = append(rows, row), append(from, p)
		}
		return true
	})
	if len(rows) > 0 {
		if err := s.system.SeenSessions(ctx, rows); err != nil {
			return err
		}
		for i, p := range from {
			p.mu.Lock()
			p.flushed = max(p.flushed, rows[i].Seen.UnixMicro())
			p.mu.Unlock()
		}
	}
	s.drop(s.clock.Now().Add(-forgetAfter).UnixMicro())
	return nil
}

// endIdle ends the sessions that have rested longer than the limit.
func (s *sessions) endIdle(ctx context.Context) error {
	since := s.clock.Now().Add(-s.idle)
	var idle []sessionID
	for row, err := range s.system.ListSessions(ctx) {
		if err != nil {
			return err
		}
		if ended(row) || row.Seen.After(since.Add(-s.every)) {
			continue // another process may have used it, and not written that yet
		}
		id := sessionID{row.Namespace, row.ID}
		if p, ok := s.present.Load(id); ok && p.(*presence).seen.Load() > since.UnixMicro() { //nolint:forcetypeassert // the map holds nothing else
			continue
		}
		idle = append(idle, id)
	}
	var errs []error
	for _, id := range idle {
		if err := s.end(ctx, id, since, sessionOptions{}); err != nil && !errors.Is(err, tiers.ErrConflict) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// finishEnded removes what is left of ended sessions whose process died before
// it had removed everything.
func (s *sessions) finishEnded(ctx context.Context) error {
	var done uint64
	if b, err := s.system.Fact(ctx, s.purged); err == nil && len(b) == 8 {
		done = binary.BigEndian.Uint64(b)
	} else if err != nil && !errors.Is(err, tiers.ErrNotFound) {
		return err
	}
	settled := s.clock.Now().Add(-purgeSettle)
	var rows []tiers.Session
	upTo := done
	for row, err := range s.system.SessionsSince(ctx, done) {
		if err != nil {
			return err
		}
		if ended(row) && row.Ended.After(settled) {
			break
		}
		upTo = row.Seq
		if ended(row) {
			rows = append(rows, row)
		}
	}
	for _, row := range rows {
		if err := s.purge(ctx, sessionID{row.Namespace, row.ID}, row, true, false); err != nil {
			return err
		}
	}
	if upTo == done {
		return nil
	}
	_, err := s.system.SetFact(ctx, s.purged, binary.BigEndian.AppendUint64(nil, upTo), false)
	return err
}
