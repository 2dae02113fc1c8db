package txn

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// Config is what [Journal] takes.
type Config struct {
	Tier  string       // name of the tier in the journal and in errors; empty: cache
	Epoch string       // of the store: what is on the server under another epoch does not count
	Limit int64        // most bytes of keys and values that wait; 0: no limit. Beyond it saves are ErrFull
	Owner string       // names this process in the journal; empty: a random id
	Clock tiers.Clock  // nil: the system's
	Log   *slog.Logger // nil: none

	// Others is told of keys for which other processes have left rows, within 100 ms
	// of each while it waits. nil: nobody wants to know.
	Others func([]tiers.Key)
	// Applied is told of rows that this process has brought to the tier, or passed over
	// there, and taken from the journal: others may have looked just before. nil: nobody
	// wants to know.
	Applied func([]tiers.Row)
}

// Journaled is a tier with a journal in front of it. It is safe for concurrent
// use.
type Journaled struct {
	inner    tiers.Tier
	applier  tiers.Applier
	reserver tiers.Reserver // nil: versions are guessed
	outage   tiers.Outage   // nil: the tier is never away for long
	system   tiers.System
	waiter   tiers.Waiter // nil: the system store has to be asked
	holder   tiers.Holder // nil: locks end with the process
	name     string
	epoch    string
	owner    string
	limit    int64
	max      int64 // bytes of a value that the tier takes; 0: any
	local    bool  // the tier is this host\'s: rows of other processes are seen at once
	clock    tiers.Clock
	log      *slog.Logger
	foreign  func([]tiers.Key) // may be nil
	applied  func([]tiers.Row) // may be nil
	shown    uint64            // the Seq of the last row that foreign was called for; the watch's

	view  view
	reach reach
	ahead floor
	apply applying
	holds holds
	count counters

	stop    context.CancelFunc
	workers sync.WaitGroup
	ended   chan struct{} // closed when Close begins

	mu     sync.RWMutex // guards closed, and Add of calls against Wait
	closed bool
	calls  sync.WaitGroup
}

var (
	_ tiers.Tier      = (*Journaled)(nil)
	_ tiers.Exister   = (*Journaled)(nil)
	_ tiers.Toucher   = (*Journaled)(nil)
	_ tiers.Batcher   = (*Journaled)(nil)
	_ tiers.Applier   = (*Journaled)(nil)
	_ tiers.Sweeper   = (*Journaled)(nil)
	_ tiers.Pinger    = (*Journaled)(nil)
	_ tiers.Statser   = (*Journaled)(nil)
	_ tiers.Counter   = (*Journaled)(nil)
	_ tiers.Describer = (*Journaled)(nil)
	_ tiers.Diagnoser = (*Journaled)(nil)
)

