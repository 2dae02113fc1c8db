package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// categories are those that the agent uses, in the order of the report.
var categories = []string{ //nolint:gochecknoglobals // a constant list
	"session.context", "session.history", "session.preferences",
	"knowledge.content", "knowledge.tokens", "knowledge.usage", "knowledge.access",
	"learning.patterns", "learning.optimizations", "learning.feedback", "config",
}

// count answers how many entries each category holds.
func count(ctx context.Context, m *manager.Manager) (map[string]int, error) {
	stats, err := m.Stats(ctx)
	if err != nil {
		return nil, err
	}
	held := map[string]int{}
	for _, c := range categories {
		held[c] = int(stats.Categories[c].Entries)
	}
	return held, nil
}

// secondRun opens the store again and reports what is there.
func secondRun(ctx context.Context, cfg *config.Config, drivers tiers.Drivers, held map[string]int, watch *stopwatch, out io.Writer) (err error) {
	m, err := manager.Open(ctx, cfg, drivers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close(context.WithoutCancel(ctx))) }()
	stats, err := m.Stats(ctx)
	if err != nil {
		return err
	}
	driver := map[string]string{}
	for _, r := range m.Config().Routes {
		driver[r.Tier] = r.Driver
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "CATEGORY\tTIER\tCODEC\tTTL\tBEFORE\tNOW\tBYTES\tSAVE\tLOAD\t")
	for _, c := range categories {
		p, err := m.Config().Policy(c, nil)
		if err != nil {
			return err
		}
		now := stats.Categories[c]
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%v\t%v\t%s\n", c, where(p.Tier, driver[p.Tier]), p.Codec, life(p), held[c], now.Entries, now.Bytes,
			median(watch.saves[c]), median(watch.loads[c]), verdict(p, held[c], int(now.Entries)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if waits := stats.Journal["cache"]; waits.Cause != "" {
		_, _ = fmt.Fprintf(out, "\nThe cache's server does not answer. %s wait in the journal and reach it when it is back.\n", counted(int(waits.Rows), "write"))
	}
	_, _ = fmt.Fprint(out, `
BEFORE and NOW count entries before closing and after opening again. SAVE and
LOAD are medians; a save that changes what is there reads it first. The database
and file tiers sync each save to the disk before they acknowledge it.
`)
	return nil
}

func where(tier, driver string) string {
	if driver == "" || driver == tier {
		return tier
	}
	return tier + " (" + driver + ")"
}

func life(p config.Policy) string {
	switch {
	case p.Session:
		return "session"
	case p.TTL == 0:
		return "never"
	case p.TTL%(24*time.Hour) == 0 && p.TTL > 24*time.Hour:
		return fmt.Sprintf("%dd", p.TTL/(24*time.Hour))
	}
	return fmt.Sprintf("%gh", p.TTL.Hours())
}

// verdict says whether what became of the entries is right.
func verdict(p config.Policy, before, now int) string {
	switch {
	case p.Tier == "memory" && now == 0:
		return "gone, rightly: memory ends with the process"
	case now == before:
		return "survived"
	}
	return fmt.Sprintf("%d of %d survived", now, before)
}
