package tiertest

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// books are what a store keeps about itself.
type books struct {
	facts    map[string][]byte
	rows     map[rowKey]tiers.Row
	issued   map[string]tiers.Version // by tier
	rowSeq   uint64
	sessions map[[2]string]tiers.Session
	seq      uint64
	changes  tiers.Changes
	locks    map[string]bool
}

type rowKey struct {
	tier string
	key  tiers.Key
}

var _ tiers.System = (*reference)(nil)

func newBooks() books {
	return books{
		facts: map[string][]byte{}, rows: map[rowKey]tiers.Row{}, issued: map[string]tiers.Version{}, sessions: map[[2]string]tiers.Session{},
		locks: map[string]bool{},
	}
}

func yielding[V any](vs []V, err error) iter.Seq2[V, error] {
	if err != nil {
		return tiers.Failed[V](err)
	}
	return func(yield func(V, error) bool) {
		for _, v := range vs {
			if !yield(v, nil) {
				return
			}
		}
	}
}

var _ tiers.Waiter = (*reference)(nil)

func (t *reference) Waits(tier string, k tiers.Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.rows[rowKey{tier, k}]
	return ok
}

func (t *reference) Lock(ctx context.Context, name string) (unlock func(), ok bool, err error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return nil, false, err
	}
	defer leave()
	if t.locks[name] {
		return nil, false, nil
	}
	t.locks[name] = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.locks, name)
	}, true, nil
}

func (t *reference) Fact(ctx context.Context, name string) ([]byte, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	v, ok := t.facts[name]
	if !ok {
		return nil, tiers.ErrNotFound
	}
	return slices.Clone(v), nil
}

func (t *reference) SetFact(ctx context.Context, name string, value []byte, ifAbsent bool) ([]byte, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if v, ok := t.facts[name]; ok && ifAbsent {
		return slices.Clone(v), nil
	}
	t.facts[name] = slices.Clone(value)
	return value, nil
}

func (t *reference) Facts(ctx context.Context, prefix string) iter.Seq2[tiers.Fact, error] {
	leave, err := t.enter(ctx)
	if err != nil {
		return tiers.Failed[tiers.Fact](err)
	}
	defer leave()
	var found []tiers.Fact
	for _, name := range slices.Sorted(maps.Keys(t.facts)) {
		if strings.HasPrefix(name, prefix) {
			found = append(found, tiers.Fact{Name: name, Value: slices.Clone(t.facts[name])})
		}
	}
	return yielding(found, nil)
}

func copiedRow(r tiers.Row) tiers.Row {
	r.Record = copied(r.Record)
	return r
}

func (rowKey) of(row tiers.Row) rowKey { return rowKey{row.Tier, row.Key} }

func rowBytes(r tiers.Row) int64 { return int64(len(r.Name) + len(r.Value)) }

func (t *reference) Append(ctx context.Context, rows []tiers.Row, conds []tiers.Cond, limit int64) ([]tiers.Row, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	now := t.clock.Now()
	after := maps.Clone(t.rows)
	issued := maps.Clone(t.issued)
	seq := t.rowSeq
	out := make([]tiers.Row, len(rows))
	saves := map[string]bool{}
	for i, row := range rows {
		k := rowKey{}.of(row)
		old, pending := after[k]
		var version tiers.Version
		if pending && !old.Deleted && old.Live(now) {
			version = old.Version
		}
		if err := at(conds, i).Holds(version); err != nil {
			return nil, tiers.Fail("append", "reference", row.Key, err)
		}
		if pending {
			row.Over = tiers.Cond{}
		}
		seq++
		row.Seq = seq
		row.Version = max(row.Version, tiers.Version(now.UnixMicro()), issued[row.Tier]+1)
		issued[row.Tier] = row.Version
		saves[row.Tier] = saves[row.Tier] || !row.Deleted
		after[k], out[i] = copiedRow(row), copiedRow(row)
	}
	sums := map[string]int64{}
	for k, row := range after {
		sums[k.tier] += rowBytes(row)
	}
	for tier, sum := range sums {
		if limit > 0 && sum > limit && saves[tier] {
			return nil, tiers.ErrFull
		}
	}
	t.rows, t.issued, t.rowSeq = after, issued, seq
	t.changes.Journal++
	return out, nil
}

func (t *reference) Pending(ctx context.Context, tier string, k tiers.Key) (tiers.Row, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return tiers.Row{}, err
	}
	defer leave()
	row, ok := t.rows[rowKey{tier, k}]
	if !ok {
		return tiers.Row{}, tiers.ErrNotFound
	}
	return copiedRow(row), nil
}

