package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// RestoreOptions are what a restore may do otherwise.
type RestoreOptions struct {
	KeepNewer  bool // conversations that were begun since stay
	NoRecovery bool // the present is not kept in a recovery checkpoint
	OrOlder    bool // when the checkpoint is damaged, the next older sound one is taken that is not [CheckpointInfo.Doubtful]
}

// Restore makes an agent what a checkpoint shows, or a conversation when that is
// all it covers, in one transaction. Id is that of a checkpoint, or "latest"; an
// empty agentID is that of the checkpoint. What is damaged, shows another agent, or is
// another agent's changes nothing: tiers.ErrCorrupt, tiers.ErrNotFound.
//
// It answers the recovery checkpoint that the present was kept in, which undoes
// the restore; with NoRecovery it has the AgentID alone. What could not be read of
// the present is replaced all the same: the recovery checkpoint names it in its
// Description, and has what was stored in its Metadata, 64 KiB of it at most. What could be
// read and is not what had been saved is in it as it was found, and named as well; in both
// cases it is Doubtful.
func (s *Store) Restore(ctx context.Context, agentID, id string, o RestoreOptions) (before CheckpointInfo, err error) {
	err = s.update(ctx, turn{agent: agentID}, func(s *Store) (err error) {
		before, err = s.restore(ctx, agentID, id, o)
		return err
	})
	if err != nil {
		if errors.Is(err, tiers.ErrCorrupt) {
			err = tiers.Hint(err, "OrOlder takes the next older sound one")
		}
		return CheckpointInfo{}, fail("restore checkpoint", categoryCheckpoints, id, err)
	}
	return before, nil
}

func (s *Store) restore(ctx context.Context, agentID, id string, o RestoreOptions) (before CheckpointInfo, err error) {
	var e *edit
	var n uint64
	var r infoRecord
	err = s.aside(ctx, func(in *Store) (err error) {
		e, n, r, _, err = in.locate(ctx, agentID, id)
		return err
	})
	if e != nil {
		e.Store = s
	}
	var sh *shown
	if err == nil {
		sh, err = e.restorable(ctx, &r, n)
	}
	for scope := r.Conversation; e != nil && errors.Is(err, tiers.ErrCorrupt) && o.OrOlder; {
		older, e2 := e.neighbour(ctx, n, manager.Reverse())
		if older == 0 || e2 != nil {
			return before, errors.Join(err, e2)
		}
		e2 = s.aside(ctx, func(in *Store) (err error) {
			r, _, err = in.info(ctx, e.au, older)
			return err
		})
		if e2 == nil && r.Conversation == scope && !r.Doubtful {
			sh, err = e.restorable(ctx, &r, older)
		}
		n = older
	}
	if err != nil {
		return before, err
	}
	if r.Copy {
		sh.rename(e)
	}
	unreadable, err := e.mend(ctx) // what is to be replaced may be damaged
	if err != nil {
		return before, err
	}
	others, err := e.recount(ctx, false)
	if err != nil {
		return before, err
	}
	if err := e.flush(ctx); err != nil {
		return before, err
	}
	before.AgentID = e.led.AgentID
	if !o.NoRecovery {
		in := CheckpointInfo{
			Kind: Recovery, Name: fmt.Sprintf("Before restoring %s", r.checkpointInfo(e.au, e.led.AgentID, n, 0).ID),
			Conversation: e.covers(ctx, r.Conversation),
		}
		in.kept(unreadable)
		if in.Conversation != "" { // the others are not in it
			others = slices.DeleteFunc(others, func(id string) bool { return id != in.Conversation })
		}
		in.asFound(others)
		in.Doubtful = len(unreadable)+len(others) > 0
		before, err = e.checkpoint(ctx, in)
		if err != nil {
			return before, err
		}
	}
	if r.Conversation == "" {
		if err := e.restoreState(ctx, sh); err != nil {
			return before, err
		}
		if err := e.restartRun(ctx, r.Iteration); err != nil {
			return before, err
		}
	}
	if err := e.restoreConversations(ctx, sh, &r, n, o.KeepNewer); err != nil {
		return before, err
	}
	if !o.NoRecovery {
		e.clean(ctx, s.core.plan.get().Max, n, before.Number)
	}
	if err := e.flush(ctx); err != nil {
		return before, err
	}
	return before, e.saveLedger(ctx)
}

