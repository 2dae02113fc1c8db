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

	"golang.org/x/sync/errgroup"

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

// rows asks the journaled tiers for versions, compares what was read, and makes
// the rows.
func (c *commitment) rows(ctx context.Context, out *tiers.Commit) error {
	if len(c.journaled) == 0 {
		return nil
	}
	if err := c.since(ctx, out); err != nil {
		return err
	}
	keys, held := make([][]tiers.Key, len(c.journaled)), make([][]reservation, len(c.journaled))
	ask := func(i int) (err error) {
		p := c.journaled[i]
		keys[i] = p.keys()
		if held[i], err = p.rows.reserve(ctx, keys[i], p.wasRead); err != nil {
			return tiers.Fail("commit", p.name, tiers.Key{}, err)
		}
		return p.sameRanges(ctx)
	}
	// Servers are asked at once. To hand a look at a file to another goroutine costs
	// more than the look.
	var g errgroup.Group
	for i, p := range c.journaled {
		if !p.rows.local {
			g.Go(func() error { return ask(i) })
		}
	}
	var failed error
	for i, p := range c.journaled {
		if p.rows.local && failed == nil {
			failed = ask(i)
		}
	}
	switch err := g.Wait(); {
	case failed == nil && err != nil:
		return err
	case failed != nil && err == nil:
		return failed
	case failed != nil:
		return errors.Join(failed, err)
	}
	for i, p := range c.journaled {
		if err := p.collect(keys[i], held[i], out); err != nil {
			return err
		}
	}
	return nil
}

// since notes from where on the commit has to look for changes. It is not later than
// the last look of any tier, since rows up to that are known.
func (c *commitment) since(ctx context.Context, out *tiers.Commit) error {
	switch {
	case c.tx.since != nil:
		out.Since = *c.tx.since
	case !c.again:
		// Nothing was read, so an older one will do: if it finds a change that it
		// should not, the next attempt asks.
		out.Since = c.journaled[0].rows.sequence()
	default:
		now, err := c.e.committer.Sequence(ctx)
		if err != nil {
			return err
		}
		out.Since = now
	}
	return nil
}

// collect compares and adds what a journaled tier contributes.
func (p *part) collect(keys []tiers.Key, held []reservation, out *tiers.Commit) error {
	now, host := p.rows.now(), p.rows.clock.Now()
	for i, k := range keys {
		r := &held[i]
		was, read := p.reads[k]
		switch {
		case read && r.unknown:
			return tiers.Hint(tiers.Fail("commit", p.name, k, fmt.Errorf("%w: nobody can tell whether it is still as it was read", tiers.ErrUnavailable)),
				"nothing was changed; try again when the tier is back")
		case read && was != r.version:
			return tiers.Fail("commit", p.name, k, fmt.Errorf("%w: it was changed since the transaction read it", tiers.ErrConflict))
		}
		if !r.unknown {
			out.RowReads = append(out.RowReads, tiers.RowRead{Tier: p.name, Read: tiers.Read{Key: k, Version: r.version}, Unread: r.unread})
		}
		w := p.writes[k]
		if w == nil {
			continue
		}
		rec := w.settled(host)
		rec.Version, rec.Updated, rec.Created = r.next, tiers.Micro(now), r.created
		if rec.Created.IsZero() {
			rec.Created = rec.Updated
		}
		rec.Expires, rec.TTL = tiers.Deadline(now, rec.TTL), 0
		out.Rows = append(out.Rows, tiers.Row{
			Record: rec, Tier: p.name, Owner: p.rows.owner, Reserved: r.reserved,
		})
	}
	for _, r := range p.ranges {
		out.RowRanges = append(out.RowRanges, tiers.RowRange{Tier: p.name, Range: r})
	}
	out.RowLimits[p.name] = p.rows.limit
	return nil
}

func (p *part) wasRead(k tiers.Key) bool {
	_, read := p.reads[k]
	return read
}

// sameRanges tells whether the listings of a journaled tier are as they were.
func (p *part) sameRanges(ctx context.Context) error {
	for i, r := range p.ranges {
		var d tiers.Digest
		for rec, err := range p.tier.List(ctx, r.Query) {
			if rec.Name == "" && err != nil {
				return err
			}
			if past(rec.Name, r) {
				break
			}
			if err == nil && !p.stillUnreadable(ctx, i, rec.Key) {
				d.Add(rec.Name, rec.Version)
			}
		}
		if d.Sum() != r.Sum {
			k := tiers.Key{Namespace: r.Query.Namespace, Category: r.Query.Category}
			return tiers.Fail("commit", p.name, k, fmt.Errorf("%w: the category was changed since the transaction listed it", tiers.ErrConflict))
		}
	}
	return nil
}

// past tells whether a name lies beyond the end of a range.
func past(name string, r tiers.Range) bool {
	switch {
	case r.End == "":
		return false
	case r.Query.Reverse:
		return name < r.End
	}
	return name > r.End
}

func (p *part) reading() []tiers.Read {
	out := make([]tiers.Read, 0, len(p.reads))
	for k, v := range p.reads {
		out = append(out, tiers.Read{Key: k, Version: v})
	}
	return out
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
