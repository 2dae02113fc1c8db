//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sagestore/sagestore/internal/torture/check"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// journal is a worker's log. Each line is one write, so that it is there whatever
// becomes of the process.
type journal struct{ f *os.File }

func openJournal(path string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600) //nolint:gosec // named by the parent
	if err != nil {
		return nil, err
	}
	return &journal{f}, nil
}

func (j *journal) line(l check.Line) {
	b, err := json.Marshal(l)
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	if _, err := j.f.Write(append(b, '\n')); err != nil {
		panic(err) // without its log a worker proves nothing
	}
}

func (j *journal) bad(format string, args ...any) {
	j.line(check.Line{Kind: check.Bad, Text: fmt.Sprintf(format, args...)})
}

// worker is a process that works until it is killed.
type worker struct {
	spec
	m   *manager.Manager
	log *journal
	col collections
}

func work(ctx context.Context, s spec) error {
	if s.Store.Agents != "" {
		return workAgents(ctx, s)
	}
	if s.Limit > 0 {
		signal.Ignore(syscall.SIGXFSZ)
		if err := limitFiles(s.Limit); err != nil {
			return err
		}
	}
	log, err := openJournal(s.Log)
	if err != nil {
		return err
	}
	m, err := s.Store.open(ctx, newPoints(s.Point, s.Nth, s.Lazy), nil)
	if err != nil {
		log.line(check.Line{Kind: "open", Text: err.Error()})
		return err
	}
	w := &worker{spec: s, m: m, log: log, col: collectionsOf(m)}
	if !s.Plain {
		if err := w.mirror(ctx); err != nil {
			log.line(check.Line{Kind: "open", Text: err.Error()})
			return err
		}
	}
	log.line(check.Line{Kind: "ready", Op: strconv.Itoa(os.Getpid())})
	var wg sync.WaitGroup
	for g := range s.Callers {
		wg.Go(func() {
			c := &caller{worker: w, by: fmt.Sprintf("%d-%d-%d", s.Slot, s.Gen, g), onTheWay: map[string]bool{}, rng: rand.New(rand.NewPCG(s.Seed, uint64(g)))} //nolint:gosec // not a secret
			for i := 0; s.Ops == 0 || i < s.Ops; i++ {
				c.n = i
				c.step(ctx)
			}
		})
	}
	wg.Wait()
	return m.Close(ctx)
}

