package txn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/memory"
	"github.com/sagestore/sagestore/txn"
)

// A goroutine that does not know of the end meets it at any moment.
func TestCallsThatMeetTheEndAreInOrTooLate(t *testing.T) {
	t.Parallel()
	w := open(t, t.TempDir(), false)
	ctx := context.Background()
	for round := range 40 {
		var g sync.WaitGroup
		var mu sync.Mutex
		in := map[string]bool{}
		started := make(chan struct{}, 8)
		err := w.Update(ctx, func(tx *txn.Tx) error {
			for i := range 8 {
				g.Go(func() {
					tier := tx.Tier(names[i%4])
					started <- struct{}{}
					for n := 0; ; n++ {
						name := fmt.Sprintf("%d/%d/%d", round, i, n)
						_, _ = tier.Load(ctx, at(name))
						for _, err := range tier.List(ctx, tiers.Query{Category: "c", Prefix: name}) {
							if err != nil && !errors.Is(err, tiers.ErrTxDone) {
								t.Error(err)
							}
						}
						_, err := tier.Save(ctx, record(name, "x"), tiers.Cond{})
						if errors.Is(err, tiers.ErrTxDone) {
							return
						}
						if err != nil {
							t.Errorf("%v", err)
							return
						}
						mu.Lock()
						in[names[i%4]+" "+name] = true
						mu.Unlock()
					}
				})
			}
			for range 8 {
				<-started
			}
			return nil
		}, txn.Options{})
		g.Wait()
		if err != nil {
			t.Fatal(err)
		}
		for at := range in {
			tier, name, _ := strings.Cut(at, " ")
			if loaded(t, w.all[tier], name) == "" {
				t.Errorf("a save that was taken is not there: %s", at)
			}
		}
	}
}

// leaving is a committer whose callers leave while it is at work.
type leaving struct {
	tiers.Committer
	leave func()
	lose  bool // nothing is committed
	hold  chan struct{}
}

func (l *leaving) Commit(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
	if l.leave == nil {
		return l.Committer.Commit(ctx, c)
	}
	l.leave()
	if !l.lose {
		if _, err := l.Committer.Commit(context.WithoutCancel(ctx), c); err != nil {
			return tiers.Committed{}, err
		}
	}
	return tiers.Committed{}, fmt.Errorf("%w: %w", tiers.ErrCommitUnknown, context.Canceled)
}

func (l *leaving) Outcome(ctx context.Context, id string) (bool, error) {
	if l.hold != nil {
		<-l.hold
	}
	return l.Committer.Outcome(ctx, id)
}

// The other tiers follow what became of a commit, though nobody waited for it.
func TestWhatNobodyWaitedForIsSettled(t *testing.T) {
	t.Parallel()
	for _, lose := range []bool{false, true} {
		w := open(t, t.TempDir(), false)
		c := &leaving{Committer: w.db, lose: lose, hold: make(chan struct{})}
		config := txn.EngineConfig{Decider: "database", Committer: c, System: w.db}
		for _, name := range names {
			config.Members = append(config.Members, txn.Member{Name: name, Tier: w.all[name]})
			put(t, w.all[name], "k", "old")
		}
		e, err := txn.New(config)
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(context.Background())
		c.leave = leave
		runs, hooks := 0, 0
		err = e.Update(ctx, func(tx *txn.Tx) error {
			runs++
			tx.OnCommit(func(context.Context) { hooks++ })
			for _, name := range names {
				if _, err := tx.Tier(name).Save(ctx, record("k", "new"), tiers.Cond{}); err != nil {
					return err
				}
			}
			return nil
		}, txn.Options{Retry: 5})
		told, ok := errors.AsType[*tiers.Error](err)
		if !errors.Is(err, tiers.ErrCommitUnknown) || !ok || told.Tx == "" || runs != 1 || hooks != 0 {
			t.Fatalf("it answers %v after %d runs and %d hooks", err, runs, hooks)
		}
		var closed atomic.Bool
		var g sync.WaitGroup
		g.Go(func() {
			if err := e.Close(context.Background()); err != nil {
				t.Error(err)
			}
			closed.Store(true)
		})
		if closed.Load() {
			t.Error("closing did not wait for the outcome")
		}
		close(c.hold)
		g.Wait()
		want, outcome := "new", txn.Committed
		if lose {
			want, outcome = "old", txn.RolledBack
		}
		for _, name := range names {
			if got := loaded(t, w.all[name], "k"); got != want {
				t.Errorf("%s has %q, want %q", name, got, want)
			}
		}
		if got, err := e.Outcome(context.Background(), told.Tx); got != outcome || err != nil {
			t.Errorf("the outcome is %q, %v, want %q", got, err, outcome)
		}
	}
}

