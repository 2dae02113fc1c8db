//go:build linux

package main

import (
	"context"
	"math/rand/v2"
	"os"
	"reflect"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// pointNames are the places at which a worker can be made to die. Each is in a
// wrapper around a tier; the store itself knows nothing of them.
func pointNames() []string {
	return []string{
		"database.commit.before", "database.commit.after",
		"database.append.before", "database.append.after",
		"database.done.before", "database.done.after",
		"database.save.before", "database.save.after",
		"cache.reserve.after", "file.reserve.after",
		"cache.apply.before", "cache.apply.half", "cache.apply.after",
		"file.apply.before", "file.apply.half", "file.apply.after",
		"cache.save.before", "cache.save.after", "file.save.before", "file.save.after",
		"memory.prepare.after", "memory.publish.before", "memory.publish.after",
	}
}

// points counts how often the places are passed. At one of them the process dies,
// at others it dawdles now and then, so that what rarely meets does meet.
type points struct {
	deadly string // name of the point
	left   atomic.Int64
	lazy   bool
}

func newPoints(deadly string, nth int, lazy bool) *points {
	p := &points{deadly: deadly, lazy: lazy}
	p.left.Store(int64(nth))
	return p
}

func (p *points) pass(name string) {
	if name == p.deadly && p.left.Add(-1) == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until it arrives
	}
	if p.lazy && rand.IntN(12) == 0 { //nolint:gosec // not a secret
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond) //nolint:gosec // not a secret
	}
}

// tap wraps the drivers, so that all tiers pass the points. opened gets each tier.
func (p *points) tap(drivers tiers.Drivers, opened func(name string, t tiers.Tier)) tiers.Drivers {
	out := make(tiers.Drivers, len(drivers))
	for i, d := range drivers {
		inner := d.Open
		d.Open = func(ctx context.Context, env tiers.Env) (tiers.Tier, error) {
			t, err := inner(ctx, env)
			if err != nil {
				return nil, err
			}
			if opened != nil {
				opened(env.Name, t)
			}
			return &tapped{Tier: t, name: env.Name, p: p}, nil
		}
		out[i] = d
	}
	return out
}

// tapped is a tier whose calls pass points.
type tapped struct {
	tiers.Tier
	name string
	p    *points
}

func (t *tapped) pass(point string) { t.p.pass(t.name + "." + point) }

// As offers what the tier inside offers, with the points around it.
func (t *tapped) As(target any) bool {
	if !inside(t.Tier, target) {
		return false
	}
	switch to := target.(type) {
	case *tiers.Committer:
		*to = &tappedCommitter{*to, t}
	case *tiers.System:
		*to = &tappedSystem{*to, t}
	case *tiers.Applier:
		*to = &tappedApplier{*to, t}
	case *tiers.Reserver:
		*to = &tappedReserver{*to, t}
	case *tiers.Publisher:
		*to = &tappedPublisher{*to, t}
	}
	return true
}

// inside does for any capability what tiers.As does for one.
func inside(t tiers.Tier, target any) bool {
	if w, ok := t.(interface{ As(target any) bool }); ok {
		return w.As(target)
	}
	to := reflect.ValueOf(target).Elem()
	if v := reflect.ValueOf(t); v.Type().Implements(to.Type()) {
		to.Set(v)
		return true
	}
	return false
}

func (t *tapped) Save(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
	t.pass("save.before")
	out, err := t.Tier.Save(ctx, r, c)
	t.pass("save.after")
	return out, err
}

type tappedCommitter struct {
	tiers.Committer
	t *tapped
}

func (c *tappedCommitter) Commit(ctx context.Context, tx tiers.Commit) (tiers.Committed, error) {
	c.t.pass("commit.before")
	out, err := c.Committer.Commit(ctx, tx)
	c.t.pass("commit.after")
	return out, err
}

type tappedSystem struct {
	tiers.System
	t *tapped
}

func (s *tappedSystem) Append(ctx context.Context, rows []tiers.Row, conds []tiers.Cond, limit int64) ([]tiers.Row, error) {
	s.t.pass("append.before")
	out, err := s.System.Append(ctx, rows, conds, limit)
	s.t.pass("append.after")
	return out, err
}

func (s *tappedSystem) Done(ctx context.Context, rows []tiers.Row) error {
	s.t.pass("done.before")
	err := s.System.Done(ctx, rows)
	s.t.pass("done.after")
	return err
}

type tappedApplier struct {
	tiers.Applier
	t *tapped
}

// Apply stores the first half by itself when the process is to die between the
// halves.
func (a *tappedApplier) Apply(ctx context.Context, rs []tiers.Record, over []tiers.Cond) error {
	a.t.pass("apply.before")
	if a.t.p.deadly == a.t.name+".apply.half" && len(rs) > 1 {
		half := len(rs) / 2
		var first, rest []tiers.Cond
		if over != nil {
			first, rest = over[:half], over[half:]
		}
		if err := a.Applier.Apply(ctx, rs[:half], first); err != nil {
			return err
		}
		a.t.pass("apply.half")
		rs, over = rs[half:], rest
	}
	err := a.Applier.Apply(ctx, rs, over)
	a.t.pass("apply.after")
	return err
}

type tappedReserver struct {
	tiers.Reserver
	t *tapped
}

func (r *tappedReserver) Reserve(ctx context.Context, ks []tiers.Key, above tiers.Version) ([]tiers.Reservation, error) {
	out, err := r.Reserver.Reserve(ctx, ks, above)
	r.t.pass("reserve.after")
	return out, err
}

type tappedPublisher struct {
	tiers.Publisher
	t *tapped
}

func (p *tappedPublisher) Prepare(ctx context.Context, c tiers.Commit) (func() []tiers.Record, func(), error) {
	publish, abort, err := p.Publisher.Prepare(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	p.t.pass("prepare.after")
	return func() []tiers.Record {
		p.t.pass("publish.before")
		out := publish()
		p.t.pass("publish.after")
		return out
	}, abort, nil
}
