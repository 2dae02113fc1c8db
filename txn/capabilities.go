package txn

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/sagestore/sagestore/tiers"
)

// counters count what the journal answered for the tier.
type counters struct{ hits, misses, expired atomic.Int64 }

// Ping asks the server, not the journal.
func (j *Journaled) Ping(ctx context.Context) error {
	return j.call(ctx, "ping", tiers.Key{}, func() error {
		p, ok := tiers.As[tiers.Pinger](j.inner)
		if !ok {
			return tiers.ErrUnsupported
		}
		return p.Ping(ctx)
	})
}

// Stats are those of the tier and of what the journal answered for it. While
// the server is away, what is stored is what waits.
func (j *Journaled) Stats(ctx context.Context) (stats tiers.Stats, err error) {
	err = j.call(ctx, "stats", tiers.Key{}, func() error {
		s, ok := tiers.As[tiers.Statser](j.inner)
		if !ok {
			return tiers.ErrUnsupported
		}
		if stats, err = s.Stats(ctx); isAway(err) {
			var b tiers.Backlog
			b, err = j.system.Backlog(ctx, j.name)
			stats = tiers.Stats{Entries: b.Rows, Bytes: b.Bytes}
		}
		stats.Hits += j.count.hits.Load()
		stats.Misses += j.count.misses.Load()
		stats.Expired += j.count.expired.Load()
		return err
	})
	return stats, err
}

// Count counts what List lists.
func (j *Journaled) Count(ctx context.Context, s tiers.Space) (entries, bytes int64, err error) {
	err = j.call(ctx, "count", tiers.Key{Namespace: s.Namespace, Category: s.Category}, func() error {
		waits, err := j.anyRows(ctx)
		if err != nil {
			return err
		}
		if !waits {
			entries, bytes, err = tiers.Count(ctx, j.inner, s)
			if isAway(err) {
				entries, bytes, err = 0, 0, j.absent(ctx, err)
			}
			if !isNotFound(err) {
				return err
			}
			return nil
		}
		for r, err := range j.List(ctx, tiers.Query{Namespace: s.Namespace, Category: s.Category}) {
			if err != nil && r.Name == "" {
				return err
			}
			entries++
			bytes += int64(len(r.Name) + len(r.Value))
		}
		return nil
	})
	return entries, bytes, err
}

// Sweep sweeps the tier. While the journal is the whole truth it removes rows
// that have expired; otherwise they stay, since they delete what the tier holds.
func (j *Journaled) Sweep(ctx context.Context, limit int) (removed int, err error) {
	err = j.call(ctx, "sweep", tiers.Key{}, func() error {
		s, ok := tiers.As[tiers.Sweeper](j.inner)
		if !ok {
			return tiers.ErrUnsupported
		}
		if removed, err = s.Sweep(ctx, limit); !isAway(err) {
			return err
		}
		if err = j.absent(ctx, err); !isNotFound(err) {
			return err
		}
		removed, err = j.sweepRows(ctx, limit)
		return err
	})
	return removed, err
}

func (j *Journaled) sweepRows(ctx context.Context, limit int) (removed int, err error) {
	err = j.eachRow(ctx, func(rows []tiers.Row) error {
		var gone []tiers.Row
		for i := range rows {
			if removed+len(gone) < limit && !j.live(&rows[i]) {
				gone = append(gone, rows[i])
			}
		}
		if err := j.system.Done(ctx, gone); err != nil {
			return err
		}
		removed += len(gone)
		return nil
	})
	j.count.expired.Add(int64(removed))
	return removed, err
}

// Describe answers what the tier is.
func (j *Journaled) Describe() tiers.Info { return tiers.Describe(j.inner) }

// Diagnose adds to what the tier finds how much waits for it.
func (j *Journaled) Diagnose(ctx context.Context) []tiers.Finding {
	var out []tiers.Finding
	if d, ok := tiers.As[tiers.Diagnoser](j.inner); ok {
		out = d.Diagnose(ctx)
	}
	f := tiers.Finding{OK: true, Subject: "journal"}
	if j.away() == nil && j.view.any() { // what is refused is known once it was tried
		soon, cancel := context.WithTimeout(ctx, flushFor)
		_ = j.drain(soon)
		cancel()
	}
	b, err := j.system.Backlog(ctx, j.name)
	switch {
	case err != nil:
		f.OK, f.Message, f.Hint = false, "it can't be read: "+err.Error(), "look at the database tier"
	case b.Rows == 0:
		f.Message = "nothing waits"
	default:
		f.Message = fmt.Sprintf("%d records (%d bytes) wait for the %s tier since %s", b.Rows, b.Bytes, j.name, b.Oldest.Format("2006-01-02 15:04:05Z07:00"))
		if held := j.Held(); held != nil && j.away() == nil {
			f.OK, f.Message = false, f.Message+": "+cause(held)
			f.Hint = "see the log for the error, and `sagestore doctor` for the tier itself; they are tried again"
		}
		if away := j.away(); away != nil {
			f.OK, f.Hint = false, "they are applied as soon as its server is back"
			if j.limit > 0 && b.Bytes > j.limit/2 {
				f.Hint += fmt.Sprintf("; saves fail at %d bytes, see cache.journal_limit", j.limit)
			}
		}
	}
	return append(out, f)
}
