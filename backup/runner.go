package backup

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

const (
	// turnLimit is how long a runner sleeps at most. Timers stand still while a
	// machine is suspended and do not follow a clock that is set.
	turnLimit = time.Minute
	// seenEvery is how much newer the latest time seen is than the stored one
	// before it is stored alone.
	seenEvery = 10 * time.Minute
	// WatchedFor is for how long after [State].Watched a runner may be taken to
	// live: it notes that more often.
	WatchedFor = 2*seenEvery + 5*turnLimit
	// hookLimit is how long a hook may take.
	hookLimit = 30 * time.Second
)

// Attempt is one try at a run.
type Attempt struct {
	Run   time.Time // which run, by the instant at which it was due
	Try   int       // 1 for the first
	Began time.Time
	State State // when it began; for Seen and Accepted of a [Policy]
}

// Outcome is what became of an attempt.
type Outcome struct {
	Attempt

	Ended time.Time
	Err   error
	Next  time.Time // when the next attempt begins, of the same run or the next
}

// RunnerConfig says what a runner runs, and when.
type RunnerConfig struct {
	Schedule *Schedule // required
	// Work makes a backup, verifies it, and prunes. It should end soon after its
	// context does. An error that wraps [ErrRefused] is that of a good backup, and one
	// that wraps [ErrNothing] is no failure: neither is tried again. Required.
	Work func(ctx context.Context, a Attempt) error
	// State is where the schedule remembers; nil: nowhere, so that a restart
	// neither makes up for a run nor knows whether one failed.
	State StateStore
	// Lock takes the lock of the job, which all processes of a store share,
	// without waiting; ok is false when another has it. nil: there is no other.
	Lock func(ctx context.Context) (unlock func(), ok bool, err error)
	// Owner names who has the lock, for the log; nil: nobody knows.
	Owner func() string
	// OnSuccess and OnFailure are told about each attempt but those that found
	// nothing, once the lock is given back. They have 30 seconds. Their errors are
	// logged, but for [ErrUnasked].
	OnSuccess, OnFailure func(ctx context.Context, o Outcome) error
	Clock                tiers.Clock  // nil: the system's
	Logger               *slog.Logger // nil: discard
}

// Runner makes backups when they are due, until it is closed.
type Runner struct {
	c      RunnerConfig
	cancel context.CancelFunc
	done   chan struct{}

	// Of the loop alone:
	state  State // as it would be stored
	stored State // as it is
	loaded bool
	told   string // the last problem logged, so that a lasting one is logged once
}

// StartRunner starts a runner. It is the caller's to close.
func StartRunner(c RunnerConfig) (*Runner, error) {
	if c.Schedule == nil || c.Work == nil {
		return nil, &tiers.Error{Op: "start backups", Hint: "set Schedule and Work", Err: errors.New("nothing to run")}
	}
	if c.State == nil {
		c.State = forgetful{}
	}
	if c.Lock == nil {
		c.Lock = func(context.Context) (func(), bool, error) { return func() {}, true, nil }
	}
	if c.Clock == nil {
		c.Clock = tiers.SystemClock()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Runner{c: c, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for c.Clock.Sleep(ctx, r.turn(ctx)) == nil {
			continue
		}
	}()
	return r, nil
}

// Close ends the context of the work and of the hooks, and waits for them, or
// for the end of ctx, whose cause it answers then. Closing again waits again.
func (r *Runner) Close(ctx context.Context) error {
	r.cancel()
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return tiers.Hint(context.Cause(ctx), "a backup has not ended yet; close again")
	}
}

// turn does what is to be done now, and answers how long to wait.
func (r *Runner) turn(ctx context.Context) time.Duration {
	if !r.loaded {
		r.load(ctx)
		r.loaded = true
	}
	now := r.c.Clock.Now()
	r.observe(now)
	plan := r.c.Schedule.Plan(r.state, now)
	wait := min(plan.At.Sub(now), turnLimit)
	if !plan.Due(now) && !r.worthStoring() {
		return wait
	}
	unlock, ok, err := r.c.Lock(ctx)
	switch {
	case err != nil:
		r.tell(ctx, "the lock of the backup can't be taken", err)
		return turnLimit
	case !ok && !plan.Due(now): // what is to be stored can wait
		return wait
	case !ok:
		r.waits(ctx)
		return turnLimit
	}
	outcome := r.locked(ctx)
	unlock()
	if outcome != nil {
		r.report(ctx, *outcome)
	}
	return 0
}

// worthStoring tells whether the state changed by more than the minutes that
// pass.
func (r *Runner) worthStoring() bool {
	// A clock that was set back moves what was watched, and not what was seen.
	return !r.state.Since.Equal(r.stored.Since) || r.state.LastSeen.Sub(r.stored.LastSeen) >= seenEvery ||
		r.remembers() && r.state.Watched.Sub(r.stored.Watched).Abs() >= seenEvery
}

