package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/tiers"
)

// loadingFile is, in the data directory, the copy of a database on a server that a
// restore has decided to load. Whoever opens the store does so first, as long as it is
// there. So the trees of files, which are swapped with it, and the database are of one
// instant, whatever becomes of a process in between.
const loadingFile = "restoring.postgres"

// onServer tells whether the database of the store is on a server, which loads copies.
func (c *core) onServer() bool {
	d, ok := c.drivers.Find("database", c.plan.Config().Database.Driver)
	return ok && d.Copies != nil && d.Copies.Format() == tiers.FormatPostgres
}

// databasePath is where the database goes below a directory that is restored into.
func (c *core) databasePath() string {
	if c.onServer() {
		return "sage.postgres"
	}
	return partPath("database")
}

// sameEngine refuses a backup whose database is of another engine than the store.
func (c *core) sameEngine(m *backup.Manifest) error {
	for _, p := range m.Parts {
		if p.Name == "database" && (p.Format == tiers.FormatPostgres) != c.onServer() {
			return tiers.Hint(fmt.Errorf("%w: the database of the backup is in the format %s, and that of the store is on %s", tiers.ErrUnsupported, p.Format, c.plan.Config().Database.Driver),
				"restore it with the configuration that it was made with, then `sagestore migrate --from CONFIG --to CONFIG`")
		}
	}
	return nil
}

// finishLoading loads what a restore has left to be loaded, and answers where the server
// keeps what was there before.
func (c *core) finishLoading(ctx context.Context, drivers tiers.Drivers) (replaced string, err error) {
	place := filepath.Join(c.plan.DataDir, loadingFile)
	if _, err := os.Lstat(place); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	l, ok := tiers.As[tiers.Loader](c.systemTier)
	if !ok {
		return "", tiers.Hint(fmt.Errorf("%w: a restore to PostgreSQL is not over", tiers.ErrUnavailable),
			"open the store with its configuration, which finishes it, or remove "+place)
	}
	if replaced, err = l.LoadCopy(ctx, place, factEpoch); err != nil {
		return "", tiers.Hint(fmt.Errorf("finish a restore: %w", err), "mend the cause and open the store again")
	}
	if err := os.Remove(place); err != nil {
		return replaced, err
	}
	d, err := os.Open(c.plan.DataDir)
	if err != nil {
		return replaced, err
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return replaced, err
	}
	// The handle has seen the store that was replaced.
	if err := c.systemTier.Close(ctx); err != nil {
		return replaced, err
	}
	c.system, c.systemTier, c.committer = nil, nil, nil
	return replaced, c.openSystem(ctx, drivers)
}

// aside opens the system store alone, for fn.
func (b *Backups) aside(ctx context.Context, fn func(c *core) error) (err error) {
	c := &core{plan: b.core.plan, clock: b.core.clock, log: b.core.log, drivers: b.core.drivers, stations: make(map[string]*station)}
	defer func() { err = errors.Join(err, c.closeTiers(context.WithoutCancel(ctx))) }()
	if err := c.openSystem(ctx, b.core.drivers); err != nil {
		return err
	}
	return fn(c)
}

// inSystem is aside where the store is not open.
func (b *Backups) inSystem(ctx context.Context, fn func(c *core) error) error {
	if b.core.system != nil {
		return fn(b.core)
	}
	return b.aside(ctx, fn)
}

// readyToLoad sees that the server answers, and that nobody uses the store.
func (b *Backups) readyToLoad(ctx context.Context, stopped bool) error {
	if b.core.system != nil {
		return tiers.Hint(fmt.Errorf("%w: this program has the store open", tiers.ErrUnavailable), "close it first")
	}
	if !stopped {
		return tiers.Hint(fmt.Errorf("%w: nobody can tell who has a store on postgres open", tiers.ErrUnsupported),
			"stop every program that uses the store, then say so with --stopped")
	}
	return b.aside(ctx, func(c *core) error {
		_, err := c.finishLoading(ctx, b.core.drivers)
		return err
	})
}

// load is the last step of a restore in place.
func (b *Backups) load(ctx context.Context, done *RestoredStore) error {
	return b.aside(ctx, func(c *core) error {
		replaced, err := c.finishLoading(ctx, b.core.drivers)
		if replaced != "" {
			done.Replaced = append(done.Replaced, "schema "+replaced)
		}
		if err == nil && done.Places != nil {
			done.Places["database"] = tiers.Describe(c.systemTier).Place
		}
		return err
	})
}