func TestNothingBeginsWhenTheContextIsOver(t *testing.T) {
	t.Parallel()
	w := open(t, t.TempDir(), false)
	ctx, end := context.WithCancel(context.Background())
	end()
	never := func(*txn.Tx) error { t.Error("the function ran"); return nil }
	if err := w.Update(ctx, never, txn.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("update answers %v", err)
	}
	if err := w.View(ctx, never); !errors.Is(err, context.Canceled) {
		t.Errorf("view answers %v", err)
	}
}

// Two keys of different instants were seen: whoever only reads is told as well.
func TestATransactionThatOnlyReadsIsChecked(t *testing.T) {
	eachStore(t, func(t *testing.T, w *store) {
		t.Helper()
		ctx := context.Background()
		for _, name := range names {
			put(t, w.all[name], "a", "1")
			put(t, w.all[name], "b", "1")
			hooks := 0
			err := w.Update(ctx, func(tx *txn.Tx) error {
				tx.OnCommit(func(context.Context) { hooks++ })
				a := loaded(t, tx.Tier(name), "a")
				put(t, w.all[name], "a", "2")
				put(t, w.all[name], "b", "2")
				if b := loaded(t, tx.Tier(name), "b"); a == b {
					t.Errorf("%s: %q and %q", name, a, b)
				}
				return nil
			}, txn.Options{})
			if !errors.Is(err, tiers.ErrConflict) || hooks != 0 {
				t.Errorf("%s: %v, %d hooks", name, err, hooks)
			}
			err = w.Update(ctx, func(tx *txn.Tx) error {
				tx.OnCommit(func(context.Context) { hooks++ })
				_ = loaded(t, tx.Tier(name), "a")
				return nil
			}, txn.Options{})
			if err != nil || hooks != 1 {
				t.Errorf("%s: one read: %v, %d hooks", name, err, hooks)
			}
		}
	})
}

