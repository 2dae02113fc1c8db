package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/internal/transfer"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/session"
)

func (a *app) exportCommand() *cobra.Command {
	return group("export", "Write agents, conversations and sessions for other places",
		`What is written is JSON Lines, which sagestore import brings in again, or Markdown for
people.`,
		a.exportAgentCommand(), a.exportConversationCommand(), a.exportSessionCommand())
}

// exportFlags adds the flags of every export; markdown answers what was asked for.
func (a *app) exportFlags(c *cobra.Command, format *string) *cobra.Command {
	c.Flags().StringVar(format, "format", "jsonl", "`what` to write: jsonl or markdown")
	c.Flags().StringVar(&a.namespace, "namespace", "", "`name` of the namespace")
	return c
}

func isMarkdown(format string) (bool, error) {
	switch format {
	case "jsonl":
		return false, nil
	case "markdown":
		return true, nil
	}
	return false, usagef("it takes jsonl or markdown", "--format %q: there is no such format", format)
}

// writeTo calls fn with a new file, or with standard output.
func (a *app) writeTo(path []string, fn func(w io.Writer) error) (err error) {
	if len(path) == 0 {
		return fn(a.out)
	}
	f, err := os.OpenFile(path[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return usagef("name another file", "%w", err)
	}
	defer func() { err = errors.Join(err, f.Sync(), f.Close()) }()
	return fn(f)
}

// export writes lines, and prints how many of what where they are not what it prints.
func (a *app) export(path []string, fn func(w io.Writer) (transfer.Written, error)) error {
	var done transfer.Written
	err := a.writeTo(path, func(w io.Writer) (err error) {
		done, err = fn(w)
		return err
	})
	if len(path) == 0 || done == (transfer.Written{}) {
		return err
	}
	t := table{columns: []column{{title: "", shrink: true}, {title: "WRITTEN", right: true}}}
	for _, row := range []struct {
		name string
		n    int
	}{
		{"agents", done.Agents},
		{"conversations", done.Conversations},
		{"messages", done.Messages},
		{"checkpoints", done.Checkpoints},
		{"fields", done.Fields},
		{"sessions", done.Sessions},
		{"events", done.Events},
	} {
		if row.n > 0 {
			t.add(row.name, fmt.Sprint(row.n))
		}
	}
	return errors.Join(err, a.printTable(t))
}

func (a *app) exportAgentCommand() *cobra.Command {
	var format string
	var bare bool
	c := &cobra.Command{
		Use:   "agent ID [FILE]",
		Short: "Write an agent with all that belongs to it",
		Long: `Write an agent with its fields, its conversations and their messages, and with its
checkpoints, to standard output or to FILE, which must not be there. ID may also be the
key of fields that no agent has. Markdown leaves checkpoints out.`,
		Example: `  sagestore export agent support >support.jsonl
  sagestore export agent support --format markdown`,
		Args: count(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			markdown, err := isMarkdown(format)
			if err != nil {
				return err
			}
			return a.with(c.Context(), func(m *manager.Manager) error {
				if err := reachAgents(m); err != nil {
					return err
				}
				return a.exportAgent(c.Context(), m, args, markdown, !bare)
			})
		},
	}
	c.Flags().BoolVar(&bare, "no-checkpoints", false, "leave checkpoints out")
	return a.exportFlags(c, &format)
}

func (a *app) exportAgent(ctx context.Context, m *manager.Manager, args []string, markdown, checkpoints bool) error {
	s, id := agent.New(m), args[0]
	if markdown {
		if _, err := s.Load(ctx, id); err != nil {
			return err // before there is a file
		}
		return a.writeTo(args[1:], func(w io.Writer) error { return transfer.AgentMarkdown(ctx, s, id, w) })
	}
	if err := transfer.Exportable(ctx, s, id); err != nil {
		return err
	}
	if refuseCategory(m, fieldsCategory) != nil {
		_, _ = fmt.Fprintf(a.err, "sagestore: fields are left out: the category %s lives in the memory of other programs\n", fieldsCategory)
	}
	return a.export(args[1:], func(w io.Writer) (transfer.Written, error) {
		return transfer.ExportAgent(ctx, s, id, w, checkpoints)
	})
}

func (a *app) exportConversationCommand() *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "conversation ID [FILE]",
		Short: "Write a conversation with its messages",
		Long: `Write a conversation with its messages to standard output or to FILE, which must not
be there.`,
		Example: `  sagestore export conversation c-1 --format markdown`,
		Args:    count(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			markdown, err := isMarkdown(format)
			if err != nil {
				return err
			}
			return a.withAgents(c.Context(), func(s *agent.Store) error {
				if _, err := s.LoadConversation(c.Context(), args[0], agent.Page{Limit: 1}); err != nil {
					return err // before there is a file
				}
				if markdown {
					return a.writeTo(args[1:], func(w io.Writer) error { return transfer.ConversationMarkdown(c.Context(), s, args[0], w) })
				}
				return a.export(args[1:], func(w io.Writer) (transfer.Written, error) {
					return transfer.ExportConversation(c.Context(), s, args[0], w)
				})
			})
		},
	}
	return a.exportFlags(c, &format)
}

func (a *app) exportSessionCommand() *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "session ID [FILE]",
		Short: "Write a session",
		Long: `Write a session with its user, context, preferences and history, as far as they have
not expired, and with its events, to standard output or to FILE, which must not be
there. Markdown has the events only; so has session export, for other programs.`,
		Example: `  sagestore export session s-1 --format markdown`,
		Args:    count(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			markdown, err := isMarkdown(format)
			if err != nil {
				return err
			}
			return a.withEvents(c.Context(), func(s *session.Store) error { return a.exportSession(c.Context(), s, args, markdown) })
		},
	}
	return a.exportFlags(c, &format)
}

func (a *app) exportSession(ctx context.Context, s *session.Store, args []string, markdown bool) error {
	if _, err := s.Info(ctx, args[0]); err != nil {
		return err // before there is a file
	}
	if markdown {
		return a.writeTo(args[1:], func(w io.Writer) error { return transfer.SessionMarkdown(ctx, s, args[0], w) })
	}
	return a.export(args[1:], func(w io.Writer) (transfer.Written, error) { return transfer.ExportSession(ctx, s, args[0], w) })
}
