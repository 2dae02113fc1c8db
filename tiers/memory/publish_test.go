package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func TestPreparedSavesAppearTogetherOrNotAtAll(t *testing.T) {
	m := open(t, Config{Options: Options{Budget: 64 << 10}})
	ctx := t.Context()
	old := put(t, m, "a", []byte("old"))
	put(t, m, "gone", []byte("v"))
	rs := []tiers.Record{
		{Key: named("a"), Value: []byte("new")},
		{Key: named("b"), Value: make([]byte, 10_000)},
		{Key: named("gone"), Deleted: true},
	}
	_, abort, err := m.Prepare(ctx, tiers.Commit{Saves: rs})
	if err != nil {
		t.Fatal(err)
	}
	abort()
	holds(t, m, "a", []byte("old"))
	holds(t, m, "gone", []byte("v"))
	if ok, _ := m.Exists(ctx, named("b")); ok {
		t.Error("an aborted save left something")
	}
	checkBooks(t, m)

	publish, _, err := m.Prepare(ctx, tiers.Commit{Saves: rs, Reads: []tiers.Read{{Key: named("a"), Version: old.Version}, {Key: named("b")}}})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string)
	go func() {
		r, _ := m.Load(ctx, named("a"))
		seen <- string(r.Value)
	}()
	select {
	case v := <-seen:
		t.Errorf("a reader saw %q before the decision", v)
	case <-time.After(20 * time.Millisecond):
	}
	out := publish()
	if v := <-seen; v != "new" || out[0].Version <= old.Version {
		t.Errorf("after the decision a reader saw %q, version %d", v, out[0].Version)
	}
	holds(t, m, "b", make([]byte, 10_000))
	if ok, _ := m.Exists(ctx, named("gone")); ok {
		t.Error("a prepared delete did nothing")
	}
	if _, _, err := m.Prepare(ctx, tiers.Commit{Saves: rs, Reads: []tiers.Read{{Key: named("a"), Version: old.Version}}}); !errors.Is(err, tiers.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	quiet(t, m)
	checkBooks(t, m)
}

// TestAbortedSpilledSavesLeaveNoBytes is about values that are in the spill file
// before anything is decided.
func TestAbortedSpilledSavesLeaveNoBytes(t *testing.T) {
	m := open(t, Config{Options: Options{Budget: 64 << 10, SpillDir: t.TempDir()}})
	large := func(fill byte) []byte {
		b := make([]byte, 20_000)
		for i := range b {
			b[i] = fill
		}
		return b
	}
	put(t, m, "a", large(1))
	put(t, m, "b", large(2))
	quiet(t, m)
	before, _ := m.spill.Usage()
	c := tiers.Commit{Saves: []tiers.Record{
		{Key: named("a"), Value: large(3)}, {Key: named("b"), Deleted: true}, {Key: named("c"), Value: large(4)},
	}}
	for range 20 {
		_, abort, err := m.Prepare(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		abort()
	}
	holds(t, m, "a", large(1))
	holds(t, m, "b", large(2))
	quiet(t, m)
	checkBooks(t, m)
	if after, _ := m.spill.Usage(); after != before {
		t.Errorf("aborted saves hold %d bytes of the spill file", after-before)
	}
	publish, _, err := m.Prepare(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	publish()
	holds(t, m, "a", large(3))
	holds(t, m, "c", large(4))
	quiet(t, m)
	checkBooks(t, m)
}

// TestReadersGoOnBesideReads is what locking for reading is for: a transaction
// that only read a key does not hold up others that read it.
func TestReadersGoOnBesideReads(t *testing.T) {
	m := open(t, Config{})
	old := put(t, m, "a", []byte("v"))
	var d tiers.Digest
	d.Add("a", old.Version)
	for name, c := range map[string]tiers.Commit{
		"a key":   {Reads: []tiers.Read{{Key: named("a"), Version: old.Version}}},
		"a range": {Ranges: []tiers.Range{{Query: tiers.Query{Category: named("a").Category}, Sum: d.Sum()}}},
	} {
		_, abort, err := m.Prepare(t.Context(), c)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		holds(t, m, "a", []byte("v"))
		if _, again, err := m.Prepare(t.Context(), c); err != nil {
			t.Errorf("%s: %v", name, err)
		} else {
			again()
		}
		abort()
	}
}

// TestRangesAreExactAmongSaves lets transactions add one key each to a category
// that they have listed: no two of them may come by the same listing.
func TestRangesAreExactAmongSaves(t *testing.T) {
	m := open(t, Config{})
	const callers, rounds = 4, 30
	var wg sync.WaitGroup
	category := named("").Category
	for caller := range callers {
		wg.Go(func() {
			for i := 0; i < rounds; {
				n, err := addNext(t.Context(), m, category, fmt.Sprint(caller))
				switch {
				case err == nil:
					i++
				case !errors.Is(err, tiers.ErrConflict):
					t.Errorf("after %d: %v", n, err)
					return
				}
			}
		})
	}
	wg.Wait()
	n := 0
	for r, err := range m.List(t.Context(), tiers.Query{Category: category}) {
		if want := fmt.Sprintf("%06d", n); err != nil || r.Name != want {
			t.Fatalf("listed %q, %v, want %q", r.Name, err, want)
		}
		n++
	}
	if n != callers*rounds {
		t.Errorf("%d keys of %d are there", n, callers*rounds)
	}
	checkBooks(t, m)
}

// addNext saves the key that is numbered by how many there are.
func addNext(ctx context.Context, m *Tier, category, value string) (n int, err error) {
	var d tiers.Digest
	q := tiers.Query{Category: category, KeysOnly: true}
	for r, err := range m.List(ctx, q) {
		if err != nil {
			return n, err
		}
		d.Add(r.Name, r.Version)
		n++
	}
	publish, _, err := m.Prepare(ctx, tiers.Commit{
		Ranges: []tiers.Range{{Query: q, Sum: d.Sum()}},
		Saves:  []tiers.Record{{Key: named(fmt.Sprintf("%06d", n)), Value: []byte(value)}},
	})
	if err == nil {
		publish()
	}
	return n, err
}

func BenchmarkPrepareAndPublish(b *testing.B) {
	m, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close(context.Background()) //nolint:errcheck // a benchmark
	ctx := b.Context()
	names := make([]tiers.Key, 10_000)
	for i := range names {
		names[i] = named(fmt.Sprintf("key-%d", i))
	}
	value := make([]byte, 1024)
	b.Run("save", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, err := m.Save(ctx, tiers.Record{Key: names[i%len(names)], Value: value}, tiers.Cond{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, n := range []int{1, 4} {
		b.Run(fmt.Sprintf("commit of %d", n), func(b *testing.B) {
			rs := make([]tiers.Record, n)
			for i := 0; b.Loop(); i++ {
				for j := range rs {
					rs[j] = tiers.Record{Key: names[(i*n+j)%len(names)], Value: value}
				}
				publish, _, err := m.Prepare(ctx, tiers.Commit{Saves: rs})
				if err != nil {
					b.Fatal(err)
				}
				publish()
			}
		})
	}
}