func TestALimitedListIsFullAfterOwnDeletes(t *testing.T) {
	eachStore(t, func(t *testing.T, w *store) {
		t.Helper()
		ctx := context.Background()
		for _, name := range names {
			for i := range 6 {
				put(t, w.all[name], fmt.Sprint(i), "1")
			}
			err := w.Update(ctx, func(tx *txn.Tx) error {
				tier := tx.Tier(name)
				for _, k := range []string{"0", "2"} {
					if _, err := tier.Delete(ctx, at(k), tiers.Cond{}); err != nil {
						return err
					}
				}
				var got []string
				for r, err := range tier.List(ctx, tiers.Query{Category: "c", Limit: 3}) {
					if err != nil {
						return err
					}
					got = append(got, r.Name)
				}
				if fmt.Sprint(got) != "[1 3 4]" {
					t.Errorf("%s lists %v", name, got)
				}
				return nil
			}, txn.Options{})
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// Memory alone asks no other tier.
func TestMemoryAloneNeedsNoDecision(t *testing.T) {
	t.Parallel()
	w := open(t, t.TempDir(), false)
	c := &leaving{Committer: w.db, leave: func() { t.Error("the database was asked") }}
	e, err := txn.New(txn.EngineConfig{
		Decider: "database", Committer: c, System: w.db,
		Members: []txn.Member{{Name: "memory", Tier: w.all["memory"]}, {Name: "database", Tier: w.db}},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = e.Update(t.Context(), func(tx *txn.Tx) error { return increment(t.Context(), tx.Tier("memory")) }, txn.Options{})
	if err != nil || number(t, w.all["memory"]) != 1 {
		t.Error(err)
	}
}

func TestAJournalThatIsFullRefusesTheCommit(t *testing.T) {
	t.Parallel()
	w := open(t, t.TempDir(), true)
	ctx := context.Background()
	mem, err := memory.New(memory.Options{SpillDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	inner := &flaky{Tier: mem, server: newServer(), clock: tiers.SystemClock()}
	inner.server.set(true)
	j, err := txn.Journal(ctx, inner, w.db, txn.Config{Tier: "small", Limit: 2000})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close(ctx) }()
	e, err := txn.New(txn.EngineConfig{
		Decider: "database", Committer: w.db, System: w.db,
		Members: []txn.Member{{Name: "small", Tier: j}, {Name: "database", Tier: w.db}},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = e.Update(ctx, func(tx *txn.Tx) error {
		put(t, tx.Tier("database"), "d", "x")
		put(t, tx.Tier("small"), "k", strings.Repeat("x", 3000))
		return nil
	}, txn.Options{})
	if !errors.Is(err, tiers.ErrFull) || loaded(t, w.db, "d") != "" {
		t.Errorf("it answers %v", err)
	}
}

func TestASavepointIsOverWithItsTransaction(t *testing.T) {
	t.Parallel()
	w := open(t, t.TempDir(), false)
	ctx := context.Background()
	in, out, done := make(chan struct{}), make(chan struct{}), make(chan error)
	err := w.Update(ctx, func(tx *txn.Tx) error {
		go func() {
			done <- tx.Update(ctx, func(inner *txn.Tx) error {
				close(in)
				<-out
				_, err := inner.Tier("database").Save(ctx, record("late", "x"), tiers.Cond{})
				return err
			})
		}()
		<-in
		return nil
	}, txn.Options{})
	close(out)
	if late := <-done; err != nil || !errors.Is(late, tiers.ErrTxDone) {
		t.Errorf("%v, and the savepoint answers %v", err, late)
	}
	if got := loaded(t, w.db, "late"); got != "" {
		t.Errorf("%q is there", got)
	}
}

// How long a record lives counts from its save, whenever the commit comes.
func TestLifetimesCountFromTheSave(t *testing.T) {
	t.Parallel()
	w := open(t, t.TempDir(), false)
	ctx := context.Background()
	saved := map[string]time.Time{}
	err := w.Update(ctx, func(tx *txn.Tx) error {
		for _, name := range names {
			long, short := record("long", "x"), record("short", "x")
			long.TTL, short.TTL = time.Hour, 20*time.Millisecond
			put(t, w.all[name], "short", "old")
			for _, r := range []tiers.Record{long, short} {
				if _, err := tx.Tier(name).Save(ctx, r, tiers.Cond{}); err != nil {
					return err
				}
			}
			saved[name] = tiers.SystemClock().Now()
		}
		time.Sleep(time.Second) // the point is that time passes
		for _, name := range names {
			if got := loaded(t, tx.Tier(name), "short"); got != "" {
				t.Errorf("%s: %q is there after its time", name, got)
			}
		}
		return nil
	}, txn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if got := loaded(t, w.all[name], "short"); got != "" {
			t.Errorf("%s: %q is there after the commit", name, got)
		}
		r, err := w.all[name].Load(ctx, at("long"))
		if late := r.Expires.Sub(saved[name].Add(time.Hour)); err != nil || late > 900*time.Millisecond {
			t.Errorf("%s: it expires %v late, %v", name, late, err)
		}
	}
}

func TestEachHookIsCalledThoughOnePanics(t *testing.T) {
	t.Parallel()
	w := open(t, t.TempDir(), false)
	called := ""
	func() {
		defer func() { _ = recover() }()
		_ = w.Update(t.Context(), func(tx *txn.Tx) error {
			tx.OnCommit(func(context.Context) { called += "a"; panic("a") })
			tx.OnCommit(func(context.Context) { called += "b" })
			return increment(t.Context(), tx.Tier("database"))
		}, txn.Options{})
	}()
	if called != "ab" || number(t, w.db) != 1 {
		t.Errorf("%q were called", called)
	}
}

// Of two handles one applies, for as long as it lives.
func TestAStoppedApplierIsNotOvertaken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, two := open(t, dir, false), open(t, dir, false)
	unlock, ok, err := one.db.Lock(t.Context(), "file.applier")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	commit(t, two, "file", "k", "v")
	j, _ := two.all["file"].(*txn.Journaled)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if left, err := j.Retry(ctx, true); left.Rows != 1 {
		t.Errorf("%d rows are left, %v", left.Rows, err)
	}
	unlock()
	if left, err := j.Retry(t.Context(), true); left.Rows != 0 {
		t.Errorf("%d rows are left, %v", left.Rows, err)
	}
}
