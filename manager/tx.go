package manager

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/txn"
)

// Tx is a transaction: what it saves and deletes, on whatever tiers, is there
// for everybody at once when it is committed, or never. [Manager.Update] makes
// one. It belongs to the namespace of the manager that it was begun on;
// collections and stores that are taken into it with In keep their own.
//
// It is safe for several goroutines until its function returns. From then on
// every call is tiers.ErrTxDone, but for [Tx.ID] and [Tx.Version].
type Tx struct {
	inner   *txn.Tx
	manager *Manager
	all     *wholeTx
	over    atomic.Bool // the function has returned
}

// wholeTx is what a transaction and its savepoints share.
type wholeTx struct {
	readOnly bool
	sessions enteredSessions
	near     nearWrites
}

// TxOption is [WithRetry].
type TxOption interface{ tx(o *txOptions) }

type txOptions struct{ retry int }

// WithRetry runs the function again, up to n times, after tiers.ErrConflict and
// after no other error: when something that it has read was changed meanwhile, so
// that the transaction could not be committed, and when the function itself
// answers one. It does nothing for a savepoint: what a transaction has read stays
// read.
func WithRetry(n int) TxOption { return retryOption(n) }

type retryOption int

func (n retryOption) tx(o *txOptions) { o.retry = int(n) }

// Outcome is what became of a transaction.
type Outcome = txn.Outcome

// The outcomes.
const (
	Committed  = txn.Committed
	RolledBack = txn.RolledBack // or never begun
)

// Update runs fn in a transaction. When fn answers nil, all that it saved and
// deleted by the transaction is committed as one, on all tiers; when it answers
// an error, which is then the answer as it is, when it panics, or when ctx ends,
// nothing of it ever was. Nothing is visible outside before the commit.
//
//	err := m.Update(ctx, func(tx *manager.Tx) error {
//		if err := orders.In(tx).Save(ctx, "o-1", order); err != nil {
//			return err
//		}
//		return stock.In(tx).Save(ctx, "s-1", left)
//	})
//
// fn works with the transaction through its methods and through In of
// collections and stores, and sees there what it has written. A call without In
// is no part of it: it is done at once, whatever becomes of the transaction, and
// does not see it. A key that fn has read in the transaction and saves without
// it is a conflict at the commit.
// What fn reads may be of different instants, which the commit finds and answers
// as a conflict. An error that fn makes of such a mixture is the answer as any
// other, and [WithRetry] does not run fn again for it.
//
// tiers.ErrConflict: something that fn has read was changed meanwhile; see
// [WithRetry]. tiers.ErrTxAborted: a call in fn had failed and fn answered nil
// all the same; that a key is absent, exists, or has another version is an
// answer and no failure. tiers.ErrCommitUnknown: it may be committed or not;
// the error is a *tiers.Error whose Tx [Manager.Outcome] can be asked about.
// tiers.ErrUnsupported, from the first use of it: the tier can't take part.
// tiers.ErrTooLarge: the transaction would change more than 64 MiB.
//
// Versions that saves in the transaction answer are provisional, and good for
// conditions in it alone: [Tx.Version] has those that the commit made.
func (m *Manager) Update(ctx context.Context, fn func(*Tx) error, opts ...TxOption) error {
	var o txOptions
	for _, opt := range opts {
		if opt != nil {
			opt.tx(&o)
		}
	}
	_, err := m.update(ctx, fn, txn.Options{Retry: o.retry})
	return err
}

// View runs fn with a transaction that changes nothing: writes are
// tiers.ErrReadOnly. What it reads of the database is as it was at one instant,
// that of the first read; other tiers answer what is there when they are asked. Until
// fn returns, the log of SQLite grows by all that is written meanwhile.
func (m *Manager) View(ctx context.Context, fn func(*Tx) error) error {
	return m.within(ctx, "view", func(ctx context.Context) error {
		refused := false
		err := m.core.engine.View(ctx, func(inner *txn.Tx) error {
			tx := &Tx{inner: inner, manager: m, all: &wholeTx{readOnly: true}}
			defer tx.over.Store(true)
			err := fn(tx)
			refused = err != nil
			return err
		})
		if refused {
			return err
		}
		return adviseTx("view", err)
	})
}

// update tells as well whether the error is one of fn.
func (m *Manager) update(ctx context.Context, fn func(*Tx) error, o txn.Options) (refused bool, err error) {
	err = m.within(ctx, "update", func(ctx context.Context) error {
		var last *Tx
		err := m.core.engine.Update(ctx, func(inner *txn.Tx) error {
			tx := &Tx{inner: inner, manager: m, all: new(wholeTx)}
			last = tx
			err := tx.run(fn)
			if refused = err != nil; refused {
				return err
			}
			tx.holdNear()
			return tx.enterSessions(ctx)
		}, o)
		if refused {
			return err
		}
		if last != nil {
			last.endNear(err)
		}
		return adviseTx("commit", err)
	})
	return refused, err
}

func (t *Tx) run(fn func(*Tx) error) error {
	defer t.over.Store(true)
	return fn(t)
}

// errUnfinished is what an observer is told of a function that panicked.
var errUnfinished = errors.New("the function of the transaction did not return")

