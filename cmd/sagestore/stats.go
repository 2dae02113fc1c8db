package main

import (
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
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
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.with(c.Context(), func(m *manager.Manager) error {
				stats, failed := m.Stats(c.Context())
				if a.json {
					if err := a.printJSON(stats); err != nil {
						return err
					}
					return failed
				}
				if err := a.printStats(m, stats); err != nil {
					return err
				}
				return failed
			})
		},
	}
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return c
}

func (a *app) printStats(m *manager.Manager, stats manager.Stats) error {
	policies := map[string]config.Policy{}
	for _, p := range m.Policies() {
		policies[p.Category] = p
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "CATEGORY\tTIER\tCODEC\tTTL\tENTRIES\tBYTES\t")
	for _, name := range slices.Sorted(maps.Keys(stats.Categories)) {
		p, note := policies[name], ""
		if p.Rule == config.RuleDefaultStore {
			note = "unlisted"
		}
		s := stats.Categories[name]
		if s.Entries == 0 && note == "" && m.Tiers()[p.Tier].Scope == tiers.ScopeProcess {
			continue
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\n", name, p.Tier, p.Codec, lifeText(p), s.Entries, s.Bytes, note)
	}
	_, _ = fmt.Fprintln(w, "\nTIER\tDRIVER\tPLACE\t\tENTRIES\tBYTES\t")
	for _, name := range slices.Sorted(maps.Keys(stats.Tiers)) {
		info, s := m.Tiers()[name], stats.Tiers[name]
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t\t%d\t%d\t\n", name, info.Driver, info.Place, s.Entries, s.Bytes)
	}
	if stats.Pending > 0 {
		_, _ = fmt.Fprintf(w, "\n%d cache writes wait in the journal, the oldest since %s\n", stats.Pending, instant(stats.OldestPending))
	}
	return w.Flush()
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
	return p.TTL.String()
}
