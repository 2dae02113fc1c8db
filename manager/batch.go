package manager

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/sagestore/sagestore/tiers"
)

// SaveMany stores all values, at once where the tier can. Values that can't be
// encoded and keys that can't be stored are found before anything is stored.
// After that one entry may fail without the others: the error joins one
// *tiers.Error for each key that failed. The options hold for every entry. In a
// transaction it stores all or, when it answers an error, none.
func (c *Collection[T]) SaveMany(ctx context.Context, vs map[string]T, opts ...SaveOption) error {
	if c.err != nil {
		return c.fail("save", "", c.err)
	}
	if len(vs) == 0 {
		return nil
	}
	ctx, call, err := c.begin(ctx, "save many", len(vs))
	if err != nil {
		return c.fail("save", "", err)
	}
	rs := make([]tiers.Record, 0, len(vs))
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(vs)) {
		v := vs[key]
		err := tiers.CheckName(key)
		if err == nil {
			var rec tiers.Record
			rec, err = c.encode(key, &v, c.schema)
			rs = append(rs, rec)
		}
		if err != nil {
			errs = append(errs, c.fail("save", key, err))
		}
	}
	if err = errors.Join(errs...); err == nil {
		err = c.failMany("save", c.putMany(ctx, rs, saveOptionsOf(opts)))
	}
	call.finish(err)
	return err
}

// failMany completes each of several joined errors.
func (p *place) failMany(op string, err error) error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return p.fail(op, "", err)
	}
	var errs []error
	for _, e := range joined.Unwrap() {
		errs = append(errs, p.failMany(op, e))
	}
	return errors.Join(errs...)
}

// putMany stores encoded records.
func (p *place) putMany(ctx context.Context, rs []tiers.Record, o saveOptions) error {
	r := p.route
	if p.tx != nil && p.tx.all.readOnly {
		_, err := tiers.SaveMany(ctx, p.tier, rs, nil) // which says so
		return err
	}
	if err := r.register(ctx, rs[0].Schema); err != nil {
		return err
	}
	ttl := o.life.resolve(r.core.clock, r.policy.TTL)
	for i := range rs {
		rs[i].TTL = ttl
		if err := o.give(&rs[i]); err != nil {
			return err
		}
	}
	release, err := p.enterSessions(ctx, rs)
	if err != nil {
		return err
	}
	defer release()
	if rs[0].Schema < r.schema.Load() && p.tx != nil {
		return p.storeInTx(ctx, rs, o.cond)
	}
	if rs[0].Schema < r.schema.Load() {
		var errs []error
		for _, rec := range rs {
			_, err := p.store(ctx, rec, o.cond)
			errs = append(errs, p.fail("save", rec.Name, err))
		}
		return errors.Join(errs...)
	}
	var conds []tiers.Cond
	if _, ok := o.cond.Version(); ok {
		conds = slices.Repeat([]tiers.Cond{o.cond}, len(rs))
	}
	if n := r.near.Load(); n != nil {
		return p.saveManyNear(ctx, n, rs, conds)
	}
	_, err = tiers.SaveMany(ctx, p.tier, rs, conds)
	return err
}

