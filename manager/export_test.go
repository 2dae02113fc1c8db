package manager

import (
	"context"
	"encoding/binary"
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
