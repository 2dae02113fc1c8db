package manager

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// SessionInfo describes a session that goes on.
type SessionInfo struct {
	ID      string    `json:"id"`
	Started time.Time `json:"started"`
	Seen    time.Time `json:"seen,omitzero"` // its last use, to within a minute
	Entries int       `json:"entries"`       // in tiers that outlive the process, and in this process
}

// EndSession ends a session: it removes the keys Key(id) and Key(id, ...) of
// every category whose TTL is "session", on all tiers and whichever process
// saved them. A later save into the session answers tiers.ErrSessionEnded, and
// one that is under way in this process is removed with the rest. Other
// processes learn of it within 100 ms. Ending a session that is over, or that
// never was, is no error.
//
// An error means that the session may have ended with some of its records left;
// they go with the next call or with the background work of a process of the
// store.
func (m *Manager) EndSession(ctx context.Context, id string, opts ...SessionOption) error {
	sid, slot, err := m.session(ctx, "end session", id)
	if err != nil {
		return err
	}
	defer m.core.gate.leave(slot)
	return sessionError("end session", sid, m.core.sessions.end(ctx, sid, time.Time{}, sessionOptionsOf(opts)))
}

// ReopenSession lets an ended or unknown session go on, empty: what it held
// before its end does not come back.
func (m *Manager) ReopenSession(ctx context.Context, id string, opts ...SessionOption) error {
	sid, slot, err := m.session(ctx, "reopen session", id)
	if err != nil {
		return err
	}
	defer m.core.gate.leave(slot)
	s := m.core.sessions
	p, _, err := s.hold(ctx, sid, wholePresence)
	if err != nil {
		return sessionError("reopen session", sid, err)
	}
	defer p.shares.Release(wholePresence)
	var row tiers.Session
	done, err := s.decide(ctx, sessionOptionsOf(opts), func() (err error) {
		row, err = s.system.StartSession(ctx, sid.namespace, sid.id)
		if err != nil || !ended(row) { // one that goes on need not be reopened, even if it is ended just now
			return err
		}
		if !p.isPurged(row.Seq) {
			// Whoever ended it may still be at it, and stops when it is reopened.
			if err := s.purge(ctx, sid, row, true, false); err != nil {
				return err
			}
		}
		row, err = s.system.ReopenSession(ctx, sid.namespace, sid.id)
		return err
	})
	if err != nil || !done {
		return sessionError("reopen session", sid, err)
	}
	s.watchFrom(row.Seq)
	p.learn(row)
	p.seen.Store(s.clock.Now().UnixMicro())
	return nil
}

// Sessions yields the sessions of the namespace that go on, in order of the id.
func (m *Manager) Sessions(ctx context.Context) iter.Seq2[SessionInfo, error] {
	return func(yield func(SessionInfo, error) bool) {
		rows, err := m.liveSessions(ctx)
		if err != nil {
			yield(SessionInfo{}, &tiers.Error{Op: "list sessions", Namespace: m.namespace, Err: err})
			return
		}
		for _, row := range rows {
			info := SessionInfo{ID: row.ID, Started: row.Started, Seen: row.Seen}
			sid := sessionID{row.Namespace, row.ID}
			if p, ok := m.core.sessions.present.Load(sid); ok {
				if seen := tiers.FromMicro(p.(*presence).seen.Load()); seen.After(info.Seen) { //nolint:forcetypeassert // the map holds nothing else
					info.Seen = seen
				}
			}
			info.Entries, err = m.core.sessions.count(ctx, sid)
			if !yield(info, sessionError("list sessions", sid, err)) {
				return
			}
		}
	}
}

