package session_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagestore/sagestore/knowledge"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

// remains are the keys of all that sessions have stored, but for the notes that the
// manager takes sessions for ended.
func remains(t testing.TB, m *manager.Manager) []string {
	t.Helper()
	var all []string
	for _, category := range categories {
		for item, err := range m.List(t.Context(), category, manager.KeysOnly()) {
			must(t, err)
			if !strings.HasPrefix(item.Key, "%over/") {
				all = append(all, category+" "+item.Key)
			}
		}
	}
	return all
}

// begin makes a session with something in each of its parts.
func begin(t testing.TB, s *session.Store, id string) {
	t.Helper()
	must(t, s.Start(t.Context(), session.State{
		SessionID: id, Context: map[string]any{"goal": "x"}, History: []string{"one", "two"},
	}, session.Event{ID: "a", Method: "app.step"}, session.Event{ID: "b", Method: "app.step"}))
}

func TestDeletedSessionIsGoneAndItsIDFindsNothingOld(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			m, _ := r.Open(t)
			ctx, s := t.Context(), session.New(m)
			for _, ended := range []bool{false, true} {
				begin(t, s, "s/1")
				begin(t, s, "s/10")
				must(t, s.Fork(ctx, "s/1", 2, "fork"))
				if ended {
					must(t, s.End(ctx, "s/1"))
				}
				if !value[bool](t)(s.Delete(ctx, "s/1")) {
					t.Error("it was not there")
				}
				if value[bool](t)(s.Delete(ctx, "s/1")) {
					t.Error("it is there again")
				}
				_, err := s.Load(ctx, "s/1")
				wantIs(t, err, tiers.ErrNotFound, "load")
				_, err = s.Info(ctx, "s/1")
				wantIs(t, err, tiers.ErrNotFound, "look at it")
				_, err = s.Append(ctx, "s/1", session.Event{ID: "late", Method: "app.step"})
				wantIs(t, err, tiers.ErrNotFound, "append late")
				_, err = s.Resume(ctx, "s/1")
				wantIs(t, err, tiers.ErrNotFound, "resume")
				wantIs(t, s.End(ctx, "s/1"), tiers.ErrNotFound, "end")
				wantIs(t, s.AddQuery(ctx, "s/1", "late"), tiers.ErrNotFound, "add a query late")
				wantIs(t, s.Save(ctx, &session.State{SessionID: "s/1"}), tiers.ErrNotFound, "save late")
				wantIs(t, m.Save(ctx, "session.context", manager.Key("s/1", "late"), 1), tiers.ErrSessionEnded, "save context late")
				for _, left := range remains(t, m) {
					if strings.Contains(left, "s%2F1/") || strings.HasSuffix(left, "s%2F1") {
						t.Errorf("it left %s", left)
					}
				}
				if got := methods(events(t, s, "fork")); !slices.Equal(got, []string{"app.step", "app.step", "session.fork"}) {
					t.Errorf("the fork has %q", got)
				}
				if n := len(events(t, s, "s/10")); n != 2 {
					t.Errorf("its neighbour has %d events", n)
				}

				must(t, s.Start(ctx, session.State{SessionID: "s/1", Context: map[string]any{"new": 1}}))
				st := value[session.State](t)(s.Load(ctx, "s/1"))
				if len(st.History) > 0 || len(st.Context) != 1 || len(events(t, s, "s/1")) > 0 || len(st.Expired) > 0 {
					t.Errorf("the new one has %+v", st)
				}
				must(t, m.Save(ctx, "session.context", manager.Key("s/1", "more"), 1))
				if n := value[uint64](t)(s.Append(ctx, "s/1", session.Event{ID: "a", Method: "app.step"})); n != 1 {
					t.Errorf("its first event is %d", n)
				}
				for _, id := range []string{"s/1", "s/10", "fork"} {
					value[bool](t)(s.Delete(ctx, id))
				}
				if left := remains(t, m); len(left) > 0 {
					t.Errorf("all were deleted, and there is %q", left)
				}
			}
		})
	}
}

