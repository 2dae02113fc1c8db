package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

func (a *app) statsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "stats",
		Short: "Count what is stored",
		Long: `Count entries and bytes per category and per tier, in every namespace. What lives
in the memory of running apps can't be seen from here. A tier that does not
answer is reported, the rest is shown, and the command ends with 5.`,
		Example: `  sagestore stats
  sagestore stats --json`,
		Args: count(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.with(c.Context(), func(m *manager.Manager) error {
				if m.Config().InMemory {
					return usagef("ask the program that holds it", "the whole store lives in the memory of one process, so no command can reach it")
				}
				stats, failed := m.Stats(c.Context())
				u := usageOf(m, stats, failed)
				if a.json {
					return errors.Join(a.printJSON(u), failed)
				}
				return errors.Join(a.printUsage(u), failed)
			})
		},
	}
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return c
}

// usage is the JSON shape of stats.
type usage struct {
	Categories    map[string]categoryUsage `json:"categories"`
	Tiers         map[string]tierUsage     `json:"tiers"`
	Pending       int                      `json:"pending"` // writes that wait in the journal for their tier
	OldestPending time.Time                `json:"oldest_pending,omitzero"`

	Journal map[string]manager.Waiting `json:"journal,omitempty"`
}

type categoryUsage struct {
	Tier     string `json:"tier"`
	Codec    string `json:"codec"`
	TTL      string `json:"ttl"`
	Unlisted bool   `json:"unlisted,omitempty"` // it goes to the default store, and no rule names it
	Entries  int64  `json:"entries"`
	Bytes    int64  `json:"bytes"`
}

// tierUsage has no counts for a tier that does not answer.
type tierUsage struct {
	Driver  string `json:"driver"`
	Place   string `json:"place"`
	Entries *int64 `json:"entries"`
	Bytes   *int64 `json:"bytes"`
}

// usageOf leaves out what only running programs could count.
func usageOf(m *manager.Manager, stats manager.Stats, failed error) usage {
	uncounted := tiersOf(failed)
	u := usage{
		Categories: map[string]categoryUsage{}, Tiers: map[string]tierUsage{},
		Pending: stats.Pending, OldestPending: stats.OldestPending, Journal: stats.Journal,
	}
	policies := map[string]config.Policy{}
	for _, p := range m.Policies() {
		policies[p.Category] = p
	}
	for name, s := range stats.Categories {
		p, known := policies[name]
		if !known {
			var err error
			if p, err = m.Config().Policy(name, nil); err != nil {
				p = config.Policy{Tier: "?", Codec: "?"} // of an earlier configuration
			}
		}
		if s.Entries > 0 {
			u.Categories[name] = categoryUsage{p.Tier, p.Codec, lifeText(p), p.Rule == config.RuleDefaultStore, s.Entries, s.Bytes}
		}
	}
	for name, info := range m.Tiers() {
		if info.Scope != tiers.ScopeProcess {
			t := tierUsage{Driver: info.Driver, Place: info.Place}
			if s := stats.Tiers[name]; !uncounted[name] {
				t.Entries, t.Bytes = &s.Entries, &s.Bytes
			}
			u.Tiers[name] = t
		}
	}
	return u
}

func (a *app) printUsage(u usage) error {
	of := table{whole: true, columns: []column{{title: "CATEGORY"}, {title: "TIER", spare: 1}, {title: "CODEC", spare: 3}, {title: "TTL", spare: 2}, {title: "ENTRIES"}, {title: "BYTES"}}}
	for _, name := range slices.Sorted(maps.Keys(u.Categories)) {
		c := u.Categories[name]
		if c.Unlisted {
			name += " (unlisted)"
		}
		of.add(name, c.Tier, c.Codec, c.TTL, strconv.FormatInt(c.Entries, 10), strconv.FormatInt(c.Bytes, 10))
	}
	on := table{whole: true, columns: []column{{title: "TIER"}, {title: "DRIVER", spare: 1}, {title: "ENTRIES"}, {title: "BYTES"}, {title: "PLACE", shrink: true, spare: 2}}}
	for _, name := range slices.Sorted(maps.Keys(u.Tiers)) {
		t := u.Tiers[name]
		on.add(name, t.Driver, counted(t.Entries), counted(t.Bytes), t.Place)
	}
	if err := errors.Join(a.printTable(of), a.printText(""), a.printTable(on)); err != nil {
		return err
	}
	var w strings.Builder
	for _, name := range slices.Sorted(maps.Keys(u.Journal)) {
		j := u.Journal[name]
		_, _ = fmt.Fprintf(&w, "\n%s writes that wait in the journal: %d, the oldest since %s\n", name, j.Rows, instant(j.Oldest))
		if j.Cause != "" {
			_, _ = fmt.Fprintf(&w, "they wait because: %s\n", j.Cause)
		}
	}
	_, err := fmt.Fprint(a.out, w.String())
	return err
}

// tiersOf answers the tiers that the joined errors are about.
func tiersOf(err error) map[string]bool {
	names := map[string]bool{}
	var visit func(err error)
	visit = func(err error) {
		switch e := err.(type) { //nolint:errorlint // the tree is walked
		case interface{ Unwrap() []error }:
			for _, one := range e.Unwrap() {
				visit(one)
			}
		case *tiers.Error:
			names[e.Tier] = true
		}
	}
	visit(err)
	return names
}

// counted is a count as it is printed; one that is not known is a question mark.
func counted(n *int64) string {
	if n == nil {
		return "?"
	}
	return strconv.FormatInt(*n, 10)
}

func lifeText(p config.Policy) string {
	switch {
	case p.Session:
		return "session"
	case p.TTL == 0:
		return "never"
	case p.TTL%(24*time.Hour) == 0 && p.TTL > 24*time.Hour:
		return fmt.Sprintf("%dd", p.TTL/(24*time.Hour))
	}
	text := p.TTL.String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}
