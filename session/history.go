package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/sagestore/sagestore/manager"
)

// AddQuery adds a query to the history of a session, whatever the length of the
// history is.
func (s *Store) AddQuery(ctx context.Context, id, query string) error {
	if err := checkID(id); err != nil {
		return fail("add a query to", id, err)
	}
	return fail("add a query to", id, s.update(ctx, id, func(v view) error {
		i, err := v.going(ctx, id)
		if err != nil {
			return err
		}
		if err := v.addQueries(ctx, &i, []string{query}); err != nil {
			return err
		}
		return v.identities.Save(ctx, manager.Key(id), i)
	}))
}

// addQueries stores queries after those that there are, and removes those that
// are too many.
func (v view) addQueries(ctx context.Context, i *identity, queries []string) error {
	if most := v.maxHistory; most > 0 && len(queries) > most {
		i.Queries += uint64(len(queries) - most) //nolint:gosec // above 0
		queries = queries[len(queries)-most:]
	}
	fresh := make(map[string]string, len(queries))
	var gone []string
	for _, q := range queries {
		i.Queries++
		fresh[queryKey(i.ID, i.Queries)] = q
		if most := uint64(max(0, v.maxHistory)); most > 0 && i.Queries > most {
			gone = append(gone, queryKey(i.ID, i.Queries-most))
		}
	}
	if err := v.history.SaveMany(ctx, fresh); err != nil {
		return err
	}
	_, err := v.history.DeleteMany(ctx, gone...)
	return err
}

func queryKey(id string, seq uint64) string { return fmt.Sprintf("%s/%010d", manager.Key(id), seq) }

// overlap answers how many queries of a state that was not loaded are stored, or
// were: stored queries are the end of some beginning of the state's.
func (v view) overlap(ctx context.Context, st *State) (int, error) {
	var now []string
	for e, err := range v.history.List(ctx, manager.Prefix(manager.Key(st.SessionID)+"/")) {
		if err != nil {
			return 0, err
		}
		now = append(now, e.Value)
	}
	for from := range len(st.History) {
		n := min(len(now), len(st.History)-from)
		if n > 0 && slices.Equal(now[:n], st.History[from:from+n]) {
			return from + n, nil
		}
	}
	return 0, nil
}
