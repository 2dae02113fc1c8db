package manager

import (
	"context"
	"errors"
	"fmt"

	"github.com/sagestore/sagestore/backup"
)

// told is what became of a notice for one recipient.
type told struct {
	key string // of the configuration
	err error
}

// tell tells the configured webhook and command, and remembers of each whether that
// worked. Without either it is backup.ErrUnasked.
func (b *Backups) tell(ctx context.Context, o backup.Outcome, run BackupRun) error {
	plan := b.core.plan.Backup
	note := backup.NoticeOf(o, &run.Manifest, run.Report)
	var all []told
	if plan.Webhook != "" {
		all = append(all, told{"webhook", backup.Webhook(string(plan.Webhook))(ctx, note)})
	}
	key, command := "on_success", plan.OnSuccess
	if note.Event != backup.EventSucceeded {
		key, command = "on_failure", plan.OnFailure
	}
	if len(command) > 0 {
		all = append(all, told{key, backup.Command(command)(ctx, note)})
	}
	if len(all) == 0 {
		return backup.ErrUnasked
	}
	if err := b.noteTold(ctx, all); err != nil {
		b.core.log.WarnContext(ctx, "whether the notices worked is not remembered", "error", err)
	}
	return untoldOf(all)
}

// untoldOf says who was not told and why; nil: all were.
func untoldOf(all []told) error {
	var errs []error
	for _, t := range all {
		if t.err != nil {
			errs = append(errs, fmt.Errorf("backup.%s: %w", t.key, t.err))
		}
	}
	switch {
	case len(errs) == 0:
		return nil
	case len(errs) < len(all):
		return fmt.Errorf("not everybody was told about the backup: %w", errors.Join(errs...))
	}
	return fmt.Errorf("nobody was told about the backup: %w", errors.Join(errs...))
}

// untoldFor is where a state remembers a recipient.
func untoldFor(st *backup.State, key string) *backup.Untold {
	switch key {
	case "webhook":
		return &st.Untold.Webhook
	case "on_success":
		return &st.Untold.OnSuccess
	}
	return &st.Untold.OnFailure
}

// noteTold remembers what became of notices. The lock is free by then, and taken by
// others for an instant at most, unless the next run has begun.
func (b *Backups) noteTold(ctx context.Context, all []told) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil // it was this process that ended them
	}
	if !b.remembers() {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	after := func() (st backup.State, changed bool, err error) {
		if st, err = b.State(ctx); err != nil {
			return st, false, err // what can't be read is not overwritten for this
		}
		before := st
		for _, t := range all {
			untoldFor(&st, t.key).Told(b.core.clock.Now(), t.err)
		}
		return st, st != before, nil
	}
	if _, changed, err := after(); err != nil || !changed {
		return err
	}
	unlock, err := b.lock()
	if err != nil {
		return err
	}
	defer unlock()
	st, _, err := after()
	if err != nil {
		return err
	}
	return b.state.Save(ctx, st)
}

// findUntold tells who of those that are to be told was not, the last time.
func (b *Backups) findUntold(s *BackupStatus) {
	plan := b.core.plan.Backup
	for _, one := range []struct {
		key        string
		configured bool
	}{
		{"webhook", plan.Webhook != ""}, {"on_success", len(plan.OnSuccess) > 0}, {"on_failure", len(plan.OnFailure) > 0},
	} {
		u := untoldFor(&s.State, one.key)
		if one.configured && u.Failures > 0 {
			s.find(false, "notices", fmt.Sprintf("backup.%s was not told %d times in a row, the last at %s: %s", one.key, u.Failures, stamp(u.Failed), u.Cause),
				"mend that; the next run that it can be told of ends this, such as `sagestore backup create`")
		}
	}
}
