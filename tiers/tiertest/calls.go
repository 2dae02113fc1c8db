package tiertest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// category is where rules keep their records if they need no other.
const category = "tiertest.records"

func named(name string) tiers.Key { return tiers.Key{Category: category, Name: name} }

func numbered(prefix string, i int) tiers.Key { return named(fmt.Sprintf("%s%05d", prefix, i)) }

// raw is a record of plain bytes.
func raw(k tiers.Key, value string) tiers.Record {
	return tiers.Record{Key: k, Value: []byte(value), Codec: "raw", Schema: 1}
}

func lasting(k tiers.Key, value string, ttl time.Duration) tiers.Record {
	r := raw(k, value)
	r.TTL = ttl
	return r
}

// save saves without a condition and ends the rule on an error.
func (t *T) save(r tiers.Record) tiers.Record {
	return t.saveIn(t.Tier, r)
}

func (t *T) saveIn(h tiers.Tier, r tiers.Record) tiers.Record {
	saved, err := h.Save(t.ctx, r, tiers.Cond{})
	if err != nil {
		t.Fatalf("save %s: %v", show(r.Key), err)
	}
	return saved
}

// load loads what must be there.
func (t *T) load(k tiers.Key) tiers.Record {
	r, err := t.Tier.Load(t.ctx, k)
	if err != nil {
		t.Fatalf("load %s: %v", show(k), err)
	}
	return r
}

func (t *T) delete(k tiers.Key) bool {
	existed, err := t.Tier.Delete(t.ctx, k, tiers.Cond{})
	if err != nil {
		t.Fatalf("delete %s: %v", show(k), err)
	}
	return existed
}

// wantValue notes a fault unless the key holds the value.
func (t *T) wantValue(when string, k tiers.Key, value string) {
	t.wantValueIn(t.Tier, when, k, value)
}

func (t *T) wantValueIn(h tiers.Tier, when string, k tiers.Key, value string) {
	r, err := h.Load(t.ctx, k)
	switch {
	case err != nil:
		t.Errorf("%s: load of %s answers %s, want the value %s", when, show(k), said(err), cut(value))
	case string(r.Value) != value:
		t.Errorf("%s: %s holds %s, want %s", when, show(k), cut(string(r.Value)), cut(value))
	}
}

// wantAbsent notes a fault if anything but a list shows the key.
func (t *T) wantAbsent(when string, k tiers.Key) {
	t.wantAbsentIn(t.Tier, when, k)
}

func (t *T) wantAbsentIn(h tiers.Tier, when string, k tiers.Key) {
	if r, err := h.Load(t.ctx, k); !errors.Is(err, tiers.ErrNotFound) {
		t.Errorf("%s: load of %s answers %s and the value %s, want ErrNotFound", when, show(k), said(err), cut(string(r.Value)))
	}
	if there, err := tiers.Exists(t.ctx, h, k); err != nil || there {
		t.Errorf("%s: exists of %s answers %v and %s, want false", when, show(k), there, said(err))
	}
}

// list answers what a query yields and ends the rule on an error.
func (t *T) list(q tiers.Query) []tiers.Record {
	return t.listIn(t.Tier, q)
}

func (t *T) listIn(h tiers.Tier, q tiers.Query) []tiers.Record {
	var out []tiers.Record
	for r, err := range h.List(t.ctx, q) {
		if err != nil {
			t.Fatalf("list %+v: %v", q, err)
		}
		out = append(out, r)
	}
	return out
}

func (t *T) names(q tiers.Query) []string {
	return namesOf(t.list(q))
}

func namesOf(rs []tiers.Record) []string {
	names := make([]string, 0, len(rs))
	for _, r := range rs {
		names = append(names, r.Name)
	}
	return names
}

// wantNames compares a listing with what it must be.
func (t *T) wantNames(what string, got, want []string) {
	if slices.Equal(got, want) {
		return
	}
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = cut(got[i])
		}
		if i < len(want) {
			w = cut(want[i])
		}
		if g != w {
			t.Errorf("%s: %d keys, want %d; the first difference is at %d: %s, want %s", what, len(got), len(want), i, g, w)
			return
		}
	}
}

// spaces answers what Spaces yields.
func (t *T) spaces() []tiers.Space {
	var out []tiers.Space
	for s, err := range t.Tier.Spaces(t.ctx) {
		if err != nil {
			t.Fatalf("spaces: %v", err)
		}
		out = append(out, s)
	}
	return out
}

