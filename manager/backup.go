package manager

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/tiers"
)

// factStore is the id of the store, by which a backup tells whose it is.
const factStore = "store"

// BackupOption is [BackupCache], [BackupAllowEmpty], [BackupNewStore] or [BackupProgress].
type BackupOption interface{ backup(o *backupOptions) }

type backupOptions struct {
	cache      bool
	newStore   bool
	allowEmpty bool
	progress   func(backup.Progress)
}

func (c *core) backupOptions(opts []BackupOption) backupOptions {
	o := backupOptions{cache: c.plan.Backup.Cache}
	for _, opt := range opts {
		if opt != nil {
			opt.backup(&o)
		}
	}
	return o
}

type backupOption func(o *backupOptions)

func (f backupOption) backup(o *backupOptions) { f(o) }

// BackupCache includes the cache tier where it keeps files. What Redis holds is in
// no backup.
func BackupCache() BackupOption { return backupOption(func(o *backupOptions) { o.cache = true }) }

// BackupProgress tells fn from time to time how far the backup is; fn must not
// block.
func BackupProgress(fn func(backup.Progress)) BackupOption {
	return backupOption(func(o *backupOptions) { o.progress = fn })
}

// Backup makes a backup of the store as it is at one instant, and verifies it.
// Commits of all processes wait for milliseconds; then everybody goes on while it
// is copied. It holds the database, which has the journal and the sessions as
// well, and the file tier. Left out are memory homes, Redis, the local cache unless
// [BackupCache] asks for it, and tiers of the app's own whose driver can't be
// frozen. repo is where it goes; nil is the configured place.
//
// A store without any record is backup.ErrEmpty, unless the newest backup of it is
// empty as well or [BackupAllowEmpty] is given: it may not be the one that is meant.
//
// It removes no earlier backup and knows no schedule: see [Backups.Run]. Only one
// runs at a time among the processes of the store; another one is
// tiers.ErrConflict, and says whose it is.
func (m *Manager) Backup(ctx context.Context, repo *backup.Repo, opts ...BackupOption) (backup.Manifest, error) {
	fail := func(err error) (backup.Manifest, error) {
		return backup.Manifest{}, &tiers.Error{Op: "backup", Err: err}
	}
	slot, err := m.enter(ctx)
	if err != nil {
		return fail(err)
	}
	defer m.core.gate.leave(slot)
	if repo == nil {
		b, err := m.core.ownBackups(ctx)
		if err != nil {
			return fail(err)
		}
		repo = b.repo
	}
	o := m.core.backupOptions(opts)
	if !m.core.plan.InMemory { // which is refused below
		unlock, err := m.core.lockBackups()
		if err != nil {
			return fail(err)
		}
		defer unlock()
	}
	made, _, err := m.core.backup(ctx, repo, o)
	return made, err
}

func (c *core) backup(ctx context.Context, repo *backup.Repo, o backupOptions) (m backup.Manifest, r backup.Report, err error) {
	unlock, err := c.lockServer(ctx)
	if err != nil {
		return m, r, err
	}
	defer unlock()
	m, r, err = c.backupOnce(ctx, repo, o)
	if errors.Is(err, backup.ErrEmpty) && c.emptyBefore(ctx, repo) {
		o.allowEmpty = true
		return c.backupOnce(ctx, repo, o)
	}
	return m, r, err
}

func (c *core) backupOnce(ctx context.Context, repo *backup.Repo, o backupOptions) (backup.Manifest, backup.Report, error) {
	s, err := c.freeze(ctx, o)
	if err != nil {
		return backup.Manifest{}, backup.Report{}, &tiers.Error{Op: "backup", Err: err}
	}
	return repo.Create(ctx, s)
}

