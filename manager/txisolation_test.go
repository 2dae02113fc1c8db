package manager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

// many is a count that is cut in plain runs.
func many(full int) int {
	if os.Getenv("CI") != "true" {
		return full / 10
	}
	return full
}

// Each of 16 callers reads a counter and writes it back, over and over: on one
// tier, and on all of them in one transaction.
func TestReadThenWriteLosesNoUpdate(t *testing.T) {
	t.Parallel()
	const callers = 16
	rounds := many(1000) / callers
	cases := map[string]func(cs []*manager.Collection[int]) []*manager.Collection[int]{
		"mixed": func(cs []*manager.Collection[int]) []*manager.Collection[int] { return cs },
	}
	for i, tier := range fourTiers {
		cases[tier] = func(cs []*manager.Collection[int]) []*manager.Collection[int] { return cs[i : i+1] }
	}
	for name, which := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, m := t.Context(), openFour(t)
			var work sync.WaitGroup
			for range callers {
				work.Go(func() {
					for range rounds {
						err := m.Update(ctx, func(tx *manager.Tx) error {
							for _, c := range which(four(tx)) {
								v, err := c.LoadOr(ctx, "k", 0)
								if err != nil {
									return err
								}
								if err := c.Save(ctx, "k", v+1); err != nil {
									return err
								}
							}
							return nil
						}, manager.WithRetry(1000))
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			work.Wait()
			for _, c := range which(four(m)) {
				if got := value[int](t)(c.Load(ctx, "k")); got != callers*rounds {
					t.Errorf("%s counts %d, want %d", c.Category(), got, callers*rounds)
				}
			}
		})
	}
}

// Who sees one part of a commit sees every part that he looks at later.
func TestCommitIsSeenWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), openFour(t)
	must(t, saveFour(ctx, m, "k", 1))
	rounds := many(250)
	var over atomic.Bool
	var work sync.WaitGroup
	for first := range fourTiers {
		for second := range fourTiers {
			if first == second {
				continue
			}
			work.Go(func() {
				a, b := four(m)[first], four(m)[second]
				for !over.Load() {
					va, err := a.Load(ctx, "k")
					vb, e := b.Load(ctx, "k")
					if err := errors.Join(err, e); err != nil {
						t.Error(err)
						return
					}
					if vb < va {
						t.Errorf("%s had %d, and %s then %d", fourTiers[first], va, fourTiers[second], vb)
						return
					}
				}
			})
		}
	}
	for v := range rounds {
		must(t, m.Update(ctx, func(tx *manager.Tx) error { return saveFour(ctx, tx, "k", v+2) }))
	}
	over.Store(true)
	work.Wait()
	wantFour(ctx, t, m, "k", rounds+1)
}

func TestConflictIsToldAndRetriedOnDemandOnly(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), openFour(t)
	for i, c := range four(m) {
		runs := 0
		increase := func(tx *manager.Tx) error {
			if runs++; runs < 3 {
				defer func() { must(t, c.Save(ctx, "k", 100*runs)) }() // somebody else, at the worst moment
			}
			_, err := c.In(tx).Modify(ctx, "k", func(v *int, _ bool) error { *v++; return nil })
			return err
		}
		err := m.Update(ctx, increase)
		wantError(t, err, tiers.ErrConflict, fourTiers[i])
		if e := asError(t, err); e.Op != "commit" || e.Tx == "" || e.Hint == "" || e.Category != c.Category() {
			t.Errorf("the error is incomplete: %+v", e)
		}
		must(t, m.Update(ctx, increase, manager.WithRetry(2)))
		if got := value[int](t)(c.Load(ctx, "k")); got != 201 || runs != 3 {
			t.Errorf("%s: %d after %d runs", fourTiers[i], got, runs)
		}
		own := errors.New("own")
		runs = 0
		wantError(t, m.Update(ctx, func(*manager.Tx) error { runs++; return own }, manager.WithRetry(5)), own, "any other error")
		if runs != 1 {
			t.Errorf("it was run %d times", runs)
		}
	}
}

func TestListedCategoryThatChangedIsAConflict(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), openFour(t)
	for i, c := range four(m) {
		err := m.Update(ctx, func(tx *manager.Tx) error {
			n := len(value[[]manager.Entry[int]](t)(c.In(tx).All(ctx)))
			must(t, c.Save(ctx, "phantom", 1))
			return four(tx)[2].Save(ctx, fmt.Sprint("count-", i), n)
		})
		wantError(t, err, tiers.ErrConflict, fourTiers[i])
	}
}

