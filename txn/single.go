package txn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// Load answers the row of the key, else what the tier has.
func (j *Journaled) Load(ctx context.Context, k tiers.Key) (r tiers.Record, err error) {
	err = j.call(ctx, "load", k, func() error {
		r, err = j.load(ctx, k)
		return err
	})
	return r, err
}

func (j *Journaled) load(ctx context.Context, k tiers.Key) (tiers.Record, error) {
	if err := k.Check(); err != nil {
		return tiers.Record{}, err
	}
	row, found, err := j.pending(ctx, k)
	if err != nil {
		return tiers.Record{}, err
	}
	if found {
		return j.fromRow(&row)
	}
	r, err := j.inner.Load(ctx, k)
	if isAway(err) {
		if err = j.absent(ctx, err); isNotFound(err) {
			j.count.misses.Add(1)
		}
	}
	return r, err
}

// fromRow answers what a row says.
func (j *Journaled) fromRow(row *tiers.Row) (tiers.Record, error) {
	if !j.live(row) {
		j.count.misses.Add(1)
		return tiers.Record{}, tiers.ErrNotFound
	}
	j.count.hits.Add(1)
	return row.Record, nil
}

// Exists tells what Load would find.
func (j *Journaled) Exists(ctx context.Context, k tiers.Key) (there bool, err error) {
	err = j.call(ctx, "exists", k, func() error {
		if err := k.Check(); err != nil {
			return err
		}
		row, found, err := j.pending(ctx, k)
		if err != nil || found {
			there = found && j.live(&row)
			return err
		}
		there, err = tiers.Exists(ctx, j.inner, k)
		if isAway(err) {
			err = j.absent(ctx, err)
		}
		if isNotFound(err) {
			return nil
		}
		return err
	})
	return there, err
}

// Save stores the record in the tier, or in the journal: while the server is
// away, and over a row that waits.
func (j *Journaled) Save(ctx context.Context, r tiers.Record, c tiers.Cond) (saved tiers.Record, err error) {
	err = j.change(ctx, "save", r.Key, func() error {
		if err := j.check(&r); err != nil {
			return err
		}
		if _, conditional := c.Version(); conditional {
			saved, err = j.saveIf(ctx, r, c)
		} else {
			saved, err = j.save(ctx, r)
		}
		return err
	})
	return saved, err
}

// check refuses what could not be applied later.
func (j *Journaled) check(r *tiers.Record) error {
	if err := r.Check(); err != nil {
		return err
	}
	if j.max > 0 && int64(len(r.Value)) > j.max {
		return fmt.Errorf("%w: the value has %d bytes, %d are allowed", tiers.ErrTooLarge, len(r.Value), j.max)
	}
	return nil
}

func (j *Journaled) save(ctx context.Context, r tiers.Record) (tiers.Record, error) {
	_, found, err := j.pending(ctx, r.Key)
	if err != nil {
		return tiers.Record{}, err
	}
	var said error
	if !found {
		saved, err := j.inner.Save(ctx, r, tiers.Cond{})
		if err == nil {
			j.overtake(ctx, saved.Key, saved.Version)
			return saved, nil
		}
		if !open(ctx, err) {
			return tiers.Record{}, err
		}
		said = err
	}
	rows, err := j.append(ctx, []tiers.Row{j.rowOf(r, stepAfter(said))}, nil)
	if err != nil {
		return tiers.Record{}, unless(said, err)
	}
	return rows[0].Record, nil
}

func (j *Journaled) saveIf(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
	away, err := j.settled(ctx, r.Key)
	if err != nil {
		return tiers.Record{}, err
	}
	if away == nil {
		saved, err := j.inner.Save(ctx, r, c)
		if !isAway(err) {
			return saved, err
		}
		away = err
	}
	rows, err := j.appendIf(ctx, []tiers.Row{j.rowOf(r, 0)}, []tiers.Cond{c}, away)
	if err != nil {
		return tiers.Record{}, err
	}
	return rows[0].Record, nil
}

// Delete removes the key from the tier, or by a row. While the server is away
// nobody knows whether a key without a row was there; the answer is yes then.
func (j *Journaled) Delete(ctx context.Context, k tiers.Key, c tiers.Cond) (existed bool, err error) {
	err = j.change(ctx, "delete", k, func() error {
		if err := k.Check(); err != nil {
			return err
		}
		if _, conditional := c.Version(); conditional {
			existed, err = j.deleteIf(ctx, k, c)
		} else {
			existed, err = j.delete(ctx, k)
		}
		return err
	})
	return existed, err
}

func (j *Journaled) delete(ctx context.Context, k tiers.Key) (existed bool, err error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		row, found, err := j.pending(ctx, k)
		switch {
		case err != nil:
			return false, err
		case !found:
			return j.deleteUnseen(ctx, k)
		case !j.live(&row):
			return false, nil
		}
		_, err = j.append(ctx, []tiers.Row{j.deletion(k, 0)}, []tiers.Cond{tiers.If(row.Version)})
		if err == nil || !changed(err) {
			return err == nil, err
		}
		if err := rest(ctx, pause); err != nil {
			return false, err
		}
	}
}

// changed tells that a row is not what it was a moment ago.
func changed(err error) bool {
	return errors.Is(err, tiers.ErrConflict) || errors.Is(err, tiers.ErrExists)
}

