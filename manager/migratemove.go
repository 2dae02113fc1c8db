package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sagestore/sagestore/tiers"
)

const (
	// moveChunk bounds the bytes that are copied at once, and moveBatch the records.
	moveChunk = 1 << 20
	moveBatch = 256
	// moveFaults is how many faults are named.
	moveFaults = 20
)

// mover is one run of a migration.
type mover struct {
	m       *Manager
	c       *core
	options MigrateOptions
	done    CategoryMigrated

	move
	source, target tiers.Tier
	applier        tiers.Applier // of the target
	maxValue       int64         // of the target; 0: no limit
}

func (v *mover) run(ctx context.Context) error {
	category := v.done.Category
	p, err := v.c.plan.Policy(category, v.c.facts.policy(category))
	if err != nil {
		return err
	}
	home := v.c.facts.home(category)
	v.done.From, v.done.To = home, p.Tier
	if begun, ok := v.c.facts.moving(category); ok {
		switch {
		case home == begun.To:
			v.done.Resumed, v.done.From, v.done.To = true, begun.From, begun.To
			if err := v.finish(ctx, begun); err != nil || p.Tier == home || v.options.DryRun {
				return err
			}
			v.done = CategoryMigrated{Category: category, From: home, To: p.Tier}
		case home == begun.From && p.Tier == begun.To:
			v.done.Resumed = true
		default: // the configuration was changed again
			if err := v.discard(ctx, begun); err != nil {
				return err
			}
		}
	}
	if home == "" || home == p.Tier {
		v.done.From = p.Tier
		return nil
	}
	v.move = move{home, p.Tier}
	return v.moveAll(ctx)
}

// moveAll is a migration from its beginning, or from where its copies were made.
func (v *mover) moveAll(ctx context.Context) error {
	if err := v.open(ctx); err != nil {
		return err
	}
	if err := v.survey(ctx); err != nil || v.options.DryRun {
		return err
	}
	text, err := json.Marshal(v.move)
	if err != nil {
		return err
	}
	if err := v.c.facts.set(ctx, factMoving+v.done.Category, string(text)); err != nil {
		return err
	}
	if err := v.copy(ctx); err != nil {
		return err
	}
	if err := v.verify(ctx); err != nil {
		return err
	}
	if err := v.c.facts.set(ctx, factHome+v.done.Category, v.To); err != nil {
		return err
	}
	v.tell(MigrateProgress{Step: "switch", Done: v.done.Records, Total: v.done.Records, Bytes: v.done.Bytes})
	return v.finish(ctx, v.move)
}

// open finds both tiers, and why one can't be used.
func (v *mover) open(ctx context.Context) (err error) {
	if v.From == "memory" {
		return v.fail(tiers.Hint(fmt.Errorf("%w: its home was memory, and what was there went with its process", tiers.ErrUnsupported),
			"there is nothing to move: use the configuration as it is"))
	}
	from, err := v.station(v.From)
	if err != nil {
		return err
	}
	to, err := v.station(v.To)
	if err != nil {
		return err
	}
	for _, s := range []*station{from, to} {
		if s.info.Scope == tiers.ScopeProcess {
			return v.fail(tiers.Hint(fmt.Errorf("%w: tier %s is the memory of one process, and this one is about to end", tiers.ErrUnsupported, s.name),
				"give the category a tier that is durable; to do without the records, delete them first"))
		}
	}
	v.source, v.target, v.maxValue = from.tier, to.tier, to.info.MaxValue
	var ok bool
	if v.applier, ok = tiers.As[tiers.Applier](v.target); !ok {
		return v.fail(tiers.Hint(fmt.Errorf("%w: tier %s can't take records as they are", tiers.ErrUnsupported, v.To), "its driver has to offer tiers.Applier"))
	}
	return errors.Join(v.settle(ctx, v.From), v.settle(ctx, v.To))
}

