package filetree

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sagestore/sagestore/tiers"
)

// workers is how many items of a batch are under way at once. Each waits for
// the disk most of its time, and those of one directory share its sync.
const workers = 32

// Atomic answers false: files change one by one.
func (t *Tree) Atomic() bool { return false }

// LoadMany loads each key; what is absent has version 0.
func (t *Tree) LoadMany(ctx context.Context, ks []tiers.Key) ([]tiers.Record, error) {
	out := make([]tiers.Record, len(ks))
	errs := make([]error, 0)
	for i, k := range ks {
		r, err := t.Load(ctx, k)
		switch {
		case err == nil:
			out[i] = r
		case errors.Is(err, tiers.ErrNotFound):
			out[i] = tiers.Record{Key: k}
		default:
			out[i] = tiers.Record{Key: k}
			errs = append(errs, err)
		}
	}
	return out, errors.Join(errs...)
}

// SaveMany saves each record for itself.
func (t *Tree) SaveMany(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
	if err := aligned("save", len(rs), cs); err != nil {
		return nil, t.fail("save", tiers.Key{}, err)
	}
	out := make([]tiers.Record, len(rs))
	errs := t.each(len(rs), func(i int) tiers.Key { return rs[i].Key }, func(i int) (err error) {
		out[i], err = t.Save(ctx, rs[i], tiers.CondAt(cs, i))
		return err
	})
	for i := range out {
		out[i].Key = rs[i].Key
	}
	return out, errors.Join(errs...)
}

// DeleteMany deletes each key for itself.
func (t *Tree) DeleteMany(ctx context.Context, ks []tiers.Key, cs []tiers.Cond) ([]bool, error) {
	if err := aligned("delete", len(ks), cs); err != nil {
		return nil, t.fail("delete", tiers.Key{}, err)
	}
	out := make([]bool, len(ks))
	errs := t.each(len(ks), func(i int) tiers.Key { return ks[i] }, func(i int) (err error) {
		out[i], err = t.Delete(ctx, ks[i], tiers.CondAt(cs, i))
		return err
	})
	return out, errors.Join(errs...)
}

func aligned(op string, n int, cs []tiers.Cond) error {
	if cs != nil && len(cs) != n {
		return fmt.Errorf("%w: %d items to %s with %d conditions", tiers.ErrType, n, op, len(cs))
	}
	return nil
}

// each runs fn for every index and answers the errors by index. Keys of one
// stripe keep their order, so that of two saves of a key the later one wins.
func (t *Tree) each(n int, key func(i int) tiers.Key, fn func(i int) error) []error {
	errs := make([]error, n)
	if n == 1 {
		errs[0] = fn(0)
		return errs
	}
	var lanes [workers][]int
	for i := range n {
		lane := stripeOf(key(i)) % workers
		lanes[lane] = append(lanes[lane], i)
	}
	var wg sync.WaitGroup
	for _, lane := range lanes {
		if len(lane) == 0 {
			continue
		}
		wg.Go(func() {
			for _, i := range lane {
				errs[i] = fn(i)
			}
		})
	}
	wg.Wait()
	return errs
}