// fill saves n records under a prefix, as fast as the tier can.
func (t *T) fill(prefix string, n int) []string {
	const chunk = 100
	names := make([]string, n)
	for i := range names {
		names[i] = numbered(prefix, i).Name
	}
	t.workers(4, func(worker int) {
		for from := worker * chunk; from < n; from += 4 * chunk {
			var rs []tiers.Record
			for i := from; i < min(from+chunk, n); i++ {
				rs = append(rs, raw(numbered(prefix, i), fmt.Sprintf("value of %d", i)))
			}
			if _, err := tiers.SaveMany(t.ctx, t.Tier, rs, nil); err != nil {
				t.Fatalf("save many: %v", err)
			}
		}
	})
	return names
}

// short is a TTL that ends soon enough to be waited for: with the injected
// clock any does.
func (t *T) short() time.Duration {
	if t.ServerClock {
		return 100 * time.Millisecond
	}
	return time.Minute
}

// expire lets the short TTL of a record go by. On a server's clock it polls
// for the end of the key; else it only turns the clock, so that whatever the
// rule asks next is the first to see the expired record.
func (t *T) expire(k tiers.Key) {
	if !t.ServerClock {
		t.Clock.Advance(time.Minute)
		return
	}
	gone := t.poll(5*time.Second, func() bool {
		_, err := t.Tier.Load(t.ctx, k)
		return errors.Is(err, tiers.ErrNotFound)
	})
	if !gone {
		t.Fatalf("%s is still there long after its TTL of %v", show(k), t.short())
	}
}

// now answers the tier's time, which for a server is about the real one.
func (t *T) now() time.Time {
	if t.ServerClock {
		return tiers.SystemClock().Now()
	}
	return t.Clock.Now()
}

// slack is how far an instant that a tier computed may be from the suite's.
func (t *T) slack() time.Duration {
	if t.ServerClock {
		return 10 * time.Second
	}
	return time.Millisecond
}

// near tells whether two instants are as equal as the tier's clock allows.
func (t *T) near(a, b time.Time) bool {
	return a.Sub(b).Abs() <= t.slack()
}

// fails answers the typed error of each key in a joined error.
func fails(err error) map[string]*tiers.Error {
	out := map[string]*tiers.Error{}
	var walk func(error)
	walk = func(err error) {
		if e, ok := err.(*tiers.Error); ok { //nolint:errorlint // the tree is walked by hand, to find all of them
			out[e.Key] = e
			return
		}
		switch e := err.(type) { //nolint:errorlint // as above
		case interface{ Unwrap() []error }:
			for _, one := range e.Unwrap() {
				walk(one)
			}
		case interface{ Unwrap() error }:
			walk(e.Unwrap())
		}
	}
	walk(err)
	return out
}

// wantSame compares a loaded record with the one that was answered by its save.
func (t *T) wantSame(when string, got, want tiers.Record) {
	if got.Key != want.Key || !bytes.Equal(got.Value, want.Value) {
		t.Errorf("%s: %s with value %s, want %s with %s", when, show(got.Key), cut(string(got.Value)), show(want.Key), cut(string(want.Value)))
	}
	if got.Codec != want.Codec || got.Schema != want.Schema || got.Flags != want.Flags {
		t.Errorf("%s: %s has codec %q, schema %d, flags %b; want %q, %d, %b", when, show(got.Key),
			got.Codec, got.Schema, got.Flags, want.Codec, want.Schema, want.Flags)
	}
	if got.Version != want.Version {
		t.Errorf("%s: %s has version %d, want %d", when, show(got.Key), got.Version, want.Version)
	}
	if !got.Created.Equal(want.Created) || !got.Updated.Equal(want.Updated) || !got.Expires.Equal(want.Expires) {
		t.Errorf("%s: %s has created %v, updated %v, expires %v; want %v, %v, %v", when, show(got.Key),
			got.Created, got.Updated, got.Expires, want.Created, want.Updated, want.Expires)
	}
}

func show(k tiers.Key) string {
	if k.Namespace != "" {
		return fmt.Sprintf("%s:%s/%s", k.Namespace, k.Category, cut(k.Name))
	}
	if k.Category != category {
		return fmt.Sprintf("%s/%s", k.Category, cut(k.Name))
	}
	return cut(k.Name)
}

// cut quotes a text and shortens it.
func cut(s string) string {
	const most = 60
	if len(s) > most {
		return fmt.Sprintf("%q... (%d bytes)", s[:most], len(s))
	}
	return fmt.Sprintf("%q", s)
}