func (v *mover) station(name string) (*station, error) {
	s, ok := v.c.stations[name]
	if !ok {
		return nil, v.fail(tiers.Hint(fmt.Errorf("%w: the configuration has no tier %s", tiers.ErrCategory, name),
			"put the tier into the configuration again until its records are moved"))
	}
	return s, nil
}

// settle sees that a tier answers, and that nothing waits for it.
func (v *mover) settle(ctx context.Context, name string) error {
	s, err := v.station(name)
	if err != nil {
		return err
	}
	if p, ok := tiers.As[tiers.Pinger](s.tier); ok {
		if err := p.Ping(ctx); err != nil {
			return tiers.Fail("ping", name, tiers.Key{}, err)
		}
	}
	left, err := v.m.ApplyPending(ctx, name, false)
	if err != nil {
		return err
	}
	if n := left[name]; n > 0 {
		return v.fail(tiers.Hint(fmt.Errorf("%w: %d writes wait for tier %s", tiers.ErrUnavailable, n, name), "`sagestore journal list` says why"))
	}
	return nil
}

// faults are what is wrong with single records.
type faults struct {
	sentinel error
	hint     string
	text     []string
	n        int
}

func (f *faults) add(s tiers.Space, name, why string) {
	if f.n++; f.n > moveFaults {
		return
	}
	in := ""
	if s.Namespace != "" {
		in = " in namespace " + s.Namespace
	}
	f.text = append(f.text, fmt.Sprintf("%q%s: %s", name, in, why))
}

func (f *faults) err() error {
	if f.n == 0 {
		return nil
	}
	text := strings.Join(f.text, "; ")
	if f.n > moveFaults {
		text += fmt.Sprintf("; and %d more", f.n-moveFaults)
	}
	return tiers.Hint(fmt.Errorf("%w: %d records, and nothing was moved: %s", f.sentinel, f.n, text), f.hint)
}

// survey looks at everything and changes nothing.
func (v *mover) survey(ctx context.Context) error {
	large := faults{sentinel: tiers.ErrTooLarge, hint: "delete or shorten them with the old configuration, or choose another tier"}
	held := faults{sentinel: tiers.ErrConflict, hint: "take them out of the new home, which holds them in another version, and try again"}
	var records, size int64
	err := v.compare(ctx, func(s tiers.Space, from, to *tiers.Record) error {
		if from != nil {
			records++
			size += int64(len(from.Name) + len(from.Value))
			if n := int64(len(from.Value)); v.maxValue > 0 && n > v.maxValue {
				large.add(s, from.Name, fmt.Sprintf("%d bytes, tier %s takes %d", n, v.To, v.maxValue))
			}
			v.step("check", records, 0, size)
		}
		switch {
		case v.done.Resumed || to == nil: // what the target has are copies of the earlier run
		case from == nil:
			held.add(s, to.Name, "only tier "+v.To+" has it")
		case !same(from, to) && to.Version >= from.Version:
			held.add(s, to.Name, fmt.Sprintf("version %d, and %d in tier %s", from.Version, to.Version, v.To))
		}
		return nil
	})
	v.done.Records, v.done.Bytes = records, size
	if err != nil {
		return err
	}
	if err := errors.Join(large.err(), held.err()); err != nil {
		return v.fail(err)
	}
	v.tell(MigrateProgress{Step: "check", Done: records, Total: records, Bytes: size})
	return nil
}

// copy makes the target what the source is.
func (v *mover) copy(ctx context.Context) error {
	var chunk []tiers.Record
	var over []tiers.Cond
	var records, size, pending int64
	flush := func() error {
		if len(chunk) == 0 {
			return nil
		}
		err := v.applier.Apply(ctx, chunk, over)
		chunk, over, pending = nil, nil, 0
		v.tell(MigrateProgress{Step: "copy", Done: records, Total: v.done.Records, Bytes: size})
		return err
	}
	err := v.compare(ctx, func(_ tiers.Space, from, to *tiers.Record) error {
		if from == nil { // deleted since the earlier run copied it
			_, err := v.target.Delete(ctx, to.Key, tiers.If(to.Version))
			return err
		}
		records++
		size += int64(len(from.Name) + len(from.Value))
		if to != nil && same(from, to) {
			return nil
		}
		var cond tiers.Cond
		if to != nil {
			cond = tiers.If(to.Version)
		}
		chunk, over = append(chunk, *from), append(over, cond)
		if pending += int64(len(from.Name) + len(from.Value)); pending < moveChunk && len(chunk) < moveBatch {
			return nil
		}
		return flush()
	})
	return errors.Join(err, flush())
}

