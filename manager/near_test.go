package manager_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

type note struct {
	Text string
	N    int
	At   time.Time
}

// nearConfig is a store whose category app.notes has a near layer.
func nearConfig(dir, home string) *config.Config {
	return &config.Config{
		DataDir: dir, SQLite: config.SQLite{Synchronous: "normal"},
		Categories: map[string]config.Category{
			"app.notes": {Tier: home, Near: []string{"memory"}, NearTTL: "1h"},
			"app.parts": {Tier: home, Near: []string{"memory"}, NearTTL: "1h", TTL: config.UntilSessionEnds},
			"app.plain": {Tier: home},
		},
	}
}

// gateway counts and holds up what reaches the tiers.
type gateway struct {
	loads atomic.Int64
	stop  atomic.Pointer[func(op string, k tiers.Key) error]
}

func (g *gateway) pass(op string, k tiers.Key) error {
	if k.Category != "app.notes" && k.Category != "app.parts" {
		return nil
	}
	if op == "load" {
		g.loads.Add(1)
	}
	if stop := g.stop.Load(); stop != nil {
		return (*stop)(op, k)
	}
	return nil
}

func (g *gateway) set(stop func(op string, k tiers.Key) error) { g.stop.Store(&stop) }

// openNear opens a store with near layers, and the gateway before its tiers.
func openNear(t testing.TB, home string, opts ...manager.OpenOption) (*manager.Manager, *gateway) {
	t.Helper()
	g := &gateway{}
	m, err := manager.Open(t.Context(), nearConfig(t.TempDir(), home), sagetest.Failing(all(), g.pass), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeNow(t, m) })
	return m, g
}

func nearStats(t testing.TB, m *manager.Manager, category string) manager.NearStats {
	t.Helper()
	return value[manager.Stats](t)(m.Stats(t.Context())).Near[category]
}

func TestNearLayerAnswersWithoutTheHome(t *testing.T) {
	t.Parallel()
	for _, home := range []string{"database", "file", "cache"} {
		t.Run(home, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			m, g := openNear(t, home)
			notes := manager.For[note](m, "app.notes")
			must(t, notes.Check())
			want := note{"a", 1, start}
			must(t, notes.Save(ctx, "k", want))
			for range 10 {
				if got := value[note](t)(notes.Load(ctx, "k")); got != want {
					t.Fatalf("loaded %v", got)
				}
				if _, err := notes.Load(ctx, "none"); !errors.Is(err, tiers.ErrNotFound) {
					t.Fatalf("an absent key gives %v", err)
				}
			}
			if n := g.loads.Load(); n != 1 {
				t.Errorf("the home was asked %d times: once for the absent key would do", n)
			}
			if got := value[note](t)(notes.Load(ctx, "k", manager.Fresh())); got != want || g.loads.Load() != 2 {
				t.Errorf("a fresh load gives %v after %d loads", got, g.loads.Load())
			}
			s := nearStats(t, m, "app.notes")
			if s.Hits != 19 || s.Negative != 9 || s.Loads != 2 || s.Misses != 1 || s.Entries != 2 {
				t.Errorf("counted %+v", s)
			}
		})
	}
}