// freeze answers the store as it is at one instant.
func (c *core) freeze(ctx context.Context, o backupOptions) (s backup.Source, err error) {
	if c.plan.InMemory {
		return s, tiers.Hint(fmt.Errorf("%w: the whole store lives in memory", tiers.ErrUnsupported), "take in_memory out, and give the categories that matter another tier (categories.NAME.tier)")
	}
	system, ok := tiers.As[tiers.Freezer](c.systemTier)
	if !ok {
		return s, fmt.Errorf("%w: the database's driver can't be frozen for a backup", tiers.ErrUnsupported)
	}
	s = backup.Source{Tools: tools(), Began: c.clock.Now(), RefuseEmpty: !o.allowEmpty, Progress: o.progress}
	if s.Store, err = c.storeID(ctx); err != nil {
		return s, err
	}
	others, err := c.freezers(o)
	if err != nil {
		return s, err
	}
	var parts []backup.Part
	frozen, err := system.Freeze(ctx, func(ctx context.Context) error {
		for _, other := range others {
			f, err := other.freezer.Freeze(ctx, nil)
			if err != nil {
				return tiers.Fail("freeze", other.name, tiers.Key{}, err)
			}
			parts = append(parts, backup.Part{Name: other.name, Path: partPath(other.name), Frozen: f})
		}
		return nil
	})
	if err != nil {
		for _, p := range parts {
			err = errors.Join(err, p.Frozen.Close())
		}
		return s, err
	}
	s.Parts = append(s.Parts, backup.Part{Name: "database", Path: c.databasePath(), Frozen: frozen})
	s.Parts = append(s.Parts, parts...)
	return s, nil
}

// partPath is where a part goes below a directory that becomes a data directory.
func partPath(tier string) string {
	switch tier {
	case "database":
		return "sage.db"
	case "file":
		return "data"
	}
	return tier
}

type namedFreezer struct {
	name    string
	freezer tiers.Freezer
}

// freezers answers the tiers beside the database that are in a backup.
func (c *core) freezers(o backupOptions) (all []namedFreezer, err error) {
	for _, name := range c.order {
		s := c.stations[name]
		if s.tier == c.systemTier || s.info.Scope == tiers.ScopeProcess || name == "cache" && !o.cache {
			continue
		}
		f, ok := tiers.As[tiers.Freezer](s.tier)
		switch {
		case ok:
			all = append(all, namedFreezer{name, f})
		case name == "database" || name == "file":
			return nil, tiers.Fail("freeze", name, tiers.Key{}, fmt.Errorf("%w: its driver %s can't be frozen for a backup", tiers.ErrUnsupported, s.driver))
		}
	}
	return all, nil
}

// leftOut answers the tiers that no backup of this store holds, beside those in
// memory.
func (m *Manager) leftOut() (names []string) {
	for _, name := range m.core.order {
		s := m.core.stations[name]
		if s.tier == m.core.systemTier || s.info.Scope == tiers.ScopeProcess || name == "cache" && !m.core.plan.Backup.Cache {
			continue
		}
		if _, ok := tiers.As[tiers.Freezer](s.tier); !ok {
			names = append(names, name)
		}
	}
	return names
}

// storeID answers the id of the store, which the first backup makes.
func (c *core) storeID(ctx context.Context) (string, error) {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	stored, err := c.system.SetFact(ctx, factStore, []byte(hex.EncodeToString(id[:])), true)
	return string(stored), err
}

// places answers where the parts of a backup are in this store.
func (b *Backups) places() map[string]string {
	cfg := b.core.plan.Config()
	places := map[string]string{"database": cfg.SQLite.Path, "file": cfg.File.BasePath, "cache": cfg.Cache.Path}
	if cfg.SQLite.Path == "" {
		places["database"] = filepath.Join(b.core.plan.DataDir, "sage.db")
	}
	if b.core.onServer() {
		places["database"] = filepath.Join(b.core.plan.DataDir, loadingFile)
	}
	for name, own := range cfg.Tiers {
		if _, taken := places[name]; !taken && own.Driver != "" {
			places[name] = "" // the driver alone knows
		}
	}
	return places
}

// placed leaves out the parts that have no place in this store.
func placed(m *backup.Manifest, places map[string]string) (parts, without []string) {
	for _, p := range m.Parts {
		if places[p.Name] == "" {
			without = append(without, p.Name)
		} else {
			parts = append(parts, p.Name)
		}
	}
	slices.Sort(without)
	return parts, without
}
