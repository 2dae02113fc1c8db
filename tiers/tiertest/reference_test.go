package tiertest

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// store is what the handles of one directory share.
type store struct {
	mu      sync.Mutex
	records map[tiers.Key]tiers.Record
	high    tiers.Version
	books
}

// stores are the directories of one test.
type stores struct {
	mu  sync.Mutex
	dir map[string]*store
}

func (s *stores) open(dir string) *store {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == nil {
		s.dir = map[string]*store{}
	}
	if s.dir[dir] == nil {
		s.dir[dir] = newStore()
	}
	return s.dir[dir]
}

func newStore() *store {
	return &store{records: map[tiers.Key]tiers.Record{}, books: newBooks()}
}

const referenceLimit = 1 << 20

// reference is the honest tier: a map under a mutex with every capability.
type reference struct {
	*store
	clock  tiers.Clock
	closed bool
	hits   int64
	misses int64
}

var (
	_ tiers.Tier      = (*reference)(nil)
	_ tiers.Applier   = (*reference)(nil)
	_ tiers.Batcher   = (*reference)(nil)
	_ tiers.Exister   = (*reference)(nil)
	_ tiers.Toucher   = (*reference)(nil)
	_ tiers.Sweeper   = (*reference)(nil)
	_ tiers.Pinger    = (*reference)(nil)
	_ tiers.Statser   = (*reference)(nil)
	_ tiers.Counter   = (*reference)(nil)
	_ tiers.Describer = (*reference)(nil)
	_ tiers.Diagnoser = (*reference)(nil)
)

// enter locks the store for an operation, or says why not.
func (t *reference) enter(ctx context.Context) (leave func(), err error) {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil, tiers.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		t.mu.Unlock()
		return nil, err
	}
	return t.mu.Unlock, nil
}

// live answers the record of a key if it has not expired.
func (t *reference) live(k tiers.Key) (tiers.Record, bool) {
	if r, ok := t.records[k]; ok && r.Live(t.clock.Now()) {
		return r, true
	}
	return tiers.Record{}, false
}

func copied(r tiers.Record) tiers.Record {
	r.Value = slices.Clone(r.Value)
	r.Index = nil
	return r
}

func (t *reference) Load(ctx context.Context, k tiers.Key) (tiers.Record, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return tiers.Record{}, err
	}
	defer leave()
	return t.load(k)
}

func (t *reference) load(k tiers.Key) (tiers.Record, error) {
	if err := k.Check(); err != nil {
		return tiers.Record{}, tiers.Fail("load", "reference", k, err)
	}
	r, ok := t.live(k)
	if !ok {
		t.misses++
		return tiers.Record{}, tiers.Fail("load", "reference", k, tiers.ErrNotFound)
	}
	t.hits++
	return copied(r), nil
}

func (t *reference) Save(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return tiers.Record{}, err
	}
	defer leave()
	return t.save(r, c)
}

func (t *reference) check(r tiers.Record, c tiers.Cond) error {
	if err := r.Check(); err != nil {
		return tiers.Fail("save", "reference", r.Key, err)
	}
	if len(r.Value) > referenceLimit {
		return tiers.Hint(tiers.Fail("save", "reference", r.Key, tiers.ErrTooLarge), "values may have 1048576 bytes")
	}
	old, _ := t.live(r.Key)
	if r.Index != nil {
		if err := r.Index.Check(); err != nil {
			return tiers.Fail("save", "reference", r.Key, err)
		}
	}
	return tiers.Fail("save", "reference", r.Key, c.Holds(old.Version))
}

func (t *reference) save(r tiers.Record, c tiers.Cond) (tiers.Record, error) {
	if err := t.check(r, c); err != nil {
		return tiers.Record{}, err
	}
	old, present := t.live(r.Key)
	now := tiers.Micro(t.clock.Now())
	r.Version = t.next(now)
	r.Created, r.Updated = now, now
	if present {
		r.Created = old.Created
	}
	r.Expires = tiers.Deadline(t.clock.Now(), r.TTL)
	if r.TTL < 0 {
		delete(t.records, r.Key)
		return r, nil
	}
	r.TTL = 0
	t.keep(r)
	r.Index = nil
	return r, nil
}

