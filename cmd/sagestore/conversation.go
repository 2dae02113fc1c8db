package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/internal/oneline"
	"github.com/sagestore/sagestore/tiers"
)

func (a *app) conversationCommand() *cobra.Command {
	return group("conversation", "Show, title, archive and delete conversations",
		`A conversation is what was said between an agent and others. Its id is its own among
all agents.`,
		a.conversationListCommand(), a.conversationShowCommand(), a.conversationTitleCommand(), a.conversationArchiveCommand(), a.conversationDeleteCommand())
}

func (a *app) conversationListCommand() *cobra.Command {
	var p page
	c := &cobra.Command{
		Use:   "list [AGENT]",
		Short: "List the conversations of an agent, or of all",
		Long: `List the conversations of an agent, that with the newest message first, or of all
agents, one agent after the other. One that can't be read is reported, the rest is
listed, and the command ends with 1.`,
		Example: `  sagestore conversation list support --limit 20
  sagestore conversation list --json`,
		Args: count(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			from, err := p.from()
			if err == nil && len(args) == 0 && (from.ID != "" || from.Limit != 0) {
				err = usagef("usage: "+c.UseLine(), "--after and --limit are for the list of one agent")
			}
			if err != nil {
				return err
			}
			return a.withAgents(c.Context(), func(s *agent.Store) error {
				t := table{columns: []column{
					{title: "CONVERSATION"}, {title: "AGENT", shrink: true, spare: 2}, {title: "TITLE", shrink: true, least: 16}, {title: "MESSAGES", right: true}, {title: "LAST (UTC)", spare: 1}, {title: ""},
				}}
				all := allConversations(c.Context(), s)
				if len(args) > 0 {
					all = s.Conversations(c.Context(), args[0], from)
				}
				return listed(a, all, t, func(v *agent.Conversation) bool { return v == nil }, func(v *agent.Conversation) []string {
					archived := ""
					if v.Archived {
						archived = "archived"
					}
					return []string{shown(v.ID), shown(v.AgentID), oneline.Of(v.Title), fmt.Sprint(v.Count), instant(v.LastMessage), archived}
				})
			})
		},
	}
	p.flags(c)
	return a.agentFlags(c, "print one conversation a line, without messages")
}

// allConversations yields the conversations of all agents.
func allConversations(ctx context.Context, s *agent.Store) iter.Seq2[*agent.Conversation, error] {
	return func(yield func(*agent.Conversation, error) bool) {
		for st, err := range s.List(ctx, agent.After{}) {
			if st == nil {
				yield(nil, err)
				return
			}
			for c, err := range s.Conversations(ctx, st.ID, agent.After{}) {
				if !yield(c, err) || c == nil {
					return
				}
			}
		}
	}
}

func (a *app) conversationShowCommand() *cobra.Command {
	var last int
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show a conversation with its messages",
		Long: `Show a conversation: its head and its messages in order, a line each; with --json
whole. Export writes it for reading, or for another store.`,
		Example: `  sagestore conversation show c-1 --last 20
  sagestore conversation show c-1 --json`,
		Args: count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("last") && last < 1 {
				return usagef("leave it out to see all", "--last %d: it takes a number from 1", last)
			}
			return a.withAgents(c.Context(), func(s *agent.Store) error {
				conv, err := s.LoadConversation(c.Context(), args[0], agent.Page{Limit: last, Last: last > 0, WholeToolCalls: last > 0})
				if conv == nil {
					return err
				}
				if err != nil {
					a.report(err)
					err = silent(exitFailed)
				}
				if a.json {
					return errors.Join(a.printJSON(conv), err)
				}
				return errors.Join(a.printConversation(conv), err)
			})
		},
	}
	c.Flags().IntVar(&last, "last", 0, "only the last `number` of messages, and the tool calls that they are results of")
	return a.agentFlags(c, "print JSON")
}

