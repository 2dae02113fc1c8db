package txn

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// seen is a tier as a transaction sees it.
type seen struct {
	tx   *Tx
	name string
}

var (
	_ tiers.Tier    = (*seen)(nil)
	_ tiers.Batcher = (*seen)(nil)
)

// As offers batches and what the tier says of itself; all else would pass the
// transaction by.
func (s *seen) As(target any) bool {
	switch t := target.(type) {
	case *tiers.Batcher:
		*t = s
		return true
	case *tiers.Describer:
		m := s.tx.e.members[s.name]
		if m == nil {
			return false
		}
		var ok bool
		*t, ok = tiers.As[tiers.Describer](m.tier)
		return ok
	}
	return false
}

// call runs one operation, and gives its error a name and its consequence.
func (s *seen) call(ctx context.Context, op string, k tiers.Key, do func(*part) error) error {
	p, err := s.tx.part(ctx, s.name)
	if err == nil {
		err = do(p)
	}
	return s.tx.Fail(inTx(op, s.tx.id, tiers.Fail(op, s.name, k, err)))
}

// Load answers what the transaction wrote, else the record, whose version is
// noted.
func (s *seen) Load(ctx context.Context, k tiers.Key) (r tiers.Record, err error) {
	err = s.call(ctx, "load", k, func(p *part) error {
		r, err = s.load(ctx, p, k)
		return err
	})
	return r, err
}

func (s *seen) load(ctx context.Context, p *part, k tiers.Key) (tiers.Record, error) {
	if w := s.written(p, k); w != nil {
		if !w.there(s.tx.e.clock.Now()) {
			return tiers.Record{}, tiers.ErrNotFound
		}
		return w.copy(), nil
	}
	if err := s.tx.before(ctx, p); err != nil {
		return tiers.Record{}, err
	}
	r, err := s.stored(ctx, p, k)
	if err != nil && !isNotFound(err) {
		return tiers.Record{}, err
	}
	if e := s.tx.note(p, k, r.Version); e != nil {
		return tiers.Record{}, e
	}
	return r, err
}

// stored asks the tier itself.
func (s *seen) stored(ctx context.Context, p *part, k tiers.Key) (tiers.Record, error) {
	from, err := s.snapshot(p)
	if err != nil {
		return tiers.Record{}, err
	}
	if from != nil {
		return from.Load(ctx, k)
	}
	return p.tier.Load(ctx, k)
}

