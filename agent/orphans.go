package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sagestore/sagestore/manager"
)

// orphans is what is stored of agents that no index names: the id of the agent by its
// inner name, or the inner name again where nothing tells the id, or another agent
// has it by now. What a deletion has still to remove is none. With messages it reads
// the keys of all of them as well.
func (s *Store) orphans(ctx context.Context, messages bool) (map[string]string, error) {
	found, err := s.under(ctx, s.state, atID)
	if err != nil {
		return nil, err
	}
	known, taken := make(map[string]bool), make(map[string]bool)
	for _, one := range found {
		taken[segment(one.rest)] = true
		ref, bad := unread[agentRef](s, one.raw)
		if bad {
			return nil, nil // whose is what can't be told before that is repaired
		}
		known[ref.Inner] = true
	}
	gone, err := s.under(ctx, s.state, atGone, manager.KeysOnly())
	if err != nil {
		return nil, err
	}
	for _, one := range gone {
		known[one.rest] = true
	}
	all := make(map[string]string)
	for _, in := range []struct {
		c      *manager.Collection[json.RawMessage]
		prefix string
	}{{s.state, atLedger}, {s.conversations, atHead}, {s.checkpoints, atInfo}, {s.conversations, atMessage}} {
		if in.prefix == atMessage && !messages {
			continue
		}
		keys, err := s.under(ctx, in.c, in.prefix, manager.KeysOnly())
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			if au, _, _ := strings.Cut(key.rest, "/"); !known[au] {
				all[au] = au
			}
		}
	}
	for _, au := range slices.Sorted(maps.Keys(all)) {
		id, err := s.ownerOf(ctx, au)
		if err != nil {
			return nil, err
		}
		if id != "" && !taken[id] {
			all[au], taken[id] = id, true
		}
	}
	return all, nil
}

// ownerOf answers the id of the agent of an inner name as its ledger, its head or its
// conversations tell it, and "" when none does.
func (s *Store) ownerOf(ctx context.Context, au string) (string, error) {
	raw, err := s.peek(ctx, s.state, atLedger+au)
	if err != nil {
		return "", err
	}
	if led, bad := unread[ledger](s, raw); !bad && led.AgentID != "" {
		return led.AgentID, nil
	}
	agents, err := s.under(ctx, s.state, atHead)
	if err != nil {
		return "", err
	}
	for _, one := range agents {
		if r, bad := unread[stateRecord](s, one.raw); !bad && r.Inner == au {
			return segment(one.rest), nil
		}
	}
	heads, err := s.under(ctx, s.conversations, atHead+au+"/")
	if err != nil {
		return "", err
	}
	for _, one := range heads {
		if h, bad := unread[headRecord](s, one.raw); !bad && h.AgentID != "" {
			return h.AgentID, nil
		}
	}
	return "", nil
}

// orphan answers the inner name of what is stored of an agent that no index names, by
// the id of the agent or that inner name itself.
func (s *Store) orphan(ctx context.Context, id string) (au string, found bool, err error) {
	_, e := inner().DecodeString(id)
	all, err := s.orphans(ctx, e == nil && len(id) == len(innerName()))
	for _, au := range slices.Sorted(maps.Keys(all)) {
		if all[au] == id {
			return au, true, err
		}
	}
	return "", false, err
}

// orphaned says what there is of an orphan.
func (s *Store) orphaned(ctx context.Context, au, id string) (Damage, error) {
	d := Damage{AgentID: id, Orphan: au == id}
	var counts [3]int
	for i, in := range []struct {
		c      *manager.Collection[json.RawMessage]
		prefix string
	}{{s.conversations, atHead}, {s.conversations, atMessage}, {s.checkpoints, atInfo}} {
		keys, err := s.under(ctx, in.c, in.prefix+au+"/", manager.KeysOnly())
		if err != nil {
			return d, err
		}
		counts[i] = len(keys)
	}
	d.What = "its index is missing, so that nothing reaches its"
	if d.Orphan {
		d.What = "there is no such agent, and nothing tells whose they are:"
	}
	d.What += fmt.Sprintf(" %d conversations with %d messages, and %d checkpoints", counts[0], counts[1], counts[2])
	return d, nil
}
