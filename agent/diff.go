package agent

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sagestore/sagestore/internal/oneline"
	"github.com/sagestore/sagestore/serializer"
)

// Difference is one of those between what two checkpoints show.
type Difference struct {
	Change       Change `json:"change"`
	What         string `json:"what"`                   // a member of the agent or of a conversation, such as custom, title, message
	Name         string `json:"name,omitempty"`         // which one, of those that have names: the id of a message
	Conversation string `json:"conversation,omitempty"` // empty: of the agent itself
	Before       any    `json:"before,omitempty"`
	After        any    `json:"after,omitempty"`
}

// Change is what has happened to what a [Difference] is about.
type Change string

// What can have happened.
const (
	Added   Change = "added"
	Removed Change = "removed"
	Changed Change = "changed"
)

// Differences are those between what two checkpoints show, the agent's own first,
// then conversation by conversation. As JSON they are an array.
type Differences []Difference

// Diff answers what has changed from one checkpoint to another, each by its id or as
// "latest"; an empty to is the present. Times of change, sequences and counts are
// not compared: a restore gives others. When one of them covers a single
// conversation, that alone is compared.
//
// An empty agentID is any agent; two checkpoints of different agents, such as a fork
// and what it was made of, can be compared. Both are read at one instant on the
// database, and only when their sums are right: tiers.ErrCorrupt.
func (s *Store) Diff(ctx context.Context, agentID, from, to string) (Differences, error) {
	var before, after *Checkpoint
	err := s.view(ctx, func(s *Store) (err error) {
		if before, err = s.LoadCheckpoint(ctx, agentID, from); err != nil {
			return err
		}
		if to == "" {
			after, err = s.present(ctx, before)
		} else {
			after, err = s.LoadCheckpoint(ctx, agentID, to)
		}
		return err
	})
	if err != nil {
		return nil, fail("compare checkpoints", categoryCheckpoints, from, reveal(err))
	}
	all, err := before.Diff(after)
	return all, fail("compare checkpoints", categoryCheckpoints, from, err)
}

// present answers what a checkpoint with the scope of another one would show now.
func (s *Store) present(ctx context.Context, like *Checkpoint) (*Checkpoint, error) {
	now := &Checkpoint{CheckpointInfo: CheckpointInfo{AgentID: like.AgentID, Conversation: like.Conversation}}
	load := func(id string) error {
		c, err := s.LoadConversation(ctx, id, Page{})
		if err == nil {
			now.Conversations = append(now.Conversations, c)
		}
		return err
	}
	if like.Conversation != "" {
		return now, ignoreNotFound(load(like.Conversation))
	}
	var err error
	if now.State, err = s.Load(ctx, like.AgentID); err != nil {
		return nil, err
	}
	for c, err := range s.Conversations(ctx, like.AgentID, After{}) {
		if err == nil {
			err = load(c.ID)
		}
		if err != nil {
			return nil, err
		}
	}
	return now, nil
}

// Diff answers what has changed from c to another checkpoint, as [Store.Diff] does.
func (c *Checkpoint) Diff(to *Checkpoint) (Differences, error) {
	d := differ{all: Differences{}}
	if c.State != nil && to.State != nil {
		d.states(c.State, to.State)
	}
	old, recent := byID(c.Conversations, to.Conversation), byID(to.Conversations, c.Conversation)
	added, removed, both := changedNames(old, recent, func(_, _ *Conversation) bool { return false })
	for _, id := range removed {
		d.all = append(d.all, Difference{Change: Removed, What: "conversation", Conversation: id, Before: old[id].Title})
	}
	for _, id := range added {
		d.all = append(d.all, Difference{Change: Added, What: "conversation", Conversation: id, After: recent[id].Title})
	}
	for _, id := range both {
		d.conversation = id
		d.conversations(old[id], recent[id])
	}
	return d.all, d.err
}

// byID answers conversations by their ids, or the one that is named alone.
func byID(of []*Conversation, only string) map[string]*Conversation {
	all := make(map[string]*Conversation, len(of))
	for _, c := range of {
		if only == "" || c.ID == only {
			all[c.ID] = c
		}
	}
	return all
}

// differ gathers the differences of an agent, or of a conversation.
type differ struct {
	all          Differences
	conversation string
	err          error
}

