package manager_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// A long transaction over all tiers, with savepoints that are kept or taken
// back, is like a plain map; what is stored is that of the last commit.
func TestLongTransactionAgreesWithAMap(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), openFour(t)
	stored := map[spot]int{}
	rapid.Check(t, func(t *rapid.T) {
		model := &txModel{ctx: ctx, t: t, now: maps.Clone(stored)}
		own := errors.New("own")
		kept := rapid.Bool().Draw(t, "commit")
		err := m.Update(ctx, func(tx *manager.Tx) error {
			model.steps(tx, 0)
			if !kept {
				return own
			}
			return nil
		})
		switch {
		case kept && err == nil:
			stored = model.now
		case kept || !errors.Is(err, own):
			t.Fatalf("the commit: %v", err)
		}
		model.now = maps.Clone(stored)
		model.check(m)
	})
}

// spot is a key of one of the four tiers.
type spot struct {
	tier int
	key  string
}

type txModel struct {
	ctx context.Context
	t   *rapid.T
	now map[spot]int
}

func (x *txModel) steps(tx *manager.Tx, depth int) {
	for range rapid.IntRange(1, 8).Draw(x.t, "steps") {
		at := spot{rapid.IntRange(0, 3).Draw(x.t, "tier"), rapid.SampledFrom([]string{"a", "a/b", "b", "c"}).Draw(x.t, "key")}
		c := four(tx)[at.tier]
		was, there := x.now[at]
		switch op := rapid.SampledFrom([]string{"save", "save", "absent", "delete", "delete", "load", "modify", "touch", "many", "check", "point"}).Draw(x.t, "op"); op {
		case "save":
			x.now[at] = rapid.IntRange(1, 99).Draw(x.t, "value")
			x.must(op, c.Save(x.ctx, at.key, x.now[at]))
		case "absent":
			err := c.Save(x.ctx, at.key, 100, manager.IfAbsent())
			if there != errors.Is(err, tiers.ErrExists) || !there && err != nil {
				x.t.Fatalf("%s of %v: %v", op, at, err)
			}
			if !there {
				x.now[at] = 100
			}
		case "delete":
			existed, err := c.Delete(x.ctx, at.key)
			if x.must(op, err); existed != there {
				x.t.Fatalf("%s of %v: %v, want %v", op, at, existed, there)
			}
			delete(x.now, at)
		case "load":
			v, err := c.LoadOr(x.ctx, at.key, 0)
			if x.must(op, err); v != was {
				x.t.Fatalf("%s of %v: %d, want %d", op, at, v, was)
			}
		case "modify":
			v, err := c.Modify(x.ctx, at.key, func(v *int, found bool) error {
				if found != there || *v != was {
					x.t.Errorf("%s of %v: found %v %d, want %d", op, at, found, *v, was)
				}
				*v++
				return nil
			})
			x.must(op, err)
			x.now[at] = v
		case "touch":
			existed, err := c.Touch(x.ctx, at.key, manager.Forever())
			if x.must(op, err); existed != there {
				x.t.Fatalf("%s of %v: %v, want %v", op, at, existed, there)
			}
		case "many":
			x.must(op, c.SaveMany(x.ctx, map[string]int{"a": 7, "c": 8}))
			x.now[spot{at.tier, "a"}], x.now[spot{at.tier, "c"}] = 7, 8
		case "check":
			x.check(tx)
		case "point":
			if depth < 2 {
				x.savepoint(tx, depth)
			}
		}
	}
	x.check(tx)
}

func (x *txModel) savepoint(tx *manager.Tx, depth int) {
	before, own := maps.Clone(x.now), errors.New("own")
	kept := rapid.Bool().Draw(x.t, "keep")
	err := tx.Update(x.ctx, func(point *manager.Tx) error {
		x.steps(point, depth+1)
		if !kept {
			return own
		}
		return nil
	})
	if kept {
		x.must("savepoint", err)
		return
	}
	if !errors.Is(err, own) {
		x.t.Fatalf("savepoint: %v", err)
	}
	x.now = before
}

func (x *txModel) must(op string, err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatalf("%s: %v", op, err)
	}
}

// check compares what is listed, forwards and backwards.
func (x *txModel) check(s manager.Scope) {
	x.t.Helper()
	for tier, c := range four(s) {
		var want []string
		for at := range x.now {
			if at.tier == tier {
				want = append(want, at.key)
			}
		}
		slices.Sort(want)
		for _, opts := range [][]manager.ListOption{nil, {manager.Reverse()}} {
			all, err := c.All(x.ctx, opts...)
			x.must("list", err)
			var got []string
			for _, e := range all {
				got = append(got, e.Key)
				if e.Value != x.now[spot{tier, e.Key}] {
					x.t.Fatalf("%s lists %q as %d, want %d", fourTiers[tier], e.Key, e.Value, x.now[spot{tier, e.Key}])
				}
			}
			if !slices.Equal(got, want) {
				x.t.Fatalf("%s lists %q, want %q", fourTiers[tier], got, want)
			}
			slices.Reverse(want)
		}
	}
}
