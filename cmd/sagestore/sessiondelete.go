package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

func (a *app) sessionDeleteCommand() *cobra.Command {
	var d destruction
	c := &cobra.Command{
		Use:   "delete ID",
		Short: "Delete a session with its log",
		Long: `Delete a session that a program began with package session, whether it has ended or
goes on: its log, its context, its history, and its entries in every category whose
TTL is "session". Forks of it and the preferences of its user stay. It asks before,
unless --yes is given. A session that is not there is no error; one that keys have begun
and no program has a log of is for session end.`,
		Example: `  sagestore session delete s-1 --dry-run
  sagestore session delete s-1 --yes`,
		Args: count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withEvents(c.Context(), func(s *session.Store) error {
				info, err := s.Info(c.Context(), args[0])
				if err != nil && !errors.Is(err, tiers.ErrNotFound) && !errors.Is(err, tiers.ErrCorrupt) && !errors.Is(err, tiers.ErrType) {
					return err
				}
				if errors.Is(err, tiers.ErrNotFound) {
					if told, err := d.none(a, "session", args[0]); told {
						return err
					}
				}
				what := fmt.Sprintf("delete session %q with %s", args[0], many(info.Events, "event"))
				of := facts{"session_id": args[0], "events": info.Events, "agent_id": info.AgentID, "ended": !info.EndedAt.IsZero()}
				if err == nil && info.EndedAt.IsZero() {
					what += ", which goes on"
				}
				if proceed, err := d.may(c.Context(), a, what, of); err != nil || !proceed {
					return err
				}
				existed, err := s.Delete(c.Context(), args[0])
				return a.deleted(existed, err, "session", args[0])
			})
		},
	}
	c.Flags().StringVar(&a.namespace, "namespace", "", "`name` of the namespace")
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	d.flags(c)
	return c
}
