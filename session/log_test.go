package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

func event(t testing.TB, id, turn string, p session.Payload) session.Event {
	t.Helper()
	return value[session.Event](t)(session.NewEvent(id, turn, p))
}

func events(t testing.TB, s *session.Store, id string) []session.Event {
	t.Helper()
	var all []session.Event
	for e, err := range s.Events(t.Context(), id, 0) {
		must(t, err)
		all = append(all, e)
	}
	return all
}

func methods(es []session.Event) []string {
	var all []string
	for _, e := range es {
		all = append(all, e.Method)
	}
	return all
}

func wantIs(t testing.TB, err, target error, what string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: %v, want %v", what, err, target)
	}
}

func TestSessionIsLoggedFromItsBeginningToItsEnd(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			m, clock := r.Open(t)
			ctx, s := t.Context(), session.New(m)
			init := session.Init{Model: "m-1", Provider: "p-1", System: "you are a helpful assistant", InitType: session.InitStart}
			must(t, s.Start(ctx, session.State{SessionID: "1"}, event(t, "1", "", init)))
			one := events(t, s, "1")
			if len(one) != 1 || one[0].Method != "session.init" || one[0].Seq != 1 || !one[0].Time.Equal(start) || !one[0].Received.Equal(start) {
				t.Fatalf("after the start: %+v", one)
			}
			if got := value[session.Init](t)(session.As[session.Init](one[0])); got != init {
				t.Errorf("the fields are %+v, want %+v", got, init)
			}
			value[uint64](t)(s.Append(ctx, "1", event(t, "1", "t1", session.UserPrompt{Prompt: "hello"})))
			clock.Advance(time.Minute)
			value[uint64](t)(s.Append(ctx, "1", event(t, "1", "t1", session.AssistantResponse{FullText: "hello"})))
			clock.Advance(-time.Hour) // times do not order
			must(t, s.End(ctx, "1", session.Stop{Result: "hello", Success: true}))
			all := events(t, s, "1")
			want := []string{"session.init", "user.prompt.submit", "assistant.response", "session.stop"}
			if !slices.Equal(methods(all), want) {
				t.Errorf("the log has %q, want %q", methods(all), want)
			}
			if stop := value[session.Stop](t)(session.As[session.Stop](all[3])); stop.Result != "hello" || !stop.Success {
				t.Errorf("the stop is %+v", stop)
			}
			if turn := value[[]session.Event](t)(s.Turn(ctx, "1", "t1")); len(turn) != 2 {
				t.Errorf("the turn has %d events", len(turn))
			}
		})
	}
}

func TestLogRefusesWhatHasNoPlaceInIt(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			m, _ := r.Open(t)
			ctx, s := t.Context(), session.New(m)
			prompt := event(t, "1", "t1", session.UserPrompt{Prompt: "hello"})
			for _, err := range s.Events(ctx, "1", 0) {
				wantIs(t, err, tiers.ErrNotFound, "read an unknown session")
			}
			_, err := s.Append(ctx, "1", prompt)
			wantIs(t, err, tiers.ErrNotFound, "append before the start")
			wantIs(t, s.End(ctx, "1"), tiers.ErrNotFound, "end an unknown session")
			must(t, s.Start(ctx, session.State{SessionID: "1"}))
			if got := events(t, s, "1"); len(got) != 0 {
				t.Errorf("a session without events has %d", len(got))
			}
			wantIs(t, s.Start(ctx, session.State{SessionID: "1"}), tiers.ErrExists, "start it twice")

			first := value[uint64](t)(s.Append(ctx, "1", prompt, prompt))
			again := value[uint64](t)(s.Append(ctx, "1", prompt))
			if first != 1 || again != 1 || len(events(t, s, "1")) != 1 {
				t.Errorf("one event appended three times has the numbers %d and %d, and is stored %d times", first, again, len(events(t, s, "1")))
			}
			other := prompt
			other.Session = "2"
			_, err = s.Append(ctx, "1", other)
			wantIs(t, err, tiers.ErrKey, "append an event of another session")

			must(t, s.End(ctx, "1"))
			must(t, s.End(ctx, "1"))
			_, err = s.Append(ctx, "1", event(t, "1", "t2", session.UserPrompt{Prompt: "more"}))
			wantIs(t, err, tiers.ErrSessionEnded, "append after the end")
			if seq := value[uint64](t)(s.Append(ctx, "1", prompt)); seq != 1 {
				t.Errorf("an event that is there has the number %d after the end", seq)
			}
			value[uint64](t)(s.Resume(ctx, "1", event(t, "1", "", session.Init{InitType: session.InitResume})))
			value[uint64](t)(s.Append(ctx, "1", event(t, "1", "t2", session.UserPrompt{Prompt: "more"})))
			want := []string{"user.prompt.submit", "session.stop", "session.init", "user.prompt.submit"}
			if got := methods(events(t, s, "1")); !slices.Equal(got, want) {
				t.Errorf("the log has %q, want %q", got, want)
			}
		})
	}
}

