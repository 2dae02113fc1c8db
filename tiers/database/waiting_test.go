package database

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func names(t *testing.T, tier *Tier, q tiers.Query) (all []string) {
	t.Helper()
	q.Category = key("").Category
	for row, err := range tier.ListPending(t.Context(), "cache", q) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, row.Name)
	}
	return all
}

func waits(t *testing.T, tier *Tier, name string) uint64 {
	t.Helper()
	r, found, err := tier.pending(t.Context(), rowKey{"cache", key(name)})
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		return 0
	}
	return r.Seq
}

// TestRowsOfOthersAreFoundWhereTheyAre: each store has places of rows of its own, and
// learns late or never what others have removed.
func TestRowsOfOthersAreFoundWhereTheyAre(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	stores := []*Tier{mustOpen(t, Config{Path: path, Synchronous: Normal}), mustOpen(t, Config{Path: path, Synchronous: Normal})}
	want := map[string]tiers.Row{}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 400 {
		store, name := stores[random.IntN(2)], fmt.Sprintf("k%02d", random.IntN(30))
		switch now, there := want[name]; {
		case there && random.IntN(2) == 0:
			if err := store.Done(t.Context(), []tiers.Row{now}); err != nil {
				t.Fatal(err)
			}
			delete(want, name)
		default:
			out := mustCommit(t, store, tiers.Commit{ID: fmt.Sprint("tx", i), Rows: []tiers.Row{row("cache", name), row("file", fmt.Sprint(i))}})
			want[name] = out.Rows[0]
		}
		for n, store := range stores {
			var sorted []string
			for name, row := range want {
				sorted = append(sorted, name)
				if seq := waits(t, store, name); seq != row.Seq {
					t.Fatalf("step %d: store %d finds row %d of %s, want %d", i, n, seq, name, row.Seq)
				}
				if !store.Waits("cache", key(name)) {
					t.Fatalf("step %d: store %d says that no row of %s waits", i, n, name)
				}
			}
			slices.Sort(sorted)
			if got := names(t, store, tiers.Query{}); !slices.Equal(got, sorted) {
				t.Fatalf("step %d: store %d lists %v, want %v", i, n, got, sorted)
			}
			slices.Reverse(sorted)
			if got := names(t, store, tiers.Query{Reverse: true, Limit: 5}); !slices.Equal(got, sorted[:min(5, len(sorted))]) {
				t.Fatalf("step %d: store %d lists %v from the end, want %v", i, n, got, sorted)
			}
			if b, err := store.Backlog(t.Context(), "cache"); err != nil || b.Rows != int64(len(want)) {
				t.Fatalf("step %d: store %d counts %+v, %v; want %d rows", i, n, b, err, len(want))
			}
		}
	}
}

// TestPlacesOfRowsThatOthersRemovedAreForgotten: they would grow with all that was
// ever written.
func TestPlacesOfRowsThatOthersRemovedAreForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	writes, applies := mustOpen(t, Config{Path: path, Synchronous: Normal}), mustOpen(t, Config{Path: path, Synchronous: Normal})
	for i := range 40 {
		rows := make([]tiers.Row, 100)
		for n := range rows {
			rows[n] = row("cache", fmt.Sprint("k", i, "/", n))
		}
		out, err := writes.Append(t.Context(), rows, nil, 0)
		if err == nil {
			err = applies.Done(t.Context(), out[1:])
		}
		if err == nil {
			_, err = writes.Backlog(t.Context(), "cache")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	in := writes.waiting.tiers["cache"]
	if in.n > 1500 || len(in.order) > 3000 {
		t.Errorf("%d keys and %d places of 40 rows are kept", in.n, len(in.order))
	}
	var due []tiers.Row
	for after := uint64(0); ; after = due[len(due)-1].Seq {
		some, err := writes.Due(t.Context(), "cache", after, 7)
		if err != nil {
			t.Fatal(err)
		}
		if len(some) == 0 {
			break
		}
		due = append(due, some...)
	}
	if len(due) != 40 {
		t.Errorf("%d rows are due, want 40", len(due))
	}
}

// TestATransactionIsKnownByItsRowsAndAfterThem: the last row remembers it, and hands
// it on when it leaves or another one takes its place.
func TestATransactionIsKnownByItsRowsAndAfterThem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	tier, other := mustOpen(t, Config{Path: path, Synchronous: Normal}), mustOpen(t, Config{Path: path, Synchronous: Normal})
	known := func(when string, entries int64, ids ...string) {
		t.Helper()
		wantCount(t, tier, "commits", entries)
		for _, id := range ids {
			for n, store := range []*Tier{tier, other} {
				if ok, err := store.Outcome(t.Context(), id); !ok || err != nil {
					t.Errorf("%s: store %d says of %s: %v, %v", when, n, id, ok, err)
				}
			}
			if _, err := other.Commit(t.Context(), tiers.Commit{ID: id, Rows: []tiers.Row{row("cache", "z")}}); err == nil {
				t.Errorf("%s: %s was committed again", when, id)
			}
			if _, err := other.Commit(t.Context(), tiers.Commit{ID: id, Saves: []tiers.Record{plainJSON("z", `1`)}}); err == nil {
				t.Errorf("%s: %s was committed again, without rows", when, id)
			}
		}
	}
	mustCommit(t, tier, tiers.Commit{ID: "b", Rows: []tiers.Row{row("cache", "k"), row("cache", "l")}})
	known("while its rows wait", 0, "b")
	next := mustCommit(t, other, tiers.Commit{ID: "a", Rows: []tiers.Row{row("file", "m"), row("cache", "l")}})
	known("when its last row was replaced", 1, "b", "a")
	if err := tier.Done(t.Context(), next.Rows); err != nil {
		t.Fatal(err)
	}
	known("when its rows were applied", 2, "a", "b")
	if err := other.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	other = mustOpen(t, Config{Path: path, Synchronous: Normal})
	known("to a store that comes later", 2, "a", "b")
	if ok, err := tier.Outcome(t.Context(), "c"); ok || err != nil {
		t.Errorf("of what never was: %v, %v", ok, err)
	}
}