func (t *reference) ListPending(ctx context.Context, tier string, q tiers.Query) iter.Seq2[tiers.Row, error] {
	leave, err := t.enter(ctx)
	if err != nil {
		return tiers.Failed[tiers.Row](err)
	}
	defer leave()
	byName := map[string]tiers.Row{}
	for k, row := range t.rows {
		if k.tier == tier && k.key.Namespace == q.Namespace && k.key.Category == q.Category {
			byName[row.Name] = row
		}
	}
	var found []tiers.Row
	for _, name := range selected(slices.Sorted(maps.Keys(byName)), q) {
		found = append(found, copiedRow(byName[name]))
	}
	return yielding(found, nil)
}

func (t *reference) Due(ctx context.Context, tier string, after uint64, limit int) ([]tiers.Row, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	var found []tiers.Row
	for k, row := range t.rows {
		if k.tier == tier && row.Seq > after {
			found = append(found, copiedRow(row))
		}
	}
	slices.SortFunc(found, func(a, b tiers.Row) int { return cmp.Compare(a.Seq, b.Seq) })
	return found[:min(limit, len(found))], nil
}

func (t *reference) Done(ctx context.Context, rows []tiers.Row) error {
	leave, err := t.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	for _, row := range rows {
		k := rowKey{}.of(row)
		if t.rows[k].Seq == row.Seq {
			delete(t.rows, k)
		}
	}
	t.changes.Journal++
	return nil
}

func (t *reference) Backlog(ctx context.Context, tier string) (b tiers.Backlog, err error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return b, err
	}
	defer leave()
	for k, row := range t.rows {
		if k.tier == tier {
			b.Rows++
			b.Bytes += rowBytes(row)
			if b.Oldest.IsZero() || row.Updated.Before(b.Oldest) {
				b.Oldest = row.Updated
			}
		}
	}
	return b, nil
}

func (t *reference) put(s tiers.Session) tiers.Session {
	t.seq++
	t.changes.Sessions++
	s.Seq = t.seq
	t.sessions[[2]string{s.Namespace, s.ID}] = s
	return s
}

func (t *reference) StartSession(ctx context.Context, namespace, id string) (tiers.Session, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return tiers.Session{}, err
	}
	defer leave()
	if s, ok := t.sessions[[2]string{namespace, id}]; ok {
		return s, nil
	}
	return t.begin(namespace, id), nil
}

func (t *reference) begin(namespace, id string) tiers.Session {
	now := tiers.Micro(t.clock.Now())
	return t.put(tiers.Session{Namespace: namespace, ID: id, Generation: 1, Started: now, Seen: now})
}

func (t *reference) SeenSessions(ctx context.Context, seen []tiers.Session) error {
	leave, err := t.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	for _, s := range seen {
		k := [2]string{s.Namespace, s.ID}
		if old, ok := t.sessions[k]; ok && old.Ended.IsZero() && s.Seen.After(old.Seen) {
			old.Seen = s.Seen
			t.sessions[k] = old
		}
	}
	return nil
}

func (t *reference) EndSession(ctx context.Context, namespace, id string, idleSince time.Time) (tiers.Session, bool, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return tiers.Session{}, false, err
	}
	defer leave()
	s, ok := t.sessions[[2]string{namespace, id}]
	switch {
	case !ok:
		return tiers.Session{}, false, nil
	case !s.Ended.IsZero():
		return s, true, nil
	case !idleSince.IsZero() && s.Seen.After(idleSince):
		return s, true, tiers.ErrConflict
	}
	s.Ended = tiers.Micro(t.clock.Now())
	s.Generation++
	return t.put(s), true, nil
}

func (t *reference) ReopenSession(ctx context.Context, namespace, id string) (tiers.Session, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return tiers.Session{}, err
	}
	defer leave()
	s, ok := t.sessions[[2]string{namespace, id}]
	if !ok {
		return t.begin(namespace, id), nil
	}
	if s.Ended.IsZero() {
		return s, nil
	}
	s.Ended = time.Time{}
	s.Generation++
	return t.put(s), nil
}

func (t *reference) sessionsBy(ctx context.Context, order func(a, b tiers.Session) int) ([]tiers.Session, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return slices.SortedFunc(maps.Values(t.sessions), order), nil
}

func (t *reference) ListSessions(ctx context.Context) iter.Seq2[tiers.Session, error] {
	return yielding(t.sessionsBy(ctx, func(a, b tiers.Session) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.ID, b.ID))
	}))
}

func (t *reference) SessionsSince(ctx context.Context, seq uint64) iter.Seq2[tiers.Session, error] {
	all, err := t.sessionsBy(ctx, func(a, b tiers.Session) int { return cmp.Compare(a.Seq, b.Seq) })
	return yielding(slices.DeleteFunc(all, func(s tiers.Session) bool { return s.Seq <= seq }), err)
}

func (t *reference) Changes(ctx context.Context) (tiers.Changes, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return tiers.Changes{}, err
	}
	defer leave()
	return t.changes, nil
}
