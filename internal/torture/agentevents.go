//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sagestore/sagestore/internal/torture/check"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

// events answers what is in the log of an agent, nil when it has none.
func (k *keeper) events(ctx context.Context, tx *manager.Tx, id string) ([]string, error) {
	all := []string{}
	for e, err := range k.sessions.In(tx).Events(ctx, check.LogOf(id), 0) {
		switch {
		case errors.Is(err, tiers.ErrNotFound):
			return nil, nil
		case err != nil:
			return nil, err
		}
		all = append(all, e.ID)
	}
	return all, nil
}

// said is an event of an operation.
func (k *keeper) said(op string, i int) session.Event {
	return session.Event{ID: fmt.Sprintf("%s.%d", op, i), Method: "app.step"}
}

// record does something to the log of the agent.
func (k *keeper) record(ctx context.Context, op string, c *change) *change {
	log := check.LogOf(c.agent)
	es := []session.Event{k.said(op, 0)}
	if k.rng.IntN(3) == 0 {
		es = append(es, k.said(op, 1))
	}
	switch {
	case c.want.log == nil:
		id := c.agent
		c.do = func() error { return k.sessions.Start(ctx, session.State{SessionID: log, AgentID: id}, es...) }
	case len(c.want.log) > 40 || k.rng.IntN(6) == 0:
		c.want.log = nil
		c.do = func() error { _, err := k.sessions.Delete(ctx, log); return err }
		return c
	default:
		c.do = func() error { _, err := k.sessions.Append(ctx, log, es...); return err }
	}
	for _, e := range es {
		c.want.log = append(c.want.log, e.ID)
	}
	return c
}

// append appends to the log that all goroutines of all processes append to, and makes it
// when it is not there.
func (k *keeper) append(ctx context.Context, e session.Event) error {
	log := check.LogOf(check.Shared)
	_, err := k.sessions.Append(ctx, log, e)
	if errors.Is(err, tiers.ErrNotFound) {
		err = k.sessions.Start(ctx, session.State{SessionID: log, AgentID: check.Shared}, e)
	}
	if errors.Is(err, tiers.ErrExists) {
		_, err = k.sessions.Append(ctx, log, e)
	}
	return err
}

// scuffle does anything to the sessions of an agent that many work with.
func (k *keeper) scuffle(ctx context.Context, op, id string) error {
	log, branch := check.LogOf(id), "branch-"+id
	var err error
	switch k.rng.IntN(6) {
	case 0:
		_, err = k.sessions.Delete(ctx, log)
	case 1:
		_, err = k.sessions.Delete(ctx, branch)
	case 2:
		err = k.sessions.Fork(ctx, log, 1, branch)
	case 3:
		err = k.sessions.Start(ctx, session.State{SessionID: log, AgentID: id}, k.said(op, 0))
	default:
		_, err = k.sessions.Append(ctx, log, k.said(op, 0), k.said(op, 1))
		if errors.Is(err, tiers.ErrNotFound) {
			err = k.sessions.Start(ctx, session.State{SessionID: log, AgentID: id}, k.said(op, 0))
		}
	}
	return err
}
