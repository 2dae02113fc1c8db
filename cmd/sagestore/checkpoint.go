package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/internal/oneline"
	"github.com/sagestore/sagestore/tiers"
)

func (a *app) checkpointCommand() *cobra.Command {
	return group("checkpoint", "Make, compare, restore and move checkpoints",
		`A checkpoint shows an agent with all its conversations, or one conversation, as it was
at one instant. In the place of an ID, latest is the newest of the agent that --agent
names.`,
		a.checkpointListCommand(), a.checkpointShowCommand(), a.checkpointCreateCommand(), a.checkpointRestoreCommand(), a.checkpointDiffCommand(), a.checkpointForkCommand(),
		a.checkpointTagCommand(), a.checkpointDeleteCommand(), a.checkpointPruneCommand(), a.checkpointExportCommand(), a.checkpointImportCommand())
}

// latestCheckpoint is the word for the newest one.
const latestCheckpoint = "latest"

// owned is the agent that a checkpoint is looked for at.
type owned struct{ agent string }

func (o *owned) flags(c *cobra.Command) {
	c.Flags().StringVar(&o.agent, "agent", "", "of the agent of this `id`; needed for latest only")
}

func (o *owned) check(c *cobra.Command, ids ...string) error {
	if err := notEmpty(c, "agent"); err != nil {
		return err
	}
	if o.agent == "" && slices.Contains(ids, latestCheckpoint) {
		return usagef("name the agent with --agent", "latest is the newest checkpoint of an agent")
	}
	return nil
}

func (a *app) checkpointListCommand() *cobra.Command {
	var p page
	c := &cobra.Command{
		Use:   "list AGENT",
		Short: "List the checkpoints of an agent",
		Long: `List the checkpoints of an agent, the last made first: number, time, why it was made,
messages, bytes of what it shows and what it takes, and, where there is room, a bar as
long as what it shows is large. One that can't be read is reported, the rest is listed,
and the command ends with 1.`,
		Example: `  sagestore checkpoint list support
  sagestore checkpoint list support --limit 1 --json`,
		Args: count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			from, err := p.from()
			if err != nil {
				return err
			}
			return a.withAgents(c.Context(), func(s *agent.Store) error {
				t := table{columns: []column{
					{title: "CHECKPOINT"},
					{title: "NO", right: true},
					{title: "MADE (UTC)"},
					{title: "KIND", spare: 1},
					{title: "NAME", shrink: true},
					{title: "STEP", right: true, spare: 2},
					{title: "MESSAGES", right: true},
					{title: "SIZE", right: true},
					{title: "STORED", right: true, spare: 3},
					{title: ""},
					{title: "", bar: true},
				}}
				return listed(a, s.Checkpoints(c.Context(), args[0], from), t, func(v agent.CheckpointInfo) bool { return v.Number == 0 }, func(v agent.CheckpointInfo) []string {
					tagged := ""
					if v.Keep {
						tagged = "tagged"
					}
					return []string{
						shown(v.ID), fmt.Sprint(v.Number), instant(v.Created), shown(string(v.Kind)), oneline.Of(v.Name), fmt.Sprint(v.Iteration), fmt.Sprint(v.Messages),
						sized(v.Size), sized(v.Stored), tagged, strconv.FormatInt(v.Size, 10),
					}
				})
			})
		},
	}
	p.flags(c)
	return a.agentFlags(c, "print one checkpoint a line, without what it shows")
}

func (a *app) checkpointShowCommand() *cobra.Command {
	var o owned
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show a checkpoint",
		Long: `Show a checkpoint, and with --json what it shows as well. Its sum is checked: one that
is damaged is an error (1).`,
		Example: `  sagestore checkpoint show latest --agent support`,
		Args:    count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(c, args...); err != nil {
				return err
			}
			return a.withAgents(c.Context(), func(s *agent.Store) error {
				cp, err := s.LoadCheckpoint(c.Context(), o.agent, args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(cp)
				}
				return a.printCheckpoint(cp.CheckpointInfo, len(cp.Conversations))
			})
		},
	}
	o.flags(c)
	return a.agentFlags(c, "print JSON, with what it shows")
}

// printCheckpoint prints what a checkpoint is; conversations below 0 is unknown.
func (a *app) printCheckpoint(v agent.CheckpointInfo, conversations int) error {
	p := properties{width: a.width()}
	p.line("checkpoint", shown(v.ID))
	p.line("agent", shown(v.AgentID))
	p.line("conversation", shown(v.Conversation))
	p.line("number", fmt.Sprint(v.Number))
	p.line("kind", shown(string(v.Kind)))
	p.line("name", oneline.Of(v.Name))
	p.line("description", oneline.Of(v.Description))
	p.line("iteration", fmt.Sprint(v.Iteration))
	if v.Keep {
		p.line("tagged", "yes")
	}
	p.words("metadata", v.Metadata)
	if v.Doubtful {
		p.line("doubtful", "yes, it shows what was found damaged")
	}
	p.line("made", instant(v.Created))
	p.line("sha256", v.SHA256)
	if conversations >= 0 {
		p.line("conversations", fmt.Sprint(conversations))
	}
	p.line("messages", fmt.Sprint(v.Messages))
	p.line("size", sized(v.Size)+", of which it takes "+sized(v.Stored))
	_, err := a.out.Write(p.Bytes())
	return err
}

