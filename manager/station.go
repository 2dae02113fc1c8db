package manager

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/txn"
)

// station is an open tier.
type station struct {
	name   string
	driver string
	tier   tiers.Tier
	info   tiers.Info

	mu    sync.Mutex
	down  bool
	since time.Time // when it went up or down
}

// module is where the drivers of sagestore are.
const module = "github.com/sagestore/sagestore/tiers/"

// packageOf names the package that a driver of sagestore comes from.
func packageOf(tier, driver string) string {
	switch {
	case tier == "cache":
		return module + "cache/" + driver
	case tier == "database" && driver != "sqlite":
		return module + "database/" + driver
	}
	return module + tier
}

// linked answers an error for each driver that is needed and not there.
func linked(plan *config.Effective, drivers tiers.Drivers) error {
	var errs []error
	for _, r := range plan.Routes {
		if _, ok := findDriver(drivers, r); !ok {
			errs = append(errs, notLinked(r.Tier, r.Driver))
		}
	}
	return errors.Join(errs...)
}

func notLinked(tier, driver string) error {
	hint := "add the driver to the list given to Open"
	switch tier {
	case "memory", "cache", "database", "file":
		hint = "import " + packageOf(tier, driver) + " and add its Driver() to the list given to Open, or give it all.Tiers() of " + module + "all"
	}
	return &tiers.Error{
		Op: "open", Tier: tier, Hint: hint,
		Err: fmt.Errorf("%w: the driver %q is not linked into this program", tiers.ErrUnsupported, driver),
	}
}

// findDriver finds the driver of a tier.
func findDriver(drivers tiers.Drivers, r config.Route) (tiers.Driver, bool) {
	switch r.Tier {
	case "memory", "cache", "database", "file":
		return drivers.Find(r.Tier, r.Driver)
	}
	d, err := config.FindDriver(drivers, r.Driver)
	return d, err == nil
}

// openStation opens one tier.
func (c *core) openStation(ctx context.Context, drivers tiers.Drivers, r config.Route) (*station, error) {
	d, ok := findDriver(drivers, r)
	if !ok {
		return nil, notLinked(r.Tier, r.Driver)
	}
	options := c.plan.Options(r.Tier, map[string]string{"epoch": c.epoch})
	t, err := d.Open(ctx, c.env(r.Tier, func(into any) error {
		c.settings.Lock() // the tiers are opened at the same time
		defer c.settings.Unlock()
		return options(into)
	}))
	if err != nil {
		return nil, tiers.Hint(tiers.Fail("open", r.Tier, tiers.Key{}, err), "`sagestore doctor` checks the tiers")
	}
	s := &station{name: r.Tier, driver: r.Driver, tier: t, info: tiers.Describe(t), since: c.clock.Now()}
	if s.info.Driver == "" {
		s.info.Driver = r.Driver
	}
	return s, nil
}

func (c *core) env(name string, options func(any) error) tiers.Env {
	return tiers.Env{
		Name: name, Dir: c.plan.DataDir, Log: c.log.With("tier", name), Clock: c.clock, Options: options,
	}
}

// openSystem opens the tier that offers the system store: the database, or the
// memory when everything is there. A database that offers none gets a SQLite
// file in the data directory beside it.
func (c *core) openSystem(ctx context.Context, drivers tiers.Drivers) error {
	first := "database"
	if c.plan.InMemory {
		first = "memory"
	}
	for _, r := range c.plan.Routes {
		if r.Tier != first {
			continue
		}
		s, err := c.openStation(ctx, drivers, r)
		if err != nil {
			return err
		}
		c.stations[first] = s
		if system, ok := tiers.As[tiers.System](s.tier); ok {
			c.system, c.systemTier = system, s.tier
			c.committer, _ = tiers.As[tiers.Committer](s.tier)
			return nil
		}
	}
	if c.plan.InMemory {
		return fmt.Errorf("%w: the memory driver offers no system store", tiers.ErrUnsupported)
	}
	d, ok := drivers.Find("database", "sqlite")
	if !ok {
		return notLinked("database", "sqlite")
	}
	own := &config.Config{DataDir: c.plan.DataDir, SQLite: config.SQLite{Path: filepath.Join(c.plan.DataDir, "sage.db")}}
	plan, err := own.Resolve()
	if err != nil {
		return err
	}
	t, err := d.Open(ctx, c.env("system", plan.Options("database", nil)))
	if err != nil {
		return fmt.Errorf("open the system store: %w", err)
	}
	c.systemTier = t
	system, ok := tiers.As[tiers.System](t)
	if !ok {
		return fmt.Errorf("%w: the sqlite driver offers no system store", tiers.ErrUnsupported)
	}
	c.system = system
	c.committer, _ = tiers.As[tiers.Committer](t)
	return nil
}

// openRest opens the other tiers at the same time.
func (c *core) openRest(ctx context.Context, drivers tiers.Drivers) error {
	var g errgroup.Group
	opened, errs := make([]*station, len(c.plan.Routes)), make([]error, len(c.plan.Routes))
	for i, r := range c.plan.Routes {
		if c.stations[r.Tier] != nil {
			continue
		}
		g.Go(func() error {
			opened[i], errs[i] = c.openStation(ctx, drivers, r)
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	for _, s := range opened {
		if s == nil {
			continue
		}
		c.stations[s.name] = s // so that it is closed whatever comes next
	}
	if err := errors.Join(errors.Join(errs...), c.keepLocalRows()); err != nil {
		return err
	}
	for i, s := range opened {
		if s != nil {
			errs[i] = c.journaled(ctx, s)
		}
	}
	return errors.Join(errs...)
}

// journaled puts the journal in front of a tier whose server may be away, and of
// one that takes part in transactions by it.
func (c *core) journaled(ctx context.Context, s *station) error {
	_, away := tiers.As[tiers.Outage](s.tier)
	_, applies := tiers.As[tiers.Applier](s.tier)
	_, publishes := tiers.As[tiers.Publisher](s.tier)
	if !away && (s.name == "memory" || !applies || publishes || c.committer == nil) {
		return nil
	}
	j, err := txn.Journal(ctx, s.tier, c.system, txn.Config{
		Tier: s.name, Epoch: c.epoch, Limit: c.plan.JournalLimit, Clock: c.clock, Log: c.log.With("tier", s.name),
		Others: c.nears.rows, Applied: c.rowsApplied,
	})
	if err != nil {
		return err
	}
	s.tier = j
	return nil
}

// openEngine makes what runs transactions over the open tiers.
func (c *core) openEngine() error {
	e := txn.EngineConfig{System: c.system, Committer: c.committer, Clock: c.clock, Log: c.log}
	for _, name := range c.order {
		s := c.stations[name]
		e.Members = append(e.Members, txn.Member{Name: name, Tier: s.tier})
		if s.tier == c.systemTier && c.committer != nil {
			e.Decider = name
		}
	}
	var err error
	c.engine, err = txn.New(e)
	return err
}
