package manager

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/tiers"
)

// NewEpoch gives the store of a configuration a new random epoch, and answers it. The
// epoch is part of every key in Redis, so a store that was copied with its data
// directory shares the cache entries of the one it was copied from, and each of both
// answers what the other has saved, until one of them gets an epoch of its own. Of
// what the cache holds under the old epoch this store sees nothing any more;
// what waits in its journal is kept.
//
// Nobody may have the store open: that is tiers.ErrUnavailable, and says who has.
// The options count as for [OpenBackups].
func NewEpoch(ctx context.Context, cfg *config.Config, drivers tiers.Drivers, opts ...OpenOption) (epoch string, err error) {
	defer func() { err = named("make a new epoch", err) }()
	var o openOptions
	for _, opt := range opts {
		if opt != nil {
			opt.open(&o)
		}
	}
	c, err := prepare(cfg, drivers, o)
	if err != nil {
		return "", err
	}
	place, copies, err := c.systemFile()
	if err != nil {
		return "", err
	}
	if err := backup.Resume(ctx, c.plan.DataDir, c.copies()...); err != nil {
		return "", err
	}
	if _, err := os.Stat(place); err != nil {
		return "", tiers.Hint(fmt.Errorf("%w: there is no store at %s", tiers.ErrNotFound, place), "name its data directory with --data-dir")
	}
	release, err := copies.Seize(ctx, place)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, release()) }()
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	epoch = hex.EncodeToString(id[:])
	return epoch, copies.Adopt(ctx, place, map[string]string{factEpoch: epoch})
}

// systemFile answers the file of the database that keeps the facts, and what sets them
// while nobody has it open.
func (c *core) systemFile() (place string, copies tiers.Copies, err error) {
	if c.plan.InMemory {
		return "", nil, tiers.Hint(fmt.Errorf("%w: the whole store lives in memory, and has a new epoch each time", tiers.ErrUnsupported), "there is nothing to do")
	}
	b := &Backups{core: c}
	place = b.places()["database"]
	i := slices.IndexFunc(c.copies(), func(one tiers.Copies) bool { return one.Format() == tiers.FormatSQLite })
	if place == "" || i < 0 || c.onServer() {
		return "", nil, tiers.Hint(fmt.Errorf("%w: the facts of this store are in no SQLite database", tiers.ErrUnsupported),
			"restore a backup of it, which makes a new epoch")
	}
	return place, c.copies()[i], nil
}
