package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sagestore/sagestore/internal/pgtest"
	"github.com/sagestore/sagestore/tiers"
)

func named(name string) tiers.Key { return tiers.Key{Category: "test", Name: name} }

func record(name, value string) tiers.Record {
	return tiers.Record{Key: named(name), Value: []byte(value), Codec: "raw"}
}

// behindProxy answers a configuration whose connections go through a proxy.
func behindProxy(t *testing.T) (Config, *pgtest.Proxy) {
	t.Helper()
	c := shared(t)
	p := pgtest.NewProxy(t, pgtest.Shared(t).Addr())
	c.URL = p.URL(t, c.URL)
	return c, p
}

func TestLostAnswerToACommitIsFoundOut(t *testing.T) {
	c, p := behindProxy(t)
	tier := open1(t, c)
	first, err := tier.Save(t.Context(), record("k", "before"), tiers.Cond{})
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		why  string
		lose func()
	}{
		{"the server has committed, and nobody hears it", func() { p.LoseReply(pgtest.Committed) }},
		{"the server has not got the whole request", func() { p.LoseRequest(700) }},
		{"the connection ended while nobody used it", p.Cut},
	} {
		lost := p.Lost()
		step.lose()
		value := fmt.Sprintf("%d%01000d", i, 0)
		saved, err := tier.Save(t.Context(), record("k", value), tiers.Cond{})
		if err != nil {
			t.Fatalf("%s: %v", step.why, err)
		}
		if i < 2 && p.Lost() == lost {
			t.Errorf("%s: nothing was lost", step.why)
		}
		got, err := tier.Load(t.Context(), named("k"))
		if err != nil || string(got.Value) != value || got.Version != saved.Version {
			t.Errorf("%s: loads version %d with %v, want %d", step.why, got.Version, err, saved.Version)
		}
		if !saved.Created.Equal(first.Created) || !got.Created.Equal(first.Created) {
			t.Errorf("%s: it was created %v and %v, want %v", step.why, saved.Created, got.Created, first.Created)
		}
	}
}

func TestCommitIsNotRepeatedWhenItsAnswerIsLost(t *testing.T) {
	c, p := behindProxy(t)
	tier := open1(t, c)
	for i := range 5 {
		p.LoseReply(pgtest.Committed)
		commit := tiers.Commit{
			ID: fmt.Sprint("tx-", i), OnlyOnce: fmt.Sprint("once-", i),
			Saves: []tiers.Record{record(fmt.Sprint("k", i), "v")},
			Rows:  []tiers.Row{{Record: record("row", fmt.Sprint(i)), Tier: "cache", Owner: "o"}},
		}
		out, err := tier.Commit(t.Context(), commit)
		if err != nil {
			t.Fatalf("the commit of which the answer was lost: %v", err)
		}
		row, err := tier.Pending(t.Context(), "cache", named("row"))
		if err != nil || row.Seq != out.Rows[0].Seq || row.Seq != uint64(i+1) {
			t.Errorf("row %d waits with %v, want %d: it was stored once", row.Seq, err, i+1)
		}
		if committed, err := tier.Outcome(t.Context(), commit.ID); err != nil || !committed {
			t.Errorf("its outcome is %v with %v", committed, err)
		}
	}
	if p.Lost() != 5 {
		t.Errorf("%d answers were lost, want 5", p.Lost())
	}
}

// Calls whose connections are cut at any moment do all that they say, once.
func TestCutConnectionsLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	c, p := behindProxy(t)
	tier := open1(t, c)
	done, step := make(chan struct{}), make(chan struct{}, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		clock := tiers.SystemClock()
		for {
			for range 1 + rand.IntN(4) {
				switch rand.IntN(3) {
				case 0:
					p.Cut()
				case 1:
					p.LoseReply(pgtest.Committed)
				case 2:
					p.LoseRequest(rand.IntN(2000))
				}
				_ = clock.Sleep(context.Background(), time.Duration(rand.IntN(30))*time.Millisecond)
			}
			select { // however slow the machine is, some get through
			case <-done:
				return
			case <-step:
			}
		}
	})
	const callers, each = 8, 12
	var mu sync.Mutex
	counted := 0
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				for {
					ok, err := count(t.Context(), tier)
					if err != nil {
						t.Error(err)
						return
					}
					if ok {
						break
					}
				}
				mu.Lock()
				counted++
				mu.Unlock()
				select {
				case step <- struct{}{}:
				default:
				}
			}
		})
	}
	all.Wait()
	close(done)
	wg.Wait()
	p.LoseReply("\x00never said\x00")
	p.LoseRequest(1 << 30)
	got, err := tier.Load(t.Context(), named("count"))
	if err != nil || len(got.Value) != callers*each || counted != callers*each {
		t.Errorf("%d steps are stored and %d were counted with %v, want %d", len(got.Value), counted, err, callers*each)
	}
	t.Logf("%d connections were cut in the middle", p.Lost())
}

