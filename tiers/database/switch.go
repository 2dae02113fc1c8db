package database

import (
	"context"

	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.Switcher = (*Tier)(nil)

const (
	clearSpace = `DELETE FROM records WHERE namespace = ? AND category = ?`
	moveSpace  = `UPDATE records SET namespace = ?, category = ?, version = ? WHERE namespace = ? AND category = ?`
)

// Switch implements tiers.Switcher. The trigger of the full-text index removes the
// entries of what is replaced; those of what comes keep their rows.
func (t *Tier) Switch(ctx context.Context, moves []tiers.Move) ([]tiers.Moved, error) {
	for _, m := range moves {
		for _, s := range []tiers.Space{m.From, m.To} {
			if err := s.Check(); err != nil {
				return nil, t.fail("switch", tiers.Key{Namespace: s.Namespace, Category: s.Category}, err)
			}
		}
	}
	var done []tiers.Moved
	err := t.writer.do(ctx, &job{several: true, run: func(x *tx) (err error) {
		done = make([]tiers.Moved, len(moves))
		for i, m := range moves {
			version := x.next(x.now())
			if err := x.makeEntries(); err != nil { // so that the trigger sees them
				return err
			}
			if done[i].Replaced, err = x.exec(clearSpace, m.To.Namespace, m.To.Category); err != nil {
				return err
			}
			done[i].Brought, err = x.exec(moveSpace, m.To.Namespace, m.To.Category, micro(version), m.From.Namespace, m.From.Category)
			if err != nil {
				return err
			}
		}
		return x.raiseGaps()
	}})
	if err != nil {
		return nil, t.failed("switch", tiers.Key{}, err)
	}
	return done, nil
}
