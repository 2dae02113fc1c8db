package config

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// Effective is what a configuration comes to: every default filled in, every
// path absolute. It does not change and is safe for concurrent use.
type Effective struct {
	DataDir      string  // "" when everything lives in memory
	InMemory     bool    // memory is the only tier and every policy's home
	DefaultStore string  // the tier for categories without a rule; "": they are an error
	Routes       []Route // the tiers: memory, cache, database, file, then the app's own by name

	JournalLimit int64         // bytes of pending cache writes
	IdleLimit    time.Duration // of a session; 0 is never
	Checkpoints  CheckpointPlan
	Backup       BackupPlan
	Encryption   KeyRing

	raw, cfg *Config // as given, and with every default; nobody else has them
	options
	drivers map[string]string // of the four tiers
	sources map[string]string // of every setting, by pathKey

	defaults map[string]key
}

// Route names the driver that keeps a tier.
type Route struct{ Tier, Driver string }

// CheckpointPlan is when checkpoints are made, and how many stay.
type CheckpointPlan struct {
	Enabled          bool
	Interval         time.Duration
	Max              int
	BeforeOperations bool
	Strategy         string // after_tool_call, after_model_response, every or never
	Every            int    // iterations, with every
}

// BackupPlan is when backups are made, where they go and which stay.
type BackupPlan struct {
	Enabled    bool
	Interval   string // hourly, daily or weekly; "" with Cron
	At         string // "03:30"; "" with Cron and hourly
	Zone       string // for [time.LoadLocation]
	Cron       string
	Dest       string // absolute directory, or URL of a bucket
	Retention  Retention
	Keep       Keep
	Jitter     time.Duration // 0: as the interval has it; below 0: none
	Recipients []string
	Identities []Secret
	SigningKey Secret
	// SigningKeysOld have signed earlier backups, which count as well.
	SigningKeysOld []Secret
	Rehearse       time.Duration // at least this long between rehearsals; 0: with every backup; below 0: never
	Temp           string        // absolute; "": the system's
	Webhook        Secret
	OnSuccess      []string // one: for the shell; more: a program and its arguments
	OnFailure      []string
	Cache          bool
}

// rehearseEvery answers how far rehearsals are apart. A day that a run is late
// must not leave out the next rehearsal, so it is a little less.
func rehearseEvery(word string) time.Duration {
	const day = 24 * time.Hour
	switch word {
	case "never":
		return -1
	case "daily":
		return day - 6*time.Hour
	case "weekly":
		return 7*day - 6*time.Hour
	case "monthly":
		return 28*day - 6*time.Hour
	}
	return 0
}

// KeyRing holds decoded encryption keys. It is empty without an encryption
// block.
type KeyRing struct {
	Current string
	Keys    map[string][]byte // 32 bytes each
}

// Format hides the keys.
func (k KeyRing) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{%s %d keys}", k.Current, len(k.Keys)) // fmt.State never fails
}

// MarshalText hides the keys.
func (k KeyRing) MarshalText() ([]byte, error) { return fmt.Append(nil, k), nil }

// LogValue hides the keys.
func (k KeyRing) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(k)) }

// Check reports all faults of a configuration at once; [Load] and [Parse] do
// it by themselves. It looks at no file and no variable.
func (c *Config) Check(opts ...Option) error {
	e := newEffective(c, gather(opts))
	f := faults{origin: e.raw.origin}
	e.check(&f)
	return f.err()
}

// Resolve answers what the configuration comes to, or all its faults. It needs
// a home directory where a path begins with "~" and for the default places,
// and creates nothing.
func (c *Config) Resolve(opts ...Option) (*Effective, error) {
	e := newEffective(c, gather(opts))
	f := faults{origin: e.raw.origin}
	e.check(&f)
	e.locate(&f)
	e.checkPlace(&f)
	if err := f.err(); err != nil {
		return nil, err
	}
	e.InMemory = e.cfg.InMemory
	e.DefaultStore, _ = e.tierOf(e.cfg.DefaultStore)
	for _, tier := range e.tierNames() {
		driver, ours := e.drivers[tier]
		if !ours {
			driver = e.cfg.Tiers[tier].Driver
		}
		if !e.InMemory || tier == "memory" {
			e.Routes = append(e.Routes, Route{tier, driver})
		}
	}
	if e.InMemory {
		e.DataDir, e.DefaultStore = "", cmp.Or(e.DefaultStore, "memory")
	}
	e.plan()
	return e, nil
}

