package agent

import (
	"context"
	"encoding/json"

	"github.com/sagestore/sagestore/manager"
)

// Recount counts an agent's records again, and takes what is there for right. It is
// for after records were changed by other means than a Store, by hand for example:
// until then checkpoints of that agent do not pass their integrity check. Checkpoints
// that show what was changed never will again. What can't be read stays: see
// [Store.Repair].
func (s *Store) Recount(ctx context.Context, agentID string) error {
	err := s.update(ctx, turn{agent: agentID}, func(s *Store) error {
		e, err := s.openAgent(ctx, agentID)
		if err != nil {
			return err
		}
		if _, err := e.recount(ctx, true); err != nil {
			return err
		}
		if err := e.flush(ctx); err != nil {
			return err
		}
		return e.saveLedger(ctx)
	})
	return fail("recount", categoryState, agentID, err)
}

// recount makes the counts what the records say, and with reindex the index of
// messages as well. Neither they nor the ledger are saved. It answers whose records were
// not those that had been counted: a conversation, or the agent as "".
func (e *edit) recount(ctx context.Context, reindex bool) (others []string, err error) {
	if err := e.recountPoints(ctx); err != nil {
		return nil, err
	}
	own, anew, err := e.unitAnew(ctx, "")
	if err != nil {
		return nil, err
	}
	counted := own.totals
	own.totals = totals{}
	head, err := e.raw(ctx, e.state, atHead+manager.Key(e.led.AgentID))
	if err != nil {
		return nil, err
	}
	own.count(partState, head, 1)
	if _, err := e.countAll(ctx, own, e.state, atOwn+e.au+"/", partOwn); err != nil {
		return nil, err
	}
	if anew || own.Sum != counted.Sum {
		others = append(others, "")
	}
	var all totals
	prefix := atHead + e.au + "/"
	heads, err := e.under(ctx, e.conversations, prefix)
	if err != nil {
		return nil, err
	}
	for _, head := range heads {
		var h headRecord
		if err := e.decode(head.raw, &h); err != nil {
			return nil, corrupt(prefix+head.rest, err)
		}
		u, anew, err := e.unitAnew(ctx, h.Inner)
		if err != nil {
			return nil, err
		}
		counted := u.totals
		if reindex || anew {
			if err := e.placed(ctx, u, h.Inner); err != nil {
				return nil, err
			}
		}
		u.Dead = false
		u.totals = totals{Conversations: 1}
		u.count(partHead+head.rest, head.raw, 1)
		if u.Messages, err = e.countAll(ctx, u, e.conversations, messagePrefix(e.au, h.Inner), partMessage+h.Inner+"/"); err != nil {
			return nil, err
		}
		if anew || u.Sum != counted.Sum {
			others = append(others, h.ID)
		}
		all.add(u.totals)
	}
	for entry, err := range e.conversations.List(ctx, manager.Prefix(atDirty+e.au+"/"), manager.KeysOnly()) {
		if err != nil {
			return nil, err
		}
		if _, err := e.conversations.Delete(ctx, entry.Key); err != nil {
			return nil, err
		}
	}
	e.led.Total = all
	e.led.Rounds++
	return others, nil
}

// countAll counts the records under a prefix. What can't be read is not counted.
func (e *edit) countAll(ctx context.Context, u *unit, c *manager.Collection[json.RawMessage], prefix, part string) (n int, err error) {
	all, err := e.under(ctx, c, prefix)
	for _, r := range all {
		if r.raw != nil {
			u.count(part+r.rest, r.raw, 1)
			n++
		}
	}
	return n, err
}