// covers answers what the recovery checkpoint of a restore covers: a conversation,
// or the agent with all of them when that conversation is no more.
func (e *edit) covers(ctx context.Context, conversation string) string {
	if conversation == "" {
		return ""
	}
	if ref, _, found, err := e.conversation(ctx, conversation); err != nil || !found || ref.Agent != e.au {
		return ""
	}
	return conversation
}

// restoreState makes the agent's own records those that are shown.
func (e *edit) restoreState(ctx context.Context, sh *shown) error {
	u, err := e.unit(ctx, "")
	if err != nil {
		return err
	}
	prefix := atOwn + e.au + "/"
	stored, err := e.readable(ctx, e.state, prefix)
	if err != nil {
		return err
	}
	for part, raw := range sh.parts {
		key, is := strings.CutPrefix(part, partOwn)
		if !is {
			continue
		}
		var r ownRecord
		if err := e.decode(raw, &r); err != nil {
			return corrupt(part, err)
		}
		if err := e.putOwn(ctx, u, key, r, stored[key]); err != nil {
			return err
		}
	}
	for key, old := range stored {
		if sh.parts[partOwn+key] == nil {
			if err := e.put(ctx, u, partOwn+key, prefix+key, old, nil); err != nil {
				return err
			}
		}
	}
	head := atHead + manager.Key(e.led.AgentID)
	old, err := e.raw(ctx, e.state, head)
	if err != nil {
		return err
	}
	var r stateRecord
	if err := e.decode(sh.parts[partState], &r); err != nil {
		return corrupt(partState, err)
	}
	r.Inner = e.au
	if old != nil {
		same := r
		same.Since, _ = readSince(old)
		if raw, err := e.encode(same); err == nil && string(raw) == string(old) {
			return nil
		}
	}
	r.Since = e.since()
	raw, err := e.encode(r)
	if err != nil {
		return err
	}
	return e.put(ctx, u, partState, head, old, raw)
}

// restoreConversations makes the conversations those that are shown.
func (e *edit) restoreConversations(ctx context.Context, sh *shown, r *infoRecord, n uint64, keepNewer bool) error {
	var stored []string
	prefix := atHead + e.au + "/"
	for entry, err := range e.conversations.List(ctx, manager.Prefix(prefix), manager.KeysOnly()) {
		if err != nil {
			return err
		}
		stored = append(stored, segment(strings.TrimPrefix(entry.Key, prefix)))
	}
	for _, id := range stored {
		if sh.heads[id] != nil || r.Conversation != "" {
			continue
		}
		ref, _, found, err := e.conversation(ctx, id)
		if err != nil || !found {
			return errors.Join(err, corrupt(prefix+manager.Key(id), errors.New("nothing says where it is")))
		}
		h, _, err := e.head(ctx, ref, id)
		if err != nil {
			return err
		}
		if keepNewer && (h.Born > n || r.Copy) {
			continue
		}
		if err := e.dropConversation(ctx, ref, id); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(sh.heads)) {
		if err := e.restoreConversation(ctx, sh, sh.heads[id]); err != nil {
			return err
		}
	}
	return nil
}

