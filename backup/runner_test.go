package backup_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/tiers"
)

// place is what the processes of a store share: the state, the lock, and what
// happened. It is the clock as well, whose hands can be moved.
type place struct {
	mu      sync.Mutex
	ahead   time.Duration // of the clock
	state   backup.State
	saves   int
	loadErr error
	held    bool
	tried   []string // when, in the clock's time, and which try
	told    []string // what the hooks were told
	log     strings.Builder
}

func (p *place) Now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.ahead).UTC() //nolint:forbidigo // the time of the bubble
}

func (p *place) Sleep(ctx context.Context, d time.Duration) error {
	return tiers.SystemClock().Sleep(ctx, d)
}

func (p *place) set(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ahead += d
}

func (p *place) Load(context.Context) (backup.State, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state, p.loadErr
}

func (p *place) Save(_ context.Context, s backup.State) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.loadErr = s, nil
	p.saves++
	return nil
}

func (p *place) lock(context.Context) (func(), bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held {
		return nil, false, nil
	}
	p.held = true
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.held = false
	}, true, nil
}

func (p *place) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

// config makes a runner whose work takes ten minutes and then answers what fail
// does.
func (p *place) config(t *testing.T, fail func(a backup.Attempt) error) backup.RunnerConfig {
	t.Helper()
	tell := func(word string) func(context.Context, backup.Outcome) error {
		return func(_ context.Context, o backup.Outcome) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.told = append(p.told, fmt.Sprintf("%s %s, next %s", word, o.Run.Format(minutes), o.Next.Format(minutes)))
			return errors.New("the receiver is away")
		}
	}
	return backup.RunnerConfig{
		Schedule: schedule(t, backup.Timing{Zone: "UTC"}),
		State:    p, Lock: p.lock, Clock: p, Logger: slog.New(slog.NewTextHandler(p, nil)),
		OnSuccess: tell("good"), OnFailure: tell("bad"),
		Work: func(ctx context.Context, a backup.Attempt) error {
			p.mu.Lock()
			p.tried = append(p.tried, fmt.Sprintf("%s %d", a.Began.Format(minutes), a.Try))
			if !p.held {
				t.Error("the work is done without the lock")
			}
			p.mu.Unlock()
			if err := p.Sleep(ctx, 10*time.Minute); err != nil {
				return err
			}
			if fail == nil {
				return nil
			}
			return fail(a)
		},
	}
}

const minutes = "2006-01-02 15:04"

func start(t *testing.T, c backup.RunnerConfig) *backup.Runner {
	t.Helper()
	r, err := backup.StartRunner(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func stop(t *testing.T, r *backup.Runner) {
	t.Helper()
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A bubble's time begins with the year 2000.
func TestARunANight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{}
		r := start(t, p.config(t, nil))
		time.Sleep(10 * 24 * time.Hour)
		stop(t, r)
		var tried, told []string
		for i := range 10 {
			tried = append(tried, fmt.Sprintf("2000-01-%02d 03:30 1", i+1))
			told = append(told, fmt.Sprintf("good 2000-01-%02d 03:30, next 2000-01-%02d 03:30", i+1, i+2))
		}
		equal(t, "runs", p.tried, tried)
		equal(t, "hooks", p.told, told)
		if !strings.Contains(p.log.String(), "the receiver is away") {
			t.Errorf("the log has no word of the hook that failed:\n%s", &p.log)
		}
		if p.saves > 10*24*6+2*10+1 {
			t.Errorf("the state was stored %d times in ten days", p.saves)
		}
	})
}

func TestAFailedRunIsTriedAgainUntilTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{}
		r := start(t, p.config(t, func(a backup.Attempt) error {
			if a.Run.Day() == 1 || a.Run.Day() == 2 && a.Try < 3 {
				return errors.New("the disk is full")
			}
			return nil
		}))
		time.Sleep(3 * 24 * time.Hour)
		stop(t, r)
		equal(t, "runs", p.tried, []string{
			"2000-01-01 03:30 1", "2000-01-01 03:41 2", "2000-01-01 03:53 3", "2000-01-01 04:07 4", "2000-01-01 04:25 5", "2000-01-01 04:51 6",
			"2000-01-01 05:33 7", "2000-01-01 06:47 8", "2000-01-01 09:05 9", "2000-01-01 13:31 10", "2000-01-01 22:13 11",
			"2000-01-02 03:30 1", "2000-01-02 03:41 2", "2000-01-02 03:53 3",
			"2000-01-03 03:30 1",
		})
		equal(t, "the last hooks", p.told[10:], []string{
			"bad 2000-01-01 03:30, next 2000-01-02 03:30",
			"bad 2000-01-02 03:30, next 2000-01-02 03:41", "bad 2000-01-02 03:30, next 2000-01-02 03:53", "good 2000-01-02 03:30, next 2000-01-03 03:30",
			"good 2000-01-03 03:30, next 2000-01-04 03:30",
		})
	})
}

func TestABackupWhosePruneIsRefusedIsGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{}
		r := start(t, p.config(t, func(backup.Attempt) error { return fmt.Errorf("prune: %w", backup.ErrRefused) }))
		time.Sleep(2 * 24 * time.Hour)
		stop(t, r)
		equal(t, "runs", p.tried, []string{"2000-01-01 03:30 1", "2000-01-02 03:30 1"})
		equal(t, "hooks", p.told, []string{"bad 2000-01-01 03:30, next 2000-01-02 03:30", "bad 2000-01-02 03:30, next 2000-01-03 03:30"})
	})
}

func TestMissedNightsAreMadeUpForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{}
		stop(t, start(t, p.config(t, nil))) // seen once
		time.Sleep(3*24*time.Hour + 12*time.Hour)
		r := start(t, p.config(t, nil))
		time.Sleep(24*time.Hour + 30*time.Second)
		p.set(50 * time.Hour) // suspended: the timers stood still
		time.Sleep(time.Hour)
		stop(t, r)
		equal(t, "runs", p.tried, []string{"2000-01-04 12:00 1", "2000-01-05 03:30 1", "2000-01-07 14:01 1"})
	})
}

func TestOneOfTwoProcessesMakesTheBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{}
		a, b := start(t, p.config(t, nil)), start(t, p.config(t, nil))
		time.Sleep(3 * 24 * time.Hour)
		stop(t, a)
		stop(t, b)
		if len(p.tried) != 3 || len(p.told) != 3 {
			t.Errorf("%d runs in three nights, and hooks were told %d times: %v", len(p.tried), len(p.told), p.tried)
		}
		if n := strings.Count(p.log.String(), "waits for another process"); n != 3 {
			t.Errorf("the one that waits says so %d times:\n%s", n, &p.log)
		}
	})
}

func TestAnotherProcessTakesOverFromOneThatGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{}
		a := start(t, p.config(t, nil))
		time.Sleep(3*time.Hour + 30*time.Minute + 30*time.Second) // in the middle of the run of a
		b := start(t, p.config(t, nil))
		time.Sleep(5*time.Minute + 15*time.Second)
		stop(t, a)
		time.Sleep(time.Hour)
		stop(t, b)
		equal(t, "runs", p.tried, []string{"2000-01-01 03:30 1", "2000-01-01 03:36 1"})
		equal(t, "hooks", p.told, []string{"good 2000-01-01 03:30, next 2000-01-02 03:30"})
	})
}

func TestAProcessThatDiedInItsBackupWaitsLongerEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{}
		p.state.Begin(at("2000-01-01 03:30"), at("2000-01-01 03:30"))
		p.state.Begin(at("2000-01-01 03:30"), at("2000-01-01 03:31"))
		p.state.Since = at("2000-01-01")
		time.Sleep(3*time.Hour + 32*time.Minute)
		r := start(t, p.config(t, nil))
		time.Sleep(time.Hour)
		stop(t, r)
		equal(t, "runs", p.tried, []string{"2000-01-01 03:33 3"})
	})
}

func TestCloseWaitsForTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{}
		c := p.config(t, nil)
		var ended atomic.Bool
		c.Work = func(ctx context.Context, _ backup.Attempt) error {
			<-ctx.Done()
			time.Sleep(5 * time.Second) // it cleans up
			ended.Store(true)
			return ctx.Err()
		}
		r := start(t, c)
		time.Sleep(4 * time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || ended.Load() {
			t.Errorf("before the work ended: %v, ended %v", err, ended.Load())
		}
		for range 2 {
			if err := r.Close(t.Context()); err != nil || !ended.Load() {
				t.Errorf("%v, ended %v", err, ended.Load())
			}
		}
		if p.held || p.state.Tries != 0 || len(p.told) != 0 {
			t.Errorf("what was cut short counts: %+v, told %v, lock held %v", p.state, p.told, p.held)
		}
	})
}

