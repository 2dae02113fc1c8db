package txn_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/memory"
	"github.com/sagestore/sagestore/txn"
)

// flaky is a tier whose server can be taken away. It is a memory tier, shared by
// all handles of it.
type flaky struct {
	*memory.Tier
	server *server
	clock  tiers.Clock
	high   atomic.Uint64
}

// server is what the handles share.
type server struct {
	mu      sync.Mutex
	down    bool
	back    chan struct{} // closed when it comes back
	unknown int           // so many writes are done and answered with ErrCommitUnknown
	lost    int           // so many writes are not done and answered with it
	refuse  func(tiers.Record) error
	applied int
	ahead   time.Duration
	stored  func(tiers.Record) // called before a save that was done is answered
	steady  bool               // applying has an answer, for clocks on which nobody can wait to try again
	unmet   bool               // its clock is not known
}

func newServer() *server { return &server{back: make(chan struct{})} }

var errDown = tiers.Hint(fmt.Errorf("%w: the server is down", tiers.ErrUnavailable), "start it")

func (s *server) set(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down == down {
		return
	}
	s.down = down
	if down {
		s.back = make(chan struct{})
	} else {
		close(s.back)
	}
}

func (s *server) away() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return errDown
	}
	return nil
}

// write answers what becomes of a write: whether it is done, and what is said.
func (s *server) write() (done bool, said error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down:
		return false, errDown
	case s.unknown > 0:
		s.unknown--
		return true, tiers.ErrCommitUnknown
	case s.lost > 0:
		s.lost--
		return false, tiers.ErrCommitUnknown
	}
	return true, nil
}

func (f *flaky) As(target any) bool {
	switch t := target.(type) {
	case *tiers.Outage:
		*t = f
	case *tiers.Applier:
		*t = f
	case *tiers.Batcher:
		*t = f
	case *tiers.Exister:
		*t = f
	case *tiers.Toucher:
		*t = f
	case *tiers.Sweeper:
		*t = f
	case *tiers.Pinger:
		*t = f
	case *tiers.Statser:
		*t = f
	case *tiers.Describer:
		*t = f
	default:
		return false
	}
	return true
}

func (f *flaky) Away() error { return f.server.away() }

