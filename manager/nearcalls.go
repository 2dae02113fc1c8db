package manager

import (
	"context"
	"errors"

	"github.com/sagestore/sagestore/internal/near"
	"github.com/sagestore/sagestore/tiers"
)

// loaded is what a load has found.
type loaded struct {
	tiers.Record
	near *near.Entry // that holds it; nil: none does
	hit  bool        // the home was not asked
}

// stale tells whether a near layer answered for a home that is away.
func (f *loaded) stale(r *route) bool {
	if !f.hit {
		return false
	}
	n := r.near.Load()
	return n != nil && n.away != nil && n.away() != nil
}

// getNear loads a record by way of the near layer.
func (p *place) getNear(ctx context.Context, n *nearLayer, name string, fresh bool, into *loaded) (err error) {
	if n.only {
		into.Record, err = p.tier.Load(ctx, p.key(name))
		return err
	}
	if err := ctx.Err(); err != nil { // a hit would not notice
		return err
	}
	k := near.Key{Namespace: p.namespace, Name: name}
	if fresh {
		*into, err = p.fly(ctx, n.Lead(k), name)
		return err
	}
	if e := n.Get(k); e != nil {
		return into.answer(e)
	}
	if err := n.watch(ctx); err != nil {
		return err
	}
	for {
		e, f, lead := n.Join(k)
		switch {
		case e != nil:
			return into.answer(e)
		case lead:
			*into, err = p.fly(ctx, f, name)
			return err
		}
		if e, rec, again, err := f.Wait(ctx); !again {
			*into = loaded{Record: rec, near: e}
			return err
		}
	}
}

func (f *loaded) answer(e *near.Entry) error {
	f.hit = true
	if e.Absent() {
		return tiers.ErrNotFound
	}
	f.Record, f.near = e.Record(), e
	return nil
}

// fly asks the home, for all who wait for the flight.
func (p *place) fly(ctx context.Context, f *near.Flight, name string) (got loaded, err error) {
	landed := false
	defer func() {
		if !landed { // a panic, which is the caller's own
			f.Land(&tiers.Record{}, errGoexit, true)
		}
	}()
	got.Record, err = p.tier.Load(ctx, p.key(name))
	landed = true
	got.near = f.Land(&got.Record, err, gaveUp(ctx, err))
	return got, err
}

// gaveUp tells whether the error of a load is due to the caller, who did not wait.
func gaveUp(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil && !errors.Is(err, tiers.ErrNotFound)
}

// decodeNear answers the value of a record that a near layer holds.
func (c *Collection[T]) decodeNear(rec *loaded) (v T, err error) {
	if !c.holds || rec.Schema != c.schema {
		return c.decode(rec.Record)
	}
	if held, ok := rec.near.Decoded().(T); ok {
		return held, nil
	}
	if v, err = c.decode(rec.Record); err == nil {
		rec.near.Hold(v)
	}
	return v, err
}

// existsNear answers what the near layer knows of a key; of a caller who has left it
// leaves the answer to the home.
func (p *place) existsNear(ctx context.Context, name string) (exists, known bool) {
	n := p.route.near.Load()
	if n == nil || n.only || p.tx != nil || ctx.Err() != nil {
		return false, false
	}
	e := n.Get(near.Key{Namespace: p.namespace, Name: name})
	return e != nil && !e.Absent(), e != nil
}

// loadManyNear asks the home at once for what the near layer does not hold and nobody
// is asking for. Results align with the keys.
func (p *place) loadManyNear(ctx context.Context, n *nearLayer, ks []tiers.Key) ([]tiers.Record, error) {
	if n.only {
		return tiers.LoadMany(ctx, p.tier, ks)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := n.watch(ctx); err != nil {
		return nil, err
	}
	out := make([]tiers.Record, len(ks))
	var mine, theirs []nearFlight
	for i, k := range ks {
		out[i] = tiers.Record{Key: k}
		e, f, lead := n.Join(nearKey(k))
		switch {
		case e != nil && !e.Absent():
			out[i] = e.Record()
		case e != nil:
		case lead:
			mine = append(mine, nearFlight{i, f})
		default:
			theirs = append(theirs, nearFlight{i, f})
		}
	}
	errs := []error{p.flyMany(ctx, mine, ks, out)}
	for _, w := range theirs { // after its own have landed, so that nobody waits in a circle
		_, rec, again, err := w.f.Wait(ctx)
		if again {
			var got loaded
			err = p.getNear(ctx, n, ks[w.i].Name, false, &got)
			rec = got.Record
		}
		switch {
		case err == nil:
			out[w.i] = rec
		case !errors.Is(err, tiers.ErrNotFound):
			errs = append(errs, tiers.Fail("load", p.route.tierName, ks[w.i], err))
		}
	}
	return out, errors.Join(errs...)
}

// nearFlight is a load of one of several keys.
type nearFlight struct {
	i int
	f *near.Flight
}

// flyMany leads the loads of several keys.
func (p *place) flyMany(ctx context.Context, mine []nearFlight, ks []tiers.Key, out []tiers.Record) error {
	if len(mine) == 0 {
		return nil
	}
	landed := 0
	defer func() {
		for _, w := range mine[landed:] { // a panic, which is the caller's own
			w.f.Land(&tiers.Record{}, errGoexit, true)
		}
	}()
	ask := make([]tiers.Key, len(mine))
	for j, w := range mine {
		ask[j] = ks[w.i]
	}
	recs, err := tiers.LoadMany(ctx, p.tier, ask)
	for j, w := range mine {
		rec, one := tiers.Record{Key: ask[j]}, err
		if j < len(recs) && recs[j].Version != 0 {
			rec, one = recs[j], nil
		} else if err == nil {
			one = tiers.ErrNotFound
		}
		landed++
		w.f.Land(&rec, one, err != nil) // whoever waits asks for his own key: the error may be about another
		if one == nil {
			out[w.i] = rec
		}
	}
	return err
}
