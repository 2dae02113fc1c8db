package tiertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// machine runs a program on a tier and on a plain map, and compares.
type machine struct {
	t      *T
	tier   tiers.Tier
	space  tiers.Space
	prefix string // of all its keys
	alone  bool   // nobody else works on the tier: the clock may move, the tier be opened again
	atomic bool

	stored map[string]tiers.Record  // the model: live and expired records by name
	issued map[string]tiers.Version // the highest version that each key ever had
	floor  tiers.Version            // the highest that was applied
}

func newMachine(t *T, space tiers.Space, prefix string, alone bool) *machine {
	return &machine{
		t: t, tier: t.Tier, space: space, prefix: prefix, alone: alone, atomic: t.has(AtomicBatch),
		stored: map[string]tiers.Record{}, issued: map[string]tiers.Version{},
	}
}

// run does the steps and answers the first difference.
func (m *machine) run(program []step) error {
	for i, s := range program {
		if err := m.step(s); err != nil {
			return fmt.Errorf("step %d, %v: %w", i+1, s, err)
		}
	}
	if err := m.list(tiers.Query{}); err != nil {
		return fmt.Errorf("list at the end: %w", err)
	}
	return nil
}

func (m *machine) step(s step) error {
	ctx := m.t.ctx
	switch s.Kind {
	case kindSave:
		return m.save(ctx, s.Items[0])
	case kindLoad:
		return m.load(ctx, s.Items[0])
	case kindExists:
		k := m.key(s.Items[0])
		got, err := tiers.Exists(ctx, m.tier, k)
		_, want := m.live(k.Name)
		return differs(got, want, err)
	case kindDelete:
		return m.delete(ctx, s.Items[0])
	case kindTouch:
		return m.touch(ctx, s.Items[0])
	case kindList:
		q := tiers.Query{Prefix: s.Prefix, Limit: s.Limit, Reverse: s.Reverse, KeysOnly: s.Lean}
		if s.After >= 0 {
			q.After = m.prefix + programKey(s.After)
		}
		return m.list(q)
	case kindSaveMany:
		return m.saveMany(ctx, s.Items)
	case kindLoadMany:
		return m.loadMany(ctx, s.Items)
	case kindDeleteMany:
		return m.deleteMany(ctx, s.Items)
	case kindApply:
		return m.apply(ctx, s.Items)
	case kindAdvance:
		if m.alone && !m.t.ServerClock {
			m.t.Clock.Advance(s.By)
		}
	case kindSweep:
		if sw, ok := tiers.As[tiers.Sweeper](m.tier); ok {
			_, err := sw.Sweep(ctx, 100)
			return err
		}
	case kindReopen:
		if m.alone && m.t.Durable {
			m.t.Reopen()
			m.tier = m.t.Tier
		}
	}
	return nil
}

func (m *machine) key(i item) tiers.Key {
	return tiers.Key{Namespace: m.space.Namespace, Category: m.space.Category, Name: m.prefix + programKey(i.Key)}
}

// live answers the model's record if it has not expired.
func (m *machine) live(name string) (tiers.Record, bool) {
	if r, ok := m.stored[name]; ok && r.Live(m.t.now()) {
		return r, true
	}
	return tiers.Record{}, false
}

// cond makes the condition that the item demands of what is stored now.
func (m *machine) cond(i item) tiers.Cond {
	r, _ := m.live(m.key(i).Name)
	switch i.Demand {
	case demandAbsent:
		return tiers.If(0)
	case demandStored:
		return tiers.If(max(r.Version, 1))
	case demandOther:
		return tiers.If(r.Version + 1<<40) // no tier issues it within this run
	default:
		return tiers.Cond{}
	}
}

func (m *machine) record(i item) tiers.Record { return lasting(m.key(i), i.Value, i.TTL) }

func (m *machine) save(ctx context.Context, i item) error {
	r, c := m.record(i), m.cond(i)
	got, err := m.tier.Save(ctx, r, c)
	return m.saved(r, c, got, err)
}

