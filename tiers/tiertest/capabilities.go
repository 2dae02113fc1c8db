package tiertest

import (
	"strings"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func capabilityRules() []rule {
	return []rule{
		{
			name: "what is required is there",
			why:  "a capability that got lost on the way, in a wrapper for instance, must not pass unnoticed",
			run: func(t *T) {
				for _, c := range t.Require {
					if !t.has(c) {
						t.Errorf("the tier has no %s", c)
					}
				}
			},
		},
		{
			name: "exists tells without loading", needs: []Capability{Exister},
			why: "exists must agree with load",
			run: func(t *T) {
				k := named("here")
				t.save(raw(k, "v"))
				for _, c := range []struct {
					k    tiers.Key
					want bool
				}{{k, true}, {named("not here"), false}} {
					if got, err := tiers.Exists(t.ctx, t.Tier, c.k); err != nil || got != c.want {
						t.Errorf("exists of %s answers %v and %s, want %v", show(c.k), got, said(err), c.want)
					}
				}
			},
		},
		{
			name: "ping answers", needs: []Capability{Pinger},
			why: "health checks ask for it",
			run: func(t *T) {
				p, _ := tiers.As[tiers.Pinger](t.Tier)
				if err := p.Ping(t.ctx); err != nil {
					t.Errorf("ping: %v", err)
				}
			},
		},
		{
			name: "stats count entries, hits and misses", needs: []Capability{Statser},
			why: "an operator reads them, so they must move with the work",
			run: func(t *T) {
				s, _ := tiers.As[tiers.Statser](t.Tier)
				t.fill("k", 10)
				t.load(numbered("k", 1))
				t.wantAbsent("before", named("not here"))
				got, err := s.Stats(t.ctx)
				if err != nil {
					t.Fatalf("stats: %v", err)
				}
				if got.Entries < 10 || got.Bytes <= 0 || got.Hits < 1 || got.Misses < 1 {
					t.Errorf("stats answers %+v after 10 saves, a hit and a miss", got)
				}
			},
		},
		{
			name: "count counts live records", needs: []Capability{Counter},
			why: "an expired record is not there, and neither are those of other spaces",
			run: countsLiveRecords,
		},
		{
			name: "describe tells the truth", needs: []Capability{Describer},
			why: "the manager warns, routes and limits by what a tier says of itself",
			run: func(t *T) {
				i := tiers.Describe(t.Tier)
				if i.Driver == "" {
					t.Errorf("the driver has no name: %+v", i)
				}
				if i.Durable && !t.Durable {
					t.Errorf("it says durable, and is not tested as such: %+v", i)
				}
				if t.Shared && i.Scope == tiers.ScopeProcess {
					t.Errorf("its handles share a store, and it says that nobody else sees its saves: %+v", i)
				}
				if t.MaxValue > 0 && i.MaxValue > 0 && i.MaxValue != t.MaxValue {
					t.Errorf("it says that values may have %d bytes, want %d", i.MaxValue, t.MaxValue)
				}
			},
		},
		{
			name: "diagnose has something to say", needs: []Capability{Diagnoser},
			why: "a finding that is not well needs a subject, a message and a hint, or nobody can act on it",
			run: func(t *T) {
				d, _ := tiers.As[tiers.Diagnoser](t.Tier)
				found := d.Diagnose(t.ctx)
				if len(found) == 0 {
					t.Errorf("no findings at all")
				}
				for _, f := range found {
					if f.Subject == "" || f.Message == "" || !f.OK && f.Hint == "" {
						t.Errorf("incomplete finding: %+v", f)
					}
					if f.OK && strings.TrimSpace(f.Hint) != "" {
						t.Errorf("a hint where all is well: %+v", f)
					}
				}
			},
		},
	}
}

func countsLiveRecords(t *T) {
	mine := tiers.Space{Category: category}
	want := func(when string, s tiers.Space, entries int64) {
		n, bytes, err := tiers.Count(t.ctx, t.Tier, s)
		if err != nil || n != entries || entries > 0 && bytes <= 0 || entries == 0 && bytes != 0 {
			t.Errorf("%s: count of %v answers %d entries, %d bytes and %s; want %d entries", when, s, n, bytes, said(err), entries)
		}
	}
	want("empty", mine, 0)
	t.fill("k", 10)
	gone := named("gone")
	t.save(raw(tiers.Key{Category: category + "2", Name: "other"}, "v"))
	t.save(raw(tiers.Key{Namespace: "n", Category: category, Name: "other"}, "v"))
	want("filled", mine, 10)
	t.save(lasting(gone, "v", t.short()))
	t.expire(gone)
	t.save(lasting(named("lasting"), "v", time.Hour))
	want("one expired, one that will", mine, 11)
	t.delete(numbered("k", 3))
	want("one deleted", mine, 10)
	want("a space of one", tiers.Space{Namespace: "n", Category: category}, 1)
}
