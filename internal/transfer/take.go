package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

// madeFor marks, in the metadata of an agent, one that an import made because
// something belongs to it. A file that tells of that agent takes its place.
const madeFor = "made_by_import"

// takeAgent brings in an agent.
func (im *importer) takeAgent(ctx context.Context, a *agent.State) error {
	now := im.o.Clock.Now().Round(0).UTC()
	undated := a.Created.IsZero()
	if undated {
		a.Created = now
	}
	if a.Modified.IsZero() {
		a.Modified = a.Created
	}
	a.Created, a.Modified = a.Created.UTC(), a.Modified.UTC()
	stored, err := im.agents.Load(ctx, a.ID)
	switch {
	case errors.Is(err, tiers.ErrNotFound):
		if im.made[a.ID] { // in a dry run
			im.sum.Agents.There++
			return nil
		}
		if !im.o.DryRun {
			if err := im.agents.ImportAgent(ctx, a); err != nil {
				return err
			}
		}
		im.made[a.ID] = true
		im.sum.Agents.Added++
		return nil
	case err != nil:
		return err
	}
	im.there[a.ID] = true
	if undated { // it says nothing of when, so that it stays
		a.Created = stored.Created
	}
	same, err := sameAgent(a, stored)
	if err != nil {
		return err
	}
	placeholder := stored.Metadata[madeFor] != ""
	switch {
	case same:
		im.sum.Agents.There++
		return nil
	case !placeholder && !im.o.Replace:
		im.sum.Agents.There++
		im.remark("agent %q is there and differs: it was left as it is, --replace takes over what the file says", a.ID)
		return nil
	case im.o.DryRun:
		im.sum.Agents.Added++
		return nil
	}
	if err := im.guard(ctx, a.ID); err != nil {
		return err
	}
	a.Revision = stored.Revision
	if err := im.agents.Save(ctx, a); err != nil {
		return err
	}
	im.sum.Agents.Added++
	return nil
}

// sameAgent compares what an app says of an agent. When it was stored does not count.
func sameAgent(a, b *agent.State) (bool, error) {
	bare := func(a *agent.State) ([]byte, error) {
		own := *a
		own.Revision, own.Active, own.Repaired = 0, nil, nil
		own.Modified = own.Created
		return serializer.JSON().Append(nil, own)
	}
	x, err := bare(a)
	if err != nil {
		return false, err
	}
	y, err := bare(b)
	return bytes.Equal(x, y), err
}

// ensure sees to it that there is an agent that something belongs to.
func (im *importer) ensure(ctx context.Context, id string, like *agent.State) error {
	if im.made[id] || im.there[id] {
		return nil
	}
	_, err := im.agents.Load(ctx, id)
	if err == nil {
		im.there[id] = true
		return nil
	}
	if !errors.Is(err, tiers.ErrNotFound) {
		return err
	}
	now := im.o.Clock.Now().Round(0).UTC()
	a := &agent.State{ID: id, Name: id, Type: "imported", Created: now, Modified: now, Version: 1}
	if like != nil {
		a.Name, a.Type = like.Name, like.Type
	}
	a.Metadata = map[string]string{madeFor: "true"}
	if !im.o.DryRun {
		if err := im.agents.ImportAgent(ctx, a); err != nil {
			return err
		}
	}
	im.made[id] = true
	im.sum.Agents.Added++
	return nil
}

// guard makes a checkpoint of an agent that was there before the import, once.
func (im *importer) guard(ctx context.Context, id string) error {
	if im.made[id] || im.before[id] || im.o.DryRun {
		return nil
	}
	_, _, err := im.agents.BeforeOperation(ctx, id, "import")
	im.before[id] = err == nil
	return err
}

// standing is a conversation as far as the import knows it.
type standing struct {
	id    string
	found bool // it was stored before
	last  uint64
	known map[string]imprint // of its messages, by their ids
}

