package manager

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/internal/conflict"
	"github.com/sagestore/sagestore/tiers"
)

// StoreMigrated says what became of a store that moved to another engine.
type StoreMigrated struct {
	From, To   string             // drivers
	Categories []CategoryMigrated // by name, each with the count and the hash of its records
	Records    int64
	Bytes      int64 // of keys and values

	Facts        int64
	Sessions     int64
	Transactions int64 // that are known to be committed
	Waiting      int64 // writes in the journal
	Resumed      bool  // an earlier run had begun it
}

// factCarrying is set in a store that is not whole yet, see carrying.
const factCarrying = "carrying"

// carrying is what a store remembers that another one is moving into.
type carrying struct {
	Epoch string `json:"epoch"` // of the other one
	From  string `json:"from"`  // its driver
}

// MigrateStore moves all that a database holds to the one of another configuration, such
// as from SQLite to PostgreSQL or back: the records of all categories and namespaces that
// are at home there, with value, version, times, the instant of expiry, codec, schema and
// flags; the facts, among them what was done once; the sessions; the transactions that
// were committed; and the journal with what waits in it. What a full-text index holds is
// made anew by who searches it. The other tiers stay where they are, so both
// configurations name the same places for them. The database that is left is not
// changed.
//
// Nobody else may have either store open: that is tiers.ErrUnavailable. The target has to
// be empty, or hold what an earlier run of the same migration has brought, else it is
// tiers.ErrConflict; and everything is checked before anything changes, as by
// [MigrateCategory]. At the end everything is read back and compared. Until that is done
// the target can't be opened. A run that was interrupted, at whatever point, is gone on
// with by the next one.
func MigrateStore(ctx context.Context, from, to *config.Config, drivers tiers.Drivers, o MigrateOptions, opts ...OpenOption) (done StoreMigrated, err error) {
	defer func() { err = named("migrate", err) }()
	v := &carriage{options: o}
	defer func() { err = errors.Join(err, v.close(context.WithoutCancel(ctx))) }()
	if v.from, err = v.open(ctx, from, drivers, opts, true); err != nil {
		return v.done, err
	}
	if v.to, err = v.open(ctx, to, drivers, opts, false); err != nil {
		return v.done, err
	}
	err = v.run(ctx)
	return v.done, err
}

// carriage is one run of a migration of a store.
type carriage struct {
	options  MigrateOptions
	from, to *carried
	closers  []func(ctx context.Context) error
	done     StoreMigrated
}

// carried is one of both stores.
type carried struct {
	c       *core
	driver  string
	carrier tiers.Carrier
	rows    *localRows        // what the store calls the tiers of this machine
	places  map[string]string // of those tiers
}

func (v *carriage) close(ctx context.Context) (err error) {
	for _, fn := range slices.Backward(v.closers) {
		err = errors.Join(err, fn(ctx))
	}
	return err
}

// open opens a store for itself alone.
func (v *carriage) open(ctx context.Context, cfg *config.Config, drivers tiers.Drivers, opts []OpenOption, source bool) (*carried, error) {
	var o openOptions
	for _, opt := range opts {
		if opt != nil {
			opt.open(&o)
		}
	}
	c, err := prepare(cfg, drivers, o)
	if err != nil {
		return nil, err
	}
	if c.plan.InMemory {
		return nil, tiers.Hint(fmt.Errorf("%w: the whole store lives in memory", tiers.ErrUnsupported), "name a configuration whose store is kept")
	}
	s := &carried{c: c}
	for _, r := range c.plan.Routes {
		c.order = append(c.order, r.Tier)
		if r.Tier == "database" {
			s.driver = r.Driver
		}
	}
	if !source && s.driver == "sqlite" && v.from.driver == "sqlite" {
		if place := databasePlace(c); place == databasePlace(v.from.c) {
			return nil, oneStore(place)
		}
	}
	if err := c.settleDir(ctx, source, s.driver); err != nil {
		return nil, err
	}
	if s.places, err = c.localPlaces(ctx, drivers); err != nil {
		return nil, err
	}
	v.closers = append(v.closers, c.closeTiers)
	if err := c.openSystem(ctx, drivers); err != nil {
		return nil, err
	}
	var ok bool
	if s.carrier, ok = tiers.As[tiers.Carrier](c.systemTier); !ok || c.stations["database"] == nil || c.stations["database"].tier != c.systemTier {
		return nil, fmt.Errorf("%w: the books of a store on %s can't be carried", tiers.ErrUnsupported, s.driver)
	}
	release, err := c.exclude(ctx, v.options.Stopped)
	if err != nil {
		return nil, err
	}
	v.closers = append(v.closers, func(context.Context) error { return release() })
	s.rows = &localRows{System: c.system, ids: map[string]string{}}
	if tiers.Describe(c.systemTier).Scope != tiers.ScopeStore {
		return s, nil
	}
	for name, place := range s.places {
		if s.rows.ids[name], err = treeID(place); err != nil {
			return nil, tiers.Fail("open", name, tiers.Key{}, fmt.Errorf("the id of the tree in %s: %w", place, err))
		}
	}
	return s, nil
}

