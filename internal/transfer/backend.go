package transfer

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the format has it; it finds damage, and keeps nobody out
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/internal/misfit"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

var (
	errNoRole     = fmt.Errorf("%w: it has no role", tiers.ErrCorrupt)
	errNoMessages = fmt.Errorf("%w: its messages are no array of objects", tiers.ErrCorrupt)
)

// document reads the whole file as one object, with the bytes of its members.
func (r *reading) document() (object, error) {
	b, err := r.whole()
	if err != nil {
		return nil, err
	}
	o, err := objectOf(b)
	return o, misfit.Located(b, err)
}

// agentFile reads an agent of a back end of files.
func (r *reading) agentFile() error {
	o, err := r.document()
	if err != nil {
		r.refuse(err)
		return nil
	}
	a, err := stateOf(o)
	if err != nil {
		r.fault(0, "", err)
		return nil
	}
	return r.give(found{agent: a})
}

// stateOf reads an agent's state.
func stateOf(o object) (*agent.State, error) {
	a := &agent.State{
		ID: o.text("agent_id"), Name: o.text("name"), Type: o.text("agent_type"), SystemPrompt: o.text("system_prompt"),
		Created: instant(o.take("created_at")), Modified: instant(o.take("modified_at")), Version: 1,
	}
	if a.ID == "" {
		return nil, fmt.Errorf("%w: the agent has no agent_id", tiers.ErrCorrupt)
	}
	if raw := o.take("version"); raw != nil {
		if err := json.Unmarshal(raw, &a.Version); err != nil {
			return nil, fmt.Errorf("%w: version: %s", tiers.ErrCorrupt, misfit.Why(raw, &a.Version, err))
		}
	}
	if raw := o.take("capabilities"); raw != nil && json.Unmarshal(raw, &a.Capabilities) != nil {
		return nil, fmt.Errorf("%w: its capabilities are no list of texts", tiers.ErrCorrupt)
	}
	var err error
	if a.Config, err = valuesOf(o.take("config")); err == nil {
		a.Custom, err = valuesOf(o.take("custom_state"))
	}
	if err != nil {
		return nil, err
	}
	if a.Metadata, err = wordsOf(o.take("metadata")); err != nil {
		return nil, err
	}
	delete(o, "active_conversations") // a store keeps these itself
	a.Metadata = o.metadata(a.Metadata)
	return a, nil
}

func wordsOf(raw json.RawMessage) (map[string]string, error) {
	if raw == nil {
		return nil, nil
	}
	var o object
	if json.Unmarshal(raw, &o) != nil {
		return nil, fmt.Errorf("%w: metadata is no object", tiers.ErrCorrupt)
	}
	return o.metadata(nil), nil
}

// valuesOf reads values, which may say their types: {"Int": 42}.
func valuesOf(raw json.RawMessage) (map[string]any, error) {
	if raw == nil {
		return nil, nil
	}
	var all map[string]any
	if err := serializer.JSON().Decode(raw, &all); err != nil {
		return nil, fmt.Errorf("%w: values: %w", tiers.ErrCorrupt, err)
	}
	for name, v := range all {
		all[name] = untagged(v)
	}
	return all, nil
}

// untagged takes the names of types away from a value.
func untagged(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = untagged(v[i])
		}
		return v
	case map[string]any:
		if len(v) == 1 {
			for tag, inner := range v {
				if plain, ok := untag(tag, inner); ok {
					return plain
				}
			}
		}
		for name, inner := range v {
			v[name] = untagged(inner)
		}
		return v
	default:
		return v
	}
}

// untag answers the value that a tag stands before, when it is one.
func untag(tag string, v any) (any, bool) {
	ok := false
	switch tag {
	case "Int", "Integer", "UInt":
		switch v.(type) {
		case int64, uint64:
			ok = true
		}
	case "Float", "Number", "Double":
		switch n := v.(type) {
		case float64:
			ok = !math.IsNaN(n)
		case int64, uint64:
			ok = true
		}
	case "Bool", "Boolean":
		_, ok = v.(bool)
	case "String", "Str", "Text":
		_, ok = v.(string)
	case "List", "Array", "Vec", "Tuple", "Set":
		_, ok = v.([]any)
	case "Map", "Object", "Dict", "Record", "Struct":
		_, ok = v.(map[string]any)
		if inner, is := v.(map[string]any); is {
			for name := range inner {
				inner[name] = untagged(inner[name])
			}
			return inner, true
		}
	case "Null", "Nil", "None", "Unit":
		ok = v == nil
	case "Some", "Option":
		return untagged(v), true
	}
	if !ok {
		return nil, false
	}
	return untagged(v), true
}

// conversationFile reads a conversation of a back end of files. Its messages are
// read one by one.
func (r *reading) conversationFile() error {
	c, err := headOf(object(r.about("messages")))
	if err != nil {
		r.fault(0, "", err)
		return nil
	}
	b, n := batch{r: r, head: c, line: 1}, 0
	err = r.eachElement("messages", func(line int, o object) error {
		n++
		m, err := messageOf(o, c, n)
		if err != nil {
			r.fault(line, "", err)
			return nil
		}
		return b.add(line, m...)
	})
	if err != nil {
		return err
	}
	return b.flush()
}

