package agent

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/sagestore/sagestore/manager"
)

// Stats count what there is of agents. They are the same on every tier, and what
// counting everything again would give.
type Stats struct {
	Agents        int64 `json:"agents"`
	Conversations int64 `json:"conversations"`
	Checkpoints   int64 `json:"checkpoints"`
	Messages      int64 `json:"messages"`

	// Bytes are those of the encoded records of agents, conversations, messages and
	// checkpoints, and of what is kept for checkpoints; what several of them share is
	// counted once. Keys, indexes and what the disk needs besides are left out.
	Bytes int64 `json:"bytes"`

	// Failures are automatic checkpoints that could not be made, and Uncleaned those
	// after which the oldest could not be removed, since the Store was made.
	Failures  int64 `json:"failures"`
	Uncleaned int64 `json:"uncleaned"`
}

// Stats counts what there is. It looks at every agent, conversation and
// checkpoint, and not at every message.
func (s *Store) Stats(ctx context.Context) (Stats, error) {
	var st Stats
	err := s.view(ctx, func(s *Store) error {
		st = Stats{Failures: s.core.auto.failures.Load(), Uncleaned: s.core.auto.uncleaned.Load()}
		alive := make(map[string]bool)
		for entry, err := range s.state.List(ctx, manager.Prefix(atLedger), manager.KeysOnly()) {
			if err != nil {
				return err
			}
			alive[strings.TrimPrefix(entry.Key, atLedger)] = true
		}
		st.Agents = int64(len(alive))
		for _, of := range []struct {
			c      *manager.Collection[json.RawMessage]
			prefix string
			count  func(raw json.RawMessage)
		}{
			{s.state, atSum, func(raw json.RawMessage) { st.add(raw) }},
			{s.conversations, atSum, func(raw json.RawMessage) { st.add(raw) }},
			{s.state, atHistory, st.weigh},
			{s.conversations, atHistory, st.weigh},
			{s.conversations, atContent, st.weigh},
			{s.checkpoints, atCopy, st.weigh},
			{s.checkpoints, atInfo, func(raw json.RawMessage) { st.Checkpoints++; st.weigh(raw) }},
		} {
			for entry, err := range of.c.List(ctx, manager.Prefix(of.prefix)) {
				if err != nil {
					return err
				}
				au, _, _ := strings.Cut(strings.TrimPrefix(entry.Key, of.prefix), "/")
				if alive[au] {
					of.count(entry.Value)
				}
			}
		}
		return nil
	})
	return st, fail("count", categoryState, "", reveal(err))
}

func (st *Stats) weigh(raw json.RawMessage) { st.Bytes += int64(len(raw)) }

// add takes a unit's counts. The messages of a deleted conversation, kept for
// checkpoints, have their weight and are not counted.
func (st *Stats) add(raw json.RawMessage) {
	var u unit
	if json.Unmarshal(raw, &u) != nil {
		return
	}
	st.Bytes += u.Bytes
	if !u.Dead {
		st.Messages += int64(u.Messages)
		st.Conversations += int64(u.Conversations)
	}
}
