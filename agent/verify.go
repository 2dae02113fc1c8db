package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/internal/oneline"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// Damage is something of an agent that is not as a [Store] has stored it.
type Damage struct {
	AgentID      string `json:"agent_id"`
	Conversation string `json:"conversation,omitempty"` // empty: of the agent itself
	Message      string `json:"message,omitempty"`      // its id, or its sequence when nothing tells the id
	Checkpoint   string `json:"checkpoint,omitempty"`   // its id, or its number when it can't be read
	What         string `json:"what"`

	// Orphan: there is no such agent. AgentID is the name under which things are
	// stored that belong to none; [Store.Delete] of it removes them.
	Orphan bool `json:"orphan,omitempty"`
}

// String is the damage as one line of text.
func (d Damage) String() string {
	at := fmt.Sprintf("agent %q", d.AgentID)
	switch {
	case d.Checkpoint != "":
		at += fmt.Sprintf(", checkpoint %q", d.Checkpoint)
	case d.Message != "":
		at += fmt.Sprintf(", conversation %q, message %q", d.Conversation, d.Message)
	case d.Conversation != "":
		at += fmt.Sprintf(", conversation %q", d.Conversation)
	}
	return at + ": " + oneline.Of(d.What)
}

// Verify reads everything of an agent, or of all for an empty agentID, and answers
// what is damaged: records that can't be read, that are missing, that were changed by
// other means than a Store, and checkpoints that do not pass their integrity check.
// It changes nothing and costs as much as there is. Of all agents, what belongs to none
// is damaged as well. An agent that is not there is
// tiers.ErrNotFound.
func (s *Store) Verify(ctx context.Context, agentID string) ([]Damage, error) {
	look := func() ([]Damage, error) {
		var all []Damage
		err := s.view(ctx, func(s *Store) error {
			ids := []string{agentID}
			if agentID == "" {
				list, err := s.under(ctx, s.state, atID, manager.KeysOnly())
				if err != nil {
					return err
				}
				ids = nil
				for _, entry := range list {
					ids = append(ids, segment(entry.rest))
				}
			}
			for _, id := range ids {
				v, err := s.verify(ctx, id)
				if err != nil {
					return err
				}
				all = append(all, v...)
			}
			if agentID != "" {
				return nil
			}
			lost, err := s.orphans(ctx, true)
			if err != nil {
				return err
			}
			for _, au := range slices.Sorted(maps.Keys(lost)) {
				d, err := s.orphaned(ctx, au, lost[au])
				if err != nil {
					return err
				}
				all = append(all, d)
			}
			return nil
		})
		for i := range all {
			all[i].What = outsideOf(all[i].What)
		}
		return all, reveal(err)
	}
	found, err := look()
	// Where the tier gives no view of one instant, what changes meanwhile looks like
	// damage, and does not look like it again.
	if err == nil && len(found) > 0 && s.manager != nil {
		if err = tiers.SystemClock().Sleep(ctx, 120*time.Millisecond); err == nil {
			var again []Damage
			again, err = look()
			found = slices.DeleteFunc(found, func(d Damage) bool { return !slices.Contains(again, d) })
		}
	}
	if err != nil {
		return nil, fail("verify", categoryState, agentID, err)
	}
	return found, nil
}

// outsideOf takes out of a text in which transaction something was found, which is
// another one with each look.
func outsideOf(what string) string {
	const at, id = " in transaction ", len("01a223e5-158f-7821-bc20-ac0e14b0f4de")
	for {
		before, behind, there := strings.Cut(what, at)
		if !there || len(behind) < id {
			return what
		}
		what = before + behind[id:]
	}
}

// verifying gathers what is damaged of an agent.
type verifying struct {
	*edit
	all []Damage
}

func (s *Store) verify(ctx context.Context, agentID string) ([]Damage, error) {
	var e *edit
	err := s.aside(ctx, func(in *Store) (err error) {
		e, err = in.openAgent(ctx, agentID)
		return err
	})
	if errors.Is(err, tiers.ErrCorrupt) {
		return []Damage{{AgentID: agentID, What: reveal(err).Error()}}, nil
	}
	if isNotFound(reveal(err)) {
		au, found, e2 := s.orphan(ctx, agentID)
		if e2 != nil {
			return nil, e2
		}
		if found {
			d, e2 := s.orphaned(ctx, au, agentID)
			return []Damage{d}, e2
		}
	}
	if err != nil {
		return nil, err
	}
	v := &verifying{edit: s.edit(e.au, e.led)}
	for _, step := range []func(context.Context) error{v.own, v.heads, v.live, v.headless, v.points} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return v.all, nil
}

func (v *verifying) add(d Damage, format string, args ...any) {
	d.AgentID, d.What = v.led.AgentID, fmt.Sprintf(format, args...)
	v.all = append(v.all, d)
}

