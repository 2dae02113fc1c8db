package txn

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/sagestore/sagestore/tiers"
)

// Waiting yields the rows that wait for the tier, in the order in which they
// are applied.
func (j *Journaled) Waiting(ctx context.Context) iter.Seq2[tiers.Row, error] {
	return func(yield func(tiers.Row, error) bool) {
		for after := uint64(0); ; {
			var rows []tiers.Row
			err := j.call(ctx, "list waiting", tiers.Key{}, func() (err error) {
				rows, err = j.system.Due(ctx, j.name, after, applyRows)
				return err
			})
			if err != nil {
				yield(tiers.Row{}, err)
				return
			}
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
			if len(rows) == 0 {
				return
			}
			after = rows[len(rows)-1].Seq
		}
	}
}

// Why answers what keeps a row: the tier is away, or has refused it. It is nil
// when it is on its way, as far as this process knows.
func (j *Journaled) Why(row *tiers.Row) error {
	if away := j.away(); away != nil {
		return away
	}
	j.apply.stuckMu.Lock()
	defer j.apply.stuckMu.Unlock()
	if s := j.apply.stuck[row.Key]; s.seq == row.Seq {
		return s.err
	}
	return nil
}

// Retry applies what waits. It answers how much is left, and why: the tier is
// away, which is tiers.ErrUnavailable, or refuses it, or another process is
// about to apply it. With wait it goes on until nothing is left but what the
// tier refuses, or ctx ends; else it tries once.
func (j *Journaled) Retry(ctx context.Context, wait bool) (left tiers.Backlog, err error) {
	if err := j.enter(ctx); err != nil {
		return left, tiers.Fail("retry", j.name, tiers.Key{}, err)
	}
	defer j.calls.Done()
	why := j.retry(ctx, wait)
	left, err = j.system.Backlog(context.WithoutCancel(ctx), j.name)
	if err == nil && left.Rows > 0 {
		err = why
	}
	return left, tiers.Fail("retry", j.name, tiers.Key{}, err)
}

func (j *Journaled) retry(ctx context.Context, wait bool) error {
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		err := j.drain(ctx)
		away := j.away()
		if away != nil {
			err = away
		}
		switch {
		case err == nil || !wait || ctx.Err() != nil:
			return err
		case away != nil:
			if j.outage.Ready(ctx) != nil {
				return err
			}
		case errors.Is(err, errBusy), isAway(err), errors.Is(err, tiers.ErrCommitUnknown):
			if j.clock.Sleep(ctx, pause) != nil {
				return err
			}
		default: // it would refuse them again
			return err
		}
	}
}

// Drop removes rows from the journal without applying them: those that are
// still the ones given, told by Seq. It answers how many. Nobody applies rows
// meanwhile, so that none of those is in the tier, unless an attempt to apply it
// got no answer; ctx bounds the wait for another process that does.
func (j *Journaled) Drop(ctx context.Context, rows []tiers.Row) (dropped int, err error) {
	err = j.call(ctx, "drop", tiers.Key{}, func() error {
		if j.apply.turn.Acquire(ctx, 1) != nil {
			return context.Cause(ctx)
		}
		defer j.apply.turn.Release(1)
		unlock, err := j.aloneSoon(ctx)
		if err != nil {
			return err
		}
		defer unlock()
		for some := range slices.Chunk(rows, applyRows) {
			n, err := j.dropRows(ctx, some)
			dropped += n
			if err != nil {
				return err
			}
		}
		return j.look(ctx)
	})
	return dropped, err
}

func (j *Journaled) dropRows(ctx context.Context, rows []tiers.Row) (dropped int, err error) {
	var still []tiers.Row
	for i := range rows {
		now, err := j.system.Pending(ctx, j.name, rows[i].Key)
		if err != nil && !isNotFound(err) {
			return 0, err
		}
		if err == nil && now.Seq == rows[i].Seq {
			still = append(still, rows[i])
		}
	}
	if len(still) == 0 {
		return 0, nil
	}
	if err := j.system.Done(ctx, still); err != nil {
		return 0, err
	}
	j.apply.unstick(still)
	return len(still), nil
}

// aloneSoon waits for another process that applies rows.
func (j *Journaled) aloneSoon(ctx context.Context) (unlock func(), err error) {
	for {
		unlock, err := j.alone(ctx)
		if !errors.Is(err, errBusy) {
			return unlock, err
		}
		if j.clock.Sleep(ctx, firstRetry) != nil {
			return nil, err
		}
	}
}
