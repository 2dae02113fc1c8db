// Package manager is the public door to a store: it routes each category to the
// tier that is its home.
//
//	cfg, err := config.Load("sagestore.yaml")
//	m, err := manager.Open(ctx, cfg, all.Tiers())
//	defer m.Close(ctx)
//
//	prefs := manager.For[Preferences](m, "session.preferences")
//	err = prefs.Save(ctx, "user-42", p)
//	p, err = prefs.Load(ctx, "user-42") // errors.Is(err, tiers.ErrNotFound)
//
// A save that returned nil can be loaded by everybody in the tier's scope from
// then on, until it expires or is deleted. [Manager.Update] changes several keys,
// on any tiers, as one:
//
//	err = m.Update(ctx, func(tx *manager.Tx) error {
//		return prefs.In(tx).Save(ctx, "user-42", p) // without In it is no part of the transaction
//	})
//
// Every error is a *tiers.Error that
// wraps a sentinel of package tiers and names operation, tier, category and key.
// Everything is safe for concurrent use; [Manager.Close] ends and waits for all
// that the manager started.
package manager

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/txn"
)

// Manager is an open store, or the view of one namespace of it.
type Manager struct {
	core      *core
	namespace string
	view      bool
	err       error // the namespace's name can't be used
}

// Scope is what a collection belongs to: a *Manager, or a *Tx. Libraries that
// keep things in a store take one; with Update they do several things as one,
// which is a savepoint in a *Tx.
type Scope interface {
	Update(ctx context.Context, fn func(*Tx) error, opts ...TxOption) error
	scope() scope
}

// scope is what a collection needs to know of its Scope.
type scope struct {
	core      *core
	namespace string
	err       error
	tx        *Tx // or nil
}

func (m *Manager) scope() scope { return scope{core: m.core, namespace: m.namespace, err: m.err} }

// core is what a manager and its views share.
type core struct {
	plan     *config.Effective
	clock    tiers.Clock
	log      *slog.Logger
	observer Observer // or nil
	codecs   *serializer.Registry
	moved    bool // old homes are not looked at

	system      tiers.System
	systemTier  tiers.Tier      // that offers it
	committer   tiers.Committer // of systemTier, or nil
	engine      *txn.Engine
	stations    map[string]*station
	order       []string // names of the stations
	epoch       string
	facts       *facts
	sessions    *sessions
	ownSessions map[string]string // tiers by category, of those whose entries end with their session
	jobs        *jobs
	gate        *gate
	settings    sync.Mutex // held while a driver reads its options
	routing     sync.Mutex // held to add a route
	routes      sync.Map   // category to *route
	libraries   sync.Map   // category to the config.Category that a library brought
	flights     flights
	queues      queues
	drivers     tiers.Drivers
	buckets     BucketOpener // or nil
	backing     sync.Mutex   // held while the backups are opened
	backups     *Backups     // or nil
	runner      *runner
	nears       nears
	closing     sync.Once
	closed      chan struct{}
}

// Namespace answers a view of the store whose keys, lists and sessions are its
// own; tiers, limits and backups are shared. The name is made of a-z, 0-9, "_"
// and "-" and at most 64 bytes long; with another every call fails. Closing a
// view does nothing.
func (m *Manager) Namespace(name string) *Manager {
	return &Manager{core: m.core, namespace: name, view: true, err: tiers.CheckNamespace(name)}
}

// Config answers what the configuration came to.
func (m *Manager) Config() *config.Effective { return m.core.plan }

// enter lets a call that is about no single category through the gate.
func (m *Manager) enter(ctx context.Context) (slot uint32, err error) {
	if m.err != nil {
		return 0, m.err
	}
	slot, ok := m.core.gate.enter(ctx)
	if !ok {
		return 0, tiers.Hint(tiers.ErrClosed, "the manager was closed")
	}
	return slot, nil
}

// Close refuses new calls, waits for those under way, flushes, closes the tiers
// and waits for every goroutine that the manager started. A context that is
// over only ends the waiting for callers: flushing and closing are done all the
// same. A second Close returns nil, once the first is done.
func (m *Manager) Close(ctx context.Context) error {
	if m.view {
		return nil
	}
	c := m.core
	var err error
	c.closing.Do(func() {
		defer close(c.closed)
		c.gate.close(ctx)
		c.jobs.stop()
		flushed := errors.Join(c.stopBackups(ctx), c.jobs.flush(ctx))
		c.gate.over.Store(true)
		settled := c.engine.Close(context.WithoutCancel(ctx))
		c.nears.close(context.WithoutCancel(ctx))
		err = errors.Join(flushed, settled, c.closeTiers(context.WithoutCancel(ctx)))
		if err != nil {
			err = &tiers.Error{Op: "close", Err: err}
		}
	})
	<-c.closed
	return err
}

// closeTiers closes what is open, the system store last because the others may
// write to it.
func (c *core) closeTiers(ctx context.Context) error {
	var g errgroup.Group
	errs := make([]error, len(c.order)+1)
	for i, name := range c.order {
		s := c.stations[name]
		if s == nil || s.tier == c.systemTier { // nil: it could not be opened
			continue
		}
		g.Go(func() error {
			errs[i] = tiers.Fail("close", name, tiers.Key{}, s.tier.Close(ctx))
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	if c.systemTier != nil {
		errs[len(c.order)] = tiers.Fail("close", "database", tiers.Key{}, c.systemTier.Close(ctx))
	}
	return errors.Join(errs...)
}
