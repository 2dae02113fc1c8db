package manager

import (
	"context"
	"encoding/json"
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

// parcel is a record's own data, which the manager would make itself.
type parcel struct {
	Value  []byte
	Nil    bool
	Codec  string
	Schema uint32
	Flags  tiers.Flags
}

func pack(r tiers.Record) (Encoded, error) {
	b, err := json.Marshal(parcel{r.Value, r.Value == nil, r.Codec, r.Schema, r.Flags})
	return Encoded{Codec: "raw", Value: b}, err
}

func unpack(i Item) (tiers.Record, error) {
	var e Encoded
	if err := i.Decode(&e); err != nil {
		return tiers.Record{}, err
	}
	var p parcel
	if err := json.Unmarshal(e.Value, &p); err != nil {
		return tiers.Record{}, errors.Join(tiers.ErrCorrupt, err)
	}
	if p.Value == nil {
		p.Value = []byte{}
	}
	return tiers.Record{
		Key:   tiers.Key{Namespace: i.Namespace, Category: i.Category, Name: i.Key},
		Value: p.Value, Codec: p.Codec, Schema: p.Schema, Flags: p.Flags,
		Version: i.Version, Created: i.Created, Updated: i.Updated, Expires: i.Expires,
	}, nil
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
	e, err := pack(r)
	if err != nil {
		return tiers.Record{}, err
	}
	i, err := a.m.Namespace(r.Namespace).SaveItem(ctx, r.Category, r.Name, e, lifeFor(r.TTL), condition{c})
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
