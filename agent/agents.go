package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// Save stores an agent. One with Revision 0 is created: tiers.ErrExists when
// there is one of that id. Else what is stored must have that revision,
// tiers.ErrConflict when it was saved meanwhile and tiers.ErrNotFound when it was
// deleted. Only entries of Custom that differ are written. On success Modified and
// Revision of a are set; in a transaction, when it is committed.
func (s *Store) Save(ctx context.Context, a *State) error {
	err := s.update(ctx, turn{agent: a.ID}, func(s *Store) error {
		modified, err := s.saveState(ctx, a)
		if err == nil {
			s.tx.OnCommit(func(context.Context) {
				a.Modified, a.Revision = modified.Modified, s.state.VersionIn(s.tx, atHead+manager.Key(a.ID))
			})
		}
		return err
	})
	return fail("save agent", categoryState, a.ID, err)
}

func (s *Store) saveState(ctx context.Context, a *State) (*stateRecord, error) {
	au, found, err := s.agent(ctx, a.ID)
	switch {
	case err != nil:
		return nil, err
	case a.Revision == 0 && found:
		return nil, refuse(tiers.Hint(tiers.ErrExists, "load it, change what was loaded and save that"))
	case a.Revision != 0 && !found:
		return nil, refuse(tiers.Hint(errNoAgent, "it was deleted; one with revision 0 is created anew"))
	case !found:
		return s.createAgent(ctx, a, now(s.core.clock))
	}
	key := atHead + manager.Key(a.ID)
	stored, err := s.state.Entry(ctx, key)
	if err != nil {
		return nil, err
	}
	if stored.Version != a.Revision && !provisional(stored.Version) {
		return nil, refuse(tiers.Hint(tiers.ErrConflict, "it was saved by others since: load it again"))
	}
	led, _, err := load[ledger](ctx, s, s.state, atLedger+au)
	if err != nil {
		return nil, err
	}
	var before stateRecord
	if err := s.decode(stored.Value, &before); err != nil {
		return nil, corrupt(key, err)
	}
	r := recordOf(a, au)
	r.Modified = now(s.core.clock)
	if r.Modified.Before(before.Modified) {
		r.Modified = before.Modified
	}
	e := s.edit(au, led)
	return r, e.writeState(ctx, r, stored.Value, a.Custom)
}

// createAgent stores an agent that is not there, as changed then or later.
func (s *Store) createAgent(ctx context.Context, a *State, changed time.Time) (*stateRecord, error) {
	au := innerName()
	led := ledger{AgentID: a.ID}
	if err := s.save(ctx, s.state, atID+manager.Key(a.ID), agentRef{au}); err != nil {
		return nil, err
	}
	if err := s.save(ctx, s.state, atLedger+au, led); err != nil {
		return nil, err
	}
	r := recordOf(a, au)
	if r.Created.IsZero() {
		r.Created = now(s.core.clock)
	}
	r.Modified = later(r.Modified, changed)
	return r, s.edit(au, led).writeState(ctx, r, nil, a.Custom)
}

func recordOf(a *State, au string) *stateRecord {
	return &stateRecord{
		Inner: au, ID: a.ID, Name: a.Name, Type: a.Type, SystemPrompt: a.SystemPrompt, Capabilities: a.Capabilities,
		Config: a.Config, Metadata: a.Metadata, Created: a.Created.Round(0).UTC(), Modified: a.Modified.Round(0).UTC(),
		Version: a.Version,
	}
}

// writeState writes the head and what differs of Custom.
func (e *edit) writeState(ctx context.Context, r *stateRecord, old json.RawMessage, custom map[string]any) error {
	u, err := e.unit(ctx, "")
	if err != nil {
		return err
	}
	if err := e.writeCustom(ctx, u, custom); err != nil {
		return err
	}
	r.Since = e.since()
	raw, err := e.encode(r)
	if err != nil {
		return err
	}
	if err := e.put(ctx, u, partState, atHead+manager.Key(r.ID), old, raw); err != nil {
		return err
	}
	return e.flush(ctx)
}

