package agent

import "context"

// Sessions answers the ids of the sessions of package session that belong to an agent, in
// the order of their keys; see session.State. They are deleted with it.
func (s *Store) Sessions(ctx context.Context, id string) ([]string, error) {
	if err := checkID("agent", id); err != nil {
		return nil, fail("list sessions of agent", categoryState, id, err)
	}
	books := s.books
	if s.tx != nil {
		books = books.In(s.tx)
	}
	ids, err := books.Owned(ctx, id)
	return ids, fail("list sessions of agent", categoryState, id, err)
}
