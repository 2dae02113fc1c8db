package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/txn"
)

// transactTries is how often a transaction is run again that others got in the way of.
const transactTries = 10

// CategoryRestored says what became of a category.
type CategoryRestored struct {
	Category string
	Tier     string
	Records  int64
	Expired  int64 // records of the backup that have expired since, and are left out
	Replaced int64 // records that were there before
}

// RestoreCategories makes the records of categories, in all namespaces, those of a
// backup, while the store is in use: readers see the old ones until all new ones are
// there. What was saved since the backup is gone then. They are prepared in the database,
// in chunks, and switched in one transaction of it, however many records they have: those
// of another tier become writes that wait for it, which answer for their keys until they
// are applied, see [Manager.ApplyPending]. Where the database can't do that, or a tier
// has no journal, a category is restored by one transaction of [Manager.Update] and has to
// fit in it, else it is tiers.ErrTooLarge. When this ends early a category is old or new
// and never a mixture.
//
// The records get new versions; values, times and expiry are those of the backup.
// The entries of a full-text index are not in a backup: who searches a category
// makes them again, see [Collection.Index].
func (b *Backups) RestoreCategories(ctx context.Context, m *Manager, id string, categories []string, o RestoreOptions) (done []CategoryRestored, err error) {
	defer func() { err = named("restore", err) }()
	slot, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer m.core.gate.leave(slot)
	unlock, err := b.lock() // so that no backup holds what is prepared, and nobody sweeps it
	if err != nil {
		return nil, err
	}
	defer unlock()
	unlockServer, err := m.core.lockServer(ctx)
	if err != nil {
		return nil, err
	}
	defer unlockServer()
	e, err := b.Show(ctx, id)
	if err != nil {
		return nil, err
	}
	if e.Err != nil { // then it does not say of which store it is either
		return nil, fmt.Errorf("backup %s: %w", e.ID, e.Err)
	}
	store, err := m.core.ownID(ctx)
	if err != nil {
		return nil, err
	}
	if e.Manifest.Store != store && !o.Adopt {
		return nil, e.Manifest.OfAnother(store)
	}
	if err := m.core.clearStaged(ctx); err != nil {
		return nil, err
	}
	r := categoryRestore{c: m.core, m: m, b: b, e: e, progress: o.Progress, copies: map[string]tiers.Copy{}}
	defer func() { err = errors.Join(err, r.close(context.WithoutCancel(ctx))) }()
	return r.run(ctx, categories)
}

// categoryRestore is one run.
type categoryRestore struct {
	c        *core
	m        *Manager
	b        *Backups
	e        backup.Entry
	progress func(backup.Progress)
	copies   map[string]tiers.Copy // by part
	staged   int                   // spaces that were prepared

	// By index of the categories: those that a transaction restores, and to which what
	// was prepared belongs.
	alone       []int
	moves       []tiers.Move
	in          []txn.Incoming
	moved, came []int // aligned with moves and in
}

func (r *categoryRestore) close(ctx context.Context) error {
	var errs []error
	for _, c := range r.copies {
		errs = append(errs, c.Close())
	}
	if r.staged > 0 {
		errs = append(errs, r.c.clearStaged(ctx))
	}
	return errors.Join(errs...)
}

func (r *categoryRestore) run(ctx context.Context, categories []string) (done []CategoryRestored, err error) {
	routes := make([]*route, 0, len(categories))
	defer func() {
		for _, rt := range routes { // also after an error: nobody knows then
			r.c.nears.replaced(rt.category)
		}
	}()
	for _, name := range categories {
		rt, err := r.c.route(name, nil)
		if err != nil {
			return nil, err
		}
		if err := rt.settle(ctx); err != nil {
			return nil, err
		}
		if slices.Contains(routes, rt) {
			continue
		}
		there, err := r.holds(ctx, rt)
		if err != nil {
			return nil, err
		}
		if !there {
			return nil, tiers.Fail("restore", rt.tierName, tiers.Key{Category: name},
				tiers.Hint(fmt.Errorf("%w: backup %s holds no record of it in tier %s", tiers.ErrNotFound, r.e.ID, rt.tierName), "`sagestore backup show` lists what it holds"))
		}
		routes = append(routes, rt)
	}
	for _, rt := range routes {
		done = append(done, CategoryRestored{Category: rt.category, Tier: rt.tierName})
		if err := r.prepare(ctx, rt, len(done)-1, &done[len(done)-1]); err != nil {
			return nil, err
		}
	}
	// What goes through a transaction comes first: if it can't be done, nothing was.
	for _, i := range r.alone {
		if err := r.transact(ctx, routes[i], &done[i]); err != nil {
			return nil, err
		}
	}
	r.tell(backup.Progress{Step: "switch", Total: -1})
	if err := r.switchAll(ctx, done); err != nil {
		return r.restoredAlone(done), err
	}
	return done, nil
}

// restoredAlone are those of the categories that transactions have restored.
func (r *categoryRestore) restoredAlone(all []CategoryRestored) (done []CategoryRestored) {
	for _, i := range r.alone {
		done = append(done, all[i])
	}
	return done
}

// prepare prepares what can be prepared, or notes that a category needs a transaction.
func (r *categoryRestore) prepare(ctx context.Context, rt *route, i int, one *CategoryRestored) error {
	switch {
	case !r.c.engine.Switches(rt.tierName):
		r.alone = append(r.alone, i)
		return nil
	case rt.tier == r.c.systemTier:
		return r.stage(ctx, rt, one, func(from, to tiers.Space) {
			r.moves, r.moved = append(r.moves, tiers.Move{From: from, To: to}), append(r.moved, i)
		})
	}
	return r.stage(ctx, rt, one, func(from, to tiers.Space) {
		gone := tiers.Space{Namespace: from.Namespace, Category: from.Category + goneSuffix}
		r.in, r.came = append(r.in, txn.Incoming{Tier: rt.tierName, From: from, Gone: gone, To: to}), append(r.came, i)
	})
}

