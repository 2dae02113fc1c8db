package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// categories are those that the app uses, in the order of the report.
var categories = []string{ //nolint:gochecknoglobals // a constant list
	"agent.state", "agent.conversations", "agent.checkpoints", "agent.fields",
	"session.state", "session.events", "session.context", "session.history", "session.preferences",
	"knowledge.content", "knowledge.bodies", "knowledge.tokens", "knowledge.usage", "knowledge.access",
	"learning.patterns", "learning.optimizations", "learning.feedback", "config",
}

// tell says what the agent has come to.
func (a *app) tell(ctx context.Context, say func(string, ...any)) error {
	stats, err := a.agents.Stats(ctx)
	if err != nil {
		return err
	}
	say("\nThe agent has done %s: %d messages in %d conversations, %d checkpoints, all committed step by step.",
		counted(a.run.Iteration(), "step"), stats.Messages, stats.Conversations, stats.Checkpoints)
	newest, err := a.agents.LoadCheckpoint(ctx, agentID, "latest")
	if err == nil {
		say("The newest checkpoint shows step %d with %s; it added %d bytes, and restoring it gives %d.",
			newest.Iteration, counted(newest.Messages, "message"), newest.Stored, newest.Size)
	} else if !errors.Is(err, tiers.ErrNotFound) {
		return err
	}
	three := 3
	hits, err := a.agents.Search(ctx, agent.Query{Text: "test", Mode: agent.ByWords, Limit: &three})
	if err != nil {
		return err
	}
	for i, h := range hits {
		if i == 0 {
			say("A search for %q finds:", "test")
		}
		say("  %s, message %d: %s", h.ConversationID, h.Message.Seq, clip(h.Snippet, 70))
	}
	advice, err := a.learned.Digest(ctx, user, 60)
	if err != nil || advice == "" {
		return err
	}
	say("What it has learned, for its next prompt:\n  %s", strings.ReplaceAll(strings.TrimSpace(advice), "\n", "\n  "))
	return nil
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

// report opens the store again and prints what is there.
func report(ctx context.Context, cfg *config.Config, drivers tiers.Drivers, held map[string]int, out io.Writer) (err error) {
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
	_, _ = fmt.Fprintln(w, "CATEGORY\tTIER\tCODEC\tTTL\tBEFORE\tNOW\tBYTES\t")
	for _, c := range categories {
		p, err := m.Config().Policy(c, nil)
		if err != nil {
			return err
		}
		now := stats.Categories[c]
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n", c, where(p.Tier, driver[p.Tier]), p.Codec, life(p), held[c], now.Entries, now.Bytes,
			verdict(p, held[c], int(now.Entries)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if waits := stats.Journal["cache"]; waits.Cause != "" {
		_, _ = fmt.Fprintf(out, "\nThe cache's server does not answer. %s wait in the journal and reach it when it is back.\n", counted(int(waits.Rows), "write"))
	}
	_, _ = fmt.Fprint(out, "\nBEFORE and NOW count records before closing and after opening again.\n")
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

// verdict says whether what became of the records is right.
func verdict(p config.Policy, before, now int) string {
	switch {
	case before == 0 && now == 0:
		return ""
	case p.Tier == "memory" && now == 0:
		return "gone, rightly: memory ends with the process"
	case now == before:
		return "survived"
	case now > before:
		return "survived, and was completed when the app closed"
	}
	return fmt.Sprintf("%d of %d survived", now, before)
}
