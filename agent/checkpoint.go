package agent

import "time"

// CheckpointInfo says what a checkpoint is.
type CheckpointInfo struct {
	ID           string            `json:"id"` // made when empty; no other checkpoint has it
	AgentID      string            `json:"agent_id"`
	Conversation string            `json:"conversation,omitempty"` // the one that it covers; empty: the agent with all of them
	Number       uint64            `json:"number"`                 // grows with each checkpoint of the agent; latest and lists go by it
	Kind         Kind              `json:"kind"`                   // empty is Manual
	Name         string            `json:"name,omitempty"`
	Description  string            `json:"description,omitempty"`
	Iteration    int               `json:"iteration,omitempty"` // how many steps are done; 0 when it is made is that of the agent's [Run]
	Keep         bool              `json:"keep,omitempty"`      // it is tagged: nothing but a deletion removes it
	Metadata     map[string]string `json:"metadata,omitempty"`
	Created      time.Time         `json:"created"`
	SHA256       string            `json:"sha256"` // over what it shows and what it is
	Size         int64             `json:"size"`   // in bytes of what restoring gives, encoded
	Stored       int64             `json:"stored"` // in bytes that making it added: what it shows is shared
	Messages     int               `json:"messages"`

	// Doubtful: a restore made it of what it found damaged, and it is no sound place to go back to by itself.
	Doubtful bool `json:"doubtful,omitempty"`
}

// Checkpoint is a checkpoint with what it shows.
type Checkpoint struct {
	CheckpointInfo
	State         *State          `json:"state,omitempty"` // nil when it covers one conversation
	Conversations []*Conversation `json:"conversations,omitempty"`
}

// infoRecord is a checkpoint as it is stored.
type infoRecord struct {
	ID           string            `json:"id,omitempty"` // empty: the made one, see madeID
	Conversation string            `json:"conversation,omitempty"`
	Inner        string            `json:"inner,omitempty"` // of the conversation
	Kind         Kind              `json:"kind"`
	Name         string            `json:"name,omitempty"`
	Description  string            `json:"description,omitempty"`
	Iteration    int               `json:"iteration,omitempty"`
	Keep         bool              `json:"keep,omitempty"`
	Metadata     map[string]string `json:"metadata,omitempty"`
	Created      time.Time         `json:"created"`
	SHA256       string            `json:"sha256"`
	Size         int64             `json:"size"`
	Messages     int               `json:"messages,omitempty"`
	Copy         bool              `json:"copy,omitempty"` // what it shows is stored by itself
	Doubtful     bool              `json:"doubtful,omitempty"`
}
