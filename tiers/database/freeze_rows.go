package database

import (
	"context"
	"database/sql/driver"
	"iter"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.RowCopy = (*copied)(nil)

// Rows implements tiers.RowCopy.
func (d *copied) Rows(ctx context.Context) iter.Seq2[tiers.Row, error] {
	return func(yield func(tiers.Row, error) bool) {
		for after := int64(0); ; {
			var page []tiers.Row
			bytes := 0
			err := engine.Over(ctx)
			if err == nil {
				err = d.c.query(ctx, rowsAfter, []driver.Value{after, int64(pageRows)}, func(row []driver.Value) (bool, error) {
					r, err := scanRow(row)
					page = append(page, r)
					bytes += rowBytes(&r)
					return bytes < pageBytes, err
				})
			}
			if err != nil {
				yield(tiers.Row{}, d.t.fail("read the journal of a copy", tiers.Key{}, err))
				return
			}
			for _, r := range page {
				if !yield(r, nil) {
					return
				}
				after = int64(min(r.Seq, 1<<62))
			}
			if len(page) == 0 {
				return
			}
		}
	}
}
