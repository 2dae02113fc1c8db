package session

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// Events yields the events of a session that come after a sequence number, in
// order. An event that can't be read is an error beside an Event that has only
// Session and Seq, and the log goes on; any other error ends it. A session without
// events yields none; one that is not there is tiers.ErrNotFound.
func (s *Store) Events(ctx context.Context, id string, after uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if _, err := s.head(ctx, id); err != nil {
			yield(Event{}, fail("read events of", id, err))
			return
		}
		for e, err := range s.list(ctx, id, manager.After(eventKey(id, after))) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// Last answers the last n events, in order. What can't be read is left out, and
// part of the error beside the rest.
func (s *Store) Last(ctx context.Context, id string, n int) ([]Event, error) {
	if _, err := s.head(ctx, id); err != nil || n <= 0 {
		return nil, fail("read events of", id, err)
	}
	events, err := collect(s.list(ctx, id, manager.Reverse(), manager.Limit(n)))
	slices.Reverse(events)
	return events, err
}

// Turn answers the events of a turn, in order. It reads the whole log. What can't
// be read is part of the error beside the rest.
func (s *Store) Turn(ctx context.Context, id, turn string) ([]Event, error) {
	return collect(func(yield func(Event, error) bool) {
		for e, err := range s.Events(ctx, id, 0) {
			if (err != nil || e.Turn == turn) && !yield(e, err) {
				return
			}
		}
	})
}

// head answers the record of a log, or that there is no such session.
func (s *Store) head(ctx context.Context, id string) (logHead, error) {
	if err := checkID(id); err != nil {
		return logHead{}, err
	}
	head, err := s.logs.Load(ctx, logKey(id))
	return head, unknown(err)
}

// list yields the events that the options select.
func (s *Store) list(ctx context.Context, id string, opts ...manager.ListOption) iter.Seq2[Event, error] {
	prefix := eventPrefix(id)
	return func(yield func(Event, error) bool) {
		for entry, err := range s.events.List(ctx, append(opts, manager.Prefix(prefix))...) {
			if err != nil && entry.Key == "" {
				yield(Event{}, fail("read events of", id, err))
				return
			}
			e := Event{Session: id, Seq: seqOf(prefix, entry.Key)}
			if err == nil {
				whole, fault := entry.Value.event(id, e.Seq)
				if fault == nil {
					e = whole
				}
				err = tiers.Fail("list", entry.Tier, tiers.Key{Category: "session.events", Name: entry.Key}, fault)
			}
			if err != nil {
				err = fmt.Errorf("event %d can't be read: %w", e.Seq, err)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}
