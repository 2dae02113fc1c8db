package main

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/session"
)

func (a *app) eventCommand() *cobra.Command {
	return group("event", "Show the events of sessions",
		`A session that a program began with package session has a log of everything that
happened in it, in the category session.events.`,
		a.eventListCommand(), a.eventFollowCommand())
}

// eventFilter is what the flags of event list and event follow ask for.
type eventFilter struct {
	after        uint64
	last         int
	turn, method string
}

func (f *eventFilter) flags(a *app, c *cobra.Command) *cobra.Command {
	c.Flags().Uint64Var(&f.after, "after", 0, "only events after this sequence `number`")
	c.Flags().IntVar(&f.last, "last", 0, "begin with the last `number` of events")
	c.Flags().StringVar(&f.turn, "turn", "", "only those of the turn of this `id`")
	c.Flags().StringVar(&f.method, "method", "", "only those of this `method`, such as tool.call")
	c.Flags().StringVar(&a.namespace, "namespace", "", "`name` of the namespace")
	c.Flags().BoolVar(&a.json, "json", false, "print one JSON-RPC notification a line")
	return c
}

// check refuses flags that mean nothing.
func (f *eventFilter) check(c *cobra.Command) error {
	switch last := c.Flags().Changed("last"); {
	case last && f.last < 1:
		return usagef("leave it out to see all", "--last %d: it takes a number from 1", f.last)
	case last && c.Flags().Changed("after"):
		return usagef("leave one of both out", "--last and --after exclude each other")
	}
	return notEmpty(c, "turn", "method")
}

func (f *eventFilter) takes(e session.Event) bool {
	return (f.turn == "" || e.Turn == f.turn) && (f.method == "" || e.Method == f.method)
}

// begin answers the number after which the events begin that are asked for.
func (f *eventFilter) begin(ctx context.Context, s *session.Store, id string) (uint64, error) {
	if f.last == 0 {
		return f.after, nil
	}
	info, err := s.Info(ctx, id)
	if err != nil || info.Events <= uint64(f.last) { //nolint:gosec // above 0
		return 0, err
	}
	if f.turn == "" && f.method == "" {
		return info.Events - uint64(f.last), nil //nolint:gosec // above 0
	}
	var kept []uint64 // of the last ones that are taken
	for e, err := range s.Events(ctx, id, 0) {
		if err != nil && e.Seq == 0 {
			return 0, err
		}
		if err == nil && f.takes(e) {
			if kept = append(kept, e.Seq); len(kept) > f.last {
				kept = kept[1:]
			}
		}
	}
	if len(kept) == 0 {
		return info.Events, nil
	}
	return kept[0] - 1, nil
}

func (a *app) eventListCommand() *cobra.Command {
	var f eventFilter
	return f.flags(a, &cobra.Command{
		Use:   "list SESSION",
		Short: "List the events of a session",
		Long: `List the events of a session in the order in which they were appended: number,
time, method, turn and the beginning of what they say. With --json each line is a
JSON-RPC notification, whole. An event that can't be read is reported, the rest is
listed, and the command ends with 1.`,
		Example: `  sagestore event list s-1 --last 20
  sagestore event list s-1 --method tool.call --json`,
		Args: count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(c); err != nil {
				return err
			}
			return a.withEvents(c.Context(), func(s *session.Store) error {
				after, err := f.begin(c.Context(), s, args[0])
				if err != nil {
					return err
				}
				return a.printEvents(s.Events(c.Context(), args[0], after), f)
			})
		},
	})
}

func (a *app) eventFollowCommand() *cobra.Command {
	var f eventFilter
	return f.flags(a, &cobra.Command{
		Use:   "follow SESSION",
		Short: "Show the events of a session as they come",
		Long: `Show the events of a session, and then those that programs append, as they come,
until the session ends. An interruption ends the command as well, with 0.`,
		Example: `  sagestore event follow s-1
  sagestore event follow s-1 --last 1 --json`,
		Args: count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(c); err != nil {
				return err
			}
			return a.withEvents(c.Context(), func(s *session.Store) error {
				after, err := f.begin(c.Context(), s, args[0])
				if err == nil {
					err = a.printEvents(s.Follow(c.Context(), args[0], after), f)
				}
				if c.Context().Err() != nil && errors.Is(err, context.Canceled) {
					return nil
				}
				return err
			})
		},
	})
}

// withEvents opens the store for fn, unless nobody could share its logs.
func (a *app) withEvents(ctx context.Context, fn func(s *session.Store) error) error {
	return a.with(ctx, func(m *manager.Manager) error {
		for _, name := range []string{"session.events", "session.state"} {
			if err := refuseCategory(m, name); err != nil {
				return err
			}
		}
		return fn(session.New(m))
	})
}

func refuseCategory(m *manager.Manager, name string) error {
	p, err := policyOf(m, name)
	if err != nil {
		return err
	}
	return refuseMemory(m, p.Tier, "the category "+name)
}

// printEvents prints events, and reports those that can't be read.
func (a *app) printEvents(events iter.Seq2[session.Event, error], f eventFilter) error {
	bad := false
	for e, err := range events {
		switch {
		case err != nil && e.Seq == 0:
			return err
		case err != nil:
			a.report(err)
			bad = true
		case f.takes(e):
			if err := a.printEvent(e); err != nil {
				return err
			}
		}
	}
	if bad {
		return silent(exitFailed)
	}
	return nil
}

func (a *app) printEvent(e session.Event) error {
	if a.json {
		text, err := e.MarshalJSON()
		if err == nil {
			_, err = a.out.Write(append(text, '\n'))
		}
		return err
	}
	return a.printText(saysOf(e),
		cell{text: strconv.FormatUint(e.Seq, 10), width: 6, right: true},
		cell{text: cmp.Or(instant(e.Time), instant(e.Received)), width: 20, spare: 2},
		cell{text: shown(e.Method), width: 18},
		cell{text: shown(cmp.Or(e.Turn, "-")), width: 8, spare: 1})
}
