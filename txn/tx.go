package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/sagestore/sagestore/tiers"
)

// Tx is a transaction, or a savepoint in one. It is safe for several goroutines
// until its function returns; from then on every use is [tiers.ErrTxDone].
type Tx struct {
	*work
	over bool // this transaction or savepoint; guarded by mu
}

// work is what a transaction and its savepoints share.
type work struct {
	e        *Engine
	id       string
	once     string
	readOnly bool
	ctx      context.Context //nolint:containedctx // snapshots end with it

	mu       sync.Mutex
	ended    bool    // the function of the transaction has returned
	parts    []*part // in the order of the engine's members
	changes  int     // writes that are buffered
	bytes    int64   // of their keys and values
	undo     []undo  // what savepoints need to go back
	saves    uint64  // how many there were, for provisional versions
	since    *uint64 // the journal's sequence before the first read of rows
	poison   error   // a failure that makes the commit impossible
	conflict error   // something was read twice and was not the same
	onCommit []func(context.Context)
	atEnd    []func()
	result   map[place]tiers.Version
}

// place is a key of a tier.
type place struct {
	tier string
	key  tiers.Key
}

// part is what a transaction did with one tier.
type part struct {
	*member
	reads    map[tiers.Key]tiers.Version
	ranges   []tiers.Range
	unread   map[int][]tiers.Key // what a listing could not read, by the index of its range
	writes   map[tiers.Key]*write
	snapshot tiers.Snapshot
}

// write is a change that waits for the commit.
type write struct {
	record  tiers.Record // its version is a provisional one
	deleted bool
}

// undo is the way back over one change.
type undo struct {
	p   *part
	key tiers.Key
	was *write
}

// provisional marks versions that are given out before the commit.
const provisional tiers.Version = 1 << 62

// ID names the transaction, for [Engine.Outcome].
func (tx *Tx) ID() string { return tx.id }

// OnCommit has fn called once the transaction is known to be committed, before
// Update returns, in the order in which they were given. A panic in it goes on to
// Update's caller, though the transaction stands and later ones are still called.
// What a savepoint asked for is forgotten when it is rolled back.
func (tx *Tx) OnCommit(fn func(context.Context)) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.onCommit = append(tx.onCommit, fn)
}

// AtEnd has fn called once the transaction is over, whatever became of it: after
// the commit, and before what OnCommit was given.
func (tx *Tx) AtEnd(fn func()) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.atEnd = append(tx.atEnd, fn)
}

// Fail makes the commit impossible, unless err is an answer rather than a
// failure: not found, exists, and the conflict of a condition. It answers err.
func (tx *Tx) Fail(err error) error {
	if err == nil || isAnswer(err) {
		return err
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.poison == nil && !tx.late() {
		tx.poison = err
	}
	return err
}

func isAnswer(err error) bool {
	return errors.Is(err, tiers.ErrNotFound) || errors.Is(err, tiers.ErrExists) ||
		errors.Is(err, tiers.ErrConflict) || errors.Is(err, tiers.ErrTxDone)
}

// Version is the version that the commit gave to a key that the transaction has
// saved, in OnCommit and later; 0 before, and for what was deleted or not written.
func (tx *Tx) Version(tier string, k tiers.Key) tiers.Version {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	return tx.result[place{tier, k}]
}

// Update is a savepoint: an error or a panic of fn takes back what fn did, and
// the transaction goes on. Nothing else may use the transaction meanwhile.
func (tx *Tx) Update(ctx context.Context, fn func(*Tx) error) error {
	if err := tx.alive(ctx); err != nil {
		return &tiers.Error{Op: "savepoint", Tx: tx.id, Err: err}
	}
	tx.mu.Lock()
	mark, poison, hooks := len(tx.undo), tx.poison, len(tx.onCommit)
	tx.mu.Unlock()
	inner := &Tx{work: tx.work}
	kept := false
	defer func() {
		inner.end()
		if kept {
			return
		}
		tx.mu.Lock()
		defer tx.mu.Unlock()
		if tx.late() {
			return // it is being committed, without what comes too late
		}
		tx.rollback(mark)
		tx.poison, tx.onCommit = poison, tx.onCommit[:hooks]
	}()
	err := fn(inner)
	kept = err == nil
	return err
}

// rollback takes back the changes behind a mark.
func (w *work) rollback(mark int) {
	for i := len(w.undo) - 1; i >= mark; i-- {
		u := w.undo[i]
		w.put(u.p, u.key, u.was)
	}
	w.undo = w.undo[:mark]
}

// takeBack takes back the changes of some keys behind a mark; what others did
// meanwhile stays.
func (tx *Tx) takeBack(mark int, tier string, ks []tiers.Key) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.late() {
		return
	}
	w := tx.work
	mine := map[tiers.Key]bool{}
	for _, k := range ks {
		mine[k] = true
	}
	var others []undo
	for i := len(w.undo) - 1; i >= mark; i-- {
		if u := w.undo[i]; u.p.name == tier && mine[u.key] {
			w.put(u.p, u.key, u.was)
		} else {
			others = append(others, u)
		}
	}
	slices.Reverse(others)
	w.undo = append(w.undo[:mark], others...)
}

