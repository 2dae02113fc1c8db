package txn_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

// TestAFlappingServerLosesNothing runs random programs against a map: whatever
// was acknowledged is what loads answer, if they answer, and what the server has
// in the end.
func TestAFlappingServerLosesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		clock := tiertest.NewClock(start)
		w := newWorld(t, clock)
		w.server.steady = true
		if rapid.Bool().Draw(rt, "down from the start") {
			w.server.set(true)
		}
		j := w.open()
		model := map[string]entry{}
		down := w.server.away() != nil
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			name := string(rune('a' + rapid.IntRange(0, 3).Draw(rt, "key")))
			have, live := model[name]
			live = live && have.live(clock.Now())
			switch op := rapid.SampledFrom([]string{"save", "save ttl", "delete", "load", "load", "exists", "if", "touch", "list", "flap", "lose", "advance"}).Draw(rt, "op"); op {
			case "save", "save ttl":
				r := rec(name, strconv.Itoa(len(model))+rapid.StringN(1, 5, 5).Draw(rt, "value"))
				e := entry{value: string(r.Value)}
				if op == "save ttl" {
					r.TTL = time.Minute
					e.expires = clock.Now().Add(r.TTL)
				}
				saved, err := j.Save(t.Context(), r, tiers.Cond{})
				if err != nil || saved.Version <= have.version {
					rt.Fatalf("save: version %d after %d, %v", saved.Version, have.version, err)
				}
				e.version = saved.Version
				model[name] = e
			case "delete":
				if _, err := j.Delete(t.Context(), key(name), tiers.Cond{}); err != nil {
					rt.Fatalf("delete: %v", err)
				}
				model[name] = entry{version: have.version, deleted: true}
			case "load":
				r, err := j.Load(t.Context(), key(name))
				switch {
				case down && errors.Is(err, tiers.ErrUnavailable):
				case live && (err != nil || string(r.Value) != have.value), !live && !errors.Is(err, tiers.ErrNotFound):
					rt.Fatalf("load of %s: %q, %v; want %+v", name, r.Value, err, have)
				}
			case "exists":
				there, err := j.Exists(t.Context(), key(name))
				if (!down || !errors.Is(err, tiers.ErrUnavailable)) && (err != nil || there != live) {
					rt.Fatalf("exists of %s: %v, %v; want %v", name, there, err, live)
				}
			case "if":
				want := tiers.Version(0)
				if live && rapid.Bool().Draw(rt, "right") {
					want = have.version
				}
				saved, err := j.Save(t.Context(), rec(name, "if"), tiers.If(want))
				holds := live && want == have.version || !live && want == 0
				switch {
				case down && errors.Is(err, tiers.ErrUnavailable):
				case holds && err == nil:
					model[name] = entry{value: "if", version: saved.Version}
				case holds || !errors.Is(err, tiers.ErrExists) && !errors.Is(err, tiers.ErrConflict):
					rt.Fatalf("save of %s if %d: %v; want %+v", name, want, err, have)
				}
			case "touch":
				existed, err := j.Touch(t.Context(), key(name), time.Minute)
				switch {
				case down && errors.Is(err, tiers.ErrUnavailable):
				case err != nil || existed != live:
					rt.Fatalf("touch of %s: %v, %v; want %+v", name, existed, err, have)
				case live:
					have.expires = clock.Now().Add(time.Minute)
					if r, err := j.Load(t.Context(), key(name)); err == nil {
						have.version = r.Version // a row has a new one
					}
					model[name] = have
				}
			case "list":
				if got := listed(t, j, tiers.Query{}); got != text(model, clock.Now()) && (!down || got != "unavailable") {
					rt.Fatalf("list: %s; want %s", got, text(model, clock.Now()))
				}
			case "flap":
				down = !down
				w.server.set(down)
			case "lose":
				w.server.mu.Lock()
				w.server.lost, w.server.unknown = rapid.IntRange(0, 1).Draw(rt, "lost"), rapid.IntRange(0, 1).Draw(rt, "unknown")
				w.server.mu.Unlock()
				// Only a write without a condition may follow: others stay unknown.
				if saved, err := j.Save(t.Context(), rec(name, "lost"), tiers.Cond{}); err != nil {
					rt.Fatalf("save: %v", err)
				} else {
					model[name] = entry{value: "lost", version: saved.Version}
				}
				w.server.mu.Lock()
				w.server.lost, w.server.unknown = 0, 0
				w.server.mu.Unlock()
			case "advance":
				clock.Advance(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Minute}).Draw(rt, "by"))
			}
		}
		w.server.set(false)
		settle(t, w, clock)
		if got := listed(t, j, tiers.Query{}); got != text(model, clock.Now()) {
			rt.Fatalf("in the end: %s; want %s", got, text(model, clock.Now()))
		}
		if got := listed(t, w.inner, tiers.Query{}); got != text(model, clock.Now()) {
			rt.Fatalf("on the server: %s; want %s", got, text(model, clock.Now()))
		}
		if err := errors.Join(j.Close(t.Context()), w.inner.Close(t.Context()), w.store.Close(t.Context())); err != nil {
			rt.Fatal(err)
		}
	})
}

