package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/agent"
)

// difference is one of those between what two checkpoints show. Its JSON shape is
// documented.
type difference struct {
	Change       string `json:"change"` // added, removed, changed
	What         string `json:"what"`   // a member of the agent or of a conversation, such as custom, title, message
	Name         string `json:"name,omitempty"`
	Conversation string `json:"conversation,omitempty"`
	Before       any    `json:"before,omitempty"`
	After        any    `json:"after,omitempty"`
}

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
				before, err := s.LoadCheckpoint(c.Context(), o.agent, args[0])
				if err != nil {
					return err
				}
				var after *agent.Checkpoint
				if len(args) > 1 {
					after, err = s.LoadCheckpoint(c.Context(), o.agent, args[1])
				} else {
					after, err = present(c.Context(), s, before)
				}
				if err != nil {
					return err
				}
				all, err := differences(before, after)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(all)
				}
				for _, d := range all {
					if err := a.printCut(d.text()); err != nil {
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

// present answers what a checkpoint like another one would show now.
func present(ctx context.Context, s *agent.Store, like *agent.Checkpoint) (*agent.Checkpoint, error) {
	now := &agent.Checkpoint{}
	load := func(id string) error {
		c, err := s.LoadConversation(ctx, id, agent.Page{})
		if err == nil {
			now.Conversations = append(now.Conversations, c)
		}
		return err
	}
	if like.Conversation != "" {
		return now, load(like.Conversation)
	}
	var err error
	if now.State, err = s.Load(ctx, like.AgentID); err != nil {
		return nil, err
	}
	for c, err := range s.Conversations(ctx, like.AgentID, agent.After{}) {
		if err == nil {
			err = load(c.ID)
		}
		if err != nil {
			return nil, err
		}
	}
	return now, nil
}

// differences compares what two checkpoints show.
func differences(before, after *agent.Checkpoint) (all []difference, err error) {
	all = []difference{}
	d := differ{all: &all}
	if before.State != nil && after.State != nil {
		x, y := before.State, after.State
		d.value("name", x.Name, y.Name)
		d.value("type", x.Type, y.Type)
		d.value("system_prompt", x.SystemPrompt, y.SystemPrompt)
		d.value("capabilities", x.Capabilities, y.Capabilities)
		d.value("version", x.Version, y.Version)
		names(&d, "config", x.Config, y.Config)
		names(&d, "custom", x.Custom, y.Custom)
		names(&d, "metadata", x.Metadata, y.Metadata)
	}
	old, recent := byID(before.Conversations), byID(after.Conversations)
	added, removed, _ := changedNames(old, recent, func(_, _ *agent.Conversation) bool { return true })
	for _, id := range removed {
		all = append(all, difference{Change: "removed", What: "conversation", Conversation: id, Before: old[id].Title})
	}
	for _, id := range added {
		all = append(all, difference{Change: "added", What: "conversation", Conversation: id, After: recent[id].Title})
	}
	for _, c := range after.Conversations {
		if was := old[c.ID]; was != nil {
			d.conversation = c.ID
			d.conversations(was, c)
		}
	}
	return all, d.err
}

func byID(of []*agent.Conversation) map[string]*agent.Conversation {
	all := make(map[string]*agent.Conversation, len(of))
	for _, c := range of {
		all[c.ID] = c
	}
	return all
}

// differ gathers differences of an agent, or of a conversation.
type differ struct {
	all          *[]difference
	conversation string
	err          error
}

func (d *differ) same(a, b any) bool {
	x, err1 := encode(a, "")
	y, err2 := encode(b, "")
	for _, err := range []error{err1, err2} {
		if err != nil && d.err == nil {
			d.err = err
		}
	}
	return bytes.Equal(x, y)
}

func (d *differ) value(what string, before, after any) {
	if !d.same(before, after) {
		*d.all = append(*d.all, difference{"changed", what, "", d.conversation, before, after})
	}
}

// names compares maps.
func names[V any](d *differ, what string, before, after map[string]V) {
	added, removed, changed := changedNames(before, after, func(a, b V) bool { return d.same(a, b) })
	for _, n := range removed {
		*d.all = append(*d.all, difference{"removed", what, n, d.conversation, before[n], nil})
	}
	for _, n := range added {
		*d.all = append(*d.all, difference{"added", what, n, d.conversation, nil, after[n]})
	}
	for _, n := range changed {
		*d.all = append(*d.all, difference{"changed", what, n, d.conversation, before[n], after[n]})
	}
}

func (d *differ) conversations(x, y *agent.Conversation) {
	d.value("title", x.Title, y.Title)
	d.value("tags", x.Tags, y.Tags)
	d.value("archived", x.Archived, y.Archived)
	d.value("system_prompt", x.SystemPrompt, y.SystemPrompt)
	d.value("max_context_tokens", x.MaxContextTokens, y.MaxContextTokens)
	names(d, "metadata", x.Metadata, y.Metadata)
	names(d, "message", messagesByID(x), messagesByID(y))
}

func messagesByID(c *agent.Conversation) map[string]agent.Message {
	all := make(map[string]agent.Message, len(c.Messages))
	for _, m := range c.Messages {
		m.Seq = 0 // a restore gives others
		all[m.ID] = m
	}
	return all
}

// text is the difference as one line.
func (d *difference) text() string {
	var sign, says string
	switch d.Change {
	case "added":
		sign, says = "+", said(d.After)
	case "removed":
		sign, says = "-", said(d.Before)
	default:
		sign, says = "~", said(d.Before)+" -> "+said(d.After)
	}
	at := d.What
	if d.Name != "" {
		at += " " + shown(d.Name)
	}
	if d.Conversation != "" {
		at = "conversation " + shown(d.Conversation) + " " + at
		if d.What == "conversation" {
			at = "conversation " + shown(d.Conversation)
		}
	}
	return fmt.Sprintf("%s %s: %s", sign, at, says)
}

// said is a value in a line: of a message its content.
func said(v any) string {
	if m, ok := v.(agent.Message); ok {
		return oneLine(string(m.Role) + ": " + m.Content)
	}
	text, err := encode(v, "")
	if err != nil {
		return oneLine(fmt.Sprint(v))
	}
	return oneLine(string(text))
}