func TestSessionOfTheManagerAloneIsNotDeleted(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	must(t, m.Save(ctx, "session.context", "s/x", 1))
	if value[bool](t)(session.New(m).Delete(ctx, "s")) {
		t.Error("it says that it was there")
	}
	var n int
	must(t, m.Load(ctx, "session.context", "s/x", &n))
}

func TestDeletionTakesContentThatOnlyItHeld(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	k := knowledge.New(m)
	s := session.New(m, session.WithKnowledge(k))
	begin(t, s, "s")
	c := value[knowledge.Cache](t)(k.Put(ctx, "s", "some text", 2))
	value[bool](t)(s.Delete(ctx, "s"))
	if _, err := k.Get(ctx, c.ContentHash); !errors.Is(err, tiers.ErrNotFound) {
		t.Errorf("content that only the session held: %v", err)
	}
	if left := remains(t, m); len(left) > 0 {
		t.Errorf("there is %q", left)
	}
}

func TestDeletionInATransactionStandsOrFallsWithIt(t *testing.T) {
	t.Parallel()
	for _, tier := range []string{"memory", "database", "file"} {
		r := routeTo(tier)
		t.Run(tier, func(t *testing.T) {
			t.Parallel()
			m, _ := r.Open(t)
			ctx, s, no := t.Context(), session.New(m), errors.New("no")
			begin(t, s, "s")
			err := m.Update(ctx, func(tx *manager.Tx) error {
				value[bool](t)(s.In(tx).Delete(ctx, "s"))
				wantIs(t, s.In(tx).Start(ctx, session.State{SessionID: "s"}), tiers.ErrExists, "begin it anew beside its deletion")
				return no
			})
			wantIs(t, err, no, "the transaction")
			if n := len(events(t, s, "s")); n != 2 {
				t.Errorf("after a rollback it has %d events", n)
			}
			must(t, m.Update(ctx, func(tx *manager.Tx) error { _, err := s.In(tx).Delete(ctx, "s"); return err }))
			if left := remains(t, m); len(left) > 0 {
				t.Errorf("after the commit there is %q", left)
			}
			must(t, m.Update(ctx, func(tx *manager.Tx) error {
				return s.In(tx).Start(ctx, session.State{SessionID: "s", Context: map[string]any{"new": 1}})
			}, manager.WithRetry(10)))
			if st := value[session.State](t)(s.Load(ctx, "s")); len(st.Context) != 1 {
				t.Errorf("begun anew in a transaction it has %+v", st)
			}
		})
	}
}

func TestFollowerIsToldOfADeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, m := t.Context(), sagetest.Open(t)
		s, other := session.New(m), session.New(m) // as another process would be
		for _, anew := range []bool{false, true} {
			for name, from := range map[string]*session.Store{"notified": s, "polling": other} {
				begin(t, s, "s")
				came, ended := make(chan struct{}, 2), make(chan error, 1)
				go func() {
					var last error
					for _, err := range from.Follow(ctx, "s", 0) {
						if last = err; err == nil {
							came <- struct{}{}
						}
					}
					ended <- last
				}()
				<-came
				<-came
				synctest.Wait()
				value[bool](t)(s.Delete(ctx, "s"))
				if anew { // with as many events as the old one had
					begin(t, s, "s")
				}
				err := <-ended
				wantIs(t, err, tiers.ErrNotFound, name)
				if err == nil || !strings.Contains(err.Error(), "deleted") {
					t.Errorf("%s: it ends with %v", name, err)
				}
				value[bool](t)(s.Delete(ctx, "s"))
			}
		}
		must(t, m.Close(context.WithoutCancel(ctx)))
	})
}

// TestInterruptedDeletionIsWhole lets a deletion be interrupted at each call to the
// store: before its commit nothing has happened, after it the session is gone, and what
// is left of it goes before one of its id begins, or by the background work of any
// process.
func TestInterruptedDeletionIsWhole(t *testing.T) {
	t.Parallel()
	for _, tier := range []string{"memory", "database", "file"} {
		t.Run(tier, func(t *testing.T) {
			t.Parallel()
			interruptDeletion(t, tier)
		})
	}
}

