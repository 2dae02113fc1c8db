package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// What automatic checkpoints say of themselves.
const (
	autoName        = "Auto checkpoint 2006-01-02 15:04:05"
	autoDescription = "Automatic checkpoint"
)

// autoTick is how often it is looked whether an interval is over.
const autoTick = time.Second

// auto is the work that makes checkpoints by itself, and what went wrong with it.
type auto struct {
	failures  atomic.Int64
	uncleaned atomic.Int64

	mu         sync.Mutex // held while checkpoints are made, so that Stop waits
	registered bool       // with the manager, whose Close ends it
	running    bool
	agents     []string // empty: all
	next       time.Time
}

// StartCheckpoints makes automatic checkpoints of the agents named, or of all,
// those that are created later as well, at every interval of the configuration. An
// agent that has not changed since its last checkpoint is passed over. Of the
// processes of a store one does it. The work ends with [Store.StopCheckpoints] or
// when the manager is closed; starting it again only changes whose checkpoints are
// made. It also removes what interrupted deletions have left.
//
// What fails is logged once, counted in [Stats] and tried again.
func (s *Store) StartCheckpoints(agents ...string) error {
	root := s.core.root
	if root == nil {
		return &tiers.Error{Op: "start checkpoints", Hint: "make the store with New on the manager", Err: tiers.ErrUnsupported}
	}
	a := &s.core.auto
	a.mu.Lock()
	defer a.mu.Unlock()
	a.agents = agents
	if !a.running {
		a.next = s.core.clock.Now().Add(s.core.plan.get().Interval)
	}
	a.running = true
	if a.registered {
		return nil
	}
	err := root.manager.Background(jobName(manager.NamespaceOf(root.manager)), autoTick, root.tick, manager.OnePerStore())
	if a.registered = err == nil; err != nil {
		a.running = false
	}
	return err
}

// jobName names the work of a namespace, within what a name may have.
func jobName(namespace string) string {
	name := "agent-checkpoints"
	if namespace == "" {
		return name
	}
	sum := sha256.Sum256([]byte(namespace))
	return name + "-" + hex.EncodeToString(sum[:8])
}

// StopCheckpoints ends the making of automatic checkpoints. One that is being made
// is waited for.
func (s *Store) StopCheckpoints() {
	a := &s.core.auto
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running = false
}

// tick makes checkpoints when it is time.
func (s *Store) tick(ctx context.Context) error {
	a, p := &s.core.auto, s.core.plan.get()
	a.mu.Lock()
	defer a.mu.Unlock()
	now := s.core.clock.Now()
	if latest := now.Add(p.Interval); a.next.After(latest) {
		a.next = latest // the interval was made shorter, or the clock was set back
	}
	if !a.running || now.Before(a.next) {
		return nil
	}
	a.next = now.Add(p.Interval)
	if !p.Enabled {
		return nil
	}
	errs := []error{s.Tend(ctx)}
	for id, err := range s.automatic(ctx, a.agents) {
		if err == nil {
			err = s.autoCheckpoint(ctx, id)
		}
		if err != nil && !isNotFound(err) {
			a.failures.Add(1)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// automatic yields the ids of the agents whose checkpoints are made.
func (s *Store) automatic(ctx context.Context, named []string) func(func(string, error) bool) {
	return func(yield func(string, error) bool) {
		for _, id := range named {
			if !yield(id, nil) {
				return
			}
		}
		if len(named) > 0 {
			return
		}
		for entry, err := range s.state.List(ctx, manager.Prefix(atID), manager.KeysOnly()) {
			if !yield(segment(entry.Key[min(len(entry.Key), len(atID)):]), err) {
				return
			}
		}
	}
}

// autoCheckpoint makes a checkpoint of an agent unless nothing has changed.
func (s *Store) autoCheckpoint(ctx context.Context, id string) error {
	err := s.update(ctx, turn{agent: id}, func(s *Store) error {
		e, err := s.openAgent(ctx, id)
		if err != nil {
			return err
		}
		if changed, err := e.changed(ctx); err != nil || !changed {
			return err
		}
		info, err := e.checkpoint(ctx, CheckpointInfo{
			Kind: Automatic, Name: now(s.core.clock).Format(autoName), Description: autoDescription,
		})
		if err != nil {
			return err
		}
		e.clean(ctx, s.core.plan.get().Max, info.Number)
		return e.saveLedger(ctx)
	})
	if err != nil {
		return fail("make checkpoint", categoryCheckpoints, "", fmt.Errorf("automatic checkpoint: %w", err))
	}
	return nil
}

// changed tells whether there is anything that no checkpoint shows.
func (e *edit) changed(ctx context.Context) (bool, error) {
	if e.led.Newest == 0 || e.led.Newest != e.led.Last {
		return true, nil
	}
	u, err := e.unitFor(ctx, "")
	if err != nil || u.Sum != e.led.State {
		return err == nil, err
	}
	for _, err := range e.conversations.List(ctx, manager.Prefix(atDirty+e.au+"/"), manager.Limit(1), manager.KeysOnly()) {
		return err == nil, err
	}
	return false, nil
}