// switchAll brings in all that was prepared, in one step.
func (r *categoryRestore) switchAll(ctx context.Context, done []CategoryRestored) error {
	if len(r.moves)+len(r.in) == 0 {
		return nil
	}
	moved, came, err := r.c.engine.Switch(ctx, r.c.systemTier, r.moves, r.in)
	if err != nil {
		return err
	}
	for k, n := range moved {
		done[r.moved[k]].Records += n.Brought
		done[r.moved[k]].Replaced += n.Replaced
	}
	for k, n := range came {
		done[r.came[k]].Records += n.Brought
		done[r.came[k]].Replaced += n.Replaced
	}
	return nil
}

func (r *categoryRestore) tell(p backup.Progress) {
	if r.progress != nil {
		r.progress(p)
	}
}

// holds tells whether the backup has records of the category for its home, in the part
// of that or among the writes that waited for it. Of a tier that was left out it has such
// writes alone, which are not all that the category had.
func (r *categoryRestore) holds(ctx context.Context, rt *route) (bool, error) {
	if !r.e.Manifest.HasPart(rt.tierName) {
		return false, nil
	}
	for _, p := range r.e.Manifest.Parts {
		some := func(c backup.RecordCount) bool { return c.Category == rt.category && c.Records > 0 }
		if p.Name == rt.tierName && slices.ContainsFunc(p.Records, some) {
			return true, nil
		}
	}
	waiting, err := r.waitingIn(ctx, rt)
	return len(waiting) > 0, err
}

// namespaces answers those in which the category has records in the backup or now.
func (r *categoryRestore) namespaces(ctx context.Context, rt *route) ([]string, error) {
	all, err := r.waitingIn(ctx, rt)
	if err != nil {
		return nil, err
	}
	for _, p := range r.e.Manifest.Parts {
		for _, c := range p.Records {
			if p.Name == rt.tierName && c.Category == rt.category {
				all = append(all, c.Namespace)
			}
		}
	}
	for s, err := range rt.tier.Spaces(ctx) {
		if err != nil {
			return nil, err
		}
		if s.Category == rt.category {
			all = append(all, s.Namespace)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// copy opens the copy of a part once.
func (r *categoryRestore) copy(ctx context.Context, part string) (tiers.Copy, error) {
	if c, ok := r.copies[part]; ok {
		return c, nil
	}
	c, err := r.b.repo.OpenCopy(ctx, r.e.ID, part)
	if err == nil {
		r.copies[part] = c
	}
	return c, err
}

// each calls fn with the live records of a space of the backup.
func (r *categoryRestore) each(ctx context.Context, rt *route, namespace string, one *CategoryRestored, fn func(tiers.Record) error) error {
	c, err := r.copy(ctx, rt.tierName)
	if err != nil {
		return err
	}
	bytes := int64(0)
	for rec, err := range c.Records(ctx, tiers.Space{Namespace: namespace, Category: rt.category}) {
		if err != nil {
			return err
		}
		if !rec.Live(r.c.clock.Now()) {
			one.Expired++
			continue
		}
		if err := rt.register(ctx, rec.Schema); err != nil {
			return err
		}
		if err := fn(rec); err != nil {
			return err
		}
		bytes += int64(len(rec.Value))
		r.tell(backup.Progress{Step: "restore", Part: rt.category, Done: bytes, Total: -1})
	}
	return nil
}

// transact restores a category in one transaction.
func (r *categoryRestore) transact(ctx context.Context, rt *route, one *CategoryRestored) error {
	namespaces, err := r.namespaces(ctx, rt)
	if err != nil {
		return err
	}
	err = r.m.Update(asOwnWork(ctx), func(tx *Tx) error {
		*one = CategoryRestored{Category: rt.category, Tier: rt.tierName} // it may be run again
		for _, namespace := range namespaces {
			p := r.c.place(tx.Namespace(namespace).scope(), rt.category, nil)
			gone := map[string]struct{}{}
			for rec, err := range p.tier.List(ctx, tiers.Query{Namespace: namespace, Category: rt.category, KeysOnly: true}) {
				if err != nil && rec.Name == "" {
					return err
				}
				gone[rec.Name] = struct{}{}
			}
			one.Replaced += int64(len(gone))
			err := r.each(ctx, rt, namespace, one, func(rec tiers.Record) error {
				delete(gone, rec.Name)
				if !rec.Expires.IsZero() {
					rec.TTL = rec.Expires.Sub(r.c.clock.Now())
				}
				one.Records++
				_, err := p.tier.Save(ctx, rec, tiers.Cond{})
				return err
			})
			if err != nil {
				return err
			}
			for name := range gone {
				if _, err := p.tier.Delete(ctx, p.key(name), tiers.Cond{}); err != nil {
					return err
				}
			}
		}
		return nil
	}, WithRetry(transactTries))
	if errors.Is(err, tiers.ErrTooLarge) {
		return tiers.Fail("restore", rt.tierName, tiers.Key{Category: rt.category}, tiers.Hint(
			fmt.Errorf("%w: a category of this tier is restored by one transaction, and nothing was changed: %s", tiers.ErrTooLarge, tooMuch),
			"restore into another directory with --to, and bring back from there what is needed"))
	}
	return err
}

// tooMuch is the bound of a transaction, for people.
const tooMuch = "it may change 64 MiB"
