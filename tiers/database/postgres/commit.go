package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagestore/sagestore/internal/conflict"
	"github.com/sagestore/sagestore/tiers"
)

var _ tiers.Committer = (*Tier)(nil)

const (
	maxID = 64
	// commitsKept is how long the id of a transaction is remembered at least.
	commitsKept = 25 * time.Hour

	forgetCommits = `DELETE FROM ~.commits WHERE id IN (SELECT id FROM ~.commits WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)`
)

// listed is a key of a range.
type listed struct {
	name    string
	version tiers.Version
	expires int64
}

// decision is a commit made ready for the writer: checked, and without any memory
// of the caller's, who may go away before the writer is done.
type decision struct {
	tiers.Commit
	saves   []*packed // aligned with Saves, nil for a delete
	bytes   int
	ranges  int // where its ranges begin among those of the group
	rowFrom int // and its ranges of other tiers
}

// Commit implements tiers.Committer. One that only checks writes nothing, waits for
// no writer and leaves nothing for Outcome to find.
func (t *Tier) Commit(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
	d, err := t.decide(&c)
	if err != nil {
		return tiers.Committed{}, t.commitFailed(c.ID, err)
	}
	if len(d.Saves) == 0 && len(d.Rows) == 0 && d.OnlyOnce == "" {
		return tiers.Committed{}, t.commitFailed(c.ID, t.checkOnly(ctx, d))
	}
	var out tiers.Committed
	err = t.writer.do(ctx, &job{
		bytes: d.bytes,
		wants: d.wants,
		run: func(x *tx) (err error) {
			out, err = x.carryOut(d)
			return err
		},
		after: func(x *tx) {
			for i := range out.Saves {
				x.complete(&out.Saves[i])
			}
		},
	})
	if err != nil {
		return tiers.Committed{}, t.commitFailed(c.ID, err)
	}
	for i := range out.Saves {
		if !c.Saves[i].Deleted {
			out.Saves[i].Value = c.Saves[i].Value
		}
	}
	for i := range out.Rows {
		out.Rows[i].Value = c.Rows[i].Value
	}
	return out, nil
}

// decide makes a commit ready.
func (t *Tier) decide(c *tiers.Commit) (*decision, error) {
	if err := checkID(c.ID); err != nil {
		return nil, err
	}
	if c.OnlyOnce != "" {
		if err := tiers.CheckName(c.OnlyOnce); err != nil {
			return nil, err
		}
	}
	d := &decision{Commit: *c, saves: make([]*packed, len(c.Saves)), bytes: len(c.OnceValue)}
	d.Reads, d.Ranges = slices.Clone(c.Reads), slices.Clone(c.Ranges)
	d.RowReads, d.RowRanges = slices.Clone(c.RowReads), slices.Clone(c.RowRanges)
	d.RowLimits = maps.Clone(c.RowLimits)
	d.OnceValue = append([]byte{}, c.OnceValue...)
	d.Saves, d.Rows = make([]tiers.Record, len(c.Saves)), make([]tiers.Row, len(c.Rows))
	for i := range c.Saves {
		r := &c.Saves[i]
		d.Saves[i] = tiers.Record{Key: r.Key, Deleted: r.Deleted}
		if r.Deleted {
			d.bytes += len(r.Name)
			if err := r.Check(); err != nil {
				return nil, t.fail("commit", r.Key, err)
			}
			continue
		}
		p, err := t.prepare(r)
		if err != nil {
			return nil, t.fail("commit", r.Key, err)
		}
		d.saves[i] = p
		d.bytes += p.bytes()
	}
	for i := range c.Rows {
		r := copyRow(&c.Rows[i])
		d.Rows[i] = r
		d.bytes += rowBytes(&r)
		if err := checkRow(&r); err != nil {
			return nil, t.fail("commit", r.Key, err)
		}
	}
	return d, nil
}

func checkID(id string) error {
	if id == "" || len(id) > maxID || text(id) != id {
		return fmt.Errorf("%w: the id of a transaction has %d bytes, 1 to %d of UTF-8 are allowed", tiers.ErrKey, len(id), maxID)
	}
	return nil
}

