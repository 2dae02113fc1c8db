package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// State is what a session has at hand. Loaded, its parts are the caller's own.
type State struct {
	SessionID   string         `json:"session_id"`
	UserID      string         `json:"user_id"`
	AgentID     string         `json:"agent_id,omitempty"` // see [Store.Start]; Save does not look at it
	StartedAt   time.Time      `json:"started_at"`
	Context     map[string]any `json:"context"`     // until the session ends
	Preferences map[string]any `json:"preferences"` // of the user, in all sessions
	History     []string       `json:"history"`     // queries, oldest first, each for a day

	EndedAt time.Time `json:"ended_at,omitzero"` // zero: it goes on. Save does not look at it
	// Expired are the parts that had something which is gone by now: expired, or
	// ended with the session, or in the memory of another process. Save does not
	// look at it.
	Expired []Part `json:"expired,omitempty"`

	kept int // how many of History, from its beginning, have been stored
}

// Part is one of those that a [State] is put together from.
type Part string

// The parts that may expire by themselves.
const (
	PartContext     Part = "context"
	PartPreferences Part = "preferences"
	PartHistory     Part = "history"
)

// identity is the record of a session in session.state: what of it stays.
type identity struct {
	ID      string    `json:"session_id"`
	User    string    `json:"user_id"`
	Agent   string    `json:"agent_id,omitempty"`
	Started time.Time `json:"started_at"`
	Ended   time.Time `json:"ended_at,omitzero"`
	Queries uint64    `json:"queries,omitempty"` // sequence number of the last one
	Context bool      `json:"context,omitempty"` // there was some
	Prefs   bool      `json:"preferences,omitempty"`
}

// Start begins a session: its identity, the parts that st has, and a log with the
// events, such as a session.init. StartedAt is now unless it is set. It is one
// transaction. With AgentID it belongs to the agent of package agent of that id, which
// has to be there (tiers.ErrNotFound), and is deleted with it.
//
// tiers.ErrExists: there is a session of that id, which may have ended; see
// [Store.Resume]. tiers.ErrKey: the id is too long for the keys of its events.
func (s *Store) Start(ctx context.Context, st State, events ...Event) error {
	fresh, err := s.prepare(st.SessionID, events)
	if err != nil {
		return fail("start", st.SessionID, err)
	}
	return fail("start", st.SessionID, s.update(ctx, st.SessionID, func(v view) error {
		i := identity{ID: st.SessionID, User: st.UserID, Agent: st.AgentID, Started: st.StartedAt}
		if i.Started.IsZero() {
			i.Started = s.now()
		}
		w, err := v.begin(ctx, i, true)
		if err != nil {
			return err
		}
		i.Queries, i.Context, i.Prefs = 0, len(st.Context) > 0, len(st.Preferences) > 0
		if err := v.saveParts(ctx, &i, st, 0); err != nil {
			return err
		}
		if err := v.identities.Save(ctx, manager.Key(i.ID), i); err != nil {
			return err
		}
		if _, err := w.add(fresh); err != nil {
			return err
		}
		return w.flush(ctx)
	}))
}

// begin makes the records of a new session. With mustBe the agent that owns it has to
// be there.
func (v view) begin(ctx context.Context, i identity, mustBe bool) (*writer, error) {
	taken := func(err error) error {
		if errors.Is(err, tiers.ErrExists) {
			return tiers.Hint(tiers.ErrExists, "choose another id, or let the session go on with Resume")
		}
		return err
	}
	if err := v.books.Begin(ctx, v.tx, i.ID); err != nil {
		return nil, err
	}
	head := logHead{Born: newBirth()}
	if err := v.identities.Save(ctx, manager.Key(i.ID), i, manager.IfAbsent()); err != nil {
		return nil, taken(err)
	}
	if err := v.logs.Save(ctx, logKey(i.ID), head, manager.IfAbsent()); err != nil {
		return nil, taken(err)
	}
	if i.Agent != "" {
		if err := v.books.Own(ctx, v.tx, i.Agent, i.ID, mustBe); err != nil {
			return nil, err
		}
	}
	return &writer{view: v, id: i.ID, head: head, seqs: map[string]uint64{}}, nil
}

