package txn

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sagestore/sagestore/tiers"
)

// holds keep the keys of a transaction as they are, for this process, from the
// moment when its reads are compared until it is decided. What changes a key of
// the tier has a share of the key's stripe meanwhile.
type holds struct {
	seed    maphash.Seed
	stripes [holdStripes]*semaphore.Weighted // unlike a RWMutex they honour contexts
}

const (
	holdStripes = 512
	holdWhole   = 1 << 30
)

func (h *holds) init() {
	h.seed = maphash.MakeSeed()
	for i := range h.stripes {
		h.stripes[i] = semaphore.NewWeighted(holdWhole)
	}
}

func (h *holds) stripe(k tiers.Key) int {
	return int(maphash.Comparable(h.seed, k) % holdStripes)
}

// share is for who changes one key.
func (h *holds) share(ctx context.Context, k tiers.Key) (release func(), err error) {
	s := h.stripes[h.stripe(k)]
	if err := s.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	return func() { s.Release(1) }, nil
}

// shareAll is for who changes several.
func (h *holds) shareAll(ctx context.Context, ks []tiers.Key) (release func(), err error) {
	return h.take(ctx, h.of(ks), 1)
}

// hold keeps keys, or with all every key of the tier.
func (h *holds) hold(ctx context.Context, ks []tiers.Key, all bool) (release func(), err error) {
	which := h.of(ks)
	if all {
		which = which[:0]
		for i := range h.stripes {
			which = append(which, i)
		}
	}
	return h.take(ctx, which, holdWhole)
}

// of answers the stripes of keys, in order, each once.
func (h *holds) of(ks []tiers.Key) []int {
	which := make([]int, len(ks))
	for i, k := range ks {
		which[i] = h.stripe(k)
	}
	slices.Sort(which)
	return slices.Compact(which)
}

func (h *holds) take(ctx context.Context, which []int, weight int64) (release func(), err error) {
	for n, i := range which {
		if h.stripes[i].Acquire(ctx, weight) != nil {
			h.release(which[:n], weight)
			return nil, context.Cause(ctx)
		}
	}
	return func() { h.release(which, weight) }, nil
}

func (h *holds) release(which []int, weight int64) {
	for _, i := range which {
		h.stripes[i].Release(weight)
	}
}

// reservation is what a transaction needs to know of a key that it holds.
type reservation struct {
	version  tiers.Version // live now, for whoever reads the key
	created  time.Time     // of the live record
	next     tiers.Version // for the row
	reserved bool          // the tier has issued next
	unread   bool          // no row of the key was known, and later ones do not matter
	unknown  bool          // the tier is away, and no row answers for the key
}

// reserve answers for keys that are held, of which some were read. Rows are looked for
// before the tier is asked, so that one which is applied meanwhile is seen in one of
// both. Where a key was not read, and the journal knows of no row, nothing is asked: the
// commit finds rows that came since.
func (j *Journaled) reserve(ctx context.Context, ks []tiers.Key, read func(tiers.Key) bool) ([]reservation, error) {
	out := make([]reservation, len(ks))
	if len(ks) == 0 {
		return out, nil
	}
	if err := j.meet(ctx); err != nil {
		return nil, err
	}
	if _, err := j.newRows(ctx); err != nil {
		return nil, err
	}
	var above tiers.Version
	rows := make([]*tiers.Row, len(ks))
	for i, k := range ks {
		if !read(k) && j.waiter != nil && !j.waiter.Waits(j.name, k) {
			out[i].unread = true
			continue
		}
		row, found, err := j.pending(ctx, k)
		if err != nil {
			return nil, err
		}
		if found {
			rows[i], above = &row, max(above, row.Version)
		}
	}
	issued, err := j.issue(ctx, ks, above)
	away := isAway(err) || errors.Is(err, tiers.ErrCommitUnknown)
	if err != nil && !away {
		return nil, err
	}
	least := max(j.least(), above+1)
	for i := range ks {
		r := &out[i]
		if away {
			r.next = least
		} else {
			r.version, r.created, r.next = issued[i].Version, issued[i].Created, issued[i].Next
			r.reserved = j.reserver != nil
		}
		switch row := rows[i]; {
		case r.unread:
			r.unknown = away
		case row == nil && away:
			if err := j.absent(ctx, tiers.ErrUnavailable); isAway(err) {
				r.unknown = true
			} else if !isNotFound(err) {
				return nil, err
			}
		case row == nil:
		case j.live(row):
			r.version, r.created = row.Version, row.Created
		default:
			r.version, r.created = 0, time.Time{}
		}
	}
	return out, nil
}

// issue asks the tier for versions, or reads those that are there.
func (j *Journaled) issue(ctx context.Context, ks []tiers.Key, above tiers.Version) ([]tiers.Reservation, error) {
	if err := j.away(); err != nil {
		return nil, err
	}
	if j.reserver != nil {
		return j.reserver.Reserve(ctx, ks, above)
	}
	found, err := tiers.LoadMany(ctx, j.inner, ks)
	if err != nil {
		return nil, err
	}
	out := make([]tiers.Reservation, len(ks))
	for i := range found {
		out[i] = tiers.Reservation{
			Version: found[i].Version, Created: found[i].Created, Next: max(j.least(), found[i].Version+1, above+1),
		}
	}
	return out, nil
}