// What changes a key is seen by the next load, whatever the layer held before.
func TestNearLayerShowsEveryAcknowledgedChange(t *testing.T) {
	t.Parallel()
	for _, home := range []string{"database", "file", "cache"} {
		t.Run(home, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			m, _ := openNear(t, home)
			notes := manager.For[note](m, "app.notes")
			seen := func(why string, want int) { // 0: absent
				t.Helper()
				for range 2 { // the second time from the layer
					v, err := notes.LoadOr(ctx, "k", note{})
					if err != nil || v.N != want {
						t.Errorf("%s: loaded %d, %v, want %d", why, v.N, err, want)
					}
					there, err := notes.Exists(ctx, "k")
					if err != nil || there != (want != 0) {
						t.Errorf("%s: exists %v, %v", why, there, err)
					}
					found, err := notes.LoadMany(ctx, "k", "none")
					if err != nil || found["k"].N != want || len(found) > 1 {
						t.Errorf("%s: loaded many %v, %v", why, found, err)
					}
				}
			}
			seen("nothing was saved", 0)
			must(t, notes.Save(ctx, "k", note{N: 1}))
			seen("saved", 1)
			must(t, notes.SaveMany(ctx, map[string]note{"k": {N: 2}, "other": {N: 2}}))
			seen("saved with others", 2)
			value[note](t)(notes.Modify(ctx, "k", func(v *note, _ bool) error { v.N++; return nil }))
			seen("modified", 3)
			must(t, m.Save(ctx, "app.notes", "k", note{N: 4}))
			seen("saved without a type", 4)
			wantError(t, notes.Save(ctx, "k", note{N: 9}, manager.IfAbsent()), tiers.ErrExists, "a condition")
			seen("refused by a condition", 4)
			must(t, m.Update(ctx, func(tx *manager.Tx) error {
				if err := notes.In(tx).Save(ctx, "k", note{N: 5}); err != nil {
					return err
				}
				v, err := notes.Load(ctx, "k")
				if err == nil && v.N != 4 {
					t.Errorf("before the commit others see %d", v.N)
				}
				return err
			}))
			seen("committed", 5)
			undone := errors.New("undone")
			wantError(t, m.Update(ctx, func(tx *manager.Tx) error {
				return errors.Join(notes.In(tx).Save(ctx, "k", note{N: 6}), undone)
			}), undone, "the function's error")
			seen("rolled back", 5)
			must(t, m.Update(ctx, func(tx *manager.Tx) error { return errors.Join(second(notes.In(tx).Delete(ctx, "k"))) }))
			seen("deleted by a transaction", 0)
			must(t, notes.Save(ctx, "k", note{N: 7}))
			value[bool](t)(notes.Delete(ctx, "k"))
			seen("deleted", 0)
			must(t, notes.Save(ctx, "k", note{N: 8}))
			value[int](t)(notes.DeleteMany(ctx, "k", "other"))
			seen("deleted with others", 0)
			must(t, notes.Save(ctx, "k", note{N: 9}, manager.TTL(-1)))
			seen("saved to be gone at once", 0)
			must(t, notes.Save(ctx, "k", note{N: 10}))
			value[bool](t)(notes.Touch(ctx, "k", manager.TTL(-1)))
			seen("touched to be gone at once", 0)
			value[note](t)(notes.Fetch(ctx, "k", func(context.Context) (note, error) { return note{N: 11}, nil }))
			seen("computed", 11)
		})
	}
}

func second[T any](_ T, err error) error { return err }

func TestEntryOfANearLayerDiesWithItsRecord(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	clock := sagetest.NewClock(start)
	m, g := openNear(t, "database", manager.WithClock(clock))
	notes := manager.For[note](m, "app.notes")
	must(t, notes.Save(ctx, "short", note{N: 1}, manager.TTL(400*time.Millisecond)))
	must(t, notes.Save(ctx, "long", note{N: 1}))
	value[note](t)(notes.Load(ctx, "short"))
	clock.Advance(500 * time.Millisecond)
	_, err := notes.Load(ctx, "short")
	wantError(t, err, tiers.ErrNotFound, "100 ms after its end")
	before := g.loads.Load()
	value[note](t)(notes.Load(ctx, "long"))
	clock.Advance(59 * time.Minute)
	value[note](t)(notes.Load(ctx, "long"))
	if g.loads.Load() != before {
		t.Error("a record that never expires left before its entry did")
	}
	clock.Advance(time.Minute)
	value[note](t)(notes.Load(ctx, "long"))
	if g.loads.Load() != before+1 {
		t.Error("an entry outlived near_ttl")
	}
	must(t, notes.Save(ctx, "long", note{N: 2}, manager.TTL(time.Hour)))
	value[note](t)(notes.Load(ctx, "long"))
	value[bool](t)(notes.Touch(ctx, "long", manager.TTL(time.Second)))
	value[note](t)(notes.Load(ctx, "long"))
	clock.Advance(time.Second)
	_, err = notes.Load(ctx, "long")
	wantError(t, err, tiers.ErrNotFound, "touched to live for a second")
}

