package txn_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/tiers"
	cachefile "github.com/sagestore/sagestore/tiers/cache/file"
	"github.com/sagestore/sagestore/tiers/cache/redis"
	"github.com/sagestore/sagestore/tiers/database"
	"github.com/sagestore/sagestore/tiers/file"
	"github.com/sagestore/sagestore/tiers/memory"
	"github.com/sagestore/sagestore/txn"
)

// store is four tiers and an engine over them.
type store struct {
	*txn.Engine
	all    map[string]tiers.Tier
	server *server // in front of the cache, when it is flaky
	db     *database.Tier
}

// names are the tiers of a store.
var names = []string{"memory", "cache", "database", "file"}

func open(t testing.TB, dir string, flakyCache bool) *store {
	t.Helper()
	return openOn(t, dir, flakyCache, "")
}

// openOn has its cache on the Redis of the URL, if there is one.
func openOn(t testing.TB, dir string, flakyCache bool, url string) *store {
	t.Helper()
	w := &store{all: map[string]tiers.Tier{}}
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	db, err := database.Open(ctx, database.Config{Path: filepath.Join(dir, "sage.db")})
	must(err)
	w.db = db
	mem, err := memory.Open(ctx, memory.Config{Options: memory.Options{SpillDir: dir}})
	must(err)
	files, err := file.Open(ctx, file.Config{BasePath: filepath.Join(dir, "files")})
	must(err)
	fileJournal, err := txn.Journal(ctx, files, db, txn.Config{Tier: "file"})
	must(err)
	var cache tiers.Tier
	switch {
	case url != "":
		cache, err = redis.Open(ctx, redis.Config{Options: redis.Options{URL: url, Epoch: "e"}})
		must(err)
	case flakyCache:
		inner, err := memory.Open(ctx, memory.Config{Options: memory.Options{SpillDir: dir}})
		must(err)
		w.server = newServer()
		cache = &flaky{Tier: inner, server: w.server, clock: tiers.SystemClock()}
	default:
		cache, err = cachefile.Open(ctx, cachefile.Config{Path: filepath.Join(dir, "cache")})
		must(err)
	}
	cacheJournal, err := txn.Journal(ctx, cache, db, txn.Config{Tier: "cache", Epoch: "e"})
	must(err)
	w.all["memory"], w.all["cache"], w.all["database"], w.all["file"] = mem, cacheJournal, db, fileJournal
	config := txn.EngineConfig{Decider: "database", Committer: db, System: db, Limit: 1 << 20}
	for _, name := range names {
		config.Members = append(config.Members, txn.Member{Name: name, Tier: w.all[name]})
	}
	w.Engine, err = txn.New(config)
	must(err)
	t.Cleanup(func() { must(w.close()) })
	return w
}

func (w *store) close() error {
	ctx := context.Background()
	return errors.Join(w.Close(ctx), w.all["memory"].Close(ctx), w.all["cache"].Close(ctx), w.all["file"].Close(ctx), w.db.Close(ctx))
}

func at(name string) tiers.Key { return tiers.Key{Category: "c", Name: name} }

func record(name, value string) tiers.Record {
	return tiers.Record{Key: at(name), Value: []byte(`"` + value + `"`), Codec: "json", Schema: 1}
}

