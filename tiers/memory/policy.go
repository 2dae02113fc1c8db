package memory

import (
	"github.com/dgraph-io/ristretto/v2"
)

// policy is ristretto in the one role it has here. Only the keeper changes it,
// in small batches that each end with wait: so its buffer never overflows, its
// answers arrive in order, and whatever it lets go is known when wait returns.
type policy struct {
	cache  *ristretto.Cache[uint64, *entry]
	leaves []*entry // filled by ristretto's goroutine until wait returns
}

// newPolicy makes one for about as many records as a budget of that many bytes
// holds.
func newPolicy(budget int64) (*policy, error) {
	p := &policy{}
	leave := func(item *ristretto.Item[*entry]) {
		// Ristretto may sample, and then evict, one entry twice; the second time
		// it has no value.
		if item.Value != nil {
			p.leaves = append(p.leaves, item.Value)
		}
	}
	cache, err := ristretto.NewCache(&ristretto.Config[uint64, *entry]{
		NumCounters:            10 * min(max(budget/1024, 1<<10), 1<<22),
		MaxCost:                max(budget, 1),
		BufferItems:            64,
		IgnoreInternalCost:     true,
		OnEvict:                leave,
		OnReject:               leave,
		TtlTickerDurationInSec: 1 << 30, // it is given no expiry to look for
	})
	p.cache = cache
	return p, err
}

// put makes the entry's cost known.
func (p *policy) put(e *entry, cost int64) {
	for !p.cache.Set(e.id, e, cost) {
		p.cache.Wait()
	}
}

// drop takes the entry out.
func (p *policy) drop(e *entry) { p.cache.Del(e.id) }

// touch counts a read. It may be called by anyone.
func (p *policy) touch(id uint64) { p.cache.Get(id) }

// has tells whether the entry is in, after wait. Unlike Get it counts nothing.
func (p *policy) has(e *entry) bool {
	_, ok := p.cache.GetTTL(e.id)
	return ok
}

// wait answers what has left, or was not let in, since the last wait.
func (p *policy) wait() []*entry {
	p.cache.Wait()
	out := p.leaves
	p.leaves = nil
	return out
}

// limit sets the sum of costs and lets go what is above it. Ristretto evicts
// only when something new comes in, so what it holds is taken out and put in
// again until the sum is right.
func (p *policy) limit(most int64) {
	if most = max(most, 1); p.cache.MaxCost() != most {
		p.cache.UpdateMaxCost(most)
	}
	p.cache.Wait()
	for p.cache.RemainingCost() < 0 {
		var some *entry
		p.cache.IterValues(func(e *entry) bool { some = e; return true })
		if some == nil {
			return
		}
		cost := some.fed
		p.drop(some)
		p.put(some, cost)
		p.cache.Wait()
	}
}

func (p *policy) close() { p.cache.Close() }
