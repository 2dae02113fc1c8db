package database

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

// TestASaveAgainMeetsWhatOthersDidToTheRow: the handle knows the row of its last
// save, and the row has changed since.
func TestASaveAgainMeetsWhatOthersDidToTheRow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why   string
		ttl   time.Duration // of the first save
		do    func(t *testing.T, other *Tier, clock *tiertest.Clock)
		again bool // the record is a new one, with a Created of its own
		fails error
	}{
		{why: "nothing", do: func(*testing.T, *Tier, *tiertest.Clock) {}},
		{why: "another save", do: func(t *testing.T, other *Tier, _ *tiertest.Clock) {
			t.Helper()
			mustSave(t, other, plainJSON("u1", `5`))
		}, fails: tiers.ErrConflict},
		{why: "a delete", again: true, fails: tiers.ErrConflict, do: func(t *testing.T, other *Tier, _ *tiertest.Clock) {
			t.Helper()
			mustDelete(t, other, key("u1"))
		}},
		{why: "a delete, and another record in the row", again: true, fails: tiers.ErrConflict, do: func(t *testing.T, other *Tier, clock *tiertest.Clock) {
			t.Helper()
			mustDelete(t, other, key("u1"))
			clock.Advance(-time.Second) // to the instant of the first
			mustSave(t, other, plainJSON("u9", `9`))
			clock.Advance(time.Second)
		}},
		{why: "a new record in the same row", again: true, fails: tiers.ErrConflict, do: func(t *testing.T, other *Tier, _ *tiertest.Clock) {
			t.Helper()
			mustDelete(t, other, key("u1"))
			mustSave(t, other, plainJSON("u1", `5`))
		}},
		{why: "a new record in another row", again: true, fails: tiers.ErrConflict, do: func(t *testing.T, other *Tier, clock *tiertest.Clock) {
			t.Helper()
			mustDelete(t, other, key("u1"))
			mustSave(t, other, plainJSON("u9", `9`))
			mustSave(t, other, plainJSON("u1", `5`))
			clock.Advance(time.Second)
		}},
		{why: "its expiry", ttl: time.Minute, again: true, fails: tiers.ErrConflict, do: func(_ *testing.T, _ *Tier, clock *tiertest.Clock) {
			clock.Advance(time.Hour)
		}},
		{why: "a touch", ttl: time.Minute, do: func(t *testing.T, other *Tier, clock *tiertest.Clock) {
			t.Helper()
			if ok, err := other.Touch(t.Context(), key("u1"), 2*time.Hour); !ok || err != nil {
				t.Fatal(ok, err)
			}
			clock.Advance(time.Hour)
		}},
	} {
		for _, conditional := range []bool{false, true} {
			t.Run(fmt.Sprint(c.why, ", conditional ", conditional), func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "sage.db")
				clock := tiertest.NewClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
				if err := makeNew(path); err != nil {
					t.Fatal(err)
				}
				tier := mustOpen(t, Config{Path: path, Clock: clock})
				other := mustOpen(t, Config{Path: path, Clock: clock})
				r := plainJSON("u1", `1`)
				r.TTL = c.ttl
				first := mustSave(t, tier, r)
				clock.Advance(time.Second)
				c.do(t, other, clock)
				cond := tiers.Cond{}
				if conditional {
					cond = tiers.If(first.Version)
				}
				saved, err := tier.Save(t.Context(), plainJSON("u1", `2`), cond)
				if conditional && c.fails != nil {
					if !errors.Is(err, c.fails) {
						t.Fatalf("got %+v, %v, want %v", saved, err, c.fails)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				stored, err := other.Load(t.Context(), key("u1"))
				if err != nil || string(stored.Value) != `2` || stored.Version != saved.Version || !stored.Created.Equal(saved.Created) {
					t.Errorf("stored is %+v, %v; answered was %+v", stored, err, saved)
				}
				if saved.Version <= first.Version || saved.Created.After(first.Created) != c.again {
					t.Errorf("the first is %+v, the second %+v", first, saved)
				}
				if r, err := other.Load(t.Context(), key("u9")); err == nil && string(r.Value) != `9` {
					t.Errorf("another record holds %s", r.Value)
				}
			})
		}
	}
}

func mustSave(t *testing.T, tier *Tier, r tiers.Record) tiers.Record {
	t.Helper()
	saved, err := tier.Save(t.Context(), r, tiers.Cond{})
	if err != nil {
		t.Fatal(err)
	}
	return saved
}

func mustDelete(t *testing.T, tier *Tier, k tiers.Key) {
	t.Helper()
	if ok, err := tier.Delete(t.Context(), k, tiers.Cond{}); !ok || err != nil {
		t.Fatal(ok, err)
	}
}

func TestASaveOverARecordWritesOnePage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sage.db")
	tier := mustOpen(t, Config{Path: path, Synchronous: Normal})
	size := func() int64 {
		st, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return st.Size()
	}
	var rs []tiers.Record
	for i := range 100 {
		rs = append(rs, plainJSON(fmt.Sprintf("k-%04d", i), `"`+strings.Repeat("x", 1000)+`"`))
	}
	if _, err := tier.SaveMany(t.Context(), rs, nil); err != nil {
		t.Fatal(err)
	}
	before := size()
	for _, r := range rs {
		mustSave(t, tier, r)
	}
	// Seldom one more, with the reserved versions.
	if pages := (size() - before) / pageSize; pages > 110 {
		t.Errorf("100 saves wrote %d pages to the log", pages)
	}
}

func TestTheSecondWayToARowIsByItsRowid(t *testing.T) {
	tier := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "sage.db")})
	err := tier.read(t.Context(), func(c *conn) error {
		for _, query := range []string{replaceRow, replaceVersion} {
			row, err := c.first(t.Context(), "EXPLAIN QUERY PLAN "+query, make([]driver.Value, strings.Count(query, "?"))...)
			if err != nil {
				return err
			}
			if plan := fmt.Sprint(row[3]); !strings.Contains(plan, "INTEGER PRIMARY KEY (rowid=?)") {
				t.Errorf("the plan is %s", plan)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
