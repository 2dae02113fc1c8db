package database

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

// told is a record that is found by these words.
func told(name string, words ...string) tiers.Record {
	r := plainJSON(name, `1`)
	r.Index = &tiers.IndexText{Words: words, Text: strings.Join(words, " ")}
	return r
}

func wantTold(t *testing.T, tier *Tier, when, word string, want ...string) {
	t.Helper()
	for _, s := range []tiers.Search{{Words: []string{word}}, {Part: word}} {
		var got []string
		s.Category = key("").Category
		for f, err := range tier.Search(t.Context(), s) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, f.Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: a search for %q finds %q, want %q", when, word, got, want)
		}
	}
}

func TestACommitSavesAndRemovesTexts(t *testing.T) {
	tier := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "sage.db")})
	mustCommit(t, tier, tiers.Commit{ID: "1", Saves: []tiers.Record{told("a", "apple"), told("b", "apple"), told("c", "apple")}})
	wantTold(t, tier, "committed", "apple", "a", "b", "c")
	gone := tiers.Record{Key: key("a"), Deleted: true}
	mustCommit(t, tier, tiers.Commit{ID: "2", Saves: []tiers.Record{gone, plainJSON("b", `2`), told("c", "plum")}})
	wantTold(t, tier, "committed", "apple")
	wantTold(t, tier, "committed", "plum", "c")
	_, err := tier.Commit(t.Context(), tiers.Commit{
		ID: "3", Saves: []tiers.Record{told("d", "apple"), plainJSON("c", `2`)}, Reads: []tiers.Read{{Key: key("c"), Version: 1}},
	})
	if !errors.Is(err, tiers.ErrConflict) {
		t.Fatal(err)
	}
	wantTold(t, tier, "refused", "apple")
	wantTold(t, tier, "refused", "plum", "c")
}

func TestOfAJobThatIsRolledBackNothingIsIndexed(t *testing.T) {
	tier := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "sage.db")})
	if _, err := tier.Save(t.Context(), told("there", "plum"), tiers.Cond{}); err != nil {
		t.Fatal(err)
	}
	// Many at once share transactions: those that fail are rolled back within one.
	errs := make(chan error)
	for i := range 40 {
		go func() {
			rs := []tiers.Record{told(fmt.Sprint("k", i), "apple"), told("there", "apple")}
			cs := []tiers.Cond{{}, tiers.If(0)}
			if i%2 == 0 {
				rs, cs = rs[:1], nil
			}
			_, err := tier.SaveMany(context.WithoutCancel(t.Context()), rs, cs)
			if errors.Is(err, tiers.ErrExists) && i%2 == 1 {
				err = nil
			}
			errs <- err
		}()
	}
	var want []string
	for i := range 40 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
		if i%2 == 0 {
			want = append(want, fmt.Sprint("k", i))
		}
	}
	slices.Sort(want)
	wantTold(t, tier, "rolled back", "apple", want...)
	wantTold(t, tier, "rolled back", "plum", "there")
}

