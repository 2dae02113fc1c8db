package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/sagestore/sagestore/tiers"
)

// frame is what of a checkpoint has to fit together, whoever made it, for a restore
// to give the agent that it is of.
type frame struct {
	agentID       string
	conversation  string  // the one that it covers; empty: the agent with all
	state         *string // the id in the state that it shows, nil when it shows none
	conversations []framed
}

// framed is a conversation of a frame.
type framed struct {
	id, agentID string
	messages    []string // their ids
}

// check answers everything that keeps a checkpoint from being restored, as
// tiers.ErrCorrupt.
func (f *frame) check() error {
	var errs []error
	wrong := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{tiers.ErrCorrupt}, args...)...))
	}
	switch {
	case f.conversation == "" && f.state == nil:
		wrong("the checkpoint shows neither an agent's state nor the conversation that it covers")
	case f.state != nil && *f.state != f.agentID:
		wrong("the checkpoint is of agent %q and its state is that of agent %q", f.agentID, *f.state)
	}
	seen := make(map[string]bool)
	for _, c := range f.conversations {
		if seen[c.id] {
			wrong("the checkpoint shows conversation %q twice", c.id)
		}
		seen[c.id] = true
		if c.agentID != f.agentID {
			wrong("the checkpoint is of agent %q and its conversation %q is one of agent %q", f.agentID, c.id, c.agentID)
		}
		if f.conversation != "" && c.id != f.conversation {
			wrong("the checkpoint covers conversation %q and shows conversation %q", f.conversation, c.id)
		}
		said := make(map[string]bool, len(c.messages))
		for _, id := range c.messages {
			if said[id] {
				wrong("the checkpoint shows message %q of conversation %q twice", id, c.id)
			}
			said[id] = true
		}
	}
	if f.conversation != "" && !seen[f.conversation] {
		wrong("the checkpoint covers conversation %q and does not show it", f.conversation)
	}
	return errors.Join(errs...)
}

// restorable answers what a checkpoint shows when its sum is right and a restore of
// it gives the agent that it is of.
func (e *edit) restorable(ctx context.Context, r *infoRecord, n uint64) (*shown, error) {
	sh, err := e.show(ctx, r, n)
	if err != nil {
		return nil, err
	}
	f := frame{agentID: e.led.AgentID, conversation: r.Conversation}
	if raw := sh.parts[partState]; raw != nil {
		var st stateRecord
		if err := e.decode(raw, &st); err != nil {
			return nil, corrupt(partState, err)
		}
		f.state = &st.ID
	}
	for _, h := range sh.heads {
		c := framed{id: h.ID, agentID: h.AgentID}
		for _, seq := range sh.sequences(h.Inner) {
			part := messagePart(h.Inner, seq)
			var m struct {
				ID string `json:"id"`
			}
			if err := e.decode(sh.parts[part], &m); err != nil {
				return nil, corrupt(part, err)
			}
			c.messages = append(c.messages, m.ID)
		}
		f.conversations = append(f.conversations, c)
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	return sh, nil
}

// maxSeq is the highest sequence that keys have digits for.
const maxSeq = 9_999_999_999

// brought answers a checkpoint that came from elsewhere as it will be stored, with
// what it left out filled in: a copy, of which c keeps everything. It is refused when
// it could never be restored, or when its messages would be refused by an append.
func (s *Store) brought(c *Checkpoint) (*Checkpoint, error) {
	if c == nil {
		return nil, fmt.Errorf("%w: there is no checkpoint", tiers.ErrType)
	}
	out := *c
	f := frame{agentID: c.AgentID, conversation: c.Conversation}
	errs := []error{checkID("agent", c.AgentID), checkID("checkpoint", c.ID)}
	if c.ID == latest {
		errs = append(errs, fmt.Errorf("%w: the id %q names the newest checkpoint; choose another one", tiers.ErrKey, latest))
	}
	if c.Iteration < 0 {
		errs = append(errs, fmt.Errorf("%w: iteration %d", tiers.ErrType, c.Iteration))
	}
	if c.State != nil {
		own := *c.State
		if own.ID == "" {
			own.ID = c.AgentID
		}
		out.State, f.state = &own, &own.ID
	}
	out.Conversations = nil
	for i, conv := range c.Conversations {
		if conv == nil {
			errs = append(errs, fmt.Errorf("%w: conversation %d of the checkpoint is none", tiers.ErrCorrupt, i+1))
			continue
		}
		own, err := s.broughtConversation(conv)
		if own.AgentID == "" {
			own.AgentID = c.AgentID
		}
		errs = append(errs, err)
		out.Conversations = append(out.Conversations, own)
		one := framed{id: own.ID, agentID: own.AgentID}
		for j := range own.Messages {
			one.messages = append(one.messages, own.Messages[j].ID)
		}
		f.conversations = append(f.conversations, one)
	}
	if err := errors.Join(append(errs, f.check())...); err != nil {
		return nil, refuse(err)
	}
	return &out, nil
}

// broughtConversation gives the messages sequences that rise.
func (s *Store) broughtConversation(conv *Conversation) (*Conversation, error) {
	own := *conv
	own.Messages = make([]Message, len(conv.Messages))
	errs := []error{checkID("conversation", conv.ID)}
	var last uint64
	for i := range conv.Messages {
		ready, err := conv.Messages[i].checked(s.core.clock, true)
		if ready.Seq > maxSeq {
			err = errors.Join(err, fmt.Errorf("%w: the sequence %d of message %q; %d is the highest", tiers.ErrCorrupt, ready.Seq, ready.ID, uint64(maxSeq)))
			ready.Seq = 0
		}
		last = max(ready.Seq, last+1)
		ready.Seq = last
		own.Messages[i] = ready
		errs = append(errs, err)
	}
	errs = append(errs, circular(own.Messages))
	if err := errors.Join(errs...); err != nil {
		return &own, fmt.Errorf("conversation %q: %w", conv.ID, err)
	}
	return &own, nil
}
