package manager

import (
	"context"
	"fmt"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/conflict"
	"github.com/sagestore/sagestore/tiers"
)

// RestoreOptions say how a store is restored.
type RestoreOptions struct {
	// To is a directory that is empty or not there: it becomes a data directory, and
	// the store stays as it is. "" replaces the store itself, which nobody may have
	// open.
	To string
	// Stopped says that no program has the store open, where the store can't tell that
	// itself, as on a server.
	Stopped bool
	// Adopt takes a backup of another store than the one in place, if there is any
	// record in that.
	Adopt bool
	// Protect are paths that may not be moved, such as the configuration.
	Protect  []string
	Progress func(backup.Progress)
}

// RestoredStore says what a restore has done.
type RestoredStore struct {
	backup.Restored

	Without []string // parts of the backup that have no place in this store
}

// Restore restores a backup, which may be backup.Latest, see [Backups.Show]. It unpacks and verifies
// beside the place and then swaps; what was there before is kept and named. The
// store gets a new epoch: what Redis holds under the old one may be newer than the
// backup, and is not seen again. A local cache that the backup does not hold begins
// empty for the same reason, and what it held is kept as well.
func (b *Backups) Restore(ctx context.Context, id string, o RestoreOptions) (done RestoredStore, err error) {
	e, err := b.Show(ctx, id)
	if err != nil {
		return done, err
	}
	if o.To != "" {
		if problem := b.core.plan.BackupPlace(o.To); problem != "" {
			return done, tiers.Fail("restore backup "+e.ID, "", tiers.Key{}, tiers.Hint(fmt.Errorf("%w: %s", tiers.ErrUnsupported, problem), "name another directory with --to"))
		}
		done.Restored, err = b.repo.Restore(ctx, e.ID, backup.RestoreOptions{To: o.To, Progress: o.Progress})
		return done, err
	}
	if err := b.core.sameEngine(&e.Manifest); err != nil {
		return done, tiers.Fail("restore backup "+e.ID, "", tiers.Key{}, err)
	}
	if b.core.onServer() {
		if err := b.readyToLoad(ctx, o.Stopped); err != nil {
			return done, tiers.Fail("restore backup "+e.ID, "", tiers.Key{}, err)
		}
	}
	places := b.places()
	r := backup.RestoreOptions{
		Dir: b.core.plan.DataDir, Places: places, Protect: o.Protect, Adopt: o.Adopt, Progress: o.Progress,
	}
	r.Parts, done.Without = placed(&e.Manifest, places)
	if d, ok := b.core.drivers.Find("cache", "file"); ok && d.Copies != nil {
		r.Empty = map[string]string{"cache": d.Copies.Format()}
	}
	own, there, _ := b.identity(ctx)
	if there {
		r.Store = own
	}
	if there && own == "" && e.Err == nil && !o.Adopt {
		return done, tiers.Fail("restore backup "+e.ID, "", tiers.Key{}, tiers.Hint(
			conflict.Errorf("it is of store %q, and the one in place has records and never had a backup", e.Manifest.Store), "add --adopt if it is meant; what is in place is kept beside"))
	}
	if done.Restored, err = b.repo.Restore(ctx, e.ID, r); err != nil {
		return done, err
	}
	if err := b.core.know(e.Manifest.Store); err != nil {
		return done, tiers.Fail("restore backup "+e.ID, "", tiers.Key{}, fmt.Errorf("it is restored, and whose backups are made is not remembered: %w", err))
	}
	if !b.core.onServer() {
		return done, nil
	}
	if err := b.load(ctx, &done); err != nil {
		return done, tiers.Fail("restore backup "+e.ID, "", tiers.Key{}, tiers.Hint(fmt.Errorf("the restore is decided and not finished: %w", err), "mend the cause and open the store, which finishes it"))
	}
	return done, nil
}

// ownStore answers the id of the store; "" when there is none, when no backup was ever
// made of it, or when it can't be read: then there is nothing to compare with.
func (b *Backups) ownStore(ctx context.Context) string {
	id, _, _ := b.identity(ctx)
	return id
}

// Effective answers what the configuration of the backups came to.
func (b *Backups) Effective() *config.Effective { return b.core.plan }
