package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sagestore/sagestore/tiers"
)

// Page selects messages of a conversation by their sequence. The zero Page is all
// of them.
type Page struct {
	After  uint64 // exclusive; 0: from the first
	Before uint64 // exclusive; 0: to the last
	Limit  int    // 0: no limit
	Last   bool   // the last Limit of the selection rather than the first

	// WholeToolCalls widens the page where it would part a message that asks for
	// tool calls from their results.
	WholeToolCalls bool
}

// LoadConversation answers a conversation with the messages of a page, in their
// order, or tiers.ErrNotFound. When some messages can't be read, it answers the
// others beside an error that names those.
func (s *Store) LoadConversation(ctx context.Context, id string, p Page) (*Conversation, error) {
	if p.Limit < 0 {
		return nil, fail("load conversation", categoryConversations, id, tiers.Hint(tiers.ErrType, "a limit is 0, for none, or more"))
	}
	var c *Conversation
	err := s.steadily(ctx, func() error {
		return s.view(ctx, func(s *Store) (err error) {
			c, err = s.loadConversation(ctx, id, p)
			return err
		})
	})
	err = fail("load conversation", categoryConversations, id, reveal(err))
	if err != nil && !errors.Is(err, tiers.ErrCorrupt) {
		return nil, err
	}
	return c, err
}

func (s *Store) loadConversation(ctx context.Context, id string, p Page) (*Conversation, error) {
	ref, _, found, err := s.conversation(ctx, id)
	if err == nil && !found {
		err = refuse(errNoConversation)
	}
	if err != nil {
		return nil, err
	}
	h, entry, err := s.head(ctx, ref, id)
	if err != nil {
		return nil, err
	}
	c, err := s.headAt(ctx, ref.Agent, entry)
	if err != nil {
		return nil, err
	}
	ref.Inner = h.Inner
	c.Messages, err = s.page(ctx, ref, p)
	return c, err
}

func (s *Store) page(ctx context.Context, ref conversationRef, p Page) (ms []Message, err error) {
	var bad []error
	for m, err := range s.messages(ctx, ref, messageRange{after: p.After, before: p.Before, limit: p.Limit, reverse: p.Last}) {
		switch {
		case err != nil && (m.Seq == 0 || !errors.Is(err, tiers.ErrCorrupt)):
			return nil, err
		case err != nil:
			bad = append(bad, err)
		default:
			ms = append(ms, *m)
		}
	}
	if p.Last {
		slices.Reverse(ms)
	}
	if p.WholeToolCalls && len(ms) > 0 && len(bad) == 0 {
		ms, err = s.widen(ctx, ref, ms)
	}
	return ms, errors.Join(append(bad, err)...)
}

// widen adds what belongs to the first and to the last message of a page.
func (s *Store) widen(ctx context.Context, ref conversationRef, ms []Message) ([]Message, error) {
	if wanted := ms[0].ToolCallID(); wanted != "" {
		var before []Message
		for m, err := range s.messages(ctx, ref, messageRange{before: ms[0].Seq, reverse: true}) {
			if err != nil {
				return ms, err
			}
			before = append(before, *m)
			if m.asksFor(wanted) {
				slices.Reverse(before)
				ms = append(before, ms...)
				break
			}
			if m.ToolCallID() == "" {
				break // its call was deleted
			}
		}
	}
	open := make(map[string]bool)
	for i := range ms {
		for _, t := range ms[i].ToolCalls {
			open[t.ID] = true
		}
		delete(open, ms[i].ToolCallID())
	}
	if len(open) == 0 {
		return ms, nil
	}
	for m, err := range s.messages(ctx, ref, messageRange{after: ms[len(ms)-1].Seq}) {
		if err != nil {
			return ms, err
		}
		if !open[m.ToolCallID()] {
			break
		}
		ms = append(ms, *m)
		if delete(open, m.ToolCallID()); len(open) == 0 {
			break
		}
	}
	return ms, nil
}

func (m *Message) asksFor(call string) bool {
	return slices.ContainsFunc(m.ToolCalls, func(t ToolCall) bool { return t.ID == call })
}

// Window answers the newest messages that fit a model's context of so many tokens:
// the conversation's system prompt first, or else its system message at the
// beginning, then the newest others in their order. Tool calls are never parted
// from their results. n of 0 is MaxContextTokens of the conversation, and without
// that all messages are answered. A message whose tokens are unknown counts one for
// each four bytes of its content. An n below 0 is tiers.ErrType.
func (s *Store) Window(ctx context.Context, id string, n int) ([]Message, error) {
	if n < 0 {
		return nil, fail("window", categoryConversations, id, fmt.Errorf("%w: a window of %d tokens; 0 is that of the conversation", tiers.ErrType, n))
	}
	var out []Message
	err := s.view(ctx, func(s *Store) error {
		ref, _, found, err := s.conversation(ctx, id)
		if err == nil && !found {
			err = refuse(errNoConversation)
		}
		if err != nil {
			return err
		}
		h, _, err := s.head(ctx, ref, id)
		if err != nil {
			return err
		}
		room := n
		if n == 0 {
			room = h.MaxContextTokens
		}
		out, err = s.window(ctx, ref, &h, room)
		return err
	})
	return out, fail("window", categoryConversations, id, reveal(err))
}

func (s *Store) window(ctx context.Context, ref conversationRef, h *headRecord, room int) ([]Message, error) {
	var first []Message
	if h.SystemPrompt != "" {
		first = []Message{{ID: h.ID, Role: System, Content: h.SystemPrompt, At: h.Created}}
	} else {
		for m, err := range s.messages(ctx, ref, messageRange{limit: 1}) {
			if err != nil {
				return nil, err
			}
			if m.Role == System {
				first = []Message{*m}
			}
		}
	}
	bounded := room > 0
	for i := range first {
		room -= first[i].weight()
	}
	var rest, group []Message // newest first; group is what goes in whole or not at all
	for m, err := range s.messages(ctx, ref, messageRange{reverse: true}) {
		if err != nil {
			return nil, err
		}
		if len(first) > 0 && m.ID == first[0].ID {
			break
		}
		group = append(group, *m)
		if m.ToolCallID() != "" {
			continue // with the message that asked for it
		}
		for i := range group {
			room -= group[i].weight()
		}
		if bounded && room < 0 {
			break
		}
		rest, group = append(rest, group...), nil
	}
	slices.Reverse(rest)
	return append(first, rest...), nil
}

// weight is how many tokens a message is taken to have.
func (m *Message) weight() int {
	if m.Tokens != nil {
		return *m.Tokens
	}
	return (len(m.Content) + 3) / 4
}