func TestTenCallersShareALoadAndTheFirstMayLeave(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m, g := openNear(t, "database")
	notes := manager.For[note](m, "app.notes")
	must(t, m.Save(ctx, "app.notes", "k", note{N: 1}))
	value[note](t)(notes.Load(ctx, "k", manager.Fresh()))

	arrived, release := make(chan struct{}, 100), make(chan struct{})
	hold := func(answer error) {
		g.set(func(op string, _ tiers.Key) error {
			if op != "load" {
				return nil
			}
			arrived <- struct{}{}
			<-release
			return answer
		})
	}
	hold(context.Canceled)
	leader, leave := context.WithCancel(ctx)
	var callers sync.WaitGroup
	var left error
	callers.Go(func() { _, left = notes.Load(leader, "absent") })
	<-arrived
	var answers [9]error
	for i := range answers {
		callers.Go(func() { _, answers[i] = notes.Load(ctx, "absent") })
	}
	soon(t, "nine wait for the first", func() bool { return nearStats(t, m, "app.notes").Misses == 10 })
	before := g.loads.Load()
	leave()
	g.set(func(string, tiers.Key) error { return nil })
	close(release)
	callers.Wait()
	wantError(t, left, context.Canceled, "who left")
	for _, err := range answers {
		wantError(t, err, tiers.ErrNotFound, "who stayed")
	}
	if n := g.loads.Load() - before; n < 1 || n > 9 {
		t.Errorf("the home was asked %d times for those who stayed", n)
	}

	release = make(chan struct{})
	hold(tiers.ErrCorrupt)
	before = g.loads.Load()
	missed := nearStats(t, m, "app.notes").Misses // those who stayed have asked again
	for i := range answers {
		callers.Go(func() { _, answers[i] = notes.Load(ctx, "bad") })
	}
	<-arrived
	soon(t, "eight wait for the first", func() bool { return nearStats(t, m, "app.notes").Misses == missed+9 })
	close(release)
	callers.Wait()
	for _, err := range answers {
		wantError(t, err, tiers.ErrCorrupt, "a load that failed")
		if e := asError(t, err); e.Key != "bad" || e.Category != "app.notes" {
			t.Errorf("the error names %s %s", e.Category, e.Key)
		}
	}
	if n := g.loads.Load() - before; n != 1 {
		t.Errorf("nine callers asked the home %d times", n)
	}
}

func TestSlowReaderBringsNothingBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why    string
		change func(ctx context.Context, m *manager.Manager, c *manager.Collection[note]) error
		want   int
	}{
		{"a save", func(ctx context.Context, _ *manager.Manager, c *manager.Collection[note]) error {
			return c.Save(ctx, "s/k", note{N: 2})
		}, 2},
		{"a delete", func(ctx context.Context, _ *manager.Manager, c *manager.Collection[note]) error {
			return second(c.Delete(ctx, "s/k"))
		}, 0},
		{"a transaction", func(ctx context.Context, m *manager.Manager, c *manager.Collection[note]) error {
			return m.Update(ctx, func(tx *manager.Tx) error { return c.In(tx).Save(ctx, "s/k", note{N: 2}) })
		}, 2},
		{"the end of the session", func(ctx context.Context, m *manager.Manager, _ *manager.Collection[note]) error {
			return m.EndSession(ctx, "s")
		}, 0},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			slow := make(chan chan struct{}, 1)
			m := value[*manager.Manager](t)(manager.Open(ctx, nearConfig(t.TempDir(), "database"), lateLoads(all(), slow)))
			defer closeNow(t, m)
			parts := manager.For[note](m, "app.parts")
			must(t, m.Namespace("").Save(ctx, "app.parts", "s/k", note{N: 1}))
			must(t, parts.Save(ctx, "s/k", note{N: 1}, manager.TTL(time.Hour)))
			value[bool](t)(parts.Touch(ctx, "s/k")) // so that the layer holds nothing
			release := make(chan struct{})
			slow <- release
			var reader sync.WaitGroup
			reader.Go(func() {
				if v, err := parts.Load(ctx, "s/k"); err != nil || v.N != 1 {
					t.Errorf("the slow reader got %v, %v", v, err)
				}
			})
			soon(t, "the reader has looked", func() bool { return len(slow) == 0 })
			must(t, c.change(ctx, m, parts))
			close(release)
			reader.Wait()
			if v, err := parts.LoadOr(ctx, "s/k", note{}); err != nil || v.N != c.want {
				t.Errorf("after it a load gives %d, %v, want %d", v.N, err, c.want)
			}
		})
	}
}

// lateLoads keeps the answer of a load of app.parts back until the channel that was
// sent to slow is closed.
func lateLoads(drivers tiers.Drivers, slow chan chan struct{}) tiers.Drivers {
	out := append(tiers.Drivers{}, drivers...)
	for i, d := range out {
		if d.Tier != "database" {
			continue
		}
		out[i].Open = func(ctx context.Context, env tiers.Env) (tiers.Tier, error) {
			t, err := d.Open(ctx, env)
			return lateTier{t, slow}, err
		}
	}
	return out
}

