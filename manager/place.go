package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

// place is where a category's records of one namespace are: what collections,
// stores and the untyped calls have in common. Values are encoded here and
// decoded by the callers.
type place struct {
	route     *route     // nil when err says why
	tier      tiers.Tier // the route's, or what a transaction sees of it
	tx        *Tx        // nil outside of transactions
	namespace string
	err       error
}

func (p *place) key(name string) tiers.Key {
	k := tiers.Key{Namespace: p.namespace, Name: name}
	if p.route != nil {
		k.Category = p.route.category
	}
	return k
}

// fail completes the error of a call. In a transaction it sees to it that a
// failure which the function swallows is not committed.
func (p *place) fail(op, name string, err error) error {
	err = p.complete(op, name, err)
	if p.tx != nil && err != nil {
		return p.tx.failed(err)
	}
	return err
}

// complete completes an error with what the call was about, and with what to do.
func (p *place) complete(op, name string, err error) error {
	if err == nil {
		return nil
	}
	tier := ""
	if p.route != nil {
		tier = p.route.tierName
	}
	return advise(tiers.Fail(op, tier, p.key(name), err))
}

// advise adds a hint to errors that came without one.
func advise(err error) error {
	var e *tiers.Error
	if errors.As(err, &e) && e.Hint != "" {
		return err
	}
	var hint string
	switch {
	case errors.Is(err, tiers.ErrNotFound), errors.Is(err, tiers.ErrExists):
		return err // plain answers
	case errors.Is(err, tiers.ErrKey), errors.Is(err, tiers.ErrCategory), errors.Is(err, tiers.ErrUnsupported):
		return err // they say themselves what would be right
	case errors.Is(err, tiers.ErrConflict):
		hint = "load the entry again and decide anew, or use Modify"
	case errors.Is(err, tiers.ErrCommitUnknown): // also when the tier is away since
		hint = "load the key to see whether it was stored"
	case errors.Is(err, tiers.ErrUnavailable):
		hint = "nothing was changed; try again when the tier is back, see `sagestore doctor`"
	case errors.Is(err, tiers.ErrFull):
		hint = "make room or raise the limit, see `sagestore doctor`"
	case errors.Is(err, tiers.ErrType):
		hint = "use the type that the category holds, or Manager.Load into an any"
	case errors.Is(err, tiers.ErrTooLarge):
		hint = "cut the value, or raise the category's max_value"
	case errors.Is(err, tiers.ErrSchema):
		hint = "correct the Upgrade options of the collection"
	case errors.Is(err, tiers.ErrCorrupt):
		hint = "restore the record from a backup, or delete it"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		hint = "the context of the call was over"
	case errors.Is(err, tiers.ErrReadOnly), errors.Is(err, fs.ErrPermission):
		hint = "see that the process may write to the store's directory"
	default:
		hint = "`sagestore doctor` checks the tiers"
	}
	return tiers.Hint(err, hint)
}

// check answers why the place can't be used for a key, if it can't.
func (p *place) check(name string) error {
	if p.err != nil {
		return p.err
	}
	return tiers.CheckName(name)
}

// encode makes the record of a value.
func (p *place) encode(name string, v any, schema uint32) (tiers.Record, error) {
	r := p.route
	o := serializer.Options{
		Codec: r.policy.Codec, Schema: schema, CompressOver: r.compressOver,
		Encrypt: r.policy.Encrypt, Max: r.maxValue,
	}
	if e, ok := v.(Encoded); ok {
		return p.encodeAsIs(name, e, o)
	}
	return r.core.codecs.Encode(p.key(name), v, o)
}

