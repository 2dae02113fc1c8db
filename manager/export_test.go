package manager

import (
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// AsTier shows the manager as the tier that it was opened with, so that the
// suite of the tier contract can run through all of its layers. What the suite
// saves travels as raw bytes.
func (m *Manager) AsTier(tier string) tiers.Tier { return &asTier{m, tier} }

type asTier struct {
	m    *Manager
	tier string
}

// pack puts what the manager would make itself before the value: the flags, the
// schema, and the codec with its length.
func pack(r tiers.Record) Encoded {
	b := append(make([]byte, 0, len(r.Value)+16+len(r.Codec)), byte(r.Flags), byte(len(r.Codec)))
	b = binary.BigEndian.AppendUint32(b, r.Schema)
	b = append(b, r.Codec...)
	return Encoded{Codec: "raw", Value: append(b, r.Value...)}
}

func unpack(i Item) (tiers.Record, error) {
	var e Encoded
	if err := i.Decode(&e); err != nil {
		return tiers.Record{}, err
	}
	r := tiers.Record{
		Key:     tiers.Key{Namespace: i.Namespace, Category: i.Category, Name: i.Key},
		Version: i.Version, Created: i.Created, Updated: i.Updated, Expires: i.Expires,
	}
	if len(e.Value) < 6 || len(e.Value) < 6+int(e.Value[1]) {
		return r, tiers.ErrCorrupt
	}
	r.Flags, r.Schema = tiers.Flags(e.Value[0]), binary.BigEndian.Uint32(e.Value[2:])
	r.Codec, r.Value = string(e.Value[6:6+e.Value[1]]), e.Value[6+e.Value[1]:]
	return r, nil
}

func lifeFor(ttl time.Duration) Life {
	if ttl == 0 {
		return Forever()
	}
	return TTL(ttl)
}

func (a *asTier) Load(ctx context.Context, k tiers.Key) (tiers.Record, error) {
	i, err := a.m.Namespace(k.Namespace).Item(ctx, k.Category, k.Name)
	if err != nil {
		return tiers.Record{}, err
	}
	return unpack(i)
}

func (a *asTier) Save(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
	i, err := a.m.Namespace(r.Namespace).SaveItem(ctx, r.Category, r.Name, pack(r), lifeFor(r.TTL), condition{c})
	if err != nil {
		return tiers.Record{}, err
	}
	r.Version, r.Created, r.Updated, r.Expires = i.Version, i.Created, i.Updated, i.Expires
	return r, nil
}

func (a *asTier) Delete(ctx context.Context, k tiers.Key, c tiers.Cond) (bool, error) {
	return a.m.Namespace(k.Namespace).Delete(ctx, k.Category, k.Name, condition{c})
}

func (a *asTier) Exists(ctx context.Context, k tiers.Key) (bool, error) {
	return a.m.Namespace(k.Namespace).Exists(ctx, k.Category, k.Name)
}

func (a *asTier) Touch(ctx context.Context, k tiers.Key, ttl time.Duration) (bool, error) {
	return a.m.Namespace(k.Namespace).Touch(ctx, k.Category, k.Name, lifeFor(ttl))
}

func (a *asTier) List(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
	return func(yield func(tiers.Record, error) bool) {
		opts := []ListOption{Prefix(q.Prefix), After(q.After), Limit(q.Limit)}
		if q.Reverse {
			opts = append(opts, Reverse())
		}
		for i, err := range a.m.Namespace(q.Namespace).List(ctx, q.Category, opts...) {
			r := tiers.Record{Key: tiers.Key{Namespace: q.Namespace, Category: q.Category, Name: i.Key}}
			if err == nil {
				r, err = unpack(i)
			} else if i.Key == "" {
				r = tiers.Record{}
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (a *asTier) Spaces(ctx context.Context) iter.Seq2[tiers.Space, error] {
	slot, err := a.m.enter(ctx)
	if err != nil {
		return tiers.Failed[tiers.Space](err)
	}
	defer a.m.core.gate.leave(slot)
	return a.m.core.stations[a.tier].tier.Spaces(ctx)
}

func (a *asTier) Close(ctx context.Context) error { return a.m.Close(ctx) }

// AsTierOfTransactions is AsTier with each operation in a transaction of its own.
// Touching is left out, since it changes the version there, and a list only
// looks: under writes without end its commit would never find it unchanged.
func (m *Manager) AsTierOfTransactions(tier string) tiers.Tier {
	return &inTransactions{asTier{m, tier}}
}

type inTransactions struct{ asTier }

func (a *inTransactions) As(target any) bool {
	e, ok := target.(*tiers.Exister)
	if ok {
		*e = a
	}
	return ok
}

// run does one thing in a transaction. What is an answer is committed as such,
// so that it is not taken for a conflict of the commit.
func (a *inTransactions) run(ctx context.Context, namespace string, do func(*Tx) error) error {
	var answer error
	err := a.m.Namespace(namespace).Update(ctx, func(tx *Tx) error {
		answer = do(tx)
		if errors.Is(answer, tiers.ErrNotFound) || errors.Is(answer, tiers.ErrExists) || errors.Is(answer, tiers.ErrConflict) {
			return nil
		}
		return answer
	}, WithRetry(1000))
	if err == nil {
		err = answer
	}
	return err
}

func (a *inTransactions) Load(ctx context.Context, k tiers.Key) (rec tiers.Record, err error) {
	err = a.run(ctx, k.Namespace, func(tx *Tx) error {
		i, err := tx.Item(ctx, k.Category, k.Name)
		if err == nil {
			rec, err = unpack(i)
		}
		return err
	})
	return rec, err
}

func (a *inTransactions) Save(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
	var done *Tx
	err := a.run(ctx, r.Namespace, func(tx *Tx) error {
		done = tx
		i, err := tx.SaveItem(ctx, r.Category, r.Name, pack(r), lifeFor(r.TTL), condition{c})
		r.Created, r.Updated, r.Expires = i.Created, i.Updated, i.Expires
		return err
	})
	if err != nil {
		return tiers.Record{}, err
	}
	if r.Version = done.Version(r.Category, r.Name); r.Version == 0 {
		r.Version = 1 // saved without any life, it is gone
	}
	if i, err := a.m.Namespace(r.Namespace).Item(ctx, r.Category, r.Name); err == nil && i.Version == r.Version {
		r.Created, r.Updated, r.Expires = i.Created, i.Updated, i.Expires // as the commit made them
	}
	return r, nil
}

func (a *inTransactions) Delete(ctx context.Context, k tiers.Key, c tiers.Cond) (existed bool, err error) {
	err = a.run(ctx, k.Namespace, func(tx *Tx) (err error) {
		existed, err = tx.Delete(ctx, k.Category, k.Name, condition{c})
		return err
	})
	return existed, err
}

func (a *inTransactions) Exists(ctx context.Context, k tiers.Key) (ok bool, err error) {
	err = a.run(ctx, k.Namespace, func(tx *Tx) (err error) {
		ok, err = tx.Exists(ctx, k.Category, k.Name)
		return err
	})
	return ok, err
}

func (a *inTransactions) List(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
	return func(yield func(tiers.Record, error) bool) {
		var found []tiers.Record
		err := a.m.Namespace(q.Namespace).View(ctx, func(tx *Tx) error {
			opts := []ListOption{Prefix(q.Prefix), After(q.After), Limit(q.Limit)}
			if q.Reverse {
				opts = append(opts, Reverse())
			}
			for i, err := range tx.List(ctx, q.Category, opts...) {
				if err != nil {
					return err
				}
				r, err := unpack(i)
				if err != nil {
					return err
				}
				found = append(found, r)
			}
			return nil
		})
		for _, r := range found {
			if err == nil && !yield(r, nil) {
				return
			}
		}
		if err != nil {
			yield(tiers.Record{}, err)
		}
	}
}

// FlushSessions does what background work about sessions does each minute, and answers how
// many sessions the process remembers.
func (m *Manager) FlushSessions(ctx context.Context) (known int, err error) {
	err = m.core.sessions.writeSeen(ctx)
	m.core.sessions.present.Range(func(_, _ any) bool { known++; return true })
	return known, err
}

// SweepStaged and FinishEnded are background work, at once.
func (m *Manager) SweepStaged(ctx context.Context) error { return m.core.sweepStaged(ctx) }
func (m *Manager) FinishEnded(ctx context.Context) error { return m.core.sessions.finishEnded(ctx) }
