package sessionlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// chunk is how many records are removed at a time.
const chunk = 500

// tries bounds how often a chunk is tried again because others are at it too.
const tries = 100

// errDone says that somebody else has finished.
var errDone = errors.New("it was removed")

// Finish removes what a deleted session has held, outside of a transaction. It does
// nothing when that was done.
func (b Books) Finish(ctx context.Context, id string) error {
	err := b.finish(ctx, id)
	if errors.Is(err, errDone) {
		return nil
	}
	return err
}

func (b Books) finish(ctx context.Context, id string) error {
	noted := b.noted(gone + Key(id))
	if there, err := noted(ctx); err != nil || !there {
		return err
	}
	// What others hold of it in memory goes, and nothing is saved into it any more. One
	// that was begun under the id since, after somebody else has removed this one, is
	// left alone.
	if err := b.m.EndSession(ctx, id, manager.OnlyIf(noted)); err != nil {
		return err
	}
	for i := range b.holdings {
		if err := b.clear(ctx, i, id); err != nil {
			return err
		}
	}
	return b.removing(ctx, id, func(in Books) error {
		if err := in.notes.Save(ctx, over+Key(id), note{id}); err != nil {
			return err
		}
		_, err := in.notes.Delete(ctx, gone+Key(id))
		return err
	})
}

// noted answers what tells whether a note is there now.
func (b Books) noted(key string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		_, err := b.notes.Entry(ctx, key, manager.Fresh())
		if errors.Is(err, tiers.ErrNotFound) {
			return false, nil
		}
		return err == nil, err
	}
}

// clear removes what one category holds of the session.
func (b Books) clear(ctx context.Context, holding int, id string) error {
	for {
		var keys []string
		for e, err := range b.holdings[holding].List(ctx, manager.Prefix(Key(id)+"/"), manager.KeysOnly(), manager.Limit(chunk)) {
			if err != nil && e.Key == "" {
				return err
			}
			keys = append(keys, e.Key) // a damaged one as well
		}
		if len(keys) == 0 {
			return nil
		}
		err := b.removing(ctx, id, func(in Books) error {
			_, err := in.holdings[holding].DeleteMany(ctx, keys...)
			return err
		})
		if err != nil {
			return err
		}
	}
}

// removing runs a part of a removal in a transaction that is conditional on the
// removal being under way.
func (b Books) removing(ctx context.Context, id string, fn func(in Books) error) error {
	return b.m.Update(ctx, func(tx *manager.Tx) error {
		in := b.In(tx)
		there, err := in.notes.Exists(ctx, gone+Key(id))
		if err != nil {
			return err
		}
		if !there {
			return errDone
		}
		return fn(in)
	}, manager.WithRetry(tries))
}

// FinishAll does what others have left undone.
func (b Books) FinishAll(ctx context.Context) error {
	var errs []error
	var ids []string
	for e, err := range b.notes.List(ctx, manager.Prefix(gone)) {
		switch {
		case err == nil:
			ids = append(ids, e.Value.Session)
		case e.Key == "":
			return err
		default:
			errs = append(errs, fmt.Errorf("a deletion that can't be read: %w", err))
		}
	}
	for _, id := range ids {
		errs = append(errs, b.Finish(ctx, id))
	}
	return errors.Join(errs...)
}