// Save stores the parts of a state, in one transaction. A part that is nil stays
// as it is stored. Context and preferences are replaced. Of History, what was added
// at its end since it was loaded or saved is added to what is stored, so that
// queries of other callers stay, and an old copy takes nothing away; changes to
// earlier queries are not looked at. A state that was not loaded, such as one that
// came as JSON, is compared with what is stored.
//
// tiers.ErrNotFound: the session was never begun with [Store.Start].
// tiers.ErrSessionEnded: it is over; see [Store.Resume].
func (s *Store) Save(ctx context.Context, st *State) error {
	if err := checkID(st.SessionID); err != nil {
		return fail("save", st.SessionID, err)
	}
	err := s.update(ctx, st.SessionID, func(v view) error {
		i, err := v.going(ctx, st.SessionID)
		if err != nil {
			return err
		}
		if st.UserID != "" {
			i.User = st.UserID
		}
		kept := st.kept
		if kept == 0 && len(st.History) > 0 && i.Queries > 0 {
			if kept, err = v.overlap(ctx, st); err != nil {
				return err
			}
		}
		if err := v.saveParts(ctx, &i, *st, min(kept, len(st.History))); err != nil {
			return err
		}
		return v.identities.Save(ctx, manager.Key(i.ID), i)
	})
	if err != nil {
		return fail("save", st.SessionID, err)
	}
	st.kept = max(st.kept, len(st.History))
	return nil
}

// going answers the identity of a session that goes on.
func (v view) going(ctx context.Context, id string) (identity, error) {
	i, err := v.identities.Load(ctx, manager.Key(id))
	switch {
	case err != nil:
		return i, unknown(err)
	case !i.Ended.IsZero():
		return i, tiers.Hint(tiers.ErrSessionEnded, "Resume lets it go on")
	}
	return i, nil
}

// saveParts stores the parts that are there, and of the history what follows the
// first ones.
func (v view) saveParts(ctx context.Context, i *identity, st State, kept int) error {
	if st.Context != nil {
		if err := v.saveContext(ctx, i, st.Context); err != nil {
			return err
		}
	}
	if st.Preferences != nil {
		if i.User == "" {
			if len(st.Preferences) > 0 {
				return fmt.Errorf("%w: preferences belong to a user, and UserID is empty", tiers.ErrKey)
			}
		} else if err := v.prefs.Save(ctx, manager.Key(i.User), st.Preferences); err != nil {
			return err
		}
		i.Prefs = len(st.Preferences) > 0
	}
	return v.addQueries(ctx, i, st.History[kept:])
}

// saveContext makes the context what it is given, entry by entry.
func (v view) saveContext(ctx context.Context, i *identity, to map[string]any) error {
	var gone []string
	for e, err := range v.context.List(ctx, manager.Prefix(manager.Key(i.ID)+"/"), manager.KeysOnly()) {
		if err != nil && e.Key == "" {
			return err
		}
		segments := manager.SplitKey(e.Key)
		if _, stays := to[segments[len(segments)-1]]; !stays || len(segments) != 2 {
			gone = append(gone, e.Key)
		}
	}
	if _, err := v.context.DeleteMany(ctx, gone...); err != nil {
		return err
	}
	entries := make(map[string]any, len(to))
	for name, value := range to {
		entries[manager.Key(i.ID, name)] = value
	}
	i.Context = len(to) > 0
	return v.context.SaveMany(ctx, entries)
}

// Load puts a state together from its parts. Parts that have expired are empty,
// and named in Expired. A part that can't be read is an error, beside the rest of
// the state. tiers.ErrNotFound: the session was never begun with [Store.Start].
func (s *Store) Load(ctx context.Context, id string) (st State, err error) {
	if err := checkID(id); err != nil {
		return st, fail("load", id, err)
	}
	err = s.read(ctx, func(p parts) error {
		st, err = p.load(ctx, id)
		return err
	})
	return st, fail("load", id, err)
}

func (p parts) load(ctx context.Context, id string) (State, error) {
	i, err := p.identities.Load(ctx, manager.Key(id))
	if err != nil {
		return State{}, unknown(err)
	}
	st := State{SessionID: i.ID, UserID: i.User, AgentID: i.Agent, StartedAt: i.Started, EndedAt: i.Ended}
	var errs []error
	if i.Ended.IsZero() {
		for e, err := range p.context.List(ctx, manager.Prefix(manager.Key(id)+"/")) {
			if segments := manager.SplitKey(e.Key); err == nil && len(segments) == 2 {
				if st.Context == nil {
					st.Context = map[string]any{}
				}
				st.Context[segments[1]] = e.Value
			} else if err != nil {
				errs = append(errs, err)
			}
		}
	}
	if i.User != "" {
		st.Preferences, err = p.prefs.LoadOr(ctx, manager.Key(i.User), nil)
		errs = append(errs, err)
	}
	for e, err := range p.history.List(ctx, manager.Prefix(manager.Key(id)+"/")) {
		if err == nil {
			st.History = append(st.History, e.Value)
		} else {
			errs = append(errs, err)
		}
	}
	st.kept = len(st.History)
	add := func(part Part, was, is bool) {
		if was && !is {
			st.Expired = append(st.Expired, part)
		}
	}
	add(PartContext, i.Context, len(st.Context) > 0)
	add(PartPreferences, i.Prefs, len(st.Preferences) > 0)
	add(PartHistory, i.Queries > 0, len(st.History) > 0)
	slices.Sort(st.Expired)
	return st, errors.Join(errs...)
}
