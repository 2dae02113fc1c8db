package txn_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/database"
	"github.com/sagestore/sagestore/tiers/file"
	"github.com/sagestore/sagestore/tiers/memory"
	"github.com/sagestore/sagestore/txn"
)

// durable are the tiers that several handles can share.
var durable = []string{"cache", "database", "file"}

// Two handles of one store are to each other what two processes are.
func TestTwoHandlesLoseNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, tiersOf := range [][]string{{"cache"}, {"file"}, {"cache", "file"}, durable} {
		for _, onRedis := range []bool{false, true} {
			if onRedis && !slices.Contains(tiersOf, "cache") {
				continue
			}
			t.Run(fmt.Sprint(strings.Join(tiersOf, " "), onRedis), func(t *testing.T) {
				t.Parallel()
				dir, url := t.TempDir(), ""
				if onRedis {
					url = redistest.Start(t).URL()
				}
				handles := []*store{openOn(t, dir, false, url), openOn(t, dir, false, url)}
				const callers, each = 2, 8
				var g sync.WaitGroup
				for _, w := range handles {
					for range callers {
						g.Go(func() {
							for range each {
								err := w.incrementAll(ctx, tiersOf, 100000)
								if err != nil {
									t.Error(err)
									return
								}
							}
						})
					}
				}
				g.Wait()
				if onRedis {
					applied(t, handles[0], "cache") // the other one need not see the last rows at once
				}
				for i, w := range handles {
					for _, name := range tiersOf {
						if got := loaded(t, w.all[name], "n"); got != fmt.Sprint(2*callers*each) {
							t.Errorf("handle %d: %s counted to %s, want %d", i, name, got, 2*callers*each)
						}
					}
				}
			})
		}
	}
}

// Transactions of two handles that write the same keys and read none of them
// leave all keys to the same one.
func TestBlindWritesOfTwoHandlesStayWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	handles := []*store{open(t, dir, false), open(t, dir, false)}
	ctx := context.Background()
	for round := range 60 {
		var g sync.WaitGroup
		for i, w := range handles {
			g.Go(func() {
				err := w.Update(ctx, func(tx *txn.Tx) error {
					for _, name := range durable {
						if _, err := tx.Tier(name).Save(ctx, record("k", fmt.Sprintf("%d of %d", round, i)), tiers.Cond{}); err != nil {
							return err
						}
					}
					return nil
				}, txn.Options{})
				if err != nil {
					t.Error(err)
				}
			})
		}
		g.Wait()
		for i, w := range handles {
			want := loaded(t, w.all["database"], "k")
			for _, name := range durable {
				if got := loaded(t, w.all[name], "k"); got != want {
					t.Fatalf("round %d, handle %d: %s has %q, the database %q", round, i, name, got, want)
				}
			}
		}
	}
}

func TestRowsAreServedAndAppliedByTheNextHandle(t *testing.T) {
	t.Parallel()
	w := open(t, t.TempDir(), true)
	ctx := context.Background()
	save := put(t, w.all["cache"], "k", "old")
	w.server.set(true)
	commit(t, w, "cache", "k", "new")
	commit(t, w, "cache", "fresh", "new")
	if k, fresh := loaded(t, w.all["cache"], "k"), loaded(t, w.all["cache"], "fresh"); k != "new" || fresh != "new" {
		t.Errorf("while the server is away %q and %q are loaded", k, fresh)
	}
	if _, err := w.all["cache"].Load(ctx, at("other")); !errors.Is(err, tiers.ErrUnavailable) {
		t.Errorf("a key without a row answers %v", err)
	}
	w.server.set(false)
	applied(t, w, "cache")
	r, err := w.all["cache"].Load(ctx, at("k"))
	if err != nil || string(r.Value) != `"new"` || r.Version <= save.Version {
		t.Errorf("once it is back: %s of version %d after %d, %v", r.Value, r.Version, save.Version, err)
	}
}

// applied waits until nothing waits for the tier.
func applied(t *testing.T, w *store, tier string) {
	t.Helper()
	for {
		b, err := w.db.Backlog(t.Context(), tier)
		if err != nil {
			t.Fatal(err)
		}
		if b.Rows == 0 {
			return
		}
	}
}

// What a transaction has read from a server can't be trusted once that is away.
func TestReadsFromAServerThatWentAreUnavailable(t *testing.T) {
	t.Parallel()
	w := open(t, t.TempDir(), true)
	ctx := context.Background()
	put(t, w.all["cache"], "k", "old")
	err := w.Update(ctx, func(tx *txn.Tx) error {
		_ = loaded(t, tx.Tier("cache"), "k")
		w.server.set(true)
		_, err := tx.Tier("database").Save(ctx, record("d", "x"), tiers.Cond{})
		return err
	}, txn.Options{})
	if !errors.Is(err, tiers.ErrUnavailable) || loaded(t, w.db, "d") != "" {
		t.Errorf("the commit answers %v", err)
	}
	w.server.set(false)
}