func (a *app) printConversation(c *agent.Conversation) error {
	p := properties{width: a.width()}
	p.line("conversation", shown(c.ID))
	p.line("agent", shown(c.AgentID))
	p.line("title", oneline.Of(c.Title))
	for i, tag := range c.Tags {
		name := "tags"
		if i > 0 {
			name = ""
		}
		p.line(name, oneline.Of(tag))
	}
	p.words("metadata", c.Metadata)
	p.line("created", instant(c.Created))
	p.line("last message", instant(c.LastMessage))
	if c.Archived {
		p.line("archived", "yes")
	}
	p.line("messages", fmt.Sprint(c.Count))
	if _, err := a.out.Write(p.Bytes()); err != nil {
		return err
	}
	for _, m := range c.Messages {
		says := oneline.Of(m.Content)
		for _, call := range m.ToolCalls {
			says = oneline.Of(fmt.Sprintf("%s [%s %s: %s]", says, call.Name, call.Arguments, call.Status))
		}
		err := a.printText(says,
			cell{text: strconv.FormatUint(m.Seq, 10), width: 6, right: true},
			cell{text: instant(m.At), width: 20, spare: 1},
			cell{text: shown(string(m.Role)), width: 9})
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *app) conversationTitleCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "title ID [TITLE]",
		Short: "Give a conversation a title",
		Long: `Give a conversation a title. Without TITLE it gets one from the first message of a
user, unless it has one. The title that it has then is printed.`,
		Example: `  sagestore conversation title c-1 'Order 4711'
  sagestore conversation title c-1`,
		Args: count(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withAgents(c.Context(), func(s *agent.Store) (err error) {
				title := ""
				if len(args) > 1 {
					title = args[1]
					err = s.ModifyConversation(c.Context(), args[0], func(conv *agent.Conversation) error { conv.Title = title; return nil })
				} else {
					title, err = s.AutoTitle(c.Context(), args[0])
				}
				if err != nil {
					return err
				}
				if a.json {
					return unprinted(a.printJSON(map[string]string{"conversation_id": args[0], "title": title}))
				}
				_, err = fmt.Fprintln(a.out, cmp.Or(oneline.Of(title), "-"))
				return unprinted(err)
			})
		},
	}
	return a.agentFlags(c, "print JSON")
}

func (a *app) conversationArchiveCommand() *cobra.Command {
	var undo bool
	c := &cobra.Command{
		Use:   "archive ID",
		Short: "Archive a conversation, or take it back",
		Long: `Archive a conversation: it is no longer among the active ones of its agent. With
--undo it is again.`,
		Example: `  sagestore conversation archive c-1
  sagestore conversation archive c-1 --undo`,
		Args: count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withAgents(c.Context(), func(s *agent.Store) error { return s.Archive(c.Context(), args[0], !undo) })
		},
	}
	c.Flags().BoolVar(&undo, "undo", false, "make it active again")
	return a.agentFlags(c, "")
}

func (a *app) conversationDeleteCommand() *cobra.Command {
	var d destruction
	c := &cobra.Command{
		Use:   "delete ID",
		Short: "Delete a conversation with its messages",
		Long: `Delete a conversation with its messages. Checkpoints that show it still restore it.
It asks before, unless --yes is given. One that is not there is no error.`,
		Example: `  sagestore conversation delete c-1 --dry-run
  sagestore conversation delete c-1 --yes`,
		Args: count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withAgents(c.Context(), func(s *agent.Store) error {
				n := 0
				conv, err := s.LoadConversation(c.Context(), args[0], agent.Page{Limit: 1})
				if err == nil {
					n = conv.Count
				} else if errors.Is(err, tiers.ErrNotFound) {
					if told, err := d.none(a, "conversation", args[0]); told {
						return err
					}
				}
				if proceed, err := d.may(c.Context(), a, fmt.Sprintf("delete conversation %q with %s", args[0], many(n, "message")), facts{"conversation_id": args[0], "messages": n}); err != nil || !proceed {
					return err
				}
				existed, err := s.DeleteConversation(c.Context(), args[0])
				return a.deleted(existed, err, "conversation", args[0])
			})
		},
	}
	d.flags(c)
	return a.agentFlags(c, "print JSON")
}
