package postgres

import (
	"context"

	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.Switcher = (*Tier)(nil)

const (
	clearSpace = `DELETE FROM ~.records WHERE namespace = $1 AND category = $2`
	moveSpace  = `UPDATE ~.records SET namespace = $1, category = $2, version = $3 WHERE namespace = $4 AND category = $5`
)

// Switch implements tiers.Switcher.
func (t *Tier) Switch(ctx context.Context, moves []tiers.Move) ([]tiers.Moved, error) {
	for _, m := range moves {
		for _, s := range []tiers.Space{m.From, m.To} {
			if err := s.Check(); err != nil {
				return nil, t.fail("switch", tiers.Key{Namespace: s.Namespace, Category: s.Category}, err)
			}
		}
	}
	moves = append([]tiers.Move{}, moves...)
	var done []tiers.Moved
	err := t.writer.do(ctx, &job{
		alone: func(ctx context.Context, x *tx) error {
			done = make([]tiers.Moved, len(moves))
			for i, m := range moves {
				gone, err := x.w.conn.Exec(ctx, t.sql(clearSpace), m.To.Namespace, m.To.Category)
				if err != nil {
					return err
				}
				come, err := x.w.conn.Exec(ctx, t.sql(moveSpace), m.To.Namespace, m.To.Category, number(x.next()), m.From.Namespace, m.From.Category)
				if err != nil {
					return err
				}
				done[i] = tiers.Moved{Brought: come.RowsAffected(), Replaced: gone.RowsAffected()}
			}
			x.gaps = true
			return nil
		},
	})
	if err != nil {
		return nil, t.failed("switch", tiers.Key{}, err)
	}
	return done, nil
}
