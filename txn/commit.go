package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// commit carries out what the transaction, which is over for its function, has
// asked for.
func (tx *Tx) commit(ctx context.Context) error {
	switch {
	case tx.poison != nil:
		return &tiers.Error{
			Op: "commit", Tx: tx.id, Err: fmt.Errorf("%w: a call in it had failed: %w", tiers.ErrTxAborted, tx.poison),
			Hint: "nothing was changed; return the error of a call that fails from the transaction's function",
		}
	case tx.conflict != nil:
		return inTx("commit", tx.id, tx.conflict)
	case ctx.Err() != nil:
		return &tiers.Error{Op: "commit", Tx: tx.id, Err: context.Cause(ctx)}
	}
	if !tx.matters() {
		tx.committed(ctx)
		return nil
	}
	c := &commitment{tx: tx, e: tx.e}
	err := c.run(ctx)
	if err == nil {
		tx.committed(ctx)
	}
	return inTx("commit", tx.id, err)
}

// matters tells whether there is anything to check or to change: who has read
// one key only has seen what was there at one instant.
func (tx *Tx) matters() bool {
	reads := 0
	for _, p := range tx.parts {
		reads += len(p.reads) + 2*len(p.ranges)
	}
	return tx.changes > 0 || tx.once != "" || reads > 1
}

func (tx *Tx) committed(ctx context.Context) {
	tx.afterEnd() // first: what is called now may need what the transaction kept
	tx.mu.Lock()
	hooks := tx.onCommit
	tx.onCommit = nil
	tx.mu.Unlock()
	callAll(ctx, hooks)
}

// callAll calls the later ones as well when one panics.
func callAll(ctx context.Context, hooks []func(context.Context)) {
	if len(hooks) == 0 {
		return
	}
	defer callAll(ctx, hooks[1:])
	hooks[0](ctx)
}

// commitment is a commit on its way.
type commitment struct {
	tx *Tx
	e  *Engine

	publishers []*part
	journaled  []*part
	decides    *part

	again    bool     // an attempt was overtaken
	settling bool     // the outcome is found out in the background
	release  []func() // of held keys
	publish  []func() []tiers.Record
	abort    []func()
}

// tries is how often a commit goes back to the tiers because another process
// was faster with a key that the transaction writes and has not read.
const tries = 100

func (c *commitment) run(ctx context.Context) error {
	for _, m := range c.e.order {
		for _, p := range c.tx.parts {
			switch {
			case p.member != m || len(p.reads)+len(p.ranges)+len(p.writes) == 0:
			case m.publisher != nil:
				c.publishers = append(c.publishers, p)
			case m.rows != nil:
				c.journaled = append(c.journaled, p)
			default:
				c.decides = p
			}
		}
	}
	if err := c.hold(ctx); err != nil {
		c.letGo()
		return err
	}
	for left := tries; ; left-- {
		err := c.attempt(ctx)
		if again, ok := errors.AsType[overtaken](err); ok {
			if left > 0 && ctx.Err() == nil {
				c.again = true
				continue
			}
			err = again.error
		}
		if !c.settling {
			c.letGo()
		}
		return err
	}
}

// hold keeps the keys of journaled tiers as they are in this process.
func (c *commitment) hold(ctx context.Context) error {
	for _, p := range c.journaled {
		release, err := p.rows.holds.hold(ctx, p.keys(), len(p.ranges) > 0)
		if err != nil {
			return err
		}
		c.release = append(c.release, release)
	}
	return nil
}

func (c *commitment) letGo() {
	for _, release := range slices.Backward(c.release) {
		release()
	}
	c.release = nil
}

// keys are those that were read or written.
func (p *part) keys() []tiers.Key {
	ks := slices.Collect(maps.Keys(p.writes))
	for k := range p.reads {
		if p.writes[k] == nil {
			ks = append(ks, k)
		}
	}
	slices.SortFunc(ks, compareKeys)
	return ks
}

func compareKeys(a, b tiers.Key) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Category, b.Category), strings.Compare(a.Name, b.Name))
}

// overtaken marks a conflict over a key that was not read.
type overtaken struct{ error }

func (c *commitment) attempt(ctx context.Context) error {
	out := tiers.Commit{ID: c.tx.id, RowLimits: map[string]int64{}}
	if err := c.rows(ctx, &out); err != nil {
		return err
	}
	if c.decides != nil {
		out.Reads, out.Ranges, out.Saves = c.decides.reading(), c.decides.ranges, c.decides.saves(c.e.clock.Now())
	}
	if c.tx.once != "" {
		out.OnlyOnce, out.OnceValue = c.tx.once, []byte(c.tx.id)
	}
	if err := c.prepare(ctx); err != nil {
		return err
	}
	if c.e.committer == nil {
		return c.alone(ctx, &out)
	}
	if len(c.journaled) == 0 && c.decides == nil && c.tx.once == "" {
		c.finish(true)
		return nil
	}
	for _, p := range c.journaled {
		if len(p.writes) > 0 {
			p.rows.view.begin()
			defer p.rows.view.end()
		}
	}
	return c.decide(ctx, &out)
}

