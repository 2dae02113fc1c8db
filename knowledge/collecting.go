package knowledge

import (
	"context"
	"errors"

	"github.com/sagestore/sagestore/manager"
)

// held tells whether some session has a reference to the content. When none has,
// it is removed.
func (k *Store) held(ctx context.Context, hash string) (bool, error) {
	if k.apart != nil {
		return true, nil
	}
	for e, err := range k.holders.List(ctx, manager.Prefix(hash+"/"), manager.KeysOnly()) {
		if err != nil {
			return false, err
		}
		if there, err := k.references.Exists(ctx, referenceKey(e.Key)); err != nil || there {
			return there, err
		}
	}
	if k.tx != nil {
		return false, nil // somebody else will remove it
	}
	err := k.update(ctx, func(v view) error {
		_, err := v.tidy(ctx, hash)
		return err
	})
	if err != nil {
		return false, err
	}
	return k.bodies.Exists(ctx, hash) // somebody may have put it meanwhile
}

// referenceKey answers the key of the reference that a holder's key stands for.
func referenceKey(holderKey string) string {
	segments := manager.SplitKey(holderKey)
	return manager.Key(segments[1], segments[0])
}

// tidy removes the holders of content that have no reference, and the content when
// there is no other.
func (v view) tidy(ctx context.Context, hash string) (removed bool, err error) {
	if v.apart != nil {
		return false, nil
	}
	held := false
	var gone []string
	for e, err := range v.holders.List(ctx, manager.Prefix(hash+"/"), manager.KeysOnly()) {
		if err != nil {
			return false, err
		}
		there, err := v.references.Exists(ctx, referenceKey(e.Key))
		if err != nil {
			return false, err
		}
		if held = held || there; !there {
			gone = append(gone, e.Key)
		}
	}
	if len(gone) > 0 {
		if _, err := v.holders.DeleteMany(ctx, gone...); err != nil {
			return false, err
		}
	}
	if held {
		return false, nil
	}
	return v.bodies.Delete(ctx, hash)
}

// Collect removes the content that no session holds any more, and tells how much
// that was. It is done in the background once a minute, and for a hash when it is
// asked for.
func (k *Store) Collect(ctx context.Context) (removed int, err error) {
	if k.apart != nil {
		return 0, nil
	}
	type found struct{ alive, dead bool } // what holders the content has
	hashes := map[string]found{}
	for e, err := range k.holders.List(ctx, manager.KeysOnly()) {
		if err != nil {
			return 0, fail("collect", "", err)
		}
		segments := manager.SplitKey(e.Key)
		hash := hashes[segments[0]]
		if len(segments) == 2 {
			there, err := k.references.Exists(ctx, referenceKey(e.Key))
			if err != nil {
				return 0, fail("collect", "", err)
			}
			hash.alive, hash.dead = hash.alive || there, hash.dead || !there
		}
		hashes[segments[0]] = hash
	}
	var errs []error
	for hash, holders := range hashes {
		if holders.alive && !holders.dead || checkHash(hash) != nil {
			continue
		}
		gone := false
		err := k.update(ctx, func(v view) (err error) {
			gone, err = v.tidy(ctx, hash)
			return err
		})
		if gone && err == nil {
			removed++
		}
		errs = append(errs, fail("collect", hash, err))
	}
	return removed, errors.Join(errs...)
}
