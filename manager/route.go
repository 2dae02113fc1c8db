package manager

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/tiers"
)

// route is where a category leads, worked out once: what a call needs it finds
// here without looking anything up.
type route struct {
	core         *core
	category     string
	policy       config.Policy
	tierName     string
	tier         tiers.Tier
	station      *station
	lender       tiers.Lender  // nil: values are copied
	exister      tiers.Exister // nil: asked for by a load
	toucher      tiers.Toucher // nil: unsupported
	compressOver int
	borrowed     bool  // the policy is the one that a library brought in another process
	maxValue     int64 // the smaller of the category's and the tier's
	meter        meter
	schema       atomic.Uint32             // the highest known among the category's records
	near         atomic.Pointer[nearLayer] // nil: the home is asked

	settled    atomic.Bool // no old home hides records of the category
	registered atomic.Bool // the store knows of the category
	mu         sync.Mutex  // one at a time settles or registers
}

// place answers a category's place; what is wrong is in its err.
func (c *core) place(b scope, category string, lib *config.Category) place {
	r, err := c.route(category, lib)
	if err == nil {
		err = b.err
	}
	p := place{route: r, namespace: b.namespace, err: err}
	if r != nil {
		p.tier = r.tier
	}
	if b.tx != nil {
		return p.in(b.tx)
	}
	return p
}

// route answers the way to a category, which is worked out once.
func (c *core) route(category string, lib *config.Category) (*route, error) {
	if known, ok := c.routes.Load(category); ok {
		r := known.(*route) //nolint:forcetypeassert // the map holds nothing else
		if lib == nil || !r.provisional() {
			return r, nil
		}
	}
	c.routing.Lock()
	defer c.routing.Unlock()
	fromLib := lib != nil
	if !fromLib {
		lib = c.facts.policy(category) // what a library brought in another process
	}
	policy, err := c.plan.Policy(category, lib)
	if err != nil {
		return nil, err
	}
	if known, ok := c.routes.Load(category); ok {
		r := known.(*route) //nolint:forcetypeassert // the map holds nothing else
		if !fromLib || !r.provisional() || policy.Rule != config.RuleLibrary {
			return r, nil
		}
	}
	s, ok := c.stations[policy.Tier]
	if !ok {
		return nil, tiers.Hint(fmt.Errorf("%w: its home is the tier %s, which is not open", tiers.ErrCategory, policy.Tier),
			"name another tier in the category's policy")
	}
	if policy.Rule == config.RuleDefaultStore {
		c.log.Warn("a category that nothing lists goes to the default store", "category", category, "tier", policy.Tier)
	}
	r := &route{
		core: c, category: category, policy: policy,
		tierName: policy.Tier, tier: s.tier, station: s,
		compressOver: int(policy.CompressOver), maxValue: policy.MaxValue,
		borrowed: policy.Rule == config.RuleLibrary && !fromLib,
	}
	r.lender, _ = tiers.As[tiers.Lender](s.tier)
	r.exister, _ = tiers.As[tiers.Exister](s.tier)
	r.toucher, _ = tiers.As[tiers.Toucher](s.tier)
	if s.info.MaxValue > 0 {
		r.maxValue = min(r.maxValue, s.info.MaxValue)
	}
	if s.info.Scope == tiers.ScopeProcess {
		r.meter.mask = sampleMemory
	}
	r.schema.Store(c.facts.schema(category))
	_, moving := c.facts.moving(category)
	r.settled.Store(!moving && (c.facts.home(category) == "" || c.facts.home(category) == r.tierName) || c.moved)
	if err := c.front(r); err != nil {
		return nil, err
	}
	if policy.Rule == config.RuleLibrary && fromLib {
		c.libraries.Store(category, *lib)
	}
	c.routes.Store(category, r)
	return r, nil
}

// provisional tells whether a library's policy would replace the one in use.
func (r *route) provisional() bool {
	return r.borrowed || r.policy.Rule == config.RuleParent || r.policy.Rule == config.RuleDefaultStore
}

// settle sees, once, that no other tier holds records of the category that this
// route would hide.
func (r *route) settle(ctx context.Context) error {
	if r.settled.Load() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settled.Load() {
		return nil
	}
	if err := r.core.checkHome(ctx, r.category, r.core.facts.home(r.category), r.tierName); err != nil {
		return err
	}
	r.settled.Store(true)
	return nil
}