func (e *edit) writeCustom(ctx context.Context, u *unit, custom map[string]any) error {
	prefix := atOwn + e.au + "/"
	stored := make(map[string]json.RawMessage)
	for entry, err := range e.state.List(ctx, manager.Prefix(prefix)) {
		if err != nil {
			return err
		}
		stored[strings.TrimPrefix(entry.Key, prefix)] = entry.Value
	}
	wanted := make(map[string]string, len(custom))
	for name := range custom {
		wanted[ownKey(name)] = name
	}
	for key, old := range stored {
		if _, keep := wanted[key]; !keep {
			if err := e.put(ctx, u, partOwn+key, prefix+key, old, nil); err != nil {
				return err
			}
		}
	}
	for key, name := range wanted {
		value, err := e.encode(custom[name])
		if err != nil {
			return refuse(fmt.Errorf("custom entry %q: %w", name, err))
		}
		if err := e.putOwn(ctx, u, key, ownRecord{Name: name, Value: value}, stored[key]); err != nil {
			return err
		}
	}
	return nil
}

// putOwn writes an entry of Custom unless it is stored already.
func (e *edit) putOwn(ctx context.Context, u *unit, key string, r ownRecord, old json.RawMessage) error {
	if old != nil {
		var before ownRecord
		if err := e.decode(old, &before); err == nil && before.Name == r.Name && bytes.Equal(before.Value, r.Value) {
			return nil
		}
	}
	r.Since = e.since()
	raw, err := e.encode(r)
	if err != nil {
		return refuse(fmt.Errorf("custom entry %q: %w", r.Name, err))
	}
	return e.put(ctx, u, partOwn+key, atOwn+e.au+"/"+key, old, raw)
}

// Load answers an agent, or tiers.ErrNotFound.
func (s *Store) Load(ctx context.Context, id string) (*State, error) {
	var a *State
	err := s.view(ctx, func(s *Store) (err error) {
		au, found, err := s.agent(ctx, id)
		if err == nil && !found {
			err = refuse(errNoAgent)
		}
		if err == nil {
			a, err = s.loadState(ctx, id, au)
		}
		return err
	})
	return a, fail("load agent", categoryState, id, reveal(err))
}

func (s *Store) loadState(ctx context.Context, id, au string) (*State, error) {
	key := atHead + manager.Key(id)
	entry, err := s.state.Entry(ctx, key)
	if err != nil {
		return nil, err
	}
	var r stateRecord
	if err := s.decode(entry.Value, &r); err != nil {
		return nil, corrupt(key, err)
	}
	a := r.state()
	a.Revision = entry.Version
	for own, err := range s.state.List(ctx, manager.Prefix(atOwn+au+"/")) {
		if err != nil {
			return nil, err
		}
		if err := s.takeOwn(a, own.Key, own.Value); err != nil {
			return nil, err
		}
	}
	return a, s.loadActive(ctx, a, au)
}

func (s *Store) takeOwn(a *State, key string, raw json.RawMessage) error {
	var r ownRecord
	if err := s.decode(raw, &r); err != nil {
		return corrupt(key, err)
	}
	var v any
	if err := s.decode(r.Value, &v); err != nil {
		return corrupt(key, err)
	}
	a.Set(r.Name, v)
	return nil
}

// loadActive fills the list of conversations that are not archived.
func (s *Store) loadActive(ctx context.Context, a *State, au string) error {
	prefix := atActive + au + "/"
	type active struct {
		activeRecord
		id string
	}
	var all []active
	for entry, err := range s.conversations.List(ctx, manager.Prefix(prefix)) {
		if err != nil {
			return err
		}
		at := active{id: segment(strings.TrimPrefix(entry.Key, prefix))}
		if err := s.decode(entry.Value, &at.activeRecord); err != nil {
			return corrupt(entry.Key, err)
		}
		all = append(all, at)
	}
	slices.SortStableFunc(all, func(a, b active) int { return a.Created.Compare(b.Created) })
	keys := make([]string, len(all))
	for i, at := range all {
		keys[i] = atHead + au + "/" + manager.Key(at.id)
	}
	heads, err := s.conversations.LoadMany(ctx, keys...)
	if err != nil {
		return err
	}
	for i, at := range all {
		if _, there := heads[keys[i]]; there {
			a.Active = append(a.Active, at.id)
		} else {
			a.Repaired = append(a.Repaired, at.id)
		}
	}
	return nil
}

