package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func TestSecondOfTwoQuickSavesWins(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"everything fits", Options{}},
		{"under pressure", Options{Budget: 256 << 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := open(t, Config{Options: c.o})
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					for i := range 2000 {
						name := fmt.Sprintf("%d/%d", g, i)
						put(t, m, name, []byte("first, which is somewhat longer than the second"))
						put(t, m, name, []byte("second"))
						holds(t, m, name, []byte("second"))
					}
				})
			}
			wg.Wait()
			for g := range 8 {
				for i := range 2000 {
					holds(t, m, fmt.Sprintf("%d/%d", g, i), []byte("second"))
				}
			}
		})
	}
}

func TestDeletedIsGoneAtOnce(t *testing.T) {
	m := open(t, Config{Options: Options{Budget: 64 << 10}})
	for i := range 1000 {
		name := fmt.Sprint(i)
		put(t, m, name, make([]byte, 200))
		for _, want := range []bool{true, false} {
			if existed, err := m.Delete(t.Context(), named(name), tiers.Cond{}); err != nil || existed != want {
				t.Fatalf("delete: %v, %v; want %v", existed, err, want)
			}
		}
		if _, err := m.Load(t.Context(), named(name)); !errors.Is(err, tiers.ErrNotFound) {
			t.Fatalf("load after delete: %v", err)
		}
	}
	quiet(t, m)
	checkBooks(t, m)
}

func TestValuesAreCopied(t *testing.T) {
	m := open(t, Config{})
	v := []byte("value")
	put(t, m, "k", v)
	v[0] = 'X'
	r, err := m.Load(t.Context(), named("k"))
	if err != nil {
		t.Fatal(err)
	}
	r.Value[1] = 'X'
	for r, err := range m.List(t.Context(), tiers.Query{Category: "session.context"}) {
		if err != nil {
			t.Fatal(err)
		}
		r.Value[2] = 'X'
	}
	holds(t, m, "k", []byte("value"))
}

