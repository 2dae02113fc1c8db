package memory

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/sagestore/sagestore/tiers"
)

// counters are what Stats answers beyond what the shards know.
type counters struct {
	evicted atomic.Int64
	expired atomic.Int64
}

// Sweep removes expired records. Shards without any are passed over.
func (t *Tier) Sweep(ctx context.Context, limit int) (removed int, err error) {
	if err := t.begin(ctx); err != nil {
		return 0, t.fail("sweep", tiers.Key{}, err)
	}
	return t.sweep(t.clock.Now().UnixMicro(), limit), nil
}

func (t *Tier) sweep(now int64, limit int) (removed int) {
	for i := range t.shards {
		if removed >= limit {
			break
		}
		removed += t.sweepShard(&t.shards[i], now, limit-removed)
	}
	return removed
}

func (t *Tier) sweepShard(sh *shard, now int64, limit int) (removed int) {
	sh.RLock()
	idle := sh.soonest == 0 || now < sh.soonest
	sh.RUnlock()
	if idle {
		return 0
	}
	sh.Lock()
	var over []*entry
	soonest := int64(0)
	for _, e := range sh.entries {
		for ; e != nil; e = e.next {
			if !e.live(now) && len(over) < limit {
				over = append(over, e)
			} else if e.expires != 0 && (soonest == 0 || e.expires < soonest) {
				soonest = e.expires
			}
		}
	}
	sh.soonest = soonest
	old := make([]stored, len(over))
	for i, e := range over {
		old[i] = e.stored
		t.remove(sh, e)
	}
	sh.Unlock()
	for i, e := range over {
		t.expired(e, &old[i])
	}
	return len(over)
}

// expire removes one entry if it has expired.
func (t *Tier) expire(e *entry, now int64) {
	e.sh.Lock()
	old := e.stored
	ok := !e.gone && !e.sh.closed && !e.live(now)
	if ok {
		t.remove(e.sh, e)
	}
	e.sh.Unlock()
	if ok {
		t.expired(e, &old)
	}
}

// expired releases what an expired entry took.
func (t *Tier) expired(e *entry, old *stored) {
	names := int64(len(e.name))
	t.room.give(old.resident() + names)
	t.room.names.Add(-names)
	if !old.at.IsZero() {
		t.spill.Free(old.at)
	}
	t.counts.expired.Add(1)
}

// Ping tells whether the tier is open.
func (t *Tier) Ping(ctx context.Context) error {
	return t.fail("ping", tiers.Key{}, t.begin(ctx))
}

// Stats answers the tier's counters. Evicted are the values that went to the
// spill file; Entries and Bytes include them, and what has expired but was not
// swept yet.
func (t *Tier) Stats(ctx context.Context) (tiers.Stats, error) {
	if err := t.begin(ctx); err != nil {
		return tiers.Stats{}, t.fail("stats", tiers.Key{}, err)
	}
	s := tiers.Stats{Evicted: t.counts.evicted.Load(), Expired: t.counts.expired.Load()}
	for i := range t.shards {
		sh := &t.shards[i]
		sh.RLock()
		s.Entries += sh.count
		s.Bytes += sh.bytes
		sh.RUnlock()
		s.Hits += sh.hits.Load()
		s.Misses += sh.misses.Load()
	}
	return s, nil
}

// Diagnose checks the budget, the spill file and the place for it.
func (t *Tier) Diagnose(ctx context.Context) []tiers.Finding {
	if err := t.begin(ctx); err != nil {
		return []tiers.Finding{{Subject: "memory", Message: err.Error(), Hint: "open the tier"}}
	}
	used := t.room.used.Load()
	found := []tiers.Finding{{
		OK: true, Subject: "budget",
		Message: fmt.Sprintf("%d of %d bytes are used", used, t.room.budget),
	}}
	if t.spill == nil {
		if used > t.room.budget/10*9 {
			found[0].OK = false
			found[0].Hint = "saves are refused when it is used up: raise memory.budget, or set memory.overflow to spill"
		}
		return found
	}
	live, taken := t.spill.Usage()
	file := tiers.Finding{
		OK: true, Subject: "spill file",
		Message: fmt.Sprintf("%d of %d bytes are taken, %d of them by values", taken, t.spill.Limit(), live),
	}
	if taken > t.spill.Limit()/10*9 {
		file.OK = false
		file.Hint = "saves are refused when it is full: raise memory.spill_limit or memory.budget"
	}
	return append(found, file, t.spillPlace())
}

// spillPlace tries whether the spill file could be made.
func (t *Tier) spillPlace() tiers.Finding {
	f := tiers.Finding{OK: true, Subject: "spill directory", Message: "a file can be made in " + t.opts.SpillDir}
	probe, err := os.CreateTemp(t.opts.SpillDir, ".sagestore-probe-*")
	if err == nil {
		_ = probe.Close()
		err = os.Remove(probe.Name())
	} else if os.IsNotExist(err) {
		f.Message = t.opts.SpillDir + " is made when it is needed"
		return f
	}
	if err != nil {
		f.OK, f.Message, f.Hint = false, err.Error(), "set memory.spill_dir to a directory that can be written"
	}
	return f
}
