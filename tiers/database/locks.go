package database

import (
	"context"
	"errors"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

// Lock implements tiers.Locker, by a lock file beside the database.
func (t *Tier) Lock(ctx context.Context, name string) (unlock func(), ok bool, err error) {
	if err := engine.Over(ctx); err != nil {
		return nil, false, t.fail("lock", tiers.Key{}, err)
	}
	if err := t.pool.enter(); err != nil {
		return nil, false, t.fail("lock", tiers.Key{}, err)
	}
	defer t.pool.leave()
	if t.path == Memory { // which no other handle can have
		_, taken := t.locks.LoadOrStore(name, true)
		return func() { t.locks.Delete(name) }, !taken, nil
	}
	l, err := openLock(t.path + "." + name)
	if err != nil {
		return nil, false, t.fail("lock", tiers.Key{}, err)
	}
	ok, err = l.try(true)
	if !ok || err != nil {
		return nil, false, t.fail("lock", tiers.Key{}, errors.Join(err, l.close()))
	}
	return func() { _ = l.close() }, true, nil // closing gives the lock back
}
