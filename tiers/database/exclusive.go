package database

import (
	"context"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.Excluder = (*Tier)(nil)

// Exclude implements tiers.Excluder, by the lock that everybody who has the file open
// holds shared.
func (t *Tier) Exclude(ctx context.Context) (release func() error, err error) {
	defer func() { err = t.fail("lock", tiers.Key{}, err) }()
	if err := engine.Over(ctx); err != nil {
		return nil, err
	}
	if err := t.pool.enter(); err != nil {
		return nil, err
	}
	defer t.pool.leave()
	if t.path == Memory { // which no other handle can have
		return func() error { return nil }, nil
	}
	if err := t.presence.alone(ctx, t.path, true); err != nil {
		return nil, err
	}
	return func() error {
		_, err := t.presence.lock.try(false) // nobody is in the way
		return t.fail("unlock", tiers.Key{}, err)
	}, nil
}
