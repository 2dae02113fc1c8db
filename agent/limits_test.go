package agent_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

func TestEverySaveMovesTheTimeOfChangeOn(t *testing.T) {
	t.Parallel()
	for _, r := range routings() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			clock := sagetest.NewClock(start)
			h := open(t, r, manager.WithClock(clock))
			ctx := t.Context()
			a := &agent.State{ID: "a", Name: "n"}
			for i, step := range []struct {
				why     string
				advance time.Duration
				want    time.Duration // after the start
			}{
				{"made", 0, 0},
				{"saved later", time.Hour, time.Hour},
				{"saved a nanosecond later", 1, time.Hour + 1},
				{"saved after the clock was set back", -time.Minute, time.Hour + 1},
				{"saved when the clock has caught up", time.Hour, 2*time.Hour - time.Minute + 1},
			} {
				clock.Advance(step.advance)
				a.Name = fmt.Sprint(i)
				a.Modified = start.Add(-time.Hour) // what the app says of it is not stored
				ok(t, h.Save(ctx, a))
				stored := must(h.Load(ctx, "a"))(t).Modified
				if want := start.Add(step.want); !stored.Equal(want) || !a.Modified.Equal(want) {
					t.Errorf("%s: stored is %v, and answered %v, want %v", step.why, stored, a.Modified, want)
				}
			}
		})
	}
}

func TestAutomaticCheckpointsAreNeverMoreThanTheMaximum(t *testing.T) {
	t.Parallel()
	for _, r := range routings() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			clock := sagetest.NewClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			h := open(t, r, manager.WithClock(clock))
			ctx := t.Context()
			c := talk(t, h.Store, "a", "one")
			p := manager.ConfigOf(h.m).Checkpoints
			p.Max = 2
			ok(t, h.SetCheckpoints(p))
			ok(t, h.StartCheckpoints("a"))
			for round := uint64(1); round <= 4; round++ {
				must(h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, fmt.Sprint(round))))(t)
				clock.Advance(p.Interval)
				var all []agent.CheckpointInfo
				for end := tiers.SystemClock().Now().Add(20 * time.Second); tiers.SystemClock().Now().Before(end); {
					if all = collected(t, h.Checkpoints(ctx, "a", agent.After{})); len(all) > 0 && all[0].Number == round {
						break
					}
					time.Sleep(time.Millisecond)
					clock.Advance(time.Second) // the work may have begun to wait only now
				}
				if len(all) != min(int(round), p.Max) || all[0].Number != round {
					t.Fatalf("after %d rounds there are %+v", round, all)
				}
			}
			h.StopCheckpoints()
		})
	}
}

// One routing takes the whole size, the others the same proportions.
func TestMessageOfFiftyMegabytesIsRefusedWhereTheLimitIsLess(t *testing.T) {
	for _, r := range routings() {
		t.Run(r.name, func(t *testing.T) {
			cfg, size, limit := r.config, 50<<12, "128KiB"
			if r.name == "memory" {
				size, limit = 50<<20, "32MiB"
			}
			r.config = func(t testing.TB, dir string) *config.Config {
				t.Helper()
				c := cfg(t, dir)
				if c.Categories == nil {
					c.Categories = map[string]config.Category{}
				}
				conversations := c.Categories["agent.conversations"]
				conversations.MaxValue = config.Size(limit)
				c.Categories["agent.conversations"] = conversations
				return c
			}
			h := open(t, r)
			ctx := t.Context()
			c := talk(t, h.Store, "a", "one")
			was := present(t, h.Store, "a")
			huge := agent.NewMessage(agent.User, strings.Repeat("x", size))
			_, err := h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "small"), huge)
			isErr(t, err, tiers.ErrTooLarge)
			if d := diff(was, present(t, h.reopen().Store, "a")); d != "" {
				t.Errorf("a message that is too large left %.500s", d)
			}
			must(h.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, "two")))(t)
		})
	}
}