// alone finishes a transaction where nothing but publishers can take part.
func (c *commitment) alone(ctx context.Context, out *tiers.Commit) error {
	if out.OnlyOnce != "" {
		set, err := c.e.system.SetFact(ctx, out.OnlyOnce, out.OnceValue, true)
		if err == nil && string(set) != string(out.OnceValue) {
			err = tiers.ErrExists
		}
		if err != nil {
			c.finish(false)
			return err
		}
	}
	c.finish(true)
	return nil
}

// decide asks the deciding store, and finishes the rest by its answer.
func (c *commitment) decide(ctx context.Context, out *tiers.Commit) error {
	done, err := c.e.committer.Commit(ctx, *out)
	changes := len(out.Saves)+len(out.Rows) > 0 || out.OnlyOnce != ""
	switch {
	case err == nil:
		c.finish(true)
		c.note(&done)
		for _, p := range c.journaled {
			p.rows.apply.later(len(p.writes))
		}
		return nil
	case errors.Is(err, tiers.ErrCommitUnknown) && changes:
		c.settle(ctx)
		return err
	}
	c.finish(false)
	if errors.Is(err, tiers.ErrCommitUnknown) && ctx.Err() != nil {
		return context.Cause(ctx) // it was only asked whether the reads hold
	}
	if errors.Is(err, tiers.ErrConflict) && !c.wasRead(err) {
		return overtaken{err}
	}
	return err
}

// settle finds out what became of the commit, for what has to follow it.
func (c *commitment) settle(ctx context.Context) {
	c.settling = true
	ctx = context.WithoutCancel(ctx)
	for _, p := range c.journaled {
		p.rows.view.begin()
	}
	c.e.settling.Go(func() {
		committed, err := c.e.committer.Outcome(ctx, c.tx.id)
		c.finish(committed && err == nil)
		c.letGo()
		for _, p := range c.journaled {
			p.rows.view.end()
			p.rows.apply.kick()
		}
	})
}

// wasRead tells whether the function has read the key of a conflict.
func (c *commitment) wasRead(err error) bool {
	var e *tiers.Error
	if !errors.As(err, &e) || e.Key == "" {
		return true
	}
	k := tiers.Key{Namespace: e.Namespace, Category: e.Category, Name: e.Key}
	for _, p := range c.tx.parts {
		if _, read := p.reads[k]; read {
			return true
		}
		for _, r := range p.ranges {
			if r.Query.Namespace == k.Namespace && r.Query.Category == k.Category {
				return true
			}
		}
	}
	return false
}

func (p *part) wasRead(k tiers.Key) bool {
	_, read := p.reads[k]
	return read
}

// settled is what a change comes to now: how long it lives counts from its call.
func (w *write) settled(now time.Time) tiers.Record {
	r := w.record
	r.Deleted = w.deleted || !r.Live(now)
	switch {
	case r.Deleted:
		r.Value, r.TTL = nil, 0
	case !r.Expires.IsZero():
		r.TTL = r.Expires.Sub(now)
	}
	return r
}

// saves answers the writes in the order of their keys, which is a good one for
// the store.
func (p *part) saves(now time.Time) []tiers.Record {
	out := make([]tiers.Record, 0, len(p.writes))
	for _, w := range p.writes {
		out = append(out, w.settled(now))
	}
	slices.SortFunc(out, func(a, b tiers.Record) int { return compareKeys(a.Key, b.Key) })
	return out
}

// prepare readies the publishers, whose keys nobody else can use until finish.
func (c *commitment) prepare(ctx context.Context) error {
	for _, p := range c.publishers {
		publish, abort, err := p.publisher.Prepare(ctx, tiers.Commit{
			ID: c.tx.id, Reads: p.reading(), Ranges: p.ranges, Saves: p.saves(c.e.clock.Now()),
		})
		if err != nil {
			c.finish(false)
			return tiers.Fail("commit", p.name, tiers.Key{}, err)
		}
		c.publish, c.abort = append(c.publish, publish), append(c.abort, abort)
	}
	return nil
}

// finish ends what prepare began.
func (c *commitment) finish(committed bool) {
	for i, p := range c.publishers[:len(c.publish)] {
		if !committed {
			c.abort[i]()
			continue
		}
		c.result(p, c.publish[i]())
	}
	c.publish, c.abort = nil, nil
}

// note keeps the versions that the deciding store gave.
func (c *commitment) note(done *tiers.Committed) {
	if c.decides != nil {
		c.result(c.decides, done.Saves)
	}
	for i := range done.Rows {
		if r := &done.Rows[i]; !r.Deleted {
			c.put(place{r.Tier, r.Key}, r.Version)
		}
	}
}

// result keeps those that a store of records gave, which are 0 for deletes.
func (c *commitment) result(p *part, saved []tiers.Record) {
	for i := range saved {
		c.put(place{p.name, saved[i].Key}, saved[i].Version)
	}
}

func (c *commitment) put(at place, v tiers.Version) {
	c.tx.mu.Lock()
	defer c.tx.mu.Unlock()
	if c.tx.result == nil {
		c.tx.result = make(map[place]tiers.Version, c.tx.changes)
	}
	c.tx.result[at] = v
}
