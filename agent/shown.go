package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// shown is what a checkpoint shows: its parts as they are stored, unread.
type shown struct {
	parts map[string]json.RawMessage
	heads map[string]*headRecord // by id, decoded
	whole map[string][]string    // keys of notes about deleted conversations, by inner name
}

// errUnsound is a checkpoint whose sum is wrong.
var errUnsound = fmt.Errorf("%w: the checkpoint does not pass its integrity check", tiers.ErrCorrupt)

// show answers what a checkpoint shows, once its sum has been found right.
func (e *edit) show(ctx context.Context, r *infoRecord, n uint64) (*shown, error) {
	sh := &shown{
		parts: make(map[string]json.RawMessage), heads: make(map[string]*headRecord), whole: make(map[string][]string),
	}
	var err error
	if r.Copy {
		err = sh.readCopy(ctx, e, n)
	} else {
		err = sh.read(ctx, e, r, n)
	}
	if err != nil {
		return nil, err
	}
	var total sum
	for part, raw := range sh.parts {
		total.add(digest(part, raw))
	}
	if e.fingerprint(r, n, total) != r.SHA256 {
		return nil, errUnsound
	}
	for part, raw := range sh.parts {
		if strings.HasPrefix(part, partHead) {
			var h headRecord
			if err := e.decode(raw, &h); err != nil {
				return nil, corrupt(part, err)
			}
			sh.heads[h.ID] = &h
		}
	}
	return sh, nil
}

// read takes what is there and is old enough, then what was there.
func (sh *shown) read(ctx context.Context, e *edit, r *infoRecord, n uint64) error {
	if r.Conversation == "" {
		head := atHead + manager.Key(e.led.AgentID)
		raw, err := e.peek(ctx, e.state, head)
		if err != nil {
			return err
		}
		sh.take(partState, raw, n)
		if err := sh.takeAll(ctx, e, e.state, atOwn+e.au+"/", partOwn, n); err != nil {
			return err
		}
		if err := sh.takePast(ctx, e, e.state, n, func(string) bool { return true }); err != nil {
			return err
		}
	}
	wanted := func(part string) bool {
		return r.Conversation == "" || part == partHead+manager.Key(r.Conversation)
	}
	if err := sh.takeHeads(ctx, e, n, wanted); err != nil {
		return err
	}
	inners := make(map[string]bool)
	for part, raw := range sh.parts {
		var h struct {
			Inner string `json:"inner"`
		}
		if strings.HasPrefix(part, partHead) && json.Unmarshal(raw, &h) == nil && h.Inner != "" {
			inners[h.Inner] = true
		}
	}
	for _, cu := range slices.Sorted(maps.Keys(inners)) {
		if err := sh.takeAll(ctx, e, e.conversations, messagePrefix(e.au, cu), partMessage+cu+"/", n); err != nil {
			return err
		}
	}
	return sh.takePast(ctx, e, e.conversations, n, func(part string) bool {
		cu, _, ok := parseMessagePart(part)
		return ok && inners[cu]
	})
}

func (sh *shown) takeHeads(ctx context.Context, e *edit, n uint64, wanted func(string) bool) error {
	heads, err := e.under(ctx, e.conversations, atHead+e.au+"/")
	if err != nil {
		return err
	}
	for _, h := range heads {
		if part := partHead + h.rest; wanted(part) {
			sh.take(part, h.raw, n)
		}
	}
	return sh.takePast(ctx, e, e.conversations, n, func(part string) bool {
		return strings.HasPrefix(part, partHead) && wanted(part)
	})
}

// take takes what is old enough. Of what can't be read nobody knows; if it was shown,
// the sum tells.
func (sh *shown) take(part string, raw json.RawMessage, n uint64) {
	if since, ok := readSince(raw); ok && since <= n {
		sh.parts[part] = raw
	}
}

// takeAll takes the parts under a prefix that are old enough. One that can't be
// read is left out, and the sum tells.
func (sh *shown) takeAll(ctx context.Context, e *edit, c *manager.Collection[json.RawMessage], prefix, part string, n uint64) error {
	all, err := e.under(ctx, c, prefix)
	for _, r := range all {
		sh.take(part+r.rest, r.raw, n)
	}
	return err
}

