package tiertest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// decisions are what a store knows of its transactions.
type decisions struct {
	ids    map[string]bool
	recent map[rowKey]tiers.Row // the last row of each key that was applied
}

// decider is a reference that decides transactions, and of which parts may be
// replaced.
type decider struct {
	*reference
	*decisions
	commit   func(ctx context.Context, c tiers.Commit) (tiers.Committed, error)
	outcome  func(ctx context.Context, id string) (bool, error)
	sequence func(ctx context.Context) (uint64, error)
	finish   func(ctx context.Context, rows []tiers.Row) error
}

// deciders are the stores of one test.
type deciders struct {
	stores
	mu  sync.Mutex
	all map[*store]*decisions
}

func (s *deciders) open(dir string, clock tiers.Clock) *decider {
	d := &decider{reference: &reference{store: s.stores.open(dir), clock: clock}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[*store]*decisions{}
	}
	if s.all[d.store] == nil {
		s.all[d.store] = &decisions{ids: map[string]bool{}, recent: map[rowKey]tiers.Row{}}
	}
	d.decisions = s.all[d.store]
	return d
}

var _ tiers.Committer = (*decider)(nil)

func (d *decider) Done(ctx context.Context, rows []tiers.Row) error {
	return or(d.finish, d.done, d.finish != nil)(ctx, rows)
}

func (d *decider) done(ctx context.Context, rows []tiers.Row) error {
	d.mu.Lock()
	for _, row := range rows {
		if k := (rowKey{}).of(row); d.rows[k].Seq == row.Seq {
			d.recent[k] = d.rows[k]
		}
	}
	d.mu.Unlock()
	return d.reference.Done(ctx, rows)
}

func (d *decider) Append(ctx context.Context, rows []tiers.Row, conds []tiers.Cond, limit int64) ([]tiers.Row, error) {
	for _, row := range rows {
		if row.Reserved {
			leave, err := d.enter(ctx)
			if err != nil {
				return nil, err
			}
			defer leave()
			return d.place(rows, nil)
		}
	}
	return d.reference.Append(ctx, rows, conds, limit)
}

func (d *decider) Sequence(ctx context.Context) (uint64, error) {
	return or(d.sequence, d.seqNow, d.sequence != nil)(ctx)
}

func (d *decider) seqNow(ctx context.Context) (uint64, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	return d.rowSeq, nil
}

func (d *decider) Outcome(ctx context.Context, id string) (bool, error) {
	return or(d.outcome, d.isCommitted, d.outcome != nil)(ctx, id)
}

func (d *decider) isCommitted(ctx context.Context, id string) (bool, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	return d.ids[id], nil
}

func (d *decider) Commit(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
	return or(d.commit, d.decide, d.commit != nil)(ctx, c)
}

func (d *decider) decide(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return tiers.Committed{}, err
	}
	defer leave()
	out, err := d.locked(c)
	if err != nil {
		err = tiers.Fail("commit", "reference", tiers.Key{}, err)
		err.(*tiers.Error).Tx = c.ID //nolint:errorlint // Fail answers one
	}
	return out, err
}

func about(k tiers.Key, err error) error { return tiers.Fail("commit", "reference", k, err) }

// locked checks everything before it changes anything.
func (d *decider) locked(c tiers.Commit) (out tiers.Committed, err error) {
	if c.ID == "" || len(c.ID) > 64 {
		return out, tiers.ErrKey
	}
	if err := d.proper(c); err != nil {
		return out, err
	}
	if err := d.holds(c); err != nil {
		return out, err
	}
	if _, done := d.facts[c.OnlyOnce]; done && c.OnlyOnce != "" {
		return out, tiers.ErrExists
	}
	if out.Rows, err = d.place(c.Rows, c.RowLimits); err != nil {
		return out, err
	}
	for _, r := range c.Saves {
		saved := tiers.Record{Key: r.Key}
		if r.Deleted {
			_, err = d.delete(r.Key, tiers.Cond{})
		} else {
			saved, err = d.save(r, tiers.Cond{})
		}
		if err != nil {
			return out, err
		}
		out.Saves = append(out.Saves, saved)
	}
	if c.OnlyOnce != "" {
		d.facts[c.OnlyOnce] = append([]byte{}, c.OnceValue...)
	}
	if len(c.Saves) > 0 || len(c.Rows) > 0 || c.OnlyOnce != "" {
		d.ids[c.ID] = true
	}
	return out, nil
}