// TestAJobThatIsRefusedTakesNoPlacesOfOthersAlong: the jobs of a group share a
// transaction, and each of them has to be found afterwards.
func TestAJobThatIsRefusedTakesNoPlacesOfOthersAlong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	tier := mustOpen(t, Config{Path: path, Synchronous: Normal})
	mustCommit(t, tier, tiers.Commit{ID: "warm", Rows: []tiers.Row{row("cache", "warm")}})
	release := holdTurn(t, path)
	done := make(chan error, 20)
	for i := range 20 {
		go func() {
			c := tiers.Commit{ID: fmt.Sprint("tx", i), Rows: []tiers.Row{row("cache", fmt.Sprint("k", i))}}
			if i%2 == 1 {
				c.RowLimits = map[string]int64{"cache": 1}
			}
			_, err := tier.Commit(context.Background(), c)
			if i%2 == 1 && err != nil {
				err = nil
			}
			done <- err
		}()
	}
	queueHas(t, tier, 20)
	release()
	for range 20 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < 20; i += 2 {
		if !tier.Waits("cache", key(fmt.Sprint("k", i))) || tier.Waits("cache", key(fmt.Sprint("k", i+1))) {
			t.Errorf("where the rows of k%d and k%d are was told wrongly", i, i+1)
		}
	}
	if b, err := tier.Backlog(t.Context(), "cache"); err != nil || b.Rows != 11 {
		t.Errorf("the backlog is %+v, %v", b, err)
	}
}

// queueHas waits until so many jobs wait for the writer.
func queueHas(t *testing.T, tier *Tier, n int) {
	t.Helper()
	for t.Context().Err() == nil {
		tier.writer.mu.Lock()
		now := len(tier.writer.queue)
		tier.writer.mu.Unlock()
		if now == n {
			return
		}
		_ = tiers.SystemClock().Sleep(t.Context(), time.Millisecond) // it is looked at again
	}
}

// TestTransactionsAndSavesShareACommit: many callers pay for one sync.
func TestTransactionsAndSavesShareACommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	tier := mustOpen(t, Config{Path: path})
	release := holdTurn(t, path)
	done := make(chan error, 30)
	for i := range 30 {
		name := fmt.Sprint("k", i)
		go func() {
			var err error
			switch i % 3 {
			case 0:
				_, err = tier.Save(context.Background(), plainJSON(name, `1`), tiers.Cond{})
			case 1:
				_, err = tier.Commit(context.Background(), tiers.Commit{ID: name, Saves: []tiers.Record{plainJSON(name, `1`)}})
			default:
				_, err = tier.Commit(context.Background(), tiers.Commit{ID: name, Rows: []tiers.Row{row("cache", name), row("file", name)}})
			}
			done <- err
		}()
	}
	queueHas(t, tier, 30)
	release()
	for range 30 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if err := tier.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if tier.writer.last != 30 {
		t.Errorf("the last commit was shared by %d callers, want 30", tier.writer.last)
	}
}

// TestRowsThatReplaceEachOtherLeaveNothing: a key that transactions change all the time
// costs no memory, though nothing is applied in between.
func TestRowsThatReplaceEachOtherLeaveNothing(t *testing.T) {
	tier := mustOpen(t, Config{Path: Memory})
	const n = 50
	var last tiers.Committed
	for i := range n {
		last = mustCommit(t, tier, tiers.Commit{ID: fmt.Sprint("tx", i), Rows: []tiers.Row{row("cache", "k")}})
	}
	if in := tier.waiting.tiers["cache"]; len(tier.waiting.ids) != 1 || in.n != 1 || len(in.order) != 1 {
		t.Errorf("%d ids, %d keys and %d places of 1 row are kept", len(tier.waiting.ids), in.n, len(in.order))
	}
	if err := tier.Done(t.Context(), last.Rows); err != nil {
		t.Fatal(err)
	}
	if len(tier.waiting.ids) != 0 || len(tier.waiting.tiers) != 0 {
		t.Errorf("%d ids and %d tiers of no row are kept", len(tier.waiting.ids), len(tier.waiting.tiers))
	}
	for i := range n {
		if ok, err := tier.Outcome(t.Context(), fmt.Sprint("tx", i)); !ok || err != nil {
			t.Errorf("transaction %d: %v, %v", i, ok, err)
		}
	}
}
