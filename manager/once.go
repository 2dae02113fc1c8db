package manager

import (
	"context"
	"errors"
	"fmt"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/txn"
)

// factOnce begins the names of what was done once; namespace, "/" and id follow.
const factOnce = "once/"

// Once runs fn in a transaction unless one of that id was committed before, by
// whatever process of the store and in whatever run: for data migrations and
// set-up. It tells whether fn was run and committed. Of several callers at once
// all may run fn, and one is committed; the others answer false. Namespaces have
// ids of their own. For errors see [Manager.Update].
func (m *Manager) Once(ctx context.Context, id string, fn func(*Tx) error) (ran bool, err error) {
	if err := tiers.CheckName(id); err != nil {
		return false, &tiers.Error{Op: "once", Namespace: m.namespace, Err: fmt.Errorf("the id: %w", err)}
	}
	name := factOnce + m.namespace + "/" + id
	if done, err := m.wasDone(ctx, name); done || err != nil {
		return false, err
	}
	refused, err := m.update(ctx, fn, txn.Options{Once: name})
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, tiers.ErrCommitUnknown):
		return false, err
	case errors.Is(err, tiers.ErrConflict): // seen by the commit, or by a call of fn before it
		if done, e := m.wasDone(ctx, name); done && e == nil {
			return false, nil // the faster one has changed what fn read
		}
	case refused:
		return false, err
	case errors.Is(err, tiers.ErrExists):
		return false, nil
	}
	return false, err
}

// wasDone looks for the fact.
func (m *Manager) wasDone(ctx context.Context, name string) (bool, error) {
	slot, err := m.enter(ctx)
	if err != nil {
		return false, &tiers.Error{Op: "once", Namespace: m.namespace, Err: err}
	}
	defer m.core.gate.leave(slot)
	_, err = m.core.system.Fact(ctx, name)
	if errors.Is(err, tiers.ErrNotFound) {
		return false, nil
	}
	return err == nil, advise(tiers.Fail("once", "", tiers.Key{Namespace: m.namespace}, err))
}
