package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/agent"
)

func (a *app) checkpointForkCommand() *cobra.Command {
	var o owned
	c := &cobra.Command{
		Use:   "fork ID [AGENT]",
		Short: "Make another agent of a checkpoint",
		Long: `Make a new agent of what a checkpoint shows, and print its id, which is AGENT or made.
Its conversations get ids of their own, and their metadata name those they came from.
The agent that the checkpoint is of stays as it is. A checkpoint of one conversation
makes no agent. An AGENT that is there is a conflict (4).`,
		Example: `  sagestore checkpoint fork latest support-2 --agent support`,
		Args:    count(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(c, args[0]); err != nil {
				return err
			}
			id := ""
			if len(args) > 1 {
				if id = args[1]; id == "" {
					return usagef("leave it out, and one is made", "an id of an agent is not empty")
				}
			}
			return a.withAgents(c.Context(), func(s *agent.Store) error {
				made, err := s.Fork(c.Context(), o.agent, args[0], id)
				if err != nil {
					return err
				}
				if a.json {
					return unprinted(a.printJSON(made))
				}
				_, err = fmt.Fprintln(a.out, shown(made.ID))
				return unprinted(err)
			})
		},
	}
	o.flags(c)
	return a.agentFlags(c, "print the agent as JSON")
}
