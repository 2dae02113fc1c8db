package agent

import (
	"encoding/json"
	"time"

	"github.com/sagestore/sagestore/internal/misfit"
	"github.com/sagestore/sagestore/tiers"
)

// What is stored. Every record is JSON text whatever the codec of its category:
// sums are taken over these bytes, so that they must not depend on how a map was
// decoded and encoded again. The versioned ones have since, the number of the
// first checkpoint that shows them.
type (
	// stateRecord is the head of an agent.
	stateRecord struct {
		Since        uint64            `json:"since"`
		Inner        string            `json:"inner"`
		ID           string            `json:"id"`
		Name         string            `json:"name"`
		Type         string            `json:"type"`
		SystemPrompt string            `json:"system_prompt,omitempty"`
		Capabilities []string          `json:"capabilities,omitempty"`
		Config       map[string]any    `json:"config,omitempty"`
		Metadata     map[string]string `json:"metadata,omitempty"`
		Created      time.Time         `json:"created"`
		Modified     time.Time         `json:"modified"`
		Version      int               `json:"version"`
	}
	// ownRecord is an entry of Custom.
	ownRecord struct {
		Since uint64          `json:"since"`
		Name  string          `json:"name"`
		Value json.RawMessage `json:"value"`
	}
	// headRecord is the head of a conversation.
	headRecord struct {
		Since            uint64            `json:"since"`
		Inner            string            `json:"inner"`
		Born             uint64            `json:"born"` // since of the first head
		ID               string            `json:"id"`
		AgentID          string            `json:"agent_id"`
		Title            string            `json:"title,omitempty"`
		Tags             []string          `json:"tags,omitempty"`
		Metadata         map[string]string `json:"metadata,omitempty"`
		Created          time.Time         `json:"created"`
		Archived         bool              `json:"archived,omitempty"`
		SystemPrompt     string            `json:"system_prompt,omitempty"`
		MaxContextTokens int               `json:"max_context_tokens,omitempty"`
	}
	// messageRecord is a message; its sequence is in the key.
	messageRecord struct {
		Since uint64 `json:"since"`
		Message
		// Contents are digests, by index, of attachments whose content is stored by
		// itself.
		Contents map[int]string `json:"contents,omitempty"`
	}
)

// What is counted and found, derived from the above.
type (
	// agentRef is where an agent is.
	agentRef struct {
		Inner string `json:"inner"`
	}
	// conversationRef is where a conversation is.
	conversationRef struct {
		AgentID string `json:"agent_id"`
		Agent   string `json:"agent"` // its inner name
		Inner   string `json:"inner"`
	}
	// checkpointRef is where a checkpoint is.
	checkpointRef struct {
		Agent  string `json:"agent"`
		Number uint64 `json:"number"`
	}
	// ledger are the numbers of an agent's checkpoints.
	ledger struct {
		AgentID  string `json:"agent_id"`
		Last     uint64 `json:"last"`             // the highest number given
		Newest   uint64 `json:"newest"`           // the highest that is still there, 0 for none
		Untagged int    `json:"untagged"`         // checkpoints that may be pruned
		Kept     int    `json:"kept,omitempty"`   // and those that may not
		Total    totals `json:"total"`            // of all conversations, at the last checkpoint
		Rounds   uint64 `json:"rounds,omitempty"` // how often that was brought up to date
		State    sum    `json:"state"`            // of the agent's own records, then
	}
	// unit is what is counted of the agent's own records, and of a conversation.
	unit struct {
		totals
		Next  uint64    `json:"next,omitempty"`  // the next sequence
		Last  time.Time `json:"last,omitzero"`   // the largest time of a message
		Round uint64    `json:"round,omitempty"` // one more than the ledger's when the change is noted
		Dead  bool      `json:"dead,omitempty"`  // the conversation was deleted and some checkpoint shows it
	}
	// place is where a message is; Deleted stays, so that a late append of it
	// changes nothing.
	place struct {
		Seq     uint64 `json:"seq"`
		Deleted bool   `json:"deleted,omitempty"`
	}
	// awaitedRecord is a message that was named as a parent before it came.
	awaitedRecord struct{}
	// activeRecord is a conversation that is not archived.
	activeRecord struct {
		Created time.Time `json:"created"`
	}
	// goneRecord is what has to be removed.
	goneRecord struct {
		AgentID string `json:"agent_id"`
	}
	// holders counts the messages, stored and in the history, that hold a content.
	holders struct {
		Count int `json:"count"`
	}
)

// readSince reads the number of the first checkpoint that shows a versioned record.
func readSince(raw []byte) (since uint64, ok bool) {
	var r struct {
		Since *uint64 `json:"since"`
	}
	if json.Unmarshal(raw, &r) != nil || r.Since == nil {
		return 0, false
	}
	return *r.Since, true
}

func (s *Store) encode(v any) (json.RawMessage, error) { return s.core.codec.Append(nil, v) }

func (s *Store) decode(raw json.RawMessage, into any) error {
	return misfit.InLine(misfit.Of(raw, into, s.core.codec.Decode(raw, into)))
}

func (r *stateRecord) state() *State {
	return &State{
		ID: r.ID, Name: r.Name, Type: r.Type, SystemPrompt: r.SystemPrompt, Capabilities: r.Capabilities,
		Config: r.Config, Metadata: r.Metadata, Created: r.Created, Modified: r.Modified, Version: r.Version,
	}
}

func (r *headRecord) conversation() *Conversation {
	return &Conversation{
		ID: r.ID, AgentID: r.AgentID, Title: r.Title, Tags: r.Tags, Metadata: r.Metadata, Created: r.Created,
		Archived: r.Archived, SystemPrompt: r.SystemPrompt, MaxContextTokens: r.MaxContextTokens,
		LastMessage: r.Created,
	}
}

func (r *headRecord) take(c *Conversation) {
	r.Title, r.Tags, r.Metadata, r.Archived = c.Title, c.Tags, c.Metadata, c.Archived
	r.Created, r.SystemPrompt, r.MaxContextTokens = c.Created.Round(0).UTC(), c.SystemPrompt, c.MaxContextTokens
}

// seen tells of a conversation's counts.
func (u *unit) seen(c *Conversation) {
	c.Count = u.Messages
	if u.Last.After(c.LastMessage) {
		c.LastMessage = u.Last
	}
}

// provisional tells whether a version is one that a transaction has given
// provisionally, so that the transaction itself wrote the record.
func provisional(v tiers.Version) bool { return v >= 1<<62 }

// wholeRecord is a conversation that was deleted and that some checkpoint shows.
type wholeRecord struct {
	ID string `json:"id"`
}