// within runs a whole transaction as one call of the manager, which Close waits
// for.
func (m *Manager) within(ctx context.Context, op string, do func(context.Context) error) (err error) {
	slot, err := m.enter(ctx)
	if err != nil {
		return &tiers.Error{Op: op, Namespace: m.namespace, Err: err}
	}
	defer m.core.gate.leave(slot)
	ctx = asOwnWork(ctx) // so that what it calls once it is committed is not refused while Close waits
	err = errUnfinished
	if o := m.core.observer; o != nil {
		var end func(error)
		ctx, end = o.Begin(ctx, Op{Name: op})
		defer func() { end(err) }()
	}
	err = do(ctx)
	return err
}

// adviseTx says what to do about the error of a transaction as a whole.
func adviseTx(op string, err error) error {
	if err == nil {
		return nil
	}
	err = tiers.Fail(op, "", tiers.Key{}, err)
	switch {
	case errors.Is(err, tiers.ErrCommitUnknown) && op == "commit":
		if e, ok := errors.AsType[*tiers.Error](err); ok { // it says more than the tier's own hint
			told := *e
			told.Hint, err = "ask Manager.Outcome with the Tx of this error", &told
		}
	case errors.Is(err, tiers.ErrConflict):
		err = tiers.Hint(err, "run the transaction again, or let WithRetry do it, with more tries where many write the same")
	}
	return advise(err)
}

// Outcome tells what became of a transaction, told by [Tx.ID] or the Tx of an
// error, for a day at least. A transaction that is on its way in another process
// counts as rolled back until it is committed, and so does one that changed nothing,
// or memory alone. tiers.ErrKey: that is no id of a transaction.
// tiers.ErrCommitUnknown: it is too long ago to tell.
func (m *Manager) Outcome(ctx context.Context, id string) (Outcome, error) {
	slot, err := m.enter(ctx)
	if err != nil {
		return "", &tiers.Error{Op: "outcome", Tx: id, Err: err}
	}
	defer m.core.gate.leave(slot)
	o, err := m.core.engine.Outcome(ctx, id)
	return o, adviseTx("outcome", err)
}

// Update is a savepoint: when fn answers an error, which is then the answer, or
// panics, what fn did is taken back and the transaction can go on; a failure in
// fn does not count then. Nothing else may use the transaction meanwhile.
func (t *Tx) Update(ctx context.Context, fn func(*Tx) error, _ ...TxOption) error {
	if t.over.Load() {
		return t.completed("savepoint", errTxDone)
	}
	entered, kept, refused := t.all.sessions.mark(), false, false
	defer func() {
		if !kept {
			t.all.sessions.back(entered)
		}
	}()
	err := t.inner.Update(ctx, func(inner *txn.Tx) error {
		point := &Tx{inner: inner, manager: t.manager, all: t.all}
		err := point.run(fn)
		refused = err != nil
		return err
	})
	kept = err == nil
	if refused {
		return err
	}
	return t.completed("savepoint", err)
}

var errTxDone = tiers.Hint(tiers.ErrTxDone, "a transaction ends with its function; begin another one")

// ID names the transaction, for [Manager.Outcome].
func (t *Tx) ID() string { return t.inner.ID() }

// OnCommit has fn called once the transaction is known to be committed, before
// Update returns, in the order of the calls. What a savepoint asked for is
// forgotten with what it did. fn may use the manager.
func (t *Tx) OnCommit(fn func(context.Context)) { t.inner.OnCommit(fn) }

// Version answers the version that the commit gave to a key which the
// transaction saved: for OnCommit, and for after the commit. It is 0 before, and
// for a key that was deleted or not written. For collections of another
// namespace see [Collection.VersionIn].
func (t *Tx) Version(category, key string) tiers.Version {
	p := t.place(category)
	return p.versionIn(t, key)
}

// place is where the transaction finds a category.
func (t *Tx) place(category string) place { return t.manager.core.place(t.scope(), category, nil) }

func (t *Tx) scope() scope {
	m := t.manager
	return scope{core: m.core, namespace: m.namespace, err: m.err, tx: t}
}

// failed names the transaction in an error, and lets it not be committed unless
// the error is an answer.
func (t *Tx) failed(err error) error {
	return t.inner.Fail(inTx(t, err))
}

func inTx(t *Tx, err error) error {
	if e, ok := err.(*tiers.Error); ok && e.Tx == "" { //nolint:errorlint // only an outermost *Error is completed
		named := *e
		named.Tx = t.ID()
		return &named
	}
	return err
}

// completed is an error about the transaction itself.
func (t *Tx) completed(op string, err error) error {
	if err == nil {
		return nil
	}
	return inTx(t, advise(tiers.Fail(op, "", tiers.Key{}, err)))
}

// in answers the place as the transaction sees it.
func (p *place) in(t *Tx) place {
	inner := *p
	if t == nil {
		inner.err = cmp.Or(p.err, tiers.Hint(tiers.ErrUnsupported, "give In the transaction that Manager.Update gives to its function"))
		return inner
	}
	inner.tx = t
	switch {
	case p.route == nil:
	case p.route.core != t.manager.core:
		inner.err = cmp.Or(p.err, tiers.Hint(tiers.ErrUnsupported, "the transaction is one of another store: use Update of the manager that this belongs to"))
	default:
		inner.tier = t.inner.Tier(p.route.tierName)
	}
	return inner
}

func (p *place) versionIn(t *Tx, name string) tiers.Version {
	if p.err != nil || p.route.core != t.manager.core {
		return 0
	}
	return t.inner.Version(p.route.tierName, p.key(name))
}
