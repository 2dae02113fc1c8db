package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/tiers"
)

// codeLog reads the log of a coding agent: JSON Lines, each a message of a user or
// of the assistant, with uuid, parentUuid and sessionId, or a summary. A session is
// a conversation.
func (r *reading) codeLog(ctx context.Context) error {
	b := batch{r: r, titled: true}
	title := ""
	err := r.eachLine(ctx, func(line int, o object) error {
		switch kind := textOf(o["type"]); kind {
		case "summary":
			title = textOf(o["summary"])
			return nil
		case "user", "assistant", "system":
		case "":
			r.fault(line, "", fmt.Errorf("%w: it has no type", tiers.ErrCorrupt))
			return nil
		default: // what the program notes for itself
			return nil
		}
		session := textOf(o["sessionId"])
		if session == "" {
			r.fault(line, "", fmt.Errorf("%w: it has no sessionId", tiers.ErrCorrupt))
			return nil
		}
		ms, err := codeMessages(o, session, line)
		if err != nil {
			r.fault(line, "", err)
			return nil
		}
		if b.head == nil || b.head.ID != session {
			if err := b.flush(); err != nil {
				return err
			}
			b.head = &agent.Conversation{ID: session, AgentID: r.agent("claude-code"), Created: ms[0].At, Title: title}
			b.line, title = line, ""
		}
		return b.add(line, ms...)
	})
	if b.head != nil && title != "" {
		b.head.Title = title
	}
	if errors.Is(err, context.Canceled) || emitted(err) {
		return err
	}
	return errors.Join(err, b.flush())
}

// codeMessages makes messages of a line.
func codeMessages(o object, session string, line int) ([]agent.Message, error) {
	kind := o.text("type")
	m := object{}
	if raw := o.take("message"); raw != nil {
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, fmt.Errorf("%w: its message is no JSON object", tiers.ErrCorrupt)
		}
	} else if kind != "system" {
		return nil, fmt.Errorf("%w: it has no message", tiers.ErrCorrupt)
	}
	if m["role"] == nil {
		m["role"] = quoted(kind)
	}
	if kind == "system" && m["content"] == nil {
		m["content"] = o.take("content")
	}
	delete(o, "sessionId")
	delete(o, "toolUseResult") // what the message says as well
	delete(m, "type")
	if inner := m.text("id"); inner != "" {
		o["message_id"] = quoted(inner)
	}
	var usage struct {
		Output *int `json:"output_tokens"`
	}
	if json.Unmarshal(m["usage"], &usage) == nil && usage.Output != nil && *usage.Output >= 0 {
		m["tokens"], _ = json.Marshal(*usage.Output) // a number always is JSON
	}
	for name, raw := range o {
		if m[name] == nil {
			m[name] = raw
		}
	}
	id := m.text("uuid")
	for _, word := range []string{"isSidechain", "isMeta"} {
		if string(m[word]) == "false" {
			delete(m, word)
		}
	}
	return said{raw: m, id: id, conv: session, n: line}.messages()
}
