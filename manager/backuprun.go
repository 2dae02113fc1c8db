package manager

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
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
}

// Run does by hand what the nightly job does: it makes a backup of the store and
// verifies it, rehearses a restore when that is due, and removes the backups that
// the configuration no longer keeps. Only one runs at a time among the processes of
// the store; another one is tiers.ErrConflict, and says whose it is.
//
// An error beside a manifest is about a backup that is there: one that wraps
// backup.ErrRefused says why no earlier one was removed.
func (b *Backups) Run(ctx context.Context, m *Manager, opts ...BackupOption) (run BackupRun, err error) {
	defer func() { err = named("backup", err) }()
	slot, err := m.enter(ctx)
	if err != nil {
		return run, err
	}
	defer m.core.gate.leave(slot)
	unlock, err := b.lock()
	if err != nil {
		return run, err
	}
	defer unlock()
	st, err := b.State(ctx)
	switch {
	case errors.Is(err, tiers.ErrCorrupt):
		st = backup.State{}
	case err != nil:
		return run, fmt.Errorf("read the state of the schedule: %w", err)
	}
	st = b.schedule.Observe(st, b.core.clock.Now())
	run, err = b.run(ctx, m, st, opts...)
	if err == nil || errors.Is(err, backup.ErrRefused) {
		st.Good(time.Time{}, b.core.clock.Now())
		err = errors.Join(err, b.state.Save(context.WithoutCancel(ctx), st))
	}
	return run, err
}

// run is called with the lock.
func (b *Backups) run(ctx context.Context, m *Manager, st backup.State, opts ...BackupOption) (run BackupRun, err error) {
	o := backupOptions{cache: b.core.plan.Backup.Cache}
	for _, opt := range opts {
		opt.backup(&o)
	}
	run.LeftOut = m.leftOut()
	if run.Manifest, run.Report, err = m.core.backup(ctx, b.repo, o); err != nil {
		return run, err
	}
	rehearse, err := b.due(ctx)
	if err != nil {
		return run, err
	}
	if rehearse {
		if run.Report, err = b.repo.Verify(ctx, run.Manifest.ID, true); err != nil {
			return run, fmt.Errorf("rehearse a restore: %w", err)
		}
	}
	run.Decisions, err = b.repo.Prune(ctx, b.policy(st), false)
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
	r, err := b.start(open) //nolint:contextcheck // the runner has one of its own, which Close ends
	if err != nil {
		return err
	}
	<-ctx.Done()
	return r.Close(context.WithoutCancel(ctx))
}

// start starts the schedule.
func (b *Backups) start(open func(ctx context.Context) (*Manager, error)) (*backup.Runner, error) {
	n := &nightly{b: b, open: open}
	c := b.core
	return backup.StartRunner(backup.RunnerConfig{
		Schedule: b.schedule, Work: n.work, State: b.state, Clock: c.clock, Logger: c.log,
		Lock: func(context.Context) (func(), bool, error) {
			unlock, _, err := lockJob(filepath.Join(c.plan.DataDir, "jobs"), "backup", c.clock.Now())
			return unlock, unlock != nil, err
		},
		OnSuccess: n.tell, OnFailure: n.tell,
	})
}

// nightly is the work of a runner, which does one thing at a time.
type nightly struct {
	b    *Backups
	open func(ctx context.Context) (*Manager, error)
	last BackupRun
}

func (n *nightly) work(ctx context.Context, a backup.Attempt) (err error) {
	n.last = BackupRun{}
	m, err := n.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close(context.WithoutCancel(ctx))) }()
	n.last, err = n.b.run(ctx, m, a.State)
	return err
}

// tell tells the configured webhook and command about a success, and about the
// first failure of a run.
func (n *nightly) tell(ctx context.Context, o backup.Outcome) error {
	if o.Err != nil && o.Try > 1 && !errors.Is(o.Err, backup.ErrRefused) {
		return nil
	}
	plan := n.b.core.plan.Backup
	note := backup.NoticeOf(o, &n.last.Manifest, n.last.Report)
	var errs []error
	if plan.Webhook != "" {
		errs = append(errs, backup.Webhook(string(plan.Webhook))(ctx, note))
	}
	command := plan.OnSuccess
	if note.Event != backup.EventSucceeded {
		command = plan.OnFailure
	}
	if len(command) > 0 {
		errs = append(errs, backup.Command(command)(ctx, note))
	}
	return errors.Join(errs...)
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