// entry is what the model knows of a key.
type entry struct {
	value   string
	version tiers.Version
	expires time.Time
	deleted bool
}

func (e entry) live(now time.Time) bool {
	return !e.deleted && (e.expires.IsZero() || now.Before(e.expires))
}

func text(model map[string]entry, now time.Time) string {
	out := ""
	for _, name := range slices.Sorted(maps.Keys(model)) {
		if e := model[name]; e.live(now) {
			out += name + "=" + e.value + " "
		}
	}
	return out
}

func settle(t testing.TB, w *world, clock *tiertest.Clock) {
	t.Helper()
	eventually(t, "the journal is applied", func() bool {
		clock.Advance(time.Microsecond) // nothing expires by it
		return w.backlog() == 0
	})
}

// TestNothingGoesBackwardsWhileTheServerFlaps has many callers, each with keys
// of its own, in two processes.
func TestNothingGoesBackwardsWhileTheServerFlaps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tiers.SystemClock())
	a, b := w.open(), w.open()
	var over atomic.Bool
	var work sync.WaitGroup
	work.Go(func() {
		for range 1000 {
			w.server.set(rand.IntN(2) == 0)
			if rand.IntN(3) == 0 {
				w.server.mu.Lock()
				w.server.unknown, w.server.lost = rand.IntN(2), rand.IntN(2)
				w.server.mu.Unlock()
			}
			_ = tiers.SystemClock().Sleep(t.Context(), time.Duration(rand.IntN(3000))*time.Microsecond)
		}
		over.Store(true)
	})
	const callers = 8
	last := make([]int, callers)
	for i := range callers {
		j := a
		if i%2 == 1 {
			j = b
		}
		work.Go(func() {
			name := fmt.Sprintf("k%d", i)
			for n := 1; !over.Load(); n++ {
				if n%5 == 0 {
					if _, err := j.Delete(t.Context(), key(name), tiers.Cond{}); err != nil {
						t.Error(err)
					}
					last[i] = 0
				} else if _, err := j.Save(t.Context(), rec(name, strconv.Itoa(n)), tiers.Cond{}); err != nil {
					t.Error(err)
				} else {
					last[i] = n
				}
				want := strconv.Itoa(last[i])
				if last[i] == 0 {
					want = "absent"
				}
				if got := shown(t, j, name); got != want && got != "unavailable" {
					t.Errorf("%s is %s, want %s", name, got, want)
					return
				}
			}
		})
	}
	work.Wait()
	w.server.set(false)
	eventually(t, "the journal is applied", func() bool { return w.backlog() == 0 })
	for i, n := range last {
		want := strconv.Itoa(n)
		if n == 0 {
			want = "absent"
		}
		if got := shown(t, w.inner, fmt.Sprintf("k%d", i)); got != want {
			t.Errorf("in the end k%d is %s, want %s", i, got, want)
		}
	}
}