// wants is what has to be known to check a commit and to carry it out.
func (d *decision) wants(w *wants) {
	for _, r := range d.Reads {
		if r.Check() == nil { // what is no key is absent
			w.records[r.Key] = true
		}
	}
	for i := range d.Saves {
		w.records[d.Saves[i].Key] = true
	}
	d.ranges, d.rowFrom = len(w.ranges), len(w.rowRanges)
	w.ranges = append(w.ranges, d.Ranges...)
	since := int64(min(d.Since, 1<<62))
	for _, r := range d.RowReads {
		if r.Check() == nil {
			k := rowKey{r.Tier, r.Key}
			w.rows[k], w.recent[k] = true, true
		}
	}
	for _, r := range d.RowRanges {
		w.rowRanges = append(w.rowRanges, rowRange{r, since})
	}
	w.books = w.books || len(d.RowReads) > 0 || len(d.RowRanges) > 0
	w.appended(d.Rows)
	if d.OnlyOnce != "" {
		w.facts[d.OnlyOnce] = true
	}
	if len(d.Saves) > 0 || len(d.Rows) > 0 || d.OnlyOnce != "" {
		w.ids[d.ID] = true
	}
}

// checkOnly checks at one instant, aside from the writer.
func (t *Tier) checkOnly(ctx context.Context, d *decision) error {
	if err := t.enter(ctx); err != nil {
		return err
	}
	defer t.leave()
	if len(d.Reads) == 0 && len(d.Ranges) == 0 && len(d.RowReads) == 0 && len(d.RowRanges) == 0 {
		return nil
	}
	err := pgx.BeginTxFunc(ctx, t.read, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		x := newTx(t.writer, []*job{{wants: d.wants}})
		b := &pgx.Batch{}
		b.Queue(`SELECT ` + clockSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&x.time) })
		x.read(b)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		if now := t.now(); now != nil {
			x.time = *now
		}
		return x.check(d)
	})
	return left(ctx, err)
}

// carryOut does what a commit says, or answers why nothing of it may be done.
func (x *tx) carryOut(d *decision) (out tiers.Committed, err error) {
	if x.ids[d.ID] {
		return out, fmt.Errorf("%w: it was committed before", tiers.ErrTxDone)
	}
	if err := x.check(d); err != nil {
		return out, err
	}
	if d.OnlyOnce != "" {
		if x.facts[d.OnlyOnce].there {
			return out, fmt.Errorf("%w: %q was done before", tiers.ErrExists, d.OnlyOnce)
		}
		x.setFact(d.OnlyOnce, d.OnceValue)
	}
	n := len(x.begun)
	x.change(func() { x.ids[d.ID], x.begun = false, x.begun[:n] })
	x.ids[d.ID], x.begun = true, append(x.begun, d.ID)
	out.Saves, out.Rows = make([]tiers.Record, len(d.Saves)), make([]tiers.Row, len(d.Rows))
	for i, p := range d.saves {
		if p == nil {
			out.Saves[i].Key = d.Saves[i].Key
			_, err = x.remove(d.Saves[i].Key, tiers.Cond{})
		} else {
			out.Saves[i], err = x.save(p, tiers.Cond{})
		}
		if err != nil {
			return out, err
		}
	}
	if len(d.Rows) > 0 {
		x.come()
	}
	for i := range d.Rows {
		r := d.Rows[i]
		if out.Rows[i], err = x.appendRow(r, tiers.Cond{}, d.RowLimits[r.Tier]); err != nil {
			return out, tiers.Fail("commit", r.Tier, r.Key, err)
		}
	}
	return out, nil
}

// check answers ErrConflict when something that was read is no longer as it was.
func (x *tx) check(d *decision) error {
	for _, r := range d.Reads {
		var live tiers.Version
		if s := x.records[r.Key]; s != nil {
			live = s.live(x.time)
		}
		if live != r.Version {
			return changed(tierName, r.Key)
		}
	}
	for i, r := range d.Ranges {
		if x.digest(d.ranges+i, r) != r.Sum {
			// Which of its keys has changed can't be told from a sum.
			return changed(tierName, tiers.Key{Namespace: r.Query.Namespace, Category: r.Query.Category})
		}
	}
	return x.checkRows(d)
}

