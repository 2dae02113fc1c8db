package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/sagestore/sagestore/tiers"
)

// DefaultLimit is how many bytes of keys and values a transaction may change.
const DefaultLimit = 64 << 20

// Member is a tier that takes part in transactions.
type Member struct {
	Name string
	Tier tiers.Tier
}

// EngineConfig is what [New] takes.
type EngineConfig struct {
	// Members are the tiers. One that is [tiers.Publisher] takes part by itself,
	// a [Journaled] one by rows of the journal, and every other one can be read
	// by View only, unless it decides.
	Members []Member
	// Decider names the member that Committer belongs to; empty: none.
	Decider   string
	Committer tiers.Committer // nil: transactions touch publishers only
	System    tiers.System    // remembers what was done once
	Limit     int64           // bytes of keys and values that a transaction may change; 0: DefaultLimit
	Clock     tiers.Clock     // nil: the system's
	Log       *slog.Logger    // nil: none
}

// Engine runs transactions over several tiers. It is safe for concurrent use.
type Engine struct {
	members   map[string]*member
	order     []*member // in the order in which their keys are held
	committer tiers.Committer
	system    tiers.System
	limit     int64
	clock     tiers.Clock
	log       *slog.Logger

	settling sync.WaitGroup // commits whose caller did not wait for the outcome
}

// member is a tier and the way in which it takes part; at most one of decides,
// publisher and rows is set.
type member struct {
	name      string
	tier      tiers.Tier
	max       int64 // bytes of a value that it takes; 0: any
	decides   bool
	publisher tiers.Publisher
	rows      *Journaled
	snapshots tiers.Snapshotter
}

// Outcome is what became of a transaction.
type Outcome string

// The outcomes.
const (
	Committed  Outcome = "committed"
	RolledBack Outcome = "rolled back" // or never begun
)

// Options are what a single transaction may want.
type Options struct {
	Retry int    // how often the function is run again after ErrConflict
	Once  string // ErrExists when a transaction of that name was committed before
}

// New makes an engine. The tiers stay their owner's.
func New(c EngineConfig) (*Engine, error) {
	e := &Engine{
		members: map[string]*member{}, committer: c.Committer, system: c.System,
		limit: cmp.Or(c.Limit, DefaultLimit), clock: c.Clock, log: c.Log,
	}
	if e.clock == nil {
		e.clock = tiers.SystemClock()
	}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	for _, in := range c.Members {
		if e.members[in.Name] != nil {
			return nil, fmt.Errorf("two tiers of transactions have the name %q", in.Name)
		}
		m := &member{name: in.Name, tier: in.Tier, max: tiers.Describe(in.Tier).MaxValue}
		m.snapshots, _ = tiers.As[tiers.Snapshotter](in.Tier)
		switch j, journaled := in.Tier.(*Journaled); {
		case in.Name == c.Decider && c.Committer != nil:
			m.decides = true
		case journaled && c.Committer != nil:
			m.rows = j
		default:
			m.publisher, _ = tiers.As[tiers.Publisher](in.Tier)
		}
		e.members[m.name] = m
		e.order = append(e.order, m)
	}
	return e, nil
}

// takesPart answers why the tier can't be used in a transaction that writes.
func (m *member) takesPart() error {
	if m.decides || m.publisher != nil || m.rows != nil {
		return nil
	}
	return tiers.Hint(fmt.Errorf("%w: the tier %s can't take part in transactions", tiers.ErrUnsupported, m.name),
		"its driver has to offer tiers.Applier, and the store a database that keeps the journal; use the tier outside of transactions")
}

// Update runs fn in a transaction and commits what it did when it answers nil;
// an error, a panic and the end of the context roll everything back. The error
// of fn is the answer as it is. fn may run several times when o.Retry allows.
//
// ErrConflict: what fn has read was changed meanwhile. ErrTxAborted: fn answered
// nil although a call in it had failed. ErrCommitUnknown: nobody knows yet; the
// error is a *tiers.Error whose Tx can be asked for with Outcome.
func (e *Engine) Update(ctx context.Context, fn func(*Tx) error, o Options) error {
	pause := firstPause
	for tries := 0; ; tries++ {
		err := e.try(ctx, fn, o)
		if tries >= o.Retry || !errors.Is(err, tiers.ErrConflict) || errors.Is(err, tiers.ErrCommitUnknown) {
			return err
		}
		// Others take their time whatever the engine's clock says: one that is
		// moved by hand would hold everybody up.
		if tiers.SystemClock().Sleep(ctx, pause/2+rand.N(pause)) != nil { //nolint:gosec // spreads callers, guards nothing
			return err
		}
		pause = min(2*pause, longestPause)
	}
}

