package txn

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sagestore/sagestore/tiers"
)

// reach is whether any process has reached the server under this epoch. Until
// then nothing of the store is on the server, and the journal is the whole
// truth.
//
// A fact says so to all processes. A guard says it to an append with a
// condition, which has to know it in the same commit: whoever reaches the server
// first makes the guard a live row before it does anything there, and such an
// append demands that it is none.
type reach struct {
	known atomic.Bool // it has been reached; never taken back

	mu sync.Mutex
}

const reachedSuffix = ".reached"

// IsGuard tells whether rows of this tier in a journal are no writes that wait, but the
// guard of another tier.
func IsGuard(tier string) bool { return strings.HasSuffix(tier, reachedSuffix) }

func (j *Journaled) reachedFact() string { return j.name + reachedSuffix }

func (j *Journaled) guard(live bool) tiers.Row {
	return tiers.Row{Tier: j.name + reachedSuffix, Owner: j.owner, Record: tiers.Record{
		Key: tiers.Key{Category: "epoch", Name: cmp.Or(j.epoch, "none")}, Codec: "raw", Schema: 1, Deleted: !live,
	}}
}

// meet notes that the server answers, before the first call that relies on it.
func (j *Journaled) meet(ctx context.Context) error {
	if j.reach.known.Load() || j.away() != nil {
		return nil
	}
	j.reach.mu.Lock()
	defer j.reach.mu.Unlock()
	if j.reach.known.Load() {
		return nil
	}
	if untouched, err := j.untouched(ctx); err != nil || !untouched {
		return err
	}
	if _, err := j.system.SetFact(ctx, j.reachedFact(), []byte(j.epoch), false); err != nil {
		return err
	}
	return j.shut(ctx)
}

// shut makes the guard refuse conditions from now on.
func (j *Journaled) shut(ctx context.Context) error {
	// Rows of others may have come since the last look, while nobody had to ask.
	j.view.begin()
	defer j.view.end()
	want := j.guard(true)
	row, err := j.system.Pending(ctx, want.Tier, want.Key)
	if isNotFound(err) || err == nil && row.Deleted {
		_, err = j.system.Append(ctx, []tiers.Row{want}, nil, 0)
	}
	if err != nil {
		return err
	}
	j.reach.known.Store(true)
	j.apply.kick()
	return nil
}

// untouched tells whether nobody has reached the server under this epoch. Asked
// after the journal, it makes the journal's answer final.
func (j *Journaled) untouched(ctx context.Context) (bool, error) {
	if j.reach.known.Load() {
		return false, nil
	}
	epoch, err := j.system.Fact(ctx, j.reachedFact())
	switch {
	case isNotFound(err):
		return true, nil
	case err != nil:
		return false, err
	case string(epoch) != j.epoch:
		return true, nil
	}
	return false, j.shut(ctx) // whoever wrote the fact may not have come to the guard
}

// absent is the answer for a key without a row, when the server is away with
// this error.
func (j *Journaled) absent(ctx context.Context, away error) error {
	untouched, err := j.untouched(ctx)
	switch {
	case err != nil:
		return err
	case untouched:
		return tiers.ErrNotFound
	}
	return away
}

// appendIf appends rows under their conditions, for as long as the journal is
// the whole truth.
func (j *Journaled) appendIf(ctx context.Context, rows []tiers.Row, conds []tiers.Cond, away error) ([]tiers.Row, error) {
	untouched, err := j.untouched(ctx)
	if err != nil {
		return nil, err
	}
	if !untouched {
		return nil, tiers.Hint(away, "without the server nobody can tell whether the condition holds; save without one, or try again later")
	}
	if conds == nil {
		conds = make([]tiers.Cond, len(rows))
	}
	n := len(rows)
	left, err := inTurn(rows, conds)
	if err != nil {
		return nil, errors.Join(err, j.others(ctx, rows, left))
	}
	conds = left
	rows = append(rows[:n:n], j.guard(false))
	conds = append(conds[:n:n], tiers.If(0))
	out, err := j.append(ctx, rows, conds)
	if err == nil {
		return out[:n], nil
	}
	if untouched, e := j.untouched(ctx); e == nil && !untouched {
		return nil, away // the guard refused
	}
	return nil, err
}

// inTurn holds conditions against what earlier rows of the same batch leave, and
// answers those that are left for the journal.
func inTurn(rows []tiers.Row, conds []tiers.Cond) ([]tiers.Cond, error) {
	left := append([]tiers.Cond{}, conds...)
	before := map[tiers.Key]int{}
	var errs []error
	for i := range rows {
		if k, again := before[rows[i].Key]; again {
			left[i] = tiers.Cond{}
			if want, set := conds[i].Version(); set {
				errs = append(errs, tiers.Fail("save", "", rows[i].Key, holdsAfter(&rows[k], want)))
			}
		}
		before[rows[i].Key] = i
	}
	return left, errors.Join(errs...)
}

// holdsAfter tells whether the version may be demanded once the row is there.
// Nobody can know the version that it is given.
func holdsAfter(row *tiers.Row, want tiers.Version) error {
	switch gone := row.Deleted || !row.Expires.IsZero() && !row.Expires.After(row.Updated); {
	case want == 0 && gone:
		return nil
	case want == 0:
		return tiers.ErrExists
	}
	return tiers.ErrConflict
}

// others answers what is wrong with the rows that inTurn left to the journal,
// for a batch that is refused anyhow.
func (j *Journaled) others(ctx context.Context, rows []tiers.Row, conds []tiers.Cond) error {
	var errs []error
	for i := range rows {
		if _, set := conds[i].Version(); !set {
			continue
		}
		row, found, err := j.row(ctx, rows[i].Key)
		if err == nil {
			v := tiers.Version(0)
			if found && j.live(&row) {
				v = row.Version
			}
			err = conds[i].Holds(v)
		}
		errs = append(errs, tiers.Fail("save", j.name, rows[i].Key, err))
	}
	return errors.Join(errs...)
}
