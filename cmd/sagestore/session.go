package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/manager"
)

func (a *app) sessionCommand() *cobra.Command {
	return group("session", "Show and end sessions", a.sessionListCommand(), a.sessionEndCommand())
}

func (a *app) sessionListCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "list",
		Short: "List the sessions that go on",
		Long: `List the sessions that go on: id, start, last use (to within a minute), and how
many entries they hold in tiers that outlive a process.`,
		Example: `  sagestore session list
  sagestore session list --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.with(c.Context(), func(m *manager.Manager) error {
				all := []manager.SessionInfo{}
				for s, err := range m.Sessions(c.Context()) {
					if err != nil {
						return err
					}
					all = append(all, s)
				}
				if a.json {
					return a.printJSON(all)
				}
				w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
				_, _ = fmt.Fprintln(w, "SESSION\tSTARTED\tLAST USED\tENTRIES")
				for _, s := range all {
					_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d\n", s.ID, s.Started.UTC().Format(time.DateTime), s.Seen.UTC().Format(time.DateTime), s.Entries)
				}
				return w.Flush()
			})
		},
	}
	c.Flags().StringVar(&a.namespace, "namespace", "", "`name` of the namespace")
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return c
}

func (a *app) sessionEndCommand() *cobra.Command {
	var dry, yes bool
	c := &cobra.Command{
		Use:   "end ID",
		Short: "End a session and remove what belongs to it",
		Long: `End a session: its entries in every category whose TTL is "session" are removed,
and no more can be saved into it. Preferences and all else stay. Running apps
drop theirs within 100 ms. It asks before, unless --yes is given.`,
		Example: `  sagestore session end s-1 --dry-run
  sagestore session end s-1 --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.with(c.Context(), func(m *manager.Manager) error {
				info, found, err := findSession(c.Context(), m, args[0])
				if err != nil {
					return err
				}
				if !found {
					_, _ = fmt.Fprintf(a.err, "sagestore: no session %q goes on; ending it all the same keeps anyone from saving into it\n", args[0])
				}
				what := fmt.Sprintf("session %q with %d entries in tiers that outlive a process, and what running apps hold of it in memory", args[0], info.Entries)
				if dry {
					_, err := fmt.Fprintln(a.out, "would end", what)
					return err
				}
				if err := a.confirm("end "+what, yes); err != nil {
					return err
				}
				return m.EndSession(c.Context(), args[0])
			})
		},
	}
	c.Flags().StringVar(&a.namespace, "namespace", "", "`name` of the namespace")
	c.Flags().BoolVar(&dry, "dry-run", false, "only say what would be removed")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}

func findSession(ctx context.Context, m *manager.Manager, id string) (info manager.SessionInfo, found bool, err error) {
	for s, err := range m.Sessions(ctx) {
		if err != nil {
			return info, false, err
		}
		if s.ID == id {
			return s, true, nil
		}
	}
	return manager.SessionInfo{ID: id}, false, nil
}
