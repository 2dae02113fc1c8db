package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

func (a *app) sessionCommand() *cobra.Command {
	return group("session", "Show, end, delete, export and import sessions",
		`A session is named by the first segment of the keys that belong to it: s-1/000001
belongs to s-1. The first save starts it.`,
		a.sessionListCommand(), a.sessionShowCommand(), a.sessionEndCommand(), a.sessionDeleteCommand(), a.sessionExportCommand(), a.sessionImportCommand())
}

func (a *app) sessionListCommand() *cobra.Command {
	owner := ""
	c := &cobra.Command{
		Use:   "list",
		Short: "List the sessions",
		Long: `List the sessions that go on: id, start, last use (to within a minute), and how
many entries they hold in tiers that outlive a process; and those that have a log of
events, also when they have ended: how many events, the end, and the agent that they belong
to. With --agent only those of that agent.`,
		Example: `  sagestore session list
  sagestore session list --agent support --json`,
		Args: count(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := notEmpty(c, "agent"); err != nil {
				return err
			}
			return a.withSessions(c.Context(), func(m *manager.Manager) error {
				all, damaged, err := a.sessionsThere(c.Context(), m)
				if err != nil {
					return err
				}
				if owner != "" {
					all = slices.DeleteFunc(all, func(s sessionThere) bool { return s.Agent != owner })
					if len(all) == 0 {
						_, _ = fmt.Fprintf(a.err, "sagestore: no session belongs to an agent %q\n", owner)
					}
				}
				if a.json {
					err = a.printJSON(all)
				} else {
					err = a.printSessions(all)
				}
				if err == nil && damaged {
					err = silent(exitFailed)
				}
				return err
			})
		},
	}
	c.Flags().StringVar(&owner, "agent", "", "only those that belong to the agent of this `id`")
	c.Flags().StringVar(&a.namespace, "namespace", "", "`name` of the namespace")
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return c
}

func (a *app) sessionEndCommand() *cobra.Command {
	var d destruction
	c := &cobra.Command{
		Use:   "end ID",
		Short: "End a session and remove what belongs to it",
		Long: `End a session: its entries in every category whose TTL is "session" are removed,
and no more can be saved into it. Its log, where it has one, ends with a
session.stop. Preferences and all else stay. Running apps drop theirs within
100 ms. It asks before, unless --yes is given.`,
		Example: `  sagestore session end s-1 --dry-run
  sagestore session end s-1 --yes`,
		Args: count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if args[0] == "" {
				return usagef("it is the first segment of the session's keys", "the ID is empty")
			}
			return a.withSessions(c.Context(), func(m *manager.Manager) error {
				info, found, err := findSession(c.Context(), m, args[0])
				if err != nil {
					return err
				}
				log, err := goingLog(c.Context(), m, args[0])
				if err != nil {
					return err
				}
				if found = found || log != nil; !found {
					_, _ = fmt.Fprintf(a.err, "sagestore: no session %q goes on; only what may be left of it is removed\n", args[0])
				}
				what := fmt.Sprintf("session %q: %d of its entries are removed here, and what running apps hold of it in memory", args[0], info.Entries)
				of := facts{"session_id": args[0], "goes_on": found, "entries": info.Entries}
				if log != nil {
					what += fmt.Sprintf("; its log of %s gets a session.stop", many(log.Events, "event"))
					of["events"], of["stops_log"] = log.Events, true
				}
				if proceed, err := d.may(c.Context(), a, "end "+what, of); err != nil || !proceed {
					return err
				}
				if err := endSession(c.Context(), m, args[0]); err != nil || !a.json {
					return err
				}
				return unprinted(a.printJSON(map[string]any{"session_id": args[0], "went_on": found}))
			})
		},
	}
	c.Flags().StringVar(&a.namespace, "namespace", "", "`name` of the namespace")
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	d.flags(c)
	return c
}

// withSessions opens the store for fn, unless nobody could share its sessions.
func (a *app) withSessions(ctx context.Context, fn func(m *manager.Manager) error) error {
	return a.with(ctx, func(m *manager.Manager) error {
		if err := refuseMemory(m, "database", "the list of sessions"); err != nil {
			return err
		}
		return fn(m)
	})
}

// goingLog answers the log of a session that goes on, or nil where it has none.
func goingLog(ctx context.Context, m *manager.Manager, id string) (*session.Info, error) {
	info, err := session.New(m).Info(ctx, id)
	switch {
	case errors.Is(err, tiers.ErrNotFound) || err == nil && !info.EndedAt.IsZero():
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &info, nil
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
