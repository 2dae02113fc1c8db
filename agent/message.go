package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// Message is one utterance. It has its id from its constructor, so that it is
// stored once however often it is appended.
type Message struct {
	ID          string            `json:"id"`
	Seq         uint64            `json:"seq,omitempty"` // its place in the conversation, from 1; given by the append
	Role        Role              `json:"role"`
	Content     string            `json:"content"`
	At          time.Time         `json:"at"`
	Tokens      *int              `json:"tokens,omitempty"`     // nil: unknown
	ParentID    string            `json:"parent_id,omitempty"`  // that it follows; need not be there, and no message is its own ancestor
	ToolCalls   []ToolCall        `json:"tool_calls,omitempty"` // no two of one id
	Attachments []Attachment      `json:"attachments,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
}

// ToolCall is a call that a message asks for. Appending its [ToolResult] sets
// Result and Status.
type ToolCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // an object
	Result    *string         `json:"result,omitempty"`
	Status    CallStatus      `json:"status"` // empty is [Pending]
}

// Attachment is a file or the like that comes with a message, by content or by
// address.
type Attachment struct {
	ID      string         `json:"id,omitempty"` // made when empty
	Kind    AttachmentKind `json:"kind"`
	Name    string         `json:"name,omitempty"`
	MIME    string         `json:"mime,omitempty"`
	Content string         `json:"content,omitempty"`
	URL     string         `json:"url,omitempty"`
	Size    int64          `json:"size,omitempty"` // of Content in bytes, filled in from it; with a URL as the app says
}

// What the metadata of a tool's result says.
const (
	metaCall   = "tool_call_id"     // the call that it answers
	metaFailed = "tool_call_failed" // "true" when the tool failed
)

// NewMessage answers a message with an id of its own and the time that it is.
func NewMessage(r Role, content string) Message {
	return Message{ID: newID(), Role: r, Content: content, At: now(tiers.SystemClock())}
}

// ToolResult answers the message that is the result of a tool call, whose status
// becomes [Completed] when it is appended.
func ToolResult(callID, content string) Message {
	m := NewMessage(ToolRole, content)
	m.Metadata = map[string]string{metaCall: callID}
	return m
}

// ToolFailure is [ToolResult] of a tool that failed: the call becomes [Failed].
func ToolFailure(callID, content string) Message {
	m := ToolResult(callID, content)
	m.Metadata[metaFailed] = "true"
	return m
}

// ToolCallID answers the id of the call that the message is the result of, ""
// for others.
func (m *Message) ToolCallID() string {
	if m.Role != ToolRole {
		return ""
	}
	return m.Metadata[metaCall]
}

func (m *Message) outcome() CallStatus {
	if m.Metadata[metaFailed] == "true" {
		return Failed
	}
	return Completed
}

// checked answers a copy of an app's message with what it left out filled in, or
// everything that is wrong with it. Words that nobody knows and arguments that
// are no object are let through for an import.
func (m *Message) checked(c tiers.Clock, lenient bool) (Message, error) {
	out := *m
	err := out.settle(c, lenient)
	return out, err
}

// lacks tells of a message that no Store has stored, since it does not say which it
// is or who says it.
func (m *Message) lacks() error {
	err := checkID("message", m.ID)
	if err == nil && m.Role == "" {
		err = fmt.Errorf("%w: it has no role", tiers.ErrType)
	}
	return err
}

func (m *Message) settle(c tiers.Clock, lenient bool) error {
	errs := []error{m.lacks()}
	if !lenient {
		errs = []error{checkID("message", m.ID), known("role", m.Role, Roles())}
	}
	if m.At.IsZero() {
		m.At = now(c)
	}
	m.At = m.At.Round(0).UTC()
	if m.Tokens != nil && *m.Tokens < 0 {
		errs = append(errs, fmt.Errorf("%w: %d tokens", tiers.ErrType, *m.Tokens))
	}
	m.ToolCalls, m.Attachments = slices.Clone(m.ToolCalls), slices.Clone(m.Attachments)
	calls := make(map[string]bool, len(m.ToolCalls))
	for i := range m.ToolCalls {
		t := &m.ToolCalls[i]
		if errs = append(errs, t.settle(lenient)); t.ID != "" && calls[t.ID] {
			errs = append(errs, fmt.Errorf("%w: two tool calls of the id %q", tiers.ErrType, t.ID))
		}
		calls[t.ID] = true
	}
	if m.ParentID != "" && m.ParentID == m.ID {
		errs = append(errs, fmt.Errorf("%w: it is its own parent", tiers.ErrType))
	}
	for i := range m.Attachments {
		errs = append(errs, m.Attachments[i].settle(lenient))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("message %q: %w", m.ID, err)
	}
	return nil
}

func (t *ToolCall) settle(lenient bool) error {
	if t.Status == "" {
		t.Status = Pending
	}
	if len(t.Arguments) == 0 {
		t.Arguments = json.RawMessage("{}")
	}
	if !json.Valid(t.Arguments) {
		if !lenient {
			return fmt.Errorf("%w: the arguments of tool call %q are no JSON", tiers.ErrType, t.ID)
		}
		raw, err := json.Marshal(string(t.Arguments)) // kept, as the text that it is
		if err != nil {
			return err
		}
		t.Arguments = raw
	}
	if lenient {
		return nil
	}
	errs := []error{checkID("tool call", t.ID), known("status", t.Status, CallStatuses())}
	if fields := map[string]json.RawMessage(nil); json.Unmarshal(t.Arguments, &fields) != nil || fields == nil {
		errs = append(errs, fmt.Errorf("%w: the arguments of tool call %q are no JSON object", tiers.ErrType, t.ID))
	}
	return errors.Join(errs...)
}

func (a *Attachment) settle(lenient bool) error {
	if a.ID == "" {
		a.ID = newID()
	}
	if a.Content != "" {
		if a.Size != 0 && a.Size != int64(len(a.Content)) {
			return fmt.Errorf("%w: attachment %q says %d bytes, its content has %d", tiers.ErrType, a.Name, a.Size, len(a.Content))
		}
		a.Size = int64(len(a.Content))
	}
	if lenient {
		return nil
	}
	return known("attachment kind", a.Kind, AttachmentKinds())
}