// Config answers a copy of the configuration with every default filled in.
func (e *Effective) Config() *Config { return e.cfg.clone() }

func newEffective(c *Config, o options) *Effective {
	if o.restored != "" {
		c = c.clone()
		c.liesBelow(o.restored)
	}
	e := &Effective{raw: c.clone(), cfg: c.clone(), options: o, drivers: make(map[string]string), sources: make(map[string]string), defaults: keyTable()}
	walk(e.raw, func(l leaf) { e.sources[pathKey(l.at)] = e.sourceOfLeaf(l) })
	if o.dataDir != "" {
		e.cfg.DataDir = o.dataDir
		if abs, err := filepath.Abs(o.dataDir); err == nil && !isHome(o.dataDir) {
			e.cfg.DataDir = abs
		}
	}
	edit(e.cfg, func(l leaf) {
		if l.def != "" && l.value.IsZero() && l.at[0] != "categories" {
			fillDefault(l.value, l.def)
		}
	})
	e.drivers["memory"], e.drivers["file"] = "memory", "file"
	e.drivers["cache"] = e.cfg.Cache.Driver
	if e.drivers["cache"] == "auto" {
		e.drivers["cache"] = "file"
		if e.cfg.Redis != nil {
			e.drivers["cache"] = "redis"
		}
	}
	e.drivers["database"] = e.cfg.Database.Driver
	if e.drivers["database"] == "" {
		e.drivers["database"] = "sqlite"
		if e.cfg.Postgres != nil {
			e.drivers["database"] = "postgres"
		}
	}
	e.cfg.Database.Driver = e.drivers["database"]
	return e
}

// fillDefault sets a setting to its default of the key table.
func fillDefault(v reflect.Value, def string) {
	switch into := v.Addr().Interface().(type) {
	case **bool:
		*into = new(def == "true")
	case *bool:
		*into = def == "true"
	case *int:
		*into, _ = strconv.Atoi(def)
	case *Retention:
		*into, _ = parseRetention(def)
	default:
		v.SetString(def)
	}
}

// tierNames answers the tiers in their order.
func (e *Effective) tierNames() []string {
	return append([]string{"memory", "cache", "database", "file"}, slices.Sorted(maps.Keys(e.cfg.Tiers))...)
}

// plan turns the checked texts into values.
func (e *Effective) plan() {
	c := e.cfg
	e.JournalLimit, _ = c.Cache.JournalLimit.Bytes()
	e.IdleLimit, _ = c.Session.IdleLimit.Duration()

	e.Checkpoints = CheckpointPlan{
		Enabled: *c.Checkpoints.Enabled, Max: c.Checkpoints.Max, BeforeOperations: *c.Checkpoints.BeforeOperations,
	}
	e.Checkpoints.Interval, _ = c.Checkpoints.Interval.Duration()
	e.Checkpoints.Strategy, e.Checkpoints.Every, _ = parseStrategy(c.Checkpoints.Strategy)

	b := c.Backup
	e.Backup = BackupPlan{
		Enabled: b.Enabled && !e.InMemory, Interval: b.Interval, At: b.At, Zone: b.Zone, Cron: b.Cron, Dest: b.Dest,
		Retention: b.Retention, Keep: b.Keep, Recipients: b.Recipients, Identities: b.Identities, SigningKey: b.SigningKey, SigningKeysOld: b.SigningKeysOld,
		Temp: b.Temp, Webhook: b.Webhook, OnSuccess: b.OnSuccess, OnFailure: b.OnFailure, Cache: b.Cache,
		Rehearse: rehearseEvery(b.Rehearse), Jitter: -1,
	}
	if b.Jitter != "none" {
		e.Backup.Jitter, _ = b.Jitter.Duration()
	}
	switch {
	case b.Cron != "":
		e.Backup.Interval, e.Backup.At = "", ""
	case b.Interval == "hourly":
		e.Backup.At = ""
	}

	e.Encryption = KeyRing{Current: c.Encryption.Current, Keys: make(map[string][]byte)}
	for id, text := range c.Encryption.Keys {
		e.Encryption.Keys[id], _ = decodeKey(text)
	}
}
