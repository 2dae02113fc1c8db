package transfer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

// object is one of JSON, taken apart.
type object map[string]json.RawMessage

// take answers a member and removes it.
func (o object) take(names ...string) (raw json.RawMessage) {
	for _, n := range names {
		if v, ok := o[n]; ok && raw == nil && string(v) != "null" {
			raw = v
			delete(o, n)
		}
	}
	return raw
}

// text answers a member that is a text, and removes it. What is none stays, and is
// metadata in the end.
func (o object) text(names ...string) (text string) {
	for _, n := range names {
		if v := o[n]; text == "" && len(v) > 0 && v[0] == '"' {
			text = textOf(v)
			delete(o, n)
		}
	}
	return text
}

// time is text for a point in time.
func (o object) time(names ...string) (t time.Time) {
	for _, n := range names {
		if v := o[n]; t.IsZero() && v != nil {
			if t = instant(v); !t.IsZero() || string(v) == "0" { // which programs write for none
				delete(o, n)
			}
		}
	}
	return t
}

// roleOf tells of a message that does not say who says it.
func roleOf(o object) error {
	switch raw := o["role"]; {
	case raw == nil || string(raw) == "null":
		return errNoRole
	case textOf(raw) == "":
		return fmt.Errorf("%w: its role is no text", tiers.ErrCorrupt)
	}
	return nil
}

// metadata makes text of what is left: texts as they are, all else as JSON.
func (o object) metadata(into map[string]string) map[string]string {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		raw := o[name]
		if string(raw) == "null" {
			continue
		}
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		if into == nil {
			into = map[string]string{}
		}
		if _, there := into[name]; !there {
			into[name] = text
		}
	}
	return into
}

// answer is the result of a tool call.
type answer struct {
	call, text string
	failed     bool
}

// content is what the content of a message comes to.
type content struct {
	texts       []string
	thoughts    []string
	calls       []agent.ToolCall
	answers     []answer
	attachments []agent.Attachment
	rest        []json.RawMessage // parts of kinds that are not known
}

func (c *content) text() string { return strings.Join(c.texts, "\n\n") }

// contentOf reads a text, or parts.
func contentOf(raw json.RawMessage) (c content) {
	var text string
	if len(raw) == 0 || string(raw) == "null" {
		return c
	}
	if json.Unmarshal(raw, &text) == nil {
		c.texts = []string{text}
		return c
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		parts = []json.RawMessage{raw} // an object is a part by itself
	}
	for _, raw := range parts {
		var part object
		switch {
		case json.Unmarshal(raw, &text) == nil && len(raw) > 0 && raw[0] == '"':
			c.texts = append(c.texts, text)
		case json.Unmarshal(raw, &part) != nil || part == nil:
			c.rest = append(c.rest, raw)
		default:
			c.add(raw, part)
		}
	}
	return c
}

// add takes over a part.
func (c *content) add(raw json.RawMessage, part object) {
	switch kind := part.text("type"); kind {
	case "text", "input_text", "output_text", "refusal":
		c.texts = append(c.texts, part.text("text", "refusal"))
	case "thinking", "reasoning", "redacted_thinking":
		c.thoughts = append(c.thoughts, part.text("thinking", "text", "data"))
	case "tool_use", "tool_call":
		c.calls = append(c.calls, agent.ToolCall{ID: part.text("id", "tool_call_id"), Name: part.text("name"), Arguments: argumentsOf(part.take("input", "arguments"))})
	case "tool_result":
		var failed bool
		_ = json.Unmarshal(part.take("is_error"), &failed) // what is no bool is no failure
		inner := contentOf(part.take("content"))
		c.attachments = append(c.attachments, inner.attachments...)
		text := inner.text()
		for _, r := range inner.rest {
			text = strings.TrimSpace(text + "\n\n" + string(r))
		}
		c.answers = append(c.answers, answer{call: part.text("tool_use_id", "tool_call_id"), text: text, failed: failed})
	case "image", "image_url", "input_image", "document", "file", "input_file", "audio", "input_audio", "video":
		c.attachments = append(c.attachments, attachmentOf(kind, part))
	default:
		c.rest = append(c.rest, raw)
	}
}

// attachmentOf reads a part that is no text.
func attachmentOf(kind string, part object) agent.Attachment {
	a := agent.Attachment{Kind: agent.File, Name: part.text("title", "name", "filename")}
	for word, k := range map[string]agent.AttachmentKind{"image": agent.Image, "audio": agent.Audio, "video": agent.Video} {
		if strings.Contains(kind, word) {
			a.Kind = k
		}
	}
	for _, name := range []string{"source", "image_url", "file", "input_audio", "audio"} {
		raw := part.take(name)
		if url := textOf(raw); url != "" {
			a.URL = url
			continue
		}
		var source object
		if json.Unmarshal(raw, &source) != nil || source == nil {
			continue
		}
		a.MIME = source.text("media_type", "format")
		a.Content = source.text("data", "file_data")
		a.URL = source.text("url")
		if a.Name == "" {
			a.Name = source.text("filename", "file_id")
		}
	}
	return a
}