// digest sums a range up as the jobs before have left it.
func (x *tx) digest(n int, r tiers.Range) uint64 {
	s := spanOf(r.Query).until(r)
	all := make([]listed, 0, len(x.listings[n]))
	for _, l := range x.listings[n] {
		k := tiers.Key{Namespace: r.Query.Namespace, Category: r.Query.Category, Name: l.name}
		if x.records[k] == nil {
			all = append(all, l)
		}
	}
	for k, st := range x.records {
		if k.Namespace == r.Query.Namespace && k.Category == r.Query.Category && st.there && s.within(k.Name) {
			all = append(all, listed{k.Name, st.version, st.expires})
		}
	}
	slices.SortFunc(all, func(a, b listed) int {
		switch {
		case a.name == b.name:
			return 0
		case (a.name < b.name) != r.Query.Reverse:
			return -1
		}
		return 1
	})
	var sum tiers.Digest
	for _, l := range all {
		if l.expires == 0 || l.expires > x.time {
			sum.Add(l.name, l.version)
		}
	}
	return sum.Sum()
}

// checkRows answers ErrConflict when a read of another tier does not hold any more.
func (x *tx) checkRows(d *decision) error {
	if len(d.RowReads) == 0 && len(d.RowRanges) == 0 {
		return nil
	}
	since := int64(min(d.Since, 1<<62))
	if since < x.books.floor {
		return tiers.Hint(conflict.Errorf("too much was written since the transaction began"), "run it again")
	}
	for _, r := range d.RowReads {
		if x.rowChanged(r, since) {
			return changed(r.Tier, r.Key)
		}
	}
	for i, r := range d.RowRanges {
		space := tiers.Key{Namespace: r.Query.Namespace, Category: r.Query.Category}
		if name := x.moved[d.rowFrom+i]; name != "" {
			space.Name = name
			return changed(r.Tier, space)
		}
		s := spanOf(r.Query).until(r.Range)
		inside := func(k rowKey) bool {
			return k.tier == r.Tier && k.key.Space() == space.Space() && s.within(k.key.Name)
		}
		for k, row := range x.rows {
			if row.there && row.seq > since && inside(k) {
				return changed(r.Tier, k.key)
			}
		}
		for k, was := range x.recent {
			if was.seq > since && inside(k) {
				return changed(r.Tier, k.key)
			}
		}
	}
	return nil
}

func (x *tx) rowChanged(r tiers.RowRead, since int64) bool {
	k := rowKey{r.Tier, r.Key}
	was := x.recent[k]
	since0 := was != nil && was.seq > since
	if r.Unread {
		return since0
	}
	if row := x.rows[k]; row != nil && row.there {
		return row.live(x.time) != r.Version
	}
	// What was written and has expired since is still what was read.
	return since0 && was.live(x.time) != r.Version && (r.Version == 0 || version(was.version) != r.Version)
}

// changed is the answer to a read that does not hold any more.
func changed(tier string, k tiers.Key) error {
	return tiers.Fail("commit", tier, k, fmt.Errorf("%w: it has changed since the transaction read it", tiers.ErrConflict))
}

// Outcome implements tiers.Committer. It stands in the queue behind all that this
// handle has begun, and waits for the turn behind all that is on its way.
func (t *Tier) Outcome(ctx context.Context, id string) (committed bool, err error) {
	if err := checkID(id); err != nil {
		return false, t.commitFailed(id, err)
	}
	var was bool
	err = t.writer.do(ctx, &job{
		wants: func(w *wants) { w.ids[id] = true },
		run:   func(x *tx) error { was = x.ids[id]; return nil },
	})
	if err != nil {
		return false, t.commitFailed(id, err)
	}
	return was, nil
}

// Sequence implements tiers.Committer.
func (t *Tier) Sequence(ctx context.Context) (uint64, error) {
	c, err := t.Changes(ctx)
	return c.Journal, err
}

// commitFailed completes an error with the transaction, and counts what is not an
// answer.
func (t *Tier) commitFailed(id string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, tiers.ErrCommitUnknown) {
		err = tiers.Hint(err, "ask for the outcome of the transaction")
	}
	err = t.failed("commit", tiers.Key{}, err)
	if e, ok := err.(*tiers.Error); ok { //nolint:errorlint // failed answers one
		e.Tx = id
	}
	return err
}
