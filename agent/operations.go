package agent

import (
	"context"
	"fmt"

	"github.com/sagestore/sagestore/tiers"
)

// Inputs and outputs of the operations.
type (
	paged struct {
		After string `json:"after,omitempty" doc:"the id to go on after"`
		Limit int    `json:"limit,omitempty" doc:"how many at most; 0 is no limit"`
	}
	existed struct {
		Existed bool `json:"existed"`
	}
	agentIO struct {
		Agent *State `json:"agent"`
	}
	agentItem struct {
		ID   string `json:"id"`
		Name string `json:"name"`
		Type string `json:"type"`
	}
	agentItems struct {
		Agents []agentItem `json:"agents"`
	}
	conversationIO struct {
		Conversation *Conversation `json:"conversation"`
	}
	conversationID struct {
		ConversationID string `json:"conversation_id" doc:"the conversation"`
	}
	conversationPage struct {
		conversationID
		After     uint64 `json:"after,omitempty" doc:"the sequence to go on after"`
		Before    uint64 `json:"before,omitempty" doc:"the sequence to end before"`
		Limit     int    `json:"limit,omitempty" doc:"how many messages at most; 0 is all"`
		Last      bool   `json:"last,omitempty" doc:"the last ones rather than the first"`
		WholeCall bool   `json:"whole_tool_calls,omitempty" doc:"do not part tool calls from their results"`
	}
	conversationItems struct {
		Conversations []*Conversation `json:"conversations"`
	}
	pagedAgent struct {
		ofAgent
		paged
	}
	searchInput struct {
		ofAgent
		Text  string `json:"text" doc:"what to look for"`
		Mode  Mode   `json:"mode,omitempty" doc:"contains is the default"`
		Limit *int   `json:"limit,omitempty" doc:"how many conversations at most; 20 when left out"`
	}
	hits struct {
		Hits []Hit `json:"hits"`
	}
	checkpointInput struct {
		ofAgent
		ID             string            `json:"id,omitempty" doc:"made when left out"`
		ConversationID string            `json:"conversation_id,omitempty" doc:"only this one, rather than the agent with all"`
		Name           string            `json:"name,omitempty"`
		Description    string            `json:"description,omitempty"`
		Iteration      int               `json:"iteration,omitempty"`
		Keep           bool              `json:"keep,omitempty" doc:"no clean-up removes it"`
		Metadata       map[string]string `json:"metadata,omitempty"`
	}
	checkpointIO struct {
		Checkpoint CheckpointInfo `json:"checkpoint"`
	}
	checkpointID struct {
		ofAgent
		CheckpointID string `json:"checkpoint_id" doc:"the checkpoint; latest is the newest"`
	}
	restoreInput struct {
		checkpointID
		KeepNewer bool `json:"keep_newer,omitempty" doc:"conversations begun since stay"`
		OrOlder   bool `json:"or_older,omitempty" doc:"when it is damaged, take the next older sound one"`
	}
	restored struct {
		AgentID  string         `json:"agent_id"`
		Recovery CheckpointInfo `json:"recovery" doc:"what undoes it"`
	}
	checkpointItems struct {
		Checkpoints []CheckpointInfo `json:"checkpoints"`
	}
	statsIO struct {
		Stats Stats `json:"stats"`
	}
	nothing struct{}
)

func (p paged) after() (After, error) {
	if p.Limit < 0 {
		return After{}, fmt.Errorf("%w: a limit is 0, for none, or more", tiers.ErrType)
	}
	return After{ID: p.After, Limit: p.Limit}, nil
}

func (s *Store) agentTools(bound string) []Tool {
	return []Tool{
		tool(s, bound, "agent_save", "Save agent state to persistent storage", false,
			func(ctx context.Context, s *Store, in *agentIO) (out agentIO, err error) {
				if in.Agent == nil || bound != "" && in.Agent.ID != bound {
					return out, fmt.Errorf("%w: agent is missing, or another one", tiers.ErrType)
				}
				if err := s.Save(ctx, in.Agent); err != nil {
					return out, err
				}
				if out.Agent, err = s.Load(ctx, in.Agent.ID); err == nil {
					s.tx.OnCommit(func(context.Context) { out.Agent.Revision = in.Agent.Revision })
				}
				return out, err
			}),
		tool(s, bound, "agent_load", "Load agent state from persistent storage", false,
			func(ctx context.Context, s *Store, in *ofAgent) (out agentIO, err error) {
				out.Agent, err = s.Load(ctx, in.AgentID)
				return out, err
			}),
		tool(s, bound, "agent_delete", "Delete agent and all associated data", true,
			func(ctx context.Context, s *Store, in *ofAgent) (out existed, err error) {
				out.Existed, err = s.Delete(ctx, in.AgentID)
				return out, err
			}),
		tool(s, bound, "agent_list", "List all persisted agents", false,
			func(ctx context.Context, s *Store, in *paged) (agentItems, error) {
				out := agentItems{Agents: []agentItem{}}
				from, err := in.after()
				if err != nil {
					return out, err
				}
				if bound != "" {
					from = After{}
				}
				for a, err := range s.List(ctx, from) {
					if err != nil {
						return out, err
					}
					if mine(bound, a.ID) == nil {
						out.Agents = append(out.Agents, agentItem{a.ID, a.Name, a.Type})
					}
				}
				return out, nil
			}),
		tool(s, bound, "persistence_stats", "Get storage statistics", false,
			func(ctx context.Context, s *Store, _ *nothing) (out statsIO, err error) {
				out.Stats, err = s.Stats(ctx)
				return out, err
			}),
	}
}