// settleDir finishes a restore that was interrupted, and sees that there is a source.
func (c *core) settleDir(ctx context.Context, source bool, driver string) error {
	if source && driver == "sqlite" {
		place := databasePlace(c)
		if _, err := os.Stat(place); err != nil {
			return tiers.Hint(fmt.Errorf("%w: there is no store at %s", tiers.ErrNotFound, place), "name the configuration that the store has had until now with --from")
		}
	}
	if err := os.MkdirAll(c.plan.DataDir, 0o700); err != nil {
		return tiers.Hint(err, "data_dir has to be a directory that the process may write to")
	}
	return backup.Resume(ctx, c.plan.DataDir, c.copies()...)
}

// databasePlace answers where a file of SQLite is.
func databasePlace(c *core) string { return (&Backups{core: c}).places()["database"] }

func oneStore(place string) error {
	return tiers.Hint(conflict.Errorf("both configurations name the store in %s", place), "name the new configuration with --to")
}

// localPlaces answers where the tiers are that belong to this machine.
func (c *core) localPlaces(ctx context.Context, drivers tiers.Drivers) (map[string]string, error) {
	places := map[string]string{}
	for _, r := range c.plan.Routes {
		if r.Tier == "database" || r.Driver == "memory" || r.Driver == "redis" {
			continue
		}
		s, err := c.openStation(ctx, drivers, r)
		if err != nil {
			return nil, err
		}
		if s.info.Scope == tiers.ScopeHost {
			places[r.Tier] = s.info.Place
		}
		if err := s.tier.Close(ctx); err != nil {
			return nil, tiers.Fail("close", r.Tier, tiers.Key{}, err)
		}
	}
	return places, nil
}

func (v *carriage) run(ctx context.Context) error {
	v.done.From, v.done.To = v.from.driver, v.to.driver
	if err := v.check(ctx); err != nil {
		return err
	}
	all, err := v.movers(ctx)
	if err != nil {
		return err
	}
	for _, m := range all {
		if err := m.survey(ctx); err != nil {
			return err
		}
	}
	if err := v.checkRows(ctx); err != nil || v.options.DryRun {
		v.sum(all)
		return err
	}
	epoch, err := v.from.c.system.Fact(ctx, factEpoch)
	if err != nil {
		return err
	}
	text, err := json.Marshal(carrying{Epoch: string(epoch), From: v.done.From})
	if err != nil {
		return err
	}
	if _, err := v.to.c.system.SetFact(ctx, factCarrying, text, false); err != nil {
		return err
	}
	for _, m := range all {
		if err := m.copy(ctx); err != nil {
			return err
		}
	}
	if err := v.copyBooks(ctx); err != nil {
		return err
	}
	if all, err = v.movers(ctx); err != nil { // a category may have come meanwhile
		return err
	}
	for _, m := range all {
		if err := m.verify(ctx); err != nil {
			return err
		}
	}
	if err := v.verifyBooks(ctx); err != nil {
		return err
	}
	v.sum(all)
	_, err = v.to.c.system.SetFact(ctx, factCarrying, nil, false)
	return err
}

// homes says where the tiers beside the database are, without a secret.
func (s *carried) homes() map[string]string {
	homes := map[string]string{}
	for _, r := range s.c.plan.Routes {
		if r.Tier == "database" {
			continue
		}
		homes[r.Tier] = cmp.Or(s.places[r.Tier], "the driver "+r.Driver)
		if r.Driver == "redis" {
			c := s.c.plan.Config().Redis
			if u, err := url.Parse(string(c.URL)); err == nil {
				homes[r.Tier] = fmt.Sprintf("Redis at %s%s, prefix %q", u.Host, u.Path, c.Prefix)
			}
		}
	}
	return homes
}

// sameTiers refuses to bring records that the new configuration looks for elsewhere.
func (v *carriage) sameTiers(ctx context.Context) error {
	for s, err := range v.from.c.systemTier.Spaces(ctx) {
		if err != nil {
			return err
		}
		before, err := v.from.c.plan.Policy(s.Category, nil)
		p, also := v.to.c.plan.Policy(s.Category, nil)
		if err == nil && also == nil && before.Tier == "database" && p.Tier != "database" {
			return tiers.Hint(fmt.Errorf("%w: category %s has records in the database, and is in tier %s afterwards", tiers.ErrUnsupported, s.Category, p.Tier),
				"only the database moves: let the category be in the same tier, and move it before or afterwards with `sagestore migrate --category`")
		}
	}
	return nil
}

