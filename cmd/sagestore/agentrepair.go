package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

func (a *app) agentRepairCommand() *cobra.Command {
	var d destruction
	c := &cobra.Command{
		Use:   "repair ID",
		Short: "Make an agent sound again whose records were damaged",
		Long: `Make an agent sound again after its records were damaged, or were changed by other
means than a program with package agent: what can be read is taken for right and counted
again, and what can't is removed. What is removed is kept in a recovery checkpoint, whose
id is printed: its description names it, and its metadata have what was stored. It asks
before, unless --yes is given; what is damaged is listed first, and with --dry-run that
is all. Checkpoints that do not pass their integrity check stay as they are: delete them,
or restore an older one.`,
		Example: `  sagestore agent repair support --dry-run
  sagestore agent repair support --yes`,
		Args: count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withAgents(c.Context(), func(s *agent.Store) error {
				found, err := s.Verify(c.Context(), args[0])
				if err != nil {
					return err
				}
				for _, one := range found {
					_, _ = fmt.Fprintf(a.err, "sagestore: %s\n", one)
				}
				if len(found) == 0 {
					_, _ = fmt.Fprintf(a.err, "sagestore: agent %q is sound\n", args[0])
				}
				if proceed, err := d.may(c.Context(), a, fmt.Sprintf("repair agent %q, of which %d things are damaged", args[0], len(found)), facts{"agent_id": args[0], "damaged": told(found)}); err != nil || !proceed {
					return err
				}
				kept, err := s.Repair(c.Context(), args[0])
				if err != nil {
					return err
				}
				if a.json {
					return unprinted(a.printJSON(map[string]any{"agent_id": kept.AgentID, "recovery": kept.ID}))
				}
				if kept.ID != "" {
					_, err = fmt.Fprintln(a.out, shown(kept.ID))
				}
				return unprinted(err)
			})
		},
	}
	d.flags(c)
	return a.agentFlags(c, "print JSON")
}

// told are findings in words.
func told(found []agent.Damage) []string {
	all := []string{}
	for _, one := range found {
		all = append(all, one.String())
	}
	return all
}

// outOfReach tells whether no command can reach the agents.
func outOfReach(m *manager.Manager) bool {
	return slices.ContainsFunc(agentCategories(), func(name string) bool { return refuseCategory(m, name) != nil })
}

// damage makes findings of what is damaged of agents.
func (a *app) damage(c *cobra.Command, m *manager.Manager) []tiers.Finding {
	if outOfReach(m) {
		return nil
	}
	s := agent.New(m)
	found, err := s.Verify(c.Context(), "")
	if err != nil {
		return unusable("agents", err, "run it again")
	}
	var all []tiers.Finding
	for _, d := range found {
		f := tiers.Finding{Subject: "agents", Message: d.String(), Hint: "sagestore agent repair " + shown(d.AgentID) + " takes what can be read for right; sagestore checkpoint restore goes back"}
		switch {
		case d.Orphan:
			f.Hint = "sagestore agent delete " + shown(d.AgentID) + " removes it"
		case d.Checkpoint != "":
			f.Hint = "it can't be restored: sagestore checkpoint delete " + shown(d.Checkpoint)
		}
		all = append(all, f)
	}
	if len(found) == 0 {
		n := 0
		for st, err := range s.List(c.Context(), agent.After{}) {
			if err == nil && st != nil {
				n++
			}
		}
		all = append(all, tiers.Finding{OK: true, Subject: "agents", Message: fmt.Sprintf("%d, with all their conversations and checkpoints", n)})
	}
	return all
}

// unlooked says that the records of agents were not looked at, where there are any.
func (a *app) unlooked(c *cobra.Command, m *manager.Manager) []tiers.Finding {
	if outOfReach(m) {
		return nil
	}
	for st, err := range agent.New(m).List(c.Context(), agent.After{Limit: 1}) {
		if st != nil || err != nil {
			return []tiers.Finding{{OK: true, Subject: "agents", Message: "not looked at; --deep reads all that is stored of them"}}
		}
	}
	return nil
}
