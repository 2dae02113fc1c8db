package agent_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

func TestStepCommitsWorkCountAndCheckpointTogether(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a")
		every2 := must(agent.EveryN(2))(t)
		r := must(h.Run(ctx, "a", agent.RunOptions{Strategy: every2, Keep: 2}))(t)
		_, err := h.Run(ctx, "a", agent.RunOptions{})
		isErr(t, err, tiers.ErrConflict)
		say := func(text string, then error) func(tx *manager.Tx) error {
			return func(tx *manager.Tx) error {
				_, err := h.In(tx).AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, text))
				return errors.Join(err, then)
			}
		}
		for i := range 5 {
			if n := must(r.Step(ctx, agent.Iteration, say(fmt.Sprint(i), nil)))(t); n != i+1 {
				t.Errorf("step %d has the number %d", i, n)
			}
		}
		stop := errors.New("no")
		n, err := r.Step(ctx, agent.Iteration, say("failed", stop))
		isErr(t, err, stop)
		if n != 5 || len(contents(t, h.Store, c.ID, agent.Page{})) != 5 {
			t.Errorf("a step that failed left iteration %d", n)
		}
		if h.reopen(); r.Iteration() != 5 { // as after a crash: nobody closed the run
			t.Error("it forgot")
		}
		r = must(h.Run(ctx, "a", agent.RunOptions{Strategy: every2, Keep: 2, TakeOver: true}))(t)
		if last, resumed := r.Resumed(); !resumed || last.Iteration != 4 || last.Messages != 4 || last.Kind != agent.Automatic {
			t.Errorf("resumed after %+v", last)
		}
		if n := must(r.Step(ctx, agent.Iteration, say("5", nil)))(t); n != 6 {
			t.Errorf("the next step has the number %d", n)
		}
		all := collected(t, h.Checkpoints(ctx, "a", agent.After{}))
		if len(all) != 2 || all[0].Iteration != 6 || all[1].Iteration != 4 {
			t.Errorf("left are %+v", all)
		}
		must(h.Restore(ctx, "a", all[1].ID, agent.RestoreOptions{}))(t)
		_, err = r.Step(ctx, agent.Iteration, say("late", nil))
		isErr(t, err, tiers.ErrConflict)
		ok(t, r.Close(ctx))
		r = must(h.Run(ctx, "a", agent.RunOptions{}))(t)
		if n := must(r.Step(ctx, agent.ModelDone, say("again", nil)))(t); n != 5 || len(contents(t, h.Store, c.ID, agent.Page{})) != 5 {
			t.Errorf("after the restore a step has the number %d", n)
		}
		ok(t, r.Close(ctx))
		ok(t, r.Close(ctx))
		must(h.Run(ctx, "a", agent.RunOptions{}))(t)
	})
}

func TestRestoreSetsARunBackAndItsUndoForthAgain(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		s := h.Store
		ctx := t.Context()
		c := talk(t, s, "a")
		steps := func(n int) {
			t.Helper()
			r := must(s.Run(ctx, "a", agent.RunOptions{Strategy: agent.Never(), TakeOver: true}))(t)
			for range n {
				must(r.Step(ctx, agent.Iteration, func(tx *manager.Tx) error {
					_, err := s.In(tx).AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "x"))
					return err
				}))(t)
			}
		}
		begun := must(s.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		steps(3)
		byHand := must(s.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"}))(t)
		steps(2)
		undo := must(s.Restore(ctx, "a", byHand.ID, agent.RestoreOptions{}))(t)
		for _, at := range []struct {
			id   string
			want int
		}{{"", 3}, {undo.ID, 5}, {begun.ID, 0}, {byHand.ID, 3}} {
			if at.id != "" {
				must(s.Restore(ctx, "a", at.id, agent.RestoreOptions{}))(t)
			}
			r := must(s.Run(ctx, "a", agent.RunOptions{}))(t)
			if n := len(contents(t, s, c.ID, agent.Page{})); n != at.want || r.Iteration() != at.want {
				t.Errorf("%d messages at iteration %d, want %d", n, r.Iteration(), at.want)
			}
			ok(t, r.Close(ctx))
		}
	})
}

func TestRunThatDidNotEndIsTakenOverAfterItsLease(t *testing.T) {
	eachAt(t, func(t *testing.T, h *house, clock *sagetest.Clock) {
		t.Helper()
		s := h.Store
		ctx := t.Context()
		talk(t, s, "a")
		nothing := func(*manager.Tx) error { return nil }
		old := must(s.Run(ctx, "a", agent.RunOptions{}))(t)
		clock.Advance(59 * time.Second)
		_, err := s.Run(ctx, "a", agent.RunOptions{})
		isErr(t, err, tiers.ErrConflict)
		must(old.Step(ctx, agent.Iteration, nothing))(t)
		clock.Advance(59 * time.Second)
		_, err = s.Run(ctx, "a", agent.RunOptions{})
		isErr(t, err, tiers.ErrConflict)
		clock.Advance(time.Second)
		must(s.Run(ctx, "a", agent.RunOptions{}))(t)
		_, err = old.Step(ctx, agent.Iteration, nothing)
		isErr(t, err, tiers.ErrConflict)
		_, err = s.Run(ctx, "nobody", agent.RunOptions{})
		isErr(t, err, tiers.ErrNotFound)
	})
}

