package txn

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/sagestore/sagestore/tiers"
)

const (
	// window is how many rows are merged at first into what the tier lists. Each window
	// costs a listing of the tier, so where there are many rows they grow.
	window, largestWindow = 256, 16384
	// windowBytes bounds what they hold.
	windowBytes = 4 << 20
)

// List merges the rows into what the tier lists. While the server is away it is
// one error, unless the journal is the whole truth.
func (j *Journaled) List(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
	return func(yield func(tiers.Record, error) bool) {
		at := tiers.Key{Namespace: q.Namespace, Category: q.Category}
		if err := j.enter(ctx); err != nil {
			yield(tiers.Record{}, tiers.Fail("list", j.name, at, err))
			return
		}
		m := merge{Journaled: j, q: q, left: q.Limit, yield: yield, inside: true}
		defer m.leave()
		err := j.meet(ctx)
		if err == nil {
			err = m.run(ctx)
		}
		if m.leave(); err != nil {
			yield(tiers.Record{}, tiers.Fail("list", j.name, at, err))
		}
	}
}

// merge is one listing.
type merge struct {
	*Journaled
	q       tiers.Query
	left    int  // records to go; counts when the query has a limit
	begun   bool // the tier has yielded something
	stopped bool // by the caller, or by the limit, or closed
	closed  bool // the tier was
	inside  bool // the listing counts as a call on its way
	yield   func(tiers.Record, error) bool
}

// run goes through the keys in windows. The rows of a window are read before
// the tier's part of it, so that a row which is applied meanwhile is seen in one
// of both.
func (m *merge) run(ctx context.Context) error {
	for size := window; !m.stopped; size = min(4*size, largestWindow) {
		var rows []tiers.Row
		waits, err := m.anyRows(ctx)
		if err != nil {
			return err
		}
		last := true
		if waits {
			if rows, last, err = m.rowsOf(ctx, size); err != nil {
				return err
			}
		}
		end := ""
		if !last {
			end = rows[len(rows)-1].Name
		}
		if err := m.window(ctx, rows, end); err != nil {
			return err
		}
		if last {
			break
		}
		m.q.After = end
	}
	if m.closed {
		return tiers.ErrClosed
	}
	return nil
}

// rowsOf answers the next rows, up to so many, and whether they are the last ones.
func (m *merge) rowsOf(ctx context.Context, size int) (rows []tiers.Row, last bool, err error) {
	q := m.q
	q.Limit = size
	bytes := 0
	for row, err := range m.system.ListPending(ctx, m.name, q) {
		if err != nil {
			return nil, false, err
		}
		rows = append(rows, row)
		if bytes += len(row.Name) + len(row.Value); bytes >= windowBytes {
			return rows, false, nil
		}
	}
	return rows, len(rows) < size, nil
}

// window merges rows with what the tier has up to the key end, or to the last
// one when it is empty.
func (m *merge) window(ctx context.Context, rows []tiers.Row, end string) error {
	q := m.q
	if len(rows) > 0 {
		q.Limit = 0 // rows may hide any number of records
	}
	for r, err := range m.inner.List(ctx, q) {
		if err != nil && r.Name == "" {
			if !isAway(err) || m.begun {
				return err
			}
			if err := m.absent(ctx, err); !isNotFound(err) {
				return err
			}
			break
		}
		m.begun = true
		if end != "" && m.before(end, r.Name) {
			break
		}
		for len(rows) > 0 && m.before(rows[0].Name, r.Name) {
			if m.row(&rows[0]); m.stopped {
				return nil
			}
			rows = rows[1:]
		}
		if len(rows) > 0 && rows[0].Name == r.Name {
			continue // the row is the answer
		}
		if m.put(r, err); m.stopped {
			return nil
		}
	}
	for i := range rows {
		if m.row(&rows[i]); m.stopped {
			return nil
		}
	}
	return nil
}

// before tells whether a comes before b in the direction of the list.
func (m *merge) before(a, b string) bool {
	if m.q.Reverse {
		return a > b
	}
	return a < b
}

func (m *merge) row(row *tiers.Row) {
	if m.live(row) {
		m.put(row.Record, nil)
	}
}

// leave ends the call, if it has not ended yet.
func (m *merge) leave() {
	if m.inside {
		m.inside = false
		m.calls.Done()
	}
}

// put hands on a record. Close does not wait for whoever has it.
func (m *merge) put(r tiers.Record, err error) {
	m.leave()
	if m.stopped = !m.yield(r, err); m.stopped {
		return
	}
	if m.q.Limit > 0 {
		if err == nil {
			m.left--
		}
		if m.stopped = m.left <= 0; m.stopped {
			return
		}
	}
	m.inside = m.begin() == nil
	m.closed = !m.inside
	m.stopped = m.closed
}

// Spaces merges the spaces of rows into those of the tier.
func (j *Journaled) Spaces(ctx context.Context) iter.Seq2[tiers.Space, error] {
	return func(yield func(tiers.Space, error) bool) {
		var all []tiers.Space
		err := j.call(ctx, "list spaces", tiers.Key{}, func() (err error) {
			all, err = j.spaces(ctx)
			return err
		})
		if err != nil {
			yield(tiers.Space{}, err)
			return
		}
		for _, s := range all {
			if !yield(s, nil) {
				return
			}
		}
	}
}

// holdsSome tells whether a space has a record.
func (j *Journaled) holdsSome(ctx context.Context, s tiers.Space) (bool, error) {
	q := tiers.Query{Namespace: s.Namespace, Category: s.Category, Limit: 1, KeysOnly: true}
	for r, err := range j.List(ctx, q) {
		if err != nil && r.Name == "" {
			return false, err
		}
		return true, nil
	}
	return false, nil
}

func (j *Journaled) spaces(ctx context.Context) ([]tiers.Space, error) {
	found, doubtful := map[tiers.Space]struct{}{}, map[tiers.Space]bool{} // the latter have rows that delete
	waits, err := j.anyRows(ctx)
	if err != nil {
		return nil, err
	}
	if waits {
		err := j.eachRow(ctx, func(rows []tiers.Row) error {
			for i := range rows {
				if rows[i].Deleted {
					doubtful[rows[i].Space()] = true
				} else {
					found[rows[i].Space()] = struct{}{}
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for s, err := range j.inner.Spaces(ctx) {
		if isAway(err) {
			err = j.absent(ctx, err)
		}
		if isNotFound(err) {
			break
		}
		if err != nil {
			return nil, err
		}
		if _, sure := found[s]; !sure && doubtful[s] {
			if some, err := j.holdsSome(ctx, s); err != nil {
				return nil, err
			} else if !some {
				continue
			}
		}
		found[s] = struct{}{}
	}
	all := make([]tiers.Space, 0, len(found))
	for s := range found {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b tiers.Space) int {
		if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
			return c
		}
		return strings.Compare(a.Category, b.Category)
	})
	return all, nil
}

// eachRow gives all rows to visit, in order and in steps.
func (j *Journaled) eachRow(ctx context.Context, visit func([]tiers.Row) error) error {
	for after := uint64(0); ; {
		rows, err := j.system.Due(ctx, j.name, after, applyRows)
		if err != nil || len(rows) == 0 {
			return err
		}
		if err := visit(rows); err != nil {
			return err
		}
		after = rows[len(rows)-1].Seq
	}
}
