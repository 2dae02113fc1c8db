//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sagestore/sagestore/internal/torture/check"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// attempt is one run of a transaction's function.
type attempt struct {
	c     *caller
	tx    *manager.Tx
	reads []check.Cell
	wrote []check.Cell
	sums  map[string]int64 // of the accounts that were read
}

// update runs fn in a transaction, and writes down what it is about to do and
// what became of it. then is called when it was committed.
func (c *caller) update(ctx context.Context, fn func(ctx context.Context, a *attempt) error, then func(a *attempt)) {
	var a *attempt
	begun := "" // the last attempt that came as far as to write something down
	err := c.m.Update(ctx, func(tx *manager.Tx) error {
		if begun != "" {
			c.log.line(check.Line{Kind: check.Fail, Op: begun, Text: "run again"})
			begun = ""
		}
		a = &attempt{c: c, tx: tx, sums: map[string]int64{}}
		if err := fn(ctx, a); err != nil {
			return err
		}
		begun = tx.ID()
		c.log.line(check.Line{Kind: check.Try, Op: begun, By: c.by, Tx: true, Reads: a.reads, Writes: a.wrote})
		return nil
	}, manager.WithRetry(c.rng.IntN(8)))
	if begun == "" {
		if err != nil && !answer(err) {
			c.log.bad("%s: a transaction ended in %v", c.by, err)
		}
		return
	}
	if err == nil {
		c.note(c.ended(begun, nil, a.versions()...), a.wrote...)
		then(a)
		return
	}
	c.note(c.ended(begun, err), a.wrote...)
	if !answer(err) {
		c.log.bad("%s: transaction %s ended in %v", c.by, begun, err)
	}
}

// versions are those that the commit gave to what was written.
func (a *attempt) versions() []check.Cell {
	out := make([]check.Cell, len(a.wrote))
	for i, w := range a.wrote {
		_, rest, _ := strings.Cut(w.At, "/")
		category, key, _ := strings.Cut(rest, "/")
		out[i].Version = uint64(a.tx.Version(category, key))
		if out[i].Version == 0 && !w.Deleted {
			a.c.log.bad("%s: transaction %s was committed and knows no version of %s", a.c.by, a.tx.ID(), w.At)
		}
	}
	return out
}

func nothing(*attempt) {}

// read reads an account, and writes down what it saw.
func (a *attempt) read(ctx context.Context, tier, key string) (check.Value, error) {
	e, err := a.c.col["bank."+tier].In(a.tx).Entry(ctx, key)
	cell := check.Cell{At: at("bank", tier, key)}
	switch {
	case errors.Is(err, tiers.ErrNotFound):
		a.reads = append(a.reads, cell)
		return check.Value{}, nil
	case err != nil:
		return check.Value{}, err
	}
	cell.Op, cell.N, cell.Version = e.Value.Op, e.Value.N, uint64(e.Version)
	a.reads = append(a.reads, cell)
	a.sums[cell.At] = e.Value.Sum
	return e.Value, nil
}

// change reads an account and adds to it.
func (a *attempt) change(ctx context.Context, tier, key string, by int64) error {
	v, err := a.read(ctx, tier, key)
	if err != nil {
		return err
	}
	op := a.tx.ID()
	next := check.Value{Op: op, N: v.N + 1, Sum: v.Sum + by, Pad: check.Pad(op)}
	if err := a.c.col["bank."+tier].In(a.tx).Save(ctx, key, next); err != nil {
		return err
	}
	a.wrote = append(a.wrote, check.Cell{At: at("bank", tier, key), N: next.N})
	return nil
}

// mark writes a key without having read it, or deletes it.
func (a *attempt) mark(ctx context.Context, class, tier, key string, deletes bool) error {
	col, op := a.c.col[class+"."+tier].In(a.tx), a.tx.ID()
	var err error
	if deletes {
		_, err = col.Delete(ctx, key)
	} else {
		err = col.Save(ctx, key, check.Value{Op: op, Pad: check.Pad(op)})
	}
	if err == nil {
		a.wrote = append(a.wrote, check.Cell{At: at(class, tier, key), Deleted: deletes})
	}
	return err
}