// observe notes what the clock shows, and that somebody looked.
func (r *Runner) observe(now time.Time) {
	r.state = r.c.Schedule.Observe(r.state, now)
	r.state.Watched = now
}

// waits logs, once, that the backup has to wait and for whom.
func (r *Runner) waits(ctx context.Context) {
	const message = "the backup waits for another process"
	owner := ""
	if r.c.Owner != nil {
		owner = r.c.Owner()
	}
	if text := message + owner; text != r.told && ctx.Err() == nil {
		r.told = text
		r.c.Logger.InfoContext(ctx, message, "which", owner)
	}
}

// locked looks again at what there is to do, for another process may have done it
// meanwhile, and does it. It answers nil when there was nothing, or when the
// runner is being closed.
func (r *Runner) locked(ctx context.Context) *Outcome {
	readable := r.load(ctx)
	now := r.c.Clock.Now()
	r.observe(now)
	plan := r.c.Schedule.Plan(r.state, now)
	if !plan.Due(now) {
		if r.worthStoring() {
			r.save(ctx, readable)
		}
		return nil
	}
	before := r.state
	r.state.Begin(plan.Run, now)
	r.save(ctx, readable)
	a := Attempt{Run: plan.Run, Try: plan.Try, Began: now, State: r.state}
	err := r.c.Work(ctx, a)
	now = r.c.Clock.Now()
	switch {
	case r.state.Ended(plan.Run, now, err):
	case ctx.Err() != nil: // it was no failure
		r.state.Run, r.state.Tries, r.state.LastRun = before.Run, before.Tries, before.LastRun
	default:
		r.state.Failed(now)
	}
	r.save(context.WithoutCancel(ctx), readable)
	if err != nil && ctx.Err() != nil {
		return nil
	}
	return &Outcome{Attempt: a, Ended: now, Err: err, Next: r.c.Schedule.Plan(r.state, now).At}
}

// load takes over what is stored. It answers false where that can't be read, and
// must not be overwritten therefore; the runner goes on with what it knows.
func (r *Runner) load(ctx context.Context) (readable bool) {
	stored, err := r.c.State.Load(ctx)
	switch {
	case errors.Is(err, tiers.ErrCorrupt):
		r.tell(ctx, "the state of the schedule is replaced", err)
		r.stored = State{}
		return true
	case err != nil:
		r.tell(ctx, "the state of the schedule can't be read", err)
		return false
	}
	r.told = ""
	if !r.remembers() {
		return true
	}
	known := r.state
	r.stored, r.state = stored, stored
	if stored.Accepted.Equal(known.Accepted) { // else what was seen counts no more
		r.state.see(known.LastSeen)
	}
	return true
}

func (r *Runner) remembers() bool {
	_, no := r.c.State.(forgetful)
	return !no
}

// save stores the state, and counts it as stored even when that fails: it is not
// tried in every turn.
func (r *Runner) save(ctx context.Context, readable bool) {
	r.stored = r.state
	if !readable {
		return
	}
	if err := r.c.State.Save(ctx, r.state); err != nil {
		r.tell(ctx, "the state of the schedule is not stored", err)
	}
}

func (r *Runner) report(ctx context.Context, o Outcome) {
	hook := r.c.OnFailure
	failed := tiers.Fail("backup", "", tiers.Key{}, o.Err) // whose log names no keys
	switch {
	case o.Err == nil:
		hook = r.c.OnSuccess
		r.c.Logger.InfoContext(ctx, "the backup is made", "due", o.Run, "try", o.Try, "took", o.Ended.Sub(o.Began), "next", o.Next)
	case errors.Is(o.Err, ErrNothing):
		r.c.Logger.InfoContext(ctx, "there is nothing to back up yet", "due", o.Run, "next", o.Next)
		return
	case errors.Is(o.Err, ErrRefused):
		r.c.Logger.WarnContext(ctx, "the backup is made, and no earlier one was removed", "due", o.Run, "try", o.Try, "next", o.Next, "error", failed)
	default:
		r.c.Logger.WarnContext(ctx, "the backup failed", "due", o.Run, "try", o.Try, "next", o.Next, "error", failed)
	}
	if hook == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, hookLimit)
	defer cancel()
	if err := hook(ctx, o); err != nil && !errors.Is(err, ErrUnasked) {
		r.c.Logger.WarnContext(ctx, "telling about the backup failed", "error", err)
	}
}

// tell logs a problem unless it was the last one logged.
func (r *Runner) tell(ctx context.Context, message string, err error) {
	text := message
	var attrs []slog.Attr
	if err != nil {
		text += err.Error()
		attrs = append(attrs, slog.Any("error", err))
	}
	if text == r.told || ctx.Err() != nil {
		return
	}
	r.told = text
	r.c.Logger.LogAttrs(ctx, slog.LevelWarn, message, attrs...)
}

// forgetful stands for no store: the runner's own memory is all there is.
type forgetful struct{}

func (forgetful) Load(context.Context) (State, error) { return State{}, nil }
func (forgetful) Save(context.Context, State) error   { return nil }
