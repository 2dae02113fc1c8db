package session

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/sagestore/sagestore/internal/sessionlog"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// Info is what is known of a session without looking into it.
type Info struct {
	ID        string    `json:"session_id"`
	UserID    string    `json:"user_id,omitempty"`
	AgentID   string    `json:"agent_id,omitempty"` // the agent that it belongs to
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"` // zero: it goes on
	Events    uint64    `json:"events"`            // sequence number of the last one
}

// All yields the sessions that were begun with [Store.Start], also those that
// have ended, in the order of their ids. A session that can't be read is an error
// beside an Info that has only ID, and the list goes on; any other error ends it.
func (s *Store) All(ctx context.Context) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for e, err := range s.identities.List(ctx) {
			if sessionlog.IsNote(e.Key) {
				continue
			}
			info := Info{}
			if e.Key != "" {
				info.ID = manager.SplitKey(e.Key)[0]
			}
			if err == nil {
				info, err = s.about(ctx, e.Value)
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

// Info answers what is known of a session, or tiers.ErrNotFound.
func (s *Store) Info(ctx context.Context, id string) (Info, error) {
	if err := checkID(id); err != nil {
		return Info{}, fail("look at", id, err)
	}
	i, err := s.identities.Load(ctx, manager.Key(id))
	if err != nil {
		return Info{}, fail("look at", id, unknown(err))
	}
	return s.about(ctx, i)
}

func (s *Store) about(ctx context.Context, i identity) (Info, error) {
	head, err := s.logs.Load(ctx, logKey(i.ID))
	if errors.Is(err, tiers.ErrNotFound) {
		err = nil // its log has gone before it, as the category may say
	}
	return Info{ID: i.ID, UserID: i.User, AgentID: i.Agent, StartedAt: i.Started, EndedAt: i.Ended, Events: head.Last}, err
}