// storeInTx stores all, or none: each has to keep its condition and must not
// replace a record of a newer schema.
func (p *place) storeInTx(ctx context.Context, rs []tiers.Record, cond tiers.Cond) error {
	ks := make([]tiers.Key, len(rs))
	for i := range rs {
		ks[i] = rs[i].Key
	}
	now, err := tiers.LoadMany(ctx, p.tier, ks)
	if err != nil {
		return err
	}
	var errs []error
	for i, rec := range rs {
		err := cond.Holds(now[i].Version)
		if err == nil && now[i].Schema > rec.Schema {
			err = newerSchema(now[i].Schema, rec.Schema)
		}
		errs = append(errs, p.fail("save", rec.Name, err))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := p.noteNear(ks...); err != nil {
		return err
	}
	_, err = tiers.SaveMany(ctx, p.tier, rs, nil)
	return err
}

// enterSessions enters the sessions of all records, each once and in order, so
// that two batches never wait for each other.
func (p *place) enterSessions(ctx context.Context, rs []tiers.Record) (release func(), err error) {
	var held []*presence
	release = func() {
		for _, s := range held {
			s.shares.Release(1)
		}
	}
	if !p.route.policy.Session {
		return release, nil
	}
	ids := make(map[string]sessionID)
	for _, rec := range rs {
		id, err := sessionOf(rec.Namespace, rec.Name)
		if err != nil {
			return release, p.fail("save", rec.Name, err)
		}
		ids[id.id] = id
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if p.tx != nil {
			if err := p.tx.enter(ctx, ids[id]); err != nil {
				return release, p.fail("save", Key(id), err)
			}
			continue
		}
		s, err := p.route.core.sessions.enter(ctx, ids[id])
		if err != nil {
			release()
			held = nil
			return release, p.fail("save", Key(id), err)
		}
		held = append(held, s)
	}
	return release, nil
}

// LoadMany answers the values of the keys that are there, at once where the
// tier can. The error joins one *tiers.Error for each key that could not be
// read; what could is in the map beside it.
func (c *Collection[T]) LoadMany(ctx context.Context, keys ...string) (map[string]T, error) {
	found := make(map[string]T, len(keys))
	recs, err := c.getMany(ctx, keys)
	errs := []error{err}
	for _, rec := range recs {
		v, err := c.decode(rec)
		if err != nil {
			errs = append(errs, c.fail("load", rec.Name, err))
			continue
		}
		found[rec.Name] = v
	}
	return found, errors.Join(errs...)
}

// getMany answers the records that are there.
func (p *place) getMany(ctx context.Context, keys []string) (found []tiers.Record, err error) {
	if p.err != nil {
		return nil, p.fail("load", "", p.err)
	}
	ks, errs := p.keysOf("load", keys)
	if len(ks) == 0 {
		return nil, errors.Join(errs...)
	}
	ctx, c, err := p.begin(ctx, "load many", len(ks))
	if err != nil {
		return nil, p.fail("load", "", err)
	}
	var recs []tiers.Record
	if err = p.route.settle(ctx); err == nil {
		if n := p.route.near.Load(); n != nil && p.tx == nil {
			recs, err = p.loadManyNear(ctx, n, ks)
		} else {
			recs, err = tiers.LoadMany(ctx, p.tier, ks)
		}
	}
	for _, rec := range recs {
		if rec.Version != 0 {
			found = append(found, rec)
			p.route.noteSchema(rec.Schema)
		}
	}
	p.route.meter.hits.Add(int64(len(found)))
	if err == nil {
		p.route.meter.misses.Add(int64(len(ks) - len(found)))
	}
	err = errors.Join(append(errs, p.failMany("load", err))...)
	c.finish(err)
	return found, err
}

// keysOf answers the keys, each once, and an error for each that can't be one.
func (p *place) keysOf(op string, names []string) (ks []tiers.Key, errs []error) {
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		if err := tiers.CheckName(name); err != nil {
			errs = append(errs, p.fail(op, name, err))
			continue
		}
		ks = append(ks, p.key(name))
	}
	return ks, errs
}

// DeleteMany removes the keys, at once where the tier can, and tells how many
// were there. The error joins one *tiers.Error for each key that failed.
func (c *Collection[T]) DeleteMany(ctx context.Context, keys ...string) (existed int, err error) {
	return c.removeMany(ctx, keys)
}

func (p *place) removeMany(ctx context.Context, keys []string) (existed int, err error) {
	if p.err != nil {
		return 0, p.fail("delete", "", p.err)
	}
	ks, errs := p.keysOf("delete", keys)
	if err := errors.Join(errs...); err != nil || len(ks) == 0 {
		return 0, err
	}
	ctx, c, err := p.begin(ctx, "delete many", len(ks))
	if err != nil {
		return 0, p.fail("delete", "", err)
	}
	var there []bool
	if err = p.route.settle(ctx); err == nil {
		if n := p.route.near.Load(); n != nil {
			there, err = p.removeManyNear(ctx, n, ks)
		} else {
			there, err = tiers.DeleteMany(ctx, p.tier, ks, nil)
		}
	}
	for _, was := range there {
		if was {
			existed++
		}
	}
	err = p.failMany("delete", err)
	c.finish(err)
	return existed, err
}