// Calls beside the transaction, inside its function, are done at once; none of
// them waits for it.
func TestPlainCallsInATransactionNeverWaitForIt(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a deadlock fails rather than hangs
	defer cancel()
	m := openFour(t)
	session := manager.For[int](m, "app.session")
	err := m.Update(ctx, func(tx *manager.Tx) error {
		must(t, saveFour(ctx, tx, "k", 1))
		must(t, session.In(tx).Save(ctx, "s/k", 1))
		must(t, saveFour(ctx, m, "k", 2))
		must(t, session.Save(ctx, "s/k", 2))
		wantFour(ctx, t, m, "k", 2)
		wantFour(ctx, t, tx, "k", 1)
		for _, c := range four(m) {
			for e, err := range c.In(tx).List(ctx) { // saving in the loop is fine
				must(t, err)
				must(t, c.Save(ctx, e.Key, 3))
				must(t, c.In(tx).Save(ctx, "more", 1))
			}
			value[int](t)(c.Modify(ctx, "k", func(v *int, _ bool) error { *v = 4; return nil }))
			must(t, c.SaveMany(ctx, map[string]int{"k": 5, "l": 5}))
			value[int](t)(c.DeleteMany(ctx, "l"))
		}
		tx.OnCommit(func(ctx context.Context) {
			must(t, saveFour(ctx, m, "k", 7))
			must(t, session.Save(ctx, "s/k", 7))
			must(t, m.EndSession(ctx, "s"))
		})
		return m.Update(ctx, func(other *manager.Tx) error { return saveFour(ctx, other, "other", 6) })
	})
	wantError(t, err, tiers.ErrConflict, "the lists were changed beside it")
	wantFour(ctx, t, m, "k", 5)
	wantFour(ctx, t, m, "other", 6)

	must(t, m.Update(ctx, func(tx *manager.Tx) error {
		must(t, saveFour(ctx, tx, "k", 1))
		must(t, saveFour(ctx, m, "k", 2))
		tx.OnCommit(func(ctx context.Context) {
			wantFour(ctx, t, m, "k", 1) // it has not read what it wrote over
			must(t, session.Save(ctx, "s/k", 7))
			must(t, m.EndSession(ctx, "s"))
		})
		return session.In(tx).Save(ctx, "s/k", 1)
	}))
	if value[bool](t)(session.Exists(ctx, "s/k")) {
		t.Error("the session was ended on commit")
	}
}

func TestViewOfAnyTierSeesWhatIsThere(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), openFour(t)
	for i, c := range four(m) {
		if fourTiers[i] == "database" {
			continue // see TestViewOfTheDatabaseIsOfOneInstant
		}
		must(t, c.Save(ctx, "saved", 1))
		// Its rows may not have come to the tier yet.
		must(t, m.Update(ctx, func(tx *manager.Tx) error { return c.In(tx).Save(ctx, "committed", 2) }))
		must(t, m.View(ctx, func(tx *manager.Tx) error {
			in := c.In(tx)
			if a, b := value[int](t)(in.Load(ctx, "saved")), value[int](t)(in.Load(ctx, "committed")); a != 1 || b != 2 {
				t.Errorf("%s: loaded %d and %d", fourTiers[i], a, b)
			}
			if got := value[[]manager.Entry[int]](t)(in.All(ctx)); len(got) != 2 {
				t.Errorf("%s: listed %v", fourTiers[i], got)
			}
			must(t, m.Update(ctx, func(tx *manager.Tx) error { return c.In(tx).Save(ctx, "committed", 3) }))
			if got := value[int](t)(in.Load(ctx, "committed")); got != 3 {
				t.Errorf("%s: loaded %d after another commit", fourTiers[i], got)
			}
			_, err := in.Load(ctx, "never")
			wantError(t, err, tiers.ErrNotFound, fourTiers[i])
			return nil
		}))
	}
}

