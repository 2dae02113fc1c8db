//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/internal/torture/check"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

// together appends to a conversation, or to a log, that all goroutines of all processes append to.
// Nobody deletes it, so that what was acknowledged has to be there.
func (k *keeper) together(ctx context.Context, op string) {
	m := k.message(op, 0)
	k.log.line(check.Line{Kind: check.Try, Op: op, Writes: []check.Cell{{At: check.Shared, Op: m.ID}}})
	var err error
	if k.rng.IntN(3) == 0 {
		if err = k.append(ctx, session.Event{ID: m.ID, Method: "app.step"}); errors.Is(err, tiers.ErrNotFound) {
			err = k.m.Update(ctx, func(tx *manager.Tx) error { // with the agent
				s, c := k.agents.In(tx), agent.NewConversation(check.Shared)
				c.ID = check.Shared
				if err := errors.Join(s.Save(ctx, agent.NewState(check.Shared, "", "")), s.SaveConversation(ctx, c)); err != nil {
					return err
				}
				return k.sessions.In(tx).Start(ctx, session.State{SessionID: check.LogOf(check.Shared), AgentID: check.Shared}, session.Event{ID: m.ID, Method: "app.step"})
			})
		}
		k.tellTogether(op, err)
		return
	}
	_, err = k.agents.AppendMessage(ctx, check.Shared, m)
	if errors.Is(err, tiers.ErrNotFound) {
		err = k.m.Update(ctx, func(tx *manager.Tx) error {
			s, c := k.agents.In(tx), agent.NewConversation(check.Shared)
			c.ID = check.Shared
			c.Add(m)
			return errors.Join(s.Save(ctx, agent.NewState(check.Shared, "", "")), s.SaveConversation(ctx, c))
		})
	}
	if errors.Is(err, tiers.ErrExists) {
		_, err = k.agents.AppendMessage(ctx, check.Shared, m)
	}
	k.tellTogether(op, err)
}

func (k *keeper) tellTogether(op string, err error) {
	l := check.Line{Kind: check.Ack, Op: op}
	if err != nil {
		l.Kind, l.Text = check.Unknown, err.Error() // it may be there
		k.judge(op, check.Shared, err)
	}
	k.log.line(l)
}

// judge takes note of an error that nobody should get.
func (k *keeper) judge(op, id string, err error) {
	if err != nil && !answer(err) && !errors.Is(err, tiers.ErrNotFound) && !errors.Is(err, tiers.ErrExists) {
		k.log.bad("%s: %s: %v", op, id, err)
	}
}

// brawl does anything to one of two agents that all goroutines of all processes work
// with at once, deleting it included. What is there afterwards nobody knows; it has to
// be whole.
func (k *keeper) brawl(ctx context.Context, op string) {
	n := k.rng.IntN(2)
	id, other := fmt.Sprintf("%s%d", check.Brawl, n), fmt.Sprintf("%s%d", check.Brawl, 1-n)
	var conversations []string
	for c, err := range k.agents.Conversations(ctx, id, agent.After{Limit: 4}) {
		if err == nil {
			conversations = append(conversations, c.ID)
		} else if !errors.Is(err, tiers.ErrNotFound) {
			k.judge(op, id, err)
			return
		}
	}
	var err error
	what := k.rng.IntN(15)
	switch {
	case len(conversations) == 0 || what == 0:
		err = k.agents.Save(ctx, agent.NewState(id, op, ""))
		if err == nil || errors.Is(err, tiers.ErrExists) {
			c := agent.NewConversation(id)
			c.Add(k.message(op, 0))
			err = k.agents.SaveConversation(ctx, c)
		}
	case what < 5:
		_, err = k.agents.AppendMessage(ctx, conversations[k.rng.IntN(len(conversations))], k.message(op, 0), k.message(op, 1))
	case what < 7:
		_, err = k.agents.Checkpoint(ctx, agent.CheckpointInfo{AgentID: id})
	case what < 8:
		_, err = k.agents.Restore(ctx, id, "latest", agent.RestoreOptions{OrOlder: true})
	case what < 9:
		_, err = k.agents.Prune(ctx, id, k.rng.IntN(3))
	case what < 10:
		_, err = k.agents.DeleteConversation(ctx, conversations[0])
	case what < 11:
		_, err = k.agents.Fork(ctx, id, "latest", other)
	case what < 14:
		err = k.scuffle(ctx, op, id)
	default:
		_, err = k.agents.Delete(ctx, id)
	}
	k.judge(op, id, err)
}
