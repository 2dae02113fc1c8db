package database

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

func TestCommits(t *testing.T) {
	t.Parallel()
	tiertest.RunCommit(t, openIn)
}

func TestCommitsInMemory(t *testing.T) {
	t.Parallel()
	tiertest.RunCommit(t, openMemory)
}

func row(tier, name string) tiers.Row {
	return tiers.Row{Record: plainJSON(name, `1`), Tier: tier, Owner: "owner"}
}

func mustCommit(t *testing.T, tier *Tier, c tiers.Commit) tiers.Committed {
	t.Helper()
	out, err := tier.Commit(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func wantCount(t *testing.T, tier *Tier, table string, want int64) {
	t.Helper()
	err := tier.read(t.Context(), func(c *conn) error {
		n, err := c.number(t.Context(), "SELECT count(*) FROM "+table)
		if n != want {
			t.Errorf("%s has %d entries, want %d", table, n, want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestATransactionIsCommittedOnce(t *testing.T) {
	tier := mustOpen(t, Config{Path: Memory})
	c := tiers.Commit{ID: "tx", Saves: []tiers.Record{plainJSON("k", `1`)}}
	first := mustCommit(t, tier, c).Saves[0]
	if _, err := tier.Commit(t.Context(), c); !errors.Is(err, tiers.ErrTxDone) {
		t.Fatalf("got %v, want %v", err, tiers.ErrTxDone)
	}
	if r, err := tier.Load(t.Context(), key("k")); err != nil || r.Version != first.Version {
		t.Errorf("version %d, %v; want %d", r.Version, err, first.Version)
	}
	if _, err := tier.Commit(t.Context(), tiers.Commit{Saves: c.Saves}); !errors.Is(err, tiers.ErrKey) {
		t.Errorf("without an id: %v, want %v", err, tiers.ErrKey)
	}
}

func TestACommitThatOnlyChecksWaitsForNoWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	tier := mustOpen(t, Config{Path: path})
	defer holdTurn(t, path)()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := tier.Commit(ctx, tiers.Commit{ID: "tx", Reads: []tiers.Read{{Key: key("k")}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := tier.Commit(ctx, tiers.Commit{ID: "tx", Reads: []tiers.Read{{Key: key("k"), Version: 1}}}); !errors.Is(err, tiers.ErrConflict) {
		t.Fatalf("got %v, want %v", err, tiers.ErrConflict)
	}
}

// TestWhatWasReadLongAgoIsLookedThroughAside: the entries are too many to be looked
// through while others wait, and one of them is what was read.
func TestWhatWasReadLongAgoIsLookedThroughAside(t *testing.T) {
	tier := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "sage.db"), Synchronous: Normal})
	since, err := tier.Sequence(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var rows []tiers.Row
	for i := range 3 * recentNear {
		rows = append(rows, row("cache", fmt.Sprint("k", i)))
	}
	out := mustCommit(t, tier, tiers.Commit{ID: "rows", Rows: rows})
	if err := tier.Done(t.Context(), out.Rows); err != nil {
		t.Fatal(err)
	}
	read := func(name string, v tiers.Version) tiers.Commit {
		return tiers.Commit{ID: "reads " + name + fmt.Sprint(v), Since: since, Saves: []tiers.Record{plainJSON("saved/"+name, `1`)}, RowReads: []tiers.RowRead{
			{Tier: "cache", Read: tiers.Read{Key: key("none"), Version: 7}},
			{Tier: "cache", Read: tiers.Read{Key: key(name), Version: v}},
		}}
	}
	last := out.Rows[len(out.Rows)-1]
	for _, c := range []struct {
		why  string
		c    tiers.Commit
		want error
	}{
		{"the oldest entry is another version", read("k0", 7), tiers.ErrConflict},
		{"the newest entry is another version", read(last.Name, 7), tiers.ErrConflict},
		{"the oldest entry was read", read("k0", out.Rows[0].Version), nil},
		{"nothing was written to it", read("other", 7), nil},
	} {
		if _, err := tier.Commit(t.Context(), c.c); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.why, err, c.want)
		}
		if ok, err := tier.Exists(t.Context(), c.c.Saves[0].Key); ok != (c.want == nil) || err != nil {
			t.Errorf("%s: the save is there: %v, %v", c.why, ok, err)
		}
	}
}

func TestATransactionFromBeforeWhatIsKnownRunsAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	tier := mustOpen(t, Config{Path: path, Synchronous: Normal})
	apply := func(n int) {
		t.Helper()
		var rows []tiers.Row
		for i := range n {
			rows = append(rows, row("cache", fmt.Sprint("k", i)))
		}
		out, err := tier.Append(t.Context(), rows, nil, 0)
		if err == nil {
			err = tier.Done(t.Context(), out)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	apply(3)
	if err := tier.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	db := rawDB(t, path) // as if very much had happened
	execRaw(t, db, "UPDATE counters SET value = ? WHERE name = 'journal'", 1_000_000)
	_ = db.Close()
	tier = mustOpen(t, Config{Path: path, Synchronous: Normal})
	read := func(id string, since uint64) error {
		_, err := tier.Commit(t.Context(), tiers.Commit{
			ID: id, Since: since, Saves: []tiers.Record{plainJSON("k", `1`)},
			RowReads: []tiers.RowRead{{Tier: "cache", Read: tiers.Read{Key: key("other")}}},
		})
		return err
	}
	if err := read("before", 2); err != nil {
		t.Fatalf("all is still known: %v", err)
	}
	apply(1)
	wantCount(t, tier, "recent", 1)
	if err := read("after", 2); !errors.Is(err, tiers.ErrConflict) {
		t.Errorf("got %v, want %v: what came after its first read is forgotten", err, tiers.ErrConflict)
	}
	if err := read("now", 1_000_000-recentKept); err != nil {
		t.Errorf("all since then is known: %v", err)
	}
	if _, err := tier.Commit(t.Context(), tiers.Commit{ID: "own", Since: 2, Saves: []tiers.Record{plainJSON("k", `1`)}}); err != nil {
		t.Errorf("nothing was read of another tier: %v", err)
	}
}

func TestWhatWasAppliedIsForgottenInTime(t *testing.T) {
	tier := mustOpen(t, Config{Path: Memory})
	for range 3 {
		err := tier.writer.do(t.Context(), &job{several: true, run: func(tx *tx) error {
			b, err := tx.openBooks()
			if err != nil {
				return err
			}
			for range recentKept / 200 {
				b.seq += 100
				if _, err := tx.exec(noteRecent, b.seq, "cache", "", "c", "k", b.seq, int64(0), int64(0)); err != nil {
					return err
				}
			}
			b.last = b.seq
			if _, err := tx.exec(setCounter, b.seq, "journal"); err != nil {
				return err
			}
			return tx.pruneRecent(recentKept / 2)
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	wantCount(t, tier, "recent", recentKept/100)
}

func TestTransactionsAreForgottenAfterADay(t *testing.T) {
	clock := tiertest.NewClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	tier := mustOpen(t, Config{Path: Memory, Clock: clock})
	n := 0
	commit := func(times int) {
		t.Helper()
		for range times {
			n++ // spread as random ids are
			mustCommit(t, tier, tiers.Commit{ID: fmt.Sprintf("%04x", n*40503%65536), OnlyOnce: fmt.Sprint(n)})
		}
	}
	commit(1000)
	wantCount(t, tier, "commits", 1000)
	clock.Advance(24 * time.Hour)
	commit(1000)
	wantCount(t, tier, "commits", 2000)
	clock.Advance(2 * time.Hour)
	commit(1000) // the hand comes round
	wantCount(t, tier, "commits", 2000)
	clock.Advance(48 * time.Hour)
	if _, err := tier.Sweep(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	wantCount(t, tier, "commits", 0)
}

func TestAStoreThatTakesNoMoreWritesTellsOutcomes(t *testing.T) {
	tier := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "sage.db")})
	mustCommit(t, tier, tiers.Commit{ID: "done", Saves: []tiers.Record{plainJSON("k", `1`)}})
	tier.writer.spoil(errors.New("input/output error"))
	if ok, err := tier.Outcome(t.Context(), "done"); !ok || err != nil {
		t.Errorf("of what was committed: %v, %v", ok, err)
	}
	_, err := tier.Outcome(t.Context(), "lost")
	if !errors.Is(err, tiers.ErrCommitUnknown) || !strings.Contains(err.Error(), "open it again") || !strings.Contains(err.Error(), "lost") {
		t.Errorf("of what can't be known: %v, want %v, what to do and the id", err, tiers.ErrCommitUnknown)
	}
	if _, err := tier.Commit(t.Context(), tiers.Commit{ID: "next", Saves: []tiers.Record{plainJSON("k", `2`)}}); !errors.Is(err, tiers.ErrUnavailable) {
		t.Errorf("a commit: %v, want %v", err, tiers.ErrUnavailable)
	}
	if _, err := tier.Commit(t.Context(), tiers.Commit{ID: "checks", Reads: []tiers.Read{{Key: key("none")}}}); err != nil {
		t.Errorf("a commit that only checks: %v", err)
	}
}

// TestRefusedRowsLeaveNoTraceInTheSums: what is kept from one transaction to the
// next must not hold what was rolled back.
func TestRefusedRowsLeaveNoTraceInTheSums(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	tier := mustOpen(t, Config{Path: path, Synchronous: Normal})
	other := mustOpen(t, Config{Path: path, Synchronous: Normal})
	var seq uint64
	for i := range 20 {
		store := []*Tier{tier, other}[i/3%2]
		bad := tiers.Commit{ID: fmt.Sprint("bad", i), Rows: []tiers.Row{row("cache", "a"), row("cache", "b")}, RowLimits: map[string]int64{"cache": 3}}
		if _, err := store.Commit(t.Context(), bad); !errors.Is(err, tiers.ErrFull) {
			t.Fatalf("got %v, want %v", err, tiers.ErrFull)
		}
		out := mustCommit(t, store, tiers.Commit{ID: fmt.Sprint("good", i), Rows: []tiers.Row{row("cache", "a"), row("file", "a")}})
		if out.Rows[0].Seq != seq+1 || out.Rows[1].Seq != seq+2 {
			t.Errorf("round %d: rows have seq %d and %d after %d", i, out.Rows[0].Seq, out.Rows[1].Seq, seq)
		}
		seq += 2
		if b, err := store.Backlog(t.Context(), "cache"); err != nil || b.Rows != 1 || b.Bytes != 2 {
			t.Errorf("round %d: the backlog is %+v, %v", i, b, err)
		}
	}
}

func TestErrorsSayThingsOnce(t *testing.T) {
	tier := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "sage.db")})
	limitRoom(t, tier, 2)
	big := plainJSON("big", `"`+strings.Repeat("x", 200_000)+`"`)
	_, one := tier.Save(t.Context(), big, tiers.Cond{})
	_, many := tier.SaveMany(t.Context(), []tiers.Record{big}, nil)
	_, commit := tier.Commit(t.Context(), tiers.Commit{ID: "tx", Saves: []tiers.Record{big}})
	for what, err := range map[string]error{"save": one, "save many": many, "commit": commit} {
		if !errors.Is(err, tiers.ErrFull) || strings.Count(err.Error(), "full: ") != 1 || strings.Count(err.Error(), "make room") != 1 {
			t.Errorf("%s: %v, want %v and what to do, once", what, err, tiers.ErrFull)
		}
	}
	tier.writer.spoil(errors.New("input/output error"))
	_, err := tier.Save(t.Context(), big, tiers.Cond{})
	if strings.Count(err.Error(), "unavailable") != 1 {
		t.Errorf("%v: it says so more than once", err)
	}
}

func TestDueRowsAreFoundAmongFewAndMany(t *testing.T) {
	tier := mustOpen(t, Config{Path: Memory})
	var all []tiers.Row
	for i := range 5000 {
		name := "many"
		if i%20 == 0 {
			name = "few"
		}
		all = append(all, row(name, fmt.Sprint("k", i*7919%100_003)))
	}
	out, err := tier.Append(t.Context(), all, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"few", "many", "none"} {
		var want, got []uint64
		for _, r := range out {
			if r.Tier == name {
				want = append(want, r.Seq)
			}
		}
		for after := uint64(0); ; after = got[len(got)-1] {
			due, err := tier.Due(t.Context(), name, after, 128)
			if err != nil {
				t.Fatal(err)
			}
			if len(due) == 0 {
				break
			}
			for _, r := range due {
				got = append(got, r.Seq)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d rows are due, in another order or number than the %d that were appended", name, len(got), len(want))
		}
	}
}
