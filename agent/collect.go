package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// chunk is how many records are removed at a time.
const chunk = 500

func isNotFound(err error) bool { return errors.Is(err, tiers.ErrNotFound) }

// collectAfter removes what the transaction leaves behind once it is committed.
// An interruption loses nothing: the next deletion or [Store.Tend] goes on.
func (s *Store) collectAfter(au, cu string) {
	root := s.core.root
	if root == nil {
		return
	}
	s.tx.OnCommit(func(ctx context.Context) {
		_ = root.collect(ctx, au, cu) // it stays noted and is tried again
	})
}

// Tend removes what interrupted deletions have left behind. [Store.StartCheckpoints]
// has it done now and then.
func (s *Store) Tend(ctx context.Context) error {
	var errs []error
	for _, c := range []*manager.Collection[json.RawMessage]{s.state, s.conversations} {
		var all []string
		for entry, err := range c.List(ctx, manager.Prefix(atGone), manager.KeysOnly()) {
			if err != nil {
				return fail("tend", c.Category(), "", err)
			}
			all = append(all, strings.TrimPrefix(entry.Key, atGone))
		}
		for _, at := range all {
			au, cu, _ := strings.Cut(at, "/")
			errs = append(errs, fail("tend", c.Category(), "", s.collect(ctx, au, cu)))
		}
	}
	if s.core.root != nil {
		errs = append(errs, fail("tend", "session.state", "", s.core.root.books.FinishAll(ctx)))
	}
	return errors.Join(errs...)
}

// collect removes what belonged to a deleted agent, or to a deleted conversation
// that no checkpoint shows. Nobody reaches it any more, so it goes in chunks.
func (s *Store) collect(ctx context.Context, au, cu string) error {
	if cu != "" {
		at := au + "/" + cu
		for _, prefix := range []string{atMessage, atKnown, atAwaited, atCall, atContent, atHolders} {
			if err := s.clear(ctx, s.conversations, prefix+at+"/"); err != nil {
				return err
			}
		}
		_, err := s.conversations.DeleteMany(ctx, atSum+at, atGone+at) // the next checkpoint looks at what is dirty
		return err
	}
	if err := s.dropIndex(ctx, au); err != nil {
		return err
	}
	for _, prefix := range []string{
		atHead, atActive, atMessage, atKnown, atAwaited, atCall, atSum, atDirty, atContent, atHolders, atHistory, atGone,
	} {
		if err := s.clear(ctx, s.conversations, prefix+au+"/"); err != nil {
			return err
		}
	}
	for _, prefix := range []string{atOwn, atHistory} {
		if err := s.clear(ctx, s.state, prefix+au+"/"); err != nil {
			return err
		}
	}
	for _, prefix := range []string{atInfo, atCopy} {
		if err := s.clear(ctx, s.checkpoints, prefix+au+"/"); err != nil {
			return err
		}
	}
	if _, err := s.checkpoints.Delete(ctx, atRun+au); err != nil {
		return err
	}
	_, err := s.state.DeleteMany(ctx, atSum+au, atGone+au)
	return err
}

// clear deletes all keys with a prefix.
func (s *Store) clear(ctx context.Context, c *manager.Collection[json.RawMessage], prefix string) error {
	for {
		keys := make([]string, 0, chunk)
		for entry, err := range c.List(ctx, manager.Prefix(prefix), manager.KeysOnly(), manager.Limit(chunk)) {
			if err != nil && entry.Key == "" {
				return err
			}
			keys = append(keys, entry.Key) // a damaged one as well
		}
		if len(keys) == 0 {
			return nil
		}
		if _, err := c.DeleteMany(ctx, keys...); err != nil {
			return err
		}
	}
}

// dropIndex removes the ids of an agent's conversations and checkpoints, unless
// they stand for something else by now.
func (s *Store) dropIndex(ctx context.Context, au string) error {
	for _, in := range []struct {
		c      *manager.Collection[json.RawMessage]
		prefix string
		id     func(key string, raw json.RawMessage) string
	}{
		{s.conversations, atHead + au + "/", func(key string, _ json.RawMessage) string {
			return segment(strings.TrimPrefix(key, atHead+au+"/"))
		}},
		{s.checkpoints, atInfo + au + "/", func(_ string, raw json.RawMessage) string {
			var r infoRecord
			if s.decode(raw, &r) != nil {
				return ""
			}
			return r.ID
		}},
	} {
		for entry, err := range in.c.List(ctx, manager.Prefix(in.prefix)) {
			if err != nil && entry.Key == "" {
				return err
			}
			if id := in.id(entry.Key, entry.Value); id != "" {
				if err := s.dropID(ctx, in.c, id, au); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *Store) dropID(ctx context.Context, c *manager.Collection[json.RawMessage], id, au string) error {
	key := atID + manager.Key(id)
	entry, err := c.Entry(ctx, key)
	if err != nil {
		return ignoreNotFound(err)
	}
	var ref struct {
		Agent string `json:"agent"`
	}
	_ = s.decode(entry.Value, &ref) // one that can't be read stands for nothing
	if ref.Agent != au {
		return nil
	}
	_, err = c.Delete(ctx, key, manager.IfVersion(entry.Version))
	if errors.Is(err, tiers.ErrConflict) {
		return nil // it is another's by now
	}
	return err
}

func ignoreNotFound(err error) error {
	if isNotFound(err) {
		return nil
	}
	return err
}
