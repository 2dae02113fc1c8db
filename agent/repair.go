package agent

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// Repair makes an agent sound again after records were damaged or changed by other
// means than a [Store], in one transaction. What can be read is taken for right; what
// can't is removed, and replaced where it is known from elsewhere; indexes and counts
// are made again. When something was removed, the answer is a recovery checkpoint of
// what is left, which names it in its Description and has what was stored in its
// Metadata, 64 KiB of it at most; else it has the AgentID alone. The Description says as
// well of which records the sums did not fit, so that they may be others than were saved.
//
// Checkpoints that show what was changed never pass their integrity check again, and
// stay as they are. One that can't be read, and a conversation of which neither the
// head nor the index can be read, are not brought back.
func (s *Store) Repair(ctx context.Context, agentID string) (kept CheckpointInfo, err error) {
	err = s.update(ctx, turn{agent: agentID}, func(s *Store) error {
		kept = CheckpointInfo{AgentID: agentID}
		e, err := s.openDamaged(ctx, agentID)
		if err != nil {
			return err
		}
		again, err := e.headless(ctx)
		if err != nil {
			return err
		}
		removed, err := e.mend(ctx)
		if err != nil {
			return err
		}
		removed = append(again, removed...)
		if err := e.relist(ctx); err != nil {
			return err
		}
		others, err := e.recount(ctx, true)
		if err != nil {
			return err
		}
		if err := e.flush(ctx); err != nil {
			return err
		}
		if len(removed) > 0 {
			in := CheckpointInfo{Kind: Recovery, Name: "After a repair"}
			in.kept(removed)
			in.asFound(others)
			if kept, err = e.checkpoint(ctx, in); err != nil {
				return err
			}
			kept.AgentID = agentID
		}
		return e.saveLedger(ctx)
	})
	if err != nil {
		return CheckpointInfo{}, fail("repair", categoryState, agentID, err)
	}
	return kept, nil
}

// openDamaged answers an agent for changing it whose index or ledger may be damaged:
// the index is made again from its head, and a ledger begins anew after all that has
// ever been numbered.
func (s *Store) openDamaged(ctx context.Context, id string) (e *edit, err error) {
	err = s.aside(ctx, func(in *Store) error {
		e, err = in.openAgent(ctx, id)
		return err
	})
	if err == nil {
		return s.edit(e.au, e.led), nil
	}
	if isNotFound(reveal(err)) {
		au, found, e2 := s.orphan(ctx, id)
		if e2 != nil {
			return nil, e2
		}
		if !found || au == id {
			return nil, err
		}
		if err := s.save(ctx, s.state, atID+manager.Key(id), agentRef{au}); err != nil {
			return nil, err
		}
		return s.openDamaged(ctx, id)
	}
	if !errors.Is(err, tiers.ErrCorrupt) {
		return nil, err
	}
	raw, e2 := s.peek(ctx, s.state, atHead+manager.Key(id))
	if e2 != nil {
		return nil, e2
	}
	head, bad := unread[stateRecord](s, raw)
	if !bad && head.Inner != "" && (e == nil || e.au != head.Inner) {
		if err := s.remove(ctx, s.state, atID+manager.Key(id)); err != nil {
			return nil, err
		}
		if err := s.save(ctx, s.state, atID+manager.Key(id), agentRef{head.Inner}); err != nil {
			return nil, err
		}
		return s.openDamaged(ctx, id)
	}
	if e == nil || e.au == "" {
		return nil, err
	}
	e = s.edit(e.au, ledger{AgentID: id})
	if e.led.Last, err = e.highest(ctx); err != nil {
		return nil, err
	}
	units, err := e.readable(ctx, e.conversations, atSum+e.au+"/")
	for _, raw := range units {
		if u, bad := unread[unit](e.Store, raw); !bad {
			e.led.Rounds = max(e.led.Rounds, u.Round) // so that no change is taken for one that is noted
		}
	}
	return e, err
}

// headless brings back conversations whose heads are missing, with what is known of
// them from elsewhere. Counts of which nobody knows the conversation are given up,
// with its messages.
func (e *edit) headless(ctx context.Context) (again []lost, err error) {
	there, err := e.inners(ctx)
	if err != nil {
		return nil, err
	}
	units, err := e.readable(ctx, e.conversations, atSum+e.au+"/")
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(units, func(cu string, raw json.RawMessage) bool {
		u, bad := unread[unit](e.Store, raw)
		return there[cu] || !bad && (u.Dead || u.Conversations == 0)
	})
	if len(units) == 0 {
		return nil, nil
	}
	ids, err := e.under(ctx, e.conversations, atID)
	if err != nil {
		return nil, err
	}
	for _, one := range ids {
		ref, bad := unread[conversationRef](e.Store, one.raw)
		if _, headless := units[ref.Inner]; bad || ref.Agent != e.au || !headless {
			continue
		}
		delete(units, ref.Inner)
		again = append(again, lost{"conversation " + segment(one.rest), nil})
		if err := e.save(ctx, e.conversations, atHead+e.au+"/"+one.rest, e.standIn(ctx, ref, segment(one.rest))); err != nil {
			return nil, err
		}
	}
	for _, cu := range slices.Sorted(maps.Keys(units)) {
		u := unit{Dead: true}
		if err := e.save(ctx, e.conversations, atSum+e.au+"/"+cu, u); err != nil {
			return nil, err
		}
		again = append(again, lost{"a conversation without a name", units[cu]})
	}
	return again, nil
}