func TestAClockThatWasAheadStopsNoRunAndForbidsPruning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{}
		var seen []bool
		r := start(t, p.config(t, func(a backup.Attempt) error {
			_, err := backup.Decide(nil, backup.Policy{Seen: a.State.LastSeen, Accepted: a.State.Accepted}, a.Began)
			seen = append(seen, err == nil)
			return nil
		}))
		time.Sleep(12*time.Hour + 30*time.Second)
		p.set(10 * 365 * 24 * time.Hour)
		time.Sleep(time.Hour)
		p.set(-10 * 365 * 24 * time.Hour)
		time.Sleep(2 * 24 * time.Hour)
		p.mu.Lock()
		p.state.Accept(at("2000-01-03 13:00")) // by somebody at the command line
		p.mu.Unlock()
		time.Sleep(2 * 24 * time.Hour)
		stop(t, r)
		equal(t, "runs", p.tried, []string{
			"2000-01-01 03:30 1", "2009-12-29 12:01 1", "2000-01-02 03:30 1", "2000-01-03 03:30 1", "2000-01-04 03:30 1", "2000-01-05 03:30 1",
		})
		if want := []bool{true, true, false, false, true, true}; !slices.Equal(seen, want) {
			t.Errorf("pruning is allowed: %v, want %v", seen, want)
		}
	})
}

func TestRunsGoOnWithoutAState(t *testing.T) {
	for _, c := range []struct {
		why   string
		err   error
		saved bool
	}{
		{"what can't be read is not replaced", errors.New("input/output error"), false},
		{"what is corrupt is replaced", fmt.Errorf("state: %w", tiers.ErrCorrupt), true},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &place{loadErr: c.err}
				r := start(t, p.config(t, nil))
				time.Sleep(2 * 24 * time.Hour)
				stop(t, r)
				equal(t, "runs", p.tried, []string{"2000-01-01 03:30 1", "2000-01-02 03:30 1"})
				if (p.saves > 0) != c.saved {
					t.Errorf("saved %d times", p.saves)
				}
				if n := strings.Count(p.log.String(), c.err.Error()); n == 0 || n > 3 {
					t.Errorf("the log has it %d times:\n%s", n, &p.log)
				}
			})
		})
	}
}

func TestAHookThatHangsIsCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{}
		c := p.config(t, nil)
		var took time.Duration
		c.OnSuccess = func(ctx context.Context, o backup.Outcome) error {
			<-ctx.Done()
			took = p.Now().Sub(o.Ended)
			return ctx.Err()
		}
		r := start(t, c)
		time.Sleep(4 * time.Hour)
		stop(t, r)
		if took != 30*time.Second || p.held {
			t.Errorf("the hook took %v, lock held %v", took, p.held)
		}
	})
}

func TestARunnerNeedsOnlyScheduleAndWork(t *testing.T) {
	if _, err := backup.StartRunner(backup.RunnerConfig{}); err == nil {
		t.Error("one with nothing to run starts")
	}
	s := schedule(t, backup.Timing{Zone: "UTC"})
	for range 3 {
		stop(t, start(t, backup.RunnerConfig{Schedule: s, Work: func(context.Context, backup.Attempt) error { return nil }}))
	}
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r := start(t, backup.RunnerConfig{Schedule: s, Work: func(context.Context, backup.Attempt) error { n++; return nil }})
		time.Sleep(3 * 24 * time.Hour)
		stop(t, r)
		if n != 3 {
			t.Errorf("%d runs in three days", n)
		}
	})
}

// TestWhatIsNoFailureIsNotTriedAgain: a refused prune comes with a good backup, and a
// new store has nothing to back up.
func TestWhatIsNoFailureIsNotTriedAgain(t *testing.T) {
	for _, c := range []struct {
		why, says string
		err       error
		told      int
		state     func(s backup.State) bool
	}{
		{"the prune was refused", "the backup is made, and no earlier one was removed", fmt.Errorf("%w: it shrank", backup.ErrRefused), 2, func(s backup.State) bool {
			return !s.LastGood.IsZero() && strings.Contains(s.Refusal, "it shrank")
		}},
		{"there is nothing yet", "there is nothing to back up yet", fmt.Errorf("%w: it is empty", backup.ErrNothing), 0, func(s backup.State) bool {
			return s.LastGood.IsZero() && !s.Empty.IsZero() && s.Refusal == ""
		}},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &place{}
				r := start(t, p.config(t, func(backup.Attempt) error { return c.err }))
				time.Sleep(47 * time.Hour)
				if err := r.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				if len(p.tried) != 2 || len(p.told) != c.told {
					t.Errorf("tried %q, told %q", p.tried, p.told)
				}
				if !c.state(p.state) || p.state.Tries != 0 {
					t.Errorf("the state is %+v", p.state)
				}
				if text := p.log.String(); strings.Count(text, c.says) != 2 || strings.Contains(text, `msg="the backup failed"`) {
					t.Errorf("the log is %s", text)
				}
			})
		})
	}
}