func (a *app) checkpointCreateCommand() *cobra.Command {
	var in agent.CheckpointInfo
	var meta []string
	c := &cobra.Command{
		Use:   "create AGENT",
		Short: "Make a checkpoint of an agent",
		Long: `Make a checkpoint of an agent with all its conversations, or of one of them, and print
its id. All that it shows is read before: where it was damaged, nothing is stored, and the
error (1) names the conversation and the message. Afterwards, what is more than the maximum of the configuration is removed, the
oldest automatic ones first, but never a tagged one.`,
		Example: `  sagestore checkpoint create support --name 'Before the move' --tag`,
		Args:    count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := notEmpty(c, "id", "conversation"); err != nil {
				return err
			}
			if in.Iteration < 0 {
				return usagef("", "--iteration %d: it takes a number from 0", in.Iteration)
			}
			for _, word := range meta {
				name, value, ok := strings.Cut(word, "=")
				if !ok || name == "" {
					return usagef("write --meta NAME=VALUE", "--meta %q has no name and value", word)
				}
				if in.Metadata == nil {
					in.Metadata = map[string]string{}
				}
				in.Metadata[name] = value
			}
			in.AgentID = args[0]
			return a.withAgents(c.Context(), func(s *agent.Store) error {
				made, err := s.CheckpointVerified(c.Context(), in)
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
	c.Flags().StringVar(&in.ID, "id", "", "its `id`; made when it is left out")
	c.Flags().StringVar(&in.Conversation, "conversation", "", "only the conversation of this `id`")
	c.Flags().StringVar(&in.Name, "name", "", "its `name`")
	c.Flags().StringVar(&in.Description, "description", "", "its `description`")
	c.Flags().IntVar(&in.Iteration, "iteration", 0, "`number` of the iteration")
	c.Flags().StringArrayVar(&meta, "meta", nil, "`NAME=VALUE` of its metadata; may be repeated")
	c.Flags().BoolVar(&in.Keep, "tag", false, "tag it, so that no clean-up removes it")
	return a.agentFlags(c, "print JSON")
}

func (a *app) checkpointRestoreCommand() *cobra.Command {
	var o owned
	var d destruction
	var r agent.RestoreOptions
	c := &cobra.Command{
		Use:   "restore ID",
		Short: "Make an agent what a checkpoint shows",
		Long: `Make an agent, or a conversation when that is all it covers, what a checkpoint shows,
in one transaction. Conversations that were begun since are gone, unless --keep-newer
is given. The present is kept in a recovery checkpoint, whose id is printed and whose
restore undoes this one. It asks before, unless --yes is given. A damaged checkpoint is
an error (1) and changes nothing.`,
		Example: `  sagestore checkpoint restore latest --agent support --dry-run
  sagestore checkpoint restore latest --agent support --yes`,
		Args: count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(c, args...); err != nil {
				return err
			}
			return a.withAgents(c.Context(), func(s *agent.Store) error {
				cp, err := s.LoadCheckpoint(c.Context(), o.agent, args[0])
				if err != nil && !r.OrOlder {
					if errors.Is(err, tiers.ErrCorrupt) {
						err = damagedCheckpoint(c.Context(), s, o.agent, args[0], err)
					}
					return err
				}
				what, of := fmt.Sprintf("restore checkpoint %q", args[0]), facts{"checkpoint_id": args[0]}
				if err == nil {
					what = fmt.Sprintf("make agent %q what it was at %s: %s with %s", cp.AgentID, instant(cp.Created), many(len(cp.Conversations), "conversation"), many(cp.Messages, "message"))
					of = facts{"checkpoint_id": cp.ID, "agent_id": cp.AgentID, "conversation": cp.Conversation, "created": cp.Created, "conversations": len(cp.Conversations), "messages": cp.Messages}
					if cp.Conversation != "" {
						what = fmt.Sprintf("make conversation %q what it was at %s: %s", cp.Conversation, instant(cp.Created), many(cp.Messages, "message"))
					}
				}
				if proceed, err := d.may(c.Context(), a, what, of); err != nil || !proceed {
					return err
				}
				before, err := s.Restore(c.Context(), o.agent, args[0], r)
				if err != nil {
					return err
				}
				if a.json {
					return unprinted(a.printJSON(map[string]any{"agent_id": before.AgentID, "recovery": before.ID}))
				}
				if before.ID != "" {
					_, _ = fmt.Fprintf(a.err, "sagestore: this undoes it: sagestore checkpoint restore %s\n", shown(before.ID))
					_, err = fmt.Fprintln(a.out, shown(before.ID))
				}
				return unprinted(err)
			})
		},
	}
	c.Flags().BoolVar(&r.KeepNewer, "keep-newer", false, "conversations that were begun since stay")
	c.Flags().BoolVar(&r.OrOlder, "or-older", false, "when it is damaged, take the next older sound one")
	c.Flags().BoolVar(&r.NoRecovery, "no-recovery", false, "do not keep the present in a checkpoint")
	o.flags(c)
	d.flags(c)
	return a.agentFlags(c, "print JSON")
}

func (a *app) checkpointTagCommand() *cobra.Command {
	var o owned
	var remove bool
	c := &cobra.Command{
		Use:   "tag ID",
		Short: "Tag a checkpoint, so that no clean-up removes it",
		Long: `Tag a checkpoint, so that no clean-up removes it, or take the tag away. A tagged one
does not count for the maximum of the configuration.`,
		Example: `  sagestore checkpoint tag latest --agent support
  sagestore checkpoint tag latest --agent support --remove`,
		Args: count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(c, args...); err != nil {
				return err
			}
			return a.withAgents(c.Context(), func(s *agent.Store) error {
				return s.KeepCheckpoint(c.Context(), o.agent, args[0], !remove)
			})
		},
	}
	c.Flags().BoolVar(&remove, "remove", false, "take the tag away")
	o.flags(c)
	return a.agentFlags(c, "")
}

func (a *app) checkpointDeleteCommand() *cobra.Command {
	var o owned
	var d destruction
	c := &cobra.Command{
		Use:   "delete ID",
		Short: "Delete a checkpoint",
		Long: `Delete a checkpoint, a tagged one as well. It asks before, unless --yes is given. One
that is not there is no error.`,
		Example: `  sagestore checkpoint delete latest --agent support --dry-run
  sagestore checkpoint delete latest --agent support --yes`,
		Args: count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(c, args...); err != nil {
				return err
			}
			return a.withAgents(c.Context(), func(s *agent.Store) error {
				if _, err := s.LoadCheckpoint(c.Context(), o.agent, args[0]); errors.Is(err, tiers.ErrNotFound) {
					if told, err := d.none(a, "checkpoint", args[0]); told {
						return err
					}
				}
				if proceed, err := d.may(c.Context(), a, fmt.Sprintf("delete checkpoint %q", args[0]), facts{"checkpoint_id": args[0]}); err != nil || !proceed {
					return err
				}
				existed, err := s.DeleteCheckpoint(c.Context(), o.agent, args[0])
				return a.deleted(existed, err, "checkpoint", args[0])
			})
		},
	}
	o.flags(c)
	d.flags(c)
	return a.agentFlags(c, "print JSON")
}

