package tiers_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func TestDeadline(t *testing.T) {
	now := time.Date(2024, 5, 6, 7, 8, 9, 123456789, time.FixedZone("", 3600))
	micro := time.Date(2024, 5, 6, 6, 8, 9, 123456000, time.UTC)
	for _, c := range []struct {
		why  string
		ttl  time.Duration
		want time.Time
	}{
		{"0 is never", 0, time.Time{}},
		{"UTC, cut to microseconds", time.Hour, micro.Add(time.Hour)},
		{"less than a microsecond", time.Nanosecond, micro},
		{"a negative one is past", -time.Hour, micro.Add(-time.Hour)},
		{"the longest", math.MaxInt64, micro.Add(math.MaxInt64 / 1000 * 1000).Add(time.Microsecond)},
	} {
		if got := tiers.Deadline(now, c.ttl); !got.Equal(c.want) || got.Location() != time.UTC {
			t.Errorf("%s: %v, want %v", c.why, got, c.want)
		}
	}
	r := tiers.Record{Expires: tiers.Deadline(now, -1<<63)}
	if r.Live(now) {
		t.Errorf("the most negative TTL lives until %v", r.Expires)
	}
	// Far from what a time can hold, an overflow is never and not long ago.
	end := time.Unix(1<<63-62135596801, 999999999)
	if got := tiers.Deadline(end, time.Hour); !got.IsZero() {
		t.Errorf("an overflow expires at %v", got)
	}
}

func TestLiveEndsAtExpiry(t *testing.T) {
	at := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
	r := tiers.Record{Expires: at}
	if !r.Live(at.Add(-time.Microsecond)) || r.Live(at) || r.Live(at.Add(time.Microsecond)) {
		t.Error("a record is live up to its expiry, and not at it")
	}
	if r := (tiers.Record{}); !r.Live(at.AddDate(200, 0, 0)) {
		t.Error("a record without expiry must live")
	}
}

func TestMicrosecondsRoundTrip(t *testing.T) {
	for _, at := range []time.Time{
		{}, time.UnixMicro(1), time.UnixMicro(-1), time.Date(2024, 5, 6, 7, 8, 9, 123456000, time.UTC), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
	} {
		got := tiers.FromMicro(tiers.ToMicro(at))
		if !got.Equal(at) || got.IsZero() != at.IsZero() || got.Location() != time.UTC {
			t.Errorf("%v comes back as %v", at, got)
		}
	}
	if got := tiers.Micro(time.Unix(1, 999)); !got.Equal(time.Unix(1, 0)) || got.Location() != time.UTC {
		t.Errorf("nanoseconds are kept: %v", got)
	}
}

func TestSystemClockSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := tiers.SystemClock()
		start := clock.Now()
		if err := clock.Sleep(t.Context(), time.Hour); err != nil || clock.Now().Sub(start) != time.Hour {
			t.Errorf("an hour's sleep took %v: %v", clock.Now().Sub(start), err)
		}
		cause := errors.New("cause")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(cause) })
		start = clock.Now()
		if err := clock.Sleep(ctx, time.Hour); !errors.Is(err, cause) || clock.Now().Sub(start) != time.Minute {
			t.Errorf("a sleep that was cut off took %v: %v", clock.Now().Sub(start), err)
		}
		if err := clock.Sleep(ctx, 0); !errors.Is(err, cause) {
			t.Errorf("no sleep under a context that is over answers %v", err)
		}
		if err := clock.Sleep(t.Context(), -time.Second); err != nil {
			t.Errorf("a negative sleep answers %v", err)
		}
	})
}
