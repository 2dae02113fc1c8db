package backup

import (
	"context"
	"errors"
	"time"
)

// State is what a schedule remembers between runs and restarts. Its zero value
// is that of a store that was never backed up. Its methods change it in place
// and store nothing.
type State struct {
	LastRun  time.Time `json:"last_run,omitzero"`  // begin or end of the last attempt, whichever was later
	LastGood time.Time `json:"last_good,omitzero"` // end of the last one that succeeded
	// LastSeen is the latest time ever read from the clock. Retention refuses
	// while the clock shows less.
	LastSeen time.Time `json:"last_seen,omitzero"`
	// Accepted is when somebody found the clock right after it went backwards.
	Accepted time.Time `json:"accepted,omitzero"`
	// Smaller is when somebody found it right that a backup had shrunk.
	Smaller time.Time `json:"smaller,omitzero"`
	// Since is where counting of missed runs begins when LastGood can't tell:
	// there is none, or the clock went back behind it.
	Since time.Time `json:"since,omitzero"`
	// Ahead is a LastGood that the clock went back behind, until it is reached
	// again.
	Ahead time.Time `json:"ahead,omitzero"`
	// Run is the due one that was tried Tries times, and has not succeeded.
	Run   time.Time `json:"run,omitzero"`
	Tries int       `json:"tries,omitzero"`
	// Watched is when a runner last looked at the clock and noted that.
	Watched time.Time `json:"watched,omitzero"`
	// Empty is when a run last found nothing to back up, and no backup that could
	// miss something; zero once there is one.
	Empty time.Time `json:"empty,omitzero"`
	// Refusal is why the last run, though its backup is good, removed no earlier one.
	Refusal string `json:"refusal,omitempty"`
	// Hand is what became of the runs that the schedule did not begin: those of a
	// command, of a timer.
	Hand HandState `json:"hand,omitzero"`
	// Untold is what became of the notices about runs.
	Untold UntoldState `json:"untold,omitzero"`
}

// StateStore keeps a state. The calls are made under the lock of the job, one at
// a time; only Load is also called without it.
type StateStore interface {
	// Load answers the zero State when there is none, and an error that wraps
	// [tiers.ErrCorrupt] when it is there and can't be understood.
	Load(ctx context.Context) (State, error)
	// Save replaces it whole or not at all.
	Save(ctx context.Context, s State) error
}

// Begin counts an attempt. Stored before the attempt it makes a process that dies
// in its backup wait a little longer each time.
func (s *State) Begin(run, now time.Time) {
	if !s.Run.Equal(run) {
		s.Run, s.Tries = run, 0
	}
	s.Tries++
	s.LastRun = now
}

// Good notes that a backup succeeded. The zero run stands for one that was not
// made by the schedule.
func (s *State) Good(run, now time.Time) {
	// Once the clock was accepted that is no time to be reached again.
	if s.LastGood.After(now) && !s.LastGood.After(s.LastSeen) {
		s.Ahead = s.LastGood
	}
	s.LastRun, s.LastGood = now, now
	// A clock that was set back meanwhile must not make the same run due again.
	if run.After(now) {
		s.LastGood = run
	}
	s.Since, s.Run, s.Tries, s.Hand = time.Time{}, time.Time{}, 0, HandState{}
	s.Empty, s.Refusal = time.Time{}, ""
	s.see(now)
}

// Ended notes what became of the work of a run, and answers whether it was no
// failure: a backup is good, or there is nothing yet to make one of.
func (s *State) Ended(run, now time.Time, err error) bool {
	switch {
	case err == nil:
		s.Good(run, now)
	case errors.Is(err, ErrRefused):
		s.Good(run, now)
		s.Refusal = brief(err)
	case errors.Is(err, ErrNothing):
		s.Since, s.Empty, s.LastRun = now, now, now
		s.Run, s.Tries, s.Hand = time.Time{}, 0, HandState{}
		s.see(now)
	default:
		return false
	}
	return true
}

// Failed notes that the attempt that began failed.
func (s *State) Failed(now time.Time) {
	s.LastRun = now
	s.see(now)
}

// Accept says that the clock is right, whatever was seen before.
func (s *State) Accept(now time.Time) {
	s.LastSeen, s.Accepted, s.Ahead = now, now, time.Time{}
}

func (s *State) see(now time.Time) {
	if now.After(s.LastSeen) {
		s.LastSeen = now
	}
}