func TestATransactionThatIsUnderWayIsNotTakenForLost(t *testing.T) {
	t.Parallel()
	tier := open1(t, shared(t))
	x := newTx(tier.writer, nil)
	tx, err := tier.write.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if err := tx.QueryRow(t.Context(), tier.sql(openNew)).Scan(&x.xid, &x.life); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"in progress", "committed"} {
		s, err := tier.writer.statusOf(t.Context(), x)
		if err != nil || s.of == nil || *s.of != want {
			t.Errorf("the status is %+v, %v, want %s", s, err, want)
		}
		_ = tx.Commit(t.Context())
	}
}

// count makes the value one byte longer, and tells whether it did.
func count(ctx context.Context, tier *Tier) (bool, error) {
	now, err := tier.Load(ctx, named("count"))
	switch {
	case errors.Is(err, tiers.ErrUnavailable):
		return false, nil
	case err != nil && !errors.Is(err, tiers.ErrNotFound):
		return false, err
	}
	_, err = tier.Save(ctx, record("count", string(now.Value)+"x"), tiers.If(now.Version))
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, tiers.ErrConflict), errors.Is(err, tiers.ErrExists), errors.Is(err, tiers.ErrUnavailable):
		return false, nil
	}
	return false, err
}

func TestRestartOfTheServerIsSurvived(t *testing.T) {
	t.Parallel()
	srv := pgtest.Start(t, pgtest.Config{NoSync: true})
	tier := open1(t, Config{URL: srv.URL("postgres")})
	for name, stop := range map[string]func(testing.TB){"killed": srv.Kill, "stopped": srv.Stop} {
		if _, err := tier.Save(t.Context(), record(name, "before"), tiers.Cond{}); err != nil {
			t.Fatal(err)
		}
		unlock, ok, err := tier.Lock(t.Context(), name)
		if err != nil || !ok {
			t.Fatalf("lock: %v, %v", ok, err)
		}
		stop(t)
		if _, err := tier.Save(t.Context(), record("k", "v"), tiers.Cond{}); !errors.Is(err, tiers.ErrUnavailable) {
			t.Errorf("%s: a save answers %v, want ErrUnavailable", name, err)
		}
		if _, err := tier.Load(t.Context(), named(name)); !errors.Is(err, tiers.ErrUnavailable) {
			t.Errorf("%s: a load answers %v, want ErrUnavailable", name, err)
		}
		srv.Restart(t)
		got, err := tier.Load(t.Context(), named(name))
		if errors.Is(err, tiers.ErrUnavailable) { // the one connection that looked alive
			got, err = tier.Load(t.Context(), named(name))
		}
		if err != nil || string(got.Value) != "before" {
			t.Errorf("%s and started again it loads %q with %v", name, got.Value, err)
		}
		if _, err := tier.Save(t.Context(), record("k", "v"), tiers.Cond{}); err != nil {
			t.Errorf("%s and started again a save answers %v", name, err)
		}
		// The lock is asked for on a new connection, which takes again what it had.
		_ = tier.locks.look()
		other := open1(t, Config{URL: srv.URL("postgres")})
		if _, ok, err := other.Lock(t.Context(), name); ok || err != nil {
			t.Errorf("%s and started again another handle gets the lock: %v, %v", name, ok, err)
		}
		unlock()
	}
}

