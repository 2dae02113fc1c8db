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

// mending replaces what can't be read of an agent, so that a checkpoint can take its
// place and the rest of it is kept in the recovery checkpoint.
type mending struct {
	*edit
	lost []lost
}

// lost is a record that could not be read.
type lost struct {
	at  string          // what it was of
	raw json.RawMessage // what was stored, nil when the tier can't read it
}

// mend takes away what can't be read of the agent's own records, its conversations
// and their messages. Heads are replaced by what is known of them from elsewhere.
// Counts are not kept: see recount.
func (e *edit) mend(ctx context.Context) ([]lost, error) {
	m := &mending{edit: e}
	for _, step := range []func(context.Context) error{m.state, m.own, m.heads} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return m.lost, nil
}

// away removes a record that can't be read and takes note of it.
func (m *mending) away(ctx context.Context, c *manager.Collection[json.RawMessage], key, what string, raw json.RawMessage) error {
	m.lost = append(m.lost, lost{what, raw})
	return m.remove(ctx, c, key)
}

// unread tells whether stored bytes do not hold a T.
func unread[T any](s *Store, raw json.RawMessage) (v T, bad bool) {
	return v, raw == nil || s.decode(raw, &v) != nil
}

func (m *mending) state(ctx context.Context) error {
	key := atHead + manager.Key(m.led.AgentID)
	raw, err := m.peek(ctx, m.edit.state, key)
	if err != nil {
		return err
	}
	if _, bad := unread[stateRecord](m.Store, raw); !bad {
		return nil
	}
	if err := m.away(ctx, m.edit.state, key, "agent "+m.led.AgentID, raw); err != nil {
		return err
	}
	now := now(m.core.clock)
	return m.save(ctx, m.edit.state, key, stateRecord{
		Since: m.since(), Inner: m.au, ID: m.led.AgentID, Created: now, Modified: now, Version: 1,
	})
}

func (m *mending) own(ctx context.Context) error {
	prefix := atOwn + m.au + "/"
	all, err := m.under(ctx, m.edit.state, prefix)
	for _, entry := range all {
		r, bad := unread[ownRecord](m.Store, entry.raw)
		if !bad {
			_, bad = unread[any](m.Store, r.Value)
		}
		if bad && err == nil {
			err = m.away(ctx, m.edit.state, prefix+entry.rest, "custom entry "+segment(entry.rest), entry.raw)
		}
	}
	return err
}

func (m *mending) heads(ctx context.Context) error {
	prefix := atHead + m.au + "/"
	all, err := m.under(ctx, m.conversations, prefix)
	if err != nil {
		return err
	}
	for _, head := range all {
		id := segment(head.rest)
		ref, err := m.mendHead(ctx, id, head.raw)
		if err != nil {
			return err
		}
		if ref.Inner != "" {
			if err := m.messages(ctx, id, ref.Inner); err != nil {
				return err
			}
		}
	}
	return nil
}

// mendHead replaces a head that can't be read, and what says where the conversation
// is. Without either nobody knows which messages were its: they stay out of reach,
// and go with the agent.
func (m *mending) mendHead(ctx context.Context, id string, raw json.RawMessage) (ref conversationRef, err error) {
	h, bad := unread[headRecord](m.Store, raw)
	there, err := m.peek(ctx, m.conversations, atID+manager.Key(id))
	if err != nil {
		return ref, err
	}
	ref, lostRef := unread[conversationRef](m.Store, there)
	lostRef = lostRef || ref.Inner == ""
	found := !lostRef && ref.Agent == m.au
	if !found && there != nil && !lostRef {
		return ref, corrupt(atID+manager.Key(id), errors.New("it says that the conversation is elsewhere"))
	}
	if !bad && !found {
		if err := m.remove(ctx, m.conversations, atID+manager.Key(id)); err != nil {
			return ref, err
		}
		ref = conversationRef{AgentID: m.led.AgentID, Agent: m.au, Inner: h.Inner}
		m.lost = append(m.lost, lost{"index of conversation " + id, nil})
		return ref, m.save(ctx, m.conversations, atID+manager.Key(id), ref)
	}
	if !bad {
		return ref, nil
	}
	at := m.au + "/" + manager.Key(id)
	if err := m.away(ctx, m.conversations, atHead+at, "conversation "+id, raw); err != nil {
		return ref, err
	}
	if !found {
		_, err := m.conversations.Delete(ctx, atActive+at)
		return conversationRef{}, err
	}
	h = m.standIn(ctx, ref, id)
	return ref, m.save(ctx, m.conversations, atHead+at, h)
}

