package manager

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sagestore/sagestore/tiers"
)

// Health is how a store is doing. It holds no secret and no key: an endpoint
// can return it as it is.
type Health struct {
	Ready      bool                  `json:"ready"`    // saves and loads of the database work
	Degraded   bool                  `json:"degraded"` // a tier is away, or does not take the writes that wait for it
	Tiers      map[string]TierHealth `json:"tiers"`
	Pending    int                   `json:"pending"`              // journal rows that have not reached their tier
	LastBackup time.Time             `json:"last_backup,omitzero"` // when the last good one ended
	NextBackup time.Time             `json:"next_backup,omitzero"` // when the next begins, if something is there that makes it by itself
	// BackupProblem is what went wrong with backups since the last good one, or why that
	// one removed no earlier one; "" when nothing did. It makes nothing Degraded.
	BackupProblem string `json:"backup_problem,omitempty"`
}

// TierHealth is how a tier is doing.
type TierHealth struct {
	Up      bool          `json:"up"`
	Driver  string        `json:"driver"`
	Error   string        `json:"error,omitempty"`
	Latency time.Duration `json:"latency_ns"` // of the sign of life that was asked for
	Since   time.Time     `json:"since"`      // when it went up or down, as far as was noticed
}

// applyPatience is how long writes may wait in the journal before that is worth
// a notice: those of transactions are there for milliseconds.
const applyPatience = 5 * time.Second

// pingPatience bounds the wait for a sign of life.
const pingPatience = 2 * time.Second

// Health asks every tier for a sign of life.
func (m *Manager) Health(ctx context.Context) Health {
	h := Health{Tiers: make(map[string]TierHealth)}
	c := m.core
	slot, err := m.enter(ctx)
	if err != nil {
		for _, name := range c.order {
			h.Tiers[name] = TierHealth{Driver: c.stations[name].driver, Error: "the manager was closed", Since: c.clock.Now().UTC()}
		}
		return h
	}
	defer c.gate.leave(slot)

	var g errgroup.Group
	var mu sync.Mutex
	for _, name := range c.order {
		g.Go(func() error {
			t := c.stations[name].health(ctx, c.clock)
			mu.Lock()
			defer mu.Unlock()
			h.Tiers[name] = t
			return nil
		})
	}
	_ = g.Wait() // no function answers an error
	_, systemErr := c.system.Changes(ctx)
	for _, name := range c.order {
		h.Degraded = h.Degraded || !h.Tiers[name].Up
		if w, err := c.waiting(ctx, name); err == nil && w.Rows > 0 {
			h.Pending += int(w.Rows)
			h.Degraded = h.Degraded || w.Cause != "" || c.clock.Now().Sub(w.Oldest) > applyPatience
		}
	}
	h.Degraded = h.Degraded || systemErr != nil
	h.LastBackup, h.NextBackup, h.BackupProblem = c.backupsInShort(ctx)
	database, there := h.Tiers["database"]
	h.Ready = systemErr == nil && (!there || database.Up)
	return h
}

// health asks the tier and notes when it went up or down.
func (s *station) health(ctx context.Context, clock tiers.Clock) TierHealth {
	start := clock.Now()
	err := s.ping(ctx)
	now := clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if down := err != nil; down != s.down {
		s.down, s.since = down, now
	}
	t := TierHealth{Up: err == nil, Driver: s.driver, Latency: now.Sub(start), Since: s.since.UTC()}
	if err != nil {
		t.Error = tiers.Keyless(err)
	}
	return t
}

func (s *station) ping(ctx context.Context) error {
	p, ok := tiers.As[tiers.Pinger](s.tier)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pingPatience)
	defer cancel()
	return p.Ping(ctx)
}
