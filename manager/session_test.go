package manager_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

func sessionsOf(t testing.TB, m *manager.Manager) []string {
	t.Helper()
	ids := []string{}
	for s, err := range m.Sessions(t.Context()) {
		must(t, err)
		ids = append(ids, fmt.Sprintf("%s:%d", s.ID, s.Entries))
	}
	return ids
}

func TestEndOfASessionRemovesExactlyItsKeys(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	state := manager.For[string](m, "session.context")
	content := manager.For[string](m, "knowledge.content")
	prefs := manager.For[string](m, "session.preferences")
	for _, k := range []string{"s-1", "s-1/a", "s-1/b/c", "s-10/a", "s-1-x/a", "s-2/a"} {
		must(t, state.Save(ctx, k, "v"))
	}
	must(t, content.SaveMany(ctx, map[string]string{"s-1/h": "v", "s-2/h": "v"}))
	must(t, prefs.Save(ctx, "s-1", "kept"))
	must(t, manager.For[string](m.Namespace("other"), "session.context").Save(ctx, "s-1/a", "kept"))
	if got := sessionsOf(t, m); !slices.Equal(got, []string{"s-1:4", "s-1-x:1", "s-10:1", "s-2:2"}) {
		t.Errorf("sessions: %v", got)
	}

	must(t, m.EndSession(ctx, "s-1"))
	if got := keysOf(t, state); !slices.Equal(got, []string{"s-1-x/a", "s-10/a", "s-2/a"}) {
		t.Errorf("session.context holds %q", got)
	}
	if got := keysOf(t, content); !slices.Equal(got, []string{"s-2/h"}) {
		t.Errorf("knowledge.content holds %q", got)
	}
	value[string](t)(prefs.Load(ctx, "s-1"))
	value[string](t)(manager.For[string](m.Namespace("other"), "session.context").Load(ctx, "s-1/a"))
	if got := sessionsOf(t, m); !slices.Equal(got, []string{"s-1-x:1", "s-10:1", "s-2:2"}) {
		t.Errorf("sessions: %v", got)
	}
	must(t, m.EndSession(ctx, "s-1"))
	must(t, m.EndSession(ctx, "never was"))
}

func TestSaveIntoAnEndedSessionIsRefusedUntilItIsReopened(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	c := manager.For[string](m, "session.context")
	must(t, c.Save(ctx, "s/a", "v"))
	must(t, m.EndSession(ctx, "s"))
	wantError(t, c.Save(ctx, "s/a", "v"), tiers.ErrSessionEnded, "save")
	wantError(t, c.SaveMany(ctx, map[string]string{"s/a": "", "s/b": ""}), tiers.ErrSessionEnded, "save many")
	_, err := c.Modify(ctx, "s/a", func(*string, bool) error { return nil })
	wantError(t, err, tiers.ErrSessionEnded, "modify")
	_, err = c.Fetch(ctx, "s/a", func(context.Context) (string, error) { return "v", nil })
	wantError(t, err, tiers.ErrSessionEnded, "fetch")
	if got := keysOf(t, c); len(got) != 0 {
		t.Errorf("stored all the same: %q", got)
	}
	must(t, m.ReopenSession(ctx, "s"))
	must(t, c.Save(ctx, "s/a", "v"))
	must(t, m.ReopenSession(ctx, "never was"))
	if got := sessionsOf(t, m); !slices.Equal(got, []string{"never was:0", "s:1"}) {
		t.Errorf("sessions: %v", got)
	}
}

func TestSessionIDsAreEscapedLikeSegments(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	c := manager.For[string](m, "session.context")
	must(t, c.Save(ctx, manager.Key("a/b", "x"), "v"))
	must(t, c.Save(ctx, manager.Key("a", "b", "x"), "v"))
	must(t, c.Save(ctx, manager.Key("100%", "x"), "v"))
	wantError(t, c.Save(ctx, "100%/x", "v"), tiers.ErrKey, "a first segment that Key would not make")
	wantError(t, c.Save(ctx, "/x", "v"), tiers.ErrKey, "an empty first segment")
	if got := sessionsOf(t, m); !slices.Equal(got, []string{"100%:1", "a:1", "a/b:1"}) {
		t.Errorf("sessions: %v", got)
	}
	must(t, m.EndSession(ctx, "a/b"))
	must(t, m.EndSession(ctx, "100%"))
	if got := keysOf(t, c); !slices.Equal(got, []string{"a/b/x"}) {
		t.Errorf("left: %q", got)
	}
	wantError(t, m.EndSession(ctx, ""), tiers.ErrKey, "no id")
}