func (m *Manager) liveSessions(ctx context.Context) ([]tiers.Session, error) {
	slot, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer m.core.gate.leave(slot)
	var rows []tiers.Session
	for row, err := range m.core.sessions.system.ListSessions(ctx) {
		if err != nil {
			return nil, err
		}
		if row.Namespace == m.namespace && !ended(row) {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// session enters the gate for a call about a session.
func (m *Manager) session(ctx context.Context, op, id string) (sid sessionID, slot uint32, err error) {
	sid = sessionID{m.namespace, id}
	slot, err = m.enter(ctx)
	if err != nil {
		return sid, 0, sessionError(op, sid, err)
	}
	if err = tiers.CheckName(Key(id)); err != nil {
		m.core.gate.leave(slot)
		return sid, 0, sessionError(op, sid, tiers.Hint(err, "a session's id is the first segment of its keys"))
	}
	return sid, slot, nil
}

func sessionError(op string, id sessionID, err error) error {
	if err == nil {
		return nil
	}
	return tiers.Fail(op, "", tiers.Key{Namespace: id.namespace, Name: id.id}, err)
}

// sessionOf answers the session that a key of a session category belongs to.
func sessionOf(namespace, key string) (sessionID, error) {
	first := firstSegment(key)
	if strings.IndexByte(first, '%') >= 0 {
		id := unescapeSegment(first)
		if escapeSegment(id) != first {
			return sessionID{}, fmt.Errorf("%w: its first segment names the session and holds a lone %%; make keys with manager.Key", tiers.ErrKey)
		}
		first = id
	}
	if first == "" {
		return sessionID{}, fmt.Errorf("%w: its first segment names the session and is empty", tiers.ErrKey)
	}
	return sessionID{namespace, first}, nil
}

// sessions is the manager's knowledge of sessions.
type sessions struct {
	system  tiers.System
	clock   tiers.Clock
	log     *slog.Logger
	homes   func(context.Context) ([]home, error) // of every session category of the store
	emptied func(category string, id sessionID)   // what a near layer holds of it is to be dropped
	ended   func(id sessionID)                    // other processes are to be told
	present sync.Map                              // sessionID to *presence
	idle    time.Duration                         // sessions that rest longer are ended; 0: never
	every   time.Duration                         // how often last uses are written
	purged  string                                // the name of a fact, see factPurged
	turn    chan struct{}                         // full: a call of this process has the turn

	mu      sync.Mutex
	from    uint64 // changes up to this Seq are known; valid once watching
	watches bool
	counter uint64 // of Changes, when last looked
}

// home is a session category and the tier that holds it.
type home struct {
	category string
	tier     tiers.Tier
	name     string
	process  bool // what it holds is this process's own
}

// end ends a session and removes its records. With idleSince set it does so
// only if the session was not used after that instant.
func (s *sessions) end(ctx context.Context, id sessionID, idleSince time.Time, o sessionOptions) error {
	p, _, err := s.hold(ctx, id, wholePresence)
	if err != nil {
		return err
	}
	var row tiers.Session
	existed := false
	done, err := s.decide(ctx, o, func() (err error) {
		row, existed, err = s.system.EndSession(ctx, id.namespace, id.id, idleSince)
		return err
	})
	if err == nil && existed {
		s.watchFrom(row.Seq)
		p.learn(row)
	}
	p.shares.Release(wholePresence)
	if err != nil || !done {
		return err
	}
	err = s.purge(ctx, id, row, existed, false)
	s.ended(id)
	if err == nil {
		p.mu.Lock()
		p.purged = row.Seq
		p.mu.Unlock()
	}
	return err
}

// purge removes the records of an ended session. Each is removed only in the
// version that was seen while the session was over, so that one saved after a
// reopening stays.
func (s *sessions) purge(ctx context.Context, id sessionID, row tiers.Session, existed, processOnly bool) error {
	homes, err := s.homes(ctx)
	if err != nil {
		return err
	}
	over := func() (bool, error) {
		if !existed {
			return true, nil
		}
		now, err := s.system.StartSession(ctx, id.namespace, id.id)
		return now.Seq == row.Seq, err
	}
	var errs []error
	for _, h := range homes {
		if !processOnly || h.process {
			errs = append(errs, removeSession(ctx, h, id, over))
		}
		s.emptied(h.category, id)
	}
	return errors.Join(errs...)
}

// purgePage is how many records are removed at once.
const purgePage = 256

func removeSession(ctx context.Context, h home, id sessionID, over func() (bool, error)) error {
	space := tiers.Space{Namespace: id.namespace, Category: h.category}
	after, first := "", true
	for {
		var found []tiers.Record
		if first {
			r, err := h.tier.Load(ctx, tiers.Key{Namespace: space.Namespace, Category: space.Category, Name: Key(id.id)})
			switch {
			case err == nil:
				found = append(found, r)
			case errors.Is(err, tiers.ErrCorrupt):
				found = append(found, tiers.Record{Key: tiers.Key{Namespace: space.Namespace, Category: space.Category, Name: Key(id.id)}})
			case !errors.Is(err, tiers.ErrNotFound):
				return tiers.Fail("end session", h.name, tiers.Key{Namespace: space.Namespace, Category: space.Category}, err)
			}
			first = false
		}
		n := 0
		for r, err := range h.tier.List(ctx, tiers.Query{
			Namespace: space.Namespace, Category: space.Category,
			Prefix: Key(id.id) + "/", After: after, Limit: purgePage, KeysOnly: true,
		}) {
			if err != nil && r.Name == "" {
				return tiers.Fail("end session", h.name, tiers.Key{Namespace: space.Namespace, Category: space.Category}, err)
			}
			if err != nil {
				r.Version = 0 // unreadable: it goes whatever its version
			}
			found = append(found, r)
			after = r.Name
			n++
		}
		if len(found) > 0 {
			still, err := over()
			if err != nil || !still {
				return err
			}
			if err := removeRecords(ctx, h.tier, found); err != nil {
				return err
			}
		}
		if n < purgePage {
			return nil
		}
	}
}

// removeRecords removes records in the versions that were seen.
func removeRecords(ctx context.Context, t tiers.Tier, rs []tiers.Record) error {
	keys, conds := make([]tiers.Key, len(rs)), make([]tiers.Cond, len(rs))
	for i, r := range rs {
		keys[i] = r.Key
		if r.Version != 0 {
			conds[i] = tiers.If(r.Version)
		}
	}
	if _, err := tiers.DeleteMany(ctx, t, keys, conds); err == nil {
		return nil
	}
	var errs []error
	for i := range keys { // one that changed meanwhile must not save the others
		if _, err := t.Delete(ctx, keys[i], conds[i]); err != nil && !errors.Is(err, tiers.ErrConflict) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// count counts the live records of a session.
func (s *sessions) count(ctx context.Context, id sessionID) (int, error) {
	homes, err := s.homes(ctx)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, h := range homes {
		k := tiers.Key{Namespace: id.namespace, Category: h.category, Name: Key(id.id)}
		ok, err := tiers.Exists(ctx, h.tier, k)
		if err != nil {
			return n, tiers.Fail("list sessions", h.name, k, err)
		}
		if ok {
			n++
		}
		for r, err := range h.tier.List(ctx, tiers.Query{Namespace: k.Namespace, Category: k.Category, Prefix: k.Name + "/", KeysOnly: true}) {
			if err != nil && r.Name == "" {
				return n, tiers.Fail("list sessions", h.name, k, err)
			}
			n++
		}
	}
	return n, nil
}