func TestViewOfTheDatabaseIsOfOneInstant(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), openFour(t)
	must(t, saveFour(ctx, m, "a", 1))
	database := four(m)[2]
	must(t, m.View(ctx, func(tx *manager.Tx) error {
		c := database.In(tx)
		value[int](t)(c.Load(ctx, "a"))
		must(t, saveFour(ctx, m, "a", 2))
		must(t, database.Save(ctx, "b", 2))
		if got := value[int](t)(c.Load(ctx, "a")); got != 1 {
			t.Errorf("loaded %d", got)
		}
		if got := value[[]manager.Entry[int]](t)(c.All(ctx)); len(got) != 1 {
			t.Errorf("listed %v", got)
		}
		if got := value[map[string]int](t)(c.LoadMany(ctx, "a", "b")); len(got) != 1 || got["a"] != 1 {
			t.Errorf("loaded %v", got)
		}
		return nil
	}))
	for i, c := range four(m) {
		writes := map[string]func(c *manager.Collection[int]) error{
			"save":        func(c *manager.Collection[int]) error { return c.Save(ctx, "a", 3) },
			"save many":   func(c *manager.Collection[int]) error { return c.SaveMany(ctx, map[string]int{"a": 3}) },
			"delete":      func(c *manager.Collection[int]) error { _, err := c.Delete(ctx, "a"); return err },
			"delete many": func(c *manager.Collection[int]) error { _, err := c.DeleteMany(ctx, "a"); return err },
			"touch":       func(c *manager.Collection[int]) error { _, err := c.Touch(ctx, "a"); return err },
			"modify": func(c *manager.Collection[int]) error {
				_, err := c.Modify(ctx, "a", func(*int, bool) error { return nil })
				return err
			},
			"session": func(*manager.Collection[int]) error { return nil },
		}
		for name, write := range writes {
			err := m.View(ctx, func(tx *manager.Tx) error {
				if name == "session" {
					return tx.Save(ctx, "app.session", "never/k", 1)
				}
				return write(c.In(tx))
			})
			wantError(t, err, tiers.ErrReadOnly, fourTiers[i]+" "+name)
		}
	}
	wantFour(ctx, t, m, "a", 2)
	for s, err := range m.Sessions(ctx) {
		t.Errorf("a view has begun the session %q: %v", s.ID, err)
	}
	own := errors.New("own")
	if err := m.View(ctx, func(*manager.Tx) error { return own }); err != own { //nolint:errorlint // as it is
		t.Errorf("the answer of the function: %v", err)
	}
}

func TestTransactionIsACallForTheObserver(t *testing.T) {
	t.Parallel()
	ctx, seen := t.Context(), &notebook{}
	m := openFour(t, manager.WithObserver(seen))
	own := errors.New("own")
	must(t, m.Update(ctx, func(tx *manager.Tx) error { return tx.Save(ctx, "app.database", "k", 1) }))
	wantError(t, m.Update(ctx, func(*manager.Tx) error { return own }), own, "refused")
	must(t, m.View(ctx, func(*manager.Tx) error { return nil }))
	func() {
		defer func() { _ = recover() }()
		_ = m.Update(ctx, func(*manager.Tx) error { panic(own) })
	}()
	seen.mu.Lock()
	defer seen.mu.Unlock()
	want := []string{"save app.database: <nil>", "update : <nil>", "update : own", "view : <nil>", "update : the function of the transaction did not return"}
	if fmt.Sprint(seen.calls) != fmt.Sprint(want) {
		t.Errorf("observed %q", seen.calls)
	}
	s := value[manager.Stats](t)(m.Stats(ctx))
	if s.Categories["app.database"].Entries != 1 {
		t.Errorf("stats: %+v", s.Categories)
	}
}

type notebook struct {
	mu    sync.Mutex
	calls []string
}

func (n *notebook) Begin(ctx context.Context, op manager.Op) (context.Context, func(error)) {
	return ctx, func(err error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.calls = append(n.calls, fmt.Sprintf("%s %s: %v", op.Name, op.Category, err))
	}
}

func TestCloseWaitsForTransactionsAndLetsThemFinish(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	m := value[*manager.Manager](t)(manager.Open(ctx, fourHomes(dir), all()))
	inside, goOn := make(chan struct{}), make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		must(t, m.Update(ctx, func(tx *manager.Tx) error {
			close(inside)
			<-goOn
			tx.OnCommit(func(ctx context.Context) { must(t, saveFour(ctx, m, "hook", 2)) })
			return saveFour(ctx, tx, "k", 1)
		}))
	})
	<-inside
	work.Go(func() { closeNow(t, m) })
	soon(t, "new calls are refused", func() bool {
		return errors.Is(m.Update(ctx, func(*manager.Tx) error { return nil }), tiers.ErrClosed)
	})
	close(goOn)
	work.Wait()
	m = sagetest.OpenWith(t, fourHomes(dir), all())
	for _, c := range four(m)[1:] { // memory is gone
		if got := value[int](t)(c.Load(ctx, "k")) + value[int](t)(c.Load(ctx, "hook")); got != 3 {
			t.Errorf("%s: %d", c.Category(), got)
		}
	}
}