// mirror makes the memory of this process agree with its own durable counter.
func (w *worker) mirror(ctx context.Context) error {
	v, err := w.col["bank."+w.mirrorTier()].LoadOr(ctx, w.mirrorKey(), check.Value{})
	for range 100 { // the server of that tier may be busy with the workers that came first
		if !errors.Is(err, tiers.ErrUnavailable) {
			break
		}
		if err := tiers.SystemClock().Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
		v, err = w.col["bank."+w.mirrorTier()].LoadOr(ctx, w.mirrorKey(), check.Value{})
	}
	if err != nil {
		return err
	}
	op := w.Name + "-mirror"
	if err := w.col["bank.memory"].Save(ctx, "mirror", check.Value{Op: op, N: v.N, Pad: check.Pad(op)}); err != nil {
		return err
	}
	for i := range accounts {
		if err := w.col["bank.memory"].Save(ctx, account(i), check.Value{Op: op, N: 1, Sum: balance, Pad: check.Pad(op)}); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) mirrorTier() string { return durable()[w.Slot%3] }
func (w *worker) mirrorKey() string  { return fmt.Sprintf("mirror%d", w.Slot) }
func account(i int) string           { return fmt.Sprintf("a%d", i) }

// caller is one goroutine of a worker.
type caller struct {
	*worker
	by  string
	rng *rand.Rand
	n   int // of the step

	// onTheWay are keys with a write that nobody answered for: it may come
	// until a later one is acknowledged, also between a read and a condition.
	onTheWay map[string]bool
}

// ended tells the log what became of an operation.
func (c *caller) ended(op string, err error, versions ...check.Cell) string {
	l := check.Line{Op: op, Kind: check.Ack, Writes: versions}
	switch {
	case err == nil:
	case errors.Is(err, tiers.ErrCommitUnknown):
		l.Kind, l.Text, l.Writes = check.Unknown, err.Error(), nil
	default:
		l.Kind, l.Text, l.Writes = check.Fail, err.Error(), nil
	}
	c.log.line(l)
	return l.Kind
}

// note keeps which of the keys that were written may still change.
func (c *caller) note(kind string, wrote ...check.Cell) {
	for _, w := range wrote {
		switch kind {
		case check.Ack:
			delete(c.onTheWay, w.At)
		case check.Unknown:
			c.onTheWay[w.At] = true
		}
	}
}

// endedOwn is ended for a key that nobody else writes.
func (c *caller) endedOwn(cell check.Cell, op string, err error, versions ...check.Cell) string {
	kind := c.ended(op, err, versions...)
	c.note(kind, cell)
	return kind
}

// during gives an operation a deadline, now and then a short one.
func (c *caller) during(ctx context.Context) (context.Context, context.CancelFunc) {
	d := 3 * time.Second
	if c.rng.IntN(30) == 0 {
		d = time.Duration(c.rng.IntN(4000)) * time.Microsecond
	}
	return context.WithTimeout(ctx, d)
}

func (c *caller) step(ctx context.Context) {
	ctx, cancel := c.during(ctx)
	defer cancel()
	if c.Plain {
		if c.rng.IntN(3) == 0 {
			c.poolSave(ctx)
		} else {
			c.single(ctx)
		}
		return
	}
	switch n := c.rng.IntN(100); {
	case n < 45:
		c.transfer(ctx)
	case n < 65:
		c.mark(ctx)
	case n < 80:
		c.single(ctx)
	case n < 90:
		c.poolSave(ctx)
	case n < 97:
		c.audit(ctx)
	default:
		c.look(ctx)
	}
}

// op names an operation that is no transaction.
func (c *caller) op() string { return fmt.Sprintf("%s-%s-%d", c.Name, c.by, c.n) }

// ownKey is one of the few keys that this goroutine has to itself.
func (c *caller) ownKey() string { return fmt.Sprintf("k%s-%d", c.by, c.rng.IntN(3)) }

// single saves, deletes or saves under a condition a key of its own, and looks.
func (c *caller) single(ctx context.Context) {
	tier := durable()[c.rng.IntN(3)]
	key, op, col := c.ownKey(), c.op(), c.col["own."+tier]
	v := check.Value{Op: op, N: int64(c.n), Pad: check.Pad(op)}
	cell := check.Cell{At: at("own", tier, key)}
	try := func() { c.log.line(check.Line{Kind: check.Try, Op: op, By: c.by, Writes: []check.Cell{cell}}) }
	switch n := c.rng.IntN(10); {
	case n < 2:
		cell.Deleted = true
		try()
		_, err := col.Delete(ctx, key)
		if c.endedOwn(cell, op, err) == check.Ack {
			c.expect(ctx, tier, key, "")
		}
		return
	case n < 3:
		cell.Cond = true
		try()
		e, err := col.SaveEntry(ctx, key, v, manager.IfVersion(7))
		c.endedOwn(cell, op, err, check.Cell{Version: uint64(e.Version)})
		return
	}
	var opts []manager.SaveOption
	if c.rng.IntN(3) == 0 {
		e, err := col.Entry(ctx, key)
		if err != nil && !errors.Is(err, tiers.ErrNotFound) {
			return
		}
		opts = append(opts, manager.IfVersion(e.Version))
	}
	try()
	e, err := col.SaveEntry(ctx, key, v, opts...)
	onTheWay := c.onTheWay[cell.At]
	if c.endedOwn(cell, op, err, check.Cell{Version: uint64(e.Version)}) == check.Ack {
		c.expect(ctx, tier, key, op)
	} else if len(opts) > 0 && errors.Is(err, tiers.ErrConflict) && !onTheWay {
		c.log.bad("%s: the condition of %s failed although nobody else writes %s/%s: %v", c.by, op, tier, key, err)
	}
}

// expect looks for what was just acknowledged.
func (c *caller) expect(ctx context.Context, tier, key, op string) {
	v, err := c.col["own."+tier].Load(ctx, key)
	switch {
	case err == nil && v.Op != op:
		c.log.bad("%s: %s/%s holds %s right after %q was acknowledged", c.by, tier, key, v.Op, op)
	case errors.Is(err, tiers.ErrNotFound) && op != "":
		c.log.bad("%s: %s/%s is not there right after %s was acknowledged", c.by, tier, key, op)
	}
}

// poolSave saves a key that others save too.
func (c *caller) poolSave(ctx context.Context) {
	tier, op := durable()[c.rng.IntN(3)], c.op()
	key := poolKey(c.rng)
	c.log.line(check.Line{Kind: check.Try, Op: op, By: c.by, Writes: []check.Cell{{At: at("pool", tier, key)}}})
	e, err := c.col["pool."+tier].SaveEntry(ctx, key, check.Value{Op: op, Pad: check.Pad(op)})
	c.ended(op, err, check.Cell{Version: uint64(e.Version)})
}

func poolKey(rng *rand.Rand) string { return fmt.Sprintf("p%d", rng.IntN(4)) }

// answer tells whether an error is one that a busy or broken store may give.
func answer(err error) bool {
	return strings.Contains(err.Error(), "context") || errors.Is(err, tiers.ErrConflict) || errors.Is(err, tiers.ErrUnavailable) ||
		errors.Is(err, tiers.ErrCommitUnknown) || errors.Is(err, tiers.ErrFull)
}
