package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func named(name string) tiers.Key { return tiers.Key{Category: "session.context", Name: name} }

func open(t *testing.T, c Config) *Tier {
	t.Helper()
	if c.SpillDir == "" {
		c.SpillDir = t.TempDir()
	}
	m, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

func put(t *testing.T, m *Tier, name string, value []byte) tiers.Record {
	t.Helper()
	r, err := m.Save(t.Context(), tiers.Record{Key: named(name), Value: value}, tiers.Cond{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func holds(t *testing.T, m *Tier, name string, want []byte) {
	t.Helper()
	r, err := m.Load(t.Context(), named(name))
	if err != nil || !bytes.Equal(r.Value, want) {
		t.Errorf("%s: %d bytes, %v; want %d bytes", name, len(r.Value), err, len(want))
	}
}

// checkBooks compares the counters with what is there.
func checkBooks(t *testing.T, m *Tier) {
	t.Helper()
	var resident, names, count, size int64
	for i := range m.shards {
		sh := &m.shards[i]
		sh.Lock()
		for _, e := range sh.entries {
			for ; e != nil; e = e.next {
				count++
				names += int64(len(e.name))
				resident += e.resident()
				size += int64(len(e.name)) + e.size()
			}
		}
		sh.Unlock()
	}
	if got := m.room.used.Load(); got != resident+names {
		t.Errorf("%d bytes are booked, %d are in memory", got, resident+names)
	}
	if got := m.room.names.Load(); got != names {
		t.Errorf("%d bytes of keys are booked, there are %d", got, names)
	}
	if s, err := m.Stats(t.Context()); err != nil || s.Entries != count || s.Bytes != size {
		t.Errorf("stats %+v, %v; want %d entries of %d bytes", s, err, count, size)
	}
	if m.spill != nil {
		if live, _ := m.spill.Usage(); live != size-resident-names {
			t.Errorf("%d bytes are live in the spill file, want %d", live, size-resident-names)
		}
	}
}

// quiet waits until the keeper has nothing to do.
func quiet(t *testing.T, m *Tier) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for idle := 0; ; {
		if err := m.squeeze(ctx); err != nil { // returns at the end of a pass
			t.Fatalf("%v: %d bytes are used, %d should be", err, m.room.used.Load(), m.room.ready)
		}
		m.order.mu.Lock()
		m.arrange()
		waiting := len(m.order.pending)
		m.order.mu.Unlock()
		if idle++; waiting > 0 || m.room.used.Load() > m.room.ready {
			idle = 0
		}
		if idle == 3 {
			return
		}
	}
}

func TestNothingIsLostOrStaleUnderPressure(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		size int
	}{
		{"at twice the budget", Options{Budget: 128 << 10}, 1000},
		{"a budget smaller than a value", Options{Budget: 20 << 10}, 40 << 10},
		{"the spill file hardly suffices", Options{Budget: 128 << 10, SpillLimit: 1200 << 10}, 2000},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := open(t, Config{Options: c.o})
			const callers, keys = 8, 64
			var all [callers]map[string][]byte
			var wg sync.WaitGroup
			for g := range callers {
				all[g] = map[string][]byte{}
				wg.Go(func() { hammer(t, m, g, keys, c.size, all[g]) })
			}
			wg.Wait()
			want := map[string][]byte{}
			for _, mine := range all {
				maps.Copy(want, mine)
			}
			quiet(t, m)
			for name, v := range want {
				holds(t, m, name, v)
			}
			n := 0
			for r, err := range m.List(t.Context(), tiers.Query{Category: "session.context"}) {
				if n++; err != nil || !bytes.Equal(r.Value, want[r.Name]) {
					t.Errorf("list: %s is %d bytes, %v", r.Name, len(r.Value), err)
				}
			}
			if n != len(want) {
				t.Errorf("list has %d records, want %d", n, len(want))
			}
			quiet(t, m)
			checkBooks(t, m)
			if live, _ := m.spill.Usage(); live == 0 {
				t.Error("nothing was spilled, so nothing was tested")
			}
		})
	}
}

