package knowledge

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/sagestore/sagestore/manager"
)

// Access tells how content was used.
type Access struct {
	ContentHash string    `json:"content_hash"`
	Count       int64     `json:"count"`
	First       time.Time `json:"first"`
	Last        time.Time `json:"last"`
}

// accessRecord is an [Access] as knowledge.access holds it, under the hash.
type accessRecord struct {
	Count int64     `json:"count"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// counters count the accesses of this process that are not written yet.
type counters struct {
	mu      sync.Mutex
	all     map[string]*counter
	writing sync.Mutex // one at a time writes, so that nothing is written twice
}

type counter struct {
	written int64     // what knowledge.access had when it was last looked at
	fresh   int64     // accesses since
	first   time.Time // of the fresh ones
	last    time.Time
}

// forgetAfter is how long a counter without accesses stays in memory.
const forgetAfter = 10 * time.Minute

// access counts one and answers how many there were.
func (k *Store) access(ctx context.Context, hash string) (int64, error) {
	if k.m == nil {
		r, err := k.accesses.Modify(ctx, hash, func(r *accessRecord, _ bool) error {
			r.add(1, k.now(), k.now())
			return nil
		})
		return r.Count, err
	}
	written, err := k.counters.known(ctx, k, hash)
	if err != nil {
		return 0, err
	}
	if k.tx == nil {
		return k.counters.add(hash, written, k.now()), nil
	}
	k.tx.OnCommit(func(context.Context) { k.counters.add(hash, written, k.now()) })
	return k.counters.of(hash, written) + 1, nil
}

// known answers how many accesses are written, from memory if it can.
func (c *counters) known(ctx context.Context, k *Store, hash string) (int64, error) {
	c.mu.Lock()
	if one := c.all[hash]; one != nil {
		defer c.mu.Unlock()
		return one.written, nil
	}
	c.mu.Unlock()
	r, err := k.accesses.LoadOr(ctx, hash, accessRecord{})
	return r.Count, err
}

func (c *counters) of(hash string, written int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.all[hash]; one != nil {
		return one.written + one.fresh
	}
	return written
}

func (c *counters) add(hash string, written int64, now time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]*counter{}
	}
	one := c.all[hash]
	if one == nil {
		one = &counter{written: written}
		c.all[hash] = one
	}
	if one.fresh == 0 {
		one.first = now
	}
	one.fresh++
	one.last = now
	return one.written + one.fresh
}

func (r *accessRecord) add(n int64, first, last time.Time) {
	if r.Count == 0 {
		r.First = first
	}
	r.Count += n
	if last.After(r.Last) {
		r.Last = last
	}
}

// mostAtOnce bounds a transaction that writes counts.
const mostAtOnce = 256

// writeCounts writes what was counted since the last time.
func (k *Store) writeCounts(ctx context.Context) error {
	c := &k.counters
	c.writing.Lock()
	defer c.writing.Unlock()
	fresh := map[string]counter{}
	c.mu.Lock()
	forget := k.now().Add(-forgetAfter)
	for hash, one := range c.all {
		switch {
		case one.fresh > 0:
			fresh[hash] = *one
		case one.last.Before(forget):
			delete(c.all, hash)
		}
	}
	c.mu.Unlock()
	var errs []error
	for len(fresh) > 0 {
		some := make(map[string]counter, mostAtOnce)
		for hash, one := range fresh {
			if some[hash] = one; len(some) == mostAtOnce {
				break
			}
		}
		for hash := range some {
			delete(fresh, hash)
		}
		errs = append(errs, k.writeSome(ctx, some))
	}
	return errors.Join(errs...)
}

func (k *Store) writeSome(ctx context.Context, some map[string]counter) error {
	var now map[string]accessRecord
	outside := partsOf(k.m)
	err := k.m.Update(ctx, func(tx *manager.Tx) error {
		accesses := outside.accesses.In(tx)
		keys := make([]string, 0, len(some))
		for hash := range some {
			keys = append(keys, hash)
		}
		var err error
		if now, err = accesses.LoadMany(ctx, keys...); err != nil {
			return err
		}
		for hash, one := range some {
			r := now[hash]
			r.add(one.fresh, one.first, one.last)
			now[hash] = r
		}
		return accesses.SaveMany(ctx, now)
	}, manager.WithRetry(conflicts))
	if err != nil {
		return fail("write accesses", "", err)
	}
	k.counters.mu.Lock()
	defer k.counters.mu.Unlock()
	for hash, one := range some {
		// Accesses that were counted meanwhile stay fresh.
		if left := k.counters.all[hash]; left != nil {
			left.written, left.fresh = now[hash].Count, left.fresh-one.fresh
		}
	}
	return nil
}

// Accesses yields how content was used that was used since an instant, in the
// order of the hashes; content itself may be gone. It first writes what this
// process has counted. A record that can't be read is an error beside an Access
// that has only ContentHash; any other error ends it.
func (k *Store) Accesses(ctx context.Context, since time.Time) iter.Seq2[Access, error] {
	return func(yield func(Access, error) bool) {
		if k.m != nil && k.tx == nil {
			if err := k.writeCounts(ctx); err != nil {
				yield(Access{}, err)
				return
			}
		}
		for e, err := range k.accesses.List(ctx) {
			a := Access{ContentHash: e.Key}
			if err == nil {
				a.Count, a.First, a.Last = e.Value.Count, e.Value.First, e.Value.Last
			}
			if err == nil && a.Last.Before(since) {
				continue
			}
			if !yield(a, err) {
				return
			}
		}
	}
}
