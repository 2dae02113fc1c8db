package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sagestore/sagestore/internal/conflict"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// runLease is how long an agent stays taken by a run that does nothing. One that is
// taken over meanwhile finds out at its next step.
const runLease = time.Minute

// runRecord is who works with an agent, and how far that has come.
type runRecord struct {
	Owner     string    `json:"owner,omitempty"` // empty: nobody
	Until     time.Time `json:"until,omitzero"`
	Iteration int       `json:"iteration"`
}

// RunOptions are what a run may do otherwise.
type RunOptions struct {
	Strategy Strategy // nil: that of the configuration
	Keep     int      // untagged checkpoints that stay; 0: the maximum of the configuration
	TakeOver bool     // do not wait for the lease of a run that did not end
}

// Run is the work of an agent in steps, one run at a time. It belongs to one
// goroutine.
type Run struct {
	store     *Store
	agentID   string
	owner     string
	o         RunOptions
	decider   *Decider
	resumed   CheckpointInfo
	last      time.Time // of the last checkpoint, or the beginning
	iteration int
}

// Run begins to work with an agent, or goes on after the last step that was
// committed. While another run works with it the answer is tiers.ErrConflict; one
// that did not end, because its process did, holds the agent for a minute, unless
// TakeOver says not to wait. The Store must be one on a manager.
func (s *Store) Run(ctx context.Context, agentID string, o RunOptions) (*Run, error) {
	if s.manager == nil {
		return nil, fail("run agent", categoryCheckpoints, agentID,
			tiers.Hint(tiers.ErrUnsupported, "begin the run on the manager; its steps are transactions"))
	}
	if o.Keep < 0 {
		return nil, fail("run agent", categoryCheckpoints, agentID, fmt.Errorf("%w: %d checkpoints are to stay", tiers.ErrType, o.Keep))
	}
	if o.Strategy == nil {
		o.Strategy = s.Strategy()
	}
	r := &Run{store: s, agentID: agentID, owner: newID(), o: o, decider: NewDecider(o.Strategy)}
	err := s.update(ctx, turn{agent: agentID}, func(s *Store) error {
		e, err := s.openAgent(ctx, agentID)
		if err != nil {
			return err
		}
		rec, _, err := load[runRecord](ctx, s, s.checkpoints, atRun+e.au)
		if err != nil {
			return err
		}
		now := now(s.core.clock)
		if rec.Owner != "" && now.Before(rec.Until) && !o.TakeOver {
			return refuse(tiers.Hint(conflict.Errorf("another run works with the agent"),
				"close that one, or take over when its process is gone"))
		}
		r.iteration, r.last = rec.Iteration, now
		rec.Owner, rec.Until = r.owner, now.Add(runLease)
		if e.led.Newest > 0 {
			info, raw, err := s.info(ctx, e.au, e.led.Newest)
			if err != nil {
				return err
			}
			r.resumed = info.checkpointInfo(e.au, agentID, e.led.Newest, len(raw))
		}
		return s.save(ctx, s.checkpoints, atRun+e.au, rec)
	})
	if err != nil {
		return nil, fail("run agent", categoryCheckpoints, agentID, err)
	}
	return r, nil
}

// Iteration is the number of the last step that was committed, in this run or an
// earlier one; 0 before the first.
func (r *Run) Iteration() int { return r.iteration }

// Resumed answers the newest checkpoint that there was when the run began.
func (r *Run) Resumed() (c CheckpointInfo, ok bool) { return r.resumed, r.resumed.ID != "" }

// Step does one step: what fn does in the transaction, the count of iterations and
// the checkpoint that the strategy asks for are committed together, or not at all.
// So a step is neither lost nor done twice: after an error, and after a crash, the
// next step has the same number. fn may run again when others were faster. It gets
// the transaction for [Store.In] and for the app's own collections.
//
// tiers.ErrConflict: another run has taken the agent over, or it was restored.
func (r *Run) Step(ctx context.Context, event Event, fn func(*manager.Tx) error) (iteration int, err error) {
	var made *CheckpointInfo
	decider := *r.decider
	err = r.store.update(ctx, turn{agent: r.agentID}, func(s *Store) error {
		made, decider = nil, *r.decider
		au, rec, err := r.own(ctx, s)
		if err != nil {
			return err
		}
		now := now(s.core.clock)
		rec.Iteration++
		iteration, rec.Until = rec.Iteration, now.Add(runLease)
		if err := fn(s.tx); err != nil {
			return refuse(err)
		}
		if err := s.save(ctx, s.checkpoints, atRun+au, rec); err != nil {
			return err
		}
		if !decider.Wants(Step{Iteration: iteration, Event: event, SinceLast: now.Sub(r.last)}) {
			return nil
		}
		made, err = r.checkpoint(ctx, s, event, iteration)
		return err
	})
	if err != nil {
		if e, ok := errors.AsType[*tiers.Error](err); ok {
			return r.iteration, e
		}
		return r.iteration, fail("step", categoryCheckpoints, r.agentID, err)
	}
	*r.decider, r.iteration = decider, iteration
	if made != nil {
		r.last = made.Created
	}
	return iteration, nil
}

// own answers the record of the run, if it is still this one.
func (r *Run) own(ctx context.Context, s *Store) (au string, rec runRecord, err error) {
	au, found, err := s.agent(ctx, r.agentID)
	if err == nil && !found {
		err = refuse(errNoAgent)
	}
	if err != nil {
		return "", rec, err
	}
	rec, _, err = load[runRecord](ctx, s, s.checkpoints, atRun+au)
	if err == nil && rec.Owner != r.owner {
		err = refuse(tiers.Hint(conflict.Errorf("another run has taken the agent over, or it was restored"), "begin another run"))
	}
	return au, rec, err
}

func (r *Run) checkpoint(ctx context.Context, s *Store, event Event, iteration int) (*CheckpointInfo, error) {
	e, err := s.openAgent(ctx, r.agentID)
	if err != nil {
		return nil, err
	}
	kind := Automatic
	if event == BeforeOperation {
		kind = PreOperation
	}
	info, err := e.checkpoint(ctx, CheckpointInfo{Kind: kind, Iteration: iteration})
	if err != nil {
		return nil, err
	}
	most := r.o.Keep
	if most == 0 {
		most = s.core.plan.get().Max
	}
	e.clean(ctx, most, info.Number)
	return &info, e.saveLedger(ctx)
}

// Close ends the run, so that another can begin. A second Close does nothing.
func (r *Run) Close(ctx context.Context) error {
	err := r.store.update(ctx, turn{agent: r.agentID}, func(s *Store) error {
		au, found, err := s.agent(ctx, r.agentID)
		if err != nil || !found {
			return err
		}
		rec, found, err := load[runRecord](ctx, s, s.checkpoints, atRun+au)
		if err != nil || !found || rec.Owner != r.owner {
			return err
		}
		return s.save(ctx, s.checkpoints, atRun+au, runRecord{Iteration: rec.Iteration})
	})
	return fail("end run", categoryCheckpoints, r.agentID, err)
}

// restartRun sets the count of iterations back to that of a checkpoint. Who is at
// work finds out at the next step.
func (e *edit) restartRun(ctx context.Context, iteration int) error {
	key := atRun + e.au
	if there, err := e.checkpoints.Exists(ctx, key); err != nil || !there {
		return err
	}
	return e.save(ctx, e.checkpoints, key, runRecord{Iteration: iteration})
}
