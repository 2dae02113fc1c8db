package manager

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// How often expired records are removed and what other processes registered is
// looked at.
const (
	sweepEvery = time.Minute
	factsEvery = 2 * time.Second
	sweepChunk = 1000
	sweepPause = 20 * time.Millisecond // between chunks, so that saves get in between
)

// Sweep removes the expired records of all tiers and tells how many that were.
// They are never answered by anything, so this only makes room; the background
// work does it every minute.
func (m *Manager) Sweep(ctx context.Context) (removed int, err error) {
	slot, err := m.enter(ctx)
	if err != nil {
		return 0, &tiers.Error{Op: "sweep", Err: err}
	}
	defer m.core.gate.leave(slot)
	return m.core.sweep(ctx, func(*station) bool { return true }, 0)
}

// sweepProcess sweeps what belongs to this process alone.
func (c *core) sweepProcess(ctx context.Context) error {
	_, err := c.sweep(ctx, func(s *station) bool { return s.info.Scope == tiers.ScopeProcess }, sweepPause)
	return err
}

// sweepShared sweeps what the processes of the store share: one of them does it.
func (c *core) sweepShared(ctx context.Context) error {
	_, err := c.sweep(ctx, func(s *station) bool { return s.info.Scope != tiers.ScopeProcess }, sweepPause)
	return err
}

func (c *core) sweep(ctx context.Context, which func(*station) bool, pause time.Duration) (removed int, err error) {
	var errs []error
	for _, name := range c.order {
		s := c.stations[name]
		sweeper, ok := tiers.As[tiers.Sweeper](s.tier)
		if !ok || !which(s) {
			continue
		}
		for {
			n, err := sweeper.Sweep(ctx, sweepChunk)
			removed += n
			if err != nil {
				errs = append(errs, tiers.Fail("sweep", name, tiers.Key{}, err))
			}
			if err != nil || n < sweepChunk {
				break
			}
			if err := c.clock.Sleep(ctx, pause); err != nil {
				return removed, errors.Join(append(errs, err)...)
			}
		}
	}
	return removed, errors.Join(errs...)
}

// refreshFacts learns what other processes registered: policies, and newer
// schemas of categories that this one uses.
func (c *core) refreshFacts(ctx context.Context) error {
	if err := c.facts.refresh(ctx); err != nil {
		return err
	}
	for category, text := range c.facts.under(factSchema) {
		n, err := strconv.ParseUint(text, 10, 32)
		if r, ok := c.routes.Load(category); ok && err == nil {
			r.(*route).noteSchema(uint32(n)) //nolint:forcetypeassert // the map holds nothing else
		}
	}
	return nil
}
