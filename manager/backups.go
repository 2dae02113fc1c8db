package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/conflict"
	"github.com/sagestore/sagestore/internal/oneline"
	"github.com/sagestore/sagestore/tiers"
)

// BucketOpener opens the bucket that a URL names; the closer may be nil.
type BucketOpener func(ctx context.Context, url string) (backup.Bucket, io.Closer, error)

// WithBuckets lets backup.dest be a URL, which open opens: cloud.Open of package
// backup/cloud, or one of the program's own. Without it dest is a directory.
func WithBuckets(open BucketOpener) OpenOption {
	return openOption(func(o *openOptions) { o.buckets = open })
}

// Backups are the backups of a store: where they are, when they are made, and
// which stay. They can be listed, verified and restored without opening the
// store. They are safe for concurrent use.
type Backups struct {
	core     *core // of which only the plan, the clock and the codecs are used
	repo     *backup.Repo
	closer   io.Closer
	schedule *backup.Schedule
	state    backup.StateStore
}

// OpenBackups answers the backups that a configuration names, without opening the
// store. Of the options [WithLogger], [WithClock], [WithCodec], [WithKeys] and
// [WithBuckets] count. The caller closes them.
func OpenBackups(ctx context.Context, cfg *config.Config, drivers tiers.Drivers, opts ...OpenOption) (*Backups, error) {
	var o openOptions
	for _, opt := range opts {
		if opt != nil {
			opt.open(&o)
		}
	}
	c, err := prepare(cfg, drivers, o)
	if err == nil {
		var b *Backups
		if b, err = newBackups(ctx, c); err == nil {
			return b, nil
		}
	}
	return nil, &tiers.Error{Op: "open backups", Err: err}
}

// Backups answers the backups of the store. They are the manager's to close.
func (m *Manager) Backups(ctx context.Context) (*Backups, error) {
	slot, err := m.enter(ctx)
	if err != nil {
		return nil, &tiers.Error{Op: "open backups", Err: err}
	}
	defer m.core.gate.leave(slot)
	b, err := m.core.ownBackups(ctx)
	if err != nil {
		return nil, &tiers.Error{Op: "open backups", Err: err}
	}
	return b, nil
}

// ownBackups opens the backups once.
func (c *core) ownBackups(ctx context.Context) (*Backups, error) {
	c.backing.Lock()
	defer c.backing.Unlock()
	if c.backups != nil {
		return c.backups, nil
	}
	b, err := newBackups(ctx, c)
	if err == nil {
		c.backups = b
	}
	return b, err
}

