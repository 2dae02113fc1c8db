package manager

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/txn"
)

// PendingWrite is a write that waits in the journal for its tier. Reads are
// answered from there meanwhile.
type PendingWrite struct {
	Tier      string        `json:"tier"`
	Namespace string        `json:"namespace,omitempty"`
	Category  string        `json:"category"`
	Key       string        `json:"key"`
	Op        string        `json:"op"` // save, or delete, which an expired save is as well
	Version   tiers.Version `json:"version"`
	Since     time.Time     `json:"since"`
	Bytes     int64         `json:"bytes"`           // of the key and the value
	Cause     string        `json:"cause,omitempty"` // the error that keeps it; empty while it is on its way

	row tiers.Row // without its value
}

// PendingWrites yields what waits for a tier, of every namespace and in the
// order in which it is applied; the tier "" is all of them.
func (m *Manager) PendingWrites(ctx context.Context, tier string) iter.Seq2[PendingWrite, error] {
	return func(yield func(PendingWrite, error) bool) {
		slot, err := m.enter(ctx)
		if err != nil {
			yield(PendingWrite{}, &tiers.Error{Op: "list pending", Err: err})
			return
		}
		m.core.gate.leave(slot) // the journals say when they are closed
		for name, j := range m.core.journals(tier) {
			for row, err := range j.Waiting(ctx) {
				if err != nil {
					yield(PendingWrite{}, advise(err))
					return
				}
				if !yield(m.core.pendingWrite(name, j, &row), nil) {
					return
				}
			}
		}
	}
}

func (c *core) pendingWrite(tier string, j *txn.Journaled, row *tiers.Row) PendingWrite {
	w := PendingWrite{
		Tier: tier, Namespace: row.Namespace, Category: row.Category, Key: row.Name,
		Op: "save", Version: row.Version, Since: row.Updated.UTC(), Bytes: int64(len(row.Name) + len(row.Value)),
	}
	if row.Deleted || !row.Live(c.clock.Now()) {
		w.Op = "delete"
	}
	if why := j.Why(row); why != nil {
		w.Cause = tiers.Keyless(why)
	}
	w.row = *row
	w.row.Value = nil
	return w
}

// ApplyPending applies what waits for a tier, or for all with "", now. It answers
// how many writes are left for each tier for which some are, and the errors that
// keep them: tiers.ErrUnavailable when the tier is away. With wait it goes on
// until nothing is left but what the tier refuses, or ctx ends; else it tries
// once.
func (m *Manager) ApplyPending(ctx context.Context, tier string, wait bool) (left map[string]int64, err error) {
	slot, err := m.enter(ctx)
	if err != nil {
		return nil, &tiers.Error{Op: "apply pending", Err: err}
	}
	defer m.core.gate.leave(slot)
	left = make(map[string]int64)
	errs := make([]error, len(m.core.order))
	var g errgroup.Group // a tier that is away keeps none of the others waiting
	var mu sync.Mutex
	for name, j := range m.core.journals(tier) {
		g.Go(func() error {
			b, err := j.Retry(ctx, wait)
			mu.Lock()
			defer mu.Unlock()
			if b.Rows > 0 {
				left[name] = b.Rows
			}
			errs[slices.Index(m.core.order, name)] = advise(err)
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	return left, errors.Join(errs...)
}

// DropPending gives up writes that [Manager.PendingWrites] has answered and that
// still wait: what they would have changed stays as it is in the tier. It answers
// how many it gave up.
func (m *Manager) DropPending(ctx context.Context, writes []PendingWrite) (dropped int, err error) {
	slot, err := m.enter(ctx)
	if err != nil {
		return 0, &tiers.Error{Op: "drop pending", Err: err}
	}
	defer m.core.gate.leave(slot)
	for name, j := range m.core.journals("") {
		var rows []tiers.Row
		for i := range writes {
			if writes[i].Tier == name {
				rows = append(rows, writes[i].row)
			}
		}
		if len(rows) == 0 {
			continue
		}
		n, err := j.Drop(ctx, rows)
		dropped += n
		if err != nil {
			return dropped, advise(err)
		}
	}
	return dropped, nil
}

// journals yields the journals in front of a tier, or of all.
func (c *core) journals(tier string) iter.Seq2[string, *txn.Journaled] {
	return func(yield func(string, *txn.Journaled) bool) {
		for _, name := range c.order {
			j, ok := c.stations[name].tier.(*txn.Journaled)
			if ok && (tier == "" || tier == name) && !yield(name, j) {
				return
			}
		}
	}
}