// inners answers the inner names of the conversations whose heads are there; one that
// can't be read is there by its index.
func (e *edit) inners(ctx context.Context) (map[string]bool, error) {
	heads, err := e.under(ctx, e.conversations, atHead+e.au+"/")
	if err != nil {
		return nil, err
	}
	all := make(map[string]bool, len(heads))
	for _, head := range heads {
		h, bad := unread[headRecord](e.Store, head.raw)
		if bad {
			raw, err := e.peek(ctx, e.conversations, atID+head.rest)
			if err != nil {
				return nil, err
			}
			ref, _ := unread[conversationRef](e.Store, raw)
			h.Inner = ref.Inner
		}
		all[h.Inner] = true
	}
	return all, nil
}

// relist makes the list of conversations that are not archived what their heads say.
func (e *edit) relist(ctx context.Context) error {
	heads, err := e.readable(ctx, e.conversations, atHead+e.au+"/")
	if err != nil {
		return err
	}
	active, err := e.readable(ctx, e.conversations, atActive+e.au+"/")
	if err != nil {
		return err
	}
	for key, raw := range heads {
		h, bad := unread[headRecord](e.Store, raw)
		if _, missing := unread[activeRecord](e.Store, active[key]); bad || h.Archived || !missing {
			continue
		}
		if err := e.save(ctx, e.conversations, atActive+e.au+"/"+key, activeRecord{h.Created}); err != nil {
			return err
		}
	}
	for key := range active {
		if _, there := heads[key]; !there {
			if err := e.remove(ctx, e.conversations, atActive+e.au+"/"+key); err != nil {
				return err
			}
		}
	}
	return nil
}

// highest answers the highest number that anything of an agent knows of.
func (e *edit) highest(ctx context.Context) (last uint64, err error) {
	for _, of := range []struct {
		c      *manager.Collection[json.RawMessage]
		prefix string
	}{
		{e.checkpoints, atInfo}, {e.state, atOwn}, {e.conversations, atHead}, {e.conversations, atMessage}, {e.state, atHistory}, {e.conversations, atHistory},
	} {
		all, err := e.under(ctx, of.c, of.prefix+e.au+"/")
		if err != nil {
			return 0, err
		}
		for _, r := range all {
			n := uint64(0)
			switch k, ok := parseHistory(e.au, of.prefix+e.au+"/"+r.rest); {
			case of.prefix == atInfo:
				n, _ = lastNumber(r.rest)
			case ok:
				n = k.until - 1
			default:
				if since, is := readSince(r.raw); is && since > 0 {
					n = since - 1
				}
			}
			last = max(last, n)
		}
	}
	head, err := e.peek(ctx, e.state, atHead+manager.Key(e.led.AgentID))
	if since, is := readSince(head); is && since > 0 {
		last = max(last, since-1)
	}
	return last, err
}

// recountPoints makes the ledger say what checkpoints there are. One that can't be
// read counts as one that may not be removed.
func (e *edit) recountPoints(ctx context.Context) error {
	all, err := e.under(ctx, e.checkpoints, atInfo+e.au+"/")
	if err != nil {
		return err
	}
	e.led.Newest, e.led.Kept, e.led.Untagged = 0, 0, 0
	for _, one := range all {
		n, ok := lastNumber(one.rest)
		if !ok {
			continue
		}
		e.led.Newest, e.led.Last = n, max(e.led.Last, n)
		if r, bad := unread[infoRecord](e.Store, one.raw); !bad {
			e.led.counted(r.Keep, 1)
		}
	}
	return nil
}

// unitAnew answers the counts of a conversation, for counting them again: where they
// can't be read, nothing is known of them but what is counted then.
func (e *edit) unitAnew(ctx context.Context, cu string) (u *unit, anew bool, err error) {
	c, key := e.unitAt(cu)
	raw, err := e.peek(ctx, c, key)
	if err != nil {
		return nil, false, err
	}
	if _, anew = unread[unit](e.Store, raw); anew {
		if err := e.save(ctx, c, key, unit{}); err != nil {
			return nil, false, err
		}
	}
	u, err = e.unit(ctx, cu)
	return u, anew, err
}

// placed makes the index of a conversation's messages say where they are, and the
// counts what comes next.
func (e *edit) placed(ctx context.Context, u *unit, cu string) error {
	known, err := e.readable(ctx, e.conversations, atKnown+e.au+"/"+cu+"/")
	if err != nil {
		return err
	}
	for _, raw := range known {
		if p, bad := unread[place](e.Store, raw); !bad {
			u.Next = max(u.Next, p.Seq+1)
		}
	}
	all, err := e.under(ctx, e.conversations, messagePrefix(e.au, cu))
	if err != nil {
		return err
	}
	for _, one := range all {
		seq, ok := lastNumber(one.rest)
		m, bad := unread[messageRecord](e.Store, one.raw)
		if !ok || bad || m.lacks() != nil {
			continue
		}
		u.Next, u.Last = max(u.Next, seq+1), later(u.Last, m.At)
		if p, bad := unread[place](e.Store, known[manager.Key(m.ID)]); bad || p.Deleted || p.Seq != seq {
			if err := e.save(ctx, e.conversations, e.knownKey(cu, m.ID), place{Seq: seq}); err != nil {
				return err
			}
		}
	}
	return nil
}