// put stores an encoded record, and its value with it: nobody may change that any
// more.
func (p *place) put(ctx context.Context, rec tiers.Record, o saveOptions) (tiers.Record, error) {
	r := p.route
	if err := o.give(&rec); err != nil {
		return tiers.Record{}, err
	}
	if p.tx != nil && p.tx.all.readOnly {
		return p.tier.Save(ctx, rec, o.cond) // which says so
	}
	if err := r.register(ctx, rec.Schema); err != nil {
		return tiers.Record{}, err
	}
	if !o.life.set {
		rec.TTL = r.policy.TTL
	} else {
		rec.TTL = o.life.resolve(r.core.clock, 0)
	}
	if !r.policy.Session {
		return p.store(ctx, rec, o.cond)
	}
	id, err := sessionOf(rec.Namespace, rec.Name)
	if err != nil {
		return tiers.Record{}, err
	}
	if p.tx != nil {
		if err := p.tx.enter(ctx, id); err != nil {
			return tiers.Record{}, err
		}
		return p.store(ctx, rec, o.cond)
	}
	s, err := r.core.sessions.enter(ctx, id)
	if err != nil {
		return tiers.Record{}, err
	}
	defer s.shares.Release(1)
	return p.store(ctx, rec, o.cond)
}

// store saves, and brings the near layer in line with what came of it.
func (p *place) store(ctx context.Context, rec tiers.Record, cond tiers.Cond) (tiers.Record, error) {
	if n := p.route.near.Load(); n != nil {
		return p.storeNear(ctx, n, rec, cond)
	}
	return p.storeHome(ctx, rec, cond)
}

// storeHome saves. When the category holds records of a newer schema it looks first
// whether one of them would be replaced.
func (p *place) storeHome(ctx context.Context, rec tiers.Record, cond tiers.Cond) (tiers.Record, error) {
	r := p.route
	if rec.Schema >= r.schema.Load() {
		if r.lender != nil && p.tx == nil {
			return r.lender.Take(ctx, rec, cond)
		}
		return p.tier.Save(ctx, rec, cond)
	}
	for {
		now, err := p.tier.Load(ctx, rec.Key)
		if err != nil && !errors.Is(err, tiers.ErrNotFound) {
			return tiers.Record{}, err
		}
		if err := cond.Holds(now.Version); err != nil {
			return tiers.Record{}, err
		}
		if now.Schema > rec.Schema {
			return tiers.Record{}, newerSchema(now.Schema, rec.Schema)
		}
		saved, err := p.tier.Save(ctx, rec, tiers.If(now.Version))
		_, asked := cond.Version()
		if asked || !errors.Is(err, tiers.ErrConflict) && !errors.Is(err, tiers.ErrExists) {
			return saved, err
		}
	}
}

// schemaOf answers the schema number that a save without a Go type gives to a
// record: that of the one it replaces, else the highest in use.
func (p *place) schemaOf(ctx context.Context, name string) (uint32, error) {
	high := max(1, p.route.schema.Load())
	if high == 1 {
		return 1, nil
	}
	now, err := p.tier.Load(ctx, p.key(name))
	switch {
	case errors.Is(err, tiers.ErrNotFound), errors.Is(err, tiers.ErrCorrupt):
		return high, nil
	case err != nil:
		return 0, err
	}
	return max(1, now.Schema), nil
}

func newerSchema(stored, known uint32) error {
	return tiers.Hint(fmt.Errorf("%w: it is stored with schema %d, this program knows up to %d", tiers.ErrSchema, stored, known),
		"use the newer version of the program")
}

// get loads a record. Its value may be lent: it is decoded, never changed, and
// never handed out. The place for the record is the caller's, since a hit in a near
// layer costs little more than to copy it.
func (p *place) get(ctx context.Context, name string, fresh bool, into *loaded) (err error) {
	r := p.route
	if err := r.settle(ctx); err != nil {
		return err
	}
	if n := r.near.Load(); n != nil && p.tx == nil {
		err = p.getNear(ctx, n, name, fresh, into)
	} else {
		into.Record, err = p.lend(ctx, p.key(name))
	}
	if err != nil {
		if errors.Is(err, tiers.ErrNotFound) {
			r.meter.misses.Add(1)
		}
		return err
	}
	r.meter.hits.Add(1)
	r.noteSchema(into.Schema)
	if r.policy.Session {
		p.used(name)
	}
	return nil
}

func (p *place) lend(ctx context.Context, k tiers.Key) (tiers.Record, error) {
	if l := p.route.lender; l != nil && p.tx == nil {
		return l.Lend(ctx, k)
	}
	return p.tier.Load(ctx, k)
}

