package memory

import (
	"slices"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/sagestore/sagestore/tiers"
)

// evictor is ristretto as the policy of a near layer. Only the numbers of things
// are in it. It is filled in small batches that each end with a wait, so that its
// buffer never overflows and whatever it lets go is known when the wait returns.
type evictor struct {
	cache  *ristretto.Cache[uint64, uint64]
	leaves []uint64 // filled by ristretto's goroutine until the wait returns
}

// settleBatch is far below what ristretto buffers.
const settleBatch = 1024

func newEvictor(budget int64) (tiers.Evictor, error) {
	v := &evictor{}
	leave := func(item *ristretto.Item[uint64]) {
		if item.Value != 0 { // ristretto may sample, and then evict, one twice
			v.leaves = append(v.leaves, item.Value)
		}
	}
	cache, err := ristretto.NewCache(&ristretto.Config[uint64, uint64]{
		NumCounters:            10 * min(max(budget/1024, 1<<10), 1<<20),
		MaxCost:                max(budget, 1),
		BufferItems:            64,
		IgnoreInternalCost:     true,
		OnEvict:                leave,
		OnReject:               leave,
		TtlTickerDurationInSec: 1 << 30, // it is given no expiry to look for
	})
	v.cache = cache
	return v, err
}

func (v *evictor) Settle(come []tiers.Held, gone []uint64) (leave []uint64) {
	for part := range slices.Chunk(gone, settleBatch) {
		for _, id := range part {
			v.cache.Del(id)
		}
		v.cache.Wait()
	}
	v.leaves = nil // none but by mistake: what was taken out has not been let go
	for part := range slices.Chunk(come, settleBatch) {
		for _, h := range part {
			for !v.cache.Set(h.ID, h.ID, h.Cost) {
				v.cache.Wait()
			}
		}
		v.cache.Wait()
	}
	leave, v.leaves = v.leaves, nil
	return slices.DeleteFunc(leave, v.holds) // a rejection can be a false alarm
}

// holds asks without counting it.
func (v *evictor) holds(id uint64) bool {
	_, in := v.cache.GetTTL(id)
	return in
}

func (v *evictor) Touch(id uint64) { v.cache.Get(id) }

func (v *evictor) Close() { v.cache.Close() }
