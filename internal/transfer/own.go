package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/internal/misfit"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

// ownFormat is what the first line of an export says.
const ownFormat = "sagestore export 1"

// ownMessage is a message with the conversation that it is of.
type ownMessage struct {
	ConversationID string `json:"conversation_id"`
	agent.Message
}

// ownLine is a line of an export: one of its members.
type ownLine struct {
	Format       string              `json:"format,omitempty"`
	Agent        *agent.State        `json:"agent,omitempty"`
	Conversation *agent.Conversation `json:"conversation,omitempty"`
	Message      *ownMessage         `json:"message,omitempty"`
	Checkpoint   *agent.Checkpoint   `json:"checkpoint,omitempty"`
	Session      *session.State      `json:"session,omitempty"`
	Field        *ownField           `json:"field,omitempty"`
	Event        json.RawMessage     `json:"event,omitempty"` // as in the log of a session
}

// ownField is a field of an agent, or of another key.
type ownField struct {
	Key   string          `json:"key"`
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

// log are events as lines of a log, which come together.
type log struct {
	text  bytes.Buffer
	lines []int // of the file, by line of the text
}

// give hands out the events that came.
func (l *log) give(r *reading) error {
	if len(l.lines) == 0 {
		return nil
	}
	events := *l
	*l = log{}
	return r.give(found{line: events.lines[0], events: &events})
}

// kept are fields of one key, which come together.
type kept struct {
	fields
	first, bytes int
}

// takes tells whether a field can come with the others.
func (k *kept) takes(f *ownField) bool {
	return f.Key == k.key && k.lines[f.Name] == 0 && len(k.lines) < mostMessages && k.bytes+len(f.Value) <= mostBytes
}

func (k *kept) add(line int, f *ownField) {
	if len(k.lines) == 0 {
		k.fields, k.first = fields{key: f.Key, values: map[string]json.RawMessage{}, lines: map[string]int{}}, line
	}
	k.values[f.Name], k.lines[f.Name], k.bytes = f.Value, line, k.bytes+len(f.Value)
}

// give hands out the fields that came.
func (k *kept) give(r *reading) error {
	if len(k.lines) == 0 {
		return nil
	}
	all := *k
	*k = kept{}
	return r.give(found{line: all.first, fields: &all.fields})
}

// own reads an export. Messages stand behind the head of their conversation.
func (r *reading) own(ctx context.Context) error {
	b := batch{r: r}
	var events log
	var keeps kept
	codec := serializer.JSON()
	err := r.eachLine(ctx, func(line int, o object) error {
		var l ownLine
		text, err := codec.Append(nil, o) // which leaves the characters as they are
		if err == nil {
			err = misfit.InLine(misfit.Of(text, &l, codec.Decode(text, &l)))
		}
		if err != nil {
			r.fault(line, "", err)
			return nil
		}
		if len(l.Event) == 0 || len(events.lines) >= mostMessages || events.text.Len() > mostBytes {
			if err := events.give(r); err != nil {
				return err
			}
		}
		if l.Field == nil || !keeps.takes(l.Field) {
			if err := keeps.give(r); err != nil {
				return err
			}
		}
		switch {
		case l.Format == ownFormat:
		case l.Field != nil && l.Field.Value == nil:
			r.fault(line, "", fmt.Errorf("%w: the field %q has no value", tiers.ErrCorrupt, l.Field.Name))
		case l.Field != nil:
			keeps.add(line, l.Field)
		case len(l.Event) > 0:
			events.text.Write(append(l.Event, '\n'))
			events.lines = append(events.lines, line)
		case l.Session != nil && l.Session.SessionID == "":
			r.fault(line, "", fmt.Errorf("%w: the session has no session_id", tiers.ErrCorrupt))
		case l.Session != nil:
			return r.give(found{line: line, session: l.Session})
		case l.Conversation != nil && (l.Conversation.ID == "" || l.Conversation.AgentID == ""),
			l.Agent != nil && l.Agent.ID == "", l.Checkpoint != nil && (l.Checkpoint.ID == "" || l.Checkpoint.AgentID == ""):
			r.fault(line, "", fmt.Errorf("%w: it has no id, or no agent_id", tiers.ErrCorrupt))
		case l.Message != nil && (b.head == nil || b.head.ID != l.Message.ConversationID):
			r.fault(line, "", fmt.Errorf("%w: the message is not behind its conversation %q", tiers.ErrCorrupt, l.Message.ConversationID))
		case l.Message != nil:
			return b.add(line, l.Message.Message)
		case l.Conversation != nil:
			if err := b.flush(); err != nil {
				return err
			}
			l.Conversation.Revision, l.Conversation.Messages = 0, nil
			b.head, b.line = l.Conversation, line
		case l.Agent != nil:
			l.Agent.Revision, l.Agent.Active, l.Agent.Repaired = 0, nil, nil
			return r.give(found{line: line, agent: l.Agent})
		case l.Checkpoint != nil:
			if err := b.flush(); err != nil {
				return err
			}
			return r.give(found{line: line, checkpoint: l.Checkpoint})
		default:
			r.fault(line, "", fmt.Errorf("%w: it is no line of an export", tiers.ErrCorrupt))
		}
		return nil
	})
	if err == nil {
		err = events.give(r)
	}
	if err == nil {
		err = keeps.give(r)
	}
	if err != nil {
		return err
	}
	return b.flush()
}
