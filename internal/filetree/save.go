package filetree

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// early is how often a save that met a taken lock prepares before it waits for
// the lock. When the key changes meanwhile the work was for nothing, so after
// that it is done under the lock.
const early = 2

// Save stores the record if the condition holds.
func (t *Tree) Save(ctx context.Context, r tiers.Record, cond tiers.Cond) (saved tiers.Record, err error) {
	r.Deleted, r.Expires = false, time.Time{}
	if r.TTL < 0 {
		saved, err = t.saveGone(ctx, r, cond)
	} else {
		saved, err = t.save(ctx, r, cond)
	}
	if err != nil {
		return tiers.Record{}, t.fail("save", r.Key, err)
	}
	return saved, nil
}

// saveGone saves a record that is over before it begins.
func (t *Tree) saveGone(ctx context.Context, r tiers.Record, cond tiers.Cond) (saved tiers.Record, err error) {
	err = t.with(ctx, r.Key, false, func(c *change) (bool, error) {
		if err := cond.Holds(c.live); err != nil {
			return false, err
		}
		version, err := t.mark.next(ctx, c.found.Record.Version)
		if err != nil {
			return false, err
		}
		saved = stamp(r, c, version)
		saved.Expires = tiers.Micro(c.now)
		return t.remove(ctx, c)
	})
	return saved, err
}

func (t *Tree) save(ctx context.Context, r tiers.Record, cond tiers.Cond) (saved tiers.Record, err error) {
	if err := t.check(r); err != nil {
		return saved, err
	}
	if err := t.enter(ctx); err != nil {
		return saved, err
	}
	defer t.gate.leave()
	if err := t.writable(); err != nil {
		return saved, err
	}
	for try := range tries {
		if saved, err = t.saveOnce(ctx, r, cond, try < early); !errors.Is(err, errMoved) {
			break
		}
	}
	return saved, err
}

// check answers what is wrong with a record that is to be stored.
func (t *Tree) check(r tiers.Record) error {
	if err := r.Check(); err != nil {
		return err
	}
	if int64(len(r.Value)) > t.largest {
		return fmt.Errorf("%w: the value has %d bytes, %d are allowed", tiers.ErrTooLarge, len(r.Value), t.largest)
	}
	return nil
}

// saveOnce saves under the key's lock. When the lock is taken the file is
// written and synced before it is waited for, so that keys which share a lock
// wait for the disk at the same time; then the key must not have changed.
func (t *Tree) saveOnce(ctx context.Context, r tiers.Record, cond tiers.Cond, mayPrepare bool) (saved tiers.Record, err error) {
	p, stripe := placeOf(r.Key), stripeOf(r.Key)
	release, locked, err := t.stripes.try(stripe)
	if err == nil && !locked && !mayPrepare {
		release, err = t.stripes.acquire(ctx, stripe)
		locked = true
	}
	if err != nil {
		return saved, err
	}
	defer func() {
		if release != nil {
			release()
		}
	}()
	d, err := t.makeDir(ctx, p)
	if err != nil {
		return saved, err
	}
	defer func() { err = also(err, d.close()) }()
	d.stripe = stripe
	c := &change{dir: d, stem: p.stem, stripe: stripe, now: t.clock.Now()}
	if err := t.find(c); err != nil {
		return saved, err
	}
	saved, prepared, err := t.prepare(ctx, r, cond, c)
	if err != nil {
		return saved, err
	}
	defer prepared.Discard()
	if !locked {
		if release, err = t.stripes.acquire(ctx, stripe); err != nil {
			return saved, err
		}
		if err := t.unchanged(c, saved.Version); err != nil {
			return saved, err
		}
	}
	placed, err := prepared.Place(ctx, c.found)
	release()
	release = nil
	return saved, t.settle(ctx, d, placed, err)
}

// prepare checks the condition, and makes the record ready to be placed.
func (t *Tree) prepare(ctx context.Context, r tiers.Record, cond tiers.Cond, c *change) (saved tiers.Record, p Prepared, err error) {
	if err := cond.Holds(c.live); err != nil {
		return saved, nil, err
	}
	if c.live != 0 {
		if err := t.form.Guard(c.dir, c.found, c.err); err != nil {
			return saved, nil, err
		}
	}
	version, err := t.mark.next(ctx, c.found.Record.Version)
	if err != nil {
		return saved, nil, err
	}
	saved = stamp(r, c, version)
	saved.Expires = tiers.Deadline(c.now, r.TTL)
	p, err = t.form.Prepare(c.dir, c.stem, c.found, saved)
	return saved, p, err
}

// unchanged looks again, now under the lock. A key that was made and removed
// since the first look is told by its version, which is above the one prepared.
func (t *Tree) unchanged(c *change, version tiers.Version) error {
	now := &change{dir: c.dir, stem: c.stem, stripe: c.stripe, now: t.clock.Now()}
	if err := t.find(now); err != nil {
		return err
	}
	if now.live != c.live || !now.found.same(c.found) {
		return fmt.Errorf("%w: another save came first", errMoved)
	}
	if len(now.found.Files) > 0 {
		return nil
	}
	removed, err := t.stripes.removed(c.stripe)
	if err == nil && removed >= version {
		err = fmt.Errorf("%w: a removal came first", errMoved)
	}
	return err
}