// keep stores a copy, with the text that it is to be found by.
func (t *reference) keep(r tiers.Record) {
	kept := copied(r)
	kept.Index = r.Index
	t.records[r.Key] = kept
}

func (t *reference) next(now time.Time) tiers.Version {
	t.high = max(t.high+1, tiers.Version(now.UnixMicro()))
	return t.high
}

func (t *reference) Delete(ctx context.Context, k tiers.Key, c tiers.Cond) (bool, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	return t.delete(k, c)
}

func (t *reference) delete(k tiers.Key, c tiers.Cond) (bool, error) {
	if err := k.Check(); err != nil {
		return false, tiers.Fail("delete", "reference", k, err)
	}
	old, present := t.live(k)
	if err := c.Holds(old.Version); err != nil {
		return false, tiers.Fail("delete", "reference", k, err)
	}
	delete(t.records, k)
	return present, nil
}

func (t *reference) List(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
	return func(yield func(tiers.Record, error) bool) {
		page, err := t.page(ctx, q)
		if err != nil {
			yield(tiers.Record{}, err)
			return
		}
		for _, r := range page {
			if err := ctx.Err(); err != nil {
				yield(tiers.Record{}, err)
				return
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (t *reference) page(ctx context.Context, q tiers.Query) ([]tiers.Record, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	space := tiers.Space{Namespace: q.Namespace, Category: q.Category}
	if err := space.Check(); err != nil {
		return nil, tiers.Fail("list", "reference", tiers.Key{Namespace: q.Namespace, Category: q.Category}, err)
	}
	page := t.selected(q)
	if q.Limit > 0 && len(page) > q.Limit {
		page = page[:q.Limit]
	}
	return page, nil
}

// selected answers what a query selects, in order and without its limit.
func (t *reference) selected(q tiers.Query) []tiers.Record {
	now := t.clock.Now()
	var page []tiers.Record
	for k, r := range t.records {
		beyond := q.After == "" || !q.Reverse && k.Name > q.After || q.Reverse && k.Name < q.After
		here := k.Namespace == q.Namespace && k.Category == q.Category
		if here && beyond && strings.HasPrefix(k.Name, q.Prefix) && r.Live(now) {
			page = append(page, copied(r))
		}
	}
	slices.SortFunc(page, func(a, b tiers.Record) int { return strings.Compare(a.Name, b.Name) })
	if q.Reverse {
		slices.Reverse(page)
	}
	return page
}

func (t *reference) Spaces(ctx context.Context) iter.Seq2[tiers.Space, error] {
	leave, err := t.enter(ctx)
	if err != nil {
		return tiers.Failed[tiers.Space](err)
	}
	defer leave()
	found := map[tiers.Space]bool{}
	for k := range t.records {
		found[k.Space()] = true
	}
	spaces := inOrder(slices.Collect(maps.Keys(found)))
	return func(yield func(tiers.Space, error) bool) {
		for _, s := range spaces {
			if !yield(s, nil) {
				return
			}
		}
	}
}

func (t *reference) Close(context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return nil
}

func (t *reference) Apply(ctx context.Context, rs []tiers.Record, over []tiers.Cond) error {
	leave, err := t.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	for _, r := range rs {
		if err := r.Check(); err != nil {
			return tiers.Fail("apply", "reference", r.Key, err)
		}
	}
	for i, r := range rs {
		old, _ := t.live(r.Key)
		passes := old.Version <= r.Version
		if over != nil {
			if _, conditional := over[i].Version(); conditional {
				passes = over[i].Holds(old.Version) == nil
			}
		}
		if !passes {
			continue
		}
		t.high = max(t.high, r.Version)
		r.TTL = 0
		if r.Deleted || !r.Live(t.clock.Now()) {
			delete(t.records, r.Key)
			continue
		}
		t.keep(r)
	}
	return nil
}

func (t *reference) Atomic() bool { return true }

func (t *reference) LoadMany(ctx context.Context, ks []tiers.Key) ([]tiers.Record, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	out := make([]tiers.Record, len(ks))
	var errs []error
	for i, k := range ks {
		r, err := t.load(k)
		if err != nil && !errors.Is(err, tiers.ErrNotFound) {
			errs = append(errs, err)
		}
		r.Key = k
		out[i] = r
	}
	return out, errors.Join(errs...)
}

func (t *reference) SaveMany(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	out := make([]tiers.Record, len(rs))
	return out, t.whole(len(rs), func(i int) (err error) {
		out[i], err = t.save(rs[i], at(cs, i))
		return err
	})
}

func (t *reference) DeleteMany(ctx context.Context, ks []tiers.Key, cs []tiers.Cond) ([]bool, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	out := make([]bool, len(ks))
	return out, t.whole(len(ks), func(i int) (err error) {
		out[i], err = t.delete(ks[i], at(cs, i))
		return err
	})
}

// whole does n steps, and none of them when any fails.
func (t *reference) whole(n int, step func(i int) error) error {
	before := maps.Clone(t.records)
	var errs []error
	for i := range n {
		if err := step(i); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		t.records = before
	}
	return errors.Join(errs...)
}

func at(cs []tiers.Cond, i int) tiers.Cond {
	if cs == nil {
		return tiers.Cond{}
	}
	return cs[i]
}

func (t *reference) Exists(ctx context.Context, k tiers.Key) (bool, error) {
	_, err := t.Load(ctx, k)
	if errors.Is(err, tiers.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (t *reference) Touch(ctx context.Context, k tiers.Key, ttl time.Duration) (bool, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	if err := k.Check(); err != nil {
		return false, tiers.Fail("touch", "reference", k, err)
	}
	r, ok := t.live(k)
	if !ok {
		return false, nil
	}
	r.Expires = tiers.Deadline(t.clock.Now(), ttl)
	if ttl < 0 {
		delete(t.records, k)
		return true, nil
	}
	t.records[k] = r
	return true, nil
}

func (t *reference) Sweep(ctx context.Context, limit int) (int, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	removed := 0
	for k, r := range t.records {
		if removed < limit && !r.Live(t.clock.Now()) {
			delete(t.records, k)
			removed++
		}
	}
	return removed, nil
}

func (t *reference) Ping(ctx context.Context) error {
	leave, err := t.enter(ctx)
	if err == nil {
		leave()
	}
	return err
}

func (t *reference) Stats(ctx context.Context) (tiers.Stats, error) {
	leave, err := t.enter(ctx)
	if err != nil {
		return tiers.Stats{}, err
	}
	defer leave()
	s := tiers.Stats{Entries: int64(len(t.records)), Hits: t.hits, Misses: t.misses}
	for k, r := range t.records {
		s.Bytes += int64(len(k.Name) + len(r.Value))
	}
	return s, nil
}

func (t *reference) Count(ctx context.Context, s tiers.Space) (entries, bytes int64, err error) {
	page, err := t.page(ctx, tiers.Query{Namespace: s.Namespace, Category: s.Category})
	for _, r := range page {
		entries++
		bytes += int64(len(r.Name) + len(r.Value))
	}
	return entries, bytes, err
}

func (t *reference) Describe() tiers.Info {
	return tiers.Info{Driver: "reference", Scope: tiers.ScopeHost, Durable: true, MaxValue: referenceLimit}
}

func (t *reference) Diagnose(context.Context) []tiers.Finding {
	return []tiers.Finding{{OK: true, Subject: "room", Message: "enough"}}
}

// honest is the configuration of the reference.
func honest() Config {
	var all stores
	return Config{
		Open: func(_ context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
			return &reference{store: all.open(dir), clock: clock}, nil
		},
		Durable: true, Shared: true, MaxValue: referenceLimit,
		Require: []Capability{
			Applier, Batcher, AtomicBatch, Exister, Toucher, Sweeper, Pinger, Statser, Counter, Describer, Diagnoser,
			Publisher, Reserver, Snapshotter,
		},
	}
}
