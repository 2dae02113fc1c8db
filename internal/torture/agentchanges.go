//go:build linux

package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/internal/torture/check"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

// talk changes a conversation.
func (k *keeper) talk(ctx context.Context, op string, c *change, i int) *change {
	t := &c.want.talks[i]
	id := t.id
	n := k.rng.IntN(10)
	if len(t.Messages) > 30 || n == 0 && len(c.want.talks) > 1 {
		c.want.talks = slices.Delete(c.want.talks, i, i+1)
		c.do = func() error { _, err := k.agents.DeleteConversation(ctx, id); return err }
		return c
	}
	switch {
	case n <= 5 || len(t.Messages) == 0:
		ms := []agent.Message{k.message(op, 0)}
		if k.rng.IntN(3) == 0 {
			ms[0].Role = agent.Assistant
			ms[0].ToolCalls = []agent.ToolCall{{ID: op, Name: "look"}}
			result := agent.ToolResult(op, "seen")
			result.ID = op + ".1"
			ms = append(ms, result)
		}
		for _, m := range ms {
			said := saidOf(&m)
			for j := range said.Calls {
				said.Calls[j] = string(agent.Completed)
			}
			t.Messages = append(t.Messages, said)
		}
		c.do = func() error { _, err := k.agents.AppendMessage(ctx, id, ms...); return err }
	case n == 6:
		t.Archived = !t.Archived
		archived := t.Archived
		c.do = func() error { return k.agents.Archive(ctx, id, archived) }
	case n == 7:
		j := k.rng.IntN(len(t.Messages))
		if len(t.Messages[j].Calls) > 0 {
			return nil
		}
		m := k.message(op, 0)
		m.ID = t.Messages[j].ID
		m.Content = "edited " + op
		t.Messages[j] = saidOf(&m)
		c.do = func() error { return k.agents.EditMessage(ctx, id, m) }
	default:
		j := k.rng.IntN(len(t.Messages))
		said := t.Messages[j]
		t.Messages = slices.Delete(t.Messages, j, j+1)
		c.do = func() error { _, err := k.agents.DeleteMessage(ctx, id, said.ID); return err }
	}
	return c
}

// keep does something about checkpoints, or about what is the agent's own.
func (k *keeper) keep(ctx context.Context, op string, c *change) *change {
	id := c.agent
	if k.points[id] == nil {
		k.points[id] = map[string]told{}
	}
	points := k.points[id]
	var made []string
	for p := range points {
		made = append(made, p)
	}
	slices.Sort(made)
	some := func() string { return made[k.rng.IntN(len(made))] }
	if len(made) == 0 {
		return k.checkpoint(ctx, op, c)
	}
	switch n := k.rng.IntN(20); {
	case n < 5:
		return k.checkpoint(ctx, op, c)
	case n < 10:
		return k.work(ctx, op, c)
	case n < 12:
		point := some()
		shown := points[point]
		log := c.want.log // no part of a checkpoint
		c.want = shown.clone()
		c.want.log = log
		c.do = func() error {
			o := agent.RestoreOptions{NoRecovery: k.rng.IntN(3) == 0}
			_, err := k.agents.Restore(ctx, id, point, o)
			return err
		}
	case n < 14:
		keep := k.rng.IntN(4)
		c.do = func() error { _, err := k.agents.Prune(ctx, id, keep); return err }
	case n < 15:
		point := some()
		c.do = func() error { _, err := k.agents.DeleteCheckpoint(ctx, id, point); return err }
	case n < 17 && strings.HasPrefix(id, "a"):
		point, fork := some(), "fork"+id[1:]
		shown := points[point]
		shown.log = nil // a fork begins without one
		return &change{agent: fork, want: shown.clone(), do: func() error {
			_, err := k.agents.Fork(ctx, id, point, fork)
			return err
		}, done: func() { delete(k.points, fork) }}
	case n < 18:
		c.do = func() error { return k.travel(ctx, id, some(), op) }
	case n < 19:
		c.do = func() error {
			return k.m.Update(ctx, func(tx *manager.Tx) error {
				s := k.agents.In(tx)
				if _, err := s.Load(ctx, id); err != nil {
					return err
				}
				return s.Fields(id).SaveAll(ctx, map[string]any{"n": k.n, op: true})
			}, manager.WithRetry(50))
		}
	default:
		c.do = func() error { return k.agents.Tend(ctx) }
	}
	return c
}