func TestAfterTheEndEveryUseIsTooLate(t *testing.T) {
	t.Parallel()
	w := open(t, t.TempDir(), false)
	ctx := context.Background()
	var kept, saved *txn.Tx
	err := w.Update(ctx, func(tx *txn.Tx) error {
		kept = tx
		return tx.Update(ctx, func(inner *txn.Tx) error { saved = inner; return nil })
	}, txn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tx := range map[string]*txn.Tx{"transaction": kept, "savepoint": saved} {
		tier := tx.Tier("database")
		_, loading := tier.Load(ctx, at("k"))
		_, saving := tier.Save(ctx, record("k", "late"), tiers.Cond{})
		_, deleting := tier.Delete(ctx, at("k"), tiers.Cond{})
		var listing error
		for _, err := range tier.List(ctx, tiers.Query{Category: "c"}) {
			listing = err
		}
		nested := tx.Update(ctx, func(*txn.Tx) error { return nil })
		for call, err := range map[string]error{"load": loading, "save": saving, "delete": deleting, "list": listing, "update": nested} {
			if !errors.Is(err, tiers.ErrTxDone) {
				t.Errorf("%s after the end of the %s: %v", call, name, err)
			}
		}
	}
	if got := loaded(t, w.db, "k"); got != "" {
		t.Errorf("a late save left %q", got)
	}
}

func TestASwallowedFailureAbortsTheCommit(t *testing.T) {
	t.Parallel()
	w := open(t, t.TempDir(), false)
	ctx := context.Background()
	put(t, w.db, "there", "x")
	for why, test := range map[string]struct {
		work  func(tier tiers.Tier)
		abort bool
	}{
		"an invalid key": {func(tier tiers.Tier) { _, _ = tier.Save(ctx, record("", "x"), tiers.Cond{}) }, true},
		"too much": {func(tier tiers.Tier) {
			_, _ = tier.Save(ctx, record("big", strings.Repeat("x", 2<<20)), tiers.Cond{})
		}, true},
		"not found":                        {func(tier tiers.Tier) { _, _ = tier.Load(ctx, at("nothing")) }, false},
		"exists":                           {func(tier tiers.Tier) { _, _ = tier.Save(ctx, record("there", "x"), tiers.If(0)) }, false},
		"conflict":                         {func(tier tiers.Tier) { _, _ = tier.Save(ctx, record("there", "x"), tiers.If(7)) }, false},
		"a savepoint that was rolled back": {func(tiers.Tier) {}, false},
	} {
		err := w.Update(ctx, func(tx *txn.Tx) error {
			test.work(tx.Tier("database"))
			_ = tx.Update(ctx, func(inner *txn.Tx) error {
				_, err := inner.Tier("database").Save(ctx, record("", "x"), tiers.Cond{})
				return err
			})
			_, err := tx.Tier("database").Save(ctx, record("ok", why), tiers.Cond{})
			return err
		}, txn.Options{})
		if aborted := errors.Is(err, tiers.ErrTxAborted); aborted != test.abort || err != nil && !aborted {
			t.Errorf("%s: %v", why, err)
		}
		if got := loaded(t, w.db, "ok"); (got == why) == test.abort {
			t.Errorf("%s: %q is stored", why, got)
		}
	}
}

func TestASavepointTakesBackItsOwnOnly(t *testing.T) {
	t.Parallel()
	w := open(t, t.TempDir(), false)
	ctx := context.Background()
	boom := errors.New("boom")
	hooks := 0
	err := w.Update(ctx, func(tx *txn.Tx) error {
		for _, name := range names {
			put(t, tx.Tier(name), "a", "outer")
		}
		err := tx.Update(ctx, func(inner *txn.Tx) error {
			inner.OnCommit(func(context.Context) { hooks += 100 })
			for _, name := range names {
				put(t, inner.Tier(name), "a", "inner")
				put(t, inner.Tier(name), "b", "inner")
				if got := loaded(t, inner.Tier(name), "a"); got != "inner" {
					t.Errorf("the savepoint sees %q", got)
				}
			}
			return boom
		})
		if !errors.Is(err, boom) {
			t.Errorf("it answers %v", err)
		}
		return tx.Update(ctx, func(inner *txn.Tx) error {
			inner.OnCommit(func(context.Context) { hooks++ })
			for _, name := range names {
				put(t, inner.Tier(name), "c", "second")
			}
			return nil
		})
	}, txn.Options{})
	if err != nil || hooks != 1 {
		t.Fatalf("%v, hooks %d", err, hooks)
	}
	for _, name := range names {
		if a, b, c := loaded(t, w.all[name], "a"), loaded(t, w.all[name], "b"), loaded(t, w.all[name], "c"); a != "outer" || b != "" || c != "second" {
			t.Errorf("%s has %q, %q, %q", name, a, b, c)
		}
	}
}

func TestAViewIsOfOneInstantAndChangesNothing(t *testing.T) {
	t.Parallel()
	w := open(t, t.TempDir(), false)
	ctx := context.Background()
	put(t, w.db, "k", "old")
	err := w.View(ctx, func(tx *txn.Tx) error {
		if got := loaded(t, tx.Tier("database"), "k"); got != "old" {
			t.Errorf("it sees %q", got)
		}
		put(t, w.db, "k", "new")
		put(t, w.db, "more", "new")
		if k, more := loaded(t, tx.Tier("database"), "k"), loaded(t, tx.Tier("database"), "more"); k != "old" || more != "" {
			t.Errorf("later it sees %q and %q", k, more)
		}
		for _, name := range names {
			if _, err := tx.Tier(name).Save(ctx, record("x", "x"), tiers.Cond{}); !errors.Is(err, tiers.ErrReadOnly) {
				t.Errorf("a save into %s answers %v", name, err)
			}
			if _, err := tx.Tier(name).Delete(ctx, at("x"), tiers.Cond{}); !errors.Is(err, tiers.ErrReadOnly) {
				t.Errorf("a delete from %s answers %v", name, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestOnceIsOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	handles := []*store{open(t, dir, false), open(t, dir, false)}
	ctx := context.Background()
	var g sync.WaitGroup
	var mu sync.Mutex
	won, lost := 0, 0
	for i := range 8 {
		g.Go(func() {
			err := handles[i%2].Update(ctx, func(tx *txn.Tx) error { return increment(ctx, tx.Tier("file")) },
				txn.Options{Once: "once/a", Retry: 1000})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case errors.Is(err, tiers.ErrExists):
				lost++
			default:
				t.Error(err)
			}
		})
	}
	g.Wait()
	if n := loaded(t, handles[0].all["file"], "n"); won != 1 || lost != 7 || n != "1" {
		t.Errorf("%d won, %d lost, counted %s", won, lost, n)
	}
}

func TestWrapGivesOneStoreTransactions(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := t.TempDir()
	db, err := database.Open(ctx, database.Config{Path: filepath.Join(dir, "sage.db")})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := memory.New(memory.Options{SpillDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	files, err := file.Open(ctx, file.Config{BasePath: filepath.Join(dir, "files")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := txn.Wrap(ctx, files, txn.WrapConfig{}); !errors.Is(err, tiers.ErrUnsupported) {
		t.Errorf("files without a journal: %v", err)
	}
	boom := errors.New("boom")
	for name, test := range map[string]struct {
		tier    tiers.Tier
		journal tiers.Tier
	}{"database": {db, nil}, "memory": {mem, nil}, "file": {files, db}} {
		s, err := txn.Wrap(ctx, test.tier, txn.WrapConfig{Journal: test.journal})
		if err != nil {
			t.Fatal(name, err)
		}
		two := func(value string, answer error) error {
			return s.Update(ctx, func(tier tiers.Tier) error {
				put(t, tier, "a", value)
				put(t, tier, "b", value)
				return answer
			}, txn.Options{})
		}
		if err := two("1", nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := two("2", boom); !errors.Is(err, boom) {
			t.Errorf("%s: %v", name, err)
		}
		func() {
			defer func() {
				if got := recover(); got != "p" {
					t.Errorf("%s: the panic became %v", name, got)
				}
			}()
			_ = s.Update(ctx, func(tier tiers.Tier) error {
				put(t, tier, "a", "3")
				panic("p")
			}, txn.Options{})
		}()
		ended, end := context.WithCancel(ctx)
		err = s.Update(ended, func(tier tiers.Tier) error {
			put(t, tier, "a", "4")
			end()
			return nil
		}, txn.Options{})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: an ended context answers %v", name, err)
		}
		if a, b := loaded(t, s.Tier(), "a"), loaded(t, s.Tier(), "b"); a != "1" || b != "1" {
			t.Errorf("%s has %q and %q", name, a, b)
		}
		seen := ""
		err = s.View(ctx, func(tier tiers.Tier) error {
			seen = loaded(t, tier, "a")
			_, err := tier.Save(ctx, record("a", "5"), tiers.Cond{})
			return err
		})
		if seen != "1" || !errors.Is(err, tiers.ErrReadOnly) {
			t.Errorf("%s: a view sees %q and answers %v to a save", name, seen, err)
		}
		if err := s.Close(ctx); err != nil {
			t.Error(name, err)
		}
	}
	if err := errors.Join(mem.Close(ctx), db.Close(ctx)); err != nil {
		t.Error(err)
	}
}