func (a *app) checkpointPruneCommand() *cobra.Command {
	var d destruction
	keep := 0
	c := &cobra.Command{
		Use:   "prune AGENT",
		Short: "Remove the oldest checkpoints of an agent",
		Long: `Remove the oldest checkpoints of an agent that are not tagged, until --keep of them are
left, and tell how many were removed. It asks before, unless --yes is given.`,
		Example: `  sagestore checkpoint prune support --keep 3 --dry-run
  sagestore checkpoint prune support --keep 3 --yes`,
		Args: count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case !c.Flags().Changed("keep"):
				return usagef("0 removes all that are not tagged", "say with --keep how many are left")
			case keep < 0:
				return usagef("", "--keep %d: it takes a number from 0", keep)
			}
			return a.withAgents(c.Context(), func(s *agent.Store) error {
				untagged := 0
				for cp, err := range s.Checkpoints(c.Context(), args[0], agent.After{}) {
					if err != nil {
						return err // what the list has holes in is not cut
					}
					if !cp.Keep {
						untagged++
					}
				}
				what := fmt.Sprintf("remove %d of %s of agent %q that are not tagged", max(0, untagged-keep), many(untagged, "checkpoint"), args[0])
				of := facts{"agent_id": args[0], "remove": max(0, untagged-keep), "untagged": untagged}
				if proceed, err := d.may(c.Context(), a, what, of); err != nil || !proceed {
					return err
				}
				removed, err := s.Prune(c.Context(), args[0], keep)
				if err != nil {
					return err
				}
				if a.json {
					return unprinted(a.printJSON(map[string]int{"removed": removed}))
				}
				_, err = fmt.Fprintln(a.out, removed)
				return unprinted(err)
			})
		},
	}
	c.Flags().IntVar(&keep, "keep", 0, "the `number` that is left")
	d.flags(c)
	return a.agentFlags(c, "print JSON")
}

// damagedCheckpoint says of a checkpoint that is damaged what to do about it, and which
// it is where it was named as the newest.
func damagedCheckpoint(ctx context.Context, s *agent.Store, agentID, id string, err error) error {
	err = tiers.Hint(err, "OrOlder takes the next older sound one")
	if id != latestCheckpoint {
		return err
	}
	for info, bad := range s.Checkpoints(ctx, agentID, agent.After{Limit: 1}) {
		if bad == nil {
			return fmt.Errorf("latest is checkpoint %q: %w", info.ID, err)
		}
	}
	return err
}