// stand finds out what is stored of a conversation.
func (im *importer) stand(ctx context.Context, c *agent.Conversation) (*standing, error) {
	if im.current != nil && im.current.id == c.ID {
		return im.current, nil
	}
	if st := im.kept[c.ID]; st != nil {
		im.current = st
		return st, nil
	}
	st := &standing{id: c.ID, known: map[string]imprint{}}
	for {
		page, err := im.agents.LoadConversation(ctx, c.ID, agent.Page{After: st.last, Limit: mostMessages})
		if errors.Is(err, tiers.ErrNotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		if page.AgentID != c.AgentID {
			return nil, tiers.Hint(fmt.Errorf("conversation %q belongs to agent %q: %w", c.ID, page.AgentID, tiers.ErrExists),
				fmt.Sprintf("import it with --agent %s, or into another --namespace", page.AgentID))
		}
		st.found = true
		for _, m := range page.Messages {
			st.known[m.ID], st.last = imprint{of(m), true}, m.Seq
		}
		if len(page.Messages) < mostMessages {
			break
		}
	}
	switch {
	case im.seen[c.ID]:
	case st.found:
		im.sum.Conversations.There++
	default:
		im.sum.Conversations.Added++
	}
	im.seen[c.ID], im.current = true, st
	if im.o.DryRun {
		im.kept[c.ID] = st
	}
	return st, nil
}

// forget takes back that a conversation was counted that could not be begun.
func (im *importer) forget(st *standing) {
	if !st.found {
		im.sum.Conversations.Added--
		im.current = nil
		delete(im.seen, st.id)
		delete(im.kept, st.id)
	}
}

// takeConversation brings in a head, and those of its messages that are new.
func (im *importer) takeConversation(ctx context.Context, f found, fault func(line int, where string, err error)) error {
	c := f.conversation
	st, err := im.stand(ctx, c)
	if err != nil {
		return err
	}
	if err := im.ensure(ctx, c.AgentID, nil); err != nil {
		im.forget(st)
		return err
	}
	var fresh []agent.Message
	var lines []int
	for i, m := range c.Messages {
		switch there, same := st.meet(m); {
		case !there:
			fresh, lines = append(fresh, m), append(lines, f.lines[i])
		case same:
			im.sum.Messages.There++
		default:
			fault(f.lines[i], "", tiers.Hint(fmt.Errorf("message %q is there and says something else: %w", m.ID, tiers.ErrExists),
				"the first stays; give this one another id"))
		}
	}
	if im.o.DryRun {
		im.sum.Messages.Added += len(fresh)
		return nil
	}
	if st.found && len(fresh) > 0 {
		if err := im.guard(ctx, c.AgentID); err != nil {
			return err
		}
	}
	if !st.found {
		head := *c
		head.Messages, head.Revision = nil, 0
		if f.titled && head.Title == "" {
			head.Messages = c.Messages
			head.AutoTitle()
			head.Messages = nil
		}
		if err := im.agents.SaveConversation(ctx, &head); err != nil {
			im.forget(st)
			return err
		}
		st.found = true
		im.made[c.AgentID] = im.made[c.AgentID] || !im.there[c.AgentID]
	} else if f.titled && c.Title != "" {
		if err := im.title(ctx, c, len(fresh) > 0); err != nil {
			return err
		}
	}
	return im.append(ctx, st, fresh, lines, fault)
}

// title gives a conversation the title that its log names at the end.
func (im *importer) title(ctx context.Context, c *agent.Conversation, changes bool) error {
	if !changes {
		return nil
	}
	return im.agents.ModifyConversation(ctx, c.ID, func(stored *agent.Conversation) error {
		stored.Title = c.Title
		return nil
	})
}

// append adds messages; when they are refused together, one by one, so that only
// those that are wrong are left out.
func (im *importer) append(ctx context.Context, st *standing, fresh []agent.Message, lines []int, fault func(line int, where string, err error)) error {
	if len(fresh) == 0 {
		return nil
	}
	last, err := im.agents.AppendMessage(ctx, st.id, fresh...)
	switch {
	case err == nil:
		added := int(last - st.last) //nolint:gosec // not more than there are messages
		im.sum.Messages.Added += added
		im.sum.Messages.There += len(fresh) - added // they were deleted here
		st.last = last
		return nil
	case fatal(ctx, err):
		return err
	case len(fresh) == 1:
		fault(lines[0], "", err)
		return nil
	}
	for i := range fresh {
		if err := im.append(ctx, st, fresh[i:i+1], lines[i:i+1], fault); err != nil {
			return err
		}
	}
	return nil
}

// takeCheckpoint brings in a checkpoint.
func (im *importer) takeCheckpoint(ctx context.Context, c *agent.Checkpoint) error {
	if c.ID == "" {
		return fmt.Errorf("%w: the checkpoint has no id", tiers.ErrCorrupt)
	}
	stored, err := im.agents.LoadCheckpoint(ctx, "", c.ID)
	if err == nil {
		n := 0
		for _, conv := range c.Conversations {
			n += len(conv.Messages)
		}
		if stored.AgentID != c.AgentID || stored.Iteration != c.Iteration || stored.Messages != n {
			return tiers.Hint(fmt.Errorf("checkpoint %q is there and shows something else: %w", c.ID, tiers.ErrExists),
				"ids of checkpoints are global: delete the other one, or import into another --namespace")
		}
		im.sum.Checkpoints.There++
		return nil
	}
	if !errors.Is(err, tiers.ErrNotFound) {
		return err
	}
	if err := im.ensure(ctx, c.AgentID, c.State); err != nil {
		return err
	}
	if im.o.DryRun {
		im.sum.Checkpoints.Added++
		return nil
	}
	settle(c)
	if _, err := im.agents.ImportCheckpoint(ctx, c, false); err != nil {
		return err
	}
	im.sum.Checkpoints.Added++
	return nil
}

// settle fills in what other programs leave out.
func settle(c *agent.Checkpoint) {
	if c.Kind == "" {
		c.Kind = agent.Manual
	}
	for _, conv := range c.Conversations {
		conv.AgentID, conv.Revision, conv.Count = c.AgentID, 0, len(conv.Messages)
		if conv.Created.IsZero() {
			conv.Created = c.Created
		}
	}
}