// A server that crashes forgets the numbers that it gave to transactions which it lost,
// and gives them away again.
func TestCommitThatGotLostInACrashIsNotTakenForAnother(t *testing.T) {
	t.Parallel()
	srv := pgtest.Start(t, pgtest.Config{NoSync: true})
	w := open1(t, Config{URL: srv.URL("postgres")}).writer
	lost := func(ids ...string) *tx {
		t.Helper()
		c, err := w.t.write.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
		x := newTx(&writer{t: w.t, conn: c}, nil)
		if err := x.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		x.begun = ids
		return x
	}
	for _, stop := range []struct {
		why   string
		how   syscall.Signal
		crash bool
	}{{"it crashes", syscall.SIGQUIT, true}, {"it is killed", syscall.SIGKILL, true}, {"it is stopped", syscall.SIGINT, false}} {
		again := func() {
			t.Helper()
			if err := srv.Shut(stop.how); err != nil {
				t.Fatal(err)
			}
			srv.Restart(t)
		}
		// Whoever asks first may be given the number himself.
		x, used := lost(), false
		again()
		if committed, err := w.outcome(t.Context(), x); committed || err != nil {
			t.Errorf("%s: the transaction that got lost is committed: %v, %v", stop.why, committed, err)
		}
		x = lost()
		// The server may have noted the number before it crashed, at a checkpoint, say.
		// Then it is not given away again, and the next one is tried.
		for range 5 {
			again()
			for i := range 5 { // of which one has the number
				commit := tiers.Commit{ID: fmt.Sprint(stop.why, i, x.xid), Saves: []tiers.Record{record("k", "v")}}
				if _, err := w.t.Commit(t.Context(), commit); err != nil {
					t.Fatal(err)
				}
			}
			var status *string
			if err := w.t.write.QueryRow(t.Context(), `SELECT pg_xact_status($1::text::xid8)`, x.xid).Scan(&status); err != nil {
				t.Fatal(err)
			}
			if used = status != nil && *status == "committed"; used || !stop.crash {
				break
			}
			x = lost()
		}
		if used != stop.crash {
			t.Fatalf("%s: the number is used again: %v", stop.why, used)
		}
		if committed, err := w.outcome(t.Context(), x); committed || (err != nil) != stop.crash {
			t.Errorf("%s: the transaction that got lost is committed: %v, %v", stop.why, committed, err)
		}
		x.begun = []string{"lost"}
		if committed, err := w.outcome(t.Context(), x); committed || err != nil {
			t.Errorf("%s: the transaction that got lost is committed: %v, %v", stop.why, committed, err)
		}
		x.begun = []string{fmt.Sprint(stop.why, 3, x.xid)}
		if committed, err := w.outcome(t.Context(), x); committed != stop.crash || err != nil {
			t.Errorf("%s: a transaction that was committed is: %v, %v", stop.why, committed, err)
		}
	}
}

func TestFrozenServerHoldsNobodyBeyondTheDeadline(t *testing.T) {
	t.Parallel()
	srv := pgtest.Start(t, pgtest.Config{NoSync: true})
	tier := open1(t, Config{URL: srv.URL("postgres")})
	if _, err := tier.Save(t.Context(), record("k", "v"), tiers.Cond{}); err != nil {
		t.Fatal(err)
	}
	srv.Freeze(t)
	for name, call := range map[string]func(ctx context.Context) error{
		"load":   func(ctx context.Context) error { _, err := tier.Load(ctx, named("k")); return err },
		"save":   func(ctx context.Context) error { _, err := tier.Save(ctx, record("k", "w"), tiers.Cond{}); return err },
		"delete": func(ctx context.Context) error { _, err := tier.Delete(ctx, named("k"), tiers.Cond{}); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		begun := tiers.SystemClock().Now()
		err := call(ctx)
		cancel()
		if took := tiers.SystemClock().Now().Sub(begun); !errors.Is(err, context.DeadlineExceeded) || took > 2*time.Second {
			t.Errorf("%s answers %v after %v", name, err, took)
		}
	}
	srv.Thaw(t)
	if _, err := tier.Load(t.Context(), named("k")); err != nil {
		t.Errorf("a load afterwards answers %v", err)
	}
}

func TestCommitThatNobodyCanAskAboutIsUnknownAndToldLater(t *testing.T) {
	c, p := behindProxy(t)
	tier := open1(t, c)
	tier.writer.patience = 300 * time.Millisecond
	commit := tiers.Commit{ID: "tx", Saves: []tiers.Record{record("k", "v")}}
	p.LoseAllFrom(pgtest.Committed)
	_, err := tier.Commit(t.Context(), commit)
	if !errors.Is(err, tiers.ErrCommitUnknown) {
		t.Fatalf("it answers %v, want ErrCommitUnknown", err)
	}
	if e, ok := errors.AsType[*tiers.Error](err); !ok || e.Tx != "tx" || e.Hint == "" {
		t.Errorf("the error %v does not name the transaction, or what to do", err)
	}
	if _, err := tier.Save(t.Context(), record("k", "w"), tiers.Cond{}); !errors.Is(err, tiers.ErrUnavailable) || errors.Is(err, tiers.ErrCommitUnknown) {
		t.Errorf("a save that reaches nobody answers %v, want ErrUnavailable", err)
	}
	p.Refuse(false)
	if committed, err := tier.Outcome(t.Context(), "tx"); err != nil || !committed {
		t.Errorf("its outcome is %v with %v", committed, err)
	}
	if committed, err := tier.Outcome(t.Context(), "another"); err != nil || committed {
		t.Errorf("the outcome of what never was is %v with %v", committed, err)
	}
}
