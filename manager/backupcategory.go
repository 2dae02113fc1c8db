package manager

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/internal/conflict"
	"github.com/sagestore/sagestore/tiers"
)

const (
	// stagedPrefix begins the names of the categories in which a restore prepares
	// records. A name that begins with a dash is possible, and nobody's.
	stagedPrefix = "-restore-"
	// stagedChunk bounds the bytes of values that are stored at once, so that others
	// get in between.
	stagedChunk = 1 << 20
	// transactTries is how often a transaction is run again that others got in the way of.
	transactTries = 10
	// sweepStagedEvery is how often it is looked for what a restore that was killed
	// has left.
	sweepStagedEvery = time.Hour
)

func isStaged(category string) bool { return strings.HasPrefix(category, stagedPrefix) }

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
// there. What was saved since the backup is gone then. Those whose home can switch,
// as the database does, are prepared aside and switched in one transaction, however
// many records they have; all others are restored by one transaction of [Manager.Update]
// and have to fit in it, else they are tiers.ErrTooLarge. When this ends early a
// category is old or new and never a mixture.
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
	e, err := b.Show(ctx, id)
	if err != nil {
		return nil, err
	}
	store, err := m.core.storeID(ctx)
	if err != nil {
		return nil, err
	}
	if e.Manifest.Store != store && !o.Adopt {
		return nil, tiers.Hint(conflict.Errorf("it is of store %q, not of %q", e.Manifest.Store, store), "add --adopt if it is meant")
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
		if !r.holds(rt) {
			return nil, tiers.Fail("restore", rt.tierName, tiers.Key{Category: name},
				tiers.Hint(fmt.Errorf("%w: backup %s holds no record of it in tier %s", tiers.ErrNotFound, r.e.ID, rt.tierName), "`sagestore backup show` lists what it holds"))
		}
		routes = append(routes, rt)
	}
	var moves []tiers.Move
	var moved []int // index in done of each move
	var switcher tiers.Switcher
	for _, rt := range routes {
		one := CategoryRestored{Category: rt.category, Tier: rt.tierName}
		if s, ok := tiers.As[tiers.Switcher](rt.tier); ok && (switcher == nil || rt.tier == r.c.systemTier) {
			switcher = s
			more, err := r.stage(ctx, rt, &one)
			if err != nil {
				return nil, err
			}
			for range more {
				moved = append(moved, len(done))
			}
			moves = append(moves, more...)
		}
		done = append(done, one)
	}
	// What goes through a transaction comes first: if it can't be done, nothing was.
	for i, rt := range routes {
		if !slices.Contains(moved, i) {
			if err := r.transact(ctx, rt, &done[i]); err != nil {
				return nil, err
			}
		}
	}
	if len(moves) == 0 {
		return done, nil
	}
	counts, err := switcher.Switch(ctx, moves)
	if err != nil {
		return nil, err
	}
	for i, n := range counts {
		done[moved[i]].Records += n.Brought
		done[moved[i]].Replaced += n.Replaced
	}
	return done, nil
}

// holds tells whether the backup has records of the category in the part of its home.
func (r *categoryRestore) holds(rt *route) bool {
	for _, p := range r.e.Manifest.Parts {
		if p.Name == rt.tierName {
			return slices.ContainsFunc(p.Records, func(c backup.RecordCount) bool { return c.Category == rt.category && c.Records > 0 })
		}
	}
	return false
}

// namespaces answers those in which the category has records in the backup or now.
func (r *categoryRestore) namespaces(ctx context.Context, rt *route) ([]string, error) {
	var all []string
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
		if r.progress != nil {
			r.progress(backup.Progress{Step: "restore", Part: rt.category, Done: bytes, Total: -1})
		}
	}
	return nil
}

// stage prepares a category aside, in chunks, and answers the moves that would bring
// it in.
func (r *categoryRestore) stage(ctx context.Context, rt *route, one *CategoryRestored) (moves []tiers.Move, err error) {
	applier, ok := tiers.As[tiers.Applier](rt.tier)
	if !ok {
		return nil, tiers.Fail("restore", rt.tierName, tiers.Key{Category: rt.category}, tiers.ErrUnsupported)
	}
	namespaces, err := r.namespaces(ctx, rt)
	if err != nil {
		return nil, err
	}
	for _, namespace := range namespaces {
		var token [8]byte
		_, _ = rand.Read(token[:]) // never fails
		to := tiers.Space{Namespace: namespace, Category: rt.category}
		from := tiers.Space{Namespace: namespace, Category: stagedPrefix + hex.EncodeToString(token[:])}
		r.staged++
		var chunk []tiers.Record
		size := 0
		flush := func() error {
			err := applier.Apply(ctx, chunk, nil)
			chunk, size = nil, 0
			return err
		}
		err := r.each(ctx, rt, namespace, one, func(rec tiers.Record) error {
			rec.Category = from.Category
			chunk = append(chunk, rec)
			if size += len(rec.Value) + len(rec.Name); size < stagedChunk {
				return nil
			}
			return flush()
		})
		if err == nil && len(chunk) > 0 {
			err = flush()
		}
		if err != nil {
			return nil, err
		}
		moves = append(moves, tiers.Move{From: from, To: to})
	}
	return moves, nil
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

// sweepStaged removes what a restore has left that was killed.
func (c *core) sweepStaged(ctx context.Context) error {
	if !c.hasStaged(ctx) {
		return nil
	}
	b, err := c.ownBackups(ctx)
	if err != nil {
		return err
	}
	unlock, err := b.lock()
	if errors.Is(err, tiers.ErrConflict) {
		return nil // it may be a restore that is under way
	}
	if err != nil {
		return err
	}
	defer unlock()
	return c.clearStaged(ctx)
}

func (c *core) hasStaged(ctx context.Context) bool {
	for s, err := range c.systemTier.Spaces(ctx) {
		if err == nil && isStaged(s.Category) {
			return true
		}
	}
	return false
}

// clearStaged removes what was prepared and is not there to be switched. It is called
// with the lock of backups.
func (c *core) clearStaged(ctx context.Context) error {
	var errs []error
	for _, name := range c.order {
		t := c.stations[name].tier
		switcher, ok := tiers.As[tiers.Switcher](t)
		if !ok {
			continue
		}
		var moves []tiers.Move
		for s, err := range t.Spaces(ctx) {
			if err != nil {
				errs = append(errs, err)
				break
			}
			if isStaged(s.Category) {
				moves = append(moves, tiers.Move{From: tiers.Space{Namespace: s.Namespace, Category: stagedPrefix + "none"}, To: s})
			}
		}
		if len(moves) > 0 {
			_, err := switcher.Switch(ctx, moves)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
