package manager

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sagestore/sagestore/backup"
)

// Show answers a backup by its id. backup.Latest is the newest verified one of this
// store, in a format that its database can restore: never that of another store that
// keeps its backups in the same place. Where there is no store yet, or it is empty or
// can't be read, all backups have to be of one store, else it is tiers.ErrConflict.
func (b *Backups) Show(ctx context.Context, id string) (backup.Entry, error) {
	if id == backup.Latest {
		return b.At(ctx, time.Time{})
	}
	return b.repo.Show(ctx, id)
}

// At answers what [Backups.Show] does of backup.Latest, as it was at t: no younger
// backup counts.
func (b *Backups) At(ctx context.Context, t time.Time) (backup.Entry, error) {
	store, known, _ := b.identity(ctx)
	format := ""
	if d, ok := b.core.drivers.Find("database", b.core.plan.Config().Database.Driver); ok && d.Copies != nil {
		format = d.Copies.Format()
	}
	return b.repo.Choose(ctx, backup.Choice{Until: t, Store: store, Known: known, Format: format})
}

// OwnStore answers the id of this store, as backups name it; "" when there is none,
// when no backup was ever made of it, or when it can't be read.
func (b *Backups) OwnStore(ctx context.Context) string { return b.ownStore(ctx) }

// identity answers the id of the store, and whether there is one to speak of: a backup of
// it was made here, or it can be read and holds any record or file. A new one that was
// opened by mistake before a restore is none; one of which backups were made here does
// not become another one by that. unread is why one that may be there can't be read.
func (b *Backups) identity(ctx context.Context) (id string, there bool, unread error) {
	known, err := b.core.known()
	if err == nil && known != "" {
		return known, true, nil
	}
	look := func(c *core) (err error) {
		if id, err = c.ownID(ctx); err != nil {
			return err
		}
		for _, err := range c.systemTier.Spaces(ctx) {
			there = err == nil
			return err
		}
		there = hasFiles(b.places()["file"])
		return nil
	}
	if b.core.system == nil && !b.core.onServer() { // which would be made
		_, err := os.Stat(b.places()["database"])
		if errors.Is(err, fs.ErrNotExist) {
			return "", false, nil
		}
		if err != nil {
			return "", false, err
		}
	}
	if err := b.inSystem(ctx, look); err != nil {
		return "", false, err
	}
	return id, there, nil
}

// hasFiles tells whether there is a file below dir, other than the hidden ones that the
// tier needs for itself.
func hasFiles(dir string) (found bool) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // what can't be read may be anything
		switch {
		case err != nil:
			return err
		case path != dir && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Type().IsRegular():
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found
}