func put(t *testing.T, tier tiers.Tier, name, value string) tiers.Record {
	t.Helper()
	r, err := tier.Save(t.Context(), record(name, value), tiers.Cond{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// loaded answers what a tier has, "" for nothing.
func loaded(t *testing.T, tier tiers.Tier, name string) string {
	t.Helper()
	r, err := tier.Load(t.Context(), at(name))
	if errors.Is(err, tiers.ErrNotFound) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(r.Value[1 : len(r.Value)-1])
}

// eachStore runs a test with a cache of files, with one whose server may go, and
// with one on Redis.
func eachStore(t *testing.T, run func(t *testing.T, w *store)) {
	t.Helper()
	t.Parallel()
	for name, openIt := range map[string]func(t *testing.T) *store{
		"files":  func(t *testing.T) *store { t.Helper(); return open(t, t.TempDir(), false) },
		"server": func(t *testing.T) *store { t.Helper(); return open(t, t.TempDir(), true) },
		"redis":  func(t *testing.T) *store { t.Helper(); return openOn(t, t.TempDir(), false, redistest.Start(t).URL()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, openIt(t))
		})
	}
}

func TestACommitIsSeenOnEveryTier(t *testing.T) {
	eachStore(t, func(t *testing.T, w *store) {
		t.Helper()
		ctx := context.Background()
		var tx *txn.Tx
		err := w.Update(ctx, func(now *txn.Tx) error {
			tx = now
			for _, name := range names {
				if _, err := now.Tier(name).Save(ctx, record("k", "new"), tiers.Cond{}); err != nil {
					return err
				}
				if got := loaded(t, w.all[name], "k"); got != "" {
					t.Errorf("%s has %q before the commit", name, got)
				}
				if got := loaded(t, now.Tier(name), "k"); got != "new" {
					t.Errorf("the transaction sees %q on %s, want its own", got, name)
				}
			}
			return nil
		}, txn.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			r, err := w.all[name].Load(ctx, at("k"))
			if err != nil || string(r.Value) != `"new"` {
				t.Errorf("%s has %q, %v", name, r.Value, err)
			}
			if v := tx.Version(name, at("k")); v == 0 || v != r.Version {
				t.Errorf("the transaction says version %d for %s, the tier %d", v, name, r.Version)
			}
		}
		if got, err := w.Outcome(ctx, tx.ID()); got != txn.Committed || err != nil {
			t.Errorf("the outcome is %q, %v", got, err)
		}
	})
}

func TestARollbackIsSeenNowhere(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	ended, end := context.WithCancel(context.Background())
	for name, run := range map[string]func(w *store, work func(tx *txn.Tx) error) error{
		"error": func(w *store, work func(tx *txn.Tx) error) error {
			return w.Update(context.Background(), func(tx *txn.Tx) error { return errors.Join(work(tx), boom) }, txn.Options{})
		},
		"panic": func(w *store, work func(tx *txn.Tx) error) (err error) {
			defer func() { err, _ = recover().(error) }()
			return w.Update(context.Background(), func(tx *txn.Tx) error {
				if err := work(tx); err != nil {
					return err
				}
				panic(boom)
			}, txn.Options{})
		},
		"context": func(w *store, work func(tx *txn.Tx) error) error {
			err := w.Update(ended, func(tx *txn.Tx) error { defer end(); return work(tx) }, txn.Options{})
			if errors.Is(err, context.Canceled) {
				return boom
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t, t.TempDir(), false)
			for _, name := range names {
				put(t, w.all[name], "k", "old")
			}
			var id string
			err := run(w, func(tx *txn.Tx) error {
				id = tx.ID()
				tx.OnCommit(func(context.Context) { t.Error("it was told of a commit") })
				for _, name := range names {
					if _, err := tx.Tier(name).Save(context.Background(), record("k", "new"), tiers.Cond{}); err != nil {
						return err
					}
					if _, err := tx.Tier(name).Save(context.Background(), record("other", "new"), tiers.Cond{}); err != nil {
						return err
					}
				}
				return nil
			})
			if !errors.Is(err, boom) {
				t.Errorf("update answers %v", err)
			}
			for _, name := range names {
				if k, other := loaded(t, w.all[name], "k"), loaded(t, w.all[name], "other"); k != "old" || other != "" {
					t.Errorf("%s has %q and %q, want what was there before", name, k, other)
				}
			}
			if got, err := w.Outcome(context.Background(), id); got != txn.RolledBack || err != nil {
				t.Errorf("the outcome is %q, %v", got, err)
			}
		})
	}
}

func TestFirstCommitterWins(t *testing.T) {
	eachStore(t, func(t *testing.T, w *store) {
		t.Helper()
		ctx := context.Background()
		for _, name := range names {
			put(t, w.all[name], "k", "1")
			for why, change := range map[string]func(){
				"a save":        func() { put(t, w.all[name], "k", "2") },
				"a delete":      func() { _, _ = w.all[name].Delete(ctx, at("k"), tiers.Cond{}) },
				"a transaction": func() { commit(t, w, name, "k", "3") },
			} {
				err := w.Update(ctx, func(tx *txn.Tx) error {
					_ = loaded(t, tx.Tier(name), "k")
					change()
					_, err := tx.Tier(name).Save(ctx, record("mine", "x"), tiers.Cond{})
					return err
				}, txn.Options{})
				var e *tiers.Error
				if !errors.Is(err, tiers.ErrConflict) || !errors.As(err, &e) || e.Key != "k" || e.Tx == "" {
					t.Errorf("%s: %s after the read: %v, want a conflict over k", name, why, err)
				}
				if got := loaded(t, w.all[name], "mine"); got != "" {
					t.Errorf("%s: the loser left %q", name, got)
				}
				put(t, w.all[name], "k", "again")
			}
		}
	})
}

func commit(t *testing.T, w *store, tier, name, value string) {
	t.Helper()
	err := w.Update(t.Context(), func(tx *txn.Tx) error {
		_, err := tx.Tier(tier).Save(t.Context(), record(name, value), tiers.Cond{})
		return err
	}, txn.Options{})
	if err != nil {
		t.Error(err)
	}
}

func TestWhatWasListedIsProtected(t *testing.T) {
	eachStore(t, func(t *testing.T, w *store) {
		t.Helper()
		ctx := context.Background()
		for _, name := range names {
			for _, k := range []string{"a", "c", "e"} {
				put(t, w.all[name], k, "1")
			}
			for why, test := range map[string]struct {
				q        tiers.Query
				stop     string // the last key that is taken
				change   func()
				conflict bool
			}{
				"an insert":          {change: func() { put(t, w.all[name], "b", "2") }, conflict: true},
				"an update":          {change: func() { put(t, w.all[name], "c", "2") }, conflict: true},
				"a delete":           {change: func() { _, _ = w.all[name].Delete(ctx, at("e"), tiers.Cond{}) }, conflict: true},
				"a commit":           {change: func() { commit(t, w, name, "d", "2") }, conflict: true},
				"outside the prefix": {q: tiers.Query{Prefix: "c"}, change: func() { put(t, w.all[name], "a", "2") }},
				"behind the end":     {stop: "a", change: func() { put(t, w.all[name], "x", "2") }},
				"behind the limit":   {q: tiers.Query{Limit: 1}, change: func() { put(t, w.all[name], "e", "3") }},
				"before it, reverse": {q: tiers.Query{Reverse: true}, stop: "e", change: func() { put(t, w.all[name], "a", "3") }},
			} {
				for _, k := range []string{"b", "d", "x"} {
					_, _ = w.all[name].Delete(ctx, at(k), tiers.Cond{})
				}
				for _, k := range []string{"a", "c", "e"} {
					put(t, w.all[name], k, "1")
				}
				q := test.q
				q.Category = "c"
				err := w.Update(ctx, func(tx *txn.Tx) error {
					for r, err := range tx.Tier(name).List(ctx, q) {
						if err != nil {
							return err
						}
						if r.Name == test.stop {
							break
						}
					}
					test.change()
					_, err := tx.Tier("database").Save(ctx, tiers.Record{Key: tiers.Key{Category: "sum", Name: "n"}, Codec: "raw", Schema: 1}, tiers.Cond{})
					return err
				}, txn.Options{})
				if got := errors.Is(err, tiers.ErrConflict); got != test.conflict || err != nil && !got {
					t.Errorf("%s: %s: %v, want a conflict: %v", name, why, err, test.conflict)
				}
			}
		}
	})
}

func TestListsShowWhatTheTransactionWrote(t *testing.T) {
	eachStore(t, func(t *testing.T, w *store) {
		t.Helper()
		ctx := context.Background()
		for _, name := range names {
			for _, k := range []string{"a", "c", "e"} {
				put(t, w.all[name], k, "1")
			}
			err := w.Update(ctx, func(tx *txn.Tx) error {
				tier := tx.Tier(name)
				put(t, tier, "b", "2")
				put(t, tier, "c", "2")
				put(t, tier, "f", "2")
				if _, err := tier.Delete(ctx, at("e"), tiers.Cond{}); err != nil {
					return err
				}
				for why, test := range map[string]struct {
					q    tiers.Query
					want []string
				}{
					"all":     {want: []string{"a", "b", "c", "f"}},
					"reverse": {q: tiers.Query{Reverse: true}, want: []string{"f", "c", "b", "a"}},
					"limit":   {q: tiers.Query{Limit: 3}, want: []string{"a", "b", "c"}},
					"after":   {q: tiers.Query{After: "b"}, want: []string{"c", "f"}},
					"prefix":  {q: tiers.Query{Prefix: "e"}},
					"before":  {q: tiers.Query{After: "c", Reverse: true, Limit: 1}, want: []string{"b"}},
				} {
					test.q.Category = "c"
					var got []string
					for r, err := range tier.List(ctx, test.q) {
						if err != nil {
							return err
						}
						got = append(got, r.Name)
					}
					if !slices.Equal(got, test.want) {
						t.Errorf("%s: %s lists %v, want %v", name, why, got, test.want)
					}
				}
				return nil
			}, txn.Options{})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestReadThenWriteLosesNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, w *store) {
		t.Helper()
		ctx := context.Background()
		const callers, each = 6, 8
		var g sync.WaitGroup
		for i := range callers {
			g.Go(func() {
				for range each {
					err := w.incrementAll(ctx, names, 10000)
					if err != nil {
						t.Errorf("caller %d: %v", i, err)
						return
					}
				}
			})
		}
		g.Wait()
		for _, name := range names {
			if got := loaded(t, w.all[name], "n"); got != fmt.Sprint(callers*each) {
				t.Errorf("%s counted to %s, want %d", name, got, callers*each)
			}
		}
	})
}

// incrementAll counts up on several tiers in one transaction.
func (w *store) incrementAll(ctx context.Context, on []string, retry int) error {
	return w.Update(ctx, func(tx *txn.Tx) error {
		for _, name := range on {
			if err := increment(ctx, tx.Tier(name)); err != nil {
				return err
			}
		}
		return nil
	}, txn.Options{Retry: retry})
}

func increment(ctx context.Context, tier tiers.Tier) error {
	r, err := tier.Load(ctx, at("n"))
	n := 0
	if err == nil {
		_, err = fmt.Sscanf(string(r.Value), `"%d"`, &n)
	}
	if err != nil && !errors.Is(err, tiers.ErrNotFound) {
		return err
	}
	_, err = tier.Save(ctx, record("n", fmt.Sprint(n+1)), tiers.If(r.Version))
	return err
}

// Bare saves and transactions on the same keys: a bare conditional save counts up
// as well, and nothing is lost between both.
func TestBareSavesAndTransactionsLoseNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, w *store) {
		t.Helper()
		ctx := context.Background()
		const each = 12
		var g sync.WaitGroup
		var bare atomic.Int64
		for range 2 {
			g.Go(func() {
				for range each {
					err := w.incrementAll(ctx, names, 10000)
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for _, name := range names {
			g.Go(func() {
				for done := 0; done < each; {
					switch err := increment(ctx, w.all[name]); {
					case err == nil:
						done++
						bare.Add(1)
					case !errors.Is(err, tiers.ErrConflict) && !errors.Is(err, tiers.ErrExists):
						t.Error(err)
						return
					}
				}
			})
		}
		g.Wait()
		for _, name := range names {
			if got := loaded(t, w.all[name], "n"); got != fmt.Sprint(3*each) {
				t.Errorf("%s counted to %s, want %d", name, got, 3*each)
			}
		}
	})
}

func TestVersionsGrowWhoeverWrites(t *testing.T) {
	eachStore(t, func(t *testing.T, w *store) {
		t.Helper()
		ctx := context.Background()
		for _, name := range names {
			var last tiers.Version
			for i := range 40 {
				if i%3 == 0 {
					put(t, w.all[name], "k", fmt.Sprint(i))
				} else {
					commit(t, w, name, "k", fmt.Sprint(i))
				}
				r, err := w.all[name].Load(ctx, at("k"))
				if err != nil || r.Version <= last {
					t.Fatalf("%s: version %d after %d, %v", name, r.Version, last, err)
				}
				if string(r.Value) != fmt.Sprintf(`"%d"`, i) {
					t.Fatalf("%s: %s was loaded after save %d", name, r.Value, i)
				}
				last = r.Version
				if i%7 == 0 {
					if existed, err := w.all[name].Delete(ctx, at("k"), tiers.Cond{}); !existed || err != nil {
						t.Fatalf("%s: deleting answers %v, %v", name, existed, err)
					}
				}
				if i%10 == 0 {
					time.Sleep(15 * time.Millisecond) // lets rows be applied in some rounds, whenever that is
				}
			}
		}
	})
}

// What one process sees of a transaction on one tier it sees on all.
func TestNobodySeesAPart(t *testing.T) {
	eachStore(t, func(t *testing.T, w *store) {
		t.Helper()
		nobodySeesAPart(t, w, w, names)
	})
}

// nobodySeesAPart lets one handle count up on several tiers at once, and demands
// that who reads by another one sees none of them behind.
func nobodySeesAPart(t *testing.T, writer, reader *store, of []string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var g sync.WaitGroup
	for _, first := range of {
		for _, second := range of {
			if first == second {
				continue
			}
			g.Go(func() {
				for ctx.Err() == nil {
					a := number(t, reader.all[first])
					b := number(t, reader.all[second])
					if b < a {
						t.Errorf("%s had %d already, %s still %d", first, a, second, b)
						return
					}
				}
			})
		}
	}
	for range 25 {
		if err := writer.incrementAll(ctx, of, 0); err != nil {
			t.Error(err)
			break
		}
	}
	stop()
	g.Wait()
}

func number(t *testing.T, tier tiers.Tier) (n int) {
	t.Helper()
	if got := loaded(t, tier, "n"); got != "" {
		_, _ = fmt.Sscan(got, &n)
	}
	return n
}