func (d *decider) proper(c tiers.Commit) error {
	for _, r := range c.Saves {
		if err := r.Check(); err != nil {
			return about(r.Key, err)
		}
	}
	for _, r := range c.Rows {
		if err := r.Check(); err != nil {
			return about(r.Key, err)
		}
	}
	if c.OnlyOnce == "" {
		return nil
	}
	return tiers.CheckName(c.OnlyOnce)
}

func (d *decider) holds(c tiers.Commit) error {
	now := d.clock.Now()
	for _, r := range c.Reads {
		if live, _ := d.live(r.Key); live.Version != r.Version {
			return about(r.Key, tiers.ErrConflict)
		}
	}
	for _, r := range c.Ranges {
		var sum tiers.Digest
		q := r.Query
		q.Limit = 0
		for _, name := range d.selected(q) {
			if live, ok := d.live(tiers.Key{Namespace: q.Namespace, Category: q.Category, Name: name}); ok && within(r, name) {
				sum.Add(name, live.Version)
			}
		}
		if sum.Sum() != r.Sum {
			return about(tiers.Key{Namespace: q.Namespace, Category: q.Category}, tiers.ErrConflict)
		}
	}
	for _, r := range c.RowReads {
		k := rowKey{r.Tier, r.Key}
		if r.Unread {
			if row, ok := d.recent[k]; ok && row.Seq > c.Since {
				return about(r.Key, tiers.ErrConflict)
			}
			continue
		}
		if row, waits := d.rows[k]; waits {
			if visible(row, now) != r.Version {
				return about(r.Key, tiers.ErrConflict)
			}
		} else if row, ok := d.recent[k]; ok && row.Seq > c.Since && visible(row, now) != r.Version && (r.Version == 0 || row.Version != r.Version) {
			return about(r.Key, tiers.ErrConflict)
		}
	}
	for _, r := range c.RowRanges {
		for _, rows := range []map[rowKey]tiers.Row{d.rows, d.recent} {
			for k, row := range rows {
				q := r.Query
				behind := q.After == "" || !q.Reverse && row.Name > q.After || q.Reverse && row.Name < q.After
				if k.tier == r.Tier && row.Seq > c.Since && row.Namespace == q.Namespace && row.Category == q.Category &&
					strings.HasPrefix(row.Name, q.Prefix) && behind && within(r.Range, row.Name) {
					return about(row.Key, tiers.ErrConflict)
				}
			}
		}
	}
	return nil
}

// selected are the names of records that the query selects.
func (d *decider) selected(q tiers.Query) []string {
	var names []string
	for k := range d.records {
		if k.Namespace == q.Namespace && k.Category == q.Category {
			names = append(names, k.Name)
		}
	}
	slices.Sort(names)
	return selected(names, q)
}

func within(r tiers.Range, name string) bool {
	return r.End == "" || !r.Query.Reverse && name <= r.End || r.Query.Reverse && name >= r.End
}

func visible(row tiers.Row, now time.Time) tiers.Version {
	if row.Deleted || !row.Live(now) {
		return 0
	}
	return row.Version
}

// place stores rows as Append does, with a limit for each tier.
func (d *decider) place(rows []tiers.Row, limits map[string]int64) ([]tiers.Row, error) {
	now := d.clock.Now()
	after, issued, seq := maps.Clone(d.rows), maps.Clone(d.issued), d.rowSeq
	out := make([]tiers.Row, len(rows))
	for i, row := range rows {
		k := rowKey{}.of(row)
		old, waits := after[k]
		if waits {
			row.Over = tiers.Cond{}
		}
		if row.Reserved {
			row.Version = max(row.Version, old.Version+1)
		} else {
			row.Version = max(row.Version, tiers.Version(now.UnixMicro()), issued[row.Tier]+1)
		}
		row.Reserved = false
		issued[row.Tier] = max(issued[row.Tier], row.Version)
		seq++
		row.Seq = seq
		after[k], out[i] = copiedRow(row), copiedRow(row)
		sum := int64(0)
		for k, row := range after {
			if k.tier == out[i].Tier {
				sum += rowBytes(row)
			}
		}
		if limit := limits[row.Tier]; limit > 0 && sum > limit && !row.Deleted {
			return nil, about(row.Key, tiers.ErrFull)
		}
	}
	if len(rows) > 0 {
		d.rows, d.issued, d.rowSeq = after, issued, seq
		d.changes.Journal++
	}
	return out, nil
}
