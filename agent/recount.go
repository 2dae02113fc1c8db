package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// Recount counts an agent's records again, and takes what is there for right. It is
// for after records were changed by other means than a Store, by hand for example:
// until then checkpoints of that agent do not pass their integrity check. Checkpoints
// that show what was changed never will again.
func (s *Store) Recount(ctx context.Context, agentID string) error {
	err := s.update(ctx, turn{agent: agentID}, func(s *Store) error {
		e, err := s.openAgent(ctx, agentID)
		if err != nil {
			return err
		}
		if err := e.recount(ctx); err != nil {
			return err
		}
		if err := e.flush(ctx); err != nil {
			return err
		}
		return e.saveLedger(ctx)
	})
	return fail("recount", categoryState, agentID, err)
}

// recount makes the counts what the records say. Neither they nor the ledger are
// saved.
func (e *edit) recount(ctx context.Context) error {
	own, err := e.unit(ctx, "")
	if err != nil {
		return err
	}
	own.totals = totals{}
	head, err := e.raw(ctx, e.state, atHead+manager.Key(e.led.AgentID))
	if err != nil {
		return err
	}
	own.count(partState, head, 1)
	if _, err := e.countAll(ctx, own, e.state, atOwn+e.au+"/", partOwn); err != nil {
		return err
	}
	var all totals
	prefix := atHead + e.au + "/"
	for entry, err := range e.conversations.List(ctx, manager.Prefix(prefix)) {
		if err != nil {
			return err
		}
		var h headRecord
		if err := e.decode(entry.Value, &h); err != nil {
			return corrupt(entry.Key, err)
		}
		u, err := e.unit(ctx, h.Inner)
		if err != nil {
			return err
		}
		u.totals = totals{Conversations: 1}
		u.count(partHead+strings.TrimPrefix(entry.Key, prefix), entry.Value, 1)
		if u.Messages, err = e.countAll(ctx, u, e.conversations, messagePrefix(e.au, h.Inner), partMessage+h.Inner+"/"); err != nil {
			return err
		}
		all.add(u.totals)
	}
	for entry, err := range e.conversations.List(ctx, manager.Prefix(atDirty+e.au+"/"), manager.KeysOnly()) {
		if err != nil {
			return err
		}
		if _, err := e.conversations.Delete(ctx, entry.Key); err != nil {
			return err
		}
	}
	e.led.Total = all
	e.led.Rounds++
	return nil
}

// countAll counts the records under a prefix.
func (e *edit) countAll(ctx context.Context, u *unit, c *manager.Collection[json.RawMessage], prefix, part string) (n int, err error) {
	for entry, err := range c.List(ctx, manager.Prefix(prefix)) {
		if err != nil && (entry.Key == "" || !errors.Is(err, tiers.ErrCorrupt)) {
			return n, err
		}
		if err != nil {
			continue // what can't be read is not counted
		}
		u.count(part+strings.TrimPrefix(entry.Key, prefix), entry.Value, 1)
		n++
	}
	return n, nil
}

// readable answers the records under a prefix by the rest of their keys. One that
// the tier can't read has no bytes: it can be replaced, and not be kept.
func (e *edit) readable(ctx context.Context, c *manager.Collection[json.RawMessage], prefix string) (map[string]json.RawMessage, error) {
	all := make(map[string]json.RawMessage)
	for entry, err := range c.List(ctx, manager.Prefix(prefix)) {
		if err != nil && (entry.Key == "" || !errors.Is(err, tiers.ErrCorrupt)) {
			return nil, err
		}
		rest := strings.TrimPrefix(entry.Key, prefix)
		if all[rest] = entry.Value; err != nil {
			all[rest] = nil
		}
	}
	return all, nil
}

// remove takes away what can't be read.
func (e *edit) remove(ctx context.Context, c *manager.Collection[json.RawMessage], key string) error {
	if _, err := c.Delete(ctx, key); err != nil {
		return fmt.Errorf("the record %q can't be read, nor removed: %w", key, err)
	}
	return nil
}
