package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/tiers"
)

// BackupRun is what became of a run.
type BackupRun struct {
	Manifest  backup.Manifest
	Report    backup.Report
	Decisions []backup.Decision // of the pruning, newest first
	LeftOut   []string          // tiers that can't be in a backup
	Verified  bool              // the backup is there and counts
	Untold    error             // which of the webhook and the command was not told, why, and whether another was
}

// hookPatience is how long a webhook and a command may take together.
const hookPatience = 30 * time.Second

// Run does by hand what the nightly job does: it makes a backup of the store and
// verifies it, rehearses a restore when that is due, and removes the backups that
// the configuration no longer keeps. Only one runs at a time among the processes of
// the store; another one is tiers.ErrConflict, and says whose it is.
//
// What becomes of it is remembered, see [Backups.State], and the configured webhook
// and command are told, once. The end of ctx by a cancellation is no failure.
//
// An error beside a manifest is about a backup that is there: one that wraps
// backup.ErrRefused says why no earlier one was removed. An empty store is
// backup.ErrEmpty unless its newest backup is empty as well, or [BackupAllowEmpty] is
// given; where there never was a backup of it that is backup.ErrNothing, too, and is
// neither remembered as a failure nor told.
func (b *Backups) Run(ctx context.Context, m *Manager, opts ...BackupOption) (run BackupRun, err error) {
	slot, err := m.enter(ctx)
	if err != nil {
		return run, named("backup", err)
	}
	defer m.core.gate.leave(slot)
	self := &Manager{core: m.core, view: true} // closing a view does nothing
	return b.RunOpening(ctx, func(context.Context) (*Manager, error) { return self, nil }, opts...)
}

// RunOpening is [Backups.Run] for a store that open opens for it, and that is closed
// afterwards: that it can't be opened, or is not there, is a failure which is remembered
// and told as well. Where nothing was ever remembered that is only told.
func (b *Backups) RunOpening(ctx context.Context, open func(ctx context.Context) (*Manager, error), opts ...BackupOption) (run BackupRun, err error) {
	defer func() { err = named("backup", err) }()
	o, run, err := b.attempt(ctx, open, opts...)
	if o == nil {
		return run, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hookPatience)
	defer cancel()
	if failed := b.tell(ctx, *o, run); failed != nil && !errors.Is(failed, backup.ErrUnasked) {
		b.core.log.WarnContext(ctx, "telling about the backup failed", "error", failed)
		run.Untold = failed
	}
	return run, err
}

// attempt answers nil for the outcome where nobody is to be told of it.
func (b *Backups) attempt(ctx context.Context, open func(ctx context.Context) (*Manager, error), opts ...BackupOption) (*backup.Outcome, BackupRun, error) {
	if err := b.Existing(); err != nil && !errors.Is(err, ErrNoStore) {
		return nil, BackupRun{}, err
	} else if err != nil && !b.remembers() { // nothing is made for a name that may be wrong
		now := b.core.clock.Now()
		return &backup.Outcome{Attempt: backup.Attempt{Run: now, Try: 1, Began: now}, Ended: now, Err: err}, BackupRun{}, err
	}
	unlock, err := b.lock()
	if err != nil {
		return nil, BackupRun{}, err
	}
	defer unlock()
	return b.byHand(ctx, open, opts...)
}

// remembers tells that runs were remembered here before.
func (b *Backups) remembers() bool {
	_, err := os.Stat(b.core.jobsDir())
	return err == nil
}

// byHand is called with the lock.
func (b *Backups) byHand(ctx context.Context, open func(ctx context.Context) (*Manager, error), opts ...BackupOption) (o *backup.Outcome, run BackupRun, err error) {
	st, err := b.State(ctx)
	switch {
	case errors.Is(err, tiers.ErrCorrupt):
		st = backup.State{}
	case err != nil:
		return nil, run, fmt.Errorf("read the state of the schedule: %w", err)
	}
	began := b.core.clock.Now()
	st = b.schedule.Observe(st, began)
	st.BeginByHand(began)
	unsaved := b.state.Save(ctx, st) // the same is tried at the end
	n := nightly{b: b, open: open, opts: opts}
	a := backup.Attempt{Run: began, Try: 1, Began: began, State: st}
	err = n.work(ctx, a)
	ended := b.core.clock.Now()
	interrupted := false
	switch {
	case st.Ended(time.Time{}, ended, err):
	case errors.Is(ctx.Err(), context.Canceled):
		interrupted = true
		st.EndByHand(ended)
	default:
		st.FailedByHand(ended, err)
	}
	if failed := b.state.Save(context.WithoutCancel(ctx), st); failed != nil {
		err = errors.Join(err, unsaved, failed)
	}
	if interrupted || errors.Is(err, backup.ErrNothing) {
		return nil, n.last, err
	}
	o = &backup.Outcome{Attempt: a, Ended: ended, Err: err}
	if b.core.plan.Backup.Enabled && b.watches(st, "", ended) { // else nobody is known to make it
		o.Next = b.schedule.Plan(st, ended).At
	}
	return o, n.last, err
}

