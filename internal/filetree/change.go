package filetree

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// tries is how often a change begins again because files changed under it. Only
// people and foreign programs can make it do so: the store's own writers hold
// the lock.
const tries = 20

// Load answers the record, or ErrNotFound.
func (t *Tree) Load(ctx context.Context, k tiers.Key) (tiers.Record, error) {
	r, err := t.load(ctx, k, true)
	return r, t.fail("load", k, err)
}

// Exists tells whether a live record is there.
func (t *Tree) Exists(ctx context.Context, k tiers.Key) (bool, error) {
	_, err := t.load(ctx, k, false)
	if errors.Is(err, tiers.ErrNotFound) {
		return false, nil
	}
	return err == nil, t.fail("exists", k, err)
}

func (t *Tree) load(ctx context.Context, k tiers.Key, whole bool) (tiers.Record, error) {
	if err := k.Check(); err != nil {
		return tiers.Record{}, err
	}
	if err := t.enter(ctx); err != nil {
		return tiers.Record{}, err
	}
	defer t.gate.leave()
	found, err := t.look(k, whole)
	if len(found.Files) > 0 && !found.Record.Live(t.clock.Now()) {
		found, err = Found{}, nil
	}
	if err == nil && len(found.Files) == 0 {
		err = tiers.ErrNotFound
		t.counted.misses.Add(1)
	}
	if err != nil {
		return tiers.Record{}, err
	}
	t.counted.hits.Add(1)
	found.Record.Key = k
	return found.Record, nil
}

// look finds a record without a lock.
func (t *Tree) look(k tiers.Key, whole bool) (found Found, err error) {
	p := placeOf(k)
	d, err := t.openDir(p.dir())
	if isAbsent(err) {
		return Found{}, nil
	}
	if err != nil {
		return Found{}, err
	}
	defer func() { err = also(err, d.close()) }()
	return t.form.Find(d, p.stem, whole)
}

// change is one change of a key that holds its lock: the directory is open, and
// found is what is there.
type change struct {
	dir    *Dir
	stem   string
	stripe int
	found  Found
	live   tiers.Version // 0 when what was found has expired, or nothing was
	now    time.Time
	err    error // why what was found can't be read
}

// with looks at a key under its lock and lets fn change it. What fn did is made
// durable after the lock is given back. With create the directory is made.
func (t *Tree) with(ctx context.Context, k tiers.Key, create bool, fn func(c *change) (changed bool, err error)) error {
	if err := k.Check(); err != nil {
		return err
	}
	if err := t.enter(ctx); err != nil {
		return err
	}
	defer t.gate.leave()
	if err := t.writable(); err != nil {
		return err
	}
	var err error
	for range tries {
		if err = t.once(ctx, k, create, fn); !errors.Is(err, errMoved) {
			break
		}
	}
	return err
}

func (t *Tree) once(ctx context.Context, k tiers.Key, create bool, fn func(c *change) (changed bool, err error)) (err error) {
	stripe := stripeOf(k)
	p := placeOf(k)
	changed, d, err := t.locked(ctx, stripe, p, create, fn)
	if d == nil {
		return err
	}
	defer func() { err = also(err, d.close()) }()
	return t.settle(ctx, d, changed, err)
}

// settle makes what was changed durable, and says when that is not certain.
func (t *Tree) settle(ctx context.Context, d *Dir, changed bool, err error) error {
	if !changed {
		return err
	}
	if synced := d.Sync(ctx); synced != nil {
		if !errors.Is(synced, tiers.ErrCommitUnknown) {
			synced = fmt.Errorf("%w: %w", tiers.ErrCommitUnknown, synced)
		}
		return errors.Join(err, synced)
	}
	if err != nil {
		// Visible and durable, but something after that went wrong.
		return fmt.Errorf("%w: %w", tiers.ErrCommitUnknown, err)
	}
	return nil
}

// locked runs fn under the lock. The directory is the caller's to close.
func (t *Tree) locked(ctx context.Context, stripe int, p place, create bool, fn func(c *change) (bool, error)) (changed bool, d *Dir, err error) {
	release, err := t.stripes.acquire(ctx, stripe)
	if err != nil {
		return false, nil, err
	}
	defer release()
	if create {
		d, err = t.makeDir(ctx, p)
	} else {
		d, err = t.openDir(p.dir())
	}
	if err != nil && (create || !isAbsent(err)) {
		return false, nil, err
	}
	c := &change{dir: d, stem: p.stem, stripe: stripe, now: t.clock.Now()}
	if d != nil {
		d.stripe = stripe
		if err := t.find(c); err != nil {
			return false, d, err
		}
	}
	changed, err = fn(c)
	return changed, d, err
}

// find looks at what is there before a change.
func (t *Tree) find(c *change) error {
	c.found, c.err = t.form.Find(c.dir, c.stem, false)
	if c.err != nil && len(c.found.Files) == 0 {
		return c.err
	}
	c.live = 0
	if len(c.found.Files) > 0 && c.found.Record.Live(c.now) {
		c.live = c.found.Record.Version
	}
	return nil
}

// drift is how far a version may be from the clock and still stand for the time
// of the save. Within it no time of its own has to be stored.
const drift = time.Second

// stamp gives a record its version and times.
func stamp(r tiers.Record, c *change, version tiers.Version) tiers.Record {
	r.Version, r.TTL = version, 0
	r.Updated = TimeOf(version)
	if off := r.Updated.Sub(c.now); off >= drift || off <= -drift {
		r.Updated = tiers.Micro(c.now)
	}
	r.Created = r.Updated
	if c.live != 0 {
		r.Created = c.found.Record.Created
	}
	return r
}

