package tiertest

import (
	"fmt"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func versionRules() []rule {
	return []rule{
		{
			name: "versions grow with every save",
			why:  "a conditional save tells two states of a key apart by it alone",
			run: func(t *T) {
				t.grows(named("k"), "saved again", func(k tiers.Key, i int) { t.save(raw(k, fmt.Sprint(i))) })
				t.grows(named("same"), "the same value", func(k tiers.Key, _ int) { t.save(raw(k, "same")) })
			},
		},
		{
			name: "versions grow across delete and re-create",
			why:  "an old handle must not match the new record",
			run: func(t *T) {
				t.grows(named("k"), "re-created", func(k tiers.Key, i int) {
					t.delete(k)
					t.save(raw(k, fmt.Sprint(i)))
				})
				t.grows(named("unborn"), "after a save that is absent at once", func(k tiers.Key, i int) {
					t.save(lasting(k, fmt.Sprint(i), -time.Second))
					t.save(raw(k, fmt.Sprint(i)))
				})
			},
		},
		{
			name: "versions grow after expiry",
			why:  "an old handle must not match the new record",
			run: func(t *T) {
				t.grows(named("k"), "expired", func(k tiers.Key, i int) {
					if i%2 == 1 && i < 5 {
						t.save(lasting(k, "short", t.short()))
						t.expire(k)
					}
					t.save(raw(k, fmt.Sprint(i)))
				})
			},
		},
		{
			name: "versions grow when the clock is set back",
			why:  "clocks do that, and last-write-wins by wall clock loses saves", when: settableClock,
			run: func(t *T) {
				t.grows(named("k"), "a day earlier", func(k tiers.Key, i int) {
					t.Clock.Advance(-24 * time.Hour)
					if i%3 == 0 {
						t.delete(k)
					}
					t.save(raw(k, fmt.Sprint(i)))
				})
			},
		},
		{
			name: "versions grow across opening again",
			why:  "a restart, with a clock that was set back meanwhile, must not repeat a version", when: durable,
			run: func(t *T) {
				t.grows(named("k"), "re-opened", func(k tiers.Key, i int) {
					if i%5 == 0 {
						if i%2 == 0 {
							t.delete(k)
						}
						t.Clock.Advance(-24 * time.Hour)
						t.Reopen()
					}
					t.save(raw(k, fmt.Sprint(i)))
				})
			},
		},
		{
			name: "versions grow in batches",
			why:  "a batch is many saves", needs: []Capability{Batcher},
			run: func(t *T) {
				t.grows(named("k"), "in a batch", func(k tiers.Key, i int) {
					rs, err := tiers.SaveMany(t.ctx, t.Tier, []tiers.Record{raw(named("other"), "v"), raw(k, fmt.Sprint(i))}, nil)
					if err != nil {
						t.Fatalf("save many: %v", err)
					}
					if got := t.load(k).Version; rs[1].Version != got {
						t.Errorf("save many answers version %d, load %d", rs[1].Version, got)
					}
				})
			},
		},
		{
			name: "versions fit a JSON number and follow the clock",
			why:  "they travel as JSON, and are compared with those of other stores",
			run: func(t *T) {
				v := t.save(raw(named("k"), "v")).Version
				if v >= 1<<53 {
					t.Errorf("version %d does not fit 53 bits", v)
				}
				if now := version(t.now().Add(-t.slack())); v < now {
					t.Errorf("version %d is below the time in microseconds, %d", v, now)
				}
			},
		},
		{
			name: "created stays and updated moves",
			why:  "both are shown to users and kept by backups",
			run:  createdStays,
		},
	}
}

// grows saves the key a few times through step and compares versions: those of
// the answers, of load and of the list.
func (t *T) grows(k tiers.Key, when string, step func(k tiers.Key, i int)) {
	last := t.save(raw(k, "start")).Version
	for i := range 12 {
		step(k, i)
		r := t.load(k)
		if r.Version <= last {
			t.Errorf("%s, step %d: version %d does not follow %d", when, i, r.Version, last)
		}
		last = r.Version
		for _, listed := range t.list(tiers.Query{Category: k.Category, Prefix: k.Name}) {
			if listed.Version != r.Version {
				t.Errorf("%s, step %d: the list says version %d, load says %d", when, i, listed.Version, r.Version)
			}
		}
	}
}

func createdStays(t *T) {
	k := named("k")
	began := t.now()
	first := t.save(raw(k, "1"))
	for what, at := range map[string]time.Time{"created": first.Created, "updated": first.Updated} {
		if !t.near(at, began) {
			t.Errorf("%s is %v at a time of %v", what, at, began)
		}
		if at.Location() != time.UTC || at.Nanosecond()%1000 != 0 {
			t.Errorf("%s is %v, want UTC in microseconds", what, at)
		}
	}
	t.wantSame("loaded", t.load(k), first)

	t.pass(3 * time.Second)
	second := t.save(raw(k, "2"))
	if !second.Created.Equal(first.Created) {
		t.Errorf("created went from %v to %v with the second save", first.Created, second.Created)
	}
	if !second.Updated.After(first.Updated) {
		t.Errorf("updated stays at %v with the second save", second.Updated)
	}
	t.wantSame("saved again", t.load(k), second)

	t.delete(k)
	t.pass(3 * time.Second)
	third := t.save(raw(k, "3"))
	if !third.Created.After(first.Created) {
		t.Errorf("created is %v after delete and re-create, which is that of the deleted record", third.Created)
	}
	t.wantSame("re-created", t.load(k), third)

	gone := named("gone")
	old := t.save(lasting(gone, "v", t.short()))
	t.expire(gone)
	t.pass(3 * time.Second)
	if fresh := t.save(raw(gone, "v")); !fresh.Created.After(old.Created) {
		t.Errorf("created is %v after expiry, which is that of the expired record", fresh.Created)
	}
}

// pass lets some time go by: d on the injected clock, a few milliseconds on a
// server's.
func (t *T) pass(d time.Duration) {
	t.Clock.Advance(d)
	if t.ServerClock {
		_ = tiers.SystemClock().Sleep(t.ctx, 5*time.Millisecond)
	}
}
