package tiertest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func reserveRules() []rule {
	needs := []Capability{Reserver}
	return []rule{
		{
			name: "reserve answers what is live", needs: needs,
			why: "a transaction compares its reads with it, and keeps what it says of the first save",
			run: reserveSeesLive,
		},
		{
			name: "a reserved version is between earlier saves and later ones", needs: needs,
			why: "else a change that was decided earlier is taken for the later one, or the other way round",
			run: func(t *T) { t.between("on a clock that stands still", func(int) {}) },
		},
		{
			name: "reserved versions grow when the clock is set back", needs: needs, when: settableClock,
			why: "clocks do that",
			run: func(t *T) {
				t.between("a day earlier each time", func(int) { t.Clock.Advance(-24 * time.Hour) })
			},
		},
		{
			name: "other handles save above what was reserved", needs: needs, when: shared,
			why: "what a process reserved is applied among the saves of all of them",
			run: func(t *T) {
				other := t.Open()
				k := named("k")
				for i := range 10 {
					before := t.saveIn(other, raw(k, fmt.Sprint(i)))
					next := t.reserve(t.Tier, k)[0].Next
					if i%3 == 0 {
						if _, err := other.Delete(t.ctx, k, tiers.Cond{}); err != nil {
							t.Fatalf("delete: %v", err)
						}
					}
					after := t.saveIn(other, raw(k, fmt.Sprint(i)))
					if before.Version >= next || next >= after.Version {
						t.Errorf("reserved %d between the versions %d and %d of another handle", next, before.Version, after.Version)
					}
				}
			},
		},
		{
			name: "reserved versions last across opening again", needs: needs, when: durable,
			why: "what was reserved may be applied after a restart, which must not have saved below it meanwhile",
			run: func(t *T) {
				k := named("k")
				next := t.reserve(t.Tier, k)[0].Next
				t.Clock.Advance(-24 * time.Hour)
				t.Reopen()
				if v := t.save(raw(k, "v")).Version; v <= next {
					t.Errorf("a save after opening again gets version %d, %d was reserved before", v, next)
				}
			},
		},
		{
			name: "a reserved version is applied over what was seen", needs: []Capability{Reserver, Applier},
			why: "this is how a decided change gets where it belongs",
			run: applyReserved,
		},
		{
			name: "a reserved version gives way to a save that came between", needs: []Capability{Reserver, Applier},
			why: "that save is the later one, and was acknowledged",
			run: reservedGivesWay,
		},
		{
			name: "a reserved version is above what is told", needs: needs,
			why: "a row with that version may come to the tier before the reserved one",
			run: func(t *T) {
				k := named("k")
				far := t.save(raw(k, "1")).Version + 500_000
				r, _ := tiers.As[tiers.Reserver](t.Tier)
				out, err := r.Reserve(t.ctx, []tiers.Key{k, named("other")}, far)
				if err != nil {
					t.Fatalf("reserve: %v", err)
				}
				next := out[1].Next
				if out[0].Next <= far || next <= far {
					t.Errorf("above %d the versions %d and %d are reserved", far, out[0].Next, next)
				}
				if v := t.save(raw(k, "2")).Version; v <= max(out[0].Next, next) {
					t.Errorf("a later save gets version %d, %d was reserved", v, max(out[0].Next, next))
				}
			},
		},
		{
			name: "reserve goes above what it is told", needs: needs,
			why: "a row that has not come to the store yet must not be taken for the later one",
			run: reserveAbove,
		},
		{
			name: "nobody else gets a reserved version", needs: needs,
			why: "two changes of one version can't be told apart",
			run: reservedOnce,
		},
		{
			name: "reserve refuses what other calls refuse", needs: needs,
			why: "a bad key is a fault of the caller, to be told before anything is decided",
			run: func(t *T) {
				r, _ := tiers.As[tiers.Reserver](t.Tier)
				if out, err := r.Reserve(t.ctx, nil, 0); err != nil || len(out) != 0 {
					t.Errorf("no keys: %d reservations and %s", len(out), said(err))
				}
				_, err := r.Reserve(t.ctx, []tiers.Key{named("good"), named("")}, 0)
				t.wantError("a key without a name", err, tiers.ErrKey)
				ended, end := context.WithCancel(t.ctx)
				end()
				_, err = r.Reserve(ended, []tiers.Key{named("k")}, 0)
				t.wantError("a context that has ended", err, context.Canceled)
				if err := t.Tier.Close(t.ctx); err != nil {
					t.Fatalf("close: %v", err)
				}
				_, err = r.Reserve(t.ctx, []tiers.Key{named("k")}, 0)
				t.wantError("after close", err, tiers.ErrClosed)
			},
		},
	}
}