func TestAutomaticCheckpointsAreMadeOfWhatChanged(t *testing.T) {
	eachAt(t, func(t *testing.T, h *house, clock *sagetest.Clock) {
		t.Helper()
		ctx := t.Context()
		c := talk(t, h.Store, "a", "one")
		const interval = 5 * time.Minute
		made := func() []agent.CheckpointInfo { return collected(t, h.Checkpoints(ctx, "a", agent.After{})) }
		// wait lets an interval pass, and tells how many checkpoints there are then.
		// Whether the work has run is seen by an agent that changes every time.
		beat := talk(t, h.Store, "beat")
		wait := func(running bool) int {
			t.Helper()
			must(h.AppendMessage(ctx, beat.ID, agent.NewMessage(agent.User, "x")))(t)
			count := func() int { return len(collected(t, h.Checkpoints(ctx, "beat", agent.After{}))) }
			before := count()
			clock.Advance(interval)
			for end := tiers.SystemClock().Now().Add(30 * time.Second); running && count() == before && tiers.SystemClock().Now().Before(end); {
				time.Sleep(5 * time.Millisecond)
				clock.Advance(time.Second) // the work may have begun to wait only now
			}
			h.StopCheckpoints() // waits for the round
			if running {
				ok(t, h.StartCheckpoints())
			}
			return len(made())
		}
		ok(t, h.StartCheckpoints())
		if n := len(made()); n != 0 {
			t.Errorf("%d at the start", n)
		}
		if n := wait(true); n != 1 {
			t.Errorf("%d after one interval", n)
		}
		must(h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "two")))(t)
		if n := wait(true); n != 2 {
			t.Errorf("%d after a change", n)
		}
		if n := wait(true); n != 2 {
			t.Errorf("%d after an interval without a change", n)
		}
		first := made()[1]
		if !strings.HasPrefix(first.Name, "Auto checkpoint 2026-01-01 00:05:") || first.Kind != agent.Automatic || first.Description != "Automatic checkpoint" {
			t.Errorf("it is %+v", first)
		}
		h.StopCheckpoints()
		must(h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "three")))(t)
		if n := wait(false); n != 2 {
			t.Errorf("%d after it was stopped", n)
		}
		ok(t, h.StartCheckpoints())
		ok(t, h.StartCheckpoints())
		if n := wait(true); n != 3 {
			t.Errorf("%d after it was started twice", n)
		}
	})
}

func TestStatsAreTheSameOnEveryTierAndExact(t *testing.T) {
	var bytes [16]int64
	seen := 0
	for _, r := range routings() {
		t.Run(r.name, func(t *testing.T) {
			clock := sagetest.NewClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			h := open(t, r, manager.WithClock(clock))
			ctx := t.Context()
			at := clock.Now()
			a := &agent.State{ID: "a", Name: "n", Created: at, Modified: at, Version: 1, Custom: map[string]any{"x": 1}}
			ok(t, h.Save(ctx, a))
			for _, id := range []string{"one", "two"} {
				c := &agent.Conversation{ID: id, AgentID: "a", Created: at}
				for i := range 2 {
					c.Messages = append(c.Messages, agent.Message{ID: fmt.Sprint(id, i), Role: agent.User, Content: "hello", At: at})
				}
				ok(t, h.SaveConversation(ctx, c))
			}
			must(h.DeleteMessage(ctx, "two", "two1"))(t)
			must(h.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a", ID: "c"}))(t)
			must(h.DeleteMessage(ctx, "one", "one1"))(t)
			must(h.AppendMessage(ctx, "one", agent.Message{ID: "late", Role: agent.User, Content: "hello", At: at}))(t)
			got := must(h.Stats(ctx))(t)
			var sum int64
			for category, prefixes := range map[string][]string{
				"agent.state": {"head/", "own/", "hist/"}, "agent.conversations": {"head/", "msg/", "hist/", "blob/"}, "agent.checkpoints": {"info/"},
			} {
				for _, prefix := range prefixes {
					for item, err := range h.m.List(ctx, category, manager.Prefix(prefix)) {
						ok(t, err)
						var e manager.Encoded
						ok(t, item.Decode(&e))
						sum += int64(len(e.Value))
					}
				}
			}
			if r.name != "msgpack and encrypted" && got.Bytes != sum { // there the codec adds to each record
				t.Errorf("%d bytes are counted, there are %d", got.Bytes, sum)
			}
			bytes[seen] = got.Bytes
			if seen++; got.Bytes != bytes[0] {
				t.Errorf("%d bytes, %d on memory", got.Bytes, bytes[0])
			}
			got.Bytes = 0
			if want := (agent.Stats{Agents: 1, Conversations: 2, Messages: 3, Checkpoints: 1}); got != want {
				t.Errorf("%+v", got)
			}
			must(h.DeleteConversation(ctx, "one"))(t)
			must(h.Delete(ctx, "a"))(t)
			if got := must(h.Stats(ctx))(t); got != (agent.Stats{}) {
				t.Errorf("after the deletion %+v", got)
			}
		})
	}
}