// segment takes the escapes of a key's segment back.
func segment(s string) string { return strings.Join(manager.SplitKey(s), "/") }

// reveal answers what a refusal hides.
func reveal(err error) error {
	if r, ok := err.(refusal); ok { //nolint:errorlint // it is only ever the outermost
		return r.err
	}
	return err
}

// After is where a listing goes on, and how much of it is wanted.
type After struct {
	ID    string // exclusive; empty: from the beginning
	Limit int    // 0: no limit; below 0 is tiers.ErrType
}

func (a After) check() error {
	if a.Limit < 0 {
		return fmt.Errorf("%w: a limit of %d; 0 is none", tiers.ErrType, a.Limit)
	}
	return nil
}

// List yields the agents in the order of their ids, as keys are: "/" and "%"
// within an id sort as "%2F" and "%25". One that can't be read is an error beside
// a State that has only its id, and the list goes on; an error beside nil ends it.
func (s *Store) List(ctx context.Context, from After) iter.Seq2[*State, error] {
	return func(yield func(*State, error) bool) {
		if err := from.check(); err != nil {
			yield(nil, fail("list agents", categoryState, "", err))
			return
		}
		opts := []manager.ListOption{manager.Prefix(atID), manager.Limit(from.Limit)}
		if from.ID != "" {
			opts = append(opts, manager.After(atID+manager.Key(from.ID)))
		}
		for entry, err := range s.state.List(ctx, opts...) {
			id := segment(strings.TrimPrefix(entry.Key, atID))
			var a *State
			switch {
			case err != nil && entry.Key == "":
				yield(nil, fail("list agents", categoryState, "", err))
				return
			case err == nil:
				a, err = s.Load(ctx, id)
			}
			if isNotFound(err) {
				continue // deleted meanwhile
			}
			if err != nil {
				a = &State{ID: id}
			}
			if !yield(a, fail("list agents", categoryState, id, err)) {
				return
			}
		}
	}
}

// Delete removes an agent with its conversations, their messages, its checkpoints,
// the [Fields] of that key, the sessions of package session that belong to it, with
// their events, and whatever else is kept of it, and tells whether any of it was there.
// It is gone at once, for everybody; what it took is given back before Delete returns,
// or later when that is interrupted. Fields that are kept under a [CheckpointKey] are not
// the agent's: see [Fields.Delete]. Nor are sessions that belong to no agent, in which
// several may have a part.
func (s *Store) Delete(ctx context.Context, id string) (existed bool, err error) {
	err = s.update(ctx, turn{agent: id}, func(s *Store) error {
		au, found, err := s.agent(ctx, id)
		if err != nil {
			return err
		}
		fields, err := s.Fields(id).clear(ctx)
		if err == nil && !found { // what is left of one whose index was lost
			au, found, err = s.orphan(ctx, id)
		}
		if err != nil {
			return err
		}
		sessions, err := s.books.DeleteOwned(ctx, s.tx, id)
		if existed = found || fields || sessions > 0; !found || err != nil {
			return err
		}
		if err := s.save(ctx, s.state, atGone+au, goneRecord{id}); err != nil {
			return err
		}
		if _, err := s.state.DeleteMany(ctx, atID+manager.Key(id), atHead+manager.Key(id), atLedger+au); err != nil {
			return err
		}
		s.collectAfter(au, "")
		return nil
	})
	return existed && err == nil, fail("delete agent", categoryState, id, err)
}
