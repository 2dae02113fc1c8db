package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/sagestore/sagestore/internal/conflict"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// SaveConversation stores the head of a conversation and those of its messages
// that are not stored yet, by id; it removes none and changes none. One with
// Revision 0 is created: tiers.ErrExists when there is one of that id. Else a head
// that differs from what is stored must have its revision, tiers.ErrConflict
// otherwise; messages are taken with an old one as well. On success Revision,
// Count, LastMessage and the sequences of the messages are set; in a transaction,
// when it is committed. What [Store.AppendMessage] refuses of messages is refused.
func (s *Store) SaveConversation(ctx context.Context, c *Conversation) error {
	err := s.update(ctx, turn{conversation: c.ID}, func(s *Store) error {
		e, h, err := s.saveHead(ctx, c)
		if err != nil {
			return err
		}
		placed, err := e.append(ctx, h.Inner, c.Messages)
		if err != nil {
			return err
		}
		u, err := e.unitFor(ctx, h.Inner)
		if err != nil {
			return err
		}
		if err := e.flush(ctx); err != nil {
			return err
		}
		key := atHead + e.au + "/" + manager.Key(c.ID)
		s.tx.OnCommit(func(context.Context) {
			if v := s.conversations.VersionIn(s.tx, key); v != 0 {
				c.Revision = v
			}
			u.seen(c)
			for i := range placed {
				c.Messages[i].Seq = placed[i]
			}
		})
		return nil
	})
	return fail("save conversation", categoryConversations, c.ID, err)
}

// unitFor answers counts without noting a change.
func (e *edit) unitFor(ctx context.Context, cu string) (unit, error) {
	c, key := e.unitAt(cu)
	if u := e.units[key]; u != nil {
		return *u, nil
	}
	u, _, err := load[unit](ctx, e.Store, c, key)
	return u, err
}

