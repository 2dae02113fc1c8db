package postgres

import (
	"context"
	"slices"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.RowSwitcher = (*Tier)(nil)

const (
	clearSpace = `DELETE FROM ~.records WHERE namespace = $1 AND category = $2`
	moveSpace  = `UPDATE ~.records SET namespace = $1, category = $2, version = $3 WHERE namespace = $4 AND category = $5`
)

// Switch implements tiers.Switcher.
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
	as := asRead(rows)
	j := &job{alone: func(ctx context.Context, x *tx) (err error) {
		if done, err = x.switchSpaces(ctx, moves); err == nil {
			come, err = x.switchRows(ctx, rows)
		}
		return err
	}}
	if len(rows) > 0 {
		j.wants = as.wants
		j.run = func(x *tx) error {
			x.come()
			return as.hold(x)
		}
	}
	if err := t.writer.do(ctx, j); err != nil {
		return nil, nil, t.failed("switch", tiers.Key{}, err)
	}
	return done, come, nil
}

// switchSpaces comes before what the others of the group have asked for is written, which
// was decided on the records from before.
func (x *tx) switchSpaces(ctx context.Context, moves []tiers.Move) ([]tiers.Moved, error) {
	sql := x.w.t.sql
	done := make([]tiers.Moved, len(moves))
	for i, m := range moves {
		if x.writesTo(m.To) || x.writesTo(m.From) {
			return nil, errShared
		}
		gone, err := x.w.conn.Exec(ctx, sql(clearSpace), m.To.Namespace, m.To.Category)
		if err != nil {
			return nil, err
		}
		come, err := x.w.conn.Exec(ctx, sql(moveSpace), m.To.Namespace, m.To.Category, number(x.next()), m.From.Namespace, m.From.Category)
		if err != nil {
			return nil, err
		}
		done[i] = tiers.Moved{Brought: come.RowsAffected(), Replaced: gone.RowsAffected()}
		x.gaps = true
	}
	return done, nil
}

// writesTo tells whether the jobs of the group change records of a space.
func (x *tx) writesTo(space tiers.Space) bool {
	for k, s := range x.records {
		if s.written() && k.Space() == space {
			return true
		}
	}
	return false
}
