package postgres

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/internal/pgtest"
	"github.com/sagestore/sagestore/tiers"
)

// locked takes a lock, which it answers how to give back, or wants somebody to have it.
func locked(t *testing.T, s *Tier, name string, want bool) (unlock func()) {
	t.Helper()
	unlock, ok, err := s.Lock(t.Context(), name)
	if err != nil || ok != want {
		t.Fatalf("the lock %s: %v, %v, want %v", name, ok, err, want)
	}
	return unlock
}

// endLocks ends the connection that holds a lock.
func endLocks(t *testing.T, s *Tier, name string) {
	t.Helper()
	var ended int
	err := s.read.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_locks
		WHERE locktype = 'advisory' AND classid::bigint << 32 | objid::bigint = $1`, lockKey(s.schema, "lock/"+name)).Scan(&ended)
	if err != nil || ended != 1 {
		t.Fatalf("%d connections were ended, %v", ended, err)
	}
}

// freed waits until the server has noticed that the connection with a lock has ended.
func freed(t *testing.T, s *Tier, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for held := true; held; _ = tiers.SystemClock().Sleep(ctx, time.Millisecond) {
		err := s.read.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks
			WHERE locktype = 'advisory' AND classid::bigint << 32 | objid::bigint = $1)`, lockKey(s.schema, "lock/"+name)).Scan(&held)
		if err != nil {
			t.Fatalf("the lock %s is held on: %v", name, err)
		}
	}
}

func TestCallerWhoLeavesTakesNoLockAlong(t *testing.T) {
	t.Parallel()
	c := shared(t)
	one, other := open1(t, c), open1(t, c)
	defer locked(t, one, "a", true)()
	for i := range 500 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(50+i%26*10)*time.Microsecond)
		if unlock, ok, err := one.Lock(ctx, "b"); ok && err == nil {
			unlock()
		}
		cancel()
		locked(t, other, "a", false)
	}
	locked(t, one, "b", true)() // after all who left
	locked(t, other, "b", true)()
}

func TestCallerOfALockLeavesWhileTheServerIsSilent(t *testing.T) {
	t.Parallel()
	c := shared(t)
	direct := open1(t, c)
	proxy := pgtest.NewProxy(t, pgtest.Shared(t).Addr())
	c.URL = proxy.URL(t, c.URL)
	tier, clock := open1(t, c), tiers.SystemClock()
	unlock := locked(t, tier, "a", true)
	proxy.Swallow(true)
	given := make(chan struct{})
	go func() {
		defer close(given)
		unlock()
	}()
	for range 5 {
		began := clock.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, ok, err := tier.Lock(ctx, "b"); ok || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a silent server gives a lock: %v, %v", ok, err)
		}
		cancel()
		if took := clock.Now().Sub(began); took > 2*time.Second {
			t.Fatalf("it takes %v to leave", took)
		}
	}
	proxy.Swallow(false)
	proxy.Cut()
	<-given
	freed(t, direct, "a")
	locked(t, tier, "a", true)()
}

func TestLockIsTakenAgainAtOnce(t *testing.T) {
	t.Parallel()
	c := shared(t)
	one, other := open1(t, c), open1(t, c)
	giveC := locked(t, one, "c", true)
	for what, use := range map[string]func(){
		"taking another":          func() { locked(t, one, "b", true)() },
		"giving another back":     giveC,
		"a look at what is there": func() { _ = one.locks.look() },
	} {
		unlock := locked(t, one, "a", true)
		endLocks(t, one, "a")
		use()
		if _, ok, err := other.Lock(t.Context(), "a"); ok || err != nil {
			t.Errorf("after %s: %v, %v", what, ok, err)
		}
		unlock()
	}
}

func TestLockThatWasLostIsHeldNoMore(t *testing.T) {
	t.Parallel()
	for name, pooler := range map[string]bool{"a session": false, "a lease": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := shared(t)
			c.Pooler = pooler
			one, other := open1(t, c), open1(t, c)
			holds := func(s *Tier, want bool) {
				t.Helper()
				if got := must[bool](t)(s.Holds(t.Context(), "a")); got != want {
					t.Errorf("it is held: %v, want %v", got, want)
				}
			}
			holds(one, false)
			unlock := locked(t, one, "a", true)
			holds(one, true)
			holds(other, false)
			if pooler { // another process has had it and given it back
				if _, err := one.write.Exec(t.Context(), one.sql("DELETE FROM ~.leases")); err != nil {
					t.Fatal(err)
				}
			} else {
				endLocks(t, one, "a")
			}
			holds(one, false)
			locked(t, other, "a", false) // it was taken again
			holds(one, false)
			unlock()
			holds(one, false)
			defer locked(t, one, "a", true)()
			holds(one, true)
		})
	}
}

func TestLockThatAnotherProcessHasTakenIsToldOnce(t *testing.T) {
	t.Parallel()
	c := shared(t)
	c.Pooler = true
	var told bytes.Buffer
	mine := c
	mine.Log = slog.New(slog.NewTextHandler(&told, nil))
	one, other := open1(t, mine), open1(t, c)
	defer locked(t, one, "a", true)()
	if _, err := one.write.Exec(t.Context(), one.sql("DELETE FROM ~.leases")); err != nil {
		t.Fatal(err)
	}
	defer locked(t, other, "a", true)()
	for range 5 {
		if must[bool](t)(one.Holds(t.Context(), "a")) {
			t.Error("it is held")
		}
	}
	one.locks.turn <- struct{}{} // nobody writes to the log then
	text := told.String()
	<-one.locks.turn
	if n := strings.Count(text, "another process has taken a lock"); n != 1 {
		t.Errorf("it is told %d times: %s", n, text)
	}
}
