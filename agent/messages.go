package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/sagestore/sagestore/internal/conflict"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// AppendMessage puts messages at the end of a conversation, each once: one whose
// id is there, or was there and was deleted, is passed over. It answers the highest
// sequence of the conversation. Its cost does not depend on how many messages there
// are.
//
// The result of a tool call, see [ToolResult], sets the call's result and status,
// unless that is final already; its call must be in the conversation. Where several
// messages ask for calls of one id, it is the result of the newest of them.
//
// A parent may be a message that is not there, or not yet. A message that would be its
// own ancestor, and two tool calls of one id in a message, are tiers.ErrType, and
// nothing of the call is stored.
func (s *Store) AppendMessage(ctx context.Context, conversation string, ms ...Message) (last uint64, err error) {
	err = s.update(ctx, turn{conversation: conversation}, func(s *Store) error {
		e, ref, err := s.open(ctx, conversation)
		if err != nil {
			return err
		}
		if _, err := e.append(ctx, ref.Inner, ms); err != nil {
			return err
		}
		u, err := e.unitFor(ctx, ref.Inner)
		if err != nil {
			return err
		}
		if u.Next > 0 {
			last = u.Next - 1
		}
		return e.flush(ctx)
	})
	if err != nil {
		return 0, fail("append message", categoryConversations, conversation, err)
	}
	return last, nil
}

// append stores those messages that are not there, and answers the sequences of
// all; 0 for one that was deleted.
func (e *edit) append(ctx context.Context, cu string, ms []Message) ([]uint64, error) {
	if len(ms) == 0 {
		return nil, nil
	}
	ready := make([]Message, len(ms))
	keys := make([]string, len(ms), 3*len(ms))
	var errs []error
	for i, m := range ms {
		var err error
		ready[i], err = m.checked(e.core.clock, e.lenient)
		errs = append(errs, err)
		keys[i] = e.knownKey(cu, m.ID)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, refuse(err)
	}
	for i := range ready {
		keys = append(keys, e.kinKeys(cu, &ready[i])...)
	}
	stored, err := e.conversations.LoadMany(ctx, keys...)
	if err != nil {
		return nil, err
	}
	relatives := kin{named: make(map[string]bool)}
	placed := make([]uint64, len(ms))
	fresh := make(map[string]uint64)
	for i := range ready {
		if raw, there := stored[keys[i]]; there {
			var p place
			if err := e.decode(raw, &p); err != nil {
				return nil, corrupt(keys[i], err)
			}
			if !p.Deleted {
				placed[i] = p.Seq
			}
			continue
		}
		if seq, twice := fresh[keys[i]]; twice {
			placed[i] = seq
			continue
		}
		if placed[i], err = e.add(ctx, cu, &ready[i]); err != nil {
			return nil, err
		}
		fresh[keys[i]] = placed[i]
		there := func(key string) bool { return stored[key] != nil || fresh[key] != 0 }
		if err := relatives.joins(ctx, e, cu, &ready[i], there); err != nil {
			return nil, err
		}
	}
	return placed, e.await(ctx, cu, relatives.named)
}

func (e *edit) knownKey(cu, id string) string {
	return atKnown + e.au + "/" + cu + "/" + manager.Key(id)
}

