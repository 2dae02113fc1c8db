package txn

import (
	"context"
	"errors"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// leaseFor is how long rows wait after their applier crashed.
const leaseFor = 3 * time.Second

// lease makes one process at a time apply rows. A row that two apply could come
// to the tier late, after it was removed from the journal and its key deleted,
// and bring the key back.
//
// Where the processes of the store share a host it is a lock that ends with its
// holder: one that was stopped for a while can't come late. Else it is a live row
// of its own in the journal: taking it demands that there is none, keeping it that
// it is still the same.
type lease struct {
	j   *Journaled
	row tiers.Row

	unlock func() // set: the lock of a store whose processes share a host
}

func (j *Journaled) leaseRow() tiers.Row {
	return tiers.Row{Tier: j.name + ".applier", Owner: j.owner, Record: tiers.Record{
		Key: tiers.Key{Category: "lease", Name: "applier"}, Codec: "raw", Schema: 1,
		Expires: tiers.Micro(j.clock.Now().Add(leaseFor)),
	}}
}

// lease answers errBusy when another process has it.
func (j *Journaled) lease(ctx context.Context) (*lease, error) {
	if locker, ok := j.system.(tiers.Locker); ok {
		unlock, ok, err := locker.Lock(j.name + ".applier")
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, errBusy
		}
		return &lease{j: j, unlock: unlock}, nil
	}
	want := j.leaseRow()
	held, err := j.system.Pending(ctx, want.Tier, want.Key)
	switch {
	case err == nil && !held.Deleted && held.Live(j.clock.Now()):
		return nil, errBusy
	case err != nil && !isNotFound(err):
		return nil, err
	}
	l := &lease{j: j}
	return l, l.take(ctx, want, tiers.If(0))
}

func (l *lease) take(ctx context.Context, want tiers.Row, c tiers.Cond) error {
	// A caller who left in the middle would not know whether it has the lease, and
	// could not give it back: all would wait until it runs out.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseFor)
	defer cancel()
	rows, err := l.j.system.Append(ctx, []tiers.Row{want}, []tiers.Cond{c}, 0)
	if errors.Is(err, tiers.ErrExists) || errors.Is(err, tiers.ErrConflict) {
		return errBusy
	}
	if err != nil {
		return err
	}
	l.row = rows[0]
	return nil
}

// renew makes the lease last for another step, or answers errBusy when it is
// lost.
func (l *lease) renew(ctx context.Context) error {
	if l.unlock != nil {
		return nil
	}
	if l.row.Expires.Sub(l.j.clock.Now()) > leaseFor*2/3 {
		return nil
	}
	return l.take(ctx, l.j.leaseRow(), tiers.If(l.row.Version))
}

func (l *lease) release(ctx context.Context) {
	if l.unlock != nil {
		l.unlock()
		return
	}
	// A lease that can't be given back runs out.
	_ = l.j.system.Done(context.WithoutCancel(ctx), []tiers.Row{l.row})
}