// hammer saves, deletes and loads keys that nobody else uses.
func hammer(t *testing.T, m *Tier, g, keys, size int, want map[string][]byte) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(g), 7))
	for i := range 1500 {
		name := fmt.Sprintf("%d/%d", g, r.IntN(keys))
		switch r.IntN(8) {
		case 0:
			existed, err := m.Delete(t.Context(), named(name), tiers.Cond{})
			if _, was := want[name]; err != nil || existed != was {
				t.Errorf("delete %s: %v, %v", name, existed, err)
			}
			delete(want, name)
		case 1, 2, 3:
			rec, err := m.Load(t.Context(), named(name))
			if v, was := want[name]; was && (err != nil || !bytes.Equal(rec.Value, v)) || !was && !errors.Is(err, tiers.ErrNotFound) {
				t.Errorf("load %s: %.20q, %v; want %.20q", name, rec.Value, err, v)
			}
		default:
			v := bytes.Repeat(fmt.Appendf(nil, "%s#%d ", name, i), 1+r.IntN(size)/10)
			if _, err := m.Save(t.Context(), tiers.Record{Key: named(name), Value: v}, tiers.Cond{}); err != nil {
				t.Errorf("save %s: %v", name, err)
				continue
			}
			want[name] = v
		}
	}
}

func TestBudgetIsKept(t *testing.T) {
	m := open(t, Config{Options: Options{Budget: 256 << 10}})
	for i := range 2000 {
		put(t, m, fmt.Sprint(i), make([]byte, 1000))
		if used := m.room.used.Load(); used > 256<<10 {
			t.Fatalf("%d bytes are used after %d saves", used, i)
		}
	}
}

func TestUpdateThatOutgrowsTheBudget(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 300<<10)
	t.Run("goes to the spill file", func(t *testing.T) {
		m := open(t, Config{Options: Options{Budget: 64 << 10}})
		for i := range 40 {
			put(t, m, fmt.Sprint(i), make([]byte, 1000))
		}
		put(t, m, "7", big)
		holds(t, m, "7", big)
		put(t, m, "7", []byte("small"))
		holds(t, m, "7", []byte("small"))
		quiet(t, m)
		checkBooks(t, m)
	})
	t.Run("all at once grow within it", func(t *testing.T) {
		m := open(t, Config{Options: Options{Budget: 64 << 10}})
		for i := range 50 {
			put(t, m, fmt.Sprint(i), make([]byte, 700))
		}
		for i := range 50 {
			put(t, m, fmt.Sprint(i), bytes.Repeat([]byte{byte(i)}, 3000))
		}
		for i := range 50 {
			holds(t, m, fmt.Sprint(i), bytes.Repeat([]byte{byte(i)}, 3000))
		}
		quiet(t, m)
		checkBooks(t, m)
	})
	t.Run("is refused without overflow", func(t *testing.T) {
		m := open(t, Config{Options: Options{Budget: 64 << 10, Overflow: OverflowNone}})
		put(t, m, "k", []byte("small"))
		_, err := m.Save(t.Context(), tiers.Record{Key: named("k"), Value: big}, tiers.Cond{})
		if !errors.Is(err, tiers.ErrTooLarge) || !errors.Is(err, tiers.ErrFull) {
			t.Errorf("got %v, want too large", err)
		}
		holds(t, m, "k", []byte("small"))
	})
	t.Run("is refused above both limits", func(t *testing.T) {
		m := open(t, Config{Options: Options{Budget: 64 << 10, SpillLimit: 128 << 10}})
		put(t, m, "k", []byte("small"))
		if _, err := m.Save(t.Context(), tiers.Record{Key: named("k"), Value: big}, tiers.Cond{}); !errors.Is(err, tiers.ErrTooLarge) {
			t.Errorf("got %v, want too large", err)
		}
		holds(t, m, "k", []byte("small"))
	})
}

func TestFullTierWithoutOverflow(t *testing.T) {
	synced := &manualClock{now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	m := open(t, Config{Options: Options{Budget: 10_000, Overflow: OverflowNone}, Clock: synced})
	save := func(name string, n int, ttl time.Duration) error {
		_, err := m.Save(t.Context(), tiers.Record{Key: named(name), Value: make([]byte, n), TTL: ttl}, tiers.Cond{})
		return err
	}
	for _, c := range []struct {
		why  string
		do   func() error
		want error
	}{
		{"there is room", func() error { return save("a", 6000, 0) }, nil},
		{"there is room for something short-lived", func() error { return save("b", 3000, time.Minute) }, nil},
		{"there is none", func() error { return save("c", 2000, 0) }, tiers.ErrFull},
		{"an update of the same size needs none", func() error { return save("a", 6000, 0) }, nil},
		{"a batch that does not fit as a whole stores nothing", func() error {
			_, err := m.SaveMany(t.Context(), []tiers.Record{{Key: named("d")}, {Key: named("e"), Value: make([]byte, 5000)}}, nil)
			return err
		}, tiers.ErrFull},
		{"what has expired makes room", func() error { synced.add(time.Hour); return save("c", 2000, 0) }, nil},
		{"a smaller update makes room", func() error { return errors.Join(save("a", 10, 0), save("f", 5000, 0)) }, nil},
	} {
		if err := c.do(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.why, err, c.want)
		}
	}
	if ok, err := m.Exists(t.Context(), named("d")); ok || err != nil {
		t.Errorf("a refused batch left something: %v, %v", ok, err)
	}
	checkBooks(t, m)
}

func TestSpillFailureIsFullAndLosesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spill")
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // in the way of the directory
		t.Fatal(err)
	}
	m := open(t, Config{Options: Options{Budget: 64 << 10, SpillDir: dir}})
	stored := map[string][]byte{}
	fill := func(from int) (err error) {
		for i := from; i < from+200; i++ {
			name, v := fmt.Sprint(i), bytes.Repeat([]byte{byte(i)}, 1000)
			if _, err = m.Save(t.Context(), tiers.Record{Key: named(name), Value: v}, tiers.Cond{}); err != nil {
				return err
			}
			stored[name] = v
		}
		return nil
	}
	err := fill(0)
	var typed *tiers.Error
	if !errors.Is(err, tiers.ErrFull) || !errors.As(err, &typed) || typed.Hint == "" {
		t.Fatalf("got %v, want full with a hint", err)
	}
	if len(stored) < 50 {
		t.Errorf("only %d records of 1000 bytes fit into 64 KiB", len(stored))
	}
	if _, err := m.Save(t.Context(), tiers.Record{Key: named("big"), Value: make([]byte, 50_000)}, tiers.Cond{}); !errors.Is(err, tiers.ErrFull) {
		t.Errorf("a large value: %v, want full", err)
	}
	for name, v := range stored {
		holds(t, m, name, v)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := fill(1000); err != nil {
		t.Errorf("with the directory in order: %v", err)
	}
	for name, v := range stored {
		holds(t, m, name, v)
	}
	quiet(t, m)
	checkBooks(t, m)
}

