package database

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

const (
	// commitsKept is how long the id of a transaction is remembered at least.
	commitsKept = 25 * time.Hour
	// Of every so many commits one looks through that many ids for old ones, so
	// that it comes round before the table has grown by half.
	commitsEvery, commitsLook = 64, 192
	maxID                     = 64

	rememberID = `INSERT INTO commits (id, at) VALUES (?, ?) ON CONFLICT DO NOTHING`
	findID     = `SELECT count(*) FROM commits WHERE id = ?`
	laterID    = `SELECT id FROM commits WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?`
	forgetIDs  = `DELETE FROM commits WHERE id > ? AND id <= ? AND at < ?`
)

func checkID(id string) error {
	if id == "" || len(id) > maxID {
		return fmt.Errorf("%w: the id of a transaction has %d bytes, 1 to %d are allowed", tiers.ErrKey, len(id), maxID)
	}
	return nil
}

// remember notes a transaction, once. With rows the last of them does.
func (x *tx) remember(id string, rows bool) error {
	if rows {
		was, err := x.wasCommitted(id)
		if err == nil && was {
			err = fmt.Errorf("%w: it was committed before", tiers.ErrTxDone)
		}
		return err
	}
	if b, err := x.openBooks(); err != nil {
		return err
	} else if b.ids[id] || x.waiting.knows(id) {
		return fmt.Errorf("%w: it was committed before", tiers.ErrTxDone)
	}
	n, err := x.note(id, x.clock.Now().Unix())
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: it was committed before", tiers.ErrTxDone)
	}
	return err
}

// note makes an entry of a transaction that was committed at a time, in seconds.
func (x *tx) note(id string, at int64) (int64, error) {
	n, err := x.exec(rememberID, id, at)
	if err != nil {
		return 0, err
	}
	x.books.maxID = max(x.books.maxID, id)
	if x.commits++; x.commits%commitsEvery == 0 {
		_, err = x.forgetCommits(x.clock.Now(), commitsLook)
	}
	return n, err
}

func (x *tx) wasCommitted(id string) (bool, error) {
	b, err := x.openBooks()
	if err != nil || b.ids[id] || x.waiting.knows(id) {
		return err == nil, err
	}
	if id > b.maxID {
		return false, nil
	}
	n, err := x.number(findID, id)
	return n > 0, err
}

// forgetCommits looks through the next n ids for those that are old enough, and
// tells whether it has come to the end.
func (x *tx) forgetCommits(now time.Time, n int) (end bool, err error) {
	row, err := x.first(laterID, x.hand, int64(n-1))
	if err != nil {
		return false, err
	}
	last, more := beyond, row != nil
	if more {
		last, _ = row[0].(string)
	}
	_, err = x.exec(forgetIDs, x.hand, last, now.Add(-commitsKept).Unix())
	if x.hand = last; !more {
		x.hand = ""
	}
	return !more, err
}

// forgetCommits looks through the next few thousand, in chunks, once round at most.
func (t *Tier) forgetCommits(ctx context.Context) error {
	for range 4 {
		whole := false
		err := t.writer.do(ctx, &job{run: func(tx *tx) error {
			begun := tx.hand == ""
			end, err := tx.forgetCommits(tx.clock.Now(), 4*sweepChunk)
			whole = begun && end
			return err
		}})
		if err != nil || whole {
			return err
		}
	}
	return nil
}

// Outcome implements tiers.Committer. It stands in the queue behind all that this
// handle has begun.
func (t *Tier) Outcome(ctx context.Context, id string) (committed bool, err error) {
	if err := checkID(id); err != nil {
		return false, t.commitFailed(id, err)
	}
	err = t.writer.do(ctx, &job{run: func(tx *tx) (err error) {
		committed, err = tx.wasCommitted(id)
		return err
	}})
	if poison := t.writer.poisoned(); err != nil && poison != nil && engine.Over(ctx) == nil {
		committed, err = t.outcomeAnyway(ctx, id, poison)
	}
	if err != nil {
		return false, t.commitFailed(id, err)
	}
	return committed, nil
}

// outcomeAnyway asks a store that takes no more writes. What can be read there was
// committed. What can't may be in the log nevertheless, and come back from it when
// the store is opened again.
func (t *Tier) outcomeAnyway(ctx context.Context, id string, poison error) (committed bool, err error) {
	for err = errMoved; errors.Is(err, errMoved); {
		err = t.atOnce(ctx, func(x *tx) (err error) {
			committed, err = x.wasCommitted(id)
			return err
		})
	}
	if err == nil && !committed {
		err = tiers.Hint(engine.Unknown(poison), "close the store and open it again, then ask once more")
	}
	return committed, err
}

// Sequence implements tiers.Committer.
func (t *Tier) Sequence(ctx context.Context) (uint64, error) {
	now, err := t.changes(ctx)
	if err != nil {
		return 0, t.failed("watch", tiers.Key{}, err)
	}
	return now.Journal, nil
}