// counted compares what is there with what was counted.
func (v *verifying) counted(ctx context.Context, d Damage, cu string, is totals) error {
	c, key := v.unitAt(cu)
	raw, err := v.peek(ctx, c, key)
	if err != nil {
		return err
	}
	u, bad := unread[unit](v.Store, raw)
	switch {
	case bad:
		v.add(d, "its counts are missing or can't be read")
	case u.Messages != is.Messages:
		v.add(d, "%d messages are there, and %d were counted", is.Messages, u.Messages)
	case u.Sum != is.Sum || u.Bytes != is.Bytes:
		v.add(d, "what is stored was changed by other means: it is not what was counted")
	}
	return nil
}

// own looks at the agent's own records.
func (v *verifying) own(ctx context.Context) error {
	var is totals
	raw, err := v.peek(ctx, v.state, atHead+manager.Key(v.led.AgentID))
	if err != nil {
		return err
	}
	was := len(v.all)
	switch st, bad := unread[stateRecord](v.Store, raw); {
	case bad:
		v.add(Damage{}, "it can't be read")
	case st.ID != v.led.AgentID:
		v.add(Damage{}, "it says that it is agent %q", st.ID)
	default:
		is.count(partState, raw, 1)
	}
	entries, err := v.under(ctx, v.state, atOwn+v.au+"/")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		r, bad := unread[ownRecord](v.Store, entry.raw)
		if !bad {
			_, bad = unread[any](v.Store, r.Value)
		}
		if bad {
			v.add(Damage{}, "the custom entry %q can't be read", segment(entry.rest))
			continue
		}
		is.count(partOwn+entry.rest, entry.raw, 1)
	}
	if len(v.all) > was {
		return nil // which the counts can only repeat
	}
	return v.counted(ctx, Damage{}, "", is)
}