// saved compares the outcome of a save with the model's, and changes that.
func (m *machine) saved(r tiers.Record, c tiers.Cond, got tiers.Record, err error) error {
	old, present := m.live(r.Name)
	if want := c.Holds(old.Version); want != nil || err != nil {
		return differsInError(err, want)
	}
	if r.TTL < 0 {
		delete(m.stored, r.Name)
		m.issued[r.Name] = max(m.issued[r.Name], got.Version)
		return nil
	}
	want := r
	want.Version = max(m.issued[r.Name], m.floor) + 1
	if got.Version < want.Version {
		return fmt.Errorf("%s gets version %d, want %d or more", show(r.Key), got.Version, want.Version)
	}
	want.Version, want.Created, want.Updated = got.Version, got.Created, got.Updated
	if present {
		want.Created = old.Created
	}
	want.Expires = tiers.Deadline(m.t.now(), r.TTL)
	if m.t.near(got.Expires, want.Expires) && r.TTL != 0 {
		want.Expires = got.Expires
	}
	want.TTL = 0
	m.stored[r.Name] = want
	m.issued[r.Name] = want.Version
	return same(got, want, false)
}

func (m *machine) load(ctx context.Context, i item) error {
	k := m.key(i)
	got, err := m.tier.Load(ctx, k)
	want, ok := m.live(k.Name)
	if !ok {
		return differsInError(err, tiers.ErrNotFound)
	}
	if err != nil {
		return err
	}
	return same(got, want, false)
}

func (m *machine) delete(ctx context.Context, i item) error {
	k, c := m.key(i), m.cond(i)
	got, err := m.tier.Delete(ctx, k, c)
	old, want := m.live(k.Name)
	if refused := c.Holds(old.Version); refused != nil {
		return differsInError(err, refused)
	}
	delete(m.stored, k.Name)
	return differs(got, want, err)
}

func (m *machine) touch(ctx context.Context, i item) error {
	if _, ok := tiers.As[tiers.Toucher](m.tier); !ok {
		return nil
	}
	k := m.key(i)
	got, err := tiers.Touch(ctx, m.tier, k, i.TTL)
	r, want := m.live(k.Name)
	if err := differs(got, want, err); err != nil || !want {
		return err
	}
	if i.TTL < 0 {
		delete(m.stored, k.Name)
		return nil
	}
	loaded, err := m.tier.Load(ctx, k)
	if err != nil {
		return fmt.Errorf("load after touch: %w", err)
	}
	r.Expires = tiers.Deadline(m.t.now(), i.TTL)
	if i.TTL != 0 && m.t.near(loaded.Expires, r.Expires) {
		r.Expires = loaded.Expires
	}
	m.stored[k.Name] = r
	return same(loaded, r, false)
}

func (m *machine) list(q tiers.Query) error {
	q.Namespace, q.Category, q.Prefix = m.space.Namespace, m.space.Category, m.prefix+q.Prefix
	var names []string
	for _, name := range slices.Sorted(maps.Keys(m.stored)) {
		if _, ok := m.live(name); ok {
			names = append(names, name)
		}
	}
	want := selected(names, q)
	n := 0
	for got, err := range m.tier.List(m.t.ctx, q) {
		if err != nil {
			return err
		}
		if n >= len(want) || got.Name != want[n] {
			return fmt.Errorf("the list yields %s as number %d, want %q in all", show(got.Key), n+1, want)
		}
		if err := same(got, m.stored[got.Name], q.KeysOnly); err != nil {
			return err
		}
		n++
	}
	if n != len(want) {
		return fmt.Errorf("the list ends after %d, want %q", n, want)
	}
	return nil
}

func differs(got, want bool, err error) error {
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("it answers %v, want %v", got, want)
	}
	return nil
}

func differsInError(got, want error) error {
	if !errors.Is(got, want) || want == nil && got != nil {
		return fmt.Errorf("it answers %s, want %s", said(got), said(want))
	}
	return nil
}

// same compares a record with the model's.
func same(got, want tiers.Record, lean bool) error {
	var diff []string
	if got.Key != want.Key {
		diff = append(diff, fmt.Sprintf("key %s, want %s", show(got.Key), show(want.Key)))
	}
	if !lean && (string(got.Value) != string(want.Value) || got.Codec != want.Codec || got.Schema != want.Schema) {
		diff = append(diff, fmt.Sprintf("value %q in %s, want %q in %s", got.Value, got.Codec, want.Value, want.Codec))
	}
	if got.Version != want.Version {
		diff = append(diff, fmt.Sprintf("version %d, want %d", got.Version, want.Version))
	}
	for _, at := range []struct {
		what      string
		got, want time.Time
	}{{"created", got.Created, want.Created}, {"updated", got.Updated, want.Updated}, {"expires", got.Expires, want.Expires}} {
		if !lean && !at.got.Equal(at.want) {
			diff = append(diff, fmt.Sprintf("%s %v, want %v", at.what, at.got, at.want))
		}
	}
	if diff == nil {
		return nil
	}
	return fmt.Errorf("%s has %s", show(want.Key), strings.Join(diff, "; "))
}