// put changes the write set and keeps its sums.
func (w *work) put(p *part, k tiers.Key, next *write) {
	if old := p.writes[k]; old != nil {
		w.bytes -= old.bytes()
		w.changes--
		delete(p.writes, k)
	}
	if next != nil {
		w.bytes += next.bytes()
		w.changes++
		p.writes[k] = next
	}
}

func (w *write) bytes() int64 { return int64(len(w.record.Name) + len(w.record.Value)) }

// alive answers why the transaction can't be used.
func (tx *Tx) alive(ctx context.Context) error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	return tx.usable(ctx)
}

// usable is alive for who holds the lock.
func (tx *Tx) usable(ctx context.Context) error {
	switch {
	case tx.late():
		return tooLate()
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return nil
}

// late tells whether the transaction, or the savepoint, is over. The lock is held.
func (tx *Tx) late() bool { return tx.over || tx.ended }

func tooLate() error {
	return tiers.Hint(tiers.ErrTxDone, "a transaction ends with its function; begin another one")
}

func (tx *Tx) end() {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.over = true
}

// endAll ends the transaction with all its savepoints.
func (tx *Tx) endAll() {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.over, tx.ended = true, true
}

func (tx *Tx) afterEnd() {
	tx.mu.Lock()
	all := tx.atEnd
	tx.atEnd = nil
	tx.mu.Unlock()
	for _, fn := range all {
		fn()
	}
}

// Tier answers a tier as the transaction sees it: what it wrote, else what is
// stored. Every error but an answer makes the commit impossible. Its Close does
// nothing.
func (tx *Tx) Tier(name string) tiers.Tier { return &seen{tx: tx, name: name} }

// part answers what the transaction knows of a tier, for a call.
func (tx *Tx) part(ctx context.Context, name string) (*part, error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if err := tx.usable(ctx); err != nil {
		return nil, err
	}
	for _, p := range tx.parts {
		if p.name == name {
			return p, nil
		}
	}
	m := tx.e.members[name]
	if m == nil {
		return nil, fmt.Errorf("%w: the store has no tier %q", tiers.ErrUnsupported, name)
	}
	if !tx.readOnly {
		if err := m.takesPart(); err != nil {
			return nil, err
		}
	}
	p := &part{member: m, reads: map[tiers.Key]tiers.Version{}, writes: map[tiers.Key]*write{}}
	tx.parts = append(tx.parts, p)
	return p, nil
}

// before notes the journal's sequence before rows are read for the first time.
func (tx *Tx) before(ctx context.Context, p *part) error {
	if p.rows == nil || tx.readOnly {
		return nil
	}
	tx.mu.Lock()
	known := tx.since != nil
	tx.mu.Unlock()
	if known {
		return nil
	}
	now, err := tx.e.committer.Sequence(ctx)
	if err != nil {
		return err
	}
	// What others had committed by then has to be seen, or it would be taken for
	// something that was read.
	for _, m := range tx.e.order {
		if m.rows == nil {
			continue
		}
		if _, err := m.rows.newRows(ctx); err != nil {
			return err
		}
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.since == nil {
		tx.since = &now
	}
	return nil
}

// note keeps the version that was read, and finds that it changed.
func (tx *Tx) note(p *part, k tiers.Key, v tiers.Version) error {
	if tx.readOnly {
		return nil
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.late() {
		return tooLate()
	}
	if was, again := p.reads[k]; again && was != v {
		err := tiers.Fail("load", p.name, k, fmt.Errorf("%w: it was changed during the transaction", tiers.ErrConflict))
		if tx.conflict == nil {
			tx.conflict = err
		}
		return err
	}
	p.reads[k] = v
	return nil
}

func (tx *Tx) closeSnapshots() error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	var errs []error
	for _, p := range tx.parts {
		if p.snapshot != nil {
			errs = append(errs, p.snapshot.Close())
			p.snapshot = nil
		}
	}
	return errors.Join(errs...)
}