func TestLentValueOutlivesItsRecord(t *testing.T) {
	m := open(t, Config{})
	put(t, m, "k", []byte("old"))
	r, err := m.Lend(t.Context(), named("k"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, m, "k", []byte("new"))
	if string(r.Value) != "old" {
		t.Errorf("what was lent changed to %q", r.Value)
	}
	if r, err = m.Lend(t.Context(), named("k")); err != nil || string(r.Value) != "new" || r.Version == 0 {
		t.Errorf("got %q, version %d, %v", r.Value, r.Version, err)
	}
	if _, err := m.Lend(t.Context(), named("none")); !errors.Is(err, tiers.ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
}

func TestTakenValueIsKeptAsItIs(t *testing.T) {
	m := open(t, Config{})
	for name, v := range map[string][]byte{"some": []byte("value"), "empty": {}, "nil": nil} {
		if _, err := m.Take(t.Context(), tiers.Record{Key: named(name), Value: v, Codec: "raw"}, tiers.If(0)); err != nil {
			t.Fatal(err)
		}
		holds(t, m, name, v)
		r, err := m.Lend(t.Context(), named(name))
		if err != nil || len(v) > 0 && &r.Value[0] != &v[0] {
			t.Errorf("%s: what was taken over was copied, or not found: %v", name, err)
		}
		if _, err := m.Take(t.Context(), tiers.Record{Key: named(name), Value: v}, tiers.If(0)); !errors.Is(err, tiers.ErrExists) {
			t.Errorf("%s: got %v over what is there", name, err)
		}
	}
}

func TestExpiredButNotSweptIsAbsent(t *testing.T) {
	clock := &manualClock{now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	m := open(t, Config{Clock: clock})
	ctx, k := t.Context(), named("k")
	save := func(ttl time.Duration) {
		t.Helper()
		if _, err := m.Save(ctx, tiers.Record{Key: k, Value: []byte("v"), TTL: ttl}, tiers.Cond{}); err != nil {
			t.Fatal(err)
		}
	}
	absent := func(why string) {
		t.Helper()
		if _, err := m.Load(ctx, k); !errors.Is(err, tiers.ErrNotFound) {
			t.Errorf("%s: load: %v", why, err)
		}
		if ok, err := m.Exists(ctx, k); ok || err != nil {
			t.Errorf("%s: exists: %v, %v", why, ok, err)
		}
		if ok, err := m.Touch(ctx, k, time.Hour); ok || err != nil {
			t.Errorf("%s: touch: %v, %v", why, ok, err)
		}
		for r, err := range m.List(ctx, tiers.Query{Category: k.Category}) {
			t.Errorf("%s: list: %v, %v", why, r.Key, err)
		}
		if n, _, err := m.Count(ctx, k.Space()); n != 0 || err != nil {
			t.Errorf("%s: count: %d, %v", why, n, err)
		}
	}
	save(0)
	save(-time.Nanosecond)
	absent("saved with a TTL in the past")
	save(100 * time.Nanosecond)
	absent("saved with a TTL below the resolution")
	save(time.Microsecond)
	if ok, err := m.Exists(ctx, k); !ok || err != nil {
		t.Errorf("a microsecond is a TTL: %v, %v", ok, err)
	}
	clock.add(time.Microsecond)
	absent("after a microsecond")
	if _, err := m.Save(ctx, tiers.Record{Key: k, TTL: time.Second}, tiers.If(0)); err != nil {
		t.Errorf("if-absent over an expired record: %v", err)
	}
	clock.add(time.Second)
	if n, err := m.Sweep(ctx, 10); n != 1 || err != nil {
		t.Errorf("sweep: %d, %v", n, err)
	}
	save(0)
	clock.add(100 * 365 * 24 * time.Hour)
	holds(t, m, "k", []byte("v"))
	checkBooks(t, m)
}

func TestSystemClockInABubble(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m, err := New(Options{Budget: 64 << 10, SpillDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		for i := range 300 { // enough for the policy and its goroutines to start
			r := tiers.Record{Key: named(fmt.Sprint(i)), Value: make([]byte, 1000)}
			if i%2 == 0 {
				r.TTL = time.Hour
			}
			if _, err := m.Save(ctx, r, tiers.Cond{}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if m.keeper.policy == nil {
			t.Error("the policy did not start, so nothing was tested")
		}
		time.Sleep(time.Hour - time.Nanosecond)
		if n, _, _ := m.Count(ctx, named("").Space()); n != 300 {
			t.Errorf("%d records are left after less than an hour", n)
		}
		time.Sleep(time.Nanosecond)
		if n, _, _ := m.Count(ctx, named("").Space()); n != 150 {
			t.Errorf("%d records are left after an hour", n)
		}
		time.Sleep(10 * 365 * 24 * time.Hour)
		holds(t, m, "299", make([]byte, 1000))
		if n, err := m.Sweep(ctx, 1000); n != 150 || err != nil {
			t.Errorf("sweep: %d, %v", n, err)
		}
		if err := m.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseUnderLoad(t *testing.T) {
	for range 20 {
		m := open(t, Config{Options: Options{Budget: 64 << 10}})
		var wg sync.WaitGroup
		begun := make(chan struct{}, 4)
		for g := range 4 {
			wg.Go(func() {
				for i := 0; ; i++ {
					if i == 100 {
						begun <- struct{}{}
					}
					if err := anything(t.Context(), m, g, i); errors.Is(err, tiers.ErrClosed) {
						return
					} else if err != nil {
						t.Errorf("call %d: %v", i, err)
						return
					}
				}
			})
		}
		for range 4 {
			<-begun
		}
		for range 2 {
			wg.Go(func() {
				if err := m.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

// anything does one operation or another; not found is fine.
func anything(ctx context.Context, m *Tier, g, i int) (err error) {
	k := named(fmt.Sprint(g, "-", i%50))
	switch i % 7 {
	case 0, 1, 2:
		_, err = m.Save(ctx, tiers.Record{Key: k, Value: make([]byte, 100*(i%40)), TTL: time.Hour}, tiers.Cond{})
	case 3:
		_, err = m.SaveMany(ctx, []tiers.Record{{Key: k}, {Key: named("shared"), Value: make([]byte, 3000)}}, nil)
	case 4:
		_, err = m.Delete(ctx, k, tiers.Cond{})
	case 5:
		for _, e := range m.List(ctx, tiers.Query{Category: k.Category, Limit: 20}) {
			err = errors.Join(err, e)
		}
	default:
		if _, err = m.Load(ctx, k); errors.Is(err, tiers.ErrNotFound) {
			err = nil
		}
	}
	return err
}

func TestIdleTierHasNoGoroutine(t *testing.T) {
	m := open(t, Config{})
	put(t, m, "k", []byte("v"))
	started := true
	m.keeper.start.Do(func() { started = false })
	if started {
		t.Error("the keeper runs without anything to do")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{{Budget: -1}, {SpillLimit: -1}, {Overflow: "disk"}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

func TestDriverFillsOptionsAndUsesTheDataDirectory(t *testing.T) {
	d := Driver()
	if o := d.Options.(*Options); d.Tier != "memory" || d.Name != "memory" || o.Budget != 256<<20 || o.Overflow != OverflowSpill {
		t.Errorf("driver %s/%s has the defaults %+v", d.Tier, d.Name, o)
	}
	dir := t.TempDir()
	tier, err := d.Open(t.Context(), tiers.Env{Name: "ram", Dir: dir, Clock: tiers.SystemClock(), Options: func(into any) error {
		into.(*Options).Budget = 1 << 20
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tier.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if m := tier.(*Tier); m.opts.Budget != 1<<20 || m.opts.SpillDir != dir || m.name != "ram" {
		t.Errorf("opened %q with %+v", m.name, m.opts)
	}
	bad := errors.New("config.yaml:3: no such key")
	if tier, err := d.Open(t.Context(), tiers.Env{Options: func(any) error { return bad }}); !errors.Is(err, bad) || tier != nil {
		t.Errorf("got %v, %v; want the configuration's error", tier, err)
	}
}

func TestDiagnoseNamesWhatIsWrong(t *testing.T) {
	m := open(t, Config{Options: Options{Budget: 10_000, Overflow: OverflowNone}})
	if f := m.Diagnose(t.Context()); len(f) != 1 || !f[0].OK {
		t.Errorf("an empty tier: %+v", f)
	}
	put(t, m, "k", make([]byte, 9500))
	if f := m.Diagnose(t.Context()); f[0].OK || f[0].Hint == "" {
		t.Errorf("a full tier: %+v", f)
	}
	m = open(t, Config{Options: Options{SpillDir: "/proc/none"}})
	m.opts.SpillDir = "/dev/null"
	if f := m.Diagnose(t.Context()); len(f) != 3 || f[2].OK || f[2].Hint == "" {
		t.Errorf("no place for the spill file: %+v", f)
	}
}
