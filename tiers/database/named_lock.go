package database

import (
	"errors"

	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.Locker = (*Tier)(nil)

// Lock implements tiers.Locker, by a lock file beside the database. A store in
// memory has no other process, and no two handles.
func (t *Tier) Lock(name string) (unlock func(), ok bool, err error) {
	if t.path == Memory {
		return func() {}, true, nil
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
