package database

import (
	"context"
	"database/sql/driver"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/sagestore/sagestore/tiers"
)

// places of rows are kept in memory by each store that has the file open, since an
// index in the file would cost every commit as many pages as the rows themselves.
// Rows are added in order of their seq, which is never used twice, so what others
// have added is read by it. What others have removed is found out when the row is
// looked up by its seq: a place is a hint for where to look, and that there is none
// says that no row up to last waits for the key.
type waiting struct {
	mu    sync.RWMutex
	last  int64  // all rows up to this one are known
	turns uint64 // grows with every change
	tiers map[string]*waitingTier
	ids   map[string]struct{} // transactions whose rows wait
}

// waitingTier are the rows of a tier.
type waitingTier struct {
	spaces map[tiers.Space]*waitingSpace
	order  []int64 // their seqs, and some that have left
	n      int     // keys
}

// waitingSpace are the rows of a category.
type waitingSpace struct {
	seqs   map[string]int64
	names  []string // in order, with some that have left
	latest []string // that have to be put among names
}

// placed is where a row is.
type placed struct {
	seq int64
	rowKey
	tx string
}

const placesAfter = `SELECT seq, tier, namespace, category, key, tx FROM journal WHERE seq > ? ORDER BY seq LIMIT ?`

// placesIn reads where rows after one are, up to n; n < 0: all. Rows in a row of one
// category share what they have in common.
func placesIn(ctx context.Context, c *conn, after int64, n int) (all []placed, err error) {
	var last placed
	return all, c.query(ctx, placesAfter, []driver.Value{after, int64(n)}, func(row []driver.Value) (bool, error) {
		var p placed
		p.seq, _ = row[0].(int64)
		for i, s := range []*string{&p.tier, &p.key.Namespace, &p.key.Category, &p.key.Name, &p.tx} {
			*s, _ = row[1+i].(string)
		}
		if p.tier == last.tier && p.key.Space() == last.key.Space() {
			p.tier, p.key.Namespace, p.key.Category = last.tier, last.key.Namespace, last.key.Category
		}
		all, last = append(all, p), p
		return true, nil
	})
}

// placesAtOnce is how many places are read in one step.
const placesAtOnce = 4096

// learn reads the places that are not known yet. There are none but these up to the
// seq to.
func (w *waiting) learn(ctx context.Context, c *conn, to int64) error {
	for {
		rows, err := placesIn(ctx, c, w.upTo(), placesAtOnce)
		if err != nil {
			return err
		}
		if len(rows) < placesAtOnce {
			w.add(rows, to)
			return nil
		}
		w.add(rows, 0)
	}
}

func (w *waiting) upTo() int64 {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.last
}

func (w *waiting) turn() uint64 {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.turns
}

// add notes rows that were committed, in order; those up to last are known already.
// There are none but these up to the seq to.
func (w *waiting) add(rows []placed, to int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tiers == nil {
		w.tiers, w.ids = map[string]*waitingTier{}, map[string]struct{}{}
	}
	for _, p := range rows {
		if p.seq <= w.last {
			continue
		}
		w.turns++
		w.last = p.seq
		if p.tx != "" {
			w.ids[p.tx] = struct{}{}
		}
		t := w.tiers[p.tier]
		if t == nil {
			t = &waitingTier{spaces: map[tiers.Space]*waitingSpace{}}
			w.tiers[p.tier] = t
		}
		s := t.spaces[p.key.Space()]
		if s == nil {
			s = &waitingSpace{seqs: map[string]int64{}}
			t.spaces[p.key.Space()] = s
		}
		if _, there := s.seqs[p.key.Name]; !there {
			t.n++
			if len(s.names)+len(s.latest) > 2*len(s.seqs)+1000 {
				s.again()
			}
			s.latest = append(s.latest, p.key.Name)
		}
		s.seqs[p.key.Name] = p.seq
		t.order = append(t.order, p.seq)
	}
	w.last = max(w.last, to)
}

// again forgets the names of rows that have left.
func (s *waitingSpace) again() {
	s.names, s.latest = nil, slices.Collect(maps.Keys(s.seqs))
}

func (w *waiting) space(tier string, s tiers.Space) *waitingSpace {
	if t := w.tiers[tier]; t != nil {
		return t.spaces[s]
	}
	return nil
}

// find answers where the row of a key is, or was; 0: there is none up to last.
func (w *waiting) find(k rowKey) int64 {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if s := w.space(k.tier, k.key.Space()); s != nil {
		return s.seqs[k.key.Name]
	}
	return 0
}

func (w *waiting) knows(id string) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	_, there := w.ids[id]
	return there
}