// used notes that a session is in use.
func (p *place) used(name string) {
	if id, err := sessionOf(p.namespace, name); err == nil {
		p.route.core.sessions.presenceOf(id).seen.Store(p.route.core.clock.Now().UnixMicro())
	}
}

// remove deletes a key.
func (p *place) remove(ctx context.Context, name string, opts []DeleteOption) (existed bool, err error) {
	if err := p.check(name); err != nil {
		return false, p.fail("delete", name, err)
	}
	ctx, c, err := p.begin(ctx, "delete", 1)
	if err != nil {
		return false, p.fail("delete", name, err)
	}
	o := deleteOptionsOf(opts)
	if err = p.route.settle(ctx); err == nil {
		if n := p.route.near.Load(); n != nil {
			existed, err = p.removeNear(ctx, n, name, o.cond)
		} else {
			existed, err = p.tier.Delete(ctx, p.key(name), o.cond)
		}
	}
	err = p.fail("delete", name, err)
	c.finish(err)
	return existed && err == nil, err
}

// exists asks for a key.
func (p *place) exists(ctx context.Context, name string) (ok bool, err error) {
	if err := p.check(name); err != nil {
		return false, p.fail("exists", name, err)
	}
	ctx, c, err := p.begin(ctx, "exists", 1)
	if err != nil {
		return false, p.fail("exists", name, err)
	}
	if err = p.route.settle(ctx); err == nil {
		if held, known := p.existsNear(ctx, name); known {
			ok = held
		} else if e := p.route.exister; e != nil && p.tx == nil {
			ok, err = e.Exists(ctx, p.key(name))
		} else {
			ok, err = tiers.Exists(ctx, p.tier, p.key(name))
		}
	}
	err = p.fail("exists", name, err)
	c.finish(err)
	return ok, err
}

// touch changes how long a key lives from now.
func (p *place) touch(ctx context.Context, name string, lives []Life) (existed bool, err error) {
	if err := p.check(name); err != nil {
		return false, p.fail("touch", name, err)
	}
	ctx, c, err := p.begin(ctx, "touch", 1)
	if err != nil {
		return false, p.fail("touch", name, err)
	}
	if err = p.route.settle(ctx); err == nil {
		err = tiers.Hint(tiers.ErrUnsupported, "the tier's driver can't touch: save the value again")
		switch t := p.route.toucher; {
		case p.tx != nil:
			existed, err = p.touchInTx(ctx, name, lives)
		case t != nil && p.route.near.Load() != nil:
			existed, err = p.touchNear(ctx, p.route.near.Load(), t, name, lives)
		case t != nil:
			existed, err = t.Touch(ctx, p.key(name), p.lifetime(lives))
		}
	}
	if existed && p.route.policy.Session {
		p.used(name)
	}
	err = p.fail("touch", name, err)
	c.finish(err)
	return existed && err == nil, err
}

// touchInTx saves what is there with another life.
func (p *place) touchInTx(ctx context.Context, name string, lives []Life) (existed bool, err error) {
	rec, err := p.tier.Load(ctx, p.key(name))
	if errors.Is(err, tiers.ErrNotFound) {
		return false, nil
	}
	if err == nil && p.route.policy.Session && !p.tx.all.readOnly {
		var id sessionID
		if id, err = sessionOf(p.namespace, name); err == nil {
			err = p.tx.enter(ctx, id)
		}
	}
	if err != nil {
		return false, err
	}
	rec.TTL = p.lifetime(lives)
	if err := p.noteNear(rec.Key); err != nil {
		return false, err
	}
	_, err = p.tier.Save(ctx, rec, tiers.Cond{})
	return err == nil, err
}

func (p *place) lifetime(lives []Life) time.Duration {
	ttl := p.route.policy.TTL
	for _, l := range lives {
		if l != nil {
			ttl = lifeOf(l).resolve(p.route.core.clock, ttl)
		}
	}
	return ttl
}

func lifeOf(l Life) (out life) {
	l.touch(&out)
	return out
}
