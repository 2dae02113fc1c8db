package manager

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

// OpenOption is [WithLogger], [WithClock], [WithCodec], [WithKeys],
// [WithObserver], [WithBuckets], [WithoutJobs] or [AllowMoved].
type OpenOption interface{ open(o *openOptions) }

type openOptions struct {
	log      *slog.Logger
	clock    tiers.Clock
	codecs   []serializer.Codec
	keys     serializer.Keys
	observer Observer
	buckets  BucketOpener
	noJobs   bool
	moved    bool
}

type openOption func(o *openOptions)

func (f openOption) open(o *openOptions) { f(o) }

// WithLogger logs to l; without it nothing is logged. Values and keys never are.
func WithLogger(l *slog.Logger) OpenOption { return openOption(func(o *openOptions) { o.log = l }) }

// WithClock takes the time from c instead of package time.
func WithClock(c tiers.Clock) OpenOption { return openOption(func(o *openOptions) { o.clock = c }) }

// WithCodec adds codecs that categories may name. A file that names one is loaded
// with config.Codecs.
func WithCodec(c ...serializer.Codec) OpenOption {
	return openOption(func(o *openOptions) { o.codecs = append(o.codecs, c...) })
}

// WithKeys takes the encryption keys from k instead of the configuration.
func WithKeys(k serializer.Keys) OpenOption { return openOption(func(o *openOptions) { o.keys = k }) }

// WithObserver tells b about every call.
func WithObserver(b Observer) OpenOption { return openOption(func(o *openOptions) { o.observer = b }) }

// WithoutJobs runs no background work: for a command that opens a store for a
// moment beside the program that owns it. [Manager.Close] flushes as ever.
func WithoutJobs() OpenOption { return openOption(func(o *openOptions) { o.noJobs = true }) }

// AllowMoved opens a store although a category's old home still holds records
// that the configuration hides: for the command that moves them.
func AllowMoved() OpenOption { return openOption(func(o *openOptions) { o.moved = true }) }

// Open opens the tiers of a configuration with the drivers that the program has
// linked: all.Tiers(), embedded.Tiers(), or a list of its own. It copies cfg,
// and takes nil for config.Default; ctx bounds the opening only. The caller
// closes the manager.
//
// A restore that was interrupted is finished first. With backup.enabled the manager
// makes the nightly backups until it is closed; see [Manager.Backup].
//
// It refuses a configuration that hides records, because it gives a category
// another home than the one that still holds them.
func Open(ctx context.Context, cfg *config.Config, drivers tiers.Drivers, opts ...OpenOption) (*Manager, error) {
	var o openOptions
	for _, opt := range opts {
		if opt != nil {
			opt.open(&o)
		}
	}
	c, err := prepare(cfg, drivers, o)
	if err != nil {
		return nil, &tiers.Error{Op: "open", Err: err}
	}
	c.nears.life = context.WithoutCancel(ctx) //nolint:fatcontext // it is made once
	if err := c.openAll(ctx, drivers); err != nil {
		return nil, &tiers.Error{Op: "open", Err: errors.Join(err, c.closeTiers(context.WithoutCancel(ctx)))}
	}
	m := &Manager{core: c}
	err = c.startJobs()
	if err == nil {
		err = c.startBackups(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close(context.WithoutCancel(ctx)))
	}
	return m, nil
}

// OpenDir opens the built-in categories with their data below dir.
func OpenDir(ctx context.Context, dir string, drivers tiers.Drivers, opts ...OpenOption) (*Manager, error) {
	cfg := config.Default()
	cfg.DataDir = dir
	return Open(ctx, cfg, drivers, opts...)
}

// OpenMemory opens the built-in categories in memory: nothing is written to
// disk, and all of it is gone at Close.
func OpenMemory(ctx context.Context, drivers tiers.Drivers, opts ...OpenOption) (*Manager, error) {
	return Open(ctx, config.InMemory(), drivers, opts...)
}

