package manager

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/tiers"
)

const (
	// stagedPrefix begins the names of the categories in which a restore prepares
	// records. A name that begins with a dash is possible, and nobody's.
	stagedPrefix = "-restore-"
	// goneSuffix ends the name of the category with the keys that go.
	goneSuffix = "-gone"
	// stagedChunk bounds the bytes of values that are stored at once, so that others
	// get in between.
	stagedChunk = 1 << 20
	// sweepStagedEvery is how often it is looked for what a restore that was killed
	// has left.
	sweepStagedEvery = time.Hour
)

func isStaged(category string) bool { return strings.HasPrefix(category, stagedPrefix) }

// stage prepares a category in the system store, in chunks, and tells from where to where
// each of its spaces would come.
func (r *categoryRestore) stage(ctx context.Context, rt *route, one *CategoryRestored, ready func(from, to tiers.Space)) error {
	applier, ok := tiers.As[tiers.Applier](r.c.systemTier)
	if !ok {
		return tiers.Fail("restore", rt.tierName, tiers.Key{Category: rt.category}, tiers.ErrUnsupported)
	}
	namespaces, err := r.namespaces(ctx, rt)
	if err != nil {
		return err
	}
	aside := make(map[string]string, len(namespaces)) // the category of a namespace
	chunk := chunk{apply: applier.Apply}
	for _, namespace := range namespaces {
		var token [8]byte
		_, _ = rand.Read(token[:]) // never fails
		aside[namespace] = stagedPrefix + hex.EncodeToString(token[:])
		r.staged++
		err := r.each(ctx, rt, namespace, one, func(rec tiers.Record) error {
			rec.Category = aside[namespace]
			return chunk.add(ctx, rec, tiers.Cond{})
		})
		if err != nil {
			return err
		}
	}
	if err := chunk.flush(ctx); err != nil { // so that a row finds what it goes over
		return err
	}
	bytes := int64(0)
	for row, err := range r.waiting(ctx, rt) {
		if bytes += int64(len(row.Value)); err == nil {
			r.tell(backup.Progress{Step: "restore", Part: rt.category, Done: bytes, Total: -1})
		}
		if err == nil && !row.Deleted {
			err = rt.register(ctx, row.Schema)
		}
		if err == nil {
			row.Category = aside[row.Namespace]
			err = chunk.add(ctx, row.Record, row.Over)
		}
		if err != nil {
			return err
		}
	}
	if err := chunk.flush(ctx); err != nil {
		return err
	}
	for _, namespace := range namespaces {
		ready(tiers.Space{Namespace: namespace, Category: aside[namespace]}, tiers.Space{Namespace: namespace, Category: rt.category})
	}
	return nil
}

// chunk are records that are applied together.
type chunk struct {
	apply   func(ctx context.Context, rs []tiers.Record, over []tiers.Cond) error
	records []tiers.Record
	over    []tiers.Cond
	bytes   int
}

func (c *chunk) add(ctx context.Context, rec tiers.Record, over tiers.Cond) error {
	c.records, c.over = append(c.records, rec), append(c.over, over)
	if c.bytes += len(rec.Value) + len(rec.Name); c.bytes < stagedChunk {
		return nil
	}
	return c.flush(ctx)
}

func (c *chunk) flush(ctx context.Context) error {
	if len(c.records) == 0 {
		return nil
	}
	err := c.apply(ctx, c.records, c.over)
	c.records, c.over, c.bytes = nil, nil, 0
	return err
}

// waiting yields the writes of a category that waited for its tier when the backup was
// made, in their order: its records are what the part of the tier has, and these.
func (r *categoryRestore) waiting(ctx context.Context, rt *route) iter.Seq2[tiers.Row, error] {
	return func(yield func(tiers.Row, error) bool) {
		part, n := r.e.Manifest.Waiting()
		if n == 0 || rt.tier == r.c.systemTier {
			return
		}
		c, err := r.copy(ctx, part)
		if err != nil {
			yield(tiers.Row{}, err)
			return
		}
		rows, ok := c.(tiers.RowCopy)
		if !ok {
			yield(tiers.Row{}, fmt.Errorf("%w: the journal of the backup can't be read", tiers.ErrUnsupported))
			return
		}
		name := rt.tierName
		if l, local := r.c.system.(*localRows); local {
			name = l.in(name)
		}
		for row, err := range rows.Rows(ctx) {
			if err == nil && (row.Tier != name || row.Category != rt.category) {
				continue
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// waitingIn answers the namespaces for which writes of a category waited.
func (r *categoryRestore) waitingIn(ctx context.Context, rt *route) (all []string, err error) {
	for row, err := range r.waiting(ctx, rt) {
		if err != nil {
			return nil, err
		}
		if !slices.Contains(all, row.Namespace) {
			all = append(all, row.Namespace)
		}
	}
	return all, nil
}

// sweepStaged removes what a restore has left that was killed.
func (c *core) sweepStaged(ctx context.Context) error {
	if !c.hasStaged(ctx) {
		return nil
	}
	b, err := c.ownBackups(ctx)
	if err != nil {
		return err
	}
	unlock, err := b.lock()
	if err == nil {
		defer unlock()
		unlock, err = c.lockServer(ctx)
	}
	if errors.Is(err, tiers.ErrConflict) {
		return nil // it may be a restore that is under way, here or on another machine
	}
	if err != nil {
		return err
	}
	defer unlock()
	return c.clearStaged(ctx)
}

func (c *core) hasStaged(ctx context.Context) bool {
	for s, err := range c.systemTier.Spaces(ctx) {
		if err == nil && isStaged(s.Category) {
			return true
		}
	}
	return false
}

// clearStaged removes what was prepared and is not there to be switched. It is called
// with the lock of backups.
func (c *core) clearStaged(ctx context.Context) error {
	switcher, ok := tiers.As[tiers.Switcher](c.systemTier)
	if !ok {
		return nil
	}
	var moves []tiers.Move
	for s, err := range c.systemTier.Spaces(ctx) {
		if err != nil {
			return err
		}
		if isStaged(s.Category) {
			moves = append(moves, tiers.Move{From: tiers.Space{Namespace: s.Namespace, Category: stagedPrefix + "none"}, To: s})
		}
	}
	if len(moves) == 0 {
		return nil
	}
	_, err := switcher.Switch(ctx, moves)
	return err
}
