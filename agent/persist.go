package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// Persisted is a value of an agent that stores itself as a field: what [Set]
// answered nil for is there after a crash. It is safe for concurrent use.
//
// [Set]: Persisted.Set
type Persisted[T any] struct {
	fields  *Fields
	name    string
	initial json.RawMessage
	parent  *Persisted[T] // of which it is the view in a transaction

	mu      sync.Mutex
	raw     json.RawMessage
	version tiers.Version // of what is stored, 0 for nothing
}

// Persist answers the value that is stored as a field, and initial when nothing is;
// it stores nothing. A stored value that does not fit T is tiers.ErrType with the
// name of the field, and never replaced by initial.
func Persist[T any](ctx context.Context, f *Fields, name string, initial T) (*Persisted[T], error) {
	p := &Persisted[T]{fields: f, name: name}
	raw, err := f.store.encode(initial)
	if err == nil {
		p.initial, p.raw = raw, raw
		_, err = p.reload(ctx)
	}
	if err != nil {
		return nil, f.fail("open field", name, err)
	}
	return p, nil
}

// reload reads what is stored, if anything is.
func (p *Persisted[T]) reload(ctx context.Context) (v T, err error) {
	entry, err := p.fields.c.Entry(ctx, p.fields.at(p.name))
	switch {
	case isNotFound(err):
		p.keep(p.initial, 0)
		return v, p.fields.fit(p.initial, &v)
	case err != nil:
		return v, err
	}
	if err := p.fields.fit(entry.Value, &v); err != nil {
		return v, err
	}
	p.keep(entry.Value, entry.Version)
	return v, nil
}

func (p *Persisted[T]) keep(raw json.RawMessage, v tiers.Version) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.raw, p.version = raw, v
}

// Reload takes over what others have stored since, and answers it; when the field
// was deleted, that is the initial value.
func (p *Persisted[T]) Reload(ctx context.Context) (T, error) {
	v, err := p.reload(ctx)
	return v, p.fields.fail("load field", p.name, err)
}

// Get answers a copy of the value, as this handle knows it.
func (p *Persisted[T]) Get() T {
	p.mu.Lock()
	raw := p.raw
	p.mu.Unlock()
	var v T
	_ = p.fields.store.decode(raw, &v) // it was decoded before, or made from a T
	return v
}

// Set stores v, durably where the tier is. tiers.ErrConflict: another handle has
// stored a value since this one has loaded or stored; see [Persisted.Reload] and
// [Persisted.Update].
func (p *Persisted[T]) Set(ctx context.Context, v T) error {
	raw, err := p.fields.store.encode(v)
	if err == nil {
		err = p.fields.fit(raw, new(T))
	}
	if err == nil {
		err = p.store(ctx, raw)
	}
	return p.fields.fail("save field", p.name, err)
}

// Checkpoint stores the value as it is.
func (p *Persisted[T]) Checkpoint(ctx context.Context) error {
	p.mu.Lock()
	raw := p.raw
	p.mu.Unlock()
	return p.fields.fail("save field", p.name, p.store(ctx, raw))
}

func (p *Persisted[T]) store(ctx context.Context, raw json.RawMessage) error {
	p.mu.Lock()
	version := p.version
	p.mu.Unlock()
	saved, err := p.fields.c.SaveEntry(ctx, p.fields.at(p.name), raw, manager.IfVersion(version))
	if errors.Is(err, tiers.ErrExists) {
		err = fmt.Errorf("%w: nothing was stored when it was opened", tiers.ErrConflict)
	}
	if err != nil {
		return tiers.Hint(err, "reload it and decide anew, or use Update")
	}
	p.keep(raw, saved.Version)
	p.tell(raw)
	return nil
}

// tell lets the handle that a transaction's view was made of see the change when
// it is committed.
func (p *Persisted[T]) tell(raw json.RawMessage) {
	if p.parent == nil {
		return
	}
	tx := p.fields.store.tx
	tx.OnCommit(func(context.Context) {
		for above := p.parent; above != nil; above = above.parent {
			above.keep(raw, p.fields.c.VersionIn(tx, p.fields.at(p.name)))
		}
	})
}

// Update changes what is stored, whoever stored it: fn gets that value, or the
// initial one when there is none. It runs again when others were faster, so it
// should do nothing but change v. An error of fn changes nothing and is the answer.
func (p *Persisted[T]) Update(ctx context.Context, fn func(v *T) error) error {
	var refused error
	var in *Persisted[T]
	err := p.fields.store.update(ctx, p.fields.turn(), func(s *Store) error {
		in = p.In(s.tx)
		v, err := in.reload(ctx)
		if err != nil {
			return err
		}
		if refused = fn(&v); refused != nil {
			return refuse(refused)
		}
		raw, err := s.encode(v)
		if err == nil {
			err = in.store(ctx, raw)
		}
		return err
	})
	if refused != nil {
		return refused
	}
	if err == nil && p.parent != nil {
		p.keep(in.raw, in.version) // the rest of the transaction sees it at once
	}
	return p.fields.fail("update field", p.name, err)
}

// In answers the value as a transaction sees it. What it stores is committed with
// the transaction, and p sees it then; until then each view has a value of its own,
// so make one of a transaction.
func (p *Persisted[T]) In(tx *manager.Tx) *Persisted[T] {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &Persisted[T]{fields: p.fields.In(tx), name: p.name, initial: p.initial, parent: p, raw: p.raw, version: p.version}
}