// prepare does what needs no tier.
func prepare(cfg *config.Config, drivers tiers.Drivers, o openOptions) (*core, error) {
	if cfg == nil {
		cfg = config.Default()
	}
	c := &core{
		clock: o.clock, log: o.log, observer: o.observer, moved: o.moved, drivers: drivers, buckets: o.buckets,
		stations: make(map[string]*station), gate: newGate(), closed: make(chan struct{}),
	}
	if c.clock == nil {
		c.clock = tiers.SystemClock()
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	names := make([]string, len(o.codecs))
	for i, codec := range o.codecs {
		names[i] = codec.Name()
	}
	var err error
	if c.plan, err = cfg.Resolve(config.Codecs(names...)); err != nil {
		return nil, err
	}
	if err := linked(c.plan, drivers); err != nil {
		return nil, err
	}
	if c.codecs, err = serializer.New(o.codecs...); err != nil {
		return nil, err
	}
	switch {
	case o.keys != nil:
		c.codecs = c.codecs.WithKeys(o.keys)
	case c.plan.Encryption.Current != "" || len(c.plan.Encryption.Keys) > 0:
		c.codecs = c.codecs.WithKeys(keyRing{c.plan.Encryption})
	}
	c.jobs = newJobs(c.clock, c.log, "", o.noJobs)
	if c.plan.DataDir != "" {
		c.jobs.dir = filepath.Join(c.plan.DataDir, "jobs")
	}
	return c, nil
}

// keyRing is the configuration's keys.
type keyRing struct{ ring config.KeyRing }

func (k keyRing) Current() (id string, key []byte, err error) {
	if k.ring.Current == "" {
		return "", nil, errors.New("encryption.current names no key")
	}
	key, err = k.Key(k.ring.Current)
	return k.ring.Current, key, err
}

func (k keyRing) Key(id string) ([]byte, error) {
	key, ok := k.ring.Keys[id]
	if !ok {
		return nil, tiers.Hint(fmt.Errorf("the encryption key %q is not there", id), "add it to encryption.keys")
	}
	return key, nil
}

// openAll opens every tier and reads what the store remembers.
func (c *core) openAll(ctx context.Context, drivers tiers.Drivers) error {
	if c.plan.DataDir != "" {
		if err := os.MkdirAll(c.plan.DataDir, 0o700); err != nil {
			return tiers.Hint(err, "data_dir has to be a directory that the process may write to")
		}
		if err := backup.Resume(ctx, c.plan.DataDir, c.copies()...); err != nil {
			return err
		}
	}
	for _, r := range c.plan.Routes {
		c.order = append(c.order, r.Tier)
	}
	if err := c.openSystem(ctx, drivers); err != nil {
		return err
	}
	if c.plan.DataDir != "" {
		if _, err := c.finishLoading(ctx, drivers); err != nil {
			return err
		}
	}
	if err := c.learnEpoch(ctx); err != nil {
		return err
	}
	var err error
	if c.facts, err = readFacts(ctx, c.system, c.clock); err != nil {
		return fmt.Errorf("read the system store: %w", err)
	}
	if c.facts.get(factCarrying) != "" {
		return unfinished()
	}
	if err := c.openRest(ctx, drivers); err != nil {
		return err
	}
	c.openSessions()
	if err := c.openEngine(); err != nil {
		return err
	}
	return c.compareFacts(ctx)
}

// learnEpoch reads the id that marks the store's cache entries, and makes one
// for a new store.
func (c *core) learnEpoch(ctx context.Context) error {
	id := make([]byte, 8)
	if _, err := rand.Read(id); err != nil {
		return fmt.Errorf("make an epoch: %w", err)
	}
	epoch, err := c.system.Fact(ctx, factEpoch)
	if errors.Is(err, tiers.ErrNotFound) {
		if text, err := c.system.Fact(ctx, factCarrying); err == nil && len(text) > 0 {
			return unfinished()
		}
		epoch, err = c.system.SetFact(ctx, factEpoch, []byte(hex.EncodeToString(id)), true)
	}
	if err != nil {
		return fmt.Errorf("read the epoch: %w", err)
	}
	c.epoch = string(epoch)
	return nil
}

func (c *core) openSessions() {
	c.ownSessions = make(map[string]string)
	for _, p := range c.plan.Policies() {
		if p.Session {
			c.ownSessions[p.Category] = p.Tier
		}
	}
	c.sessions = &sessions{
		turn:   make(chan struct{}, 1),
		system: c.system, clock: c.clock, log: c.log, homes: c.sessionHomes, purged: c.purgedFact(),
		emptied: c.nears.dropSession, ended: c.nears.tellEnd,
		idle: c.plan.IdleLimit, every: seenInterval(c.plan.IdleLimit),
	}
}

// sessionHomes answers every category whose entries end with their session: of
// the configuration, of libraries, and those that other processes registered.
func (c *core) sessionHomes(ctx context.Context) ([]home, error) {
	registered := c.facts.under(factSession)
	if !c.plan.InMemory {
		for fact, err := range c.system.Facts(ctx, factSession) {
			if err != nil {
				return nil, err
			}
			registered[fact.Name[len(factSession):]] = string(fact.Value)
		}
	}
	maps.Copy(registered, c.ownSessions)
	var homes []home
	for _, category := range slices.Sorted(maps.Keys(registered)) {
		if s, ok := c.stations[registered[category]]; ok {
			homes = append(homes, home{category: category, tier: s.tier, name: s.name, process: s.info.Scope == tiers.ScopeProcess})
		}
	}
	return homes, nil
}

// compareFacts finds categories that have moved since the store was last used,
// which is an error, and those with another TTL, which is worth a warning.
func (c *core) compareFacts(ctx context.Context) error {
	var errs []error
	for category, old := range c.facts.under(factHome) {
		p, err := c.plan.Policy(category, c.facts.policy(category))
		if err != nil {
			continue // nothing names it any more, so nothing can be looked for in the wrong place
		}
		if err := c.checkHome(ctx, category, old, p.Tier); err != nil {
			errs = append(errs, tiers.Fail("open", old, tiers.Key{Category: category}, err))
		}
	}
	for category := range c.facts.under(factTTL) {
		p, err := c.plan.Policy(category, c.facts.policy(category))
		if err != nil {
			continue
		}
		if was := c.facts.ttl(category); was.TTL != ttlText(p) {
			c.log.WarnContext(ctx, "the category's TTL was changed; records saved before keep the old one",
				"category", category, "was", was.TTL, "now", ttlText(p))
		}
	}
	return errors.Join(errs...)
}

// startJobs starts the manager's own background work.
func (c *core) startJobs() error {
	s := c.sessions
	all := []*job{
		{name: "sessions-seen", every: s.every, run: s.writeSeen},
		{name: "sweep-memory", every: sweepEvery, run: c.sweepProcess, noLast: true},
	}
	if !c.plan.InMemory {
		all = append(all,
			&job{name: "sweep", every: sweepEvery, run: c.sweepShared, sole: true, noLast: true},
			&job{name: "sessions-watch", every: watchEvery, run: s.watch, noLast: true},
			&job{name: "sessions-finish", every: purgeEvery, run: s.finishEnded, sole: true, noLast: true},
			&job{name: "sweep-restores", every: sweepStagedEvery, run: c.sweepStaged, sole: true, noLast: true},
			&job{name: "facts", every: factsEvery, run: c.refreshFacts, noLast: true},
		)
	}
	if s.idle > 0 {
		all = append(all, &job{name: "sessions-idle", every: s.every, run: s.endIdle, sole: true, noLast: true})
	}
	for _, j := range all {
		if err := c.jobs.start(j); err != nil {
			return err
		}
	}
	return nil
}