func TestTheIndexOutlivesVacuumAndDeletesByHand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	tier := mustOpen(t, Config{Path: path})
	var want []string
	for i := range 50 {
		r := told(fmt.Sprintf("k%02d", i), "apple")
		r.Value = []byte(`"` + strings.Repeat("x", 2000) + `"`)
		if _, err := tier.Save(t.Context(), r, tiers.Cond{}); err != nil {
			t.Fatal(err)
		}
		if i%5 != 0 && i != 49 {
			want = append(want, r.Name)
		}
	}
	for i := 0; i < 50; i += 5 {
		if _, err := tier.Delete(t.Context(), key(fmt.Sprintf("k%02d", i)), tiers.Cond{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tier.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	db := rawDB(t, path)
	execRaw(t, db, `DELETE FROM records WHERE key = 'k49'`)
	execRaw(t, db, `VACUUM`)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	wantTold(t, mustOpen(t, Config{Path: path}), "after VACUUM", "apple", want...)
}

func TestACopyWhoseIndexIsNotThatOfItsRecordsIsCorrupt(t *testing.T) {
	for why, damage := range map[string]string{
		"":                                  `SELECT 1`,
		"an entry of no record":             `INSERT INTO search_words (rowid, words) VALUES (1000000, 'apple')`,
		"a record that is not in the index": `UPDATE records SET flags = flags | 256 WHERE key = 'plain'`,
		"an entry that is missing":          `DELETE FROM search_parts WHERE rowid = (SELECT rowid FROM records WHERE key = 'told')`,
		"an entry that nothing says":        `UPDATE records SET flags = 0 WHERE key = 'told'`,
		"a damaged index":                   `UPDATE search_words_data SET block = x'00ff00ff00' WHERE id > 10`,
		"a trigger that is missing":         `DROP TRIGGER records_unindex`,
	} {
		tier := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "sage.db")})
		for _, r := range []tiers.Record{told("told", "apple"), plainJSON("plain", `1`)} {
			if _, err := tier.Save(t.Context(), r, tiers.Cond{}); err != nil {
				t.Fatal(err)
			}
		}
		f, err := tier.Freeze(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "copy.db")
		copyTo(t, f, path)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		db := rawDB(t, path)
		execRaw(t, db, `PRAGMA journal_mode = delete`)
		execRaw(t, db, damage)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if err := mustOpenCopy(t, path).Check(t.Context()); why == "" && err != nil || why != "" && !errors.Is(err, tiers.ErrCorrupt) {
			t.Errorf("%q: the check of the copy says %v", why, err)
		}
	}
}

func TestAnOrderThatIsFullGoesOnInTheNext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	tier := mustOpen(t, Config{Path: path})
	at := func(name string, order int64) {
		r := told(name, "apple")
		r.Index.Order = order
		if _, err := tier.Save(t.Context(), r, tiers.Cond{}); err != nil {
			t.Fatal(err)
		}
	}
	at("first", 7)
	if err := tier.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The last place of order 7, as if all before it were taken.
	last := int64(7+1)<<placeBits - 1
	db := rawDB(t, path)
	execRaw(t, db, fmt.Sprintf(`UPDATE records SET flags = flags & 255 | %d << 8`, last))
	execRaw(t, db, fmt.Sprintf(`INSERT INTO search_parts (rowid, text) VALUES (%d, 'apple')`, last))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	tier = mustOpen(t, Config{Path: path})
	at("second", 7)
	at("third", 8)
	at("fourth", 6)
	var got []string
	for r, err := range tier.Top(t.Context(), tiers.Search{Category: key("").Category, Part: "apple"}) {
		got = append(got, fmt.Sprint(r.Name, " ", r.Order))
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"third 8", "second 8", "first 7", "fourth 6"}; !slices.Equal(got, want) {
		t.Errorf("the search yields %q, want %q", got, want)
	}
}

// TestEntriesThatWaitFollowWhatTheTransactionDoes saves, saves over and deletes texts in
// one transaction, which makes its entries of the index in the end.
func TestEntriesThatWaitFollowWhatTheTransactionDoes(t *testing.T) {
	tier := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "sage.db")})
	gone := tiers.Record{Key: key("gone"), Deleted: true}
	for round := range 2 {
		mustCommit(t, tier, tiers.Commit{ID: fmt.Sprint(round), Saves: []tiers.Record{
			told("gone", "apple"), told("over", "apple"), told("kept", "apple"), told("none", "apple"),
			gone, told("over", "plum"), plainJSON("none", `1`),
		}})
		wantTold(t, tier, "committed", "apple", "kept")
		wantTold(t, tier, "committed", "plum", "over")
	}
	f, err := tier.Freeze(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "copy.db")
	copyTo(t, f, path)
	if err := errors.Join(f.Close(), mustOpenCopy(t, path).Check(t.Context())); err != nil {
		t.Errorf("the index is not that of the records: %v", err)
	}
}
