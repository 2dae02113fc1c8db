package txn_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/cache/redis"
	"github.com/sagestore/sagestore/tiers/database"
	"github.com/sagestore/sagestore/tiers/memory"
	"github.com/sagestore/sagestore/tiers/tiertest"
	"github.com/sagestore/sagestore/txn"
)

// TestConformanceOnAJournalInSQLite is the suite on a server that never was
// there, with the journal where programs have it.
func TestConformanceOnAJournalInSQLite(t *testing.T) {
	if os.Getenv("CI") == "" {
		t.Skip("the same runs on a journal in memory; CI=true runs it on SQLite, too")
	}
	t.Parallel()
	tiertest.Run(t, tiertest.Config{
		Open: func(ctx context.Context, dir string, clock tiers.Clock) (tiers.Tier, error) {
			store, err := database.Open(ctx, database.Config{Path: database.Memory, Clock: clock})
			if err != nil {
				return nil, err
			}
			inner, err := memory.Open(ctx, memory.Config{Options: memory.Options{SpillDir: dir}, Clock: clock})
			if err != nil {
				return nil, err
			}
			system, _ := tiers.As[tiers.System](store)
			s := newServer()
			s.set(true)
			j, err := txn.Journal(ctx, &flaky{Tier: inner, server: s, clock: clock}, system, txn.Config{Epoch: "e1", Clock: clock})
			if err != nil {
				return nil, err
			}
			return owned{j, both{store, inner}, true}, nil
		},
		Require: []tiertest.Capability{tiertest.Batcher, tiertest.AtomicBatch, tiertest.Exister, tiertest.Sweeper, tiertest.Counter},
	})
}

// both closes two tiers as one.
type both struct {
	tiers.Tier
	other tiers.Tier
}

func (b both) Close(ctx context.Context) error {
	return errors.Join(b.Tier.Close(ctx), b.other.Close(ctx))
}

// process opens what a program has: Redis behind a journal in SQLite.
func process(t *testing.T, url, dir string) *txn.Journaled {
	t.Helper()
	store, err := database.Open(t.Context(), database.Config{Path: filepath.Join(dir, "sage.db")})
	if err != nil {
		t.Fatal(err)
	}
	inner, err := redis.Open(t.Context(), redis.Config{Options: redis.Options{URL: url, Epoch: "e1"}})
	if err != nil {
		t.Fatal(err)
	}
	system, _ := tiers.As[tiers.System](store)
	j, err := txn.Journal(t.Context(), inner, system, txn.Config{Epoch: "e1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(j.Close(context.Background()), store.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return j
}

func TestRedisThatHangsOrDiesLosesNothing(t *testing.T) {
	s := redistest.Start(t)
	dir := t.TempDir()
	a, b := process(t, s.URL(), dir), process(t, s.URL(), dir)

	var over atomic.Bool
	var work sync.WaitGroup
	last := make([]int, 8)
	var slowest [8]time.Duration
	for i := range last {
		j := a
		if i%2 == 1 {
			j = b
		}
		work.Go(func() {
			for n := 1; !over.Load(); n++ {
				began := tiers.SystemClock().Now()
				if _, err := j.Save(t.Context(), rec(fmt.Sprintf("k%d", i), fmt.Sprint(n)), tiers.Cond{}); err != nil {
					t.Errorf("save: %v", err)
				}
				slowest[i] = max(slowest[i], tiers.SystemClock().Now().Sub(began))
				last[i] = n
				if got := shown(t, j, fmt.Sprintf("k%d", i)); got != fmt.Sprint(n) && got != "unavailable" {
					t.Errorf("k%d is %s, want %d", i, got, n)
				}
			}
		})
	}
	pause := func(d time.Duration) { _ = tiers.SystemClock().Sleep(t.Context(), d) }
	pause(200 * time.Millisecond)
	s.Freeze()
	pause(1500 * time.Millisecond)
	s.Thaw()
	pause(300 * time.Millisecond)
	s.Kill()
	pause(500 * time.Millisecond)
	s.Restart()
	pause(300 * time.Millisecond)
	over.Store(true)
	work.Wait()
	t.Logf("slowest saves: %v; saves: %v", slowest, last)

	for i, n := range last {
		name := fmt.Sprintf("k%d", i)
		eventually(t, name+" is what was saved last, for both processes", func() bool {
			return shown(t, a, name) == fmt.Sprint(n) && shown(t, b, name) == fmt.Sprint(n)
		})
	}
}

func TestWithoutRedisEverythingWorksFromTheJournal(t *testing.T) {
	s := redistest.Start(t)
	url := s.URL()
	s.Stop()
	dir := t.TempDir()
	j := process(t, url, dir)
	made, err := j.Save(t.Context(), rec("k", "1"), tiers.If(0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Save(t.Context(), rec("k", "2"), tiers.If(made.Version)); err != nil {
		t.Fatal(err)
	}
	if got := listed(t, j, tiers.Query{}); got != "k=2 " || shown(t, j, "other") != "absent" {
		t.Error(got)
	}
	// A second process on the store sees the same.
	if got := shown(t, process(t, url, dir), "k"); got != "2" {
		t.Error(got)
	}
	s.Restart()
	eventually(t, "redis has it", func() bool {
		direct, err := redis.Open(t.Context(), redis.Config{Options: redis.Options{URL: url, Epoch: "e1"}})
		if err != nil {
			return false
		}
		defer func() { _ = direct.Close(t.Context()) }()
		return shown(t, direct, "k") == "2"
	})
	eventually(t, "the first process notices that Redis is there", func() bool { return shown(t, j, "k") != "unavailable" })
	if got := shown(t, j, "k"); got != "2" {
		t.Error(got)
	}
}