type lateTier struct {
	tiers.Tier
	slow chan chan struct{}
}

func (l lateTier) As(target any) bool {
	switch to := target.(type) {
	case *tiers.System:
		return set(l.Tier, to)
	case *tiers.Committer:
		return set(l.Tier, to)
	case *tiers.Snapshotter:
		return set(l.Tier, to)
	case *tiers.Applier:
		return set(l.Tier, to)
	case *tiers.Toucher:
		return set(l.Tier, to)
	case *tiers.Describer:
		return set(l.Tier, to)
	}
	return false
}

func set[T any](t tiers.Tier, to *T) (ok bool) {
	*to, ok = tiers.As[T](t)
	return ok
}

func (l lateTier) Load(ctx context.Context, k tiers.Key) (tiers.Record, error) {
	r, err := l.Tier.Load(ctx, k)
	if k.Category == "app.parts" {
		select {
		case release := <-l.slow:
			<-release
		default:
		}
	}
	return r, err
}

func TestSaveThatFailsLeavesNothingInTheNearLayer(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m, g := openNear(t, "database")
	notes := manager.For[note](m, "app.notes")
	for _, fault := range []error{tiers.ErrFull, tiers.ErrCommitUnknown} {
		g.set(func(string, tiers.Key) error { return nil })
		key := fmt.Sprint(fault)
		must(t, notes.Save(ctx, key, note{N: 1}))
		value[note](t)(notes.Load(ctx, key))
		g.set(func(op string, _ tiers.Key) error {
			if op == "save" {
				return fault
			}
			return nil
		})
		wantError(t, notes.Save(ctx, key, note{N: 2}), fault, "the save")
		before := g.loads.Load()
		if v := value[note](t)(notes.Load(ctx, key)); v.N != 1 || g.loads.Load() != before+1 {
			t.Errorf("after %v a load gives %d and asks the home %d times", fault, v.N, g.loads.Load()-before)
		}
		value[note](t)(notes.Load(ctx, key))
		if unknown := g.loads.Load() == before+2; unknown != errors.Is(fault, tiers.ErrCommitUnknown) {
			t.Errorf("after %v the next load asks the home: %v", fault, unknown)
		}
	}
}

func TestValuesOfANearLayerAreTheCallersOwn(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m, _ := openNear(t, "database")
	type lists struct {
		L []string
		M map[string]int
	}
	c := manager.For[lists](m, "app.notes")
	saved := lists{[]string{"a"}, map[string]int{"x": 1}}
	must(t, c.Save(ctx, "k", saved))
	saved.L[0], saved.M["x"] = "spoilt", 9
	for range 3 {
		v := value[lists](t)(c.Load(ctx, "k"))
		if v.L[0] != "a" || v.M["x"] != 1 {
			t.Fatalf("somebody else's change shows: %v", v)
		}
		v.L[0], v.M["x"] = "spoilt", 9
	}
	var e manager.Encoded
	must(t, m.Load(ctx, "app.notes", "k", &e))
	for i := range e.Value {
		e.Value[i] = 'x'
	}
	value[lists](t)(c.Load(ctx, "k"))
	raw := []byte("bytes")
	must(t, m.Save(ctx, "app.notes", "raw", manager.Encoded{Codec: "raw", Value: raw}))
	raw[0] = 'x'
	var got []byte
	must(t, m.Load(ctx, "app.notes", "raw", &got))
	got[0] = 'y'
	must(t, m.Load(ctx, "app.notes", "raw", &got))
	if string(got) != "bytes" {
		t.Errorf("loaded %q", got)
	}
}

func TestEndOfASessionReachesTheNearLayerOfEveryProcess(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	open := func() *manager.Manager {
		m := value[*manager.Manager](t)(manager.Open(ctx, nearConfig(dir, "database"), all()))
		t.Cleanup(func() { closeNow(t, m) })
		return m
	}
	one, other := open(), open()
	parts := manager.For[note](one, "app.parts")
	must(t, parts.Save(ctx, "s/k", note{N: 1}))
	must(t, parts.Save(ctx, "t/k", note{N: 1}))
	theirs := manager.For[note](other, "app.parts")
	value[note](t)(theirs.Load(ctx, "s/k"))
	value[note](t)(theirs.Load(ctx, "t/k"))
	must(t, one.EndSession(ctx, "s"))
	_, err := parts.Load(ctx, "s/k")
	wantError(t, err, tiers.ErrNotFound, "the process that ended it")
	soon(t, "the other process learns of it", func() bool {
		_, err := theirs.Load(ctx, "s/k")
		return errors.Is(err, tiers.ErrNotFound)
	})
	if n := nearStats(t, other, "app.parts"); n.Clears != 0 {
		t.Error("all was dropped for the end of one session")
	}
}

