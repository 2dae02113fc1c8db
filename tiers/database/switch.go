package database

import (
	"context"
	"slices"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.RowSwitcher = (*Tier)(nil)

const (
	clearSpace = `DELETE FROM records WHERE namespace = ? AND category = ?`
	moveSpace  = `UPDATE records SET namespace = ?, category = ?, version = ? WHERE namespace = ? AND category = ?`
)

// Switch implements tiers.Switcher. The trigger of the full-text index removes the
// entries of what is replaced; those of what comes keep their rows.
func (t *Tier) Switch(ctx context.Context, moves []tiers.Move) ([]tiers.Moved, error) {
	moved, _, err := t.SwitchRows(ctx, moves, nil)
	return moved, err
}

// SwitchRows implements tiers.RowSwitcher.
func (t *Tier) SwitchRows(ctx context.Context, moves []tiers.Move, rows []tiers.RowMove) (moved []tiers.Moved, brought []int64, err error) {
	if err := engine.CheckSwitch(moves, rows); err != nil {
		return nil, nil, t.failed("switch", tiers.Key{}, err)
	}
	moves, rows = slices.Clone(moves), slices.Clone(rows)
	var done []tiers.Moved
	var come []int64
	err = t.writer.do(ctx, &job{several: true, run: func(x *tx) (err error) {
		if done, err = x.switchSpaces(moves); err == nil {
			come, err = x.switchRows(rows)
		}
		return err
	}})
	if err != nil {
		return nil, nil, t.failed("switch", tiers.Key{}, err)
	}
	return done, come, nil
}

func (x *tx) switchSpaces(moves []tiers.Move) (done []tiers.Moved, err error) {
	if len(moves) == 0 {
		return nil, nil
	}
	done = make([]tiers.Moved, len(moves))
	for i, m := range moves {
		version := x.next(x.now())
		if err := x.makeEntries(); err != nil { // so that the trigger sees them
			return nil, err
		}
		if done[i].Replaced, err = x.exec(clearSpace, m.To.Namespace, m.To.Category); err != nil {
			return nil, err
		}
		done[i].Brought, err = x.exec(moveSpace, m.To.Namespace, m.To.Category, micro(version), m.From.Namespace, m.From.Category)
		if err != nil {
			return nil, err
		}
	}
	return done, x.raiseGaps()
}
