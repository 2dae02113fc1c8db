package redis_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/cache/redis"
)

func reserve(t *testing.T, tier *redis.Tier, names ...string) []tiers.Reservation {
	t.Helper()
	keys := make([]tiers.Key, len(names))
	for i := range keys {
		keys[i] = key(names[i])
	}
	out, err := tier.Reserve(t.Context(), keys, 0)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The mark is ahead of the clock when the clock was set back, and damaged when
// somebody else wrote it.
func TestReservedVersionsFollowAnyMark(t *testing.T) {
	srv := redistest.Start(t)
	tier, client := open(t, redis.Options{URL: srv.URL()}), raw(t, srv)
	before := mustSave(t, tier, record("k", "v")).Version
	ahead := before + tiers.Version(time.Hour.Microseconds())
	for _, c := range []struct {
		why   string
		mark  []byte
		after tiers.Version
	}{
		{"ahead", binary.BigEndian.AppendUint64(nil, uint64(ahead)), ahead},
		{"damaged, with a record that is ahead", []byte("?"), ahead + 1},
	} {
		if err := client.Set(t.Context(), "sage:{}:mark", c.mark, 0).Err(); err != nil {
			t.Fatal(err)
		}
		got := reserve(t, tier, "k", "absent")
		if got[0].Next <= c.after || got[1].Next <= got[0].Next {
			t.Errorf("%s: reserved %d and %d after %d", c.why, got[0].Next, got[1].Next, c.after)
		}
		r := mustSave(t, tier, record("k", "w"))
		if r.Version <= got[1].Next || tier.Seen() < r.Version {
			t.Errorf("%s: a save gets %d after %d was reserved", c.why, r.Version, got[1].Next)
		}
	}
}

func TestNothingIsReservedOverADamagedRecord(t *testing.T) {
	srv := redistest.Start(t)
	tier, client := open(t, redis.Options{URL: srv.URL()}), raw(t, srv)
	mustSave(t, tier, record("damaged", "v"))
	client.SetRange(t.Context(), bucket+":damaged", 6, "XXX")
	client.LPush(t.Context(), bucket+":list", "v")
	for _, name := range []string{"damaged", "list"} {
		_, err := tier.Reserve(t.Context(), []tiers.Key{key("good"), key(name)}, 0)
		var e *tiers.Error
		if !errors.Is(err, tiers.ErrCorrupt) || !errors.As(err, &e) || e.Key != name {
			t.Errorf("%s: reserve answers %v", name, err)
		}
	}
	reserve(t, tier, "good")
}

func TestManyKeysAreReservedAtOnce(t *testing.T) {
	srv := redistest.Start(t)
	tier := open(t, redis.Options{URL: srv.URL()})
	names := make([]string, 12_345)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	last := mustSave(t, tier, record("7", "v"))
	seen := map[tiers.Version]bool{}
	for i, got := range reserve(t, tier, names...) {
		if got.Next <= last.Version || seen[got.Next] || (got.Version != 0) != (names[i] == last.Name) {
			t.Fatalf("%s: %+v", names[i], got)
		}
		seen[got.Next] = true
	}
}

// A reservation whose answer is lost has done no harm, so it is not in doubt.
func TestLostReservationIsNoUnknownOutcome(t *testing.T) {
	srv := redistest.Start(t)
	proxy := redistest.NewProxy(t, srv.Addr())
	const limit = 300 * time.Millisecond
	tier := open(t, redis.Options{URL: proxy.URL(), Timeout: limit})
	before := mustSave(t, tier, record("k", "v"))
	proxy.Swallow(true)
	fails := func(when string) {
		t.Helper()
		_, err := tier.Reserve(t.Context(), []tiers.Key{key("k")}, 0)
		if !errors.Is(err, tiers.ErrUnavailable) || errors.Is(err, tiers.ErrCommitUnknown) {
			t.Errorf("%s: reserve answers %v", when, err)
		}
	}
	fails("no answer")
	until(t, "away", func() bool { fails("still none"); return tier.Away() != nil })
	began := tiers.SystemClock().Now()
	const calls = 60
	for range calls {
		fails("away")
	}
	if took := tiers.SystemClock().Now().Sub(began); took > calls*limit/2 {
		t.Errorf("a server that is away holds %d calls of reserve up for %v: they wait for it", calls, took)
	}
	_, err := tier.Reserve(timeout(t, -1), []tiers.Key{key("k")}, 0)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after its deadline, reserve answers %v", err)
	}
	proxy.Swallow(false)
	if err := tier.Ready(timeout(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if got := reserve(t, tier, "k")[0]; got.Version != before.Version || got.Next <= before.Version {
		t.Errorf("after all: %+v over %d", got, before.Version)
	}
}

func TestReserveSurvivesIdleCutsAndForgottenScripts(t *testing.T) {
	srv := redistest.Start(t)
	proxy := redistest.NewProxy(t, srv.Addr())
	tier := open(t, redis.Options{URL: proxy.URL()})
	last := reserve(t, tier, "k")[0].Next
	for range 10 {
		proxy.Cut()
		srv.Do("SCRIPT", "FLUSH")
		var got []tiers.Reservation
		until(t, "able to reserve", func() (ok bool) {
			var err error
			got, err = tier.Reserve(t.Context(), []tiers.Key{key("k")}, 0)
			return err == nil
		})
		if got[0].Next <= last {
			t.Errorf("reserved %d after %d", got[0].Next, last)
		}
		last = got[0].Next
	}
}

func BenchmarkReserve(b *testing.B) {
	srv := redistest.Start(b)
	tier, err := redis.Open(b.Context(), redis.Config{Options: redis.Options{URL: srv.URL()}})
	if err != nil {
		b.Fatal(err)
	}
	defer tier.Close(context.Background()) //nolint:errcheck // a benchmark
	keys := make([]tiers.Key, 100)
	for i := range keys {
		keys[i] = key(fmt.Sprint(i))
		if _, err := tier.Save(b.Context(), tiers.Record{Key: keys[i], Value: make([]byte, 1024)}, tiers.Cond{}); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			if _, err := tier.Load(b.Context(), keys[0]); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprintf("reserve %d", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := tier.Reserve(b.Context(), keys[:n], 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
