package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/cache/redis"
)

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := tiers.SystemClock().Now().Add(15 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if tiers.SystemClock().Now().After(deadline) {
			t.Fatalf("it never was %s", what)
		}
	}
}

func timeout(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func load(t *testing.T, tier tiers.Tier, name string, within time.Duration) (tiers.Record, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	return tier.Load(ctx, key(name))
}

func TestFrozenServerHoldsNobodyBeyondTheDeadline(t *testing.T) {
	srv := redistest.Start(t)
	const limit, within = 500 * time.Millisecond, 100 * time.Millisecond
	// By its own limit it would wait for much longer than a busy machine takes to notice
	// a deadline.
	patient := open(t, redis.Options{URL: srv.URL(), Timeout: 2 * time.Minute})
	tier := open(t, redis.Options{URL: srv.URL(), Timeout: limit})
	roundTrip(t, patient)
	roundTrip(t, tier)
	srv.Freeze()
	var wg sync.WaitGroup
	for caller := range 16 {
		wg.Go(func() {
			for i := range 8 {
				ctx, cancel := context.WithTimeout(t.Context(), within)
				began := tiers.SystemClock().Now()
				var err error
				if (caller+i)%2 == 0 {
					_, err = patient.Load(ctx, key("round trip"))
				} else {
					_, err = patient.Save(ctx, record(fmt.Sprintf("k%d", caller), "v"), tiers.Cond{})
				}
				if took := time.Since(began); took > time.Minute {
					t.Errorf("a call took %s", took)
				}
				if err == nil {
					t.Error("a frozen server answered")
				}
				cancel()
			}
		})
	}
	wg.Wait()
	until(t, "known as away", func() bool { _, _ = load(t, tier, "k", within); return tier.Away() != nil })
	began := tiers.SystemClock().Now()
	const calls = 60
	for range calls {
		if _, err := tier.Load(t.Context(), key("k")); !errors.Is(err, tiers.ErrUnavailable) {
			t.Errorf("load answers %v", err)
		}
	}
	if took := time.Since(began); took > calls*limit/2 {
		t.Errorf("with the breaker open %d calls took %s: they wait for the server", calls, took)
	}
	srv.Thaw()
	if err := tier.Ready(timeout(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, tier)
}

// Commands that were sent to a frozen server are run by it when it goes on.
func TestCommandsOfTimedOutCallersChangeNothingLater(t *testing.T) {
	srv := redistest.Start(t)
	tier := open(t, redis.Options{URL: srv.URL()})
	mustSave(t, tier, record("saved", "old"))
	mustSave(t, tier, record("touched", "old"))
	mustSave(t, tier, record("deleted", "old"))
	mustSave(t, tier, record("applied", "old"))
	for _, c := range []struct {
		name string
		do   func(ctx context.Context) error
	}{
		{"save", func(ctx context.Context) error {
			_, err := tier.Save(ctx, record("saved", "new"), tiers.Cond{})
			return err
		}},
		{"save of many", func(ctx context.Context) error {
			_, err := tier.SaveMany(ctx, []tiers.Record{record("saved", "new"), record("new", "new")}, nil)
			return err
		}},
		{"touch", func(ctx context.Context) error { _, err := tier.Touch(ctx, key("touched"), time.Hour); return err }},
		{"delete", func(ctx context.Context) error { _, err := tier.Delete(ctx, key("deleted"), tiers.Cond{}); return err }},
		{"apply", func(ctx context.Context) error {
			r := record("applied", "new")
			r.Version = 1 << 52
			return tier.Apply(ctx, []tiers.Record{r}, nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mustSave(t, tier, record("warm", "so that there is a connection"))
			srv.Freeze()
			err := c.do(timeout(t, 100*time.Millisecond))
			if !errors.Is(err, tiers.ErrCommitUnknown) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the call answers %v", err)
			}
			// Its connection is gone; what it sent is still on its way.
			srv.Thaw()
			until(t, "answering", func() bool { return tier.Ping(timeout(t, time.Second)) == nil })
			for _, name := range []string{"saved", "touched", "deleted", "applied"} {
				r, err := tier.Load(t.Context(), key(name))
				if err != nil || string(r.Value) != "old" || !r.Expires.IsZero() {
					t.Errorf("%s is %q, expires %v, %v", name, r.Value, r.Expires, err)
				}
			}
		})
	}
	if tier.Seen() >= 1<<52 {
		t.Error("the late command raised the version")
	}
	if v := mustSave(t, tier, record("saved", "newest")).Version; v >= 1<<52 {
		t.Errorf("version %d follows the late command", v)
	}
}

// Shows that the server runs what it was sent while frozen, so that the test
// above tests something: within its deadline, a command does act.
func TestCommandsActAfterAShortFreeze(t *testing.T) {
	srv := redistest.Start(t)
	tier := open(t, redis.Options{URL: srv.URL(), Timeout: 20 * time.Second})
	roundTrip(t, tier)
	srv.Freeze()
	done := make(chan error, 1)
	go func() {
		_, err := tier.Save(t.Context(), record("k", "v"), tiers.Cond{})
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("save of a frozen server answers %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	srv.Thaw()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestLostReplyIsAnUnknownOutcome(t *testing.T) {
	srv := redistest.Start(t)
	proxy := redistest.NewProxy(t, srv.Addr())
	tier := open(t, redis.Options{URL: proxy.URL(), Timeout: 300 * time.Millisecond})
	direct := open(t, redis.Options{URL: srv.URL()})
	roundTrip(t, tier)
	proxy.Swallow(true)
	_, err := tier.Save(t.Context(), record("k", "v"), tiers.Cond{})
	if !errors.Is(err, tiers.ErrCommitUnknown) || errors.Is(err, tiers.ErrUnavailable) {
		t.Errorf("save answers %v", err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller had no deadline, and the error has one: %v", err)
	}
	if r, err := direct.Load(t.Context(), key("k")); err != nil || string(r.Value) != "v" {
		t.Errorf("the save arrived, load answers %q, %v", r.Value, err)
	}
	if r, _ := direct.Load(t.Context(), key("k")); r.Version != direct.Seen() {
		t.Errorf("the save ran more than once")
	}
	until(t, "away", func() bool { _, _ = load(t, tier, "k", time.Second); return tier.Away() != nil })
	if _, err := tier.Save(t.Context(), record("k", "w"), tiers.Cond{}); !errors.Is(err, tiers.ErrUnavailable) {
		t.Errorf("with the breaker open, save answers %v", err)
	}
	proxy.Swallow(false)
	if err := tier.Ready(timeout(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if r, err := tier.Load(t.Context(), key("k")); err != nil || string(r.Value) != "v" {
		t.Errorf("after all, load answers %q, %v", r.Value, err)
	}
}

func TestCancelledCallersLeaveAtOnce(t *testing.T) {
	srv := redistest.Start(t)
	tier := open(t, redis.Options{URL: srv.URL(), Timeout: 2 * time.Minute})
	roundTrip(t, tier)
	srv.Freeze()
	defer srv.Thaw()
	began := tiers.SystemClock().Now()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			stop := time.AfterFunc(50*time.Millisecond, cancel)
			defer stop.Stop()
			var err error
			if i%2 == 0 {
				_, err = tier.Load(ctx, key("k"))
			} else {
				_, err = tier.Save(ctx, record("k", "v"), tiers.Cond{})
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled call answers %v", err)
			}
			if i%2 == 0 && errors.Is(err, tiers.ErrCommitUnknown) {
				t.Errorf("a load answers %v", err)
			}
		})
	}
	wg.Wait()
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the callers were held for %s", took)
	}
}

func TestServerThatDiesComesBack(t *testing.T) {
	srv := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	tier := open(t, redis.Options{URL: srv.URL()})
	saved := mustSave(t, tier, record("k", "v"))
	srv.Kill()
	until(t, "away", func() bool { _, err := load(t, tier, "k", time.Second); return err != nil && tier.Away() != nil })
	_, err := tier.Save(t.Context(), record("k", "w"), tiers.Cond{})
	if !errors.Is(err, tiers.ErrUnavailable) || errors.Is(err, tiers.ErrCommitUnknown) || !strings.Contains(err.Error(), srv.Addr()) {
		t.Errorf("save answers %v", err)
	}
	if fs := tier.Diagnose(t.Context()); len(fs) != 1 || fs[0].OK || fs[0].Hint == "" {
		t.Errorf("diagnose answers %+v", fs)
	}
	healed := make(chan error, 1)
	go func() { healed <- tier.Ready(timeout(t, 20*time.Second)) }()
	srv.Restart()
	began := tiers.SystemClock().Now()
	if err := <-healed; err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 15*time.Second { // it looks ten times a second
		t.Errorf("it took %s to find the server", took)
	}
	if r, err := tier.Load(t.Context(), key("k")); err != nil || r.Version != saved.Version {
		t.Errorf("load answers version %d, %v; want %d", r.Version, err, saved.Version)
	}
	if v := mustSave(t, tier, record("k", "x")).Version; v <= saved.Version {
		t.Errorf("version %d does not follow %d", v, saved.Version)
	}
}

func TestServerThatForgotTheScriptsGetsThemAgain(t *testing.T) {
	srv := redistest.Start(t)
	tier := open(t, redis.Options{URL: srv.URL()})
	var wg sync.WaitGroup
	for caller := range 8 {
		wg.Go(func() {
			for i := range 50 {
				if i%10 == caller {
					srv.Do("SCRIPT", "FLUSH")
				}
				mustSaveIn(t, tier, record(fmt.Sprintf("%d-%d", caller, i), "v"))
			}
		})
	}
	wg.Wait()
	if n, _, err := tier.Count(t.Context(), key("").Space()); n != 400 || err != nil {
		t.Errorf("count answers %d, %v", n, err)
	}
}

func mustSaveIn(t *testing.T, tier tiers.Tier, r tiers.Record) {
	t.Helper()
	if _, err := tier.Save(t.Context(), r, tiers.Cond{}); err != nil {
		t.Errorf("save: %v", err)
	}
}

func TestIdleConnectionsThatWereCutHurtNobody(t *testing.T) {
	srv := redistest.Start(t)
	proxy := redistest.NewProxy(t, srv.Addr())
	tier := open(t, redis.Options{URL: proxy.URL()})
	for range 20 {
		roundTrip(t, tier)
		proxy.Cut()
		until(t, "able to save", func() bool { _, err := tier.Save(t.Context(), record("k", "v"), tiers.Cond{}); return err == nil })
		if _, err := tier.Load(t.Context(), key("k")); err != nil {
			t.Errorf("load: %v", err)
		}
	}
}

func TestOpenSucceedsWithoutAServer(t *testing.T) {
	srv := redistest.Start(t)
	srv.Kill()
	tier := open(t, redis.Options{URL: srv.URL()})
	if err := tier.Away(); !errors.Is(err, tiers.ErrUnavailable) {
		t.Errorf("away answers %v", err)
	}
	if _, ok := tier.ServerNow(); ok {
		t.Error("it knows the clock of a server that it never met")
	}
	if _, err := tier.Load(t.Context(), key("k")); !errors.Is(err, tiers.ErrUnavailable) {
		t.Errorf("load answers %v", err)
	}
	for _, err := range tier.List(t.Context(), tiers.Query{Category: "test"}) {
		if !errors.Is(err, tiers.ErrUnavailable) {
			t.Errorf("list yields %v", err)
		}
	}
	srv.Restart()
	if err := tier.Ready(timeout(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, tier)
	now, ok := tier.ServerNow()
	if d := time.Since(now); !ok || d.Abs() > time.Minute { // one of another unit or time zone is off by more
		t.Errorf("the server's clock is off by %s", d)
	}
	if tier.Seen() == 0 {
		t.Error("it has seen no version")
	}
}

func TestCloseWhileTheServerIsSilent(t *testing.T) {
	srv := redistest.Start(t)
	tier, err := redis.Open(t.Context(), redis.Config{Options: redis.Options{URL: srv.URL(), Timeout: 300 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, tier)
	srv.Freeze()
	waiting := make(chan error, 1)
	go func() { _, err := tier.Load(context.Background(), key("k")); waiting <- err }()
	time.Sleep(20 * time.Millisecond) // so that most runs have a call on its way
	began := tiers.SystemClock().Now()
	if err := tier.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("close took %s", took)
	}
	if err := <-waiting; !errors.Is(err, tiers.ErrUnavailable) && !errors.Is(err, tiers.ErrClosed) {
		t.Errorf("the load on its way answers %v", err)
	}
	if _, err := tier.Load(context.Background(), key("k")); !errors.Is(err, tiers.ErrClosed) {
		t.Errorf("load after close answers %v", err)
	}
	if err := tier.Ready(context.Background()); !errors.Is(err, tiers.ErrClosed) && err != nil {
		t.Errorf("ready after close answers %v", err)
	}
	if err := tier.Close(context.Background()); err != nil {
		t.Errorf("second close answers %v", err)
	}
	srv.Thaw()
}