// Journal puts a journal in front of a tier, which from then on is the
// journal's: its Close closes the tier, and not the system store. The tier has
// to have [tiers.Applier]; its [tiers.Outage] tells when it is away. A tier
// without that is taken to have been reached.
//
// Rows that were left by others are served at once, and applied.
func Journal(ctx context.Context, inner tiers.Tier, system tiers.System, c Config) (*Journaled, error) {
	j := &Journaled{
		inner: inner, system: system,
		name: cmp.Or(c.Tier, "cache"), epoch: c.Epoch, owner: c.Owner, limit: c.Limit,
		max: tiers.Describe(inner).MaxValue, clock: c.Clock, log: c.Log, foreign: c.Others, applied: c.Applied,
		ended: make(chan struct{}),
	}
	j.view.init()
	j.apply.init()
	j.holds.init()
	if j.owner == "" {
		j.owner = rand.Text()
	}
	if j.clock == nil {
		j.clock = tiers.SystemClock()
	}
	if j.log == nil {
		j.log = slog.New(slog.DiscardHandler)
	}
	var ok bool
	if j.applier, ok = tiers.As[tiers.Applier](inner); !ok {
		return nil, tiers.Fail("open", j.name, tiers.Key{},
			fmt.Errorf("%w: a journal needs a tier that can apply records", tiers.ErrUnsupported))
	}
	j.local = tiers.Describe(inner).Scope == tiers.ScopeHost
	j.reserver, _ = tiers.As[tiers.Reserver](inner)
	j.waiter, _ = system.(tiers.Waiter)
	j.holder, _ = system.(tiers.Holder)
	if j.outage, ok = tiers.As[tiers.Outage](inner); !ok {
		j.reach.known.Store(true)
	}
	err := errors.Join(j.readFloor(ctx), j.meet(ctx), j.look(ctx))
	if err != nil {
		return nil, tiers.Fail("open", j.name, tiers.Key{}, err)
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	j.stop = stop
	j.workers.Go(func() { j.watch(work) })
	j.workers.Go(func() { j.carry(work) })
	j.apply.kick() // for what others have left
	return j, nil
}

// As answers for the wrapper: it can do what the tier inside can.
func (j *Journaled) As(target any) bool {
	switch t := target.(type) {
	case *tiers.Applier:
		*t = j
		return true
	case *tiers.Exister:
		*t = j
		return true
	case *tiers.Counter:
		*t = j
		return true
	case *tiers.Describer:
		*t = j
		return true
	case *tiers.Diagnoser:
		*t = j
		return true
	case *tiers.Toucher:
		return offer[tiers.Toucher](j.inner, t, j)
	case *tiers.Batcher:
		return offer[tiers.Batcher](j.inner, t, j)
	case *tiers.Sweeper:
		return offer[tiers.Sweeper](j.inner, t, j)
	case *tiers.Pinger:
		return offer[tiers.Pinger](j.inner, t, j)
	case *tiers.Statser:
		return offer[tiers.Statser](j.inner, t, j)
	case *tiers.Freezer: // what the journal holds is frozen with the system store
		inner, ok := tiers.As[tiers.Freezer](j.inner)
		*t = inner
		return ok
	case *tiers.Messenger: // messages need no journal: who was away asks the home anew
		inner, ok := tiers.As[tiers.Messenger](j.inner)
		*t = inner
		return ok
	case *tiers.Outage:
		*t = j.outage
		return j.outage != nil
	}
	return false
}

// offer sets the target to own if the tier inside has the capability.
func offer[T any](inner tiers.Tier, target *T, own T) bool {
	if _, ok := tiers.As[T](inner); !ok {
		return false
	}
	*target = own
	return true
}

// flushFor is how long Close goes on applying rows.
const flushFor = time.Second

// Close refuses new calls, waits for those on their way, applies what waits for
// up to a second while the server answers, ends every goroutine and closes the
// tier. Rows that are left stay in the journal. A context that is over only
// shortens that.
func (j *Journaled) Close(ctx context.Context) error {
	j.mu.Lock()
	closed := j.closed
	j.closed = true
	j.mu.Unlock()
	if closed {
		return nil
	}
	close(j.ended)
	j.calls.Wait() // each is bounded by its context and by the tier
	j.stop()
	j.workers.Wait()
	flush, cancel := context.WithTimeout(ctx, flushFor)
	defer cancel()
	if j.view.any() {
		// What can't be applied stays for another process, or the next Open.
		_ = j.drain(flush)
	}
	return tiers.Fail("close", j.name, tiers.Key{}, j.inner.Close(ctx))
}

// enter begins a call, which ends with j.calls.Done.
func (j *Journaled) enter(ctx context.Context) error {
	if err := j.begin(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		j.calls.Done()
		return context.Cause(ctx)
	}
	return nil
}

// begin is enter for whoever looks at its context by itself.
func (j *Journaled) begin() error {
	j.mu.RLock()
	defer j.mu.RUnlock()
	if j.closed {
		return tiers.ErrClosed
	}
	j.calls.Add(1)
	return nil
}

// call runs one operation: within the life of the tier, and with the server's
// first answer noted before anything relies on it.
func (j *Journaled) call(ctx context.Context, op string, k tiers.Key, do func() error) error {
	if err := j.enter(ctx); err != nil {
		return tiers.Fail(op, j.name, k, err)
	}
	defer j.calls.Done()
	err := j.meet(ctx)
	if err == nil {
		err = do()
	}
	if isAway(err) && ctx.Err() != nil { // nothing was changed; the caller knows why
		err = context.Cause(ctx)
	}
	return j.told(op, k, err)
}

// change is call for what changes keys: those of a transaction which is being
// decided stay as they are until then, and rows that other processes have
// committed are seen, so that nothing comes between them and the tier.
func (j *Journaled) change(ctx context.Context, op string, k tiers.Key, do func() error) error {
	return j.call(ctx, op, k, func() error {
		release, err := j.holds.share(ctx, k)
		if err != nil {
			return err
		}
		defer release()
		if _, err := j.newRows(ctx); err != nil {
			return err
		}
		return do()
	})
}

func (j *Journaled) changeAll(ctx context.Context, op string, ks []tiers.Key, do func() error) error {
	return j.call(ctx, op, tiers.Key{}, func() error {
		release, err := j.holds.shareAll(ctx, ks)
		if err != nil {
			return err
		}
		defer release()
		if _, err := j.newRows(ctx); err != nil {
			return err
		}
		return do()
	})
}

// told gives an error of the journal or of the tier the name of the operation.
// The errors of a batch stay apart, each with its key.
func (j *Journaled) told(op string, k tiers.Key, err error) error {
	items, ok := itemErrors(nil, err)
	if !ok {
		return tiers.Fail(op, j.name, k, err)
	}
	named := make([]error, len(items))
	for i, e := range items {
		c := *e
		c.Op, c.Tier = op, j.name
		named[i] = &c
	}
	if len(named) == 1 {
		return named[0]
	}
	return errors.Join(named...)
}

// itemErrors appends the errors that err is or was joined from, and tells
// whether there are any and each is about a key.
func itemErrors(items []*tiers.Error, err error) ([]*tiers.Error, bool) {
	switch e := err.(type) { //nolint:errorlint // takes apart what was joined, and no more
	case *tiers.Error:
		return append(items, e), e.Key != ""
	case interface{ Unwrap() []error }:
		ok := false
		for _, one := range e.Unwrap() {
			if items, ok = itemErrors(items, one); !ok {
				return nil, false
			}
		}
		return items, ok
	}
	return nil, false
}

// away answers nil unless the tier says that its server is away.
func (j *Journaled) away() error {
	if j.outage == nil {
		return nil
	}
	return j.outage.Away()
}

// isAway tells whether nothing was sent, since the server is away.
func isAway(err error) bool {
	return errors.Is(err, tiers.ErrUnavailable) && !errors.Is(err, tiers.ErrCommitUnknown)
}

// unless answers err, the error of the journal, unless the tier gave no answer before:
// then the change may be there although the journal did not take it.
func unless(tier, err error) error {
	switch {
	case err == nil || !errors.Is(tier, tiers.ErrCommitUnknown) || errors.Is(err, tiers.ErrCommitUnknown):
		return err
	case isAway(err):
		return fmt.Errorf("%w: %v", tiers.ErrCommitUnknown, err) //nolint:errorlint // something was sent
	}
	return fmt.Errorf("%w: %w", tiers.ErrCommitUnknown, err)
}

// open tells whether a call without a condition may be finished by the
// journal: nothing was sent, or nobody knows, and its caller still waits.
func open(ctx context.Context, err error) bool {
	return ctx.Err() == nil && (isAway(err) || errors.Is(err, tiers.ErrCommitUnknown))
}

func isNotFound(err error) bool { return errors.Is(err, tiers.ErrNotFound) }
