package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/tiers"
)

// ErrNoStore is of a store that is not there; it is tiers.ErrNotFound as well. Opening
// it would make an empty one.
var ErrNoStore = fmt.Errorf("the store was %w", tiers.ErrNotFound)

// BackupAllowEmpty makes a backup of a store without any record as well, which is
// backup.ErrEmpty otherwise: it would be verified with nothing to check.
func BackupAllowEmpty() BackupOption {
	return backupOption(func(o *backupOptions) { o.allowEmpty = true })
}

// Existing tells whether the store is there, or comes back by a restore that was
// interrupted, without opening or making it: one that is not is [ErrNoStore], and one
// whose database is the memory of a process, which no other can look into,
// tiers.ErrUnsupported. Of drivers whose store is no file here it knows nothing, and
// answers nil.
func (b *Backups) Existing() error {
	if b.core.plan.Config().Database.Driver != "sqlite" || b.core.onServer() {
		return nil
	}
	path := b.places()["database"]
	if b.core.plan.Config().SQLite.Path == ":memory:" {
		return named("backup", tiers.Hint(fmt.Errorf("%w: sqlite.path keeps the database in the memory of its process, so there is nothing here to back up", tiers.ErrUnsupported),
			"name a file under sqlite.path"))
	}
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if backup.Unfinished(b.core.plan.DataDir) {
			return nil
		}
		err = tiers.Hint(fmt.Errorf("%w: %s is not there", ErrNoStore, path),
			"see that data_dir, or --data-dir, is that of the store that is meant; a whole restore brings back one that was lost")
	}
	return named("backup", err)
}

// never tells that there is no backup at the place, and as far as is remembered never
// was: an empty store is a new one then. A backup of another store counts, since a
// disk that was not mounted looks like a new store with another id.
func (b *Backups) never(ctx context.Context, st backup.State) bool {
	if !st.LastGood.IsZero() {
		return false
	}
	for e, err := range b.repo.List(ctx) {
		if err != nil || e.ID != "" {
			return false // nor where that can't be told
		}
	}
	return true
}

// emptyBefore tells that the newest backup of the store is empty, too: somebody has
// allowed that.
func (c *core) emptyBefore(ctx context.Context, repo *backup.Repo) bool {
	store, err := c.ownID(ctx)
	if err != nil || store == "" {
		return false
	}
	for e, err := range repo.List(ctx) {
		if err != nil {
			return false
		}
		if e.Err == nil && !e.Verified.IsZero() && e.Manifest.Store == store {
			return e.Manifest.Empty()
		}
	}
	return false
}
