package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// Checkpoints yields the checkpoints of an agent without what they show, the last
// made first. An agent that is not there has none. One that can't be read is an
// error beside an info that has only its number, and the list goes on; an error
// beside a zero info ends it.
func (s *Store) Checkpoints(ctx context.Context, agentID string, from After) iter.Seq2[CheckpointInfo, error] {
	return func(yield func(CheckpointInfo, error) bool) {
		opts := []manager.ListOption{manager.Reverse(), manager.Limit(from.Limit)}
		au, found, err := s.agent(ctx, agentID)
		if err == nil && found && from.ID != "" {
			var e *edit
			var n uint64
			if e, n, _, _, err = s.locate(ctx, agentID, from.ID); err == nil {
				opts = append(opts, manager.After(e.infoKey(n)))
			}
		}
		if err == nil {
			err = from.check()
		}
		if err != nil {
			yield(CheckpointInfo{}, fail("list checkpoints", categoryCheckpoints, "", reveal(err)))
			return
		}
		if !found {
			return
		}
		for entry, err := range s.checkpoints.List(ctx, append(opts, manager.Prefix(atInfo+au+"/"))...) {
			n, _ := lastNumber(entry.Key)
			info := CheckpointInfo{Number: n}
			var r infoRecord
			if err == nil {
				if err = s.decode(entry.Value, &r); err != nil {
					err = corrupt(entry.Key, err)
				} else {
					info = r.checkpointInfo(au, agentID, n, len(entry.Value))
				}
			}
			if !yield(info, fail("list checkpoints", categoryCheckpoints, "", err)) {
				return
			}
		}
	}
}

// Prune removes the oldest checkpoints of an agent that are not kept, until keep of
// them are left, and tells how many it removed.
func (s *Store) Prune(ctx context.Context, agentID string, keep int) (removed int, err error) {
	if keep < 0 {
		return 0, fail("prune checkpoints", categoryCheckpoints, "", fmt.Errorf("%w: %d are to stay; 0 is the least", tiers.ErrType, keep))
	}
	err = s.update(ctx, turn{agent: agentID}, func(s *Store) error {
		removed = 0
		e, err := s.openAgent(ctx, agentID)
		if err != nil {
			return err
		}
		if removed = max(0, e.led.Untagged-keep); removed == 0 {
			return nil
		}
		if err := e.dropOldest(ctx, removed); err != nil {
			return err
		}
		return e.saveLedger(ctx)
	})
	if err != nil {
		return 0, fail("prune checkpoints", categoryCheckpoints, "", err)
	}
	return removed, nil
}

// dropOldest removes the oldest checkpoints that are not kept. Those that stand side by
// side go together: what only they showed is looked for once.
func (e *edit) dropOldest(ctx context.Context, victims int) error {
	type point struct {
		n uint64
		r *infoRecord
	}
	var run []point
	var before uint64 // the last one that stays, or 0
	end := func(next uint64) error {
		if len(run) == 0 {
			return nil
		}
		var keys []string
		for _, p := range run {
			if keys = append(keys, e.infoKey(p.n)); p.r.ID != "" {
				keys = append(keys, atID+manager.Key(p.r.ID))
			}
			if p.r.Copy {
				if err := e.clear(ctx, e.checkpoints, atCopy+e.au+"/"+numbered(p.n)+"/"); err != nil {
					return err
				}
			}
			e.led.counted(false, -1)
		}
		if e.led.Newest == run[len(run)-1].n {
			e.led.Newest = before
		}
		if _, err := e.checkpoints.DeleteMany(ctx, keys...); err != nil {
			return err
		}
		for _, c := range []*manager.Collection[json.RawMessage]{e.state, e.conversations} {
			if err := e.forget(ctx, c, before, run[0].n, next); err != nil {
				return err
			}
		}
		run = nil
		return nil
	}
	var err error
	for n, r := range e.all(ctx, &err) {
		if r.Keep || victims == 0 {
			if err := end(n); err != nil {
				return err
			}
			if before = n; victims == 0 {
				return nil
			}
			continue
		}
		run = append(run, point{n, r})
		victims--
	}
	if err != nil {
		return err
	}
	return end(0)
}

// untagged yields the checkpoints that may be removed, as all does.
func (e *edit) untagged(ctx context.Context, failed *error) iter.Seq2[uint64, *infoRecord] {
	return func(yield func(uint64, *infoRecord) bool) {
		for n, r := range e.all(ctx, failed) {
			if !r.Keep && !yield(n, r) {
				return
			}
		}
	}
}

// all yields the checkpoints, oldest first. One that can't be read ends it with an
// error: nothing is removed from a list with holes.
func (e *edit) all(ctx context.Context, failed *error) iter.Seq2[uint64, *infoRecord] {
	return func(yield func(uint64, *infoRecord) bool) {
		for entry, err := range e.checkpoints.List(ctx, manager.Prefix(atInfo+e.au+"/")) {
			var r infoRecord
			if err == nil {
				err = e.decode(entry.Value, &r)
			}
			n, ok := lastNumber(entry.Key)
			if err != nil || !ok {
				*failed = corrupt(entry.Key, errors.Join(err, tiers.ErrCorrupt))
				return
			}
			if !yield(n, &r) {
				return
			}
		}
	}
}

