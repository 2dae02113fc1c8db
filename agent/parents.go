package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// A message may name a parent that comes after it, or never. Only the parents of a
// message that was named before it came can lead back to it, so such names are noted,
// and nothing is walked for any other message.

// awaitedKey is there for a message that was named as a parent before it came.
func (e *edit) awaitedKey(cu, id string) string {
	return atAwaited + e.au + "/" + cu + "/" + manager.Key(id)
}

// circle refuses a message whose parents lead back to it.
func circle(id string, parentOf func(string) (string, error)) error {
	seen := make(map[string]bool)
	for at := id; !seen[at]; {
		seen[at] = true
		parent, err := parentOf(at)
		if err != nil || parent == "" {
			return err
		}
		if parent == id {
			return fmt.Errorf("message %q: %w: its parents lead back to it, from message %q", id, tiers.ErrType, at)
		}
		at = parent
	}
	return nil // an older circle, without this one
}

// circular refuses messages whose parents lead back to them.
func circular(ms []Message) error {
	parents, named := make(map[string]string, len(ms)), make(map[string]bool)
	for i := range ms {
		m := &ms[i]
		parents[m.ID] = m.ParentID
		if named[m.ID] {
			if err := circle(m.ID, func(id string) (string, error) { return parents[id], nil }); err != nil {
				return err
			}
		}
		named[m.ParentID] = true
	}
	return nil
}

// kinKeys are those that tell whether a new message was awaited, and whether its
// parent is there.
func (e *edit) kinKeys(cu string, m *Message) []string {
	if m.ParentID == "" || checkID("message", m.ParentID) != nil {
		return nil // of such a name there will be no message
	}
	return []string{e.awaitedKey(cu, m.ID), e.knownKey(cu, m.ParentID)}
}

// kin looks after the parents of the messages that one call appends.
type kin struct {
	named map[string]bool // as parents by the call, that had not come
}

// joins refuses a new message, already stored in the transaction, whose parents lead
// back to it. There tells of the keys of kinKeys.
func (k *kin) joins(ctx context.Context, e *edit, cu string, m *Message, there func(key string) bool) error {
	awaited := k.named[m.ID]
	delete(k.named, m.ID)
	keys := e.kinKeys(cu, m)
	if keys == nil {
		return nil
	}
	if awaited || there(keys[0]) {
		if err := e.circle(ctx, cu, m.ID); err != nil {
			return err
		}
	}
	if !there(keys[1]) {
		k.named[m.ParentID] = true
	}
	return nil
}

// await notes the parents that have not come.
func (e *edit) await(ctx context.Context, cu string, parents map[string]bool) error {
	for _, parent := range slices.Sorted(maps.Keys(parents)) {
		if checkID("message", parent) != nil {
			continue
		}
		if err := e.save(ctx, e.conversations, e.awaitedKey(cu, parent), awaitedRecord{}); err != nil {
			return err
		}
	}
	return nil
}

// circle refuses a stored message whose parents lead back to it.
func (e *edit) circle(ctx context.Context, cu, id string) error {
	var failed error
	err := circle(id, func(id string) (parent string, err error) {
		parent, failed = e.parent(ctx, cu, id)
		return parent, failed
	})
	if err == nil || failed != nil {
		return failed
	}
	return refuse(err)
}

// parent answers the id of a message's parent: "" when it has none, is not there or
// can't be read.
func (e *edit) parent(ctx context.Context, cu, id string) (string, error) {
	if checkID("message", id) != nil {
		return "", nil //nolint:nilerr // what is no id is nobody's parent
	}
	p, found, err := load[place](ctx, e.Store, e.conversations, e.knownKey(cu, id))
	if err != nil || !found || p.Deleted {
		return "", err
	}
	raw, err := e.peek(ctx, e.conversations, messageKey(e.au, cu, p.Seq))
	if err != nil || raw == nil {
		return "", err
	}
	m, _ := unread[messageRecord](e.Store, raw)
	return m.ParentID, nil
}

// adopted looks at an edited message, already stored in the transaction, that got
// another parent.
func (e *edit) adopted(ctx context.Context, cu string, m *Message) error {
	if err := e.circle(ctx, cu, m.ID); err != nil || checkID("message", m.ParentID) != nil {
		return err
	}
	there, err := e.conversations.Exists(ctx, e.knownKey(cu, m.ParentID))
	if err != nil || there {
		return err
	}
	return e.await(ctx, cu, map[string]bool{m.ParentID: true})
}