func (d *differ) states(x, y *State) {
	d.value("name", x.Name, y.Name)
	d.value("type", x.Type, y.Type)
	d.value("system_prompt", x.SystemPrompt, y.SystemPrompt)
	d.value("capabilities", x.Capabilities, y.Capabilities)
	d.value("version", x.Version, y.Version)
	named(d, "config", x.Config, y.Config)
	named(d, "custom", x.Custom, y.Custom)
	named(d, "metadata", x.Metadata, y.Metadata)
}

func (d *differ) conversations(x, y *Conversation) {
	d.value("title", x.Title, y.Title)
	d.value("tags", x.Tags, y.Tags)
	d.value("archived", x.Archived, y.Archived)
	d.value("system_prompt", x.SystemPrompt, y.SystemPrompt)
	d.value("max_context_tokens", x.MaxContextTokens, y.MaxContextTokens)
	named(d, "metadata", x.Metadata, y.Metadata)
	named(d, "message", messagesByID(x), messagesByID(y))
}

func messagesByID(c *Conversation) map[string]Message {
	all := make(map[string]Message, len(c.Messages))
	for _, m := range c.Messages {
		m.Seq = 0
		all[m.ID] = m
	}
	return all
}

// same compares what is stored of two values.
func (d *differ) same(a, b any) bool {
	x, err1 := serializer.JSON().Append(nil, a)
	y, err2 := serializer.JSON().Append(nil, b)
	for _, err := range []error{err1, err2} {
		if err != nil && d.err == nil {
			d.err = err
		}
	}
	return bytes.Equal(x, y)
}

func (d *differ) value(what string, before, after any) {
	if !d.same(before, after) {
		d.add(Changed, what, "", before, after)
	}
}

func (d *differ) add(c Change, what, name string, before, after any) {
	d.all = append(d.all, Difference{c, what, name, d.conversation, before, after})
}

// named compares values that have names.
func named[V any](d *differ, what string, before, after map[string]V) {
	added, removed, changed := changedNames(before, after, func(a, b V) bool { return d.same(a, b) })
	for _, n := range removed {
		d.add(Removed, what, n, before[n], nil)
	}
	for _, n := range added {
		d.add(Added, what, n, nil, after[n])
	}
	for _, n := range changed {
		d.add(Changed, what, n, before[n], after[n])
	}
}

// changedNames answers the names of which the values differ, in order.
func changedNames[V any](before, after map[string]V, same func(a, b V) bool) (added, removed, changed []string) {
	for _, name := range slices.Sorted(maps.Keys(after)) {
		was, there := before[name]
		switch {
		case !there:
			added = append(added, name)
		case !same(was, after[name]):
			changed = append(changed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, there := after[name]; !there {
			removed = append(removed, name)
		}
	}
	return added, removed, changed
}

// String answers a line for each: "+" for what was added, "-" for what was removed,
// "~" for what was changed. It is for people; a long value is cut.
func (all Differences) String() string {
	var b strings.Builder
	for _, d := range all {
		b.WriteString(d.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// String is the difference as one line of text.
func (d Difference) String() string {
	var sign, says string
	switch d.Change {
	case Added:
		sign, says = "+", said(d.After)
	case Removed:
		sign, says = "-", said(d.Before)
	default:
		sign, says = "~", said(d.Before)+" -> "+said(d.After)
	}
	at := d.What
	if d.Name != "" {
		at += " " + oneline.Of(d.Name)
	}
	switch {
	case d.Conversation == "":
	case d.What == "conversation":
		at = "conversation " + oneline.Of(d.Conversation)
	default:
		at = "conversation " + oneline.Of(d.Conversation) + " " + at
	}
	return fmt.Sprintf("%s %s: %s", sign, at, says)
}

// said is a value in a line: of a message what it says and the calls that it asks for.
func said(v any) string {
	m, ok := v.(Message)
	if !ok {
		text, err := serializer.JSON().Append(nil, v)
		if err != nil {
			return oneline.Of(fmt.Sprint(v))
		}
		return oneline.Of(string(text))
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s", m.Role, m.Content)
	for _, t := range m.ToolCalls {
		fmt.Fprintf(&text, " [%s %s: %s]", t.Name, t.Arguments, t.Status)
	}
	for _, a := range m.Attachments {
		fmt.Fprintf(&text, " [%s %s: %d bytes]", a.Kind, a.Name, a.Size)
	}
	return oneline.Of(text.String())
}