// heads looks at the conversations.
func (v *verifying) heads(ctx context.Context) error {
	heads, err := v.under(ctx, v.conversations, atHead+v.au+"/")
	if err != nil {
		return err
	}
	for _, head := range heads {
		if err := v.conversation(ctx, segment(head.rest), head); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifying) conversation(ctx context.Context, id string, head stored) error {
	d := Damage{Conversation: id}
	h, bad := unread[headRecord](v.Store, head.raw)
	if bad {
		v.add(d, "its head can't be read")
		return nil
	}
	if h.ID != id || h.AgentID != v.led.AgentID {
		v.add(d, "its head says that it is conversation %q of agent %q", h.ID, h.AgentID)
		return nil
	}
	raw, err := v.peek(ctx, v.conversations, atID+manager.Key(id))
	if err != nil {
		return err
	}
	if ref, bad := unread[conversationRef](v.Store, raw); bad || ref.Agent != v.au || ref.Inner != h.Inner {
		v.add(d, "its index is missing or names another place")
	}
	is := totals{Conversations: 1}
	is.count(partHead+head.rest, head.raw, 1)
	was := len(v.all)
	if is.Messages, err = v.said(ctx, d, h.Inner, &is); err != nil || len(v.all) > was {
		return err
	}
	return v.counted(ctx, d, h.Inner, is)
}

// said looks at the messages of a conversation.
func (v *verifying) said(ctx context.Context, d Damage, cu string, is *totals) (n int, err error) {
	messages, err := v.under(ctx, v.conversations, messagePrefix(v.au, cu))
	if err != nil {
		return 0, err
	}
	known, err := v.readable(ctx, v.conversations, atKnown+v.au+"/"+cu+"/")
	if err != nil {
		return 0, err
	}
	placed := v.places(known)
	for _, one := range messages {
		seq, ok := lastNumber(one.rest)
		var m Message
		err := errors.New("its key has no sequence")
		switch {
		case ok && one.raw == nil:
			err = errors.New("the tier can't read it")
		case ok:
			err = v.aside(ctx, func(s *Store) (err error) {
				m, err = s.decodeMessage(ctx, v.au, cu, seq, one.raw)
				if err == nil {
					err = placed.stranger(m.ID, seq)
				}
				return err
			})
			if err != nil && !errors.Is(err, tiers.ErrCorrupt) {
				return 0, err
			}
		}
		if err != nil {
			d.Message = v.nameOf(known, seq, one.rest)
			v.add(d, "it can't be read: %v", err)
			continue
		}
		if p, bad := unread[place](v.Store, known[manager.Key(m.ID)]); bad || p.Deleted || p.Seq != seq {
			d.Message = m.ID
			v.add(d, "its index is missing or names another place")
		}
		is.count(messagePart(cu, seq), one.raw, 1)
		n++
	}
	return n, nil
}

// nameOf answers the id of a message that can't be read, or its sequence.
func (v *verifying) nameOf(known map[string]json.RawMessage, seq uint64, number string) string {
	for key, raw := range known {
		if p, bad := unread[place](v.Store, raw); !bad && p.Seq == seq && seq > 0 {
			return segment(key)
		}
	}
	return strings.TrimLeft(number, "0")
}

// live looks at the list of conversations that are not archived.
func (v *verifying) live(ctx context.Context) error {
	active, err := v.readable(ctx, v.conversations, atActive+v.au+"/")
	if err != nil {
		return err
	}
	heads, err := v.readable(ctx, v.conversations, atHead+v.au+"/")
	if err != nil {
		return err
	}
	for key, raw := range active {
		_, bad := unread[activeRecord](v.Store, raw)
		if _, there := heads[key]; bad || !there {
			v.add(Damage{Conversation: segment(key)}, "it is among the active ones, and it is not there or its entry can't be read")
		}
	}
	for key, raw := range heads {
		if h, bad := unread[headRecord](v.Store, raw); !bad && !h.Archived && active[key] == nil {
			v.add(Damage{Conversation: segment(key)}, "it is missing among the active ones")
		}
	}
	return nil
}

// headless looks for conversations that were counted and are not there.
func (v *verifying) headless(ctx context.Context) error {
	units, err := v.readable(ctx, v.conversations, atSum+v.au+"/")
	if err != nil {
		return err
	}
	there, err := v.inners(ctx)
	if err != nil {
		return err
	}
	for cu, raw := range units {
		if u, bad := unread[unit](v.Store, raw); !bad && !u.Dead && u.Conversations > 0 && !there[cu] {
			v.add(Damage{}, "a conversation with %d messages was counted, and its head is missing", u.Messages)
		}
	}
	return nil
}

// points looks at the checkpoints.
func (v *verifying) points(ctx context.Context) error {
	infos, err := v.under(ctx, v.checkpoints, atInfo+v.au+"/")
	if err != nil {
		return err
	}
	is := ledger{Last: v.led.Last}
	for _, one := range infos {
		n, _ := lastNumber(one.rest)
		r, bad := unread[infoRecord](v.Store, one.raw)
		if bad {
			v.add(Damage{Checkpoint: fmt.Sprint(n)}, "it can't be read")
			continue
		}
		is.counted(r.Keep, 1)
		is.Newest = n
		if err := v.point(ctx, &r, n); err != nil {
			return err
		}
	}
	if len(infos) == is.Kept+is.Untagged && (is.Kept != v.led.Kept || is.Untagged != v.led.Untagged || is.Newest != v.led.Newest) {
		v.add(Damage{}, "its checkpoints are %d, and %d were counted", is.Kept+is.Untagged, v.led.Kept+v.led.Untagged)
	}
	return nil
}

func (v *verifying) point(ctx context.Context, r *infoRecord, n uint64) error {
	err := v.sound(ctx, r, n)
	if errors.Is(err, tiers.ErrCorrupt) {
		v.add(Damage{Checkpoint: r.checkpointInfo(v.au, v.led.AgentID, n, 0).ID}, "%v", err)
		return nil
	}
	return err
}

// CheckpointVerified makes a checkpoint as [Store.Checkpoint] does, and reads all
// that it shows before it is committed. Where that was damaged by other means than a
// Store, nothing is stored: tiers.ErrCorrupt, which names what is damaged. It costs as
// much as what is shown.
func (s *Store) CheckpointVerified(ctx context.Context, in CheckpointInfo) (CheckpointInfo, error) {
	return s.makeCheckpoint(ctx, in, func(e *edit, made CheckpointInfo) error {
		r, _, err := e.info(ctx, e.au, made.Number)
		if err == nil {
			err = e.sound(ctx, &r, made.Number)
		}
		if !errors.Is(err, tiers.ErrCorrupt) {
			return err
		}
		// The new one is stored, so that the ledger has to count it.
		e2 := e.saveLedger(ctx)
		all := []Damage{}
		if e2 == nil {
			all, e2 = e.verify(ctx, in.AgentID)
		}
		if e2 != nil {
			return errors.Join(err, e2)
		}
		errs := []error{}
		for _, d := range all {
			if d.Checkpoint == "" && (in.Conversation == "" || d.Conversation == in.Conversation) {
				errs = append(errs, fmt.Errorf("%w: %s", tiers.ErrCorrupt, d))
			}
		}
		const most = 20
		if more := len(errs) - most; more > 0 {
			errs = append(errs[:most], fmt.Errorf("%w: %d more of it", tiers.ErrCorrupt, more))
		}
		if len(errs) == 0 {
			errs = append(errs, err)
		}
		return tiers.Hint(errors.Join(errs...), "no checkpoint was made; Repair takes what can be read for right, Restore goes back to a sound checkpoint")
	})
}

// sound reads all that a checkpoint shows.
func (e *edit) sound(ctx context.Context, r *infoRecord, n uint64) error {
	return e.aside(ctx, func(s *Store) error {
		in := s.edit(e.au, e.led)
		sh, err := in.restorable(ctx, r, n)
		if err == nil {
			_, err = in.unfold(ctx, sh)
		}
		return err
	})
}