// takePast takes from the history what was there at checkpoint n.
func (sh *shown) takePast(ctx context.Context, e *edit, c *manager.Collection[json.RawMessage], n uint64, wanted func(string) bool) error {
	prefix := historyPrefix(e.au)
	all, err := e.under(ctx, c, prefix, manager.After(prefix+numbered(n+1)))
	for _, r := range all {
		key := prefix + r.rest
		k, ok := parseHistory(e.au, key)
		if cu, is := strings.CutPrefix(k.part, partWhole); ok && is {
			if !slices.Contains(sh.whole[cu], key) {
				sh.whole[cu] = append(sh.whole[cu], key)
			}
			continue
		}
		if r.raw != nil && ok && k.since <= n && wanted(k.part) {
			sh.parts[k.part] = r.raw
		}
	}
	return err
}

func (sh *shown) readCopy(ctx context.Context, e *edit, n uint64) error {
	all, err := e.under(ctx, e.checkpoints, atCopy+e.au+"/"+numbered(n)+"/")
	for _, r := range all {
		if r.raw != nil {
			sh.parts[r.rest] = r.raw
		}
	}
	return err
}

// LoadCheckpoint answers a checkpoint with what it shows: the one of that id, or
// the newest for "latest". An empty agentID is any agent. It is read only once its
// sum was found right: tiers.ErrCorrupt when it is not.
func (s *Store) LoadCheckpoint(ctx context.Context, agentID, id string) (*Checkpoint, error) {
	var c *Checkpoint
	err := s.steadily(ctx, func() error {
		return s.view(ctx, func(s *Store) error {
			e, n, r, stored, err := s.locate(ctx, agentID, id)
			if err != nil {
				return err
			}
			sh, err := e.show(ctx, &r, n)
			if err != nil {
				return err
			}
			c, err = e.unfold(ctx, sh)
			if err == nil {
				c.CheckpointInfo = r.checkpointInfo(e.au, e.led.AgentID, n, stored)
			}
			return err
		})
	})
	if err != nil {
		return nil, fail("load checkpoint", categoryCheckpoints, id, reveal(err))
	}
	return c, nil
}

// unfold decodes what a checkpoint shows.
func (e *edit) unfold(ctx context.Context, sh *shown) (*Checkpoint, error) {
	c := &Checkpoint{}
	if raw := sh.parts[partState]; raw != nil {
		var st stateRecord
		if err := e.decode(raw, &st); err != nil {
			return nil, corrupt(partState, err)
		}
		c.State = st.state()
		for part, raw := range sh.parts {
			if strings.HasPrefix(part, partOwn) {
				if err := e.takeOwn(c.State, part, raw); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, h := range sh.heads {
		conv := h.conversation()
		seqs := sh.sequences(h.Inner)
		for _, seq := range seqs {
			m, err := e.decodeMessage(ctx, e.au, h.Inner, seq, sh.parts[messagePart(h.Inner, seq)])
			if err != nil {
				return nil, err
			}
			conv.Messages = append(conv.Messages, m)
			conv.LastMessage = later(conv.LastMessage, m.At)
		}
		conv.Count = len(conv.Messages)
		c.Conversations = append(c.Conversations, conv)
	}
	slices.SortFunc(c.Conversations, func(a, b *Conversation) int { return strings.Compare(a.ID, b.ID) })
	if c.State != nil {
		active := slices.DeleteFunc(slices.Clone(c.Conversations), func(c *Conversation) bool { return c.Archived })
		slices.SortStableFunc(active, func(a, b *Conversation) int { return a.Created.Compare(b.Created) })
		for _, conv := range active {
			c.State.Active = append(c.State.Active, conv.ID)
		}
	}
	return c, nil
}

// sequences answers the sequences of a conversation's messages, in order.
func (sh *shown) sequences(cu string) (seqs []uint64) {
	prefix := partMessage + cu + "/"
	for part := range sh.parts {
		if strings.HasPrefix(part, prefix) {
			if _, seq, ok := parseMessagePart(part); ok {
				seqs = append(seqs, seq)
			}
		}
	}
	slices.Sort(seqs)
	return seqs
}

// rename gives the conversations of a copy inner names that nobody has used, so
// that nothing that is still being removed is taken for theirs.
func (sh *shown) rename(e *edit) {
	for _, h := range sh.heads {
		was := h.Inner
		h.Inner, h.Born = innerName(), e.since()
		for _, seq := range sh.sequences(was) {
			sh.parts[messagePart(h.Inner, seq)] = sh.parts[messagePart(was, seq)]
			delete(sh.parts, messagePart(was, seq))
		}
	}
}
