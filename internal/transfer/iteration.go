package transfer

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/internal/misfit"
	"github.com/sagestore/sagestore/tiers"
)

// checkpointFile reads a file that is one checkpoint.
func (r *reading) checkpointFile() error {
	b, err := r.whole()
	if err != nil {
		r.refuse(err)
		return nil
	}
	var c *agent.Checkpoint
	if r.src.format == PortableCheckpoint {
		if err = sound(b); err == nil {
			c, err = agent.DecodeCheckpoint(b)
		}
	} else {
		var o object
		if o, err = objectOf(b); err == nil && r.src.format == AgentCheckpoint {
			c, err = r.agentCheckpoint(o)
		} else if err == nil {
			c, err = iterationCheckpoint(o)
		}
	}
	if err != nil {
		r.refuse(misfit.Located(b, err))
		return nil
	}
	return r.give(found{checkpoint: c})
}

// iterationCheckpoint reads a checkpoint of a conversation at an iteration.
func iterationCheckpoint(o object) (*agent.Checkpoint, error) {
	c := &agent.Checkpoint{}
	c.ID, c.AgentID, c.Kind, c.Created = o.text("id"), o.text("agent_id"), agent.Manual, instant(o.take("created_at"))
	if c.ID == "" || c.AgentID == "" {
		return nil, fmt.Errorf("%w: the checkpoint has no id, or no agent_id", tiers.ErrCorrupt)
	}
	c.Keep = true // these programs know no tags, and a clean-up is not to remove it for being older than those made here
	if raw := o.take("iteration"); json.Unmarshal(raw, &c.Iteration) != nil {
		return nil, fmt.Errorf("%w: its iteration is no whole number", tiers.ErrCorrupt)
	}
	var conv object
	if json.Unmarshal(o.take("conversation"), &conv) != nil || conv == nil {
		return nil, fmt.Errorf("%w: its conversation is no object", tiers.ErrCorrupt)
	}
	if conv["id"] == nil && conv["conversation_id"] == nil {
		conv["id"] = quoted(derived("conversation", c.AgentID))
	}
	conv["agent_id"] = quoted(c.AgentID)
	head, err := conversationOf(conv)
	if err != nil {
		return nil, err
	}
	if head.Created.IsZero() {
		head.Created = c.Created
	}
	for i := range head.Messages {
		if head.Messages[i].At.IsZero() {
			head.Messages[i].At = c.Created
		}
	}
	c.Conversation, c.Conversations = head.ID, []*agent.Conversation{head}
	if c.Metadata, err = wordsOf(o.take("metadata")); err != nil {
		return nil, err
	}
	c.Metadata = o.metadata(c.Metadata)
	return c, nil
}

// fieldFile reads the fields of one agent, which are named by the file. They may
// stand under "fields", beside the key.
func (r *reading) fieldFile() error {
	o, err := r.document()
	if err != nil {
		r.refuse(err)
		return nil
	}
	key := strings.TrimSuffix(filepath.Base(r.src.path), ".json")
	if len(o) == 2 && o["agent_key"] != nil && o["fields"] != nil {
		var inner object
		if name := textOf(o["agent_key"]); name != "" && json.Unmarshal(o["fields"], &inner) == nil && inner != nil {
			key, o = name, inner
		}
	}
	return r.give(found{fields: &fields{key: key, values: o}})
}