func (f *flaky) Ready(ctx context.Context) error {
	for f.Away() != nil {
		f.server.mu.Lock()
		back := f.server.back
		f.server.mu.Unlock()
		select {
		case <-back:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (f *flaky) ServerNow() (time.Time, bool) {
	f.server.mu.Lock()
	defer f.server.mu.Unlock()
	return f.clock.Now().Add(f.server.ahead), !f.server.unmet
}

func (f *flaky) Seen() tiers.Version { return tiers.Version(f.high.Load()) }

// met notes versions, as a driver does.
func (f *flaky) met(rs ...tiers.Record) {
	for _, r := range rs {
		for old := f.high.Load(); uint64(r.Version) > old && !f.high.CompareAndSwap(old, uint64(r.Version)); {
			old = f.high.Load()
		}
	}
}

func (f *flaky) Load(ctx context.Context, k tiers.Key) (tiers.Record, error) {
	if err := f.Away(); err != nil {
		return tiers.Record{}, err
	}
	r, err := f.Tier.Load(ctx, k)
	f.met(r)
	return r, err
}

func (f *flaky) Save(ctx context.Context, r tiers.Record, c tiers.Cond) (tiers.Record, error) {
	done, said := f.server.write()
	if !done {
		return tiers.Record{}, said
	}
	saved, err := f.Tier.Save(ctx, r, c)
	if hook := f.server.stored; hook != nil {
		hook(r)
	}
	f.met(saved)
	return saved, errors.Join(err, said)
}

func (f *flaky) Delete(ctx context.Context, k tiers.Key, c tiers.Cond) (bool, error) {
	done, said := f.server.write()
	if !done {
		return false, said
	}
	existed, err := f.Tier.Delete(ctx, k, c)
	return existed, errors.Join(err, said)
}

func (f *flaky) Apply(ctx context.Context, rs []tiers.Record, over []tiers.Cond) error {
	if f.server.steady {
		if err := f.Away(); err != nil {
			return err
		}
	} else if done, said := f.server.write(); !done {
		return said
	}
	f.server.mu.Lock()
	refuse := f.server.refuse
	f.server.applied += len(rs)
	f.server.mu.Unlock()
	if refuse != nil {
		for _, r := range rs {
			if err := refuse(r); err != nil {
				return err
			}
		}
	}
	f.met(rs...)
	return f.Tier.Apply(ctx, rs, over)
}

func (f *flaky) LoadMany(ctx context.Context, ks []tiers.Key) ([]tiers.Record, error) {
	if err := f.Away(); err != nil {
		return make([]tiers.Record, len(ks)), err
	}
	rs, err := f.Tier.LoadMany(ctx, ks)
	f.met(rs...)
	return rs, err
}

func (f *flaky) SaveMany(ctx context.Context, rs []tiers.Record, cs []tiers.Cond) ([]tiers.Record, error) {
	done, said := f.server.write()
	if !done {
		return make([]tiers.Record, len(rs)), said
	}
	saved, err := f.Tier.SaveMany(ctx, rs, cs)
	f.met(saved...)
	return saved, errors.Join(err, said)
}

func (f *flaky) DeleteMany(ctx context.Context, ks []tiers.Key, cs []tiers.Cond) ([]bool, error) {
	done, said := f.server.write()
	if !done {
		return make([]bool, len(ks)), said
	}
	existed, err := f.Tier.DeleteMany(ctx, ks, cs)
	return existed, errors.Join(err, said)
}

func (f *flaky) Exists(ctx context.Context, k tiers.Key) (bool, error) {
	if err := f.Away(); err != nil {
		return false, err
	}
	return f.Tier.Exists(ctx, k)
}

func (f *flaky) Touch(ctx context.Context, k tiers.Key, ttl time.Duration) (bool, error) {
	if err := f.Away(); err != nil {
		return false, err
	}
	return f.Tier.Touch(ctx, k, ttl)
}

func (f *flaky) Sweep(ctx context.Context, limit int) (int, error) {
	if err := f.Away(); err != nil {
		return 0, err
	}
	return f.Tier.Sweep(ctx, limit)
}

func (f *flaky) Ping(context.Context) error { return f.Away() }

func (f *flaky) Stats(ctx context.Context) (tiers.Stats, error) {
	if err := f.Away(); err != nil {
		return tiers.Stats{}, err
	}
	return f.Tier.Stats(ctx)
}

func (f *flaky) List(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
	if err := f.Away(); err != nil {
		return tiers.Failed[tiers.Record](err)
	}
	return f.Tier.List(ctx, q)
}

func (f *flaky) Spaces(ctx context.Context) iter.Seq2[tiers.Space, error] {
	if err := f.Away(); err != nil {
		return tiers.Failed[tiers.Space](err)
	}
	return f.Tier.Spaces(ctx)
}

// Close leaves the memory tier to other handles.
func (f *flaky) Close(context.Context) error { return nil }

// world is a server with a system store, and handles on both.
type world struct {
	t      testing.TB
	server *server
	inner  *memory.Tier
	store  *memory.Tier
	system tiers.System
	clock  tiers.Clock
	config txn.Config
}

func newWorld(t testing.TB, clock tiers.Clock) *world {
	t.Helper()
	w := &world{t: t, server: newServer(), clock: clock, config: txn.Config{Epoch: "e1", Clock: clock}}
	open := func() *memory.Tier {
		m, err := memory.Open(t.Context(), memory.Config{Options: memory.Options{SpillDir: t.TempDir()}, Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close(context.Background()) })
		return m
	}
	w.inner, w.store = open(), open()
	w.system, _ = tiers.As[tiers.System](w.store)
	return w
}

// open answers another handle: what another process would have.
func (w *world) open() *txn.Journaled {
	w.t.Helper()
	j, err := txn.Journal(w.t.Context(), &flaky{Tier: w.inner, server: w.server, clock: w.clock}, w.system, w.config)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = j.Close(context.Background()) })
	return j
}

func (w *world) backlog() int64 {
	w.t.Helper()
	b, err := w.system.Backlog(w.t.Context(), "cache")
	if err != nil {
		w.t.Fatal(err)
	}
	return b.Rows
}

// eventually polls, on real clocks.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		_ = tiers.SystemClock().Sleep(context.Background(), 5*time.Millisecond)
	}
	t.Fatalf("it never came true that %s", what)
}

func key(name string) tiers.Key { return tiers.Key{Category: "session.history", Name: name} }

func rec(name, value string) tiers.Record {
	return tiers.Record{Key: key(name), Value: []byte(value), Codec: "raw", Schema: 1}
}

func save(t testing.TB, j tiers.Tier, name, value string) tiers.Record {
	t.Helper()
	r, err := j.Save(t.Context(), rec(name, value), tiers.Cond{})
	if err != nil {
		t.Fatalf("save %s: %v", name, err)
	}
	return r
}

// shown answers the value, or what the load answers instead.
func shown(t testing.TB, j tiers.Tier, name string) string {
	t.Helper()
	r, err := j.Load(t.Context(), key(name))
	switch {
	case err == nil:
		return string(r.Value)
	case errors.Is(err, tiers.ErrNotFound):
		return "absent"
	case errors.Is(err, tiers.ErrUnavailable):
		return "unavailable"
	}
	return err.Error()
}

func listed(t testing.TB, j tiers.Tier, q tiers.Query) string {
	t.Helper()
	if q.Category == "" {
		q.Category = "session.history"
	}
	out := ""
	for r, err := range j.List(t.Context(), q) {
		if err != nil {
			if errors.Is(err, tiers.ErrUnavailable) {
				return out + "unavailable"
			}
			return out + err.Error()
		}
		out += r.Name + "=" + string(r.Value) + " "
	}
	return out
}
