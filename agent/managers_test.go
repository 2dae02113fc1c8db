package agent_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/manager"
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
			got := must(stores[0].LoadConversation(ctx, c.ID, agent.Page{}))(t)
			if len(got.Messages) != 2*callers*times || got.Count != len(got.Messages) {
				t.Errorf("%d messages, counted %d", len(got.Messages), got.Count)
			}
			all := collected(t, stores[1].Checkpoints(ctx, "a", agent.After{}))
			if len(all) != 2*callers*times/4 {
				t.Errorf("%d checkpoints", len(all))
			}
			for _, at := range all {
				shownBy(t, stores[1], at.ID)
			}
		})
	}
}
