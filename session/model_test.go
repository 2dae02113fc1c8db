package session_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

// logModel is what a log should be.
type logModel struct {
	ids   []string
	ended bool
}

// TestLogIsWhatWasAppended compares random programs with a plain list.
func TestLogIsWhatWasAppended(t *testing.T) {
	t.Parallel()
	m := sagetest.Open(t)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		ctx := t.Context()
		run++
		s := session.New(m.Namespace(fmt.Sprint("run-", run)))
		names := []string{fmt.Sprint("a", run), fmt.Sprint("b/", run)}
		model := map[string]*logModel{}
		name := rapid.SampledFrom(names)
		same := func(what string, err error, want error) {
			if want == nil && err != nil || want != nil && !errors.Is(err, want) {
				rt.Fatalf("%s: %v, want %v", what, err, want)
			}
		}
		// going answers what a change of the session has to answer.
		going := func(l *logModel) error {
			switch {
			case l == nil:
				return tiers.ErrNotFound
			case l.ended:
				return tiers.ErrSessionEnded
			}
			return nil
		}
		rt.Repeat(map[string]func(*rapid.T){
			"start": func(rt *rapid.T) {
				id := name.Draw(rt, "id")
				err := s.Start(ctx, session.State{SessionID: id})
				if model[id] != nil {
					same("start", err, tiers.ErrExists)
					return
				}
				same("start", err, nil)
				model[id] = &logModel{}
			},
			"append": func(rt *rapid.T) {
				id, ids := name.Draw(rt, "id"), rapid.SliceOfN(rapid.StringMatching("[a-e]"), 1, 4).Draw(rt, "events")
				l := model[id]
				var es []session.Event
				var fresh []string
				for _, one := range ids {
					es = append(es, session.Event{ID: one, Method: "app.step"})
					if l != nil && !slices.Contains(l.ids, one) && !slices.Contains(fresh, one) {
						fresh = append(fresh, one)
					}
				}
				seq, err := s.Append(ctx, id, es...)
				want := going(l)
				if l != nil && len(fresh) == 0 {
					want = nil // all of it is there
				}
				same("append", err, want)
				if want == nil {
					l.ids = append(l.ids, fresh...)
					if got := slices.Index(l.ids, ids[len(ids)-1]) + 1; int(seq) != got {
						rt.Fatalf("append answers %d, want %d", seq, got)
					}
				}
			},
			"end": func(rt *rapid.T) {
				id := name.Draw(rt, "id")
				err, l := s.End(ctx, id), model[id]
				if l == nil {
					same("end", err, tiers.ErrNotFound)
					return
				}
				same("end", err, nil)
				if !l.ended {
					l.ended, l.ids = true, append(l.ids, "stop")
				}
			},
			"resume": func(rt *rapid.T) {
				id := name.Draw(rt, "id")
				_, err := s.Resume(ctx, id)
				if model[id] == nil {
					same("resume", err, tiers.ErrNotFound)
					return
				}
				same("resume", err, nil)
				model[id].ended = false
			},
			"fork": func(rt *rapid.T) {
				from, at := name.Draw(rt, "from"), rapid.IntRange(0, 12).Draw(rt, "at")
				to := fmt.Sprint("fork", len(names), "/", run)
				err, l := s.Fork(ctx, from, uint64(at), to), model[from]
				if l == nil || at > len(l.ids) {
					same("fork", err, tiers.ErrNotFound)
					return
				}
				same("fork", err, nil)
				names = append(names, to)
				name = rapid.SampledFrom(names)
				model[to] = &logModel{ids: append(slices.Clone(l.ids[:at]), "fork")}
			},
			"": func(rt *rapid.T) {
				for id, l := range model {
					after := rapid.IntRange(0, len(l.ids)).Draw(rt, "after")
					var got []string
					for e, err := range s.Events(ctx, id, uint64(after)) {
						if err != nil || int(e.Seq) != after+len(got)+1 {
							rt.Fatalf("event %d: %v", e.Seq, err)
						}
						switch e.Method {
						case "session.stop":
							got = append(got, "stop")
						case "session.fork":
							got = append(got, "fork")
						default:
							got = append(got, e.ID)
						}
					}
					if !slices.Equal(got, l.ids[after:]) {
						rt.Fatalf("%s has %q after %d, want %q", id, got, after, l.ids[after:])
					}
					n := rapid.IntRange(1, 5).Draw(rt, "n")
					last, err := s.Last(ctx, id, n)
					if err != nil || len(last) != min(n, len(l.ids)) || len(last) > 0 && int(last[len(last)-1].Seq) != len(l.ids) {
						rt.Fatalf("the last %d are %v, %v", n, last, err)
					}
				}
			},
		})
	})
}
