package agent

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// edit is one change of an agent, in a transaction. It writes versioned records
// so that what a checkpoint shows stays, and keeps the counts.
type edit struct {
	*Store
	au    string
	led   ledger
	units map[string]*unit // by the key of their record; those that were changed
}

func (s *Store) edit(au string, led ledger) *edit {
	return &edit{Store: s, au: au, led: led, units: make(map[string]*unit)}
}

// since is the number of the first checkpoint that will show what is written now.
func (e *edit) since() uint64 { return e.led.Last + 1 }

// home answers the category that keeps a part.
func (s *Store) home(part string) *manager.Collection[json.RawMessage] {
	if part == partState || strings.HasPrefix(part, partOwn) {
		return s.state
	}
	return s.conversations
}

// put replaces a part by another form of it; nil is none, before or after.
func (e *edit) put(ctx context.Context, u *unit, part, key string, old, raw json.RawMessage, opts ...manager.SaveOption) error {
	c := e.home(part)
	if old != nil {
		u.count(part, old, -1)
		if err := e.keep(ctx, part, old); err != nil {
			return err
		}
	}
	if raw == nil {
		_, err := c.Delete(ctx, key)
		return err
	}
	u.count(part, raw, 1)
	return c.Save(ctx, key, raw, opts...)
}

// keep copies the old form of a part to the history when some checkpoint shows it,
// and else gives up what it held. One that does not say since when it is there is
// damaged: a checkpoint that showed it is, too, and the others must not show it.
func (e *edit) keep(ctx context.Context, part string, old json.RawMessage) error {
	since, ok := readSince(old)
	if !ok || since > e.led.Newest {
		return e.giveUp(ctx, part, old)
	}
	return e.home(part).Save(ctx, historyKey(e.au, e.since(), since, part), old)
}

// unit answers the counts of the agent's own records, or of a conversation, for
// changing them.
func (e *edit) unit(ctx context.Context, cu string) (*unit, error) {
	c, key := e.unitAt(cu)
	if u := e.units[key]; u != nil {
		return u, nil
	}
	u, _, err := load[unit](ctx, e.Store, c, key)
	if err != nil {
		return nil, err
	}
	if cu != "" {
		if err := e.touch(ctx, cu, &u); err != nil {
			return nil, err
		}
	}
	e.units[key] = &u
	return &u, nil
}

// touch notes, before the first change of a conversation after a checkpoint, what
// it added to that checkpoint's totals.
func (e *edit) touch(ctx context.Context, cu string, u *unit) error {
	if u.Round == e.led.Rounds+1 {
		return nil // it is noted
	}
	u.Round = e.led.Rounds + 1
	return e.save(ctx, e.conversations, atDirty+e.au+"/"+cu, u.shown())
}

// shown is what a checkpoint of now counts of the conversation.
func (u *unit) shown() totals {
	if u.Dead {
		return totals{}
	}
	return u.totals
}

func (s *Store) unitAtOf(au, cu string) (c *manager.Collection[json.RawMessage], key string) {
	if cu == "" {
		return s.state, atSum + au
	}
	return s.conversations, atSum + au + "/" + cu
}

func (e *edit) unitAt(cu string) (*manager.Collection[json.RawMessage], string) {
	return e.unitAtOf(e.au, cu)
}

// flush stores the counts that were changed, and begins anew.
func (e *edit) flush(ctx context.Context) error {
	for _, key := range slices.Sorted(maps.Keys(e.units)) {
		c := e.conversations
		if key == atSum+e.au {
			c = e.state
		}
		if err := e.save(ctx, c, key, e.units[key]); err != nil {
			return err
		}
	}
	clear(e.units)
	return nil
}

// raw answers a record as it is stored, nil for none.
func (s *Store) raw(ctx context.Context, c *manager.Collection[json.RawMessage], key string) (json.RawMessage, error) {
	raw, err := c.Load(ctx, key)
	if errors.Is(err, tiers.ErrNotFound) {
		return nil, nil
	}
	return raw, err
}

// contents of attachments over this many bytes are stored by themselves.
const inlineContent = 4 << 10

func (e *edit) contentKeys(cu, hash string) (content, count string) {
	at := e.au + "/" + cu + "/" + hash
	return atContent + at, atHolders + at
}

// hold notes that one more record holds the contents.
func (e *edit) hold(ctx context.Context, cu string, contents map[string]string) error {
	for _, hash := range slices.Sorted(maps.Keys(contents)) {
		content, count := e.contentKeys(cu, hash)
		h, found, err := load[holders](ctx, e.Store, e.conversations, count)
		if err != nil {
			return err
		}
		if !found {
			if err := e.save(ctx, e.conversations, content, contents[hash]); err != nil {
				return err
			}
		}
		h.Count++
		if err := e.save(ctx, e.conversations, count, h); err != nil {
			return err
		}
	}
	return nil
}

// held answers the digests of what a message's record holds. Of a damaged one it is
// nothing: that stays until the conversation goes.
func held(raw json.RawMessage) []string {
	var r struct {
		Contents map[int]string `json:"contents"`
	}
	_ = json.Unmarshal(raw, &r)
	return slices.Compact(slices.Sorted(maps.Values(r.Contents)))
}

// giveUp takes note that a record that held contents is no more.
func (e *edit) giveUp(ctx context.Context, part string, raw json.RawMessage) error {
	cu, _, ok := parseMessagePart(part)
	if !ok {
		return nil
	}
	for _, hash := range held(raw) {
		content, count := e.contentKeys(cu, hash)
		h, _, err := load[holders](ctx, e.Store, e.conversations, count)
		if err != nil {
			return err
		}
		if h.Count--; h.Count > 0 {
			err = e.save(ctx, e.conversations, count, h)
		} else if _, err = e.conversations.DeleteMany(ctx, content, count); err == nil {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}
