package agent_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// TestManagersOfOneStoreLoseNothing lets two managers of one data directory, which
// do not take turns with each other, work with one agent.
func TestManagersOfOneStoreLoseNothing(t *testing.T) {
	t.Parallel()
	for _, r := range routings() {
		if !r.durable {
			continue // nobody else sees the memory of a process
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			cfg := r.config(t, t.TempDir())
			var stores []*agent.Store
			for range 2 {
				m, err := manager.Open(context.WithoutCancel(ctx), cfg, driversOf(cfg))
				ok(t, err)
				t.Cleanup(func() { ok(t, m.Close(context.Background())) })
				stores = append(stores, agent.New(m))
			}
			c := talk(t, stores[0], "a")
			const callers, times = 2, 8
			var wg sync.WaitGroup
			for i, s := range stores {
				for caller := range callers {
					wg.Go(func() {
						for j := range times {
							_, err := s.AppendMessage(ctx, c.ID, agent.NewMessage(agent.User, fmt.Sprint(i, caller, j)))
							if j%4 == 0 {
								_, err2 := s.Checkpoint(ctx, agent.CheckpointInfo{AgentID: "a"})
								err = errors.Join(err, err2)
							}
							if err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			wg.Wait()
			// What the other one has left in the journal is seen a little later.
			seen := func(what string, want int, count func() int) {
				t.Helper()
				deadline := tiers.SystemClock().Now().Add(time.Minute)
				for n := count(); n != want; n = count() {
					if tiers.SystemClock().Now().After(deadline) {
						t.Fatalf("%d %s, want %d", n, what, want)
					}
					time.Sleep(10 * time.Millisecond)
				}
			}
			for _, s := range stores {
				seen("messages", 2*callers*times, func() int {
					got := must(s.LoadConversation(ctx, c.ID, agent.Page{}))(t)
					return min(len(got.Messages), got.Count)
				})
			}
			var all []agent.CheckpointInfo
			for _, s := range stores {
				seen("checkpoints", 2*callers*times/4, func() int {
					all = collected(t, s.Checkpoints(ctx, "a", agent.After{}))
					return len(all)
				})
			}
			for _, at := range all {
				shownBy(t, stores[1], at.ID)
			}
		})
	}
}