// register makes the category and its schema known to the store, before the
// first record that depends on it.
func (r *route) register(ctx context.Context, schema uint32) error {
	if r.registered.Load() && schema <= r.schema.Load() {
		return nil
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.registered.Load() {
		if err := r.introduce(ctx); err != nil {
			return err
		}
		r.registered.Store(true)
	}
	if schema > r.schema.Load() {
		if schema > 1 {
			if err := r.core.facts.set(ctx, factSchema+r.category, strconv.FormatUint(uint64(schema), 10)); err != nil {
				return err
			}
		}
		r.schema.Store(schema)
	}
	return nil
}

// introduce writes what tools and other processes need to know of a category.
func (r *route) introduce(ctx context.Context) error {
	f := r.core.facts
	err := f.set(ctx, factHome+r.category, r.tierName)
	if err == nil {
		err = f.noteTTL(ctx, r)
	}
	if err == nil && r.policy.Session {
		err = f.set(ctx, factSession+r.category, r.tierName)
	}
	if lib, ok := r.core.libraries.Load(r.category); ok && err == nil && r.policy.Rule == config.RuleLibrary {
		err = f.setPolicy(ctx, r.category, lib.(config.Category)) //nolint:forcetypeassert // the map holds nothing else
	}
	if err != nil {
		return tiers.Hint(err, "the category could not be registered in the system store")
	}
	return nil
}

// noteSchema raises what is known of the category's schema.
func (r *route) noteSchema(schema uint32) {
	for {
		high := r.schema.Load()
		if schema <= high || r.schema.CompareAndSwap(high, schema) {
			return
		}
	}
}

// checkHome answers an error when the old home of a category still holds
// records that would be hidden in the new one.
func (c *core) checkHome(ctx context.Context, category, old, home string) error {
	if err := c.checkMoving(category, home); err != nil {
		return err
	}
	if old == "" || c.moved {
		return nil
	}
	if old == home {
		return c.checkTrees(ctx, category, home)
	}
	hint := migrateHint(category) + ", with the program stopped, or give the category its tier " + old + " again"
	if to := c.stations[home]; to != nil && to.info.Scope == tiers.ScopeProcess { // nothing can be moved there
		hint = "give the category its tier " + old + " again; to do without the records, delete them first"
	}
	s, ok := c.stations[old]
	if !ok {
		if old == "memory" {
			return nil // they went with their process
		}
		return tiers.Hint(fmt.Errorf("%w: its records are in the tier %s, which the configuration no longer has", tiers.ErrCategory, old), hint)
	}
	if s.info.Scope == tiers.ScopeProcess {
		return nil
	}
	held, err := holds(ctx, s.tier, category)
	if err != nil {
		return fmt.Errorf("look for records of %s in its old home %s: %w", category, old, err)
	}
	if held {
		return tiers.Hint(fmt.Errorf("%w: its records are in %s still, and the configuration looks in %s", tiers.ErrCategory, old, home), hint)
	}
	return nil
}

// checkTrees answers an error when another machine, which shares the system store, has
// moved the category from a tier of which this machine has one of its own.
func (c *core) checkTrees(ctx context.Context, category, home string) error {
	if _, shared := c.system.(*localRows); !shared {
		return nil
	}
	for name, s := range c.stations {
		if s.info.Scope != tiers.ScopeHost || name == home {
			continue
		}
		held, err := holds(ctx, s.tier, category)
		if err != nil {
			return fmt.Errorf("look for records of %s in %s: %w", category, name, err)
		}
		if held {
			return tiers.Hint(fmt.Errorf("%w: this machine has records of it in %s, and another one has moved the category to %s", tiers.ErrCategory, name, home),
				"save what is needed of them, by a configuration with a postgres.schema of its own, then move the files of the category away")
		}
	}
	return nil
}

// holds tells whether a tier has a live record of the category.
func holds(ctx context.Context, t tiers.Tier, category string) (bool, error) {
	var spaces []tiers.Space
	for s, err := range t.Spaces(ctx) {
		if err != nil {
			return false, err
		}
		if s.Category == category {
			spaces = append(spaces, s)
		}
	}
	for _, s := range spaces {
		for r, err := range t.List(ctx, tiers.Query{Namespace: s.Namespace, Category: s.Category, Limit: 1, KeysOnly: true}) {
			if err != nil && r.Name == "" && !errors.Is(err, tiers.ErrUnsupported) {
				return false, err
			}
			return true, nil
		}
	}
	return false, nil
}
