package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

func (a *app) journalDropCommand() *cobra.Command {
	var (
		tier          string
		all, dry, yes bool
	)
	c := &cobra.Command{
		Use:   "drop [CATEGORY KEY]",
		Short: "Give up writes that wait",
		Long: `Give up the write that waits for one key, or with --all every one, of every
namespace; --tier leaves those of other tiers alone. Writes that can be applied
are applied first, if the tier is there. What is given up is lost, though it was
acknowledged: the keys stay as they are in the tier, and of a transaction the rest
stays done. It asks before, unless --yes is given.`,
		Example: `  sagestore journal drop session.history s-1/000001 --dry-run
  sagestore journal drop --tier cache --all --yes`,
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return usagef("--all is for every write that waits", "there are --all and %q", args[0])
			case all:
				return nil
			case len(args) == 0:
				return usagef("usage: "+c.UseLine(), "name a CATEGORY and a KEY, or give --all")
			}
			return count(2, 2)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if all && c.Flags().Changed("namespace") {
				return usagef("leave one of both out", "--all is for every namespace")
			}
			if err := tiers.CheckNamespace(a.namespace); err != nil {
				return err
			}
			return a.withJournal(c, tier, func(m *manager.Manager, tier string) error {
				writes, err := a.doomed(c.Context(), m, tier, args)
				if err != nil {
					return err
				}
				return a.drop(c.Context(), m, writes, dry, yes)
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "every write that waits")
	c.Flags().BoolVar(&dry, "dry-run", false, "only say what would be lost")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	c.Flags().StringVar(&a.namespace, "namespace", "", "`name` of the key's namespace")
	return a.tierFlag(c, &tier)
}

// doomed answers the writes that the arguments name. What can be applied is
// applied before.
func (a *app) doomed(ctx context.Context, m *manager.Manager, tier string, args []string) (writes []manager.PendingWrite, err error) {
	_, _ = m.ApplyPending(ctx, tier, false) // what it could not apply is what there is to drop
	for w, err := range m.PendingWrites(ctx, tier) {
		if err != nil {
			return nil, err
		}
		if len(args) == 0 || w.Category == args[0] && w.Key == args[1] && w.Namespace == a.namespace {
			writes = append(writes, w)
		}
	}
	if len(writes) == 0 && len(args) > 0 {
		k := tiers.Key{Namespace: a.namespace, Category: args[0], Name: args[1]}
		return nil, tiers.Hint(tiers.Fail("drop", "", k, fmt.Errorf("%w: no write waits for this key", tiers.ErrNotFound)), "sagestore journal list shows what waits")
	}
	return writes, nil
}

func (a *app) drop(ctx context.Context, m *manager.Manager, writes []manager.PendingWrite, dry, yes bool) error {
	if len(writes) == 0 {
		if a.json {
			return a.printJSON(facts{"dry_run": dry, "dropped": 0, "of": 0})
		}
		_, err := fmt.Fprintln(a.out, "nothing waits")
		return err
	}
	what := loss(writes)
	if dry {
		keys := make([]facts, 0, len(writes))
		for i := range writes {
			w := &writes[i]
			keys = append(keys, facts{"namespace": w.Namespace, "category": w.Category, "key": w.Key, "op": w.Op, "tier": w.Tier, "since": w.Since})
		}
		return a.would("drop "+what, facts{"writes": keys})
	}
	if err := a.confirm(ctx, "drop "+what, yes); err != nil {
		return err
	}
	n, err := m.DropPending(ctx, writes)
	if err != nil {
		return err
	}
	if a.json {
		return unprinted(a.printJSON(facts{"dry_run": false, "dropped": n, "of": len(writes)}))
	}
	if n == len(writes) {
		_, err = fmt.Fprintln(a.out, "dropped", what)
		return unprinted(err)
	}
	_, err = fmt.Fprintf(a.out, "dropped %d of %s; the others were applied or replaced meanwhile\n", n, many(len(writes), "write"))
	return unprinted(err)
}

// loss says what is lost with the writes.
func loss(writes []manager.PendingWrite) string {
	saves, deletes := 0, 0
	categories, names := map[string]bool{}, map[string]bool{}
	var newest time.Time
	for i := range writes {
		w := &writes[i]
		if w.Op == "delete" {
			deletes++
		} else {
			saves++
		}
		categories[inNamespace(w.Namespace, w.Category)], names[w.Tier] = true, true
		if w.Since.After(newest) {
			newest = w.Since
		}
	}
	return fmt.Sprintf("%s that %s for %s, of %s, the newest of %s: they are lost, and the keys stay as they are there",
		counts(saves, deletes), verb(int64(saves+deletes)), list(names), list(categories), instant(newest))
}

func counts(saves, deletes int) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{saves, "save"}, {deletes, "delete"}} {
		if p.n > 0 {
			parts = append(parts, many(p.n, p.what))
		}
	}
	return strings.Join(parts, " and ")
}

func verb(n int64) string {
	if n == 1 {
		return "waits"
	}
	return "wait"
}

func list(names map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}
