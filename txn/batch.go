package txn

import (
	"context"
	"errors"
	"fmt"

	"github.com/sagestore/sagestore/tiers"
)

// Atomic tells whether a batch does nothing at all when any item fails. What
// goes into the journal does, whole.
func (j *Journaled) Atomic() bool {
	b, ok := tiers.As[tiers.Batcher](j.inner)
	return ok && b.Atomic()
}

// LoadMany answers rows of the keys that have one and asks the tier for the
// others.
func (j *Journaled) LoadMany(ctx context.Context, ks []tiers.Key) (out []tiers.Record, err error) {
	err = j.call(ctx, "load", tiers.Key{}, func() error {
		out, err = j.loadMany(ctx, ks)
		return err
	})
	return out, err
}

func (j *Journaled) loadMany(ctx context.Context, ks []tiers.Key) ([]tiers.Record, error) {
	waits, err := j.anyRows(ctx)
	if err != nil {
		return make([]tiers.Record, len(ks)), err
	}
	if !waits && j.away() == nil {
		if out, err := tiers.LoadMany(ctx, j.inner, ks); !isAway(err) {
			return out, err
		}
	}
	out := make([]tiers.Record, len(ks))
	var rest []tiers.Key
	var at []int
	var errs []error
	for i, k := range ks {
		out[i].Key = k
		if err := k.Check(); err != nil {
			errs = append(errs, tiers.Fail("load", j.name, k, err))
			continue
		}
		row, found, err := j.pending(ctx, k)
		switch {
		case err != nil:
			errs = append(errs, tiers.Fail("load", j.name, k, err))
		case !found:
			rest, at = append(rest, k), append(at, i)
		default:
			if r, err := j.fromRow(&row); err == nil {
				out[i] = r
			}
		}
	}
	if len(rest) > 0 {
		found, err := tiers.LoadMany(ctx, j.inner, rest)
		if isAway(err) {
			found, err = j.withoutServer(ctx, rest, found, err)
		}
		for i := range found {
			out[at[i]] = found[i]
		}
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// withoutServer answers keys without a row: absent while the journal is the
// whole truth, else each an error. What loaded before the server went is kept.
func (j *Journaled) withoutServer(ctx context.Context, ks []tiers.Key, loaded []tiers.Record, away error) ([]tiers.Record, error) {
	out := make([]tiers.Record, len(ks))
	err := j.absent(ctx, tiers.ErrUnavailable)
	var errs []error
	for i, k := range ks {
		if i < len(loaded) && loaded[i].Version != 0 {
			out[i] = loaded[i]
			continue
		}
		out[i] = tiers.Record{Key: k}
		switch {
		case isNotFound(err):
		case isAway(err):
			errs = append(errs, tiers.Fail("load", j.name, k, fmt.Errorf("%w: no row of the journal answers for the key", tiers.ErrUnavailable)))
		default:
			errs = append(errs, tiers.Fail("load", j.name, k, err))
		}
	}
	if len(errs) == 0 && !isNotFound(err) {
		return out, away
	}
	return out, errors.Join(errs...)
}

// SaveMany saves all, in the tier or in the journal.
func (j *Journaled) SaveMany(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) (out []tiers.Record, err error) {
	keys := make([]tiers.Key, len(rs))
	for i := range rs {
		keys[i] = rs[i].Key
	}
	err = j.changeAll(ctx, "save", keys, func() error {
		out, err = j.saveMany(ctx, rs, cs)
		return err
	})
	return out, err
}

func (j *Journaled) saveMany(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
	if len(cs) != 0 && len(cs) != len(rs) {
		return nil, fmt.Errorf("%d conditions for %d records", len(cs), len(rs))
	}
	if err := j.checkAll(rs); err != nil {
		if j.Atomic() || j.away() != nil {
			return make([]tiers.Record, len(rs)), err
		}
		return tiers.SaveMany(ctx, j.inner, rs, cs) // it may store the others
	}
	keys := make([]tiers.Key, len(rs))
	for i := range rs {
		keys[i] = rs[i].Key
	}
	waits, away, err := j.route(ctx, keys, cs)
	if err != nil {
		return nil, err
	}
	var said error
	if !waits && away == nil {
		out, err := tiers.SaveMany(ctx, j.inner, rs, cs)
		if err == nil {
			for i := range out {
				j.overtake(ctx, out[i].Key, out[i].Version)
			}
			return out, nil
		}
		if conditional(cs) && !isAway(err) || !conditional(cs) && !open(ctx, err) {
			return out, err
		}
		away, said = err, err
	}
	rows := make([]tiers.Row, len(rs))
	for i := range rs {
		rows[i] = j.rowOf(rs[i], stepAfter(said))
	}
	if conditional(cs) {
		rows, err = j.appendIf(ctx, rows, cs, away)
	} else {
		rows, err = j.append(ctx, rows, nil)
	}
	if err != nil {
		return make([]tiers.Record, len(rs)), unless(said, err)
	}
	out := make([]tiers.Record, len(rs))
	for i := range rows {
		out[i] = rows[i].Record
	}
	return out, nil
}

func (j *Journaled) checkAll(rs []tiers.Record) error {
	var errs []error
	for i := range rs {
		errs = append(errs, tiers.Fail("save", j.name, rs[i].Key, j.check(&rs[i])))
	}
	return errors.Join(errs...)
}

// route tells where a batch goes: into the journal, because a key without
// conditions has a row, or because the server is away; else to the tier, once
// no row is left.
func (j *Journaled) route(ctx context.Context, ks []tiers.Key, cs []tiers.Cond) (waits bool, away, err error) {
	if waits, err := j.anyRows(ctx); err != nil || !waits {
		return false, nil, err
	}
	for _, k := range ks {
		if conditional(cs) {
			if away, err = j.settled(ctx, k); err != nil || away != nil {
				return false, away, err
			}
			continue
		}
		if _, found, err := j.pending(ctx, k); err != nil || found {
			return found, nil, err
		}
	}
	return false, nil, nil
}

func conditional(cs []tiers.Cond) bool {
	for _, c := range cs {
		if _, set := c.Version(); set {
			return true
		}
	}
	return false
}

// DeleteMany removes all, from the tier or by rows.
func (j *Journaled) DeleteMany(ctx context.Context, ks []tiers.Key, cs []tiers.Cond) (existed []bool, err error) {
	err = j.changeAll(ctx, "delete", ks, func() error {
		existed, err = j.deleteMany(ctx, ks, cs)
		return err
	})
	return existed, err
}

func (j *Journaled) deleteMany(ctx context.Context, ks []tiers.Key, cs []tiers.Cond) ([]bool, error) {
	if len(cs) != 0 && len(cs) != len(ks) {
		return nil, fmt.Errorf("%d conditions for %d keys", len(cs), len(ks))
	}
	var errs []error
	for _, k := range ks {
		errs = append(errs, tiers.Fail("delete", j.name, k, k.Check()))
	}
	if err := errors.Join(errs...); err != nil {
		if j.Atomic() || j.away() != nil {
			return make([]bool, len(ks)), err
		}
		return tiers.DeleteMany(ctx, j.inner, ks, cs) // it may remove the others
	}
	waits, away, err := j.route(ctx, ks, cs)
	if err != nil {
		return nil, err
	}
	var said error
	if !waits && away == nil {
		existed, err := tiers.DeleteMany(ctx, j.inner, ks, cs)
		if err == nil || conditional(cs) && !isAway(err) || !conditional(cs) && !open(ctx, err) {
			return existed, err
		}
		away, said = err, err
	}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		existed, conds, err := j.existed(ctx, ks, cs)
		if err != nil {
			return make([]bool, len(ks)), unless(said, err)
		}
		rows := make([]tiers.Row, len(ks))
		for i, k := range ks {
			rows[i] = j.deletion(k, stepAfter(said))
		}
		if conditional(cs) {
			_, err = j.appendIf(ctx, rows, cs, away)
		} else if _, err = j.append(ctx, rows, conds); err != nil && changed(err) {
			if err := rest(ctx, pause); err != nil {
				return make([]bool, len(ks)), unless(said, err)
			}
			continue
		}
		if err != nil {
			return make([]bool, len(ks)), unless(said, err)
		}
		return existed, nil
	}
}

// existed tells of each key whether it is there, and yes where nobody knows,
// with conditions that its row is still that one. A key that is named twice is
// there for its first deletion.
func (j *Journaled) existed(ctx context.Context, ks []tiers.Key, cs []tiers.Cond) ([]bool, []tiers.Cond, error) {
	out, conds := make([]bool, len(ks)), make([]tiers.Cond, len(ks))
	seen := map[tiers.Key]bool{}
	for i, k := range ks {
		if seen[k] {
			continue
		}
		seen[k] = true
		if len(cs) > 0 {
			if want, set := cs[i].Version(); set {
				out[i] = want != 0
				continue
			}
		}
		row, found, err := j.row(ctx, k)
		if err != nil {
			return nil, nil, err
		}
		if found {
			if out[i] = j.live(&row); out[i] {
				conds[i] = tiers.If(row.Version)
			}
			continue
		}
		there, err := tiers.Exists(ctx, j.inner, k)
		if isAway(err) {
			err = j.absent(ctx, err)
		}
		switch {
		case err == nil:
			out[i] = there
		case isNotFound(err):
		case isAway(err):
			out[i] = true
		default:
			return nil, nil, err
		}
	}
	return out, conds, nil
}

// Apply applies records to the tier, once the rows of their keys are. It is
// ErrUnavailable while the server is away: the journal holds what is new, and
// not what has a version already.
func (j *Journaled) Apply(ctx context.Context, rs []tiers.Record, over []tiers.Cond) error {
	keys := make([]tiers.Key, len(rs))
	for i := range rs {
		keys[i] = rs[i].Key
	}
	return j.changeAll(ctx, "apply", keys, func() error {
		var errs []error
		for i := range rs {
			errs = append(errs, tiers.Fail("apply", j.name, rs[i].Key, rs[i].Check()))
		}
		if err := errors.Join(errs...); err != nil || len(rs) == 0 {
			return err
		}
		waits, err := j.anyRows(ctx)
		if err != nil {
			return err
		}
		if waits {
			for i := range rs {
				if away, err := j.settled(ctx, rs[i].Key); err != nil || away != nil {
					return errors.Join(err, away)
				}
			}
		}
		return j.applier.Apply(ctx, rs, over)
	})
}
