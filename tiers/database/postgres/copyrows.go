package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.RowCopy = (*copyFile)(nil)

// Rows implements tiers.RowCopy.
func (c *copyFile) Rows(ctx context.Context) iter.Seq2[tiers.Row, error] {
	return func(yield func(tiers.Row, error) bool) {
		err := c.walk(ctx, func(t *copyTable, _ int64, line []byte) error {
			switch t.name {
			case "records", "counters", "facts": // come before
				return nil
			case "journal":
			default:
				return errDone
			}
			row, err := t.parse(line)
			if err != nil {
				return err
			}
			r, err := row.waiting()
			if err == nil && !yield(r, nil) {
				return errDone
			}
			return err
		})
		if err != nil && !errors.Is(err, errDone) {
			yield(tiers.Row{}, tiers.Fail("read the journal of a copy", tierName, tiers.Key{}, err))
		}
	}
}

// waiting makes one of a row of the table journal.
func (r *copiedRow) waiting() (tiers.Row, error) {
	out := tiers.Row{Tier: r.text[0], Owner: r.text[4], Record: tiers.Record{
		Key: tiers.Key{Namespace: r.text[1], Category: r.text[2], Name: r.text[3]}, Codec: r.text[5], Deleted: r.truth, Value: notNil(r.bytes),
	}}
	if err := out.Check(); err != nil {
		return out, fmt.Errorf("%w: %w", tiers.ErrCorrupt, err)
	}
	n := r.numbers // seq, queued, bytes, schema, flags, version, created, updated, expires
	if n[0] < 1 || n[3] < 0 || n[3] > 1<<32-1 || n[4] < 0 || n[4] > 255 || n[5] < 1 {
		return out, fmt.Errorf("%w: seq %d, schema %d, flags %d, version %d", tiers.ErrCorrupt, n[0], n[3], n[4], n[5])
	}
	out.Seq, out.Schema, out.Flags, out.Version = uint64(n[0]), uint32(n[3]), tiers.Flags(n[4]), version(n[5]) //nolint:gosec // checked
	out.Created, out.Updated, out.Expires = tiers.FromMicro(n[6]), tiers.FromMicro(n[7]), tiers.FromMicro(n[8])
	if r.over != nil {
		out.Over = tiers.If(version(*r.over))
	}
	return out, nil
}
