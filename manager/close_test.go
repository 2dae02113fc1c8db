package manager_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

func TestCloseRefusesNewCallsAndWaitsForThoseUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		drivers := sagetest.Failing(all(), func(op string, k tiers.Key) error {
			if op == "save" && k.Name == "slow" {
				<-slow
			}
			return nil
		})
		m := value[*manager.Manager](t)(manager.OpenMemory(t.Context(), drivers))
		c := manager.For[string](m, "session.preferences")
		saved := make(chan error, 1)
		go func() { saved <- c.Save(t.Context(), "slow", "v") }()
		synctest.Wait()
		closed := make(chan error, 2)
		go func() { closed <- m.Close(t.Context()) }()
		synctest.Wait()
		wantError(t, c.Save(t.Context(), "k", "v"), tiers.ErrClosed, "save")
		_, err := c.Load(t.Context(), "k")
		wantError(t, err, tiers.ErrClosed, "load")
		_, err = c.All(t.Context())
		wantError(t, err, tiers.ErrClosed, "list")
		_, err = c.Fetch(t.Context(), "k", nil)
		wantError(t, err, tiers.ErrClosed, "fetch")
		wantError(t, m.EndSession(t.Context(), "s"), tiers.ErrClosed, "end session")
		_, err = m.Stats(t.Context())
		wantError(t, err, tiers.ErrClosed, "stats")
		if h := m.Health(t.Context()); h.Ready {
			t.Error("a closed manager is not ready")
		}
		select {
		case err := <-closed:
			t.Errorf("close did not wait: %v", err)
		default:
		}
		close(slow)
		must(t, <-saved)
		must(t, <-closed)
		must(t, m.Close(t.Context()))
	})
}

func TestContextOfCloseEndsOnlyTheWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		var tierClosed atomic.Bool
		drivers := sagetest.Failing(all(), func(op string, k tiers.Key) error {
			if op == "save" && k.Name == "slow" {
				<-slow
			}
			if op == "close" {
				tierClosed.Store(true)
			}
			return nil
		})
		m := value[*manager.Manager](t)(manager.OpenMemory(t.Context(), drivers))
		flushed := false
		must(t, m.Background("flush", time.Hour, func(ctx context.Context) error {
			flushed = true
			return manager.For[string](m, "session.preferences").Save(ctx, "last words", "v")
		}))
		saved := make(chan error, 1)
		go func() { saved <- manager.For[string](m, "session.preferences").Save(t.Context(), "slow", "v") }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := tiers.SystemClock().Now()
		must(t, m.Close(ctx))
		if took := time.Since(begin); took != time.Second || !flushed || !tierClosed.Load() {
			t.Errorf("closed after %v, flushed %v, tier closed %v", took, flushed, tierClosed.Load())
		}
		close(slow)
		if err := <-saved; err != nil && !errors.Is(err, tiers.ErrClosed) {
			t.Errorf("the late save: %v", err)
		}
	})
}

func TestErrorsOfTheLastFlushAreReported(t *testing.T) {
	t.Parallel()
	m := value[*manager.Manager](t)(manager.OpenMemory(t.Context(), all()))
	own := errors.New("disk gone")
	must(t, m.Background("flush", time.Hour, func(context.Context) error { return own }))
	wantError(t, m.Close(t.Context()), own, "close")
	must(t, m.Close(t.Context()))
	wantError(t, m.Background("late", time.Hour, func(context.Context) error { return nil }), tiers.ErrClosed, "background after close")
}

func TestFailedOpenClosesWhatItOpened(t *testing.T) {
	t.Parallel()
	own := errors.New("no such server")
	var closed atomic.Int64
	drivers := sagetest.Failing(all(), func(op string, _ tiers.Key) error {
		if op == "close" {
			closed.Add(1)
		}
		return nil
	})
	cfg := config.Default()
	cfg.DataDir = t.TempDir()
	for i, d := range drivers {
		if d.Tier == "file" {
			drivers[i].Open = func(context.Context, tiers.Env) (tiers.Tier, error) { return nil, own }
		}
	}
	_, err := manager.Open(t.Context(), cfg, drivers)
	wantError(t, err, own, "open")
	if closed.Load() != 3 {
		t.Errorf("of 3 open tiers %d were closed", closed.Load())
	}
}

func TestDriverThatIsNotLinkedIsNamed(t *testing.T) {
	t.Parallel()
	_, err := manager.OpenDir(t.Context(), t.TempDir(), tiers.Drivers{all()[0]})
	wantError(t, err, tiers.ErrUnsupported, "open")
	for _, want := range []string{"sqlite", "sagestore/tiers/database", "sagestore/tiers/cache/file", "sagestore/tiers/file"} {
		if !contains(err, want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
	cfg := config.Default()
	cfg.DataDir, cfg.Redis = t.TempDir(), &config.Redis{URL: "redis://localhost:1"}
	_, err = manager.Open(t.Context(), cfg, all())
	if !contains(err, `"redis"`) || !contains(err, "sagestore/tiers/cache/redis") {
		t.Errorf("%v does not name the driver and its package", err)
	}
}
