package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

func TestFollowerSeesEventsAsTheyComeUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, m, clock := t.Context(), sagetest.Open(t), tiers.SystemClock()
		s, other := session.New(m), session.New(m) // as another process would be
		must(t, s.Start(ctx, session.State{SessionID: "s"}, session.Event{ID: "0", Method: "app.step"}))
		for name, from := range map[string]*session.Store{"notified": s, "polling": other} {
			got, done := make(chan session.Event), make(chan struct{})
			go func() {
				defer close(done)
				for e, err := range from.Follow(ctx, "s", 0) {
					must(t, err)
					got <- e
				}
			}()
			began := clock.Now()
			first := <-got
			n := uint64(len(events(t, s, "s")))
			for seq := first.Seq + 1; seq <= n; seq++ {
				<-got
			}
			for i := range 3 {
				value[uint64](t)(s.Append(ctx, "s", session.Event{Method: "app.step"}))
				if e := <-got; e.Seq != n+uint64(i+1) {
					t.Errorf("%s: event %d came, want %d", name, e.Seq, n+uint64(i+1))
				}
			}
			if waited := clock.Now().Sub(began); name == "notified" && waited > 0 || waited > time.Second {
				t.Errorf("%s: three events took %v", name, waited)
			}
			must(t, s.End(ctx, "s"))
			if e := <-got; e.Method != "session.stop" {
				t.Errorf("%s: the last one is %s", name, e.Method)
			}
			<-done
			value[uint64](t)(s.Resume(ctx, "s"))
		}
	})
}

func TestFollowerEndsWithItsContextAndWithTheManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, routeTo("memory").Config(t, ""))
		s := session.New(m)
		must(t, s.Start(t.Context(), session.State{SessionID: "s"}))
		for _, err := range s.Follow(t.Context(), "x", 0) {
			wantIs(t, err, tiers.ErrNotFound, "follow an unknown session")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ends := make(chan error, 2)
		for _, ctx := range []context.Context{ctx, t.Context()} {
			go func() {
				for e, err := range s.Follow(ctx, "s", 0) {
					if err == nil {
						err = fmt.Errorf("event %d", e.Seq)
					}
					ends <- err
				}
			}()
		}
		synctest.Wait()
		cancel()
		wantIs(t, <-ends, context.Canceled, "the one whose context is over")
		must(t, m.Close(t.Context()))
		wantIs(t, <-ends, tiers.ErrClosed, "the one whose manager is closed")
	})
}

func TestFollowerGoesOnPastWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	s := session.New(m)
	must(t, s.Start(ctx, session.State{SessionID: "s"}))
	value[uint64](t)(s.Append(ctx, "s", session.Event{Method: "a"}, session.Event{Method: "b"}, session.Event{Method: "c"}))
	must(t, m.Save(ctx, "session.events", "s/e/0000000000000002", "damage"))
	if _, err := m.Delete(ctx, "session.events", "s/e/0000000000000003"); err != nil {
		t.Fatal(err)
	}
	must(t, s.End(ctx, "s"))
	var got []string
	var errs []error
	for e, err := range s.Follow(ctx, "s", 0) {
		got, errs = append(got, fmt.Sprint(e.Seq, e.Method)), append(errs, err)
	}
	if !slices.Equal(got, []string{"1a", "2", "4session.stop"}) || errors.Join(errs...) == nil {
		t.Errorf("followed %q, errors %v", got, errs)
	}
}