func TestSaveThatRacesWithTheEndNeverSurvivesIt(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	c := manager.For[int](m, "session.context")
	for round := range 50 {
		id := fmt.Sprintf("s%d", round)
		must(t, c.Save(ctx, manager.Key(id, "first"), 0))
		var savers sync.WaitGroup
		for saver := range 8 {
			savers.Go(func() {
				for i := range 20 {
					err := c.Save(ctx, manager.Key(id, fmt.Sprint(saver, "-", i)), i)
					if errors.Is(err, tiers.ErrSessionEnded) {
						return
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		must(t, m.EndSession(ctx, id))
		savers.Wait()
		if got := keysOf(t, c, manager.Under(id)); len(got) != 0 {
			t.Fatalf("round %d: the ended session holds %q", round, got)
		}
	}
}

func TestEndWaitsForASaveUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, slow := t.Context(), make(chan struct{})
		drivers := sagetest.Failing(all(), func(op string, k tiers.Key) error {
			if op == "save" && k.Name == "s/slow" {
				<-slow
			}
			return nil
		})
		m := sagetest.OpenWith(t, config.InMemory(), drivers)
		c := manager.For[string](m, "session.context")
		saved, over := make(chan error, 1), make(chan error, 1)
		release := sync.OnceFunc(func() { close(slow) })
		defer release()
		go func() { saved <- c.Save(ctx, "s/slow", "v") }()
		synctest.Wait()
		go func() { over <- m.EndSession(ctx, "s") }()
		synctest.Wait()
		select {
		case err := <-over:
			t.Fatalf("it ended beside the save: %v", err)
		default:
		}
		impatient, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		wantError(t, m.EndSession(impatient, "s"), context.DeadlineExceeded, "the wait honours its context")
		must(t, c.Save(ctx, "other/a", "v")) // other sessions go on
		release()
		must(t, <-saved)
		must(t, <-over)
		absent(t, c, "s/slow", "saved in the moment of the end")
	})
}

func TestIdleSessionsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		cfg := config.InMemory()
		cfg.Session.IdleLimit = "1h"
		m := sagetest.OpenWith(t, cfg, all())
		c := manager.For[string](m, "session.context")
		must(t, c.Save(ctx, "idle/a", "v"))
		must(t, c.Save(ctx, "read/a", "v"))
		must(t, c.Save(ctx, "written/a", "v"))
		for range 6 {
			time.Sleep(30 * time.Minute)
			value[string](t)(c.Load(ctx, "read/a"))
			must(t, c.Save(ctx, "written/a", "v"))
		}
		if got := sessionsOf(t, m); !slices.Equal(got, []string{"read:1", "written:1"}) {
			t.Errorf("sessions: %v", got)
		}
		absent(t, c, "idle/a", "idle")
		time.Sleep(2 * time.Hour)
		if got := sessionsOf(t, m); len(got) != 0 {
			t.Errorf("sessions: %v", got)
		}
	})
}

func TestSessionAndCallTTLWhicheverComesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, m := t.Context(), sagetest.Open(t)
		c := manager.For[string](m, "session.context")
		must(t, c.Save(ctx, "s/a", "v", manager.TTL(time.Hour)))
		must(t, c.Save(ctx, "s/b", "v", manager.TTL(time.Hour)))
		must(t, c.Save(ctx, "s/c", "v"))
		time.Sleep(time.Hour)
		absent(t, c, "s/a", "the TTL came first")
		must(t, c.Save(ctx, "s/b", "v", manager.TTL(time.Hour)))
		must(t, m.EndSession(ctx, "s"))
		absent(t, c, "s/b", "the session ended first")
		absent(t, c, "s/c", "the session ended")
	})
}

func TestFailedEndIsFinishedByTheNext(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var broken error
	drivers := sagetest.Failing(all(), func(op string, _ tiers.Key) error {
		if op == "delete" {
			return broken
		}
		return nil
	})
	m := sagetest.OpenWith(t, config.InMemory(), drivers)
	c := manager.For[string](m, "session.context")
	must(t, c.Save(ctx, "s/a", "v"))
	broken = tiers.ErrUnavailable
	wantError(t, m.EndSession(ctx, "s"), tiers.ErrUnavailable, "the tier is away")
	wantError(t, c.Save(ctx, "s/b", "v"), tiers.ErrSessionEnded, "it has ended nevertheless")
	broken = nil
	must(t, m.EndSession(ctx, "s"))
	absent(t, c, "s/a", "ended again")
}

func TestReopeningWhileTheEndRemovesKeepsWhatIsNew(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var between func()
	drivers := sagetest.Failing(all(), func(op string, k tiers.Key) error {
		if op == "delete" && k.Name == "s/000" && between != nil {
			now := between
			between = nil
			now()
		}
		return nil
	})
	m := sagetest.OpenWith(t, config.InMemory(), drivers)
	c := manager.For[string](m, "session.context")
	old := make(map[string]string)
	for i := range 600 {
		old[fmt.Sprintf("s/%03d", i)] = "old"
	}
	must(t, c.SaveMany(ctx, old))
	between = func() { // the end has listed the first page and deletes it next
		must(t, m.ReopenSession(ctx, "s"))
		must(t, c.Save(ctx, "s/000", "new"))
		must(t, c.Save(ctx, "s/599", "new"))
	}
	must(t, m.EndSession(ctx, "s"))
	if got := keysOf(t, c); !slices.Equal(got, []string{"s/000", "s/599"}) {
		t.Errorf("the reopened session holds %d keys: %.5q", len(got), got)
	}
}

// A session that has ended costs no memory for good.
func TestAProcessForgetsSessionsThatHaveEnded(t *testing.T) {
	t.Parallel()
	ctx, clock := t.Context(), sagetest.NewClock(tiers.SystemClock().Now())
	m := value[*manager.Manager](t)(manager.OpenMemory(ctx, all(), manager.WithClock(clock), manager.WithoutJobs()))
	defer closeNow(t, m)
	must(t, m.Save(ctx, "session.context", "going-on/k", "v"))
	for i := range 10 {
		id := fmt.Sprint("s", i)
		must(t, m.Save(ctx, "session.context", id+"/k", "v"))
		must(t, m.EndSession(ctx, id))
	}
	if known := value[int](t)(m.FlushSessions(ctx)); known != 11 {
		t.Errorf("%d sessions are known at first", known)
	}
	clock.Advance(2 * time.Hour)
	must(t, m.Save(ctx, "session.context", "going-on/k", "v"))
	if known := value[int](t)(m.FlushSessions(ctx)); known != 1 {
		t.Errorf("%d sessions are known later", known)
	}
	wantError(t, m.Save(ctx, "session.context", "s1/k", "v"), tiers.ErrSessionEnded, "the session has ended")
}
