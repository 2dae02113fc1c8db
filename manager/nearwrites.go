package manager

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sagestore/sagestore/internal/near"
	"github.com/sagestore/sagestore/tiers"
)

// storeNear saves past the near layer, which then holds what was acknowledged, or
// nothing.
func (p *place) storeNear(ctx context.Context, n *nearLayer, rec tiers.Record, cond tiers.Cond) (tiers.Record, error) {
	if p.tx != nil {
		if err := p.noteNear(rec.Key); err != nil {
			return tiers.Record{}, err
		}
		return p.storeHome(ctx, rec, cond)
	}
	c := n.begin(rec.Key)
	defer c.abandon()
	saved, err := p.storeHome(ctx, rec, cond)
	c.saved(&saved, rec.TTL, err)
	return saved, err
}

func (p *place) removeNear(ctx context.Context, n *nearLayer, name string, cond tiers.Cond) (existed bool, err error) {
	k := p.key(name)
	if p.tx != nil {
		if err := p.noteNear(k); err != nil {
			return false, err
		}
		return p.tier.Delete(ctx, k, cond)
	}
	c := n.begin(k)
	defer c.abandon()
	existed, err = p.tier.Delete(ctx, k, cond)
	c.removed(err)
	return existed, err
}

func (p *place) touchNear(ctx context.Context, n *nearLayer, t tiers.Toucher, name string, lives []Life) (existed bool, err error) {
	k := p.key(name)
	c := n.begin(k)
	defer c.abandon()
	existed, err = t.Touch(ctx, k, p.lifetime(lives))
	c.touched(err)
	return existed, err
}

func (p *place) saveManyNear(ctx context.Context, n *nearLayer, rs []tiers.Record, conds []tiers.Cond) error {
	ks := make([]tiers.Key, len(rs))
	for i := range rs {
		ks[i] = rs[i].Key
	}
	if p.tx != nil {
		if err := p.noteNear(ks...); err != nil {
			return err
		}
		_, err := tiers.SaveMany(ctx, p.tier, rs, conds)
		return err
	}
	cs := n.beginAll(ks)
	defer abandonAll(cs)
	out, err := tiers.SaveMany(ctx, p.tier, rs, conds)
	for i := range cs {
		if i >= len(out) || out[i].Version == 0 {
			cs[i].saved(nil, 0, errors.Join(err, errNotSaved))
			continue
		}
		rec := rs[i]
		rec.Version, rec.Created, rec.Updated, rec.Expires = out[i].Version, out[i].Created, out[i].Updated, out[i].Expires
		cs[i].saved(&rec, rec.TTL, nil)
	}
	return err
}

// errNotSaved marks a record of a batch that was not saved.
var errNotSaved = errors.New("it was not saved")

func (p *place) removeManyNear(ctx context.Context, n *nearLayer, ks []tiers.Key) ([]bool, error) {
	if p.tx != nil {
		if err := p.noteNear(ks...); err != nil {
			return nil, err
		}
		return tiers.DeleteMany(ctx, p.tier, ks, nil)
	}
	cs := n.beginAll(ks)
	defer abandonAll(cs)
	there, err := tiers.DeleteMany(ctx, p.tier, ks, nil)
	for i := range cs {
		cs[i].removed(err)
		if err != nil && i < len(there) && there[i] {
			n.tell(n.note(near.Changed, cs[i].key, 0)) // this one is gone all the same
		}
	}
	return there, err
}

// nearChange is a change that the near layer is told of before and after.
type nearChange struct {
	n      *nearLayer
	key    near.Key
	change near.Change
	ended  bool
}

func (n *nearLayer) begin(k tiers.Key) nearChange {
	key := nearKey(k)
	return nearChange{n: n, key: key, change: n.Change(key)}
}

func (n *nearLayer) beginAll(ks []tiers.Key) []nearChange {
	cs := make([]nearChange, len(ks))
	for i, k := range ks {
		cs[i] = n.begin(k)
	}
	return cs
}

// abandon ends a change whose call panicked.
func (c *nearChange) abandon() {
	if !c.ended {
		c.ended = true
		c.change.Dropped()
	}
}

func abandonAll(cs []nearChange) {
	for i := range cs {
		cs[i].abandon()
	}
}

// failed ends a change that was not acknowledged.
func (c *nearChange) failed(err error) {
	if !errors.Is(err, tiers.ErrCommitUnknown) {
		c.change.Dropped()
		return
	}
	c.change.Unknown()
	c.n.tell(c.n.note(near.Changed, c.key, 0))
}

// saved ends a save of a record that was to live for ttl.
func (c *nearChange) saved(rec *tiers.Record, ttl time.Duration, err error) {
	c.ended = true
	switch {
	case err != nil:
		c.failed(err)
		return
	case ttl < 0: // it is absent at once
		c.change.Dropped()
		c.n.tell(c.n.note(near.Changed, c.key, 0))
		return
	case c.n.only:
		c.change.Dropped()
	default:
		c.change.Saved(rec)
	}
	c.n.tell(c.n.note(near.Saved, c.key, rec.Version))
}

func (c *nearChange) removed(err error) {
	c.ended = true
	switch {
	case err != nil:
		c.failed(err)
		return
	case c.n.only:
		c.change.Dropped()
	default:
		c.change.Removed()
	}
	c.n.tell(c.n.note(near.Changed, c.key, 0))
}

func (c *nearChange) touched(err error) {
	c.ended = true
	if err != nil {
		c.failed(err)
		return
	}
	c.change.Dropped()
	c.n.tell(c.n.note(near.Changed, c.key, 0))
}

// nearWrites are the keys with a near layer that a transaction writes.
type nearWrites struct {
	mu     sync.Mutex
	closed bool // the function has returned, and keys stay as they are
	keys   map[tiers.Key]*nearLayer
	rest   []near.Note // to be told when it is committed
}

// noteNear notes that a transaction is about to write keys, if they have a near layer.
func (p *place) noteNear(ks ...tiers.Key) error {
	n := p.route.near.Load()
	if n == nil || p.tx == nil {
		return nil
	}
	w := &p.tx.all.near
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errTxDone
	}
	if w.keys == nil {
		w.keys = make(map[tiers.Key]*nearLayer)
	}
	for _, k := range ks {
		w.keys[k] = n
	}
	return nil
}

// holdNear lets near layers hold nothing of what the transaction writes until it is
// over, and then ask the home.
func (t *Tx) holdNear() {
	w := &t.all.near
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if len(w.keys) == 0 {
		return
	}
	changes := make(map[tiers.Key]near.Change, len(w.keys))
	for k, n := range w.keys {
		changes[k] = n.Change(nearKey(k))
	}
	t.inner.AtEnd(func() {
		for k, c := range changes {
			c.Dropped()
			n := w.keys[k]
			if v := t.inner.Version(n.tier, k); v != 0 { // so it is committed
				n.tell(n.note(near.Saved, nearKey(k), v))
				continue
			}
			w.rest = append(w.rest, n.note(near.Changed, nearKey(k), 0))
		}
	})
}

// endNear tells other processes what the transaction has deleted, or may have
// changed.
func (t *Tx) endNear(err error) {
	w := &t.all.near
	unknown := errors.Is(err, tiers.ErrCommitUnknown)
	if len(w.keys) == 0 || err != nil && !unknown {
		return
	}
	if unknown {
		for k, n := range w.keys {
			n.Change(nearKey(k)).Unknown()
		}
	}
	for _, note := range w.rest {
		w.keys[tiers.Key{Namespace: note.Namespace, Category: note.Category, Name: note.Name}].tell(note)
	}
}