func (e *edit) restoreConversation(ctx context.Context, sh *shown, want *headRecord) error {
	ref, led, found, err := e.conversation(ctx, want.ID)
	if err != nil {
		return err
	}
	if found && ref.Agent != e.au {
		return refuse(tiers.Hint(fmt.Errorf("conversation %q is one of agent %q by now: %w", want.ID, led.AgentID, tiers.ErrExists),
			"delete that one, or fork the checkpoint"))
	}
	if found && ref.Inner != want.Inner {
		if err := e.dropConversation(ctx, ref, want.ID); err != nil {
			return err
		}
		found = false
	}
	h := *want
	if !found {
		if err := e.revive(ctx, sh, &h); err != nil {
			return err
		}
	} else {
		stored, entry, err := e.head(ctx, ref, want.ID)
		if err != nil {
			return err
		}
		if !h.conversation().sameHead(stored.conversation()) {
			if err := e.changeHead(ctx, &h, entry.Value, nil); err != nil {
				return err
			}
		}
	}
	return e.restoreMessages(ctx, sh, &h)
}

// revive brings the head of a conversation back that was deleted.
func (e *edit) revive(ctx context.Context, sh *shown, h *headRecord) error {
	for _, key := range sh.whole[h.Inner] {
		if _, err := e.conversations.Delete(ctx, key); err != nil {
			return err
		}
	}
	u, err := e.unit(ctx, h.Inner)
	if err != nil {
		return err
	}
	u.Dead = false
	return e.placeHead(ctx, h)
}

// restoreMessages makes the messages of a conversation those that are shown.
func (e *edit) restoreMessages(ctx context.Context, sh *shown, h *headRecord) error {
	cu := h.Inner
	u, err := e.unit(ctx, cu)
	if err != nil {
		return err
	}
	stored, err := e.readable(ctx, e.conversations, messagePrefix(e.au, cu))
	if err != nil {
		return err
	}
	u.Last, u.Messages = h.Created, 0
	shows, parents := make(map[string]bool), make(map[string]bool)
	asked := make(map[string]uint64) // for each tool call, by its id: the newest message
	for _, seq := range sh.sequences(cu) {
		part := messagePart(cu, seq)
		m, err := e.decodeMessage(ctx, e.au, cu, seq, sh.parts[part])
		if err != nil {
			return err
		}
		u.Last, u.Messages, u.Next = later(u.Last, m.At), u.Messages+1, max(u.Next, seq+1)
		shows[m.ID] = true
		if m.ParentID != "" {
			parents[m.ParentID] = true
		}
		for _, t := range m.ToolCalls {
			asked[t.ID] = max(asked[t.ID], seq)
		}
		old := stored[numbered(seq)]
		delete(stored, numbered(seq))
		if string(old) == string(sh.parts[part]) {
			continue
		}
		if err := e.save(ctx, e.conversations, e.knownKey(cu, m.ID), place{Seq: seq}); err != nil {
			return err
		}
		if err := e.write(ctx, u, cu, seq, old, &m); err != nil {
			return err
		}
	}
	for _, number := range slices.Sorted(maps.Keys(stored)) {
		seq, ok := lastNumber(number)
		if !ok || stored[number] == nil {
			if err := e.remove(ctx, e.conversations, messagePrefix(e.au, cu)+number); err != nil {
				return err
			}
			continue
		}
		if err := e.unsay(ctx, u, cu, seq, stored[number], asked); err != nil {
			return err
		}
	}
	maps.DeleteFunc(parents, func(id string, _ bool) bool { return shows[id] })
	return e.await(ctx, cu, parents)
}

// unsay removes a message as if it had never been. A tool call of it that a message
// has asked for that stays is that message's again.
func (e *edit) unsay(ctx context.Context, u *unit, cu string, seq uint64, raw json.RawMessage, asked map[string]uint64) error {
	var r messageRecord
	if e.decode(raw, &r) == nil {
		keys := []string{e.knownKey(cu, r.ID)}
		for _, t := range r.ToolCalls {
			key := e.callKey(cu, t.ID)
			if asked[t.ID] == 0 {
				keys = append(keys, key)
			} else if err := e.save(ctx, e.conversations, key, place{Seq: asked[t.ID]}); err != nil {
				return err
			}
		}
		if _, err := e.conversations.DeleteMany(ctx, keys...); err != nil {
			return err
		}
	}
	return e.put(ctx, u, messagePart(cu, seq), messageKey(e.au, cu, seq), raw, nil)
}
