package tiertest

import (
	"fmt"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func expiryRules() []rule {
	return []rule{
		{
			name: "an expired record is absent for everything",
			why:  "whether it was swept is nobody's business",
			run:  expiredIsAbsent,
		},
		{
			name: "a list is the first to see an expired record",
			why:  "hiding expired records must not depend on a load that cleaned up before",
			run: func(t *T) {
				t.save(lasting(named("a"), "v", t.short()))
				t.save(raw(named("b"), "v"))
				t.expire(named("a"))
				t.wantNames("list", t.names(tiers.Query{Category: category}), []string{"b"})
				t.wantNames("list of one", t.names(tiers.Query{Category: category, Limit: 1}), []string{"b"})
				t.wantNames("list in reverse", t.names(tiers.Query{Category: category, Reverse: true}), []string{"b"})
				t.wantNames("list of keys", t.names(tiers.Query{Category: category, KeysOnly: true}), []string{"b"})
			},
		},
		{
			name: "a limited list reads past expired records",
			why:  "a page full of expired records is not the end of the list",
			run: func(t *T) {
				for i := range 40 {
					t.save(lasting(numbered("a", i), "v", t.short()))
				}
				t.save(raw(named("b"), "v"))
				t.save(raw(named("c"), "v"))
				t.expire(numbered("a", 39))
				t.wantNames("list", t.names(tiers.Query{Category: category, Limit: 2}), []string{"b", "c"})
			},
		},
		{
			name: "expires is the tier's time plus the TTL",
			why:  "callers give durations, so that clocks need not agree",
			run:  expiresIsExact,
		},
		{
			name: "a negative TTL makes the key absent at once",
			why:  "on a known cache server it stores the record for ever",
			run:  negativeTTL,
		},
		{
			name: "a TTL below a millisecond expires",
			why:  "rounded down it would be no TTL, which is for ever",
			run: func(t *T) {
				for i, ttl := range []time.Duration{1, 999, time.Microsecond, 500 * time.Microsecond, 999 * time.Microsecond} {
					k := numbered("k", i)
					t.save(lasting(k, "v", ttl))
					t.Clock.Advance(time.Millisecond)
					gone := t.poll(t.patience(), func() bool { there, err := tiers.Exists(t.ctx, t.Tier, k); return err == nil && !there })
					if !gone {
						t.Errorf("a record with a TTL of %v is still there", ttl)
					}
				}
			},
		},
		{
			name: "no TTL is no TTL",
			why:  "a default that creeps in deletes what was to stay",
			run: func(t *T) {
				k := named("k")
				if r := t.save(raw(k, "v")); !r.Expires.IsZero() {
					t.Errorf("save answers the expiry %v", r.Expires)
				}
				if r := t.load(k); !r.Expires.IsZero() {
					t.Errorf("load answers the expiry %v", r.Expires)
				}
				r := raw(named("given"), "v")
				r.Expires = t.now().Add(time.Second) // Save ignores it
				if saved := t.save(r); !saved.Expires.IsZero() {
					t.Errorf("save took Expires, which is for the way out: %v", saved.Expires)
				}
			},
		},
		{
			name: "a save without TTL clears an earlier one",
			why:  "the new value did not ask to expire",
			run: func(t *T) {
				k := named("k")
				t.save(lasting(k, "short", t.short()))
				t.save(lasting(named("probe"), "v", t.short()))
				if r := t.save(raw(k, "lasting")); !r.Expires.IsZero() {
					t.Errorf("save answers the expiry %v", r.Expires)
				}
				t.expire(named("probe"))
				t.wantValue("after the earlier TTL", k, "lasting")
			},
		},
		{
			name: "a save renews or shortens the TTL",
			why:  "the newest save rules",
			run: func(t *T) {
				long, short := named("long"), named("short")
				t.save(lasting(long, "v", t.short()))
				t.save(lasting(short, "v", time.Hour))
				t.save(lasting(long, "v", time.Hour))
				t.save(lasting(short, "v", t.short()))
				t.expire(short)
				t.wantAbsent("shortened", short)
				t.wantValue("prolonged", long, "v")
			},
		},
		{
			name: "a TTL of ten years holds that long", when: settableClock,
			why: "long TTLs overflow 32-bit seconds and 64-bit nanoseconds alike",
			run: func(t *T) {
				const years = 10 * 365 * 24 * time.Hour
				k, far := named("k"), named("far")
				t.save(lasting(k, "v", years))
				t.save(lasting(far, "v", 1<<63-1))
				t.Clock.Advance(years - time.Second)
				t.wantValue("a second before", k, "v")
				t.Clock.Advance(time.Second)
				t.wantAbsent("ten years later", k)
				t.wantValue("the longest TTL", far, "v")
			},
		},
		{
			name: "expiry survives opening again", when: durable,
			why: "a restart must not make records immortal",
			run: func(t *T) {
				k, stays := named("k"), named("stays")
				t.save(lasting(k, "v", t.short()))
				kept := t.save(lasting(stays, "v", time.Hour))
				t.Reopen()
				t.wantSame("re-opened", t.load(stays), kept)
				t.expire(k)
				t.wantAbsent("re-opened, and later", k)
			},
		},
		{
			name: "touch changes expiry alone", needs: []Capability{Toucher},
			why: "a touched session must not look changed",
			run: touchChangesExpiry,
		},
		{
			name: "touch does not revive", needs: []Capability{Toucher},
			why: "what is gone is gone",
			run: func(t *T) {
				k := named("k")
				t.save(lasting(k, "v", t.short()))
				t.expire(k)
				t.wantTouch("expired", k, time.Hour, false)
				t.wantAbsent("touched after expiry", k)
				t.wantTouch("never there", named("never"), time.Hour, false)
				t.wantAbsent("touched and never there", named("never"))
				t.wantTouch("never there, for ever", named("never"), 0, false)
				t.wantAbsent("touched and never there", named("never"))
				t.wantNames("list", t.names(tiers.Query{Category: category}), nil)
			},
		},
	}
}

// patience is how long to wait for what has to be so at once, or soon on a
// server's clock.
func (t *T) patience() time.Duration {
	if t.ServerClock {
		return time.Second
	}
	return 0
}

func expiredIsAbsent(t *T) {
	// A key for each question, so that each is the first to be asked.
	asked := []string{"load", "exists", "batch", "absent", "version", "touch", "delete"}
	for _, name := range asked {
		t.save(lasting(named(name), "v", t.short()))
	}
	t.wantValue("before", named("load"), "v")
	t.expire(named("load"))
	for _, name := range asked[1:] {
		if t.ServerClock { // they were saved at about the same time
			t.expire(named(name))
		}
	}
	t.wantAbsent("load", named("load"))
	if there, err := tiers.Exists(t.ctx, t.Tier, named("exists")); err != nil || there {
		t.Errorf("exists answers %v and %s", there, said(err))
	}
	rs, err := tiers.LoadMany(t.ctx, t.Tier, []tiers.Key{named("batch")})
	if err != nil || len(rs) != 1 || rs[0].Version != 0 {
		t.Errorf("load many answers %+v and %s", rs, said(err))
	}
	if t.has(Toucher) {
		t.wantTouch("expired", named("touch"), time.Hour, false)
		t.wantAbsent("touched", named("touch"))
	}
	if existed, err := t.Tier.Delete(t.ctx, named("delete"), tiers.Cond{}); err != nil || existed {
		t.Errorf("delete answers %v and %s", existed, said(err))
	}
	if _, err := t.Tier.Save(t.ctx, raw(named("absent"), "v"), tiers.If(0)); err != nil {
		t.Errorf("save if absent: %v", err)
	}
	_, err = t.Tier.Save(t.ctx, raw(named("version"), "v"), tiers.If(1))
	t.wantError("save over a version", err, tiers.ErrConflict)
	t.wantNames("list", t.names(tiers.Query{Category: category}), []string{"absent"})
}

func expiresIsExact(t *T) {
	k := named("k")
	const ttl = 90 * time.Minute
	saved := t.save(lasting(k, "v", ttl))
	if want := t.now().Add(ttl); !t.near(saved.Expires, want) {
		t.Errorf("expires is %v, want %v", saved.Expires, want)
	}
	if saved.Expires.Location() != time.UTC || saved.Expires.Nanosecond()%1000 != 0 {
		t.Errorf("expires is %v, want UTC in microseconds", saved.Expires)
	}
	t.wantSame("loaded", t.load(k), saved)
	for _, r := range t.list(tiers.Query{Category: category}) {
		t.wantSame("listed", r, saved)
	}
	if t.ServerClock {
		return
	}
	t.Clock.Set(saved.Expires.Add(-time.Microsecond))
	t.wantValue("a microsecond before", k, "v")
	t.Clock.Set(saved.Expires)
	t.wantAbsent("at that instant", k)
}

func negativeTTL(t *T) {
	for i, ttl := range []time.Duration{-1, -time.Microsecond, -time.Millisecond, -time.Second, -time.Hour, -1 << 63} {
		k := numbered("k", i)
		if _, err := t.Tier.Save(t.ctx, lasting(k, "v", ttl), tiers.Cond{}); err != nil {
			t.Errorf("save with a TTL of %v: %v", ttl, err)
		}
		t.wantAbsent(fmt.Sprintf("saved with a TTL of %v", ttl), k)
		t.save(raw(k, "live"))
		if _, err := t.Tier.Save(t.ctx, lasting(k, "v", ttl), tiers.Cond{}); err != nil {
			t.Errorf("save over a live one with a TTL of %v: %v", ttl, err)
		}
		t.wantAbsent(fmt.Sprintf("saved over a live one with a TTL of %v", ttl), k)
	}
	t.wantNames("list", t.names(tiers.Query{Category: category}), nil)

	k := named("conditional")
	live := t.save(raw(k, "live"))
	_, err := t.Tier.Save(t.ctx, lasting(k, "v", -time.Second), tiers.If(0))
	t.wantError("save if absent", err, tiers.ErrExists)
	_, err = t.Tier.Save(t.ctx, lasting(k, "v", -time.Second), tiers.If(live.Version+1))
	t.wantError("save if version", err, tiers.ErrConflict)
	t.wantSame("refused", t.load(k), live)
	if _, err := tiers.SaveMany(t.ctx, t.Tier, []tiers.Record{lasting(k, "v", -time.Second), raw(named("other"), "v")}, nil); err != nil {
		t.Errorf("save many: %v", err)
	}
	t.wantAbsent("in a batch", k)
	t.wantValue("beside it", named("other"), "v")
}

func (t *T) wantTouch(when string, k tiers.Key, ttl time.Duration, want bool) {
	if existed, err := tiers.Touch(t.ctx, t.Tier, k, ttl); err != nil || existed != want {
		t.Errorf("%s: touch of %s answers %v and %s, want %v", when, show(k), existed, said(err), want)
	}
}

func touchChangesExpiry(t *T) {
	k := named("k")
	saved := t.save(lasting(k, "v", t.short()))
	t.save(lasting(named("probe"), "v", t.short()))
	t.wantTouch("prolonged", k, time.Hour, true)
	r := t.load(k)
	if want := t.now().Add(time.Hour); !t.near(r.Expires, want) {
		t.Errorf("expires is %v, want %v", r.Expires, want)
	}
	saved.Expires = r.Expires
	t.wantSame("prolonged", r, saved)
	t.expire(named("probe"))
	t.wantSame("after the first TTL", t.load(k), saved)

	if _, err := t.Tier.Save(t.ctx, raw(k, "next"), tiers.If(saved.Version)); err != nil {
		t.Errorf("save over the version from before the touch: %v", err)
	}
	t.save(lasting(k, "v", t.short()))
	t.wantTouch("for ever", k, 0, true)
	if r := t.load(k); !r.Expires.IsZero() {
		t.Errorf("touched with 0, it expires at %v", r.Expires)
	}
	t.wantTouch("shortened", k, t.short(), true)
	t.expire(k)
	t.wantAbsent("shortened", k)

	t.save(raw(k, "v"))
	t.wantTouch("with a negative TTL", k, -time.Second, true)
	t.wantAbsent("touched with a negative TTL", k)
	t.wantNames("list", t.names(tiers.Query{Category: category}), nil)

	if t.Durable {
		t.save(raw(k, "v"))
		t.wantTouch("before opening again", k, time.Hour, true)
		before := t.load(k)
		t.Reopen()
		t.wantSame("touched and opened again", t.load(k), before)
	}
}