// reserve reserves and ends the rule on an error.
func (t *T) reserve(h tiers.Tier, ks ...tiers.Key) []tiers.Reservation {
	r, _ := tiers.As[tiers.Reserver](h)
	out, err := r.Reserve(t.ctx, ks, 0)
	if err != nil {
		t.Fatalf("reserve: %v", err)
	}
	if len(out) != len(ks) {
		t.Fatalf("%d reservations for %d keys", len(out), len(ks))
	}
	return out
}

func reserveSeesLive(t *T) {
	here, gone, short, far := named("a/here"), named("a/gone"), named("short"), tiers.Key{Namespace: "n", Category: category + "2", Name: "far"}
	keys := []tiers.Key{here, gone, named("never"), far, short, here}
	first := t.save(raw(here, "1"))
	t.pass(3 * time.Second)
	saved := map[tiers.Key]tiers.Record{here: t.save(raw(here, "2")), far: t.save(raw(far, "v"))}
	t.save(raw(gone, "v"))
	t.delete(gone)
	saved[short] = t.save(lasting(short, "v", t.short()))
	want := func(when string) {
		for i, got := range t.reserve(t.Tier, keys...) {
			was, there := saved[keys[i]]
			if got.Version != was.Version || there && !got.Created.Equal(was.Created) || got.Next <= was.Version {
				t.Errorf("%s: %s has version %d, created %v and next %d; want %d, %v and more", when, show(keys[i]),
					got.Version, got.Created, got.Next, was.Version, was.Created)
			}
		}
	}
	want("saved")
	if !saved[here].Created.Equal(first.Created) {
		t.Errorf("created went from %v to %v with the second save", first.Created, saved[here].Created)
	}
	t.expire(short)
	delete(saved, short)
	want("expired")
	t.wantSame("after reserving", t.load(here), saved[here])
	t.wantAbsent("after reserving", gone)
}

// between reserves among saves, deletes and other reservations.
func (t *T) between(when string, step func(i int)) {
	k, other := named("k"), named("other")
	last := tiers.Version(0)
	grows := func(what string, i int, v tiers.Version) {
		if v <= last {
			t.Errorf("%s, step %d: %s has version %d, there was %d before", when, i, what, v, last)
		}
		last = max(last, v)
	}
	for i := range 12 {
		grows("a save", i, t.save(raw(k, fmt.Sprint(i))).Version)
		step(i)
		if i%3 == 0 {
			t.delete(k)
		}
		both := t.reserve(t.Tier, k, other)
		grows("a reservation", i, both[0].Next)
		last = max(last, both[1].Next)
		if i%2 == 0 {
			grows("one more", i, t.reserve(t.Tier, k)[0].Next)
		}
		step(i)
		if i%4 == 0 {
			grows("a save of another key", i, t.save(raw(other, fmt.Sprint(i))).Version)
		}
		if i%5 == 0 {
			t.delete(k)
		}
	}
}

// reserved makes the record that a reservation was asked for.
func reserved(t *T, r tiers.Record, from tiers.Reservation) tiers.Record {
	r.Version, r.Updated = from.Next, tiers.Micro(t.now())
	if r.Created = from.Created; from.Version == 0 {
		r.Created = r.Updated
	}
	return r
}