func TestLastEventsAreTheLastInOrderWhateverTheirTimes(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			m, _ := r.Open(t)
			ctx, s := t.Context(), session.New(m)
			must(t, s.Start(ctx, session.State{SessionID: "1"}))
			var fifty []session.Event
			for i := range 50 {
				e := event(t, "1", "", session.UserPrompt{Prompt: fmt.Sprint(i)})
				e.Time = start
				fifty = append(fifty, e)
			}
			if last := value[uint64](t)(s.Append(ctx, "1", fifty...)); last != 50 {
				t.Fatalf("the last one has the number %d", last)
			}
			for range 3 {
				ten := value[[]session.Event](t)(s.Last(ctx, "1", 10))
				for i, e := range ten {
					if p := value[session.UserPrompt](t)(session.As[session.UserPrompt](e)); len(ten) != 10 || p.Prompt != fmt.Sprint(40+i) {
						t.Fatalf("of the last %d, number %d is %q", len(ten), i, p.Prompt)
					}
				}
			}
		})
	}
}

func TestDamagedEventIsNamedAndTheRestReads(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.OpenWith(t, routeTo("database").Config(t, t.TempDir()), drivers())
	s := session.New(m)
	must(t, s.Start(ctx, session.State{SessionID: "1"}))
	odd := session.Event{ID: "odd", Method: "later.version", Params: json.RawMessage(`{"new":[1,{"x":1e400}]}`)}
	value[uint64](t)(s.Append(ctx, "1", event(t, "1", "", session.UserPrompt{Prompt: "a"}), event(t, "1", "", session.UserPrompt{Prompt: "b"}), odd))
	must(t, m.Save(ctx, "session.events", "1/e/0000000000000002", "this is no event"))
	var read []session.Event
	var errs []error
	for e, err := range s.Events(ctx, "1", 0) {
		if err != nil {
			errs = append(errs, err)
			if e.Seq != 2 || !strings.Contains(err.Error(), "event 2 ") {
				t.Errorf("the damaged event is told as %d: %v", e.Seq, err)
			}
			continue
		}
		read = append(read, e)
	}
	if len(errs) != 1 || len(read) != 2 {
		t.Fatalf("%d events, errors %v", len(read), errs)
	}
	if got := read[1]; got.Method != odd.Method || string(got.Params) != string(odd.Params) {
		t.Errorf("the unknown event came back as %+v", got)
	}
	last, err := s.Last(ctx, "1", 3)
	if len(last) != 2 || err == nil {
		t.Errorf("of the last three %d were read, error %v", len(last), err)
	}
}

// Appends of many callers are all there, once, each caller's in its order, also
// when a caller appends one again.
func TestManyAppendersEachInOrderOnce(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			m, _ := r.Open(t)
			ctx, s := t.Context(), session.New(m)
			must(t, s.Start(ctx, session.State{SessionID: "1"}))
			const callers, each = 8, 6
			var work sync.WaitGroup
			for n := range callers {
				work.Go(func() {
					for i := range each {
						e := session.Event{ID: fmt.Sprintf("%d-%d", n, i), Method: "app.step", Turn: fmt.Sprint(n)}
						seq, err := s.Append(ctx, "1", e)
						again, err2 := s.Append(ctx, "1", e)
						if err != nil || err2 != nil || seq != again {
							t.Errorf("%d and %d: %v, %v", seq, again, err, err2)
						}
					}
				})
			}
			work.Wait()
			next := map[string]int{}
			for i, e := range events(t, s, "1") {
				if e.Seq != uint64(i+1) {
					t.Errorf("event %d has the number %d", i+1, e.Seq)
				}
				if want := fmt.Sprintf("%s-%d", e.Turn, next[e.Turn]); e.ID != want {
					t.Errorf("%s came instead of %s", e.ID, want)
				}
				next[e.Turn]++
			}
			if len(next) != callers || next["0"] != each {
				t.Errorf("appended were %v", next)
			}
		})
	}
}