// check answers why the one can't become the other.
func (v *carriage) check(ctx context.Context) error {
	a, b := tiers.Describe(v.from.c.systemTier), tiers.Describe(v.to.c.systemTier)
	if a.Driver == b.Driver && a.Place == b.Place {
		return oneStore(a.Place)
	}
	homes, later := v.from.homes(), v.to.homes()
	for _, name := range slices.Sorted(maps.Keys(homes)) {
		if other := cmp.Or(later[name], "nothing"); other != homes[name] {
			return tiers.Hint(fmt.Errorf("%w: tier %s is in %s, and in %s afterwards", tiers.ErrUnsupported, name, homes[name], other),
				"only the database moves: let both configurations name the same place for the tier, and move it later")
		}
	}
	if err := v.sameTiers(ctx); err != nil {
		return err
	}
	if text, err := v.from.c.system.Fact(ctx, factCarrying); err == nil && len(text) > 0 {
		return unfinished()
	}
	epoch, err := v.from.c.system.Fact(ctx, factEpoch)
	if err != nil {
		return tiers.Hint(fmt.Errorf("%w: there is no store in %s", tiers.ErrNotFound, a.Place), "name the configuration that the store has had until now with --from")
	}
	text, err := v.to.c.system.Fact(ctx, factCarrying)
	if err == nil && len(text) > 0 {
		var begun carrying
		if json.Unmarshal(text, &begun) != nil || begun.Epoch != string(epoch) || begun.From != v.done.From {
			return tiers.Hint(conflict.Errorf("the store in %s holds an unfinished migration of another one", b.Place), emptyHint)
		}
		v.done.Resumed = true
		return nil
	}
	if there, err := v.to.c.system.Fact(ctx, factEpoch); err == nil && bytes.Equal(there, epoch) {
		return tiers.Hint(conflict.Errorf("the store in %s is this store already: it has moved there, or was restored there", b.Place),
			"use the new configuration from now on; to move anew, "+emptyHint)
	}
	return v.checkEmpty(ctx, b.Place)
}

const emptyHint = "name a place that is empty: another path, or another schema"

func (v *carriage) checkEmpty(ctx context.Context, place string) error {
	holds := func(what, hint string) error {
		return tiers.Hint(conflict.Errorf("the store in %s is not empty: it has %s", place, what), hint)
	}
	held := func(what string) error { return holds(what, emptyHint) }
	for s, err := range v.to.c.systemTier.Spaces(ctx) {
		if err != nil {
			return err
		}
		return held("records of " + s.Category)
	}
	for f, err := range v.to.c.system.Facts(ctx, "") {
		if err != nil {
			return err
		}
		if f.Name == factEpoch || f.Name == factStore || f.Name == factCarrying {
			continue
		}
		return holds("the fact "+f.Name, "it was opened before: if it holds nothing of worth, remove it, the file or with DROP SCHEMA; else "+emptyHint)
	}
	for s, err := range v.to.c.system.ListSessions(ctx) {
		if err != nil {
			return err
		}
		return held("the session " + s.ID)
	}
	m, err := v.to.carrier.Marks(ctx)
	if err == nil && m.Sequence > 0 {
		err = held("a journal")
	}
	return err
}

// unfinished is why a store can't be used.
func unfinished() error {
	return tiers.Hint(fmt.Errorf("%w: a migration into this store is not over", tiers.ErrUnavailable),
		"`sagestore migrate --from CONFIG --to CONFIG` goes on with it; until then the store is where it was")
}

// movers answer what moves the records of each category.
func (v *carriage) movers(ctx context.Context) ([]*mover, error) {
	var names []string
	for _, s := range []*carried{v.from, v.to} {
		for space, err := range s.c.systemTier.Spaces(ctx) {
			if err != nil {
				return nil, err
			}
			names = append(names, space.Category)
		}
	}
	slices.Sort(names)
	applier, ok := tiers.As[tiers.Applier](v.to.c.systemTier)
	if !ok {
		return nil, tiers.Hint(fmt.Errorf("%w: a database on %s can't take records as they are", tiers.ErrUnsupported, v.done.To), "its driver has to offer tiers.Applier")
	}
	var all []*mover
	for _, category := range slices.Compact(names) {
		m := &mover{c: v.from.c, options: v.options, done: CategoryMigrated{Category: category, Resumed: v.done.Resumed}}
		m.move = move{From: "database on " + v.done.From, To: "database on " + v.done.To}
		m.source, m.target, m.applier = v.from.c.systemTier, v.to.c.systemTier, applier
		m.maxValue = tiers.Describe(m.target).MaxValue
		all = append(all, m)
	}
	return all, nil
}

func (v *carriage) sum(all []*mover) {
	for _, m := range all {
		m.done.From, m.done.To = v.done.From, v.done.To
		v.done.Categories = append(v.done.Categories, m.done)
		v.done.Records += m.done.Records
		v.done.Bytes += m.done.Bytes
	}
}
