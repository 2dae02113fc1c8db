package manager

import (
	"context"
	"errors"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/txn"
)

// Stats are the counters of a manager since it was opened; Entries and Bytes
// are what is stored now.
type Stats struct {
	Tiers         map[string]tiers.Stats `json:"tiers"`
	Categories    map[string]tiers.Stats `json:"categories"`
	Pending       int                    `json:"pending"` // journal rows that have not reached their tier
	OldestPending time.Time              `json:"oldest_pending,omitzero"`
	Journal       map[string]Waiting     `json:"journal,omitempty"`      // by tier, of those for which something waits
	LastBackup    time.Time              `json:"last_backup,omitzero"`   // when the last good one ended
	NextBackup    time.Time              `json:"next_backup,omitzero"`   // when the next begins, if something is there that makes it by itself
	Near          map[string]NearStats   `json:"near,omitempty"`         // by category, of those with a near layer
	NearChannel   *NearChannel           `json:"near_channel,omitempty"` // nil: there is none
}

// Waiting is what the journal holds for a tier: writes that are answered from
// there, and that reach the tier in the background.
type Waiting struct {
	Rows   int64     `json:"rows"`
	Bytes  int64     `json:"bytes"` // of keys and values
	Oldest time.Time `json:"oldest"`
	Cause  string    `json:"cause,omitempty"` // the error that keeps them; empty while they are on their way
}

// Stats counts what is stored, in every namespace, and adds what was counted
// since the manager was opened. It costs a count of each category: ask for it
// now and then, not with every request. A tier that does not answer is in the
// error; the rest is there beside it.
func (m *Manager) Stats(ctx context.Context) (Stats, error) {
	slot, err := m.enter(ctx)
	if err != nil {
		return Stats{}, &tiers.Error{Op: "stats", Err: err}
	}
	defer m.core.gate.leave(slot)
	c := m.core
	out := Stats{Tiers: make(map[string]tiers.Stats), Categories: make(map[string]tiers.Stats)}
	out.LastBackup, out.NextBackup = c.lastBackups(ctx)
	out.Near, out.NearChannel = c.nearStats()
	took := make(map[string]*[bucketCount]uint64)
	for _, name := range c.order {
		took[name] = new([bucketCount]uint64)
		out.Tiers[name] = tiers.Stats{}
	}
	c.routes.Range(func(_, value any) bool {
		r := value.(*route) //nolint:forcetypeassert // the map holds nothing else
		s := r.meter.stats()
		r.meter.took.snapshot(took[r.tierName])
		out.Categories[r.category] = s
		t := out.Tiers[r.tierName]
		t.Hits, t.Misses, t.Errors = t.Hits+s.Hits, t.Misses+s.Misses, t.Errors+s.Errors
		out.Tiers[r.tierName] = t
		return true
	})
	var errs []error
	for _, name := range c.order {
		t := out.Tiers[name]
		t.P50, t.P99 = quantile(took[name], 0.50), quantile(took[name], 0.99)
		if statser, ok := tiers.As[tiers.Statser](c.stations[name].tier); ok {
			own, err := statser.Stats(ctx)
			t.Expired, t.Evicted = own.Expired, own.Evicted
			errs = append(errs, tiers.Fail("stats", name, tiers.Key{}, err))
		}
		entries, bytes, err := c.countTier(ctx, c.stations[name], out.Categories)
		t.Entries, t.Bytes = entries, bytes
		errs = append(errs, err)
		out.Tiers[name] = t
	}
	for _, name := range c.order {
		w, err := c.waiting(ctx, name)
		errs = append(errs, tiers.Fail("stats", name, tiers.Key{}, err))
		if w.Rows == 0 {
			continue
		}
		if out.Journal == nil {
			out.Journal = make(map[string]Waiting)
		}
		out.Journal[name] = w
		out.Pending += int(w.Rows)
		if out.OldestPending.IsZero() || w.Oldest.Before(out.OldestPending) {
			out.OldestPending = w.Oldest
		}
	}
	return out, errors.Join(errs...)
}

// waiting asks the journal what it holds for a tier, and the tier why.
func (c *core) waiting(ctx context.Context, tier string) (Waiting, error) {
	b, err := c.system.Backlog(ctx, tier)
	w := Waiting{Rows: b.Rows, Bytes: b.Bytes, Oldest: b.Oldest}
	if j, ok := c.stations[tier].tier.(*txn.Journaled); ok && w.Rows > 0 {
		if held := j.Held(); held != nil {
			w.Cause = tiers.Keyless(held)
		}
	}
	return w, err
}

func (m *meter) stats() tiers.Stats {
	var counts [bucketCount]uint64
	m.took.snapshot(&counts)
	return tiers.Stats{
		Hits: m.hits.Load(), Misses: m.misses.Load(), Errors: m.errors.Load(),
		P50: quantile(&counts, 0.50), P99: quantile(&counts, 0.99),
	}
}

// countTier counts the records of a tier, and adds them to their categories.
func (c *core) countTier(ctx context.Context, s *station, categories map[string]tiers.Stats) (entries, bytes int64, err error) {
	var spaces []tiers.Space
	for space, err := range s.tier.Spaces(ctx) {
		if err != nil {
			return 0, 0, tiers.Fail("stats", s.name, tiers.Key{}, err)
		}
		if !isStaged(space.Category) {
			spaces = append(spaces, space)
		}
	}
	var errs []error
	for _, space := range spaces {
		n, size, err := tiers.Count(ctx, s.tier, space)
		if err != nil {
			errs = append(errs, tiers.Fail("stats", s.name, tiers.Key{Namespace: space.Namespace, Category: space.Category}, err))
			continue
		}
		entries, bytes = entries+n, bytes+size
		category := categories[space.Category]
		category.Entries, category.Bytes = category.Entries+n, category.Bytes+size
		categories[space.Category] = category
	}
	return entries, bytes, errors.Join(errs...)
}
