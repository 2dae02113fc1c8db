package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/sagestore/sagestore/tiers"
)

// lookAt is how many names of an index one script looks at.
const lookAt = 512

// sweeper remembers where the last sweep stopped at its limit.
type sweeper struct {
	mu    sync.Mutex
	space tiers.Space
	from  string
}

// Sweep removes what expired records leave behind. Redis itself removes the
// records; their names stay in the index until then, hidden from everybody.
func (t *Tier) Sweep(ctx context.Context, limit int) (removed int, err error) {
	if !t.indexed || limit <= 0 {
		return 0, t.fail("sweep", tiers.Key{}, ctx.Err())
	}
	t.sweep.mu.Lock()
	defer t.sweep.mu.Unlock()
	spaces, err := t.allSpaces(ctx)
	if err != nil {
		return 0, t.fail("sweep", tiers.Key{}, err)
	}
	// Once round, beginning where the last call stopped.
	start, from := 0, "-"
	if at, there := slices.BinarySearchFunc(spaces, t.sweep.space, compareSpaces); t.sweep.from != "" {
		if start = at; there {
			from = t.sweep.from
		}
	}
	for i := range len(spaces) + 1 {
		if len(spaces) == 0 {
			break
		}
		s := spaces[(start+i)%len(spaces)]
		n, next, err := t.prune(ctx, s, from, limit-removed)
		removed += n
		t.count.expired.Add(int64(n))
		if err != nil {
			return removed, t.fail("sweep", tiers.Key{Namespace: s.Namespace, Category: s.Category}, err)
		}
		if removed >= limit {
			t.sweep.space, t.sweep.from = s, next
			return removed, nil
		}
		from = "-"
	}
	t.sweep.from = ""
	return removed, nil
}

// prune sweeps one space from a position on and answers where it stopped.
func (t *Tier) prune(ctx context.Context, s tiers.Space, from string, limit int) (removed int, next string, err error) {
	for {
		c := newWrite(&t.scripts.prune, []string{t.names.bucket(s), t.names.spaces}, 0, member(s), from, lookAt, limit-removed)
		if err := t.run(ctx, c); err != nil {
			return removed, from, err
		}
		if len(c.text) < 13 {
			return removed, from, tiers.ErrCorrupt
		}
		removed += int(binary.BigEndian.Uint32(c.text[9:]))
		if len(c.text) == 13 {
			return removed, "-", nil
		}
		from = "(" + string(c.text[13:])
		if removed >= limit {
			return removed, from, nil
		}
	}
}

// Count counts the live records of a space. It looks at each of them, on the
// server.
func (t *Tier) Count(ctx context.Context, s tiers.Space) (entries, bytes int64, err error) {
	about := tiers.Key{Namespace: s.Namespace, Category: s.Category}
	if err := s.Check(); err != nil {
		return 0, 0, t.fail("count", about, err)
	}
	if !t.indexed {
		return 0, 0, t.fail("count", about, t.noIndex())
	}
	for from := "-"; ; {
		c := newWrite(&t.scripts.count, []string{t.names.bucket(s)}, 0, from, lookAt)
		c.write = false
		if err := t.run(ctx, c); err != nil {
			return 0, 0, t.fail("count", about, err)
		}
		if len(c.text) < 25 {
			return 0, 0, t.fail("count", about, tiers.ErrCorrupt)
		}
		entries += int64At(c.text[9:])
		bytes += int64At(c.text[17:])
		if len(c.text) == 25 {
			return entries, bytes, nil
		}
		from = "(" + string(c.text[25:])
	}
}

// countAll is the size up to which Stats counts what is stored one by one.
const countAll = 20_000

// Stats answers the counters of this handle. Entries and Bytes are exact up to
// some ten thousand records; beyond, expired records that were not swept yet
// count as well, and Bytes is what the first ones suggest. Without an index
// both are 0.
func (t *Tier) Stats(ctx context.Context) (tiers.Stats, error) {
	s := tiers.Stats{
		Hits: t.count.hits.Load(), Misses: t.count.misses.Load(),
		Errors: t.count.errors.Load(), Expired: t.count.expired.Load(),
	}
	if !t.indexed {
		return s, nil
	}
	spaces, err := t.allSpaces(ctx)
	if err != nil {
		return s, t.fail("stats", tiers.Key{}, err)
	}
	var counted, countedBytes, estimated int64
	for _, space := range spaces {
		size := newRead(replyInt, "zcard", t.names.bucket(space))
		if err := t.run(ctx, size); err != nil {
			return s, t.fail("stats", tiers.Key{}, err)
		}
		if counted+size.n > countAll {
			estimated += size.n
			continue
		}
		n, bytes, err := t.Count(ctx, space)
		if err != nil {
			return s, err
		}
		counted, countedBytes = counted+n, countedBytes+bytes
	}
	s.Entries, s.Bytes = counted+estimated, countedBytes
	if estimated > 0 {
		each, err := t.sampleBytes(ctx, spaces)
		if err != nil {
			return s, t.fail("stats", tiers.Key{}, err)
		}
		s.Bytes += estimated * each
	}
	return s, nil
}

// sampleBytes is the mean size of the first records of the spaces.
func (t *Tier) sampleBytes(ctx context.Context, spaces []tiers.Space) (int64, error) {
	var n, bytes int64
	for _, s := range spaces {
		c := newWrite(&t.scripts.count, []string{t.names.bucket(s)}, 0, "-", lookAt)
		c.write = false
		if err := t.run(ctx, c); err != nil {
			return 0, err
		}
		if len(c.text) >= 25 {
			n += int64At(c.text[9:])
			bytes += int64At(c.text[17:])
		}
	}
	return bytes / max(n, 1), nil
}

func corrupt(err error) bool { return errors.Is(err, tiers.ErrCorrupt) }

// Clear removes every record of this prefix and epoch, and nothing else, and
// answers how many there were. Versions go on where they were. It is not one
// step: what is saved meanwhile may stay.
func (t *Tier) Clear(ctx context.Context) (removed int, err error) {
	for s, err := range t.Spaces(ctx) {
		if err != nil {
			return removed, err
		}
		var keys []tiers.Key
		for r, err := range t.List(ctx, tiers.Query{Namespace: s.Namespace, Category: s.Category, KeysOnly: true}) {
			if err != nil && r.Name == "" {
				return removed, err
			}
			keys = append(keys, tiers.Key{Namespace: s.Namespace, Category: s.Category, Name: r.Name})
		}
		for part := range slices.Chunk(keys, lookAt) {
			existed, err := t.DeleteMany(ctx, part, nil)
			if err != nil {
				return removed, err
			}
			for _, there := range existed {
				if there {
					removed++
				}
			}
		}
	}
	return removed, nil
}