// clean removes what is more than a maximum, but for the checkpoints named. It
// does all of it or nothing, and says nothing: the next one tries again.
func (e *edit) clean(ctx context.Context, most int, not ...uint64) {
	excess := e.led.Untagged - most
	if excess <= 0 {
		return
	}
	before := e.led
	err := e.tx.Update(ctx, func(tx *manager.Tx) error {
		in := *e
		in.Store = e.In(tx)
		defer func() { e.led = in.led }()
		victims, others := make(map[uint64]*infoRecord), make(map[uint64]*infoRecord)
		var order, later []uint64
		var err error
		for n, r := range in.untagged(ctx, &err) {
			switch {
			case slices.Contains(not, n):
				continue
			case r.Kind == Automatic:
				victims[n], order = r, append(order, n)
			case len(later) < excess:
				others[n], later = r, append(later, n)
			}
			if len(order) == excess {
				break
			}
		}
		for _, n := range later {
			if len(order) < excess {
				victims[n], order = others[n], append(order, n)
			}
		}
		if err != nil {
			return err
		}
		for _, n := range order {
			if err := in.drop(ctx, n, victims[n]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		e.led = before
		e.core.auto.uncleaned.Add(1)
	}
}

// DeleteCheckpoint removes a checkpoint, a kept one as well, and tells whether it
// was there.
func (s *Store) DeleteCheckpoint(ctx context.Context, agentID, id string) (existed bool, err error) {
	err = s.update(ctx, turn{agent: agentID}, func(s *Store) error {
		e, n, r, _, err := s.locate(ctx, agentID, id)
		if existed = err == nil; errors.Is(reveal(err), errNoCheckpoint) || errors.Is(reveal(err), errNoAgent) {
			return nil
		}
		if err == nil {
			err = e.drop(ctx, n, &r)
		}
		if err == nil {
			err = e.saveLedger(ctx)
		}
		return err
	})
	return existed && err == nil, fail("delete checkpoint", categoryCheckpoints, id, err)
}

// KeepCheckpoint tags a checkpoint, so that no clean-up removes it, or takes the
// tag away.
func (s *Store) KeepCheckpoint(ctx context.Context, agentID, id string, keep bool) error {
	err := s.update(ctx, turn{agent: agentID}, func(s *Store) error {
		e, n, r, _, err := s.locate(ctx, agentID, id)
		if err != nil || r.Keep == keep {
			return err
		}
		e.led.counted(r.Keep, -1)
		e.led.counted(keep, 1)
		r.Keep = keep
		if err := e.save(ctx, e.checkpoints, e.infoKey(n), r); err != nil {
			return err
		}
		return e.saveLedger(ctx)
	})
	return fail("keep checkpoint", categoryCheckpoints, id, err)
}

// drop removes a checkpoint, with what only it showed.
func (e *edit) drop(ctx context.Context, n uint64, r *infoRecord) error {
	before, err := e.neighbour(ctx, n, manager.Reverse())
	if err != nil {
		return err
	}
	next, err := e.neighbour(ctx, n)
	if err != nil {
		return err
	}
	keys := []string{e.infoKey(n)}
	if r.ID != "" {
		keys = append(keys, atID+manager.Key(r.ID))
	}
	if _, err := e.checkpoints.DeleteMany(ctx, keys...); err != nil {
		return err
	}
	if r.Copy {
		if err := e.clear(ctx, e.checkpoints, atCopy+e.au+"/"+numbered(n)+"/"); err != nil {
			return err
		}
	}
	for _, c := range []*manager.Collection[json.RawMessage]{e.state, e.conversations} {
		if err := e.forget(ctx, c, before, n, next); err != nil {
			return err
		}
	}
	e.led.counted(r.Keep, -1)
	if e.led.Newest == n {
		e.led.Newest = before
	}
	return nil
}

// neighbour answers the number of the checkpoint after n, or before it; 0 for none.
func (e *edit) neighbour(ctx context.Context, n uint64, order ...manager.ListOption) (uint64, error) {
	opts := append(order, manager.Prefix(atInfo+e.au+"/"), manager.After(e.infoKey(n)), manager.Limit(1), manager.KeysOnly())
	for entry, err := range e.checkpoints.List(ctx, opts...) {
		if err != nil && entry.Key == "" {
			return 0, err
		}
		at, _ := lastNumber(entry.Key)
		return at, nil
	}
	return 0, nil
}

// forget removes from the history what was shown by checkpoint n and neither by
// the one before nor by the next, 0 for none.
func (e *edit) forget(ctx context.Context, c *manager.Collection[json.RawMessage], before, n, next uint64) error {
	type past struct {
		key string
		pastKey
		raw json.RawMessage
	}
	var over []past
	for entry, err := range c.List(ctx, manager.Prefix(historyPrefix(e.au)), manager.After(historyPrefix(e.au)+numbered(n+1))) {
		k, ok := parseHistory(e.au, entry.Key)
		switch {
		case err != nil && (entry.Key == "" || !ok):
			return err
		case !ok:
			continue
		}
		if next > 0 && k.until > next {
			break
		}
		if k.since > before {
			over = append(over, past{entry.Key, k, entry.Value})
		}
	}
	for _, p := range over {
		if _, err := c.Delete(ctx, p.key); err != nil {
			return err
		}
		if cu, is := strings.CutPrefix(p.part, partWhole); is {
			if err := e.gone(ctx, cu); err != nil {
				return err
			}
		} else if err := e.giveUp(ctx, p.part, p.raw); err != nil {
			return err
		}
	}
	return nil
}
