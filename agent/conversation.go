package agent

import (
	"slices"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// Conversation is what was said between an agent and others: a head, and
// messages in the order in which they were appended.
type Conversation struct {
	ID       string            `json:"id"` // given by the app, or made by [NewConversation]; no other agent has it
	AgentID  string            `json:"agent_id"`
	Title    string            `json:"title,omitempty"`
	Tags     []string          `json:"tags,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Created  time.Time         `json:"created"`
	Archived bool              `json:"archived,omitempty"`

	SystemPrompt     string `json:"system_prompt,omitempty"`      // of this conversation, for [Store.Window]
	MaxContextTokens int    `json:"max_context_tokens,omitempty"` // 0: no limit

	// Messages are those that a load was asked for. A save stores those that are
	// not stored yet, and removes none.
	Messages []Message `json:"messages,omitempty"`

	// LastMessage is the largest time of a message seen, Created when there was
	// none, and Count the number of messages stored. A Store keeps both.
	LastMessage time.Time `json:"last_message"`
	Count       int       `json:"count"`

	// Revision is the version of the stored head, 0 for a conversation that is not
	// stored. A save sets it; in a transaction, once that is committed.
	Revision tiers.Version `json:"revision,omitempty"`
}

// NewConversation answers an empty conversation of an agent, with an id of its
// own.
func NewConversation(agentID string) *Conversation {
	now := now(tiers.SystemClock())
	return &Conversation{ID: newID(), AgentID: agentID, Created: now, LastMessage: now}
}

// Add puts messages at the end. It stores nothing.
func (c *Conversation) Add(ms ...Message) {
	c.Messages = append(c.Messages, ms...)
	for _, m := range ms {
		if m.At.After(c.LastMessage) {
			c.LastMessage = m.At
		}
	}
}

// sameHead tells whether an app's copy of a head has what is stored.
func (c *Conversation) sameHead(of *Conversation) bool {
	return c.Title == of.Title && c.Archived == of.Archived && c.SystemPrompt == of.SystemPrompt &&
		c.MaxContextTokens == of.MaxContextTokens && c.Created.Equal(of.Created) &&
		slices.Equal(c.Tags, of.Tags) && equalMaps(c.Metadata, of.Metadata)
}

func equalMaps(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}