// snapshot answers the instant that View looks at, nil where there is none.
func (s *seen) snapshot(p *part) (tiers.Snapshot, error) {
	if !s.tx.readOnly || p.snapshots == nil {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	if p.snapshot == nil {
		now, err := p.snapshots.Snapshot(s.tx.ctx)
		if err != nil {
			return nil, err
		}
		p.snapshot = now
	}
	return p.snapshot, nil
}

// written answers the change that waits for the key.
func (s *seen) written(p *part, k tiers.Key) *write {
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	return p.writes[k]
}

// there tells whether the key is there once the change is made.
func (w *write) there(now time.Time) bool { return !w.deleted && w.record.Live(now) }

func (w *write) copy() tiers.Record {
	r := w.record
	r.Value = append(make([]byte, 0, len(r.Value)), r.Value...)
	r.Index = nil
	return r
}

// Save buffers the record. The version that it answers is a provisional one, for
// conditions in the same transaction.
func (s *seen) Save(ctx context.Context, r tiers.Record, c tiers.Cond) (saved tiers.Record, err error) {
	err = s.call(ctx, "save", r.Key, func(p *part) error {
		saved, err = s.save(ctx, p, r, c)
		return err
	})
	return saved, err
}

func (s *seen) save(ctx context.Context, p *part, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
	if s.tx.readOnly {
		return tiers.Record{}, errViewed()
	}
	if err := r.Check(); err != nil {
		return tiers.Record{}, err
	}
	if p.max > 0 && int64(len(r.Value)) > p.max {
		return tiers.Record{}, fmt.Errorf("%w: the value has %d bytes, the tier takes %d", tiers.ErrTooLarge, len(r.Value), p.max)
	}
	if err := s.holds(ctx, p, r.Key, c); err != nil {
		return tiers.Record{}, err
	}
	value := r.Value
	now := s.tx.e.clock.Now()
	r.Value = append(make([]byte, 0, len(value)), value...)
	r.Created, r.Updated, r.Deleted = tiers.Micro(now), tiers.Micro(now), false
	r.Expires = tiers.Deadline(now, r.TTL)
	w := &write{record: r, deleted: r.TTL < 0 || !r.Live(now)}
	if w.deleted {
		w.record.Value = nil
	}
	if err := s.buffer(p, w); err != nil {
		return tiers.Record{}, err
	}
	r = w.record
	r.Value = value
	return r, nil
}

func errViewed() error {
	return tiers.Hint(fmt.Errorf("%w: a view changes nothing", tiers.ErrReadOnly), "use Update")
}

// holds tells whether a condition is met by what the transaction sees.
func (s *seen) holds(ctx context.Context, p *part, k tiers.Key, c tiers.Cond) error {
	if _, set := c.Version(); !set {
		return nil
	}
	v, err := s.version(ctx, p, k)
	if err != nil {
		return err
	}
	return c.Holds(v)
}

// version is that of the key as the transaction sees it, 0 for absent.
func (s *seen) version(ctx context.Context, p *part, k tiers.Key) (tiers.Version, error) {
	r, err := s.load(ctx, p, k)
	if err != nil && !isNotFound(err) {
		return 0, err
	}
	return r.Version, nil
}

// buffer puts a change into the write set.
func (s *seen) buffer(p *part, w *write) error {
	tx := s.tx
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.late() {
		return tooLate()
	}
	tx.saves++
	w.record.Version = provisional + tiers.Version(tx.saves)
	k := w.record.Key
	was := p.writes[k]
	tx.put(p, k, w)
	if tx.bytes > tx.e.limit {
		tx.put(p, k, was)
		return tiers.Hint(fmt.Errorf("%w: the transaction would change more than %d bytes", tiers.ErrTooLarge, tx.e.limit),
			"do the work in several transactions")
	}
	tx.undo = append(tx.undo, undo{p, k, was})
	return nil
}

// Delete buffers the removal and tells whether the key was there.
func (s *seen) Delete(ctx context.Context, k tiers.Key, c tiers.Cond) (existed bool, err error) {
	err = s.call(ctx, "delete", k, func(p *part) error {
		existed, err = s.remove(ctx, p, k, c)
		return err
	})
	return existed, err
}

func (s *seen) remove(ctx context.Context, p *part, k tiers.Key, c tiers.Cond) (bool, error) {
	if s.tx.readOnly {
		return false, errViewed()
	}
	if err := k.Check(); err != nil {
		return false, err
	}
	v, err := s.version(ctx, p, k)
	_, conditional := c.Version()
	switch {
	case errors.Is(err, tiers.ErrCorrupt) && !conditional:
		v = provisional // it is there, whatever it is
	case err != nil:
		return false, err
	}
	if err := c.Holds(v); err != nil {
		return false, err
	}
	if v == 0 {
		return false, nil // the commit sees to it that it stays absent
	}
	return true, s.buffer(p, &write{record: tiers.Record{Key: k}, deleted: true})
}

// Spaces yields those of the tier and those of what the transaction wrote. The
// commit does not look whether they have changed.
func (s *seen) Spaces(ctx context.Context) iter.Seq2[tiers.Space, error] {
	return func(yield func(tiers.Space, error) bool) {
		var p *part
		err := s.call(ctx, "list spaces", tiers.Key{}, func(of *part) error { p = of; return nil })
		if err != nil {
			yield(tiers.Space{}, err)
			return
		}
		all, err := spacesOf(ctx, p.tier)
		if err != nil {
			yield(tiers.Space{}, s.tx.Fail(err))
			return
		}
		s.tx.mu.Lock()
		for k, w := range p.writes {
			if w.there(s.tx.e.clock.Now()) {
				all = append(all, k.Space())
			}
		}
		s.tx.mu.Unlock()
		for _, space := range sorted(all) {
			if !yield(space, nil) {
				return
			}
		}
	}
}

// Close does nothing: the tier is not the transaction's.
func (s *seen) Close(context.Context) error { return nil }
