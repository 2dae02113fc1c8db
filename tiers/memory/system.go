package memory

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/sagestore/sagestore/tiers"
)

// system is a tiers.System that lives as long as the tier: for managers that
// keep everything in memory. Nothing of it is ever evicted.
type system struct {
	clock tiers.Clock

	mu       sync.Mutex
	closed   bool
	facts    map[string][]byte
	journals map[string]*journal
	seq      uint64 // of the journal
	sessions map[sessionKey]*tiers.Session
	turn     uint64 // of the sessions
	locks    map[string]bool
}

var _ tiers.System = (*system)(nil)

func newSystem(clock tiers.Clock) *system {
	return &system{
		clock: clock, facts: map[string][]byte{}, journals: map[string]*journal{},
		sessions: map[sessionKey]*tiers.Session{}, locks: map[string]bool{},
	}
}

func (s *system) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.facts, s.journals, s.sessions = nil, nil, nil
}

// enter locks the store for one operation, which must end with s.mu.Unlock
// unless there is an error.
func (s *system) enter(ctx context.Context, op string) error {
	err := ctx.Err()
	s.mu.Lock()
	if s.closed {
		err = tiers.ErrClosed
	}
	if err != nil {
		s.mu.Unlock()
		return s.fail(op, err)
	}
	return nil
}

func (s *system) fail(op string, err error) error {
	return tiers.Fail(op, "memory", tiers.Key{}, err)
}

// Lock takes a lock among those who share the tier.
func (s *system) Lock(ctx context.Context, name string) (unlock func(), ok bool, err error) {
	if err := s.enter(ctx, "lock"); err != nil {
		return nil, false, err
	}
	defer s.mu.Unlock()
	if s.locks[name] {
		return nil, false, nil
	}
	s.locks[name] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.locks, name)
	}, true, nil
}

// Changes answers the counters of journal and sessions.
func (s *system) Changes(ctx context.Context) (tiers.Changes, error) {
	if err := s.enter(ctx, "changes"); err != nil {
		return tiers.Changes{}, err
	}
	defer s.mu.Unlock()
	return tiers.Changes{Journal: s.seq, Sessions: s.turn}, nil
}

// Fact answers a copy of the value.
func (s *system) Fact(ctx context.Context, name string) ([]byte, error) {
	if err := s.enter(ctx, "fact"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	v, ok := s.facts[name]
	if !ok {
		return nil, s.fail("fact", tiers.ErrNotFound)
	}
	return clone(v), nil
}

// SetFact stores a copy of the value.
func (s *system) SetFact(ctx context.Context, name string, value []byte, ifAbsent bool) ([]byte, error) {
	if err := s.enter(ctx, "set fact"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if v, ok := s.facts[name]; ok && ifAbsent {
		return clone(v), nil
	}
	s.facts[strings.Clone(name)] = clone(value)
	return clone(value), nil
}

// Facts yields a state that later calls do not change.
func (s *system) Facts(ctx context.Context, prefix string) iter.Seq2[tiers.Fact, error] {
	return func(yield func(tiers.Fact, error) bool) {
		if err := s.enter(ctx, "facts"); err != nil {
			yield(tiers.Fact{}, err)
			return
		}
		var out []tiers.Fact
		for name, v := range s.facts {
			if strings.HasPrefix(name, prefix) {
				out = append(out, tiers.Fact{Name: name, Value: clone(v)})
			}
		}
		s.mu.Unlock()
		slices.SortFunc(out, func(a, b tiers.Fact) int { return cmp.Compare(a.Name, b.Name) })
		each(out, yield)
	}
}

// each yields items without an error.
func each[T any](items []T, yield func(T, error) bool) {
	for _, item := range items {
		if !yield(item, nil) {
			return
		}
	}
}