// argumentsOf answers arguments that may be JSON within a text.
func argumentsOf(raw json.RawMessage) json.RawMessage {
	if text := textOf(raw); text != "" {
		return json.RawMessage(text)
	}
	if string(raw) == "null" || string(raw) == `""` {
		return nil
	}
	return raw
}

// calls takes tool calls. What are none stays.
func (o object) calls(name string) []agent.ToolCall {
	var all []object
	if json.Unmarshal(o[name], &all) != nil {
		return nil
	}
	return callsOf(o.take(name))
}

// callsOf reads the tool calls of a chat's message.
func callsOf(raw json.RawMessage) (calls []agent.ToolCall) {
	var all []object
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	for _, o := range all {
		if o == nil {
			continue
		}
		call := agent.ToolCall{ID: o.text("id", "call_id")}
		var f object
		if json.Unmarshal(o.take("function"), &f) != nil || f == nil {
			f = o
		}
		call.Name, call.Arguments = f.text("name"), argumentsOf(f.take("arguments", "input"))
		if result := o.take("result"); result != nil {
			text := textOf(result)
			if text == "" {
				text = string(result)
			}
			call.Result = &text
		}
		_ = call.Status.UnmarshalText([]byte(o.text("status"))) // any word is one
		calls = append(calls, call)
	}
	return calls
}

// said is a message of another program, and what is known besides.
type said struct {
	raw  object
	id   string    // "": it is derived from its place
	at   time.Time // when it does not say itself
	conv string
	n    int // its place in the conversation
}

// messages makes messages of one: results of tools that stand in a message of a
// user are messages of their own.
func (s said) messages() ([]agent.Message, error) {
	o := s.raw
	if err := roleOf(o); err != nil {
		return nil, err
	}
	var role agent.Role
	_ = role.UnmarshalText([]byte(o.text("role"))) // any word is one
	raw := o.take("content")
	c := contentOf(raw)
	if s.id == "" {
		s.id = o.text("id", "uuid")
	}
	if s.id == "" {
		s.id = derived("message", s.conv, strconv.Itoa(s.n), string(role), string(raw))
	}
	m := agent.Message{
		ID: s.id, Role: role, Content: c.text(), At: s.at, ToolCalls: append(c.calls, o.calls("tool_calls")...),
		Attachments: c.attachments, ParentID: o.text("parent_id", "parentUuid"),
	}
	if t := o.time("timestamp", "created_at", "created", "time"); !t.IsZero() {
		m.At = t
	}
	if calls := callsOf(list(o.take("function_call"))); len(calls) == 1 {
		m.ToolCalls = append(m.ToolCalls, calls...)
	}
	if n := -1; json.Unmarshal(o["tokens"], &n) == nil && n >= 0 {
		m.Tokens = &n
		delete(o, "tokens")
	}
	call := o.text("tool_call_id")
	if ids := []string{}; json.Unmarshal(o.take("tool_call_ids"), &ids) == nil && len(ids) > 0 && call == "" {
		call = ids[0]
	}
	delete(o, "attachments")
	if call != "" {
		m.Metadata = map[string]string{"tool_call_id": call}
	}
	if len(c.thoughts) > 0 {
		o["thinking"] = quoted(strings.Join(c.thoughts, "\n\n"))
	}
	if len(c.rest) > 0 {
		o["parts"], _ = serializer.JSON().Append(nil, c.rest) // they were JSON
	}
	m.Metadata = o.metadata(m.Metadata)
	for i := range m.Attachments {
		if m.Attachments[i].ID == "" {
			m.Attachments[i].ID = derived("attachment", m.ID, strconv.Itoa(i))
		}
	}
	for i := range m.ToolCalls {
		if m.ToolCalls[i].ID == "" {
			m.ToolCalls[i].ID = derived("call", m.ID, strconv.Itoa(i))
		}
	}
	return split(m, c), nil
}

// split puts the results of tools into messages of their own, before the rest.
func split(m agent.Message, c content) (all []agent.Message) {
	for i, a := range c.answers {
		r := agent.Message{
			ID: m.ID, Role: agent.ToolRole, Content: a.text, At: m.At, ParentID: m.ParentID,
			Metadata: map[string]string{"tool_call_id": a.call},
		}
		maps.Copy(r.Metadata, m.Metadata)
		r.Metadata["tool_call_id"] = a.call
		if a.failed {
			r.Metadata["tool_call_failed"] = "true"
		}
		if i > 0 {
			r.ID = derived("result", m.ID, strconv.Itoa(i))
		}
		all = append(all, r)
	}
	if len(c.answers) == 0 {
		return []agent.Message{m}
	}
	if m.Content != "" || len(m.ToolCalls) > 0 {
		m.ID = derived("rest", m.ID)
		return append(all, m)
	}
	all[0].Attachments = m.Attachments
	return all
}

// list makes an array of an object.
func list(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return nil
	}
	return append(append([]byte{'['}, raw...), ']')
}

func quoted(text string) json.RawMessage {
	raw, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage(`""`) // a text always is JSON
	}
	return raw
}