// transfer moves money between accounts of any tiers, in memory at the same
// time, counts on both sides of the mirror, and marks each tier that it touched.
func (c *caller) transfer(ctx context.Context) {
	x, from, to := int64(1+c.rng.IntN(50)), c.account(), c.account()
	for to == from {
		to = c.account()
	}
	inMemory, counts, marks := c.rng.IntN(3) == 0, c.rng.IntN(3) == 0, c.rng.IntN(2) == 0
	m := c.rng.IntN(accounts)
	key := c.ownKey()
	c.update(ctx, func(ctx context.Context, a *attempt) error {
		if err := a.change(ctx, from.tier, from.key, -x); err != nil {
			return err
		}
		if err := a.change(ctx, to.tier, to.key, x); err != nil {
			return err
		}
		if inMemory {
			if err := a.change(ctx, "memory", account(m), -x); err != nil {
				return err
			}
			if err := a.change(ctx, "memory", account((m+1)%accounts), x); err != nil {
				return err
			}
		}
		if counts {
			if err := a.change(ctx, c.mirrorTier(), c.mirrorKey(), 0); err != nil {
				return err
			}
			if err := a.change(ctx, "memory", "mirror", 0); err != nil {
				return err
			}
		}
		if marks {
			touched := map[string]bool{from.tier: true, to.tier: true}
			for _, tier := range durable() {
				if touched[tier] {
					if err := a.mark(ctx, "own", tier, key, false); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}, nothing)
}

// place is an account.
type place struct{ tier, key string }

func (c *caller) account() place {
	return place{durable()[c.rng.IntN(3)], account(c.rng.IntN(accounts))}
}

// mark writes and deletes without looking, in every tier.
func (c *caller) mark(ctx context.Context) {
	key, pool := c.ownKey(), poolKey(c.rng)
	var do []func(ctx context.Context, a *attempt) error
	for _, tier := range durable() {
		deletes := c.rng.IntN(5) == 0
		switch c.rng.IntN(4) {
		case 0:
		case 1:
			do = append(do, func(ctx context.Context, a *attempt) error { return a.mark(ctx, "pool", tier, pool, false) })
			fallthrough
		default:
			do = append(do, func(ctx context.Context, a *attempt) error { return a.mark(ctx, "own", tier, key, deletes) })
		}
	}
	if len(do) == 0 {
		return
	}
	undone := c.rng.IntN(6) == 0
	c.update(ctx, func(ctx context.Context, a *attempt) error {
		for _, f := range do {
			if err := f(ctx, a); err != nil {
				return err
			}
		}
		if undone { // a savepoint that is given up leaves nothing
			_ = a.tx.Update(ctx, func(tx *manager.Tx) error {
				for _, tier := range durable() {
					v := check.Value{Op: "undone", Pad: check.Pad("undone")}
					if err := c.col["own."+tier].In(tx).Save(ctx, key, v); err != nil {
						return err
					}
				}
				return errUndone
			})
		}
		return nil
	}, nothing)
}

var errUndone = errors.New("given up")

// audit reads all accounts in one transaction, and adds up.
func (c *caller) audit(ctx context.Context) {
	var mirror, own int64
	c.update(ctx, func(ctx context.Context, a *attempt) error {
		for _, tier := range append(durable(), "memory") {
			for i := range accounts {
				if _, err := a.read(ctx, tier, account(i)); err != nil {
					return err
				}
			}
		}
		v, err := a.read(ctx, c.mirrorTier(), c.mirrorKey())
		if err != nil {
			return err
		}
		own = v.N
		v, err = a.read(ctx, "memory", "mirror")
		mirror = v.N
		return err
	}, func(a *attempt) {
		kept, inMemory := int64(0), int64(0)
		for at, sum := range a.sums {
			if check.Tier(at) == "memory" {
				inMemory += sum
			} else {
				kept += sum
			}
		}
		if kept != 3*accounts*balance || inMemory != accounts*balance {
			c.log.bad("%s: audit %s found %d in durable accounts, not %d, and %d in memory, not %d: %v", c.by, a.tx.ID(), kept, 3*accounts*balance, inMemory, accounts*balance, a.reads)
		}
		if own != mirror {
			c.log.bad("%s: audit %s found the counter at %d and its mirror in memory at %d", c.by, a.tx.ID(), own, mirror)
		}
	})
}

// look reads many keys at once, outside of a transaction and in a view.
func (c *caller) look(ctx context.Context) {
	keys := make([]string, accounts)
	for i := range keys {
		keys[i] = account(i)
	}
	op := c.op()
	read := func(s manager.Scope, tier string) {
		es, err := manager.For[check.Value](s, "bank."+tier).LoadMany(ctx, keys...)
		if err != nil {
			return
		}
		for key, v := range es {
			if err := v.Torn(); err != nil {
				c.log.bad("%s: %s of %s: %v", op, key, tier, err)
			}
			c.log.line(check.Line{Kind: check.Seen, Op: op, By: c.by, Reads: []check.Cell{{At: at("bank", tier, key), Op: v.Op, N: v.N}}})
		}
	}
	for _, tier := range durable() {
		read(c.m, tier)
	}
	err := c.m.View(ctx, func(tx *manager.Tx) error {
		sum := int64(0)
		for i := range accounts {
			v, err := c.col["bank.database"].In(tx).Load(ctx, account(i))
			if err != nil {
				return err
			}
			sum += v.Sum
		}
		for _, tier := range durable() {
			read(tx, tier)
		}
		return nil
	})
	if err != nil && !answer(err) {
		c.log.bad("%s: a view ended in %v", op, fmt.Errorf("look: %w", err))
	}
}