// add stores a new message.
func (e *edit) add(ctx context.Context, cu string, m *Message) (uint64, error) {
	u, err := e.unit(ctx, cu)
	if err != nil {
		return 0, err
	}
	if id := m.ToolCallID(); id != "" {
		if err := e.answer(ctx, cu, id, m); err != nil {
			return 0, err
		}
	}
	seq := max(u.Next, 1)
	u.Next, u.Last = seq+1, later(u.Last, m.At)
	u.Messages++
	if err := e.save(ctx, e.conversations, e.knownKey(cu, m.ID), place{Seq: seq}); err != nil {
		return 0, err
	}
	return seq, e.write(ctx, u, cu, seq, nil, m)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// write stores a message over its old form, nil for none.
func (e *edit) write(ctx context.Context, u *unit, cu string, seq uint64, old json.RawMessage, m *Message) error {
	r := messageRecord{Since: e.since(), Message: *m}
	r.Seq = 0
	contents := r.takeContents()
	if err := e.hold(ctx, cu, contents); err != nil {
		return err
	}
	raw, err := e.encode(r)
	if err != nil {
		return refuse(fmt.Errorf("message %q: %w", m.ID, err))
	}
	fresh := old == nil && seq+1 == u.Next
	for _, call := range m.ToolCalls {
		if err := e.calls(ctx, cu, call.ID, seq, fresh); err != nil {
			return err
		}
	}
	key := messageKey(e.au, cu, seq)
	return e.put(ctx, u, messagePart(cu, seq), key, old, raw, e.indexed(cu, m)...)
}

// calls notes that a message asks for a tool call, unless a newer one with the id of
// that call does. No message is newer than a fresh one.
func (e *edit) calls(ctx context.Context, cu, id string, seq uint64, fresh bool) error {
	key := e.callKey(cu, id)
	if !fresh {
		p, _, err := load[place](ctx, e.Store, e.conversations, key)
		if err != nil || p.Seq >= seq {
			return err
		}
	}
	return e.save(ctx, e.conversations, key, place{Seq: seq})
}

func (e *edit) callKey(cu, id string) string {
	return atCall + e.au + "/" + cu + "/" + ownKey(id)
}

// takeContents moves the large contents of attachments out of the record.
func (r *messageRecord) takeContents() map[string]string {
	var contents map[string]string
	atts := r.Attachments
	r.Attachments = nil
	for i, a := range atts {
		if len(a.Content) > inlineContent {
			sum := sha256.Sum256([]byte(a.Content))
			hash := hex.EncodeToString(sum[:])
			if contents == nil {
				contents, r.Contents = make(map[string]string), make(map[int]string)
			}
			contents[hash], r.Contents[i] = a.Content, hash
			a.Content = ""
		}
		r.Attachments = append(r.Attachments, a)
	}
	return contents
}

// answer sets the result and the status of a tool call.
func (e *edit) answer(ctx context.Context, cu, call string, result *Message) error {
	p, found, err := load[place](ctx, e.Store, e.conversations, e.callKey(cu, call))
	if err != nil {
		return err
	}
	if !found {
		if e.lenient {
			return nil
		}
		return refuse(tiers.Hint(fmt.Errorf("message %q is the result of tool call %q: no such call in the conversation: %w",
			result.ID, call, tiers.ErrNotFound), "append the message that asks for the call first"))
	}
	m, raw, err := e.message(ctx, cu, p.Seq)
	if err != nil || raw == nil {
		return err // the message that asked for it was deleted
	}
	for i := range m.ToolCalls {
		if t := &m.ToolCalls[i]; t.ID == call && !t.Status.final() {
			content := result.Content
			t.Result, t.Status = &content, result.outcome()
			u, err := e.unit(ctx, cu)
			if err != nil {
				return err
			}
			return e.write(ctx, u, cu, p.Seq, raw, &m)
		}
	}
	return nil
}

// message answers a message with its stored bytes, nil when it is not there.
func (e *edit) message(ctx context.Context, cu string, seq uint64) (m Message, raw json.RawMessage, err error) {
	key := messageKey(e.au, cu, seq)
	if raw, err = e.raw(ctx, e.conversations, key); raw == nil || err != nil {
		return m, nil, err
	}
	m, err = e.decodeMessage(ctx, e.au, cu, seq, raw)
	return m, raw, err
}

// decodeMessage brings back what a record says, with the contents that are stored
// by themselves.
func (s *Store) decodeMessage(ctx context.Context, au, cu string, seq uint64, raw json.RawMessage) (Message, error) {
	var r messageRecord
	key := messageKey(au, cu, seq)
	if err := s.decode(raw, &r); err != nil {
		return Message{}, corrupt(key, err)
	}
	if err := r.lacks(); err != nil {
		return Message{}, corrupt(key, err)
	}
	r.Seq = seq
	for i, hash := range r.Contents {
		if i < 0 || i >= len(r.Attachments) {
			return Message{}, corrupt(key, errors.New("content of no attachment"))
		}
		content, found, err := load[string](ctx, s, s.conversations, atContent+au+"/"+cu+"/"+hash)
		if err != nil {
			return Message{}, err
		}
		if sum := sha256.Sum256([]byte(content)); !found || hex.EncodeToString(sum[:]) != hash {
			return Message{}, corrupt(key, fmt.Errorf("the content of attachment %q is missing or another one", r.Attachments[i].Name))
		}
		r.Attachments[i].Content = content
	}
	return r.Message, nil
}

// EditMessage replaces a message by another of the same id; it keeps its place.
// The status of a tool call that is final can't be changed by it. A parent whose own
// parents lead back to the message is tiers.ErrType. One that is as it is stored
// writes nothing.
func (s *Store) EditMessage(ctx context.Context, conversation string, m Message) error {
	err := s.update(ctx, turn{conversation: conversation}, func(s *Store) error {
		e, ref, err := s.open(ctx, conversation)
		if err != nil {
			return err
		}
		p, found, err := load[place](ctx, s, s.conversations, e.knownKey(ref.Inner, m.ID))
		if err != nil {
			return err
		}
		if !found || p.Deleted {
			return refuse(fmt.Errorf("no message %q: %w", m.ID, tiers.ErrNotFound))
		}
		ready, err := m.checked(s.core.clock, s.lenient)
		if err != nil {
			return refuse(err)
		}
		old, raw, err := e.message(ctx, ref.Inner, p.Seq)
		if err != nil {
			return err
		}
		if err := keepsFinal(&old, &ready); err != nil {
			return refuse(err)
		}
		if e.says(raw, &ready) {
			return nil
		}
		u, err := e.unit(ctx, ref.Inner)
		if err != nil {
			return err
		}
		u.Last = later(u.Last, ready.At)
		if err := e.write(ctx, u, ref.Inner, p.Seq, raw, &ready); err != nil {
			return err
		}
		if ready.ParentID != "" && ready.ParentID != old.ParentID {
			if err := e.adopted(ctx, ref.Inner, &ready); err != nil {
				return err
			}
		}
		return e.flush(ctx)
	})
	return fail("edit message", categoryConversations, conversation, err)
}

// says tells whether a message is stored as these bytes already.
func (e *edit) says(raw json.RawMessage, m *Message) bool {
	since, ok := readSince(raw)
	r := messageRecord{Since: since, Message: *m}
	r.Seq = 0
	r.takeContents()
	again, err := e.encode(r)
	return ok && err == nil && string(again) == string(raw)
}

// keepsFinal refuses to change the status of a call that has come to its end.
func keepsFinal(old, edited *Message) error {
	status := make(map[string]CallStatus)
	for _, t := range old.ToolCalls {
		status[t.ID] = t.Status
	}
	for _, t := range edited.ToolCalls {
		if was, there := status[t.ID]; there && was.final() && was != t.Status {
			return conflict.Errorf("tool call %q is %s, which is final", t.ID, was)
		}
	}
	return nil
}

// DeleteMessage removes a message and tells whether it was there. Appending it
// again changes nothing.
func (s *Store) DeleteMessage(ctx context.Context, conversation, id string) (existed bool, err error) {
	n, err := s.deleteMessages(ctx, conversation, []string{id})
	return n > 0, fail("delete message", categoryConversations, conversation, err)
}

func (s *Store) deleteMessages(ctx context.Context, conversation string, ids []string) (n int, err error) {
	err = s.update(ctx, turn{conversation: conversation}, func(s *Store) error {
		n = 0
		e, ref, err := s.open(ctx, conversation)
		if err != nil {
			return err
		}
		for _, id := range ids {
			existed, err := e.deleteMessage(ctx, ref.Inner, id)
			if err != nil {
				return err
			}
			if existed {
				n++
			}
		}
		return e.flush(ctx)
	})
	return n, err
}

func (e *edit) deleteMessage(ctx context.Context, cu, id string) (existed bool, err error) {
	if err := checkID("message", id); err != nil {
		return false, refuse(err)
	}
	key := e.knownKey(cu, id)
	p, found, err := load[place](ctx, e.Store, e.conversations, key)
	if err != nil || !found || p.Deleted {
		return false, err
	}
	p.Deleted = true
	if err := e.save(ctx, e.conversations, key, p); err != nil {
		return false, err
	}
	raw, err := e.raw(ctx, e.conversations, messageKey(e.au, cu, p.Seq))
	if err != nil || raw == nil {
		return false, err
	}
	u, err := e.unit(ctx, cu)
	if err != nil {
		return false, err
	}
	u.Messages--
	return true, e.put(ctx, u, messagePart(cu, p.Seq), messageKey(e.au, cu, p.Seq), raw, nil)
}

// messageRange selects messages by their sequence; both bounds are exclusive.
type messageRange struct {
	after, before uint64
	limit         int
	reverse       bool
}

// messages yields the messages of a conversation.
func (s *Store) messages(ctx context.Context, ref conversationRef, r messageRange) iter.Seq2[*Message, error] {
	return func(yield func(*Message, error) bool) {
		opts := []manager.ListOption{manager.Prefix(messagePrefix(ref.Agent, ref.Inner)), manager.Limit(r.limit)}
		switch {
		case r.reverse:
			opts = append(opts, manager.Reverse())
			if r.before > 0 {
				opts = append(opts, manager.After(messageKey(ref.Agent, ref.Inner, r.before)))
			}
		case r.after > 0:
			opts = append(opts, manager.After(messageKey(ref.Agent, ref.Inner, r.after)))
		}
		for entry, err := range s.conversations.List(ctx, opts...) {
			seq, ok := lastNumber(entry.Key)
			if err == nil && !ok {
				err = corrupt(entry.Key, errors.New("its key has no sequence"))
			}
			if ok && (r.reverse && seq <= r.after || !r.reverse && r.before > 0 && seq >= r.before) {
				return
			}
			m := Message{Seq: seq}
			if err == nil {
				m, err = s.decodeMessage(ctx, ref.Agent, ref.Inner, seq, entry.Value)
				m.Seq = seq
			}
			if !yield(&m, err) || err != nil && entry.Key == "" {
				return
			}
		}
	}
}
