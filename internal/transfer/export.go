package transfer

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

// Written is what an export has written.
type Written struct {
	Agents, Fields, Conversations, Messages, Checkpoints, Sessions, Events int
}

// lines writes JSON Lines.
type lines struct {
	w    io.Writer
	done Written
}

// write writes a line, and counts it.
func (l *lines) write(v ownLine, n *int) error {
	b, err := serializer.JSON().Append(nil, v)
	if err == nil {
		_, err = l.w.Write(append(b, '\n'))
	}
	if err == nil && n != nil {
		*n++
	}
	return err
}

func (l *lines) begin() error { return l.write(ownLine{Format: ownFormat}, nil) }

// ExportAgent writes an agent with its fields and its conversations, and with its
// checkpoints if asked for, as JSON Lines that [Import] takes; of a key that no agent
// has it writes the fields. What can't be read is left out, and part of the error; the
// rest is written. An export of what came in from one has the
// same bytes but for number, sha256, size and stored of checkpoints, which are of the
// store that they are in.
func ExportAgent(ctx context.Context, s *agent.Store, id string, w io.Writer, checkpoints bool) (Written, error) {
	l := &lines{w: w}
	err := l.agent(ctx, s, id, checkpoints)
	return l.done, err
}

// Exportable answers nil if there is something that [ExportAgent] writes.
func Exportable(ctx context.Context, s *agent.Store, id string) error {
	_, err := s.Load(ctx, id)
	if errors.Is(err, tiers.ErrNotFound) {
		if there, looking := s.Fields(id).Exists(ctx); there || looking != nil {
			return looking
		}
	}
	return err
}

func (l *lines) agent(ctx context.Context, s *agent.Store, id string, checkpoints bool) error {
	var bad []error
	a, err := s.Load(ctx, id)
	switch {
	case errors.Is(err, tiers.ErrNotFound):
		if err := Exportable(ctx, s, id); err != nil {
			return err
		}
		err := errors.Join(l.begin(), l.fields(ctx, s, id, &bad))
		return errors.Join(append(bad, err)...)
	case err != nil:
		return err
	}
	a.Revision, a.Repaired, a.Active = 0, nil, nil
	if err := errors.Join(l.begin(), l.write(ownLine{Agent: a}, &l.done.Agents), l.fields(ctx, s, id, &bad)); err != nil {
		return err
	}
	ids, missed, err := conversationIDs(ctx, s, id)
	if err != nil {
		return err
	}
	bad = append(bad, missed...)
	for _, c := range ids {
		if err := l.conversation(ctx, s, c, &bad); err != nil {
			return err
		}
	}
	if checkpoints {
		if err := l.checkpoints(ctx, s, id, &bad); err != nil {
			return err
		}
	}
	return errors.Join(bad...)
}

// fields writes those of a key, in the order of their names.
func (l *lines) fields(ctx context.Context, s *agent.Store, key string, bad *[]error) error {
	all, err := s.Fields(key).LoadAll(ctx)
	switch {
	case all == nil:
		return err
	case err != nil:
		*bad = append(*bad, err)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := l.write(ownLine{Field: &ownField{key, name, all[name]}}, &l.done.Fields); err != nil {
			return err
		}
	}
	return nil
}

// checkpoints writes those of an agent, the oldest first, so that they are in order
// again.
func (l *lines) checkpoints(ctx context.Context, s *agent.Store, id string, bad *[]error) error {
	var all []string
	for c, err := range s.Checkpoints(ctx, id, agent.After{}) {
		switch {
		case err == nil:
			all = append(all, c.ID)
		case c.Number == 0:
			return err
		default:
			*bad = append(*bad, err)
		}
	}
	for _, one := range slices.Backward(all) {
		c, err := s.LoadCheckpoint(ctx, id, one)
		if err != nil {
			*bad = append(*bad, err)
			continue
		}
		if c.State != nil {
			c.State.Revision, c.State.Repaired = 0, nil
		}
		for _, conv := range c.Conversations {
			conv.Revision = 0
		}
		if err := l.write(ownLine{Checkpoint: c}, &l.done.Checkpoints); err != nil {
			return err
		}
	}
	return nil
}

// conversationIDs answers those of an agent, and what can't be read.
func conversationIDs(ctx context.Context, s *agent.Store, id string) (ids []string, bad []error, err error) {
	for c, err := range s.Conversations(ctx, id, agent.After{}) {
		switch {
		case err == nil:
			ids = append(ids, c.ID)
		case c == nil:
			return nil, nil, err
		default:
			bad = append(bad, err)
		}
	}
	return ids, bad, nil
}

// ExportSession writes a session with its user, its context, preferences and history, as
// far as they have not expired, and with its events, as JSON Lines that [Import] takes.
func ExportSession(ctx context.Context, s *session.Store, id string, w io.Writer) (Written, error) {
	l := &lines{w: w}
	err := l.session(ctx, s, id)
	return l.done, err
}

func (l *lines) session(ctx context.Context, s *session.Store, id string) error {
	st, bad := s.Load(ctx, id)
	if st.SessionID == "" {
		return bad
	}
	st.Expired = nil
	if err := errors.Join(l.begin(), l.write(ownLine{Session: &st}, &l.done.Sessions)); err != nil {
		return err
	}
	for e, err := range s.Events(ctx, id, 0) {
		switch {
		case err != nil && e.Seq == 0:
			return errors.Join(bad, err)
		case err != nil:
			bad = errors.Join(bad, err)
			continue
		}
		text, err := e.MarshalJSON()
		if err == nil {
			err = l.write(ownLine{Event: text}, &l.done.Events)
		}
		if err != nil {
			return err
		}
	}
	return bad
}

// ExportConversation writes a conversation as JSON Lines that [Import] takes.
func ExportConversation(ctx context.Context, s *agent.Store, id string, w io.Writer) (Written, error) {
	l := &lines{w: w}
	if err := l.begin(); err != nil {
		return l.done, err
	}
	var bad []error
	if err := l.conversation(ctx, s, id, &bad); err != nil {
		return l.done, err
	}
	return l.done, errors.Join(bad...)
}

// conversation writes a head, and then its messages page by page.
func (l *lines) conversation(ctx context.Context, s *agent.Store, id string, bad *[]error) error {
	return pages(ctx, s, id, bad, func(c *agent.Conversation) error {
		head := *c
		head.Messages, head.Revision = nil, 0
		return l.write(ownLine{Conversation: &head}, &l.done.Conversations)
	}, func(m agent.Message) error {
		m.Seq = 0
		return l.write(ownLine{Message: &ownMessage{id, m}}, &l.done.Messages)
	})
}

// pages hands out a conversation: its head, and its messages one after the other.
func pages(ctx context.Context, s *agent.Store, id string, bad *[]error, head func(*agent.Conversation) error, one func(agent.Message) error) error {
	for after := uint64(0); ; {
		c, err := s.LoadConversation(ctx, id, agent.Page{After: after, Limit: mostMessages})
		if c == nil {
			return err
		}
		if err != nil {
			*bad = append(*bad, err)
		}
		if after == 0 {
			if err := head(c); err != nil {
				return err
			}
		}
		for _, m := range c.Messages {
			after = max(after, m.Seq)
			if err := one(m); err != nil {
				return err
			}
		}
		if len(c.Messages) == 0 {
			return nil
		}
	}
}