func interruptDeletion(t *testing.T, tier string) {
	t.Helper()
	ctx, broken := t.Context(), errors.New("broken")
	var left atomic.Int64 // calls until they fail; below 0: for ever
	left.Store(-1)
	fail := func(_ string, k tiers.Key) error {
		if !strings.HasPrefix(k.Category, "session.") || left.Load() < 0 || left.Add(-1) > 0 {
			return nil
		}
		left.Store(1) // all that follow as well
		return broken
	}
	m, err := manager.Open(ctx, routeTo(tier).Config(t, t.TempDir()), sagetest.Failing(drivers(), fail))
	must(t, err)
	defer func() { must(t, m.Close(context.WithoutCancel(ctx))) }()
	// Its background work would get in the way; closing runs it.
	s := session.New(m)
	cuts, clock := map[bool]int{}, tiers.SystemClock()
	step := int64(1)
	if tier == "file" {
		step = 9 // each is slow there
	}
	for calls, through := int64(1), false; !through; calls += step {
		begin(t, s, "s")
		left.Store(calls)
		_, err := s.Delete(ctx, "s")
		through = left.Swap(-1) > 1
		cuts[err == nil]++
		if err != nil {
			wantIs(t, err, broken, "a deletion that was interrupted")
			if st := value[session.State](t)(s.Load(ctx, "s")); len(st.Context) != 1 || len(st.History) != 2 || len(events(t, s, "s")) != 2 {
				t.Fatalf("interrupted at call %d it left %+v", calls, st)
			}
			value[bool](t)(s.Delete(ctx, "s"))
		}
		_, err = s.Append(ctx, "s", session.Event{ID: "late", Method: "app.step"})
		wantIs(t, err, tiers.ErrNotFound, "append late")
		for info, err := range s.All(ctx) {
			t.Fatalf("interrupted at call %d there is %+v, %v", calls, info, err)
		}
		err = s.Start(ctx, session.State{SessionID: "s", History: []string{"new"}}) // over what is left
		for deadline := clock.Now().Add(10 * time.Second); errors.Is(err, broken) && clock.Now().Before(deadline); {
			time.Sleep(5 * time.Millisecond) // a row that a tier has refused is tried again now and then
			err = s.Start(ctx, session.State{SessionID: "s", History: []string{"new"}})
		}
		must(t, err)
		if st := value[session.State](t)(s.Load(ctx, "s")); len(st.Context) > 0 || len(st.History) != 1 || len(events(t, s, "s")) > 0 {
			t.Fatalf("interrupted at call %d the new one has %+v", calls, st)
		}
		value[bool](t)(s.Delete(ctx, "s"))
		if found := remains(t, m); len(found) > 0 {
			t.Fatalf("interrupted at call %d it left %q for ever", calls, found)
		}
	}
	if cuts[true] == 0 || cuts[false] == 0 {
		t.Errorf("it was cut %d times before its commit and %d times after it", cuts[false], cuts[true])
	}
}

// A process that dies after the commit leaves the rest to others.
func TestDeletionThatWasCutShortIsFinishedByAnother(t *testing.T) {
	t.Parallel()
	ctx, cfg := t.Context(), routeTo("database").Config(t, t.TempDir())
	var broken atomic.Bool
	m, err := manager.Open(ctx, cfg, sagetest.Failing(drivers(), func(op string, k tiers.Key) error {
		if broken.Load() && k.Category == "session.events" && op == "list" {
			return errors.New("the process dies")
		}
		return nil
	}))
	must(t, err)
	s := session.New(m)
	begin(t, s, "s")
	broken.Store(true)
	value[bool](t)(s.Delete(ctx, "s"))
	_ = m.Close(ctx) // it can't finish either
	m = open(t, cfg)
	if !slices.Contains(remains(t, m), "session.events s/e/0000000000000001") {
		t.Error("nothing was left to another")
	}
	session.New(m)
	must(t, m.Close(ctx)) // the last run of the background work finds it
	m = open(t, cfg)
	if left := remains(t, m); len(left) > 0 {
		t.Errorf("there is %q", left)
	}
	must(t, m.Close(ctx))
}