func TestFullSpillFileIsFullAndTakesUpWorkAgain(t *testing.T) {
	m := open(t, Config{Options: Options{Budget: 64 << 10, SpillLimit: 64 << 10}})
	var names []string
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		name := fmt.Sprint(i)
		if _, err = m.Save(t.Context(), tiers.Record{Key: named(name), Value: bytes.Repeat([]byte{byte(i)}, 1000)}, tiers.Cond{}); err == nil {
			names = append(names, name)
		}
	}
	if !errors.Is(err, tiers.ErrFull) || len(names) < 100 {
		t.Fatalf("after %d records: %v", len(names), err)
	}
	for i, name := range names {
		holds(t, m, name, bytes.Repeat([]byte{byte(i)}, 1000))
	}
	for _, name := range names[:60] {
		if _, err := m.Delete(t.Context(), named(name), tiers.Cond{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 40 {
		put(t, m, fmt.Sprint("again", i), bytes.Repeat([]byte{byte(i)}, 1000))
	}
	for i, name := range names[60:] {
		holds(t, m, name, bytes.Repeat([]byte{byte(i + 60)}, 1000))
	}
	quiet(t, m)
	checkBooks(t, m)
}

func TestWaitingForRoomEndsWithTheContext(t *testing.T) {
	m := open(t, Config{Options: Options{Budget: 64 << 10}})
	put(t, m, "k", nil)
	sh := m.shard(m.hash(named("k")))
	sh.Lock() // the keeper can't get any further
	for range 210 {
		m.room.take(300)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.reserve(ctx, 3000) }()
	cancel()
	err := <-done
	sh.Unlock()
	m.room.give(210 * 300)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	checkBooks(t, m)
}

func TestWhatIsReadOftenStaysInMemory(t *testing.T) {
	m := open(t, Config{Options: Options{Budget: 1 << 20}})
	hot := func(i int) string { return fmt.Sprint("hot", i) }
	for i := range 100 {
		put(t, m, hot(i), make([]byte, 1000))
	}
	for i := range 500 {
		put(t, m, fmt.Sprint("warm-up", i), make([]byte, 1000)) // now the policy listens
	}
	for range 200 {
		for i := range 100 {
			holds(t, m, hot(i), make([]byte, 1000))
		}
	}
	for i := range 4000 {
		put(t, m, fmt.Sprint("once", i), make([]byte, 1000))
		holds(t, m, hot(i%100), make([]byte, 1000))
	}
	resident := 0
	for i := range 100 {
		k := named(hot(i))
		hash := m.hash(k)
		sh := m.shard(hash)
		sh.RLock()
		if sh.find(hash, &k).resident() > 0 {
			resident++
		}
		sh.RUnlock()
	}
	if resident < 50 { // at random it would be about 20
		t.Errorf("%d of 100 hot records are in memory", resident)
	}
}

func TestValueThatChangedWhileItLeftStaysAndIsOfferedAgain(t *testing.T) {
	m := open(t, Config{Options: Options{Budget: 64 << 10}})
	put(t, m, "k", []byte("old"))
	m.order.mu.Lock()
	m.arrange()
	m.order.mu.Unlock()
	k := named("k")
	e := m.shard(m.hash(k)).find(m.hash(k), &k)
	var leaving mover
	leaving.add(e, e.gen, e.value)
	at, err := m.spill.Append(leaving.values, leaving.entries)
	if err != nil {
		t.Fatal(err)
	}
	put(t, m, "k", []byte("new"))
	if moved := m.settle(&leaving, at); moved != 0 || !e.queued {
		t.Errorf("%d moved, queued for the policy: %v", moved, e.queued)
	}
	holds(t, m, "k", []byte("new"))
	checkBooks(t, m)
}

func TestValuesThatNeverWereInMemoryAreCompacted(t *testing.T) {
	m := open(t, Config{Options: Options{Budget: 64 << 10, SpillLimit: 4 << 20}})
	for i := range 400 {
		put(t, m, fmt.Sprint(i), bytes.Repeat([]byte{byte(i)}, 5000))
	}
	_, before := m.spill.Usage()
	for i := range 400 {
		if i%8 != 0 {
			if _, err := m.Delete(t.Context(), named(fmt.Sprint(i)), tiers.Cond{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 10 {
		if err := m.squeeze(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if live, taken := m.spill.Usage(); taken > before/4 {
		t.Errorf("%d bytes are taken for %d live ones, %d were", taken, live, before)
	}
	for i := 0; i < 400; i += 8 {
		holds(t, m, fmt.Sprint(i), bytes.Repeat([]byte{byte(i)}, 5000))
	}
}

func TestBatchesAreWholeUnderPressure(t *testing.T) {
	m := open(t, Config{Options: Options{Budget: 96 << 10}})
	var wg sync.WaitGroup
	names := []string{"a", "b", "c", "d", "e", "f"}
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				v := bytes.Repeat([]byte{byte(i), byte(g)}, 500)
				rs := make([]tiers.Record, len(names))
				for j, name := range names {
					rs[j] = tiers.Record{Key: named(fmt.Sprint(g, name)), Value: v}
				}
				slices.Reverse(rs[:i%len(rs)])
				if _, err := m.SaveMany(t.Context(), rs, nil); err != nil {
					t.Errorf("batch %d: %v", i, err)
				}
				put(t, m, fmt.Sprint("filler", g, i), v)
			}
		})
	}
	wg.Wait()
	for g := range 4 {
		for _, name := range names {
			holds(t, m, fmt.Sprint(g, name), bytes.Repeat([]byte{199, byte(g)}, 500))
		}
	}
	quiet(t, m)
	checkBooks(t, m)
}

// What a batch needs grows while it waits, when values that it replaces leave memory. If
// it kept what it had meanwhile, batches would wait for each other for ever.
func TestBatchesThatWaitForRoomDoNotWaitForEachOther(t *testing.T) {
	m := open(t, Config{Options: Options{Budget: 96 << 10}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // normally a second or two
	defer cancel()
	var wg sync.WaitGroup
	for g := range 12 {
		wg.Go(func() {
			for i := range 400 {
				v := bytes.Repeat([]byte{byte(i), byte(g)}, 500)
				rs := make([]tiers.Record, 6)
				for j := range rs {
					rs[j] = tiers.Record{Key: named(fmt.Sprint(g, j)), Value: v}
				}
				put(t, m, fmt.Sprint("filler", g, i), v)
				if _, err := m.SaveMany(ctx, rs, nil); err != nil {
					t.Errorf("batch %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// manualClock stands still until it is told.
type manualClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *manualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *manualClock) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

func (c *manualClock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
