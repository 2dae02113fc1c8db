package tiers

import (
	"context"
	"math"
	"time"
)

// Clock is where time comes from. Implementations are safe for concurrent use.
type Clock interface {
	Now() time.Time
	// Sleep waits for d or for the end of the context, whose cause it answers.
	Sleep(ctx context.Context, d time.Duration) error
}

// SystemClock is the time package's clock, so that testing/synctest works.
func SystemClock() Clock { return systemClock{} }

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() } //nolint:forbidigo // the one place

func (systemClock) Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Micro answers t in UTC, cut to microseconds, which is what records hold. The
// zero time stays zero.
func Micro(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

// FromMicro is the inverse of [ToMicro].
func FromMicro(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// ToMicro answers microseconds since 1970, 0 for the zero time.
func ToMicro(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Deadline answers the instant at which a record with this TTL expires, the
// zero time for a TTL of 0. One that would overflow never expires.
func Deadline(now time.Time, ttl time.Duration) time.Time {
	if ttl == 0 {
		return time.Time{}
	}
	at := now.Add(ttl)
	if at.After(time.UnixMicro(math.MaxInt64)) {
		return time.Time{}
	}
	return Micro(at)
}

// Live tells whether the record has not expired at now.
func (r *Record) Live(now time.Time) bool { return r.Expires.IsZero() || now.Before(r.Expires) }