// rest pauses before a row that has changed is looked at again. By the clock of the journal it
// may only have expired, and is found as it was until it has by this one.
func rest(ctx context.Context, pause time.Duration) error {
	return tiers.SystemClock().Sleep(ctx, pause) // others take their time whatever this clock says
}

// deleteUnseen deletes a key that has no row.
func (j *Journaled) deleteUnseen(ctx context.Context, k tiers.Key) (existed bool, err error) {
	existed, err = j.inner.Delete(ctx, k, tiers.Cond{})
	if err == nil || !open(ctx, err) {
		return existed, err
	}
	said := err
	if isAway(err) {
		if err = j.absent(ctx, err); isNotFound(err) {
			return false, nil
		} else if !isAway(err) {
			return false, err
		}
	}
	_, err = j.append(ctx, []tiers.Row{j.deletion(k, stepAfter(said))}, nil)
	return err == nil, unless(said, err)
}

func (j *Journaled) deleteIf(ctx context.Context, k tiers.Key, c tiers.Cond) (existed bool, err error) {
	away, err := j.settled(ctx, k)
	if err != nil {
		return false, err
	}
	if away == nil {
		existed, err = j.inner.Delete(ctx, k, c)
		if !isAway(err) {
			return existed, err
		}
		away = err
	}
	if _, err = j.appendIf(ctx, []tiers.Row{j.deletion(k, 0)}, []tiers.Cond{c}, away); err != nil {
		return false, err
	}
	want, _ := c.Version()
	return want != 0, nil
}

// Touch changes the expiry in the tier, or that of a row. The row gets a new
// version by it.
func (j *Journaled) Touch(ctx context.Context, k tiers.Key, ttl time.Duration) (existed bool, err error) {
	err = j.change(ctx, "touch", k, func() error {
		if err := k.Check(); err != nil {
			return err
		}
		existed, err = j.touch(ctx, k, ttl)
		return err
	})
	return existed, err
}

func (j *Journaled) touch(ctx context.Context, k tiers.Key, ttl time.Duration) (existed bool, err error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		away, err := j.settled(ctx, k)
		if err != nil {
			return false, err
		}
		if away == nil {
			existed, err := tiers.Touch(ctx, j.inner, k, ttl)
			if !isAway(err) {
				return existed, err
			}
			away = err
		}
		row, found, err := j.row(ctx, k)
		switch {
		case err != nil:
			return false, err
		case !found:
			if err := j.absent(ctx, away); !isNotFound(err) {
				return false, err
			}
			return false, nil
		case !j.live(&row):
			return false, nil
		}
		next := row
		next.Version, next.Owner = j.least(), j.owner
		next.Expires = tiers.Deadline(j.now(), ttl)
		_, err = j.append(ctx, []tiers.Row{next}, []tiers.Cond{tiers.If(row.Version)})
		if err == nil || !changed(err) {
			return err == nil, err
		}
		if err := rest(ctx, pause); err != nil {
			return false, err
		}
	}
}

// rowOf is the row that carries a save.
func (j *Journaled) rowOf(r tiers.Record, step tiers.Version) tiers.Row {
	now := j.now()
	r.Created, r.Updated = tiers.Micro(now), tiers.Micro(now)
	r.Expires, r.TTL = tiers.Deadline(now, r.TTL), 0
	r.Version, r.Deleted = j.least()+step, false
	return tiers.Row{Record: r, Tier: j.name, Owner: j.owner}
}

func (j *Journaled) deletion(k tiers.Key, step tiers.Version) tiers.Row {
	row := j.rowOf(tiers.Record{Key: k}, step)
	row.Deleted = true
	return row
}

// stepAfter raises the version of a row over what a command without an answer
// may have left.
func stepAfter(err error) tiers.Version {
	if err == nil || isAway(err) {
		return 0
	}
	return unknownStep
}

// append makes rows pending, for all to see before it returns.
func (j *Journaled) append(ctx context.Context, rows []tiers.Row, conds []tiers.Cond) ([]tiers.Row, error) {
	j.view.begin()
	defer j.view.end()
	for i := range rows {
		if rows[i].Deleted || rows[i].Tier != j.name {
			continue
		}
		if old, found, err := j.row(ctx, rows[i].Key); err == nil && found && j.live(&old) {
			rows[i].Created = old.Created // it replaces a live record
		}
	}
	out, err := j.system.Append(ctx, rows, conds, j.limit)
	if err != nil {
		return nil, err
	}
	j.apply.kick()
	return out, nil
}

// overtake takes away a row that was made while a save with a higher version
// went to the tier: it would be passed over when it is applied.
func (j *Journaled) overtake(ctx context.Context, k tiers.Key, v tiers.Version) {
	if waits, err := j.anyRows(context.WithoutCancel(ctx)); err == nil && !waits {
		return
	}
	row, found, err := j.row(context.WithoutCancel(ctx), k)
	if err != nil || !found || row.Version >= v {
		return
	}
	if j.apply.turn.Acquire(ctx, 1) != nil { // it may be on its way
		return
	}
	defer j.apply.turn.Release(1)
	if err := j.system.Done(context.WithoutCancel(ctx), []tiers.Row{row}); err != nil {
		j.log.WarnContext(ctx, "a row of the journal that was overtaken stays until it is applied", "tier", j.name)
	}
}