// standIn answers what is known of a head from elsewhere.
func (e *edit) standIn(ctx context.Context, ref conversationRef, id string) headRecord {
	h := headRecord{Since: e.since(), Inner: ref.Inner, Born: e.since(), ID: id, AgentID: e.led.AgentID, Created: now(e.core.clock)}
	raw, err := e.peek(ctx, e.conversations, atActive+e.au+"/"+manager.Key(id))
	if active, bad := unread[activeRecord](e.Store, raw); !bad {
		h.Created = active.Created
	}
	h.Archived = raw == nil && err == nil
	// Some checkpoint may show it: then its messages have to stay when it goes.
	if e.led.Newest > 0 {
		h.Born = 1
	}
	return h
}

func (m *mending) messages(ctx context.Context, id, cu string) error {
	prefix := messagePrefix(m.au, cu)
	all, err := m.under(ctx, m.conversations, prefix)
	if err != nil {
		return err
	}
	placed, err := m.placedIn(ctx, cu)
	if err != nil {
		return err
	}
	gone := make(map[uint64]bool)
	for _, r := range all {
		seq, ok := lastNumber(r.rest)
		if ok && r.raw != nil {
			err := m.aside(ctx, func(s *Store) error {
				msg, err := s.decodeMessage(ctx, m.au, cu, seq, r.raw)
				if err == nil {
					err = placed.stranger(msg.ID, seq)
				}
				return err
			})
			if err == nil {
				continue
			}
			if !errors.Is(err, tiers.ErrCorrupt) {
				return err
			}
		}
		gone[seq] = true
		if err := m.giveUp(ctx, messagePart(cu, seq), r.raw); err != nil {
			return err
		}
		if err := m.away(ctx, m.conversations, prefix+r.rest, "message "+r.rest+" of conversation "+id, r.raw); err != nil {
			return err
		}
	}
	if len(gone) == 0 {
		return nil
	}
	for _, index := range []string{atKnown, atCall} {
		prefix := index + m.au + "/" + cu + "/"
		all, err := m.under(ctx, m.conversations, prefix)
		if err != nil {
			return err
		}
		for _, r := range all {
			p, bad := unread[place](m.Store, r.raw)
			if bad || gone[p.Seq] {
				if err := m.remove(ctx, m.conversations, prefix+r.rest); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// mostKept bounds how much of what could not be read is kept in the metadata of the
// recovery checkpoint, in bytes.
const mostKept = 64 << 10

// kept tells in a checkpoint's description and metadata what is not in it.
func (in *CheckpointInfo) kept(all []lost) {
	if len(all) == 0 {
		return
	}
	var names []string
	in.Metadata = make(map[string]string)
	left := mostKept
	for _, l := range all {
		if len(names) < 20 {
			names = append(names, l.at)
		}
		if left -= len(l.at) + len(l.raw); left >= 0 {
			in.Metadata["unreadable "+l.at] = strings.ToValidUTF8(string(l.raw), "\uFFFD")
		}
	}
	if more := len(all) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	in.Description = "Could not be read and is not in it: " + strings.Join(names, ", ")
}

// asFound tells in a checkpoint's description whose records are in it that are not those
// that were counted when they were saved.
func (in *CheckpointInfo) asFound(others []string) {
	var names []string
	for _, id := range others {
		switch {
		case len(names) == 20:
			names = append(names, fmt.Sprintf("%d more", len(others)-20))
		case len(names) > 20:
		case id == "":
			names = append(names, "the agent itself")
		default:
			names = append(names, "conversation "+id)
		}
	}
	if len(names) == 0 {
		return
	}
	if in.Description != "" {
		in.Description += ". "
	}
	in.Description += "Does not have its sum and is in it as it was found: " + strings.Join(names, ", ")
}
