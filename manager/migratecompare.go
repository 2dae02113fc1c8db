package manager

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"iter"
	"slices"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// clockSkew is by how much the clocks of two tiers may differ when a record has
// expired for one of them.
const clockSkew = time.Second

// namespaces answers those in which tiers have the category.
func (v *mover) namespaces(ctx context.Context, ts ...tiers.Tier) (all []string, err error) {
	for _, t := range ts {
		for s, err := range t.Spaces(ctx) {
			if err != nil {
				return nil, err
			}
			if s.Category == v.done.Category {
				all = append(all, s.Namespace)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// compare goes through the records of both tiers side by side, by namespace and key.
// One that a tier does not have is nil. Those that can't be read are told at the end.
func (v *mover) compare(ctx context.Context, visit func(s tiers.Space, from, to *tiers.Record) error) error {
	namespaces, err := v.namespaces(ctx, v.source, v.target)
	if err != nil {
		return err
	}
	bad := faults{sentinel: tiers.ErrCorrupt, hint: "restore them from a backup, or delete them"}
	for _, ns := range namespaces {
		s := tiers.Space{Namespace: ns, Category: v.done.Category}
		if err := v.compareSpace(ctx, s, &bad, visit); err != nil {
			return err
		}
	}
	if err := bad.err(); err != nil {
		return v.fail(err)
	}
	return nil
}

func (v *mover) compareSpace(ctx context.Context, s tiers.Space, bad *faults, visit func(s tiers.Space, from, to *tiers.Record) error) error {
	from, to := read(ctx, v.source, s, bad), read(ctx, v.target, s, bad)
	defer from.stop()
	defer to.stop()
	a, err := from.next()
	if err != nil {
		return err
	}
	b, err := to.next()
	if err != nil {
		return err
	}
	for a != nil || b != nil {
		here, there := a, b
		switch {
		case a == nil || b != nil && b.Name < a.Name:
			here = nil
		case b == nil || a.Name < b.Name:
			there = nil
		}
		if err := visit(s, here, there); err != nil {
			return err
		}
		if here != nil {
			if a, err = from.next(); err != nil {
				return err
			}
		}
		if there != nil {
			if b, err = to.next(); err != nil {
				return err
			}
		}
	}
	return nil
}

// reading is a list of one side.
type reading struct {
	pull  func() (tiers.Record, error, bool)
	stop  func()
	space tiers.Space
	bad   *faults
}

func read(ctx context.Context, t tiers.Tier, s tiers.Space, bad *faults) *reading {
	r := &reading{space: s, bad: bad}
	r.pull, r.stop = iter.Pull2(t.List(ctx, tiers.Query{Namespace: s.Namespace, Category: s.Category}))
	return r
}

// next answers the next record that can be read, nil at the end.
func (r *reading) next() (*tiers.Record, error) {
	for {
		rec, err, ok := r.pull()
		switch {
		case !ok:
			return nil, nil //nolint:nilnil // the end is no error
		case err == nil:
			return &rec, nil
		case rec.Name == "":
			return nil, err
		}
		r.bad.add(r.space, rec.Name, err.Error())
	}
}

// same tells whether two tiers hold a record alike.
func same(a, b *tiers.Record) bool {
	return a.Version == b.Version && a.Codec == b.Codec && a.Schema == b.Schema && a.Flags == b.Flags &&
		a.Created.Equal(b.Created) && a.Updated.Equal(b.Updated) && a.Expires.Equal(b.Expires) &&
		bytes.Equal(a.Value, b.Value)
}

// sum adds a record to a hash.
func sum(h hash.Hash, r *tiers.Record) {
	var b []byte
	for _, text := range []string{r.Namespace, r.Category, r.Name, r.Codec, string(r.Value)} {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	expires := int64(0)
	if !r.Expires.IsZero() {
		expires = r.Expires.UnixMicro()
	}
	for _, n := range []int64{int64(r.Version), r.Created.UnixMicro(), r.Updated.UnixMicro(), expires, int64(r.Schema), int64(r.Flags)} { //nolint:gosec // only their bits count
		b = binary.BigEndian.AppendUint64(b, uint64(n)) //nolint:gosec // only the bits count
	}
	_, _ = h.Write(b) // never fails
}

// verify reads everything back, and answers an error unless both tiers hold the same
// records by number and hash. What has expired meanwhile is in neither.
func (v *mover) verify(ctx context.Context) error {
	wrong := faults{sentinel: tiers.ErrCorrupt, hint: "nothing was removed; see that no program uses the store, and that the new home is sound, then run it again"}
	one, other := sha256.New(), sha256.New()
	var records, copies, size int64
	err := v.compare(ctx, func(s tiers.Space, from, to *tiers.Record) error {
		soon := v.c.clock.Now().Add(clockSkew)
		switch {
		case to == nil && !from.Live(soon), from == nil && !to.Live(soon):
			return nil
		case to == nil:
			wrong.add(s, from.Name, "it did not arrive in tier "+v.To)
		case from == nil:
			wrong.add(s, to.Name, "it is no longer in tier "+v.From)
		case !same(from, to):
			wrong.add(s, from.Name, "it arrived changed")
		}
		if from != nil {
			records++
			size += int64(len(from.Name) + len(from.Value))
			sum(one, from)
		}
		if to != nil {
			copies++
			sum(other, to)
		}
		v.step("verify", records, v.done.Records, size)
		return nil
	})
	if err != nil {
		return err
	}
	hash := hex.EncodeToString(other.Sum(nil))
	if err := wrong.err(); err != nil {
		return v.fail(err)
	}
	if records != copies || hash != hex.EncodeToString(one.Sum(nil)) {
		return v.fail(errors.Join(tiers.ErrCorrupt, fmt.Errorf("%d records became %d", records, copies)))
	}
	v.done.Records, v.done.Bytes, v.done.Hash = records, size, hash
	v.tell(MigrateProgress{Step: "verify", Done: records, Total: records, Bytes: size})
	return nil
}