// checkpoint makes a checkpoint of the agent with all its conversations.
func (k *keeper) checkpoint(ctx context.Context, op string, c *change) *change {
	shown := *c.want.clone()
	c.do = func() error {
		in := agent.CheckpointInfo{AgentID: c.agent, ID: "cp-" + op, Keep: k.rng.IntN(9) == 0}
		_, err := k.agents.Checkpoint(ctx, in)
		return err
	}
	c.done = func() { k.points[c.agent]["cp-"+op] = shown }
	return c
}

// work does a step of a run: a message, a count, and every second time a checkpoint.
func (k *keeper) work(ctx context.Context, op string, c *change) *change {
	m := k.message(op, 0)
	if len(c.want.talks) == 0 {
		return nil
	}
	c.want.steps++
	steps := c.want.steps
	t := &c.want.talks[0]
	t.Messages = append(t.Messages, saidOf(&m))
	c.do = func() error {
		run := k.runs[c.agent]
		if run == nil {
			every2, err := agent.EveryN(2)
			if err != nil {
				return err
			}
			if run, err = k.agents.Run(ctx, c.agent, agent.RunOptions{Strategy: every2, Keep: 4, TakeOver: true}); err != nil {
				return err
			}
			k.runs[c.agent] = run
		}
		_, err := run.Step(ctx, agent.Iteration, func(tx *manager.Tx) error {
			s := k.agents.In(tx)
			a, err := s.Load(ctx, c.agent)
			if err != nil {
				return err
			}
			a.Set("steps", steps)
			if err := s.Save(ctx, a); err != nil {
				return err
			}
			_, err = s.AppendMessage(ctx, t.id, m)
			return err
		})
		if err != nil {
			delete(k.runs, c.agent) // it was restored, or is another one by now
		}
		return err
	}
	return c
}

// travel takes a checkpoint out of the store and in again, under another id.
func (k *keeper) travel(ctx context.Context, id, point, op string) error {
	c, err := k.agents.LoadCheckpoint(ctx, id, point)
	if err != nil {
		return err
	}
	b, err := c.Bytes()
	if err != nil {
		return err
	}
	if c, err = agent.DecodeCheckpoint(b); err != nil {
		return err
	}
	c.ID = "im-" + op
	_, err = k.agents.ImportCheckpoint(ctx, c, false)
	return err
}

// settleAgents removes what interrupted deletions have left, and counts.
func settleAgents(ctx context.Context, m *manager.Manager) (st check.AgentStats, err error) {
	s := agent.New(m)
	if err := s.Tend(ctx); err != nil {
		return st, err
	}
	got, err := s.Stats(ctx)
	st = check.AgentStats{
		Agents: got.Agents, Conversations: got.Conversations, Checkpoints: got.Checkpoints, Messages: got.Messages, Bytes: got.Bytes,
	}
	for a, listed := range s.List(ctx, agent.After{}) {
		if listed != nil {
			err = errors.Join(err, listed)
			continue
		}
		for info, listed := range s.Checkpoints(ctx, a.ID, agent.After{}) {
			if listed == nil {
				_, listed = s.LoadCheckpoint(ctx, a.ID, info.ID)
			}
			err = errors.Join(err, listed)
		}
	}
	for info, listed := range session.New(m).All(ctx) {
		err = errors.Join(err, listed)
		st.Logs++
		st.Events += int64(info.Events) //nolint:gosec // counted from 1
	}
	if errors.Is(err, tiers.ErrCorrupt) {
		err = errors.Join(errors.New("what was settled can't be read"), err)
	}
	return st, err
}
