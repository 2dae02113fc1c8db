package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
)

func (a *app) journalCommand() *cobra.Command {
	return group("journal", "Show, retry and drop writes that wait for their tier",
		`The journal, in the database, holds writes on their way to another tier: those of
transactions for milliseconds, those to a server that is away until it is back.
Reads are answered from there meanwhile.`,
		a.journalListCommand(), a.journalRetryCommand(), a.journalDropCommand(), a.journalOutcomeCommand())
}

func (a *app) journalListCommand() *cobra.Command {
	var tier string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the writes that wait, and why",
		Long: `List the writes that wait, of every namespace, in the order in which they are
applied: tier, category, key, operation, version, since when, the size of key and
value, and the error that keeps them. It tries once before to apply them.`,
		Example: `  sagestore journal list
  sagestore journal list --tier cache --json`,
		Args: count(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withJournal(c, tier, func(m *manager.Manager, tier string) error {
				// What it answers is said of each write.
				_, _ = m.ApplyPending(c.Context(), tier, false)
				if a.json {
					return a.printPendingLines(c.Context(), m, tier)
				}
				return a.printPending(m.PendingWrites(c.Context(), tier))
			})
		},
	}
	c.Flags().BoolVar(&a.json, "json", false, "print one JSON object a line")
	return a.tierFlag(c, &tier)
}

// tierFlag adds --tier.
func (a *app) tierFlag(c *cobra.Command, tier *string) *cobra.Command {
	c.Flags().StringVar(tier, "tier", "", "only what waits for the tier of this `name`")
	_ = c.RegisterFlagCompletionFunc("tier", a.completeStore) // it fails only for a flag that there is not
	return c
}

// withJournal opens the store for fn, with the tier that --tier names, "" for
// all.
func (a *app) withJournal(c *cobra.Command, tier string, fn func(m *manager.Manager, tier string) error) error {
	if err := notEmpty(c, "tier"); err != nil {
		return err
	}
	return a.with(c.Context(), func(m *manager.Manager) error {
		if m.Config().InMemory {
			return usagef("ask the program that holds it", "the whole store lives in the memory of one process, so no command can reach it")
		}
		if tier != "" {
			home, err := m.Config().Store(tier)
			if f, ok := errors.AsType[*config.Error](err); ok {
				err = usagef("", "--tier: %s", f.Problem)
			}
			if err != nil {
				return err
			}
			tier = home
		}
		return fn(m, tier)
	})
}

func (a *app) printPendingLines(ctx context.Context, m *manager.Manager, tier string) error {
	for w, err := range m.PendingWrites(ctx, tier) {
		if err != nil {
			return err
		}
		if err := a.printLine(w); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printPending(writes iter.Seq2[manager.PendingWrite, error]) error {
	t := table{whole: true, columns: []column{
		{title: "TIER", spare: 2}, {title: "CATEGORY"}, {title: "KEY"}, {title: "OP"}, {title: "VERSION", spare: 5}, {title: "SINCE", spare: 3}, {title: "BYTES", spare: 4}, {title: "WHY", shrink: true, least: 16, spare: 1},
	}}
	for p, err := range writes {
		if err != nil {
			return err
		}
		why := p.Cause
		if why == "" {
			why = "it is on its way"
		}
		t.add(p.Tier, inNamespace(p.Namespace, p.Category), shown(p.Key), p.Op, fmt.Sprint(p.Version), instant(p.Since), fmt.Sprint(p.Bytes), shown(why))
	}
	return a.printTable(t)
}

func (a *app) journalRetryCommand() *cobra.Command {
	var tier, timeout string
	c := &cobra.Command{
		Use:   "retry",
		Short: "Apply the writes that wait now",
		Long: `Apply the writes that wait now, and wait for servers that are away for as long as
--timeout says. It prints how many are left. When some are left because a tier is
away it ends with 5, and when a tier refuses them with 1.`,
		Example: `  sagestore journal retry
  sagestore journal retry --tier cache --timeout 1m`,
		Args: count(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			patience, ok := config.TTL(timeout).Duration()
			if !ok {
				return usagef("write seconds, or 500ms, 90s, 15m", "--timeout %q is no duration of more than 0", timeout)
			}
			return a.withJournal(c, tier, func(m *manager.Manager, tier string) error {
				return a.retry(c.Context(), m, tier, patience)
			})
		},
	}
	c.Flags().StringVar(&timeout, "timeout", "10s", "wait this `duration` at most")
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return a.tierFlag(c, &tier)
}

// remaining is the JSON shape of retry.
type remaining struct {
	Left  int64            `json:"left"`
	Tiers map[string]int64 `json:"tiers"`
}

func (a *app) retry(ctx context.Context, m *manager.Manager, tier string, patience time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	left, failed := m.ApplyPending(limited, tier, true)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r := remaining{Tiers: left}
	for _, n := range left {
		r.Left += n
	}
	if a.json {
		return errors.Join(a.printJSON(r), failed)
	}
	if r.Left == 0 {
		_, err := fmt.Fprintln(a.out, "nothing waits")
		return errors.Join(err, failed)
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if _, err := fmt.Fprintf(a.out, "%s still %s for %s\n", many(left[name], "write"), verb(left[name]), name); err != nil {
			return err
		}
	}
	if failed == nil {
		failed = silent(exitFailed) // they came while the others were applied
	}
	return failed
}

func (a *app) journalOutcomeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "outcome ID",
		Short: "Tell what became of a transaction",
		Long: `Print "committed" and end with 0, or print "rolled back" and end with 3, for the
transaction of this id, which apply and errors print. It is known for a day. A
transaction that is on its way in another process is rolled back until it is
committed.`,
		Example: `  sagestore journal outcome 0199a6d2-6d4c-7b5e-9d55-3d8a0f0b6a11`,
		Args:    count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := uuid.Parse(args[0])
			if err != nil || id.String() != args[0] || id.Version() != 7 {
				return usagef("it looks like 0199a6d2-6d4c-7b5e-9d55-3d8a0f0b6a11", "%q is not the id of a transaction", args[0])
			}
			return a.withJournal(c, "", func(m *manager.Manager, _ string) error {
				return a.outcome(c.Context(), m, id)
			})
		},
	}
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return c
}

func (a *app) outcome(ctx context.Context, m *manager.Manager, id uuid.UUID) error {
	became, err := m.Outcome(ctx, id.String())
	if err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(map[string]string{"transaction": id.String(), "outcome": string(became)})
	} else {
		_, err = fmt.Fprintln(a.out, became)
	}
	if err == nil && became == manager.RolledBack {
		return silent(exitNotFound)
	}
	return err
}
