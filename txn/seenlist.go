package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/sagestore/sagestore/tiers"
)

// List merges what the transaction wrote into what the tier lists, and notes
// what it has seen of that.
func (s *seen) List(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
	return func(yield func(tiers.Record, error) bool) {
		at := tiers.Key{Namespace: q.Namespace, Category: q.Category}
		var p *part
		err := s.call(ctx, "list", at, func(of *part) error {
			p = of
			return s.tx.before(ctx, p)
		})
		if err != nil {
			yield(tiers.Record{}, err)
			return
		}
		if err := s.list(ctx, p, q, yield); err != nil {
			yield(tiers.Record{}, s.tx.Fail(inTx("list", s.tx.id, tiers.Fail("list", s.name, at, err))))
		}
	}
}

// list answers the error that ended the listing.
func (s *seen) list(ctx context.Context, p *part, q tiers.Query, yield func(tiers.Record, error) bool) error {
	own := s.selected(p, q)
	under := q
	if q.Limit > 0 {
		under.Limit = q.Limit + len(own) // as many as may be hidden by own deletes
	}
	records, err := s.listed(ctx, p, under)
	if err != nil {
		return err
	}
	next, stop := iter.Pull2(records)
	defer stop()
	m := &overlay{s: s, p: p, own: own, next: next, order: 1}
	if q.Reverse {
		m.order = -1
	}
	defer func() { s.noteRange(p, under, m) }()
	for left := q.Limit; q.Limit == 0 || left > 0; {
		r, err, ok := m.step()
		if !ok {
			return m.ended
		}
		if err == nil {
			left--
		}
		if !yield(r, err) {
			return nil
		}
		if err := s.tx.alive(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *seen) listed(ctx context.Context, p *part, q tiers.Query) (iter.Seq2[tiers.Record, error], error) {
	from, err := s.snapshot(p)
	if err != nil {
		return nil, err
	}
	if from != nil {
		return from.List(ctx, q), nil
	}
	return p.tier.List(ctx, q), nil
}

// selected answers the changes of the transaction that a query selects, in its
// order.
func (s *seen) selected(p *part, q tiers.Query) []*write {
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	var out []*write
	for k, w := range p.writes {
		if k.Namespace == q.Namespace && k.Category == q.Category && strings.HasPrefix(k.Name, q.Prefix) && beyond(k.Name, q) {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b *write) int {
		if q.Reverse {
			a, b = b, a
		}
		return strings.Compare(a.record.Name, b.record.Name)
	})
	return out
}

// beyond tells whether a name comes after the one where the query starts.
func beyond(name string, q tiers.Query) bool {
	switch {
	case q.After == "":
		return true
	case q.Reverse:
		return name < q.After
	}
	return name > q.After
}

// overlay goes through a tier's list and a transaction's own changes together.
type overlay struct {
	s     *seen
	p     *part
	own   []*write
	next  func() (tiers.Record, error, bool)
	order int

	held   *tiers.Record // the tier's next record, not yet yielded
	digest tiers.Digest
	pulled int
	last   string // the last name that the tier listed
	whole  bool   // it has listed all
	ended  error  // why its list ended early
	unread []tiers.Key
}

// step answers the next record, or the error of one; false at the end.
func (m *overlay) step() (tiers.Record, error, bool) { //nolint:revive // the order of iter.Pull2
	for {
		if m.held == nil && !m.whole && m.ended == nil {
			if r, bad := m.pull(); bad != nil {
				return r, bad, true
			}
		}
		switch {
		case m.ended != nil || m.held == nil && len(m.own) == 0:
			return tiers.Record{}, nil, false //nolint:nilerr // list answers what ended it
		case len(m.own) == 0 || m.held != nil && m.order*strings.Compare(m.held.Name, m.own[0].record.Name) < 0:
			r := *m.held
			m.held = nil
			return r, nil, true
		}
		w := m.own[0]
		m.own = m.own[1:]
		if m.held != nil && m.held.Name == w.record.Name {
			m.held = nil // the transaction's own counts
		}
		if w.there(m.s.tx.e.clock.Now()) {
			return w.copy(), nil, true
		}
	}
}

// pull takes the tier's next record, and answers the error of one that is bad.
func (m *overlay) pull() (tiers.Record, error) {
	r, err, ok := m.next()
	switch {
	case !ok:
		m.whole = true
	case err == nil:
		m.digest.Add(r.Name, r.Version)
		m.pulled++
		m.last, m.held = r.Name, &r
	case r.Name == "":
		m.ended = err
	default:
		m.last = r.Name
		m.unread = append(m.unread, r.Key)
		if !m.over(r.Name) { // else the transaction replaces it
			return r, m.s.tx.Fail(err)
		}
	}
	return tiers.Record{}, nil
}

// stillUnreadable tells whether a record is one that a listing could not read, and
// can't be read now.
func (p *part) stillUnreadable(ctx context.Context, of int, k tiers.Key) bool {
	if !slices.Contains(p.unread[of], k) {
		return false
	}
	_, err := p.tier.Load(ctx, k)
	return err != nil && !errors.Is(err, tiers.ErrNotFound)
}

// over tells whether the transaction's own changes are yet to come to a name.
func (m *overlay) over(name string) bool {
	return slices.ContainsFunc(m.own, func(w *write) bool { return w.record.Name == name })
}

// noteRange keeps what the tier has listed, for the commit.
func (s *seen) noteRange(p *part, q tiers.Query, m *overlay) {
	if s.tx.readOnly || m.ended != nil || !m.whole && m.last == "" {
		return
	}
	r := tiers.Range{Query: q, Sum: m.digest.Sum()}
	if !m.whole || q.Limit > 0 && m.pulled >= q.Limit {
		r.End = m.last
	}
	r.Query.Limit, r.Query.KeysOnly = 0, true
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	if s.tx.late() {
		return
	}
	if len(m.unread) > 0 {
		if p.unread == nil {
			p.unread = make(map[int][]tiers.Key)
		}
		p.unread[len(p.ranges)] = m.unread
	}
	p.ranges = append(p.ranges, r)
}

func spacesOf(ctx context.Context, t tiers.Tier) (all []tiers.Space, err error) {
	for s, err := range t.Spaces(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// sorted puts spaces in order, each once.
func sorted(all []tiers.Space) []tiers.Space {
	slices.SortFunc(all, func(a, b tiers.Space) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Category, b.Category))
	})
	return slices.Compact(all)
}

// Atomic tells that a batch does nothing when any item fails.
func (s *seen) Atomic() bool { return true }

// LoadMany answers what the transaction wrote, and asks the tier for the others
// at once.
func (s *seen) LoadMany(ctx context.Context, ks []tiers.Key) (out []tiers.Record, err error) {
	out = make([]tiers.Record, len(ks))
	err = s.call(ctx, "load", tiers.Key{}, func(p *part) error {
		var rest []tiers.Key
		var at []int
		for i, k := range ks {
			out[i].Key = k
			switch w := s.written(p, k); {
			case w == nil:
				rest, at = append(rest, k), append(at, i)
			case w.there(s.tx.e.clock.Now()):
				out[i] = w.copy()
			}
		}
		if len(rest) == 0 {
			return nil
		}
		if err := s.tx.before(ctx, p); err != nil {
			return err
		}
		found, err := s.storedMany(ctx, p, rest)
		bad := named(err)
		for i := range found {
			if bad[rest[i]] {
				continue
			}
			if e := s.tx.note(p, rest[i], found[i].Version); e != nil {
				err = errors.Join(err, e)
				continue
			}
			out[at[i]] = found[i]
		}
		return err
	})
	return out, err
}

func (s *seen) storedMany(ctx context.Context, p *part, ks []tiers.Key) ([]tiers.Record, error) {
	from, err := s.snapshot(p)
	if err != nil {
		return nil, err
	}
	if from != nil {
		return from.LoadMany(ctx, ks)
	}
	return tiers.LoadMany(ctx, p.tier, ks)
}

// named answers the keys that the errors of a batch are about.
func named(err error) map[tiers.Key]bool {
	items, _ := itemErrors(nil, err)
	bad := map[tiers.Key]bool{}
	for _, e := range items {
		bad[tiers.Key{Namespace: e.Namespace, Category: e.Category, Name: e.Key}] = true
	}
	return bad
}

// SaveMany buffers all records, or none.
func (s *seen) SaveMany(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
	out := make([]tiers.Record, len(rs))
	keys := make([]tiers.Key, len(rs))
	for i := range rs {
		keys[i] = rs[i].Key
	}
	err := s.allOrNone(keys, cs, func(i int, c tiers.Cond) (err error) {
		out[i], err = s.Save(ctx, rs[i], c)
		return err
	})
	if err != nil {
		return make([]tiers.Record, len(rs)), err
	}
	return out, nil
}

// DeleteMany buffers all removals, or none.
func (s *seen) DeleteMany(ctx context.Context, ks []tiers.Key, cs []tiers.Cond) ([]bool, error) {
	out := make([]bool, len(ks))
	err := s.allOrNone(ks, cs, func(i int, c tiers.Cond) (err error) {
		out[i], err = s.Delete(ctx, ks[i], c)
		return err
	})
	if err != nil {
		return make([]bool, len(ks)), err
	}
	return out, nil
}

// allOrNone does one thing for each key, and takes all of it back when one fails.
func (s *seen) allOrNone(ks []tiers.Key, cs []tiers.Cond, do func(i int, c tiers.Cond) error) error {
	if len(cs) != 0 && len(cs) != len(ks) {
		err := fmt.Errorf("%d conditions for %d keys", len(cs), len(ks))
		return s.tx.Fail(inTx("save", s.tx.id, tiers.Fail("save", s.name, tiers.Key{}, err)))
	}
	s.tx.mu.Lock()
	mark := len(s.tx.undo)
	s.tx.mu.Unlock()
	var errs []error
	for i := range ks {
		var c tiers.Cond
		if len(cs) > 0 {
			c = cs[i]
		}
		errs = append(errs, do(i, c))
	}
	err := errors.Join(errs...)
	if err != nil {
		s.tx.takeBack(mark, s.name, ks)
	}
	return err
}