// headOf reads the head of a conversation.
func headOf(o object) (*agent.Conversation, error) {
	c := &agent.Conversation{
		ID: o.text("id", "conversation_id"), AgentID: o.text("agent_id"), Title: o.text("title"), Created: instant(o.take("created_at")),
		SystemPrompt: o.text("system_prompt"), LastMessage: instant(o.take("last_message_at")),
	}
	if c.ID == "" || c.AgentID == "" {
		return nil, fmt.Errorf("%w: the conversation has no id, or no agent_id", tiers.ErrCorrupt)
	}
	for name, into := range map[string]any{"archived": &c.Archived, "tags": &c.Tags, "max_context_tokens": &c.MaxContextTokens} {
		if raw := o.take(name); raw != nil && json.Unmarshal(raw, into) != nil {
			return nil, fmt.Errorf("%w: %s of the conversation", tiers.ErrCorrupt, name)
		}
	}
	var err error
	if c.Metadata, err = wordsOf(o.take("metadata")); err != nil {
		return nil, err
	}
	c.Metadata = o.metadata(c.Metadata)
	return c, nil
}

// messageOf reads a message of a conversation.
func messageOf(o object, c *agent.Conversation, n int) ([]agent.Message, error) {
	metadata, err := wordsOf(o.take("metadata"))
	if err != nil {
		return nil, err
	}
	var raw []object
	if a := o.take("attachments"); a != nil && json.Unmarshal(a, &raw) != nil {
		return nil, fmt.Errorf("%w: its attachments are no array of objects", tiers.ErrCorrupt)
	}
	ms, err := said{raw: o, at: c.Created, conv: c.ID, n: n}.messages()
	if err != nil {
		return nil, err
	}
	m := &ms[0]
	for name, v := range metadata {
		if m.Metadata == nil {
			m.Metadata = map[string]string{}
		}
		m.Metadata[name] = v
	}
	for i, o := range raw {
		if o == nil {
			continue
		}
		a := agent.Attachment{
			ID: o.text("id"), Name: o.text("name"), MIME: o.text("mime_type", "mime"), Content: o.text("content"), URL: o.text("url"),
		}
		_ = a.Kind.UnmarshalText([]byte(o.text("attachment_type", "kind"))) // any word is one
		if size := o.take("size"); a.Content == "" && size != nil {
			_ = json.Unmarshal(size, &a.Size) // what is no number is unknown
		}
		if a.ID == "" {
			a.ID = derived("attachment", m.ID, "own", strconv.Itoa(i))
		}
		m.Attachments = append(m.Attachments, a)
	}
	return ms, nil
}

// agentCheckpoint reads a checkpoint of an agent with all its conversations. Its sum
// is checked over the text as it is in the file.
func (r *reading) agentCheckpoint(o object) (*agent.Checkpoint, error) {
	rawState, rawConversations := o.take("agent_state"), o.take("conversations")
	if sum := o.text("checksum"); sum != "" {
		var text bytes.Buffer
		text.WriteByte('[')
		err := json.Compact(&text, rawState)
		text.WriteByte(',')
		if err == nil {
			err = json.Compact(&text, rawConversations)
		}
		text.WriteByte(']')
		if err != nil {
			return nil, fmt.Errorf("%w: %w", tiers.ErrCorrupt, err)
		}
		got := md5.Sum(text.Bytes()) //nolint:gosec // see the import
		if hex.EncodeToString(got[:]) != sum {
			return nil, fmt.Errorf("%w: what it holds does not have its checksum", tiers.ErrCorrupt)
		}
	}
	var so object
	if json.Unmarshal(rawState, &so) != nil || so == nil {
		return nil, fmt.Errorf("%w: agent_state is no object", tiers.ErrCorrupt)
	}
	c := &agent.Checkpoint{}
	c.Keep = true // see [iterationCheckpoint]
	var err error
	if c.State, err = stateOf(so); err != nil {
		return nil, err
	}
	var all []object
	if json.Unmarshal(rawConversations, &all) != nil {
		return nil, fmt.Errorf("%w: conversations is no array of objects", tiers.ErrCorrupt)
	}
	for _, one := range all {
		conv, err := conversationOf(one)
		if err != nil {
			return nil, err
		}
		c.Conversations = append(c.Conversations, conv)
	}
	c.ID, c.AgentID, c.Name, c.Description = o.text("id"), o.text("agent_id"), o.text("name"), o.text("description")
	if c.AgentID == "" {
		c.AgentID = c.State.ID
	}
	if c.AgentID != c.State.ID {
		return nil, fmt.Errorf("%w: it is of agent %q and holds agent %q", tiers.ErrCorrupt, c.AgentID, c.State.ID)
	}
	_ = c.Kind.UnmarshalText([]byte(o.text("checkpoint_type"))) // any word is one
	c.Created = instant(o.take("created_at"))
	return c, nil
}

// conversationOf reads a conversation that is there as a whole.
func conversationOf(o object) (*agent.Conversation, error) {
	raw := o.take("messages")
	c, err := headOf(o)
	if err != nil {
		return nil, err
	}
	return c, fill(c, raw)
}

// fill reads the messages of a conversation.
func fill(c *agent.Conversation, raw json.RawMessage) error {
	var all []object
	if raw != nil && json.Unmarshal(raw, &all) != nil {
		return errNoMessages
	}
	for i, o := range all {
		if o == nil {
			return errNoMessages
		}
		ms, err := messageOf(o, c, i+1)
		if err != nil {
			return err
		}
		c.Add(ms...)
	}
	return nil
}