// remove forgets rows that have left.
func (w *waiting) remove(rows []placed) {
	if len(rows) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turns++
	defer w.trim(rows)
	for _, p := range rows {
		delete(w.ids, p.tx)
		s := w.space(p.tier, p.key.Space())
		if s == nil || p.seq == 0 || s.seqs[p.key.Name] != p.seq {
			continue
		}
		delete(s.seqs, p.key.Name)
		t := w.tiers[p.tier]
		t.n--
		if len(s.seqs) == 0 {
			delete(t.spaces, p.key.Space())
		}
		if t.n == 0 {
			delete(w.tiers, p.tier)
		}
	}
}

// trim takes rows that have left out of the order of their tiers.
func (w *waiting) trim(rows []placed) {
	gone := map[string]map[int64]struct{}{}
	for _, p := range rows {
		if gone[p.tier] == nil {
			gone[p.tier] = map[int64]struct{}{}
		}
		gone[p.tier][p.seq] = struct{}{}
	}
	for tier, seqs := range gone {
		t := w.tiers[tier]
		if t == nil {
			continue
		}
		first, last := int64(math.MaxInt64), int64(0)
		for seq := range seqs {
			first, last = min(first, seq), max(last, seq)
		}
		i, _ := slices.BinarySearch(t.order, first)
		j, _ := slices.BinarySearch(t.order, last+1)
		kept := slices.DeleteFunc(slices.Clone(t.order[i:j]), func(seq int64) bool {
			_, out := seqs[seq]
			return out
		})
		if i == 0 && len(kept) == 0 {
			t.order = t.order[j:]
			continue
		}
		t.order = slices.Replace(t.order, i, j, kept...)
	}
}

// due answers up to n seqs of a tier after one, in order, of which some may have
// left.
func (w *waiting) due(tier string, after int64, n int) []int64 {
	w.mu.RLock()
	defer w.mu.RUnlock()
	t := w.tiers[tier]
	if t == nil {
		return nil
	}
	i, found := slices.BinarySearch(t.order, after)
	if found {
		i++
	}
	return slices.Clone(t.order[i:min(i+n, len(t.order))])
}

// left drops seqs from the beginning of the order of a tier: up to this one all have
// left.
func (w *waiting) left(tier string, seq int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.tiers[tier]; t != nil {
		i, _ := slices.BinarySearch(t.order, seq+1)
		t.order = t.order[i:]
	}
}

// among answers up to n keys of a space from low on up to but without high, in order
// or the other way round; n 0: all.
func (w *waiting) among(tier string, s tiers.Space, low, high string, reverse bool, n int) (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	in := w.space(tier, s)
	if in == nil {
		return nil
	}
	if len(in.latest) > 0 {
		slices.Sort(in.latest)
		in.names = slices.Compact(merged(in.names, in.latest))
		in.latest = nil
	}
	i, _ := slices.BinarySearch(in.names, low)
	j, _ := slices.BinarySearch(in.names, high)
	for i < j && (n <= 0 || len(names) < n) {
		name := in.names[i]
		if reverse {
			j--
			name = in.names[j]
		} else {
			i++
		}
		if in.seqs[name] != 0 {
			names = append(names, name)
		}
	}
	return names
}

func merged(a, b []string) []string {
	out := make([]string, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0] <= b[0] {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// changedSince answers a key of a space between low and high whose row came after
// since.
func (w *waiting) changedSince(tier string, s tiers.Space, low, high string, since int64) (name string, found bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	in := w.space(tier, s)
	if in == nil || w.last <= since {
		return "", false
	}
	for name, seq := range in.seqs {
		if seq > since && name >= low && name < high {
			return name, true
		}
	}
	return "", false
}

// crowded tells whether there are many more keys of a tier than rows.
func (w *waiting) crowded(tier string, rows int64) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	t := w.tiers[tier]
	return t != nil && int64(max(t.n, len(t.order)/2)) > 2*rows+1000
}

// keep forgets all up to a seq that are not among rows.
func (w *waiting) keep(rows []placed, upTo int64) {
	there := make(map[int64]struct{}, len(rows))
	ids := map[string]struct{}{}
	for _, p := range rows {
		there[p.seq] = struct{}{}
		if p.tx != "" {
			ids[p.tx] = struct{}{}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turns++
	gone := func(seq int64) bool {
		_, waits := there[seq]
		return seq <= upTo && !waits
	}
	if upTo == w.last {
		w.ids = ids
	}
	for name, t := range w.tiers {
		t.order = slices.DeleteFunc(t.order, gone)
		t.n = 0
		for space, s := range t.spaces {
			for key, seq := range s.seqs {
				if gone(seq) {
					delete(s.seqs, key)
				}
			}
			s.again()
			if t.n += len(s.seqs); len(s.seqs) == 0 {
				delete(t.spaces, space)
			}
		}
		if t.n == 0 {
			delete(w.tiers, name)
		}
	}
}
