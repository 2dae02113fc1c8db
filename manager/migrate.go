package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/tiers"
)

// MigrateOptions say how [MigrateCategory] works. The zero value moves.
type MigrateOptions struct {
	DryRun bool // check and count only
	// Stopped says that no program has the store open, where the store can't tell that
	// itself, as on a server.
	Stopped bool
	// Progress is called after each step and with each part of one, if it is not nil.
	Progress func(MigrateProgress)
}

// MigrateProgress says how far a migration is.
type MigrateProgress struct {
	Step     string // check, copy, verify, switch, remove
	Category string
	Done     int64 // records of this step
	Total    int64 // 0: not known
	Bytes    int64 // of keys and values, of this step
}

// CategoryMigrated says what became of a category.
type CategoryMigrated struct {
	Category string
	From, To string // tiers; equal when there was nothing to move
	Records  int64  // that were moved, or would be
	Bytes    int64  // of keys and values
	Hash     string // SHA-256 of the records, read back from their new home
	Removed  int64  // records that were removed from the old home
	Resumed  bool   // an earlier run had begun it
}

// move is a migration that has begun, as the store remembers it. The records are in
// From, and what To has are copies, until the fact of the home says To; from then on
// what From still has is left over.
type move struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// MigrateCategory moves the records of a category, of all namespaces, from the tier
// where they are to the one that the configuration names for it now. They keep all they
// have: value, version, times, the instant of expiry, codec, schema and flags. What a
// full-text index holds of them is made anew by who searches them.
//
// Nobody else may have the store open: that is tiers.ErrUnavailable. Everything is
// checked before anything changes, and all faults are told at once: records that can't
// be read (tiers.ErrCorrupt), that the new home has no room for (tiers.ErrTooLarge), or
// that it holds already in another version that is not older (tiers.ErrConflict). The
// records are copied, read back and compared; then the new home becomes the home, by one
// write to the system store; only then they are removed from the old one. A run that was
// interrupted, at whatever point, loses nothing, and the next one goes on.
func MigrateCategory(ctx context.Context, cfg *config.Config, drivers tiers.Drivers, category string, o MigrateOptions, opts ...OpenOption) (done CategoryMigrated, err error) {
	defer func() { err = named("migrate", err) }()
	m, err := Open(ctx, cfg, drivers, append(slices.Clone(opts), WithoutJobs(), AllowMoved())...)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, m.Close(context.WithoutCancel(ctx))) }()
	c := m.core
	release, err := c.exclude(ctx, o.Stopped)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := c.facts.refresh(ctx); err != nil {
		return done, err
	}
	v := &mover{m: m, c: c, options: o, done: CategoryMigrated{Category: category}}
	err = v.run(ctx)
	return v.done, err
}

// exclude keeps everybody else from opening the store.
func (c *core) exclude(ctx context.Context, stopped bool) (release func() error, err error) {
	if x, ok := tiers.As[tiers.Excluder](c.systemTier); ok {
		return x.Exclude(ctx)
	}
	if !stopped {
		return nil, tiers.Hint(fmt.Errorf("%w: nobody can tell who has a store on %s open", tiers.ErrUnsupported, tiers.Describe(c.systemTier).Driver),
			"stop every program that uses the store, then say so with --stopped")
	}
	unlock, ok, err := c.system.Lock(ctx, "migrate")
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, tiers.Hint(fmt.Errorf("%w: another migration of the store is under way", tiers.ErrUnavailable), "wait for its end")
	}
	return func() error { unlock(); return nil }, nil
}

// moving answers the migration of a category that has begun and is not over.
func (f *facts) moving(category string) (m move, ok bool) {
	text := f.get(factMoving + category)
	ok = text != "" && json.Unmarshal([]byte(text), &m) == nil
	return m, ok
}

// migrateHint says how the records come to a new home.
func migrateHint(category string) string {
	return "`sagestore migrate --category " + category + "` moves them"
}

// checkMoving answers an error when a migration that was interrupted has left copies
// where the configuration looks for the category, or has left over what it moved.
func (c *core) checkMoving(category, tier string) error {
	mv, ok := c.facts.moving(category)
	if !ok || c.moved {
		return nil
	}
	home, session := c.facts.home(category), c.facts.get(factSession+category)
	copies := tier == mv.To && home != mv.To
	over := tier == mv.From && home == mv.To
	if !copies && !over && (home != mv.To || session == "" || session == home) {
		return nil
	}
	return tiers.Hint(fmt.Errorf("%w: a migration from %s to %s was interrupted", tiers.ErrCategory, mv.From, mv.To),
		"`sagestore migrate --category "+category+"` goes on with it")
}
