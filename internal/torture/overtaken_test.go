//go:build linux

package main

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/internal/torture/check"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/all"
)

// meeting lets a row be applied between the reservation for the next one and its
// commit.
type meeting struct {
	tiers.Tier
	apply    chan struct{} // closed: rows may be applied
	reserved func()        // called after each reservation
}

func (m *meeting) As(target any) bool {
	if !inside(m.Tier, target) {
		return false
	}
	switch to := target.(type) {
	case *tiers.Applier:
		*to = &lateApplier{*to, m}
	case *tiers.Reserver:
		*to = &busyReserver{*to, m}
	}
	return true
}

type lateApplier struct {
	tiers.Applier
	m *meeting
}

func (a *lateApplier) Apply(ctx context.Context, rs []tiers.Record, over []tiers.Cond) error {
	select {
	case <-a.m.apply:
	case <-ctx.Done():
		return ctx.Err()
	}
	return a.Applier.Apply(ctx, rs, over)
}

type busyReserver struct {
	tiers.Reserver
	m *meeting
}

func (r *busyReserver) Reserve(ctx context.Context, ks []tiers.Key, above tiers.Version) ([]tiers.Reservation, error) {
	out, err := r.Reserver.Reserve(ctx, ks, above)
	r.m.reserved()
	return out, err
}

func TestATransactionStandsOverARowThatIsAppliedMeanwhile(t *testing.T) {
	ctx := t.Context()
	srv := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s := store{Dir: filepath.Join(t.TempDir(), "data"), Redis: srv.Addr(), Prefix: "t"}
	var met *meeting
	drivers := all.Tiers()
	for i, d := range drivers {
		if d.Name != "redis" {
			continue
		}
		open := d.Open
		drivers[i].Open = func(ctx context.Context, env tiers.Env) (tiers.Tier, error) {
			inner, err := open(ctx, env)
			met = &meeting{Tier: inner, apply: make(chan struct{}), reserved: func() {}}
			return met, err
		}
	}
	// The clock of the host is ahead of the server's.
	m, err := manager.Open(ctx, s.config(), drivers, manager.WithClock(aheadClock{tiers.SystemClock(), 10 * time.Second}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}()
	col := manager.For[check.Value](m, "pool.cache")
	if err := col.Save(ctx, "k", check.Value{Op: "1"}); err != nil {
		t.Fatal(err)
	}
	srv.Kill()
	if err := col.Save(ctx, "k", check.Value{Op: "2"}); err != nil {
		t.Fatalf("the server is away and a save fails: %v", err)
	}
	srv.Restart()
	var once sync.Once
	met.reserved = func() {
		once.Do(func() {
			close(met.apply)
			if err := s.waitForJournal(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	var tx *manager.Tx
	for tries := 0; ; tries++ {
		err = m.Update(ctx, func(x *manager.Tx) error {
			tx = x
			return col.In(x).Save(ctx, "k", check.Value{Op: "3"})
		})
		if err == nil {
			break
		}
		if tries == 1000 {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	once.Do(func() { close(met.apply) }) // the server was still away for the transaction
	if err := s.waitForJournal(ctx); err != nil {
		t.Fatal(err)
	}
	e, err := col.Entry(ctx, "k")
	if err != nil || e.Value.Op != "3" {
		t.Errorf("the transaction was committed with version %d; the store holds %q with version %d, %v", tx.Version("pool.cache", "k"), e.Value.Op, e.Version, err)
	}
}

// openMeeting opens a store whose cache meets at the test's will.
func openMeeting(t *testing.T, s store) (*manager.Manager, *meeting) {
	t.Helper()
	var met *meeting
	drivers := all.Tiers()
	for i, d := range drivers {
		if d.Name != "redis" {
			continue
		}
		open := d.Open
		drivers[i].Open = func(ctx context.Context, env tiers.Env) (tiers.Tier, error) {
			inner, err := open(ctx, env)
			met = &meeting{Tier: inner, apply: make(chan struct{}), reserved: func() {}}
			return met, err
		}
	}
	m, err := manager.Open(t.Context(), s.config(), drivers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return m, met
}

func TestARowOfAnotherProcessThatIsAppliedDuringACommitIsAConflict(t *testing.T) {
	ctx := t.Context()
	srv := redistest.Start(t)
	s := store{Dir: filepath.Join(t.TempDir(), "data"), Redis: srv.Addr(), Prefix: "t"}
	here, slow := openMeeting(t, s)
	there, busy := openMeeting(t, s)
	add := func(m *manager.Manager) error {
		col := manager.For[check.Value](m, "pool.cache")
		return m.Update(ctx, func(tx *manager.Tx) error {
			v, err := col.In(tx).LoadOr(ctx, "k", check.Value{})
			if err != nil {
				return err
			}
			v.N++
			return col.In(tx).Save(ctx, "k", v)
		}, manager.WithRetry(20))
	}
	var once sync.Once
	busy.reserved = func() {
		once.Do(func() {
			close(slow.apply)
			if err := s.waitForJournal(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	close(busy.apply)
	if err := add(here); err != nil {
		t.Fatal(err)
	}
	// The other process has not been told of the row yet, unless it asks.
	if err := add(there); err != nil {
		t.Fatal(err)
	}
	if err := s.waitForJournal(ctx); err != nil {
		t.Fatal(err)
	}
	v, err := manager.For[check.Value](there, "pool.cache").Load(ctx, "k")
	if err != nil || v.N != 2 {
		t.Errorf("two transactions were acknowledged that add 1, and the sum is %d, %v", v.N, err)
	}
}

// aheadClock is ahead of another one.
type aheadClock struct {
	tiers.Clock
	by time.Duration
}

func (c aheadClock) Now() time.Time { return c.Clock.Now().Add(c.by) }
