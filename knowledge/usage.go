package knowledge

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// Usage is what a call of a model took, or a sum of that. Numbers are tokens.
type Usage struct {
	ID         string    `json:"id,omitempty"` // of the event that tells of it; "" is counted each time
	Session    string    `json:"session"`
	Model      string    `json:"model"`
	At         time.Time `json:"at"` // its day, in UTC, is what counts; now when it is zero
	Input      int64     `json:"input"`
	Output     int64     `json:"output"`
	CacheRead  int64     `json:"cache_read"`
	CacheWrite int64     `json:"cache_write"`
	Count      int64     `json:"count"` // of the usages that a sum is made of; not looked at by AddUsage
}

// Total is all tokens. Of what a Store answers it is never more than an int64 holds.
func (u Usage) Total() int64 { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

// Plus answers a with the numbers of u added. It does not look whether an int64 holds
// them.
func (u Usage) Plus(a Usage) Usage {
	a.Input += u.Input
	a.Output += u.Output
	a.CacheRead += u.CacheRead
	a.CacheWrite += u.CacheWrite
	a.Count += u.Count
	return a
}

// sum is a line of the ledger, and a live counter.
type sum struct {
	Input      int64 `json:"input,omitempty"`
	Output     int64 `json:"output,omitempty"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
	Count      int64 `json:"count"`
}

// plus adds o, or answers tiers.ErrTooLarge when an int64 does not hold all tokens
// together, or the count.
func (s sum) plus(o sum) (sum, error) {
	left := int64(math.MaxInt64)
	for _, n := range []int64{s.Input, s.Output, s.CacheRead, s.CacheWrite, o.Input, o.Output, o.CacheRead, o.CacheWrite} {
		if n > left {
			return s, errTooMany
		}
		left -= max(n, 0)
	}
	if o.Count > math.MaxInt64-max(s.Count, 0) {
		return s, errTooMany
	}
	return sum{s.Input + o.Input, s.Output + o.Output, s.CacheRead + o.CacheRead, s.CacheWrite + o.CacheWrite, s.Count + o.Count}, nil
}

var errTooMany = fmt.Errorf("%w: the sum of tokens would be more than %d", tiers.ErrTooLarge, int64(math.MaxInt64))

func sumOf(u Usage, count int64) sum {
	return sum{u.Input, u.Output, u.CacheRead, u.CacheWrite, count}
}

func (s sum) usage() Usage {
	return Usage{Input: s.Input, Output: s.Output, CacheRead: s.CacheRead, CacheWrite: s.CacheWrite, Count: s.Count}
}

// counted is there for each ID that is in the ledger.
type counted struct {
	Day string `json:"day"`
}

// The keys of knowledge.usage: sums by day, model and session, and IDs by session.
func sumKey(day, model, session string) string { return manager.Key("d", day, model, session) }
func countedKey(session, id string) string     { return manager.Key("i", session, id) }

const dayFormat = time.DateOnly

// AddUsage adds usages to the ledger, all or none. One whose ID, in its session, is
// in it already is not counted again. The live counter of each session gets them
// once they are committed. tiers.ErrTooLarge: a sum of a day, model and session would
// be more than an int64 holds.
func (k *Store) AddUsage(ctx context.Context, us ...Usage) error {
	now := k.now()
	fresh := make([]Usage, len(us))
	for i, u := range us {
		if u.At.IsZero() {
			u.At = now
		}
		fresh[i] = u
		if min(u.Input, u.Output, u.CacheRead, u.CacheWrite) < 0 {
			return fail("add usage", u.ID, fmt.Errorf("%w: a number of tokens is below 0", tiers.ErrType))
		}
		if year := u.At.UTC().Year(); year < 0 || year > 9999 {
			return fail("add usage", u.ID, fmt.Errorf("%w: the year %d", tiers.ErrType, year))
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	if k.tx == nil {
		select {
		case <-k.ledger: // callers of one process share sums, so they take turns
			defer func() { k.ledger <- struct{}{} }()
		case <-ctx.Done():
			return fail("add usage", "", context.Cause(ctx))
		}
	}
	return fail("add usage", "", k.update(ctx, func(v view) error { return v.addUsage(ctx, fresh) }))
}

func (v view) addUsage(ctx context.Context, us []Usage) error {
	var ids []string
	for _, u := range us {
		if u.ID != "" {
			ids = append(ids, countedKey(u.Session, u.ID))
		}
	}
	known, err := v.counted.LoadMany(ctx, ids...)
	if err != nil {
		return err
	}
	added, fresh := map[string]sum{}, map[string]counted{}
	var live []Usage
	for _, u := range us {
		day := u.At.UTC().Format(dayFormat)
		if u.ID != "" {
			key := countedKey(u.Session, u.ID)
			_, old := known[key]
			if _, twice := fresh[key]; old || twice {
				continue
			}
			fresh[key] = counted{day}
		}
		key := sumKey(day, u.Model, u.Session)
		if added[key], err = added[key].plus(sumOf(u, 1)); err != nil {
			return err
		}
		live = append(live, u)
	}
	if len(live) == 0 {
		return nil
	}
	keys := make([]string, 0, len(added))
	for key := range added {
		keys = append(keys, key)
	}
	stored, err := v.sums.LoadMany(ctx, keys...)
	if err != nil {
		return err
	}
	for key, s := range added {
		if stored[key], err = stored[key].plus(s); err != nil {
			return err
		}
	}
	if err := errors.Join(v.sums.SaveMany(ctx, stored), v.counted.SaveMany(ctx, fresh)); err != nil {
		return err
	}
	if v.m != nil {
		v.tx.OnCommit(func(ctx context.Context) { v.countLive(ctx, live) })
	}
	return nil
}

// countLive adds to the live counters. It is no matter if it fails: the ledger is
// exact.
func (v view) countLive(ctx context.Context, us []Usage) {
	bySession := map[string]sum{}
	for _, u := range us {
		more, err := bySession[u.Session].plus(sumOf(u, 1))
		if err != nil {
			continue // of several days or models; a live counter may miss some
		}
		bySession[u.Session] = more
	}
	counters := partsOf(v.m).live
	for session, more := range bySession {
		_, _ = counters.Modify(ctx, manager.Key(session), func(s *sum, _ bool) (err error) { // see above
			*s, err = s.plus(more)
			return err
		})
	}
}

// Live answers the live counter of a session: what it used until now, if it used
// something within the hour, else tiers.ErrNotFound. It may miss some.
func (k *Store) Live(ctx context.Context, session string) (Usage, error) {
	s, err := k.live.Load(ctx, manager.Key(session))
	if err != nil {
		return Usage{}, fail("read live usage of", session, err)
	}
	u := s.usage()
	u.Session = session
	return u, nil
}

// By is what usage is summed up by.
type By string

// What [Store.Usage] sums up by. A day is as in "2026-11-28", in UTC.
const (
	BySession By = "session"
	ByModel   By = "model"
	ByDay     By = "day"
)

// Usage sums up the ledger from the day of since to the one before until's, or
// until's as well when it is later than midnight; a zero time is no bound. Sums
// are told by the name that they are of. tiers.ErrTooLarge: one is more than an int64
// holds; the bounds, or another By, make it smaller.
func (k *Store) Usage(ctx context.Context, by By, since, until time.Time) (map[string]Usage, error) {
	sums := map[string]Usage{}
	for u, err := range k.Ledger(ctx, since, until) {
		if err != nil {
			return sums, err
		}
		var name string
		var total Usage
		switch by {
		case BySession:
			name, total.Session = u.Session, u.Session
		case ByModel:
			name, total.Model = u.Model, u.Model
		case ByDay:
			name, total.At = u.At.Format(dayFormat), u.At
		default:
			return nil, fail("sum up usage", "", fmt.Errorf("%w: there are no sums by %q, but by session, model and day", tiers.ErrType, by))
		}
		if old, there := sums[name]; there {
			total = old
		}
		if _, err := sumOf(total, total.Count).plus(sumOf(u, u.Count)); err != nil {
			return nil, fail("sum up usage", name, err)
		}
		sums[name] = u.Plus(total)
	}
	return sums, nil
}

// Ledger yields the sums for each day, model and session, in this order; At is the
// day. The bounds are as for [Store.Usage]. A sum that can't be read ends it.
func (k *Store) Ledger(ctx context.Context, since, until time.Time) iter.Seq2[Usage, error] {
	opts := []manager.ListOption{manager.Prefix("d/")}
	if !since.IsZero() {
		opts = append(opts, manager.After(manager.Key("d", since.UTC().Format(dayFormat))))
	}
	return func(yield func(Usage, error) bool) {
		for e, err := range k.sums.List(ctx, opts...) {
			var u Usage
			if err == nil {
				u, err = lineOf(e)
			}
			if err != nil {
				yield(Usage{}, fail("read usage", "", err))
				return
			}
			if !until.IsZero() && !u.At.Before(until) || !yield(u, nil) {
				return
			}
		}
	}
}

func lineOf(e manager.Entry[sum]) (Usage, error) {
	segments := manager.SplitKey(e.Key)
	if len(segments) != 4 {
		return Usage{}, fmt.Errorf("%w: %q is no key of the ledger", tiers.ErrCorrupt, e.Key)
	}
	day, err := time.Parse(dayFormat, segments[1])
	if err != nil {
		return Usage{}, fmt.Errorf("%w: %q is no key of the ledger", tiers.ErrCorrupt, e.Key)
	}
	u := e.Value.usage()
	u.At, u.Model, u.Session = day, segments[2], segments[3]
	return u, nil
}
