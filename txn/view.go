package txn

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// lookEvery is how long a row of another process may stay unnoticed.
const lookEvery = 100 * time.Millisecond

// view is what this process knows of the journal, so that calls need not ask
// it while it is empty. It errs on the side of asking.
type view struct {
	rows atomic.Bool // there may be rows

	mu      sync.Mutex
	busy    int       // appends on their way
	turn    uint64    // grows with each append
	counter uint64    // of tiers.Changes, as of the last look
	looked  uint64    // turn as of the last look
	oldest  time.Time // since when there are rows, as of the last look
	changed chan struct{}
}

// init makes it expect rows until the first look.
func (v *view) init() {
	v.changed = make(chan struct{})
	v.turn = 1
	v.rows.Store(true)
}

func (v *view) any() bool { return v.rows.Load() }

// begin is called before an append, end after it, so that no look in between
// finds the journal empty.
func (v *view) begin() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.busy++
	v.turn++
	v.rows.Store(true)
}

func (v *view) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.busy--
	v.turn++
}

// news answers a channel that is closed when something happened.
func (v *view) news() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.changed
}

func (v *view) tell() {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.changed)
	v.changed = make(chan struct{})
}

// look asks whether there are rows.
func (j *Journaled) look(ctx context.Context) error {
	v := &j.view
	v.mu.Lock()
	turn, counter, looked := v.turn, v.counter, v.looked
	v.mu.Unlock()
	c, err := j.system.Changes(ctx)
	if err != nil {
		return err
	}
	if c.Journal == counter && looked == turn {
		return nil
	}
	b, err := j.system.Backlog(ctx, j.name)
	if err != nil {
		return err
	}
	v.mu.Lock()
	v.counter, v.oldest = c.Journal, b.Oldest
	if v.busy == 0 && v.turn == turn {
		v.looked = turn
		v.rows.Store(b.Rows > 0)
	} else {
		v.rows.Store(true)
	}
	v.mu.Unlock()
	v.tell()
	return nil
}

// sequence is that of the journal as of the last look.
func (j *Journaled) sequence() uint64 {
	j.view.mu.Lock()
	defer j.view.mu.Unlock()
	return j.view.counter
}

// watch looks for rows of other processes, and keeps what is known of the
// server's clock, until the context ends.
func (j *Journaled) watch(ctx context.Context) {
	failed := false
	for j.clock.Sleep(ctx, lookEvery) == nil {
		err := errors.Join(j.look(ctx), j.tellOthers(ctx), j.writeFloor(ctx))
		if err != nil && !failed && ctx.Err() == nil {
			j.log.WarnContext(ctx, "the journal can't be watched", "tier", j.name, "cause", err)
		}
		failed = err != nil
		if j.overdue() {
			j.apply.kick()
		}
	}
}

// tellOthers tells of rows that other processes have left since the last time.
func (j *Journaled) tellOthers(ctx context.Context) error {
	if j.foreign == nil || !j.view.any() {
		return nil
	}
	for {
		rows, err := j.system.Due(ctx, j.name, j.shown, applyRows)
		if err != nil || len(rows) == 0 {
			return err
		}
		var ks []tiers.Key
		for i := range rows {
			if rows[i].Owner != j.owner {
				ks = append(ks, rows[i].Key)
			}
		}
		if len(ks) > 0 {
			j.foreign(ks)
		}
		j.shown = rows[len(rows)-1].Seq
	}
}

// overdue tells whether rows wait for longer than whoever made them needs to apply
// them.
func (j *Journaled) overdue() bool {
	if !j.view.any() || j.apply.idle.Load() {
		return false
	}
	j.view.mu.Lock()
	oldest := j.view.oldest
	j.view.mu.Unlock()
	return j.apply.busy.Load() || j.clock.Now().Sub(oldest) > mostLinger+lookEvery
}

// pending answers the row of a key.
func (j *Journaled) pending(ctx context.Context, k tiers.Key) (row tiers.Row, found bool, err error) {
	if waits, err := j.anyRows(ctx); err != nil || !waits {
		return tiers.Row{}, false, err
	}
	return j.row(ctx, k)
}

// anyRows tells whether there may be rows. In front of a tier of this host it
// sees those of other processes at once; a look costs little beside a file.
func (j *Journaled) anyRows(ctx context.Context) (bool, error) {
	if !j.local {
		return j.view.any(), nil
	}
	return j.newRows(ctx)
}

// newRows tells whether there may be rows, of whatever process.
func (j *Journaled) newRows(ctx context.Context) (bool, error) {
	if !j.view.any() {
		if err := j.look(ctx); err != nil {
			return false, err
		}
	}
	return j.view.any(), nil
}

// row asks the journal itself.
func (j *Journaled) row(ctx context.Context, k tiers.Key) (row tiers.Row, found bool, err error) {
	row, err = j.system.Pending(ctx, j.name, k)
	switch {
	case err == nil:
		return row, true, nil
	case isNotFound(err):
		return tiers.Row{}, false, nil
	}
	return tiers.Row{}, false, err
}

// live tells whether the row holds a value.
func (j *Journaled) live(row *tiers.Row) bool { return !row.Deleted && row.Live(j.now()) }
