package manager

import (
	"context"

	"github.com/sagestore/sagestore/backup"
)

// resumed goes on with the backup that an earlier attempt of the same run has
// published before its rehearsal or its prune failed, or its process died: another
// full backup would help nobody. ok is false where there is none, or none that is
// sound; then one has to be made.
func (b *Backups) resumed(ctx context.Context, m *Manager, a backup.Attempt, opts ...BackupOption) (run BackupRun, ok bool, err error) {
	if a.Try < 2 {
		return run, false, nil
	}
	store, err := m.core.storeID(ctx)
	if err != nil {
		return run, false, err
	}
	for e, err := range b.repo.List(ctx) {
		if err != nil {
			return run, false, err
		}
		if e.Err != nil || e.Manifest.Store != store {
			continue
		}
		made := e.Manifest.Created
		if made.Before(a.Run) || made.After(b.core.clock.Now().Add(backup.DefaultTolerance)) {
			break // the newest is of another run, or of a wrong clock
		}
		run.Manifest, run.LeftOut = e.Manifest, m.leftOut()
		run.Report = reportOf(&e)
		if e.Verified.IsZero() {
			if run.Report, err = b.repo.Verify(ctx, e.ID, false); err != nil {
				return BackupRun{}, false, ctx.Err()
			}
		}
		run, err = b.finish(ctx, run, a.State, b.core.backupOptions(opts))
		return run, true, err
	}
	return BackupRun{}, false, nil
}

// reportOf is what is known of a backup that was verified before.
func reportOf(e *backup.Entry) backup.Report {
	r := backup.Report{ID: e.ID, Parts: len(e.Manifest.Parts), Bytes: e.Manifest.Bytes(), Rehearsed: !e.Rehearsed.IsZero(), Authentic: e.Authentic}
	for _, n := range e.Manifest.Records() {
		r.Records += n
	}
	return r
}