func (s *Store) conversationTools(bound string) []Tool {
	return []Tool{
		tool(s, bound, "conversation_save", "Save a conversation", false,
			func(ctx context.Context, s *Store, in *conversationIO) (out conversationIO, err error) {
				c := in.Conversation
				if c == nil || bound != "" && c.AgentID != bound {
					return out, fmt.Errorf("%w: conversation is missing, or another agent's", tiers.ErrType)
				}
				if err := s.SaveConversation(ctx, c); err != nil {
					return out, err
				}
				if out.Conversation, err = s.LoadConversation(ctx, c.ID, Page{}); err == nil {
					s.tx.OnCommit(func(context.Context) { out.Conversation.Revision = c.Revision })
				}
				return out, err
			}),
		tool(s, bound, "conversation_load", "Load a conversation", false,
			func(ctx context.Context, s *Store, in *conversationPage) (out conversationIO, err error) {
				c, err := s.LoadConversation(ctx, in.ConversationID,
					Page{After: in.After, Before: in.Before, Limit: in.Limit, Last: in.Last, WholeToolCalls: in.WholeCall})
				if err == nil {
					err = mine(bound, c.AgentID)
				}
				return conversationIO{c}, err
			}),
		tool(s, bound, "conversation_delete", "Delete a conversation", true,
			func(ctx context.Context, s *Store, in *conversationID) (out existed, err error) {
				_, found, err := s.mineConversation(ctx, bound, in.ConversationID)
				if found && err == nil {
					out.Existed, err = s.DeleteConversation(ctx, in.ConversationID)
				}
				return out, err
			}),
		tool(s, bound, "conversation_list", "List conversations for an agent", false,
			func(ctx context.Context, s *Store, in *pagedAgent) (conversationItems, error) {
				out := conversationItems{Conversations: []*Conversation{}}
				from, err := in.after()
				if err != nil {
					return out, err
				}
				for c, err := range s.Conversations(ctx, in.AgentID, from) {
					if err != nil {
						return out, err
					}
					out.Conversations = append(out.Conversations, c)
				}
				return out, nil
			}),
		tool(s, bound, "conversation_search", "Search conversations by content", false,
			func(ctx context.Context, s *Store, in *searchInput) (hits, error) {
				found, err := s.Search(ctx, Query{Text: in.Text, Mode: in.Mode, AgentID: in.AgentID, Limit: in.Limit})
				return hits{append([]Hit{}, found...)}, err
			}),
	}
}

func (s *Store) checkpointTools(bound string) []Tool {
	return []Tool{
		tool(s, bound, "checkpoint_create", "Create a checkpoint for recovery", false,
			func(ctx context.Context, s *Store, in *checkpointInput) (out checkpointIO, err error) {
				out.Checkpoint, err = s.Checkpoint(ctx, CheckpointInfo{
					AgentID: in.AgentID, ID: in.ID, Conversation: in.ConversationID, Name: in.Name, Description: in.Description,
					Iteration: in.Iteration, Keep: in.Keep, Metadata: in.Metadata,
				})
				return out, err
			}),
		tool(s, bound, "checkpoint_restore", "Restore from a checkpoint", true,
			func(ctx context.Context, s *Store, in *restoreInput) (out restored, err error) {
				out.Recovery, err = s.Restore(ctx, in.AgentID, in.CheckpointID, RestoreOptions{KeepNewer: in.KeepNewer, OrOlder: in.OrOlder})
				out.AgentID = out.Recovery.AgentID
				return out, err
			}),
		tool(s, bound, "checkpoint_list", "List checkpoints for an agent", false,
			func(ctx context.Context, s *Store, in *pagedAgent) (checkpointItems, error) {
				out := checkpointItems{Checkpoints: []CheckpointInfo{}}
				from, err := in.after()
				if err != nil {
					return out, err
				}
				for c, err := range s.Checkpoints(ctx, in.AgentID, from) {
					if err != nil {
						return out, err
					}
					out.Checkpoints = append(out.Checkpoints, c)
				}
				return out, nil
			}),
		tool(s, bound, "checkpoint_delete", "Delete a checkpoint", true,
			func(ctx context.Context, s *Store, in *checkpointID) (out existed, err error) {
				out.Existed, err = s.DeleteCheckpoint(ctx, in.AgentID, in.CheckpointID)
				return out, err
			}),
	}
}