// flaky is a context that is over after some looks at it.
type flaky struct {
	context.Context
	looks *atomic.Int64
}

func (f flaky) Err() error {
	if f.looks.Add(-1) < 0 {
		return context.Canceled
	}
	return f.Context.Err()
}

// A load that ended before it knew how to learn of the ends of sessions leaves that to
// the next one.
func TestALoadThatFailsLeavesNoProcessDeaf(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	one := value[*manager.Manager](t)(manager.Open(ctx, nearConfig(dir, "database"), all()))
	defer closeNow(t, one)
	other := value[*manager.Manager](t)(manager.Open(ctx, nearConfig(dir, "database"), all()))
	defer closeNow(t, other)
	must(t, one.Save(ctx, "app.parts", "s/k", note{N: 1}))
	theirs := manager.For[note](other, "app.parts")
	failed := 0
	for looks := int64(0); ; looks++ {
		left := new(atomic.Int64)
		left.Store(looks)
		if _, err := theirs.Load(flaky{ctx, left}, "s/k"); err == nil {
			break
		}
		failed++
	}
	if failed < 2 {
		t.Errorf("only %d loads failed", failed)
	}
	must(t, one.EndSession(ctx, "s"))
	soon(t, "the other process learns of it", func() bool {
		_, err := theirs.Load(ctx, "s/k")
		return errors.Is(err, tiers.ErrNotFound)
	})
}

// A goroutine that does not know of the end of its transaction is in or too late, and
// what is in is what a load finds.
func TestNearLayersSeeWhatMeetsTheEndOfATransaction(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	const rounds, callers, keys = 20, 4, 100
	m, _ := openNear(t, "database")
	for _, category := range []string{"app.notes", "app.parts"} {
		notes := manager.For[note](m, category)
		for round := range rounds {
			before := map[string]note{}
			for i := range callers * keys {
				before[fmt.Sprintf("%d/%d", round, i)] = note{N: 1}
			}
			must(t, notes.SaveMany(ctx, before))
			for key := range before {
				value[note](t)(notes.Load(ctx, key)) // which the layer holds then
			}
			var g sync.WaitGroup
			in := make([]int, callers)
			started := make(chan struct{}, callers)
			must(t, m.Update(ctx, func(tx *manager.Tx) error {
				for i := range callers {
					g.Go(func() {
						started <- struct{}{}
						for ; in[i] < keys; in[i]++ {
							err := notes.In(tx).Save(ctx, fmt.Sprintf("%d/%d", round, i*keys+in[i]), note{N: 2})
							if errors.Is(err, tiers.ErrTxDone) {
								return
							}
							if err != nil {
								t.Error(err)
								return
							}
						}
					})
				}
				for range callers {
					<-started
				}
				return nil
			}))
			g.Wait()
			for i := range callers {
				for n := range in[i] {
					if v := value[note](t)(notes.Load(ctx, fmt.Sprintf("%d/%d", round, i*keys+n))); v.N != 2 {
						t.Fatalf("%s: a save that was taken is not there", category)
					}
				}
			}
		}
	}
}

// A category whose rule names another home than its collection has a layer for each.
func TestEveryNearLayerOfACategoryIsTold(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cfg := nearConfig(t.TempDir(), "database")
	m := value[*manager.Manager](t)(manager.Open(ctx, cfg, all()))
	defer closeNow(t, m) // which ends both
	var v note
	wantError(t, m.Load(ctx, "app.notes.own", "k", &v), tiers.ErrNotFound, "by the rule of its parent")
	notes := manager.For[note](m, "app.notes.own", manager.Policy(config.Category{Tier: "file", Near: []string{"memory"}, NearTTL: "1h"}))
	must(t, notes.Save(ctx, "k", note{N: 2}))
	if v := value[note](t)(notes.Load(ctx, "k")); v.N != 2 {
		t.Errorf("loaded %v", v)
	}
	must(t, m.Update(ctx, func(tx *manager.Tx) error { return notes.In(tx).Save(ctx, "k", note{N: 3}) }))
	if v := value[note](t)(notes.Load(ctx, "k")); v.N != 3 {
		t.Errorf("loaded %v after a transaction", v)
	}
}