func (s *Store) saveHead(ctx context.Context, c *Conversation) (*edit, *headRecord, error) {
	ref, led, found, err := s.conversation(ctx, c.ID)
	switch {
	case err != nil:
		return nil, nil, err
	case c.Revision == 0 && found:
		return nil, nil, refuse(tiers.Hint(tiers.ErrExists, "append to it, or load it and save what was loaded"))
	case c.Revision != 0 && !found:
		return nil, nil, refuse(tiers.Hint(errNoConversation, "it was deleted; one with revision 0 is created anew"))
	case !found:
		return s.createConversation(ctx, c)
	case c.AgentID != ref.AgentID:
		return nil, nil, refuse(conflict.Errorf("it belongs to agent %q", ref.AgentID))
	}
	e := s.edit(ref.Agent, led)
	key := atHead + e.au + "/" + manager.Key(c.ID)
	stored, err := s.conversations.Entry(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	var h headRecord
	if err := s.decode(stored.Value, &h); err != nil {
		return nil, nil, corrupt(key, err)
	}
	if c.sameHead(h.conversation()) {
		return e, &h, nil
	}
	if stored.Version != c.Revision && !provisional(stored.Version) {
		return nil, nil, refuse(tiers.Hint(tiers.ErrConflict, "its head was saved by others since: load it again"))
	}
	return e, &h, e.changeHead(ctx, &h, stored.Value, func(h *headRecord) { h.take(c) })
}

func (s *Store) createConversation(ctx context.Context, c *Conversation) (*edit, *headRecord, error) {
	au, found, err := s.agent(ctx, c.AgentID)
	if err != nil {
		return nil, nil, err
	}
	if !found {
		return nil, nil, refuse(fmt.Errorf("agent %q: %w", c.AgentID, errNoAgent))
	}
	led, _, err := load[ledger](ctx, s, s.state, atLedger+au)
	if err != nil {
		return nil, nil, err
	}
	e := s.edit(au, led)
	h := &headRecord{Inner: innerName(), Born: e.since(), ID: c.ID, AgentID: c.AgentID}
	h.take(c)
	if h.Created.IsZero() {
		h.Created = now(s.core.clock)
	}
	return e, h, e.placeHead(ctx, h)
}

// placeHead stores a head where none is, with what finds it.
func (e *edit) placeHead(ctx context.Context, h *headRecord) error {
	ref := conversationRef{AgentID: h.AgentID, Agent: e.au, Inner: h.Inner}
	if err := e.save(ctx, e.conversations, atID+manager.Key(h.ID), ref); err != nil {
		return err
	}
	u, err := e.unit(ctx, h.Inner)
	if err != nil {
		return err
	}
	if u.Next == 0 {
		u.Next = 1
	}
	u.Conversations, u.Last = 1, later(u.Last, h.Created)
	return e.changeHead(ctx, h, nil, nil)
}

// changeHead writes a head over its old form, nil for none.
func (e *edit) changeHead(ctx context.Context, h *headRecord, old json.RawMessage, change func(*headRecord)) error {
	if change != nil {
		change(h)
	}
	u, err := e.unit(ctx, h.Inner)
	if err != nil {
		return err
	}
	h.Since = e.since()
	raw, err := e.encode(h)
	if err != nil {
		return refuse(err)
	}
	at := e.au + "/" + manager.Key(h.ID)
	var was headRecord
	switch known := old != nil && e.decode(old, &was) == nil; {
	case known && was.Archived == h.Archived && was.Created.Equal(h.Created): // that stays
	case h.Archived:
		_, err = e.conversations.Delete(ctx, atActive+at)
	default:
		err = e.save(ctx, e.conversations, atActive+at, activeRecord{h.Created})
	}
	if err != nil {
		return err
	}
	return e.put(ctx, u, partHead+manager.Key(h.ID), atHead+at, old, raw)
}

// open answers a conversation for changing it.
func (s *Store) open(ctx context.Context, id string) (*edit, conversationRef, error) {
	ref, led, found, err := s.conversation(ctx, id)
	if err == nil && !found {
		err = refuse(errNoConversation)
	}
	if err != nil {
		return nil, ref, err
	}
	return s.edit(ref.Agent, led), ref, nil
}

// head answers a conversation's head as it is stored.
func (s *Store) head(ctx context.Context, ref conversationRef, id string) (h headRecord, e manager.Entry[json.RawMessage], err error) {
	key := atHead + ref.Agent + "/" + manager.Key(id)
	e, err = s.conversations.Entry(ctx, key)
	if err == nil {
		if err = s.decode(e.Value, &h); err != nil {
			err = corrupt(key, err)
		}
	}
	return h, e, err
}

// ModifyConversation changes the head of a conversation: fn gets it, with the
// counts and without messages, and may run several times.
func (s *Store) ModifyConversation(ctx context.Context, id string, fn func(*Conversation) error) error {
	err := s.update(ctx, turn{conversation: id}, func(s *Store) error {
		e, ref, err := s.open(ctx, id)
		if err != nil {
			return err
		}
		h, entry, err := s.head(ctx, ref, id)
		if err != nil {
			return err
		}
		c := h.conversation()
		u, err := e.unitFor(ctx, ref.Inner)
		if err != nil {
			return err
		}
		u.seen(c)
		if err := fn(c); err != nil {
			return refuse(err)
		}
		if c.sameHead(h.conversation()) {
			return nil
		}
		if err := e.changeHead(ctx, &h, entry.Value, func(h *headRecord) { h.take(c) }); err != nil {
			return err
		}
		return e.flush(ctx)
	})
	return fail("modify conversation", categoryConversations, id, err)
}

// Archive takes a conversation from the active ones, or puts it back.
func (s *Store) Archive(ctx context.Context, id string, archived bool) error {
	return s.ModifyConversation(ctx, id, func(c *Conversation) error { c.Archived = archived; return nil })
}

// Tag adds tags to a conversation and takes others away.
func (s *Store) Tag(ctx context.Context, id string, add, remove []string) error {
	return s.ModifyConversation(ctx, id, func(c *Conversation) error {
		c.Tags = slices.DeleteFunc(slices.Clone(c.Tags), func(t string) bool { return slices.Contains(remove, t) })
		for _, t := range add {
			if !slices.Contains(c.Tags, t) {
				c.Tags = append(c.Tags, t)
			}
		}
		return nil
	})
}

// AutoTitle gives a conversation without a title one from its first message of a
// user that has text, see [Title], and answers the title that it has then.
func (s *Store) AutoTitle(ctx context.Context, id string) (title string, err error) {
	err = s.update(ctx, turn{conversation: id}, func(s *Store) error {
		e, ref, err := s.open(ctx, id)
		if err != nil {
			return err
		}
		h, entry, err := s.head(ctx, ref, id)
		if err != nil {
			return err
		}
		if title = h.Title; title != "" {
			return nil
		}
		for m, err := range s.messages(ctx, ref, messageRange{}) {
			if err != nil {
				return err
			}
			if title = titleOf(m); title != "" {
				break
			}
		}
		if title == "" {
			return nil
		}
		if err := e.changeHead(ctx, &h, entry.Value, func(h *headRecord) { h.Title = title }); err != nil {
			return err
		}
		return e.flush(ctx)
	})
	return title, fail("title conversation", categoryConversations, id, err)
}

// Conversations yields the heads of an agent's conversations, without messages:
// that with the newest message first, then by id. An agent that is not there has
// none. One that can't be read is an error beside a head that has only its id, and
// the list goes on; an error beside nil ends it.
func (s *Store) Conversations(ctx context.Context, agentID string, from After) iter.Seq2[*Conversation, error] {
	return func(yield func(*Conversation, error) bool) {
		all, bad, err := s.heads(ctx, agentID)
		if err == nil {
			err = from.check()
		}
		if err != nil {
			yield(nil, fail("list conversations", categoryConversations, "", err))
			return
		}
		n, skip := 0, from.ID != ""
		for _, c := range all {
			if skip {
				skip = c.ID != from.ID
				continue
			}
			if n++; from.Limit > 0 && n > from.Limit {
				return
			}
			if !yield(c, fail("list conversations", categoryConversations, c.ID, bad[c.ID])) {
				return
			}
		}
	}
}

// heads answers all heads of an agent in their order, and what is wrong with some.
func (s *Store) heads(ctx context.Context, agentID string) (all []*Conversation, bad map[string]error, err error) {
	bad = make(map[string]error)
	err = s.view(ctx, func(s *Store) error {
		all = nil
		au, found, err := s.agent(ctx, agentID)
		if err != nil || !found {
			return err
		}
		prefix := atHead + au + "/"
		for entry, err := range s.conversations.List(ctx, manager.Prefix(prefix)) {
			if err != nil && entry.Key == "" {
				return err
			}
			c := &Conversation{ID: segment(strings.TrimPrefix(entry.Key, prefix))}
			if err == nil {
				c, err = s.headAt(ctx, au, entry)
			}
			if err != nil {
				c = &Conversation{ID: segment(strings.TrimPrefix(entry.Key, prefix))}
				bad[c.ID] = err
			}
			all = append(all, c)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b *Conversation) int {
		return cmp.Or(b.LastMessage.Compare(a.LastMessage), strings.Compare(a.ID, b.ID))
	})
	return all, bad, reveal(err)
}

func (s *Store) headAt(ctx context.Context, au string, entry manager.Entry[json.RawMessage]) (*Conversation, error) {
	var h headRecord
	if err := s.decode(entry.Value, &h); err != nil {
		return nil, corrupt(entry.Key, err)
	}
	c := h.conversation()
	c.Revision = entry.Version
	col, key := s.unitAtOf(au, h.Inner)
	u, _, err := load[unit](ctx, s, col, key)
	u.seen(c)
	return c, err
}

// DeleteConversation removes a conversation with its messages and tells whether
// it was there. What checkpoints show of it stays for them.
func (s *Store) DeleteConversation(ctx context.Context, id string) (existed bool, err error) {
	err = s.update(ctx, turn{conversation: id}, func(s *Store) error {
		e, ref, err := s.open(ctx, id)
		if existed = err == nil; errors.Is(reveal(err), errNoConversation) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := e.dropConversation(ctx, ref, id); err != nil {
			return err
		}
		return e.flush(ctx)
	})
	return existed && err == nil, fail("delete conversation", categoryConversations, id, err)
}

// dropConversation takes a conversation away: its messages stay where they are as
// long as a checkpoint shows them.
func (e *edit) dropConversation(ctx context.Context, ref conversationRef, id string) error {
	at := e.au + "/" + manager.Key(id)
	old, err := e.peek(ctx, e.conversations, atHead+at)
	if err != nil {
		return err
	}
	h, bad := unread[headRecord](e.Store, old)
	if bad {
		h, old = e.standIn(ctx, ref, id), nil // so that it can be deleted
	}
	if _, err := e.conversations.DeleteMany(ctx, atID+manager.Key(id), atActive+at); err != nil {
		return err
	}
	u, err := e.unit(ctx, ref.Inner)
	if err != nil {
		return err
	}
	if err := e.put(ctx, u, partHead+manager.Key(id), atHead+at, old, nil); err != nil {
		return err
	}
	u.Dead = true
	if h.Born <= e.led.Newest {
		whole := historyKey(e.au, e.since(), h.Born, partWhole+ref.Inner)
		return e.save(ctx, e.conversations, whole, wholeRecord{ID: id})
	}
	dirty := atDirty + e.au + "/" + ref.Inner
	if before, _, err := load[totals](ctx, e.Store, e.conversations, dirty); err != nil {
		return err
	} else if before == (totals{}) { // no checkpoint has counted it, and none will
		if _, err := e.conversations.Delete(ctx, dirty); err != nil {
			return err
		}
	}
	return e.gone(ctx, ref.Inner)
}

// gone has the messages of a conversation removed that nothing shows any more.
func (e *edit) gone(ctx context.Context, cu string) error {
	err := e.save(ctx, e.conversations, atGone+e.au+"/"+cu, goneRecord{e.led.AgentID})
	if err == nil {
		e.collectAfter(e.au, cu)
	}
	return err
}
