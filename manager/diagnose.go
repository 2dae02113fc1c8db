package manager

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/tiers"
)

// Policies answers what holds for each category that the configuration, the
// built-in rules, the libraries in use or other processes of the store know, and
// for those that this process has used, by name.
func (m *Manager) Policies() []config.Policy {
	all := make(map[string]config.Policy)
	for _, p := range m.core.plan.Policies() {
		all[p.Category] = p
	}
	for category := range m.core.facts.under(factPolicy) {
		if p, err := m.core.plan.Policy(category, m.core.facts.policy(category)); err == nil {
			all[category] = p
		}
	}
	m.core.routes.Range(func(category, r any) bool {
		all[category.(string)] = r.(*route).policy //nolint:forcetypeassert // the map holds nothing else
		return true
	})
	return slices.SortedFunc(maps.Values(all), func(a, b config.Policy) int { return cmp.Compare(a.Category, b.Category) })
}

// Tiers answers what the open tiers are, by name.
func (m *Manager) Tiers() map[string]tiers.Info {
	out := make(map[string]tiers.Info, len(m.core.order))
	for _, name := range m.core.order {
		out[name] = m.core.stations[name].info
	}
	return out
}

// Diagnose checks the running store: what each tier finds about itself, and what
// the configuration means for what is stored. A finding that is OK and yet has a
// hint is advice: a warning of the configuration.
func (m *Manager) Diagnose(ctx context.Context) []tiers.Finding {
	slot, err := m.enter(ctx)
	if err != nil {
		return []tiers.Finding{{Subject: "manager", Message: err.Error(), Hint: "open it again"}}
	}
	defer m.core.gate.leave(slot)
	c := m.core
	var all []tiers.Finding
	for _, name := range c.order {
		all = append(all, c.diagnoseTier(ctx, name)...)
	}
	all = append(all, c.diagnoseNear(ctx)...)
	all = append(all, c.changedTTLs()...)
	all = append(all, c.unlisted()...)
	all = append(all, c.diagnoseKeys(ctx)...)
	all = append(all, c.diagnoseBackups(ctx)...)
	for _, w := range c.plan.Warnings() {
		all = append(all, tiers.Finding{OK: true, Subject: "configuration", Message: w.String(), Hint: "see docs/CONFIG.md"})
	}
	return all
}

// diagnoseTier adds to what a tier finds about itself what it left out: whether
// it answers, and what waits for it in the journal.
func (c *core) diagnoseTier(ctx context.Context, name string) (found []tiers.Finding) {
	s := c.stations[name]
	bad, journal := false, false
	if d, ok := tiers.As[tiers.Diagnoser](s.tier); ok {
		for _, f := range d.Diagnose(ctx) {
			bad, journal = bad || !f.OK, journal || f.Subject == "journal"
			f.Subject = name + ": " + f.Subject
			found = append(found, f)
		}
	}
	if b, err := c.system.Backlog(ctx, name); err == nil && b.Rows > 0 && !journal {
		found = append(found, tiers.Finding{Subject: name + ": journal", Message: fmt.Sprintf(
			"%d writes wait since %s", b.Rows, b.Oldest.UTC().Format(time.RFC3339)), Hint: "they are applied when the tier is back"})
	}
	switch h := s.health(ctx, c.clock); {
	case h.Up:
		found = slices.Insert(found, 0, tiers.Finding{OK: true, Subject: "tier " + name, Message: s.driver + " answers"})
	case !bad:
		found = slices.Insert(found, 0, tiers.Finding{
			Subject: "tier " + name, Message: s.driver + ": " + h.Error, Hint: "see that it runs and that this process may reach it",
		})
	}
	return found
}

// changedTTLs finds categories whose older records keep another TTL than the
// configuration gives to new ones.
func (c *core) changedTTLs() (found []tiers.Finding) {
	now := c.clock.Now()
	for _, category := range slices.Sorted(maps.Keys(c.facts.under(factTTL))) {
		p, err := c.plan.Policy(category, c.facts.policy(category))
		if err != nil {
			continue
		}
		was, since := c.facts.ttl(category), c.facts.ttl(category).Changed
		if text := ttlText(p); was.TTL != text {
			was.Was, since = was.TTL, now // changed, and nothing saved since
			was.TTL = text
		}
		if was.Was == "" {
			continue
		}
		if d, err := time.ParseDuration(was.Was); err == nil && now.After(since.Add(d)) {
			continue // the last of the old records has expired
		}
		found = append(found, tiers.Finding{
			Subject: "ttl of " + category,
			Message: fmt.Sprintf("it was %s and is %s; records saved before keep the old one", was.Was, was.TTL),
			Hint:    "touch or save them to give them the new one",
		})
	}
	return found
}

// unlisted finds categories that are in use and that nothing lists.
func (c *core) unlisted() (found []tiers.Finding) {
	c.routes.Range(func(category, r any) bool {
		if r.(*route).policy.Rule == config.RuleDefaultStore { //nolint:forcetypeassert // the map holds nothing else
			found = append(found, tiers.Finding{
				Subject: fmt.Sprintf("category %v", category), Message: "it is unlisted and goes to the default store",
				Hint: "list it under categories",
			})
		}
		return true
	})
	slices.SortFunc(found, func(a, b tiers.Finding) int { return cmp.Compare(a.Subject, b.Subject) })
	return found
}
