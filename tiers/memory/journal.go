package memory

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// journal holds the rows of one tier.
type journal struct {
	rows  map[tiers.Key]*tiers.Row
	mark  tiers.Version // the highest version issued
	bytes int64
	bySeq []*tiers.Row // in order of Seq; rows replaced or done may still be in it
}

func rowSize(r *tiers.Row) int64 { return int64(len(r.Name) + len(r.Value)) }

func (s *system) journal(tier string) *journal {
	j := s.journals[tier]
	if j == nil {
		j = &journal{rows: map[tiers.Key]*tiers.Row{}}
		s.journals[strings.Clone(tier)] = j
	}
	return j
}

// Append stores copies of the rows.
func (s *system) Append(ctx context.Context, rows []tiers.Row, conds []tiers.Cond, limit int64) ([]tiers.Row, error) {
	if conds != nil && len(conds) != len(rows) {
		return nil, s.fail("append", fmt.Errorf("%d conditions for %d rows", len(conds), len(rows)))
	}
	if err := s.enter(ctx, "append"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := s.clock.Now()
	if err := s.admit(rows, conds, limit, now); err != nil {
		return nil, err
	}
	out := make([]tiers.Row, len(rows))
	for i := range rows {
		out[i] = s.append(&rows[i], now)
	}
	return out, nil
}

// admit checks the conditions against what is pending, and the limit.
func (s *system) admit(rows []tiers.Row, conds []tiers.Cond, limit int64, now time.Time) error {
	var errs failures
	type place struct {
		tier string
		key  tiers.Key
	}
	latest := map[place]*tiers.Row{}
	grown := map[string]int64{}
	saves := map[string]bool{}
	for i := range rows {
		r := &rows[i]
		at := place{r.Tier, r.Key}
		if err := r.Check(); err != nil {
			errs.add(tiers.Fail("append", "memory", r.Key, err))
			continue
		}
		old, again := latest[at]
		if !again {
			old = s.journal(r.Tier).rows[r.Key]
		}
		var version tiers.Version
		if old != nil && !old.Deleted && old.Live(now) && !again {
			version = old.Version
		}
		if conds != nil && !again {
			errs.add(tiers.Fail("append", "memory", r.Key, conds[i].Holds(version)))
		}
		if old != nil {
			grown[r.Tier] -= rowSize(old)
		}
		grown[r.Tier] += rowSize(r)
		saves[r.Tier] = saves[r.Tier] || !r.Deleted
		latest[at] = r
	}
	for tier, n := range grown {
		pending := s.journal(tier).bytes + n
		if limit > 0 && n > 0 && saves[tier] && pending > limit {
			errs.add(tiers.Hint(s.fail("append", fmt.Errorf("%w: the journal for the %s tier would hold %d bytes, %d are allowed",
				tiers.ErrFull, tier, pending, limit)), "let the tier come back, or raise its journal limit"))
		}
	}
	return errs.join()
}

// append stores one row.
func (s *system) append(r *tiers.Row, now time.Time) tiers.Row {
	j := s.journal(r.Tier)
	row := *r
	row.Value, row.Index = clone(r.Value), nil
	row.Name, row.Category, row.Namespace = strings.Clone(r.Name), strings.Clone(r.Category), strings.Clone(r.Namespace)
	j.mark++
	if us := now.UnixMicro(); us > 0 {
		j.mark = max(j.mark, tiers.Version(us))
	}
	j.mark = max(j.mark, r.Version)
	row.Version = j.mark
	s.seq++
	row.Seq = s.seq
	if old := j.rows[r.Key]; old != nil {
		row.Over = tiers.Cond{} // the old one may be in the tier already
		j.bytes -= rowSize(old)
	}
	j.bytes += rowSize(&row)
	j.rows[row.Key] = &row
	j.bySeq = append(j.bySeq, &row)
	j.tidy()
	out := row
	out.Value = r.Value
	return out
}

// tidy drops rows that are no more from bySeq, when they are the most of it.
func (j *journal) tidy() {
	if len(j.bySeq) < 64 || len(j.bySeq) < 2*len(j.rows) {
		return
	}
	j.bySeq = slices.DeleteFunc(j.bySeq, func(r *tiers.Row) bool { return j.rows[r.Key] != r })
}

// Pending answers the row of a key with a copy of its value.
func (s *system) Pending(ctx context.Context, tier string, k tiers.Key) (tiers.Row, error) {
	if err := s.enter(ctx, "pending"); err != nil {
		return tiers.Row{}, err
	}
	defer s.mu.Unlock()
	r := s.journal(tier).rows[k]
	if r == nil {
		return tiers.Row{}, tiers.Fail("pending", "memory", k, tiers.ErrNotFound)
	}
	return copied(r), nil
}

// ListPending yields a state that later calls do not change.
func (s *system) ListPending(ctx context.Context, tier string, q tiers.Query) iter.Seq2[tiers.Row, error] {
	return func(yield func(tiers.Row, error) bool) {
		if err := s.enter(ctx, "list pending"); err != nil {
			yield(tiers.Row{}, err)
			return
		}
		var out []tiers.Row
		for k, r := range s.journal(tier).rows {
			if k.Namespace != q.Namespace || k.Category != q.Category || !strings.HasPrefix(k.Name, q.Prefix) {
				continue
			}
			if q.After != "" && (q.Reverse && k.Name >= q.After || !q.Reverse && k.Name <= q.After) {
				continue
			}
			out = append(out, *r)
		}
		s.mu.Unlock()
		slices.SortFunc(out, func(a, b tiers.Row) int { return cmp.Compare(a.Name, b.Name) })
		if q.Reverse {
			slices.Reverse(out)
		}
		if q.Limit > 0 {
			out = out[:min(q.Limit, len(out))]
		}
		for i := range out {
			out[i].Value = clone(out[i].Value) // rows are replaced, never changed
		}
		each(out, yield)
	}
}

// Due answers rows in order of Seq with copies of their values.
func (s *system) Due(ctx context.Context, tier string, after uint64, limit int) ([]tiers.Row, error) {
	if err := s.enter(ctx, "due"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	j := s.journal(tier)
	first, _ := slices.BinarySearchFunc(j.bySeq, after+1, func(r *tiers.Row, seq uint64) int { return cmp.Compare(r.Seq, seq) })
	var out []tiers.Row
	for _, r := range j.bySeq[first:] {
		if limit > 0 && len(out) == limit {
			break
		}
		if j.rows[r.Key] == r {
			out = append(out, copied(r))
		}
	}
	return out, nil
}

// Done removes rows that are still the ones given.
func (s *system) Done(ctx context.Context, rows []tiers.Row) error {
	if err := s.enter(ctx, "done"); err != nil {
		return err
	}
	defer s.mu.Unlock()
	changed := false
	for i := range rows {
		j := s.journal(rows[i].Tier)
		if r := j.rows[rows[i].Key]; r != nil && r.Seq == rows[i].Seq {
			delete(j.rows, r.Key)
			j.bytes -= rowSize(r)
			j.tidy()
			changed = true
		}
	}
	if changed {
		s.seq++
	}
	return nil
}

// Backlog answers what is pending.
func (s *system) Backlog(ctx context.Context, tier string) (tiers.Backlog, error) {
	if err := s.enter(ctx, "backlog"); err != nil {
		return tiers.Backlog{}, err
	}
	defer s.mu.Unlock()
	j := s.journal(tier)
	b := tiers.Backlog{Rows: int64(len(j.rows)), Bytes: j.bytes}
	for _, r := range j.bySeq {
		if j.rows[r.Key] == r {
			b.Oldest = r.Updated
			break
		}
	}
	return b, nil
}

func copied(r *tiers.Row) tiers.Row {
	out := *r
	out.Value = clone(r.Value)
	return out
}
