package tiertest

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// saveMany compares a batch with saves one after the other: on the model, a
// batch that is atomic is undone when any item was refused.
func (m *machine) saveMany(ctx context.Context, is []item) error {
	rs, cs := make([]tiers.Record, len(is)), make([]tiers.Cond, len(is))
	for i, it := range is {
		rs[i], cs[i] = m.record(it), m.cond(it)
	}
	got, err := tiers.SaveMany(ctx, m.tier, rs, cs)
	if len(got) != len(rs) {
		return fmt.Errorf("%d results for %d records, and %s", len(got), len(rs), said(err))
	}
	refused := m.refused(func(i int) error { return m.wouldSave(rs[i], cs[i]) }, len(rs), keysOf(rs))
	if err := m.sameRefusals(err, refused); err != nil || len(refused) > 0 && m.atomic {
		return err
	}
	for i := range rs {
		if _, bad := refused[i]; bad {
			if got[i].Version != 0 {
				return fmt.Errorf("item %d was refused and has version %d", i, got[i].Version)
			}
			continue
		}
		if err := m.saved(rs[i], tiers.Cond{}, got[i], nil); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	return nil
}

func keysOf(rs []tiers.Record) []tiers.Key {
	ks := make([]tiers.Key, len(rs))
	for i, r := range rs {
		ks[i] = r.Key
	}
	return ks
}

// wouldSave does what a save does to presence and version in the model, where
// a version that is not known yet is one that no condition names.
func (m *machine) wouldSave(r tiers.Record, c tiers.Cond) error {
	old, _ := m.live(r.Name)
	if err := c.Holds(old.Version); err != nil {
		return err
	}
	if r.TTL < 0 {
		delete(m.stored, r.Name)
		return nil
	}
	r.Version = 1<<63 + 1
	m.stored[r.Name] = r
	return nil
}

// refused tries the steps on the model and answers which ones it refuses; the
// model is as before then.
func (m *machine) refused(try func(i int) error, n int, ks []tiers.Key) map[int]*tiers.Error {
	before := maps.Clone(m.stored)
	out := map[int]*tiers.Error{}
	for i := range n {
		if err := try(i); err != nil {
			out[i] = &tiers.Error{Key: ks[i].Name, Err: err}
		}
	}
	m.stored = before
	return out
}

// sameRefusals compares the keys that an error names with those of the model.
func (m *machine) sameRefusals(err error, refused map[int]*tiers.Error) error {
	named := fails(err)
	meant := map[string]bool{}
	for i, want := range refused {
		meant[want.Key] = true
		if named[want.Key] == nil {
			return fmt.Errorf("item %d, %q, was to be refused with %w; it answers %s", i, want.Key, want.Err, said(err))
		}
	}
	for key := range named {
		if !meant[key] {
			return fmt.Errorf("%q was refused and should not have been: %w", key, err)
		}
	}
	if len(refused) == 0 && err != nil {
		return err
	}
	return nil
}

func (m *machine) loadMany(ctx context.Context, is []item) error {
	ks := make([]tiers.Key, len(is))
	for i, it := range is {
		ks[i] = m.key(it)
	}
	got, err := tiers.LoadMany(ctx, m.tier, ks)
	if err != nil || len(got) != len(ks) {
		return fmt.Errorf("%d results for %d keys, and %s", len(got), len(ks), said(err))
	}
	for i, k := range ks {
		want, ok := m.live(k.Name)
		if !ok {
			if got[i].Version != 0 {
				return fmt.Errorf("item %d, %s, is absent and has version %d", i, show(k), got[i].Version)
			}
			continue
		}
		if err := same(got[i], want, false); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	return nil
}

func (m *machine) deleteMany(ctx context.Context, is []item) error {
	ks, cs := make([]tiers.Key, len(is)), make([]tiers.Cond, len(is))
	for i, it := range is {
		ks[i], cs[i] = m.key(it), m.cond(it)
	}
	got, err := tiers.DeleteMany(ctx, m.tier, ks, cs)
	if len(got) != len(ks) {
		return fmt.Errorf("%d results for %d keys, and %s", len(got), len(ks), said(err))
	}
	want := make([]bool, len(ks))
	refused := m.refused(func(i int) error {
		old, there := m.live(ks[i].Name)
		if err := cs[i].Holds(old.Version); err != nil {
			return err
		}
		want[i] = there
		delete(m.stored, ks[i].Name)
		return nil
	}, len(ks), ks)
	if err := m.sameRefusals(err, refused); err != nil || len(refused) > 0 && m.atomic {
		return err
	}
	for i, k := range ks {
		_, bad := refused[i]
		if got[i] != (want[i] && !bad) {
			return fmt.Errorf("item %d, %s: it answers %v, want %v", i, show(k), got[i], want[i] && !bad)
		}
		if !bad {
			delete(m.stored, k.Name)
		}
	}
	return nil
}

// apply applies records whose versions are near the stored ones. What is absent
// gets a version above all that the key had, since a tier keeps no tombstones.
func (m *machine) apply(ctx context.Context, is []item) error {
	a, ok := tiers.As[tiers.Applier](m.tier)
	if !ok {
		return nil
	}
	now := tiers.Micro(m.t.now())
	rs, over := make([]tiers.Record, len(is)), make([]tiers.Cond, len(is))
	for i, it := range is {
		r := raw(m.key(it), it.Value)
		old, present := m.live(r.Name)
		switch {
		case !present || it.Demand != demandNothing:
			r.Version = max(m.issued[r.Name], m.floor, version(now)) + 1 + tiers.Version(max(it.Ahead, 0))
		case it.Ahead == 0:
			r = old // once more
		default:
			r.Version = old.Version + tiers.Version(it.Ahead) //nolint:gosec // a negative one wraps around to what is meant
		}
		if r.Created.IsZero() {
			r.Created, r.Updated = now, now
			r.Expires = tiers.Micro(tiers.Deadline(now, it.TTL)).Truncate(time.Millisecond)
			r.Deleted = it.Deleted
		}
		rs[i], over[i] = r, m.cond(it)
	}
	if err := a.Apply(ctx, rs, over); err != nil {
		return err
	}
	for i, r := range rs {
		old, _ := m.live(r.Name)
		passes := old.Version <= r.Version
		if _, conditional := over[i].Version(); conditional {
			passes = over[i].Holds(old.Version) == nil
		}
		if !passes {
			continue
		}
		m.floor = max(m.floor, r.Version)
		m.issued[r.Name] = max(m.issued[r.Name], r.Version)
		if r.Deleted || !r.Live(m.t.now()) {
			delete(m.stored, r.Name)
			continue
		}
		m.stored[r.Name] = r
	}
	return nil
}
