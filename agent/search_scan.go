package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/sagestore/sagestore/internal/misfit"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// searchedRecord is what a search needs of a message.
type searchedRecord struct {
	Role    Role      `json:"role"`
	Content string    `json:"content"`
	At      time.Time `json:"at"`
}

func (s *Store) decodeSearched(key string, raw json.RawMessage) (r searchedRecord, err error) {
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, corrupt(key, misfit.InLine(misfit.Of(raw, &r, err)))
	}
	return r, nil
}

// scan looks at all messages. What can't be read is in bad.
func (s *Store) scan(ctx context.Context, m *matcher) (all []match, bad, err error) {
	var errs []error
	damaged := func(err error) bool {
		if errors.Is(err, tiers.ErrCorrupt) || errors.Is(err, tiers.ErrCodec) {
			errs = append(errs, err)
			return true
		}
		return false
	}
	for at, err := range s.placedHeads(ctx, m) {
		if err == nil {
			all, err = s.scanOne(ctx, m, at, all, damaged)
		}
		if err != nil && !damaged(err) {
			return nil, nil, err
		}
	}
	return all, errors.Join(errs...), nil
}

// placedHeads yields the conversations that are looked at.
func (s *Store) placedHeads(ctx context.Context, m *matcher) func(func(*placed, error) bool) {
	return func(yield func(*placed, error) bool) {
		opts := []manager.ListOption{manager.Prefix(atID)}
		if m.AgentID != "" {
			opts = []manager.ListOption{manager.Under(strings.TrimSuffix(atID, "/"), m.AgentID)}
		}
		for entry, err := range s.state.List(ctx, opts...) {
			var ref agentRef
			if err == nil {
				err = s.decode(entry.Value, &ref)
			}
			if err != nil {
				if !yield(nil, err) || entry.Key == "" {
					return
				}
				continue
			}
			id := segment(strings.TrimPrefix(entry.Key, atID))
			for at, err := range s.headsOf(ctx, m, id, ref.Inner) {
				if !yield(at, err) {
					return
				}
			}
		}
	}
}

func (s *Store) headsOf(ctx context.Context, m *matcher, agentID, au string) func(func(*placed, error) bool) {
	return func(yield func(*placed, error) bool) {
		for entry, err := range s.conversations.List(ctx, manager.Prefix(atHead+au+"/")) {
			var h headRecord
			if err == nil {
				if err = s.decode(entry.Value, &h); err != nil {
					err = corrupt(entry.Key, err)
				}
			}
			if err == nil && !m.wantsHead(&h) {
				continue
			}
			if !yield(&placed{agentID: agentID, id: h.ID, au: au, cu: h.Inner}, err) || err != nil && entry.Key == "" {
				return
			}
		}
	}
}

// scanOne looks at the messages of a conversation, from the newest on.
func (s *Store) scanOne(ctx context.Context, m *matcher, at *placed, all []match, damaged func(error) bool) ([]match, error) {
	latest := time.Time{} // of the messages, as far as it is known
	if m.mode == Contains {
		u, found, err := load[unit](ctx, s, s.conversations, atSum+at.au+"/"+at.cu)
		if err != nil && !damaged(err) {
			return all, err
		}
		if found {
			latest = u.Last
		}
	}
	for entry, err := range s.conversations.List(ctx, manager.Prefix(messagePrefix(at.au, at.cu)), manager.Reverse()) {
		var r searchedRecord
		if err == nil {
			r, err = s.decodeSearched(entry.Key, entry.Value)
		}
		if err != nil {
			if entry.Key == "" || !damaged(err) {
				return all, err
			}
			continue
		}
		one, ok := m.look(at, entry.Key, &r)
		if !ok {
			continue
		}
		all = append(all, one)
		if !latest.IsZero() && !one.time.Before(latest) {
			return all, nil // of what contains the text this is the newest, which is answered
		}
	}
	return all, nil
}

// look answers the match that a message is, if it is one.
func (m *matcher) look(at *placed, key string, r *searchedRecord) (one match, ok bool) {
	seq, ok := lastNumber(key)
	if !ok || !m.wants(r.Role, r.At) {
		return one, false
	}
	grade, ok := m.grade(r.Content)
	return match{at: at, seq: seq, time: r.At, grade: grade}, ok
}

// joined is errors.Join that leaves a single error as it is.
func joined(a, b error) error {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return errors.Join(a, b)
}