func newBackups(ctx context.Context, c *core) (*Backups, error) {
	plan := c.plan.Backup
	if c.plan.InMemory {
		return nil, tiers.Hint(fmt.Errorf("%w: the whole store lives in memory, so there is nothing to back up", tiers.ErrUnsupported),
			"take in_memory out, and give the categories that matter another tier (categories.NAME.tier)")
	}
	if problem := c.plan.BackupPlace(plan.Dest); problem != "" {
		return nil, tiers.Hint(fmt.Errorf("%w: backup.dest: %s", tiers.ErrUnsupported, problem), "name another place under backup.dest")
	}
	b := &Backups{core: c, state: backup.StateFile(filepath.Join(c.plan.DataDir, "jobs", "backup.json"))}
	host, _ := os.Hostname() // without a name stores of several hosts are less spread
	var err error
	b.schedule, err = backup.ParseSchedule(backup.Timing{
		Interval: plan.Interval, At: plan.At, Cron: plan.Cron, Zone: plan.Zone, Jitter: plan.Jitter, Store: host + ":" + c.plan.DataDir,
	})
	if err != nil {
		return nil, err
	}
	bucket := backup.Dir(plan.Dest)
	if strings.Contains(plan.Dest, "://") {
		if c.buckets == nil {
			return nil, tiers.Hint(fmt.Errorf("%w: backup.dest is a URL, and this program opens none", tiers.ErrUnsupported),
				"give manager.WithBuckets(cloud.Open) of package backup/cloud, or name a directory")
		}
		if bucket, b.closer, err = c.buckets(ctx, plan.Dest); err != nil {
			return nil, fmt.Errorf("open backup.dest: %w", err)
		}
	}
	identities := make([]string, len(plan.Identities))
	for i, text := range plan.Identities {
		identities[i] = string(text)
	}
	old := make([][]byte, len(plan.SigningKeysOld))
	for i, text := range plan.SigningKeysOld {
		old[i] = []byte(text)
	}
	b.repo, err = backup.Open(bucket, backup.Options{
		Recipients: plan.Recipients, Identities: identities, Key: []byte(plan.SigningKey), OldKeys: old, Temp: plan.Temp, Owner: c.plan.DataDir,
		Copies: c.copies(), Decode: c.decodes, Clock: c.clock,
	})
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Close gives up what the bucket needs. It does nothing for those of a manager
// that is open.
func (b *Backups) Close() error {
	if b.closer == nil {
		return nil
	}
	return b.closer.Close()
}

// Repo answers the repository, to list, show and verify backups.
func (b *Backups) Repo() *backup.Repo { return b.repo }

// Schedule answers when backups are made, once that is enabled.
func (b *Backups) Schedule() *backup.Schedule { return b.schedule }

// State answers what the schedule remembers of earlier runs.
func (b *Backups) State(ctx context.Context) (backup.State, error) { return b.state.Load(ctx) }

// copies answers what reads the copies of the linked drivers.
func (c *core) copies() (all []tiers.Copies) {
	for _, d := range c.drivers {
		if d.Copies != nil && !slices.ContainsFunc(all, func(other tiers.Copies) bool { return other.Format() == d.Copies.Format() }) {
			all = append(all, d.Copies)
		}
	}
	return all
}

// decodes proves that a record can be read. Values of gob and of the app's own codecs
// need their Go type, so those are decrypted, decompressed and compared with their
// checksum only.
func (c *core) decodes(_ context.Context, r tiers.Record) error {
	if isStaged(r.Category) {
		return nil // it is of another category, and may be encrypted for that one
	}
	if r.Codec != "json" && r.Codec != "msgpack" {
		_, err := c.codecs.Payload(r)
		return err
	}
	var v any
	return c.codecs.Decode(r, &v)
}

// policy answers which backups stay.
func (b *Backups) policy(st backup.State, store string) backup.Policy {
	plan := b.core.plan.Backup
	p := backup.Policy{
		Last: plan.Keep.Last, Daily: plan.Keep.Daily, Weekly: plan.Keep.Weekly, Monthly: plan.Keep.Monthly,
		Zone: b.schedule.Zone(), Store: store, Seen: st.LastSeen, Accepted: st.Accepted, Smaller: st.Smaller,
	}
	if p.Last == 0 {
		p.Last, _ = plan.Retention.Count()
		p.Age, _ = plan.Retention.Age()
	}
	return p
}

// PruneOptions say how backups are pruned.
type PruneOptions struct {
	DryRun        bool // only say what would become of each
	AcceptClock   bool // the clock is right, though it was set back
	AcceptSmaller bool // the backups made until now are right, though one is much smaller
}

// Prune removes the backups that the configuration does not keep, and answers what
// became of each, newest first. An error that wraps backup.ErrRefused says why
// none may be removed; it is tiers.ErrConflict as well where they may be of another
// store, since the id of this one is not known.
func (b *Backups) Prune(ctx context.Context, o PruneOptions) ([]backup.Decision, error) {
	if o.DryRun {
		return b.prune(ctx, o)
	}
	unlock, err := b.lock()
	if err != nil {
		return nil, &tiers.Error{Op: "prune backups", Err: err}
	}
	defer unlock()
	return b.prune(ctx, o)
}

func (b *Backups) prune(ctx context.Context, o PruneOptions) ([]backup.Decision, error) {
	st, err := b.State(ctx)
	if err != nil && !errors.Is(err, tiers.ErrCorrupt) {
		return nil, err
	}
	own, there, unread := b.identity(ctx)
	if o.AcceptClock {
		st.Accept(b.core.clock.Now())
	}
	if o.AcceptSmaller {
		st.Smaller = b.core.clock.Now()
	}
	if (o.AcceptClock || o.AcceptSmaller) && !o.DryRun {
		if err := b.state.Save(ctx, st); err != nil {
			return nil, err
		}
	}
	p := b.policy(st, own)
	switch {
	case own != "":
	case unread != nil:
		p.Unknown = "this store can't be read: " + oneline.Of(unread.Error())
	case there:
		p.Unknown = "this store was never backed up"
	}
	ds, err := b.repo.Prune(ctx, p, o.DryRun)
	if err == nil && !o.DryRun && st.Refusal != "" {
		st.Refusal = ""
		err = b.state.Save(ctx, st)
	}
	return ds, err
}

// How long the lock is waited for that a runner takes to note something.
const (
	lockTries = 20
	lockPause = 25 * time.Millisecond
)

// lock takes the job's lock, which all processes of the store share.
func (b *Backups) lock() (unlock func(), err error) { return b.core.lockBackups() }

func (c *core) lockBackups() (unlock func(), err error) {
	unlock, owner, err := c.tryBackups()
	if err == nil && unlock == nil {
		err = tiers.Hint(conflict.Errorf("another backup, a prune or a restore of categories is under way%s", owner), "wait until it ends, or end that process; the lock ends with it")
	}
	return unlock, err
}

func (c *core) tryBackups() (unlock func(), owner string, err error) {
	for range lockTries {
		unlock, owner, err = lockJob(c.jobsDir(), "backup", c.clock.Now())
		if err != nil || unlock != nil {
			break
		}
		<-time.After(lockPause) // of real time: the other process has none of our clock
	}
	return unlock, owner, err
}

// lockServer keeps programs on other machines from making a backup, or restoring
// categories, at the same time, where the database is on a server that they share.
func (c *core) lockServer(ctx context.Context) (unlock func(), err error) {
	if _, local := tiers.As[tiers.Excluder](c.systemTier); local || c.system == nil {
		return func() {}, nil
	}
	unlock, ok, err := c.system.Lock(ctx, "backup")
	if err == nil && !ok {
		err = tiers.Hint(conflict.Errorf("another program makes a backup of the same database, or restores categories of it"), "wait until it ends; it may run on another machine")
	}
	return unlock, err
}

func (c *core) jobsDir() string { return filepath.Join(c.plan.DataDir, "jobs") }

// tools are the versions of what makes a backup.
func tools() map[string]string {
	const module = "github.com/sagestore/sagestore"
	version := ""
	if build, ok := debug.ReadBuildInfo(); ok {
		if build.Main.Path == module {
			version = build.Main.Version
		}
		for _, d := range build.Deps {
			if d.Path == module {
				version = d.Version
			}
		}
	}
	return map[string]string{"sagestore": cmp.Or(version, "unknown"), "go": runtime.Version()}
}

// due tells whether a new backup of the store should be rehearsed: none of it was for long
// enough.
func (b *Backups) due(ctx context.Context, store string) (bool, error) {
	plan := b.core.plan.Backup
	if plan.Rehearse < 0 || len(plan.Recipients) > 0 && len(plan.Identities) == 0 {
		return false, nil
	}
	since := b.core.clock.Now().Add(-plan.Rehearse)
	for e, err := range b.repo.List(ctx) {
		if err != nil {
			return false, err
		}
		if e.Manifest.Store == store && e.Rehearsed.After(since) && plan.Rehearse > time.Duration(0) {
			return false, nil
		}
	}
	return true, nil
}