// run is called with the lock.
func (b *Backups) run(ctx context.Context, m *Manager, st backup.State, opts ...BackupOption) (run BackupRun, err error) {
	o := b.core.backupOptions(opts)
	run.LeftOut = m.leftOut()
	if run.Manifest, run.Report, err = m.core.backup(ctx, b.repo, o); err != nil {
		return run, err
	}
	return b.finish(ctx, run, st, o)
}

// finish does what follows once a backup is there: a later attempt of the same run may
// do it again, see resumed.
func (b *Backups) finish(ctx context.Context, run BackupRun, st backup.State, o backupOptions) (_ BackupRun, err error) {
	run.Verified = true
	if err := b.core.know(run.Manifest.Store); err != nil {
		return run, err
	}
	rehearse, err := b.due(ctx, run.Manifest.Store)
	if err != nil {
		return run, err
	}
	if rehearse && !run.Report.Rehearsed {
		if run.Report, err = b.repo.Telling(o.progress).Verify(ctx, run.Manifest.ID, true); err != nil {
			run.Verified, run.Report.Rehearsed = !errors.Is(err, tiers.ErrCorrupt), false
			return run, fmt.Errorf("rehearse a restore: %w", err)
		}
	}
	run.Decisions, err = b.repo.Prune(ctx, b.policy(st, run.Manifest.Store), false)
	return run, err
}

// named gives an error a name of what failed, if it has none.
func named(op string, err error) error {
	var e *tiers.Error
	if err == nil || errors.As(err, &e) && e.Op != "" {
		return err
	}
	return &tiers.Error{Op: op, Err: err}
}

// Serve makes backups when they are due, until the context ends, whether or not the
// configuration enables that. open opens the store for a run and is given what
// closes it; so the store is not held between the runs.
func (b *Backups) Serve(ctx context.Context, open func(ctx context.Context) (*Manager, error)) error {
	b.sweepUnpacked(ctx)
	r, err := b.start(open) //nolint:contextcheck // the runner has one of its own, which Close ends
	if err != nil {
		return err
	}
	<-ctx.Done()
	return r.Close(context.WithoutCancel(ctx))
}

// start starts the schedule.
func (b *Backups) start(open func(ctx context.Context) (*Manager, error)) (*runner, error) {
	n := &nightly{b: b, open: open}
	c := b.core
	r, err := backup.StartRunner(backup.RunnerConfig{
		Schedule: b.schedule, Work: n.work, State: b.state, Clock: c.clock, Logger: c.log,
		Lock: func(context.Context) (func(), bool, error) {
			unlock, _, err := c.tryBackups()
			return unlock, unlock != nil, err
		},
		Owner:     func() string { return lockedBy(c.jobsDir()) },
		OnSuccess: n.tell, OnFailure: n.tell,
	})
	if err != nil {
		return nil, err
	}
	return c.watching(r), nil
}

// nightly is the work of a runner, which does one thing at a time.
type nightly struct {
	b    *Backups
	open func(ctx context.Context) (*Manager, error)
	opts []BackupOption
	last BackupRun
}

func (n *nightly) work(ctx context.Context, a backup.Attempt) (err error) {
	n.last = BackupRun{}
	if err := n.b.Existing(); err != nil {
		return err
	}
	m, err := n.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close(context.WithoutCancel(ctx))) }()
	if !m.core.backupOptions(n.opts).newStore {
		if err := m.core.sameStore(ctx); err != nil {
			return err
		}
	}
	var resumed bool
	if n.last, resumed, err = n.b.resumed(ctx, m, a, n.opts...); resumed || err != nil {
		return err
	}
	n.last, err = n.b.run(ctx, m, a.State, n.opts...)
	if errors.Is(err, backup.ErrEmpty) && n.b.never(ctx, a.State) {
		err = fmt.Errorf("%w: %w", backup.ErrNothing, err)
	}
	return err
}

// tell tells the configured webhook and command about a success, and about the
// first failure of a run.
func (n *nightly) tell(ctx context.Context, o backup.Outcome) error {
	if o.Err != nil && o.Try > 1 && !errors.Is(o.Err, backup.ErrRefused) {
		return backup.ErrUnasked // it was told at the first
	}
	return n.b.tell(ctx, o, n.last)
}

// startBackups starts the job of a store that has it enabled.
func (c *core) startBackups(ctx context.Context) error {
	if !c.plan.Backup.Enabled || c.jobs.off {
		return nil
	}
	b, err := c.ownBackups(ctx)
	if err != nil {
		return &tiers.Error{Op: "open backups", Err: err}
	}
	self := &Manager{core: c, view: true}                                                 // closing a view does nothing
	c.runner, err = b.start(func(context.Context) (*Manager, error) { return self, nil }) //nolint:contextcheck // it outlives the opening
	return err
}

// stopBackups ends a backup that is under way.
func (c *core) stopBackups(ctx context.Context) (err error) {
	if c.runner != nil {
		err = c.runner.Close(context.WithoutCancel(ctx))
	}
	c.backing.Lock()
	defer c.backing.Unlock()
	if c.backups != nil {
		err = errors.Join(err, c.backups.Close())
	}
	return err
}
