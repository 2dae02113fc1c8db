package sessionlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// Books are where it is written which sessions there are, and what they hold.
type Books struct {
	m        *manager.Manager // nil when they were opened in a transaction
	sessions *manager.Collection[identity]
	notes    *manager.Collection[note]
	agents   *manager.Collection[json.RawMessage]
	events   *manager.Collection[json.RawMessage]
	holdings []*manager.Collection[json.RawMessage] // with keys below that of the session
}

// identity is of a session's own record what matters here.
type identity struct {
	Agent string `json:"agent_id,omitempty"`
}

type note struct {
	Session string `json:"session"`
}

// Of answers the books of a manager, or of a transaction.
func Of(s manager.Scope) Books {
	b := Books{
		sessions: manager.For[identity](s, "session.state"),
		notes:    manager.For[note](s, "session.state"),
		agents:   manager.For[json.RawMessage](s, "agent.state"),
		events:   manager.For[json.RawMessage](s, "session.events"),
	}
	b.holdings = []*manager.Collection[json.RawMessage]{
		b.events, manager.For[json.RawMessage](s, "session.history"), manager.For[json.RawMessage](s, "session.context"),
	}
	b.m, _ = s.(*manager.Manager)
	return b
}

// In answers the books as a transaction sees them.
func (b Books) In(tx *manager.Tx) Books {
	in := b
	in.sessions, in.notes, in.agents, in.events = b.sessions.In(tx), b.notes.In(tx), b.agents.In(tx), b.events.In(tx)
	in.holdings = make([]*manager.Collection[json.RawMessage], len(b.holdings))
	for i, c := range b.holdings {
		in.holdings[i] = c.In(tx)
	}
	return in
}

// provisional versions are those of what the transaction itself has written.
const provisional = 1 << 62

// errRemoving is what a session is answered whose namesake is still being removed.
var errRemoving = tiers.Hint(fmt.Errorf("%w: a deleted session of that id is still being removed", tiers.ErrConflict), "try again")

// Begin prepares the books for a new session, in a transaction of tx: what a deleted
// one of its id has left is removed first, and the manager lets it go on.
func (b Books) Begin(ctx context.Context, tx *manager.Tx, id string) error {
	in := b.In(tx)
	key := Key(id)
	removing, err := in.notes.Entry(ctx, gone+key)
	still := err == nil
	if err != nil && !errors.Is(err, tiers.ErrNotFound) {
		return err
	}
	removed, err := in.notes.Exists(ctx, over+key)
	if err != nil || !still && !removed {
		return err
	}
	if b.m == nil {
		return tiers.Hint(tiers.ErrUnsupported, "one of that id was deleted; make the store with New of a manager, and join the transaction with In")
	}
	if still {
		if removing.Version >= provisional {
			return tiers.Hint(fmt.Errorf("%w: one of that id is deleted by the same transaction", tiers.ErrExists), "commit that first")
		}
		if err := b.Finish(context.WithoutCancel(ctx), id); err != nil {
			return err
		}
		return errRemoving // for the next try
	}
	// It stands if the transaction does not: the session is empty and nobody's. If
	// another has begun it since the note was read, this transaction is in conflict.
	if err := b.m.ReopenSession(ctx, id, manager.OnlyIf(b.noted(over+key))); err != nil {
		return err
	}
	_, err = in.notes.Delete(ctx, over+key)
	return err
}

// Own notes that a new session belongs to an agent, in a transaction. With mustBe it
// is tiers.ErrNotFound when there is no such agent, then and at the commit.
func (b Books) Own(ctx context.Context, tx *manager.Tx, agent, id string, mustBe bool) error {
	if err := tiers.CheckName(ownedBy(agent) + Key(id)); err != nil {
		return tiers.Hint(err, "the IDs of a session and of the agent that it belongs to are part of one key")
	}
	in := b.In(tx)
	if mustBe {
		there, err := in.agents.Exists(ctx, agentKey(agent))
		if err != nil {
			return err
		}
		if !there {
			return tiers.Hint(fmt.Errorf("no such agent: %w", tiers.ErrNotFound), "save the agent before a session that belongs to it")
		}
	}
	return in.notes.Save(ctx, ownedBy(agent)+Key(id), note{id})
}

// Owned answers the sessions that belong to an agent, in the order of their keys.
func (b Books) Owned(ctx context.Context, agent string) (ids []string, err error) {
	prefix := ownedBy(agent)
	for e, err := range b.notes.List(ctx, manager.Prefix(prefix), manager.KeysOnly()) {
		if err != nil && e.Key == "" {
			return nil, err
		}
		ids = append(ids, strings.Join(manager.SplitKey(strings.TrimPrefix(e.Key, prefix)), "/"))
	}
	return ids, nil
}

// Delete removes what leads to a session, in a transaction, and tells whether there
// was anything. The rest goes after the commit.
func (b Books) Delete(ctx context.Context, tx *manager.Tx, id string) (existed bool, err error) {
	in := b.In(tx)
	key := Key(id)
	agent, err := b.owner(ctx, tx, id)
	if err != nil {
		return false, err
	}
	was, err := in.notes.DeleteMany(ctx, key, Ending+key)
	if err != nil {
		return false, err
	}
	logged, err := in.events.Delete(ctx, key)
	if err != nil {
		return false, err
	}
	if was == 0 && !logged {
		return false, nil
	}
	if agent != "" {
		if _, err := in.notes.Delete(ctx, ownedBy(agent)+key); err != nil {
			return false, err
		}
	}
	if err := in.notes.Save(ctx, gone+key, note{id}); err != nil {
		return false, err
	}
	if b.m != nil {
		tx.OnCommit(func(ctx context.Context) {
			_ = b.Finish(context.WithoutCancel(ctx), id) // it stays noted and is tried again
		})
	}
	return true, nil
}

// owner answers the agent that a session belongs to, "" for none.
func (b Books) owner(ctx context.Context, tx *manager.Tx, id string) (agent string, err error) {
	// At a savepoint, so that the transaction goes on after a record that can't be read.
	err = tx.Update(ctx, func(tx *manager.Tx) error {
		i, err := b.In(tx).sessions.Load(ctx, Key(id))
		agent = i.Agent
		return err
	})
	switch {
	case errors.Is(err, tiers.ErrCorrupt), errors.Is(err, tiers.ErrType):
		return b.In(tx).ownerByNote(ctx, id)
	case errors.Is(err, tiers.ErrNotFound):
		return "", nil
	}
	return agent, err
}

// ownerByNote looks for the owner of a session whose own record can't be read.
func (b Books) ownerByNote(ctx context.Context, id string) (agent string, err error) {
	for e, err := range b.notes.List(ctx, manager.Prefix(owned), manager.KeysOnly()) {
		if err != nil && e.Key == "" {
			return "", err
		}
		if segments := manager.SplitKey(strings.TrimPrefix(e.Key, owned)); len(segments) == 2 && segments[1] == id {
			return segments[0], nil
		}
	}
	return "", nil
}

// DeleteOwned removes what leads to the sessions of an agent, in a transaction, and
// answers how many these were.
func (b Books) DeleteOwned(ctx context.Context, tx *manager.Tx, agent string) (n int, err error) {
	ids, err := b.In(tx).Owned(ctx, agent)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		existed, err := b.Delete(ctx, tx, id)
		if err != nil {
			return 0, err
		}
		if !existed { // all but the note was lost
			if _, err := b.In(tx).notes.Delete(ctx, ownedBy(agent)+Key(id)); err != nil {
				return 0, err
			}
		}
	}
	return len(ids), nil
}