// finish removes what is left over in the old home.
func (v *mover) finish(ctx context.Context, mv move) error {
	s, err := v.station(mv.From)
	if err != nil {
		return err
	}
	category := v.done.Category
	if v.options.DryRun {
		entries, size, err := v.count(ctx, s.tier)
		v.done.Records, v.done.Bytes = entries, size
		return err
	}
	if v.c.facts.get(factSession+category) != "" {
		if err := v.c.facts.set(ctx, factSession+category, mv.To); err != nil {
			return err
		}
	}
	if err := v.settle(ctx, mv.From); err != nil {
		return err
	}
	if v.done.Removed, err = v.empty(ctx, s.tier); err != nil {
		return err
	}
	return v.c.facts.set(ctx, factMoving+category, "")
}

// discard removes the copies of an earlier run that the configuration has no use for.
func (v *mover) discard(ctx context.Context, mv move) error {
	s, err := v.station(mv.To)
	if err != nil || v.options.DryRun {
		return err
	}
	if err := v.settle(ctx, mv.To); err != nil {
		return err
	}
	if _, err := v.empty(ctx, s.tier); err != nil {
		return err
	}
	return v.c.facts.set(ctx, factMoving+v.done.Category, "")
}

func (v *mover) count(ctx context.Context, t tiers.Tier) (entries, size int64, err error) {
	namespaces, err := v.namespaces(ctx, t)
	for _, ns := range namespaces {
		n, b, err := tiers.Count(ctx, t, tiers.Space{Namespace: ns, Category: v.done.Category})
		if err != nil {
			return entries, size, err
		}
		entries, size = entries+n, size+b
	}
	return entries, size, err
}

// empty removes the records of the category from a tier, and sees that none is left.
func (v *mover) empty(ctx context.Context, t tiers.Tier) (removed int64, err error) {
	total, _, err := v.count(ctx, t)
	if err != nil {
		return 0, err
	}
	namespaces, err := v.namespaces(ctx, t)
	if err != nil {
		return 0, err
	}
	for _, ns := range namespaces {
		var keys []tiers.Key
		flush := func() error {
			_, err := tiers.DeleteMany(ctx, t, keys, nil)
			removed += int64(len(keys))
			keys = nil
			v.tell(MigrateProgress{Step: "remove", Done: removed, Total: total})
			return err
		}
		for rec, err := range t.List(ctx, tiers.Query{Namespace: ns, Category: v.done.Category, KeysOnly: true}) {
			if err != nil {
				return removed, err
			}
			if keys = append(keys, rec.Key); len(keys) < moveBatch {
				continue
			}
			if err := flush(); err != nil {
				return removed, err
			}
		}
		if len(keys) > 0 {
			if err := flush(); err != nil {
				return removed, err
			}
		}
	}
	left, err := holds(ctx, t, v.done.Category)
	if err == nil && left {
		err = v.fail(tiers.Hint(fmt.Errorf("%w: records were saved while they were removed", tiers.ErrConflict), "stop every program that uses the store, then run it again"))
	}
	return removed, err
}

func (v *mover) fail(err error) error {
	return tiers.Fail("migrate", "", tiers.Key{Category: v.done.Category}, err)
}

func (v *mover) tell(p MigrateProgress) {
	if p.Category = v.done.Category; v.options.Progress != nil {
		v.options.Progress(p)
	}
}

// step tells now and then.
func (v *mover) step(name string, done, total, size int64) {
	if done%moveBatch == 0 {
		v.tell(MigrateProgress{Step: name, Done: done, Total: total, Bytes: size})
	}
}
