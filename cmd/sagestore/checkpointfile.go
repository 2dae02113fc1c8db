package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

func (a *app) checkpointExportCommand() *cobra.Command {
	var o owned
	c := &cobra.Command{
		Use:   "export ID [FILE]",
		Short: "Write a checkpoint as one JSON document",
		Long: `Write a checkpoint with all that it shows as one JSON document with a sum of its own,
to standard output or to FILE, which must not be there.`,
		Example: `  sagestore checkpoint export latest --agent support >support.json`,
		Args:    count(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(c, args[0]); err != nil {
				return err
			}
			return a.withAgents(c.Context(), func(s *agent.Store) error {
				cp, err := s.LoadCheckpoint(c.Context(), o.agent, args[0])
				if err != nil {
					return err
				}
				b, err := cp.Bytes()
				if err != nil {
					return err
				}
				return a.writeTo(args[1:], func(w io.Writer) error {
					_, err := w.Write(append(b, '\n'))
					return err
				})
			})
		},
	}
	o.flags(c)
	return a.agentFlags(c, "")
}

func (a *app) checkpointImportCommand() *cobra.Command {
	recreate := false
	c := &cobra.Command{
		Use:   "import FILE|-",
		Short: "Bring in a checkpoint that was exported",
		Long: `Bring in a checkpoint that checkpoint export has written, as the newest of its agent,
and print its id. The agent stays as it is: restore takes the checkpoint over. One that
is there already, the same, changes nothing; another one of that id is a conflict (4).
An agent that is not there is an error (3), unless --recreate makes it again. A damaged
file is an error (1) and nothing is stored.`,
		Example: `  sagestore checkpoint import settings.json --recreate`,
		Args:    count(1, 1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			in, name, err := a.open(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = in.Close() }() // it was read only
			b, err := io.ReadAll(io.LimitReader(in, serializer.DefaultLimit+1))
			if err == nil && len(b) > serializer.DefaultLimit {
				err = fmt.Errorf("%w: it has more than %d bytes", tiers.ErrTooLarge, serializer.DefaultLimit)
			}
			var cp *agent.Checkpoint
			if err == nil {
				cp, err = agent.DecodeCheckpoint(b)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return a.withAgents(c.Context(), func(s *agent.Store) error {
				made, err := s.ImportCheckpoint(c.Context(), cp, recreate)
				if errors.Is(err, tiers.ErrNotFound) {
					err = tiers.Hint(err, "--recreate makes the agent again")
				}
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
	c.Flags().BoolVar(&recreate, "recreate", false, "make the agent again when it is not there")
	return a.agentFlags(c, "print JSON")
}