// The pause after a conflict is doubled from the first up to the longest.
const (
	firstPause   = 500 * time.Microsecond
	longestPause = 50 * time.Millisecond
)

func (e *Engine) try(ctx context.Context, fn func(*Tx) error, o Options) error {
	tx, err := e.begin(ctx, o, false)
	if err != nil {
		return err
	}
	done := false
	defer func() {
		if !done { // fn panicked, or ended its goroutine
			tx.endAll()
			tx.afterEnd()
		}
	}()
	err = fn(tx)
	done = true
	tx.endAll()
	defer tx.afterEnd()
	if err != nil {
		return err
	}
	return tx.commit(ctx)
}

// View runs fn with a view of the tiers that can't be written to: that of a tier
// with snapshots is of one instant, that of its first use.
func (e *Engine) View(ctx context.Context, fn func(*Tx) error) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tx, err := e.begin(ctx, Options{}, true)
	if err != nil {
		return err
	}
	defer tx.afterEnd()
	defer func() {
		if e := tx.closeSnapshots(); e != nil {
			err = errors.Join(err, e)
		}
	}()
	defer tx.endAll()
	return fn(tx)
}

func (e *Engine) begin(ctx context.Context, o Options, readOnly bool) (*Tx, error) {
	if ctx.Err() != nil {
		return nil, &tiers.Error{Op: "begin", Err: context.Cause(ctx)}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, &tiers.Error{Op: "begin", Err: err}
	}
	return &Tx{work: &work{e: e, id: id.String(), once: o.Once, readOnly: readOnly, ctx: ctx}}, nil
}

// remembered is how long the outcome of a transaction is known at least.
const remembered = 24 * time.Hour

// Outcome tells what became of a transaction, for a day at least. One that is on
// its way in another process counts as rolled back until it is committed, and so
// does one that changed nothing, or publishers alone. ErrKey: that is no id of a transaction.
// ErrCommitUnknown: it is too long ago to tell.
func (e *Engine) Outcome(ctx context.Context, id string) (Outcome, error) {
	if e.committer == nil {
		return "", &tiers.Error{Op: "outcome", Tx: id, Err: tiers.ErrUnsupported, Hint: "without a database nothing is remembered of transactions"}
	}
	made, err := uuid.Parse(id)
	if err != nil || made.Version() != 7 {
		return "", &tiers.Error{Op: "outcome", Err: fmt.Errorf("%w: %.64q names no transaction", tiers.ErrKey, id), Hint: "take the Tx of the error, or the ID of the transaction"}
	}
	committed, err := e.committer.Outcome(ctx, id)
	switch {
	case err != nil:
		return "", inTx("outcome", id, err)
	case committed:
		return Committed, nil
	}
	if begun := time.Unix(made.Time().UnixTime()); e.clock.Now().Sub(begun) > remembered && tiers.SystemClock().Now().Sub(begun) > remembered {
		return "", &tiers.Error{
			Op: "outcome", Tx: id, Hint: "load the keys that it would have changed",
			Err: fmt.Errorf("%w: it began on %s, and what became of a transaction is known for a day only", tiers.ErrCommitUnknown, begun.UTC().Format(time.RFC3339)),
		}
	}
	return RolledBack, nil
}

// Close waits for commits whose callers have gone.
func (e *Engine) Close(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.settling.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		<-done // bounded by the disk: the store may not be closed under them
		return nil
	}
}

// inTx names the transaction in an error.
func inTx(op, id string, err error) error {
	if err == nil {
		return nil
	}
	if inner, ok := err.(*tiers.Error); ok { //nolint:errorlint // only an outermost *Error is completed rather than wrapped
		named := *inner
		named.Tx = id
		return &named
	}
	return &tiers.Error{Op: op, Tx: id, Err: err}
}
