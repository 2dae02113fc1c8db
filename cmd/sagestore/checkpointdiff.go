package main

import (
	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/agent"
)

func (a *app) checkpointDiffCommand() *cobra.Command {
	var o owned
	c := &cobra.Command{
		Use:   "diff ID [ID]",
		Short: "Say what has changed since a checkpoint",
		Long: `Say what differs between what a checkpoint shows and the present, or another checkpoint:
a line for each, with + for what was added, - for what was removed and ~ for what was
changed. Nothing is printed when nothing differs.`,
		Example: `  sagestore checkpoint diff latest --agent support
  sagestore checkpoint diff latest latest --agent support --json`,
		Args: count(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(c, args...); err != nil {
				return err
			}
			return a.withAgents(c.Context(), func(s *agent.Store) error {
				to := ""
				if len(args) > 1 {
					to = args[1]
				}
				all, err := s.Diff(c.Context(), o.agent, args[0], to)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(all)
				}
				for _, d := range all {
					if err := a.printCut(d.String()); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	o.flags(c)
	return a.agentFlags(c, "print JSON")
}