func TestFailureOfOneAppenderIsNotTheOthers(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	s := session.New(m)
	must(t, s.Start(ctx, session.State{SessionID: "1"}))
	var work sync.WaitGroup
	for n := range 32 {
		work.Go(func() {
			e := session.Event{Method: "app.step", Params: json.RawMessage(`{"a":1}`)}
			bad := n%2 == 1
			if bad {
				e.Params = json.RawMessage(`{"a":1,"a":2}`) // could not be read back
			}
			if _, err := s.Append(ctx, "1", e); (err != nil) != bad {
				t.Errorf("bad %v: %v", bad, err)
			}
		})
	}
	work.Wait()
	if got := len(events(t, s, "1")); got != 16 {
		t.Errorf("%d events are there, want 16", got)
	}
}

func TestAppendHonoursItsContext(t *testing.T) {
	t.Parallel()
	s := session.New(sagetest.Open(t))
	must(t, s.Start(t.Context(), session.State{SessionID: "1"}))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Append(over, "1", session.Event{Method: "app.step"})
	wantIs(t, err, context.Canceled, "append with a context that is over")
	if got := len(events(t, s, "1")); got != 0 {
		t.Errorf("%d events are there", got)
	}
}

func TestTransactionAppendsWithTheRestOrNotAtAll(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			m, _ := r.Open(t)
			ctx, s := t.Context(), session.New(m)
			must(t, s.Start(ctx, session.State{SessionID: "1"}))
			wanted := errors.New("no")
			for _, want := range []error{wanted, nil} {
				err := m.Update(ctx, func(tx *manager.Tx) error {
					if _, err := s.In(tx).Append(ctx, "1", session.Event{Method: "app.step"}); err != nil {
						return err
					}
					if _, err := session.New(tx).Append(ctx, "1", session.Event{Method: "app.step"}); err != nil {
						return err
					}
					if err := s.In(tx).AddQuery(ctx, "1", "q"); err != nil {
						return err
					}
					if want == nil {
						return s.In(tx).End(ctx, "1")
					}
					return want
				})
				wantIs(t, err, want, "the transaction")
				count, ended := 0, want == nil
				if ended {
					count = 3
				}
				st := value[session.State](t)(s.Load(ctx, "1"))
				if got := len(events(t, s, "1")); got != count || st.EndedAt.IsZero() == ended || (len(st.History) == 1) != ended {
					t.Errorf("after %v: %d events, %+v", want, got, st)
				}
			}
			err := m.Update(ctx, func(tx *manager.Tx) error {
				for _, err := range s.In(tx).Follow(ctx, "1", 0) {
					return err
				}
				return nil
			})
			wantIs(t, err, tiers.ErrUnsupported, "follow in a transaction")
		})
	}
}

func TestForkHasItsOwnFuture(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			m, _ := r.Open(t)
			ctx, s := t.Context(), session.New(m)
			must(t, s.Start(ctx, session.State{SessionID: "a/1", UserID: "u"}))
			for i := range 4 {
				value[uint64](t)(s.Append(ctx, "a/1", session.Event{ID: fmt.Sprint(i), Method: "app.step", Params: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))}))
			}
			must(t, s.End(ctx, "a/1"))
			must(t, s.Fork(ctx, "a/1", 2, "b"))
			value[uint64](t)(s.Append(ctx, "b", session.Event{ID: "3", Method: "app.other"}))
			got, old := events(t, s, "b"), events(t, s, "a/1")
			if want := []string{"app.step", "app.step", "session.fork", "app.other"}; !slices.Equal(methods(got), want) {
				t.Fatalf("the fork has %q, want %q", methods(got), want)
			}
			for i := range 2 {
				want := old[i]
				want.Session = "b"
				if diff := cmp.Diff(want, got[i]); diff != "" {
					t.Errorf("event %d is another one in the fork:\n%s", i+1, diff)
				}
			}
			if f := value[session.Forked](t)(session.As[session.Forked](got[2])); f.Parent != "a/1" || f.At != 2 || got[2].Session != "b" {
				t.Errorf("it was forked from %+v", f)
			}
			if st := value[session.State](t)(s.Load(ctx, "b")); st.UserID != "u" {
				t.Errorf("the fork is of the user %q", st.UserID)
			}
			if len(old) != 5 {
				t.Errorf("the parent has %d events", len(old))
			}
			wantIs(t, s.Fork(ctx, "a/1", 6, "c"), tiers.ErrNotFound, "fork at an event that is not there")
			wantIs(t, s.Fork(ctx, "a/1", 1, "b"), tiers.ErrExists, "fork to a session that is there")
			wantIs(t, s.Fork(ctx, "x", 0, "c"), tiers.ErrNotFound, "fork an unknown session")
			must(t, s.Fork(ctx, "a/1", 5, "d")) // its stop is history
			value[uint64](t)(s.Append(ctx, "d", session.Event{Method: "app.other"}))
		})
	}
}