func applyReserved(t *T) {
	k, fresh, gone := named("k"), named("fresh"), named("gone")
	t.save(raw(k, "old"))
	t.save(raw(gone, "old"))
	keys := []tiers.Key{k, fresh, gone}
	got := t.reserve(t.Tier, keys...)
	t.pass(3 * time.Second)
	rs, over := make([]tiers.Record, len(keys)), make([]tiers.Cond, len(keys))
	for i := range keys {
		rs[i], over[i] = reserved(t, raw(keys[i], "new"), got[i]), tiers.If(got[i].Version)
	}
	rs[2].Deleted = true
	for _, when := range []string{"applied", "applied again"} {
		t.apply(over, rs...)
		t.wantSame(when, t.load(k), rs[0])
		t.wantSame(when, t.load(fresh), rs[1])
		t.wantAbsent(when, gone)
	}
	for i, key := range keys {
		if v := t.save(raw(key, "later")).Version; v <= got[i].Next {
			t.Errorf("a save after that of %s has version %d, %d was reserved", show(key), v, got[i].Next)
		}
	}
	t.apply(over, rs...)
	for _, key := range keys {
		t.wantValue("applied after a later save", key, "later")
	}
}

func reservedGivesWay(t *T) {
	for name, between := range map[string]func(k tiers.Key){
		"a save":             func(k tiers.Key) { t.save(raw(k, "between")) },
		"a delete":           func(k tiers.Key) { t.delete(k) },
		"delete and save":    func(k tiers.Key) { t.delete(k); t.save(raw(k, "between")) },
		"another, reserved":  func(k tiers.Key) { t.apply(nil, reserved(t, raw(k, "between"), t.reserve(t.Tier, k)[0])) },
		"a save and a touch": func(k tiers.Key) { t.save(lasting(k, "between", time.Hour)) },
	} {
		k := named(name)
		t.save(raw(k, "old"))
		from := t.reserve(t.Tier, k)[0]
		between(k)
		row := reserved(t, raw(k, "row"), from)
		t.apply([]tiers.Cond{tiers.If(from.Version)}, row)
		if name == "a delete" {
			t.wantAbsent(name, k)
			continue
		}
		t.wantValue(name, k, "between")
		row.Deleted = true
		t.apply([]tiers.Cond{tiers.If(from.Version)}, row)
		t.wantValue("a delete over "+name, k, "between")
	}
}

// reserveAbove names versions that are further and further ahead of the clock, as
// after one that was set back.
func reserveAbove(t *T) {
	r, _ := tiers.As[tiers.Reserver](t.Tier)
	k, other := named("k"), named("other")
	last := t.save(raw(k, "v")).Version
	for _, ahead := range []time.Duration{time.Microsecond, time.Hour, 48 * time.Hour} {
		above := last + tiers.Version(ahead.Microseconds()) //nolint:gosec // ahead is positive
		out, err := r.Reserve(t.ctx, []tiers.Key{k, other}, above)
		if err != nil || len(out) != 2 {
			t.Fatalf("reserve answers %d reservations and %s", len(out), said(err))
		}
		if out[0].Next <= above || out[1].Next <= above || out[0].Next == out[1].Next {
			t.Errorf("reserved %d and %d above %d", out[0].Next, out[1].Next, above)
		}
		for _, key := range []tiers.Key{other, k} {
			if last = t.save(raw(key, "v")).Version; last <= max(out[0].Next, out[1].Next) {
				t.Errorf("a save of %s gets version %d after %d and %d were reserved", show(key), last, out[0].Next, out[1].Next)
			}
		}
	}
}

func reservedOnce(t *T) {
	const workers, rounds = 6, 15
	var mu sync.Mutex
	var all []tiers.Version
	k := named("k")
	t.workers(workers, func(worker int) {
		for i := range rounds {
			var v tiers.Version
			if worker%2 == 0 {
				v = t.reserve(t.Tier, k)[0].Next
			} else {
				v = t.save(raw(k, fmt.Sprintf("%d of %d", i, worker))).Version
			}
			mu.Lock()
			all = append(all, v)
			mu.Unlock()
		}
	})
	slices.Sort(all)
	for i := range all {
		if i > 0 && all[i] == all[i-1] {
			t.Errorf("version %d was issued twice", all[i])
		}
	}
}
