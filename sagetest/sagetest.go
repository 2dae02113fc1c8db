// Package sagetest helps to test apps that keep things in a store: a manager
// that lives in memory, a clock to move by hand, and tiers that fail on demand.
//
//	func TestGreeting(t *testing.T) {
//		m := sagetest.Open(t)
//		app := New(m)
//		...
//	}
//
// A manager of [Open] works inside testing/synctest, where time is moved by the
// bubble; elsewhere [Clock] does it:
//
//	clock := sagetest.NewClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
//	m := sagetest.Open(t, manager.WithClock(clock))
//	... // save
//	clock.Advance(24 * time.Hour)
//
// A test with the categories of the app's own file loads it, sets InMemory and
// calls [OpenWith].
package sagetest

import (
	"context"
	"testing"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/memory"
)

// Open opens a manager that keeps every category in memory, and closes it when
// the test ends. It knows the built-in categories with their TTLs; any other name
// is accepted, unless it looks like a misspelt one, and its entries never expire.
func Open(t testing.TB, opts ...manager.OpenOption) *manager.Manager {
	t.Helper()
	return OpenWith(t, config.InMemory(), tiers.Drivers{memory.Driver()}, opts...)
}

// OpenWith opens a manager with a configuration and drivers, and closes it when
// the test ends; what goes wrong fails the test.
func OpenWith(t testing.TB, cfg *config.Config, d tiers.Drivers, opts ...manager.OpenOption) *manager.Manager {
	t.Helper()
	m, err := manager.Open(context.WithoutCancel(t.Context()), cfg, d, opts...)
	if err != nil {
		t.Fatalf("open a manager: %v", err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Errorf("close the manager: %v", err)
		}
	})
	return m
}