// Delete removes the key if the condition holds.
func (t *Tree) Delete(ctx context.Context, k tiers.Key, cond tiers.Cond) (existed bool, err error) {
	err = t.with(ctx, k, false, func(c *change) (bool, error) {
		existed = c.live != 0
		if err := cond.Holds(c.live); err != nil {
			return false, err
		}
		return t.remove(ctx, c)
	})
	if err != nil {
		return false, t.fail("delete", k, err)
	}
	return existed, nil
}

// remove removes what was found, expired or not, and makes sure that later
// versions are higher.
func (t *Tree) remove(ctx context.Context, c *change) (changed bool, err error) {
	if len(c.found.Files) == 0 {
		return false, nil
	}
	if err := t.mark.raiseFound(ctx, c.found.Record.Version); err != nil {
		return false, err
	}
	if err := t.stripes.setRemoved(c.stripe, c.found.Record.Version); err != nil {
		return false, err
	}
	gone, err := t.form.Remove(ctx, c.dir, c.stem, c.found)
	if err == nil {
		t.prune(c.dir.path)
	}
	return gone, err
}

// Touch changes when a live record ends.
func (t *Tree) Touch(ctx context.Context, k tiers.Key, ttl time.Duration) (existed bool, err error) {
	err = t.with(ctx, k, false, func(c *change) (bool, error) {
		existed = c.live != 0
		if !existed {
			return false, nil
		}
		if ttl < 0 {
			return t.remove(ctx, c)
		}
		if c.err != nil {
			return false, c.err
		}
		c.found.Record.Expires = tiers.Deadline(c.now, ttl)
		if err := t.form.Expire(ctx, c.dir, c.stem, c.found); err != nil {
			return false, err
		}
		return true, nil
	})
	if err != nil {
		return false, t.fail("touch", k, err)
	}
	return existed, nil
}

// Apply stores records as they are, unless newer ones are there.
func (t *Tree) Apply(ctx context.Context, rs []tiers.Record, over []tiers.Cond) error {
	if over != nil && len(over) != len(rs) {
		return t.fail("apply", tiers.Key{}, fmt.Errorf("%w: %d records with %d conditions", tiers.ErrType, len(rs), len(over)))
	}
	return errors.Join(t.each(len(rs), func(i int) tiers.Key { return rs[i].Key }, func(i int) error {
		var cond tiers.Cond
		if over != nil {
			cond = over[i]
		}
		return t.fail("apply", rs[i].Key, t.apply(ctx, rs[i], cond))
	})...)
}

// apply stores one record. What it answers nil for is durable, also when there
// was nothing to do: then somebody may have done it who was killed before it was
// synced, and the caller forgets the record for good.
func (t *Tree) apply(ctx context.Context, r tiers.Record, over tiers.Cond) error {
	gone := r.Deleted || !r.Live(t.clock.Now())
	if err := t.check(r); err != nil && !gone {
		return err
	}
	if r.Version > maxVersion {
		return fmt.Errorf("%w: it comes with the impossible version %d", tiers.ErrCorrupt, r.Version)
	}
	return t.with(ctx, r.Key, !gone, func(c *change) (bool, error) {
		placed, err := t.applyTo(ctx, c, r, over, gone)
		if err != nil || placed {
			return placed, err
		}
		if c.dir == nil {
			return false, t.syncDir(ctx, placeOf(r.Key).dir())
		}
		return true, nil
	})
}

// applyTo does it under the key's lock.
func (t *Tree) applyTo(ctx context.Context, c *change, r tiers.Record, over tiers.Cond, gone bool) (placed bool, err error) {
	if _, given := over.Version(); given {
		if over.Holds(c.live) != nil {
			return false, nil
		}
	} else if c.live > r.Version || c.live == r.Version && !gone {
		return false, nil
	}
	if c.live > t.mark.now()+farAhead {
		// It was reserved above a wrong time that somebody gave the file.
		err = t.mark.raiseFound(ctx, r.Version)
	} else {
		err = t.mark.raise(ctx, r.Version)
	}
	if err != nil {
		return false, err
	}
	if gone {
		return t.remove(ctx, c)
	}
	if r.Created.IsZero() {
		r.Created = TimeOf(r.Version)
	}
	if r.Updated.IsZero() {
		r.Updated = TimeOf(r.Version)
	}
	if c.live != 0 {
		// Whatever is in the way has to make room for what is decided, but
		// what a person wrote is kept.
		if t.form.Guard(c.dir, c.found, c.err) != nil {
			if err := c.dir.Keep(c.found.Files[0]); err != nil {
				return false, err
			}
			c.found = Found{Files: c.found.Files[1:]}
		}
	}
	r.Created, r.Updated, r.Expires = tiers.Micro(r.Created), tiers.Micro(r.Updated), tiers.Micro(r.Expires)
	prepared, err := t.form.Prepare(c.dir, c.stem, c.found, r)
	if err != nil {
		return false, err
	}
	defer prepared.Discard()
	return prepared.Place(ctx, c.found)
}

// fail completes an error with what was being done.
func (t *Tree) fail(op string, k tiers.Key, err error) error {
	if err == nil {
		return nil
	}
	if isFault(err) {
		t.counted.errors.Add(1)
	}
	return tiers.Fail(op, t.name, k, explain(err))
}

// isFault tells a failure from an answer.
func isFault(err error) bool {
	for _, answer := range []error{
		tiers.ErrNotFound, tiers.ErrExists, tiers.ErrConflict, tiers.ErrClosed, tiers.ErrKey, tiers.ErrCategory,
		context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, answer) {
			return false
		}
	}
	return true
}
