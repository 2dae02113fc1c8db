package txn_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/database"
	"github.com/sagestore/sagestore/txn"
)

// prepared stores records aside, for tiers with a journal and for the database.
func prepared(t *testing.T, w *store, values map[string]string) (moves []tiers.Move, in []txn.Incoming) {
	t.Helper()
	for _, name := range []string{"database", "cache", "file"} {
		from, to := tiers.Space{Category: "-" + name}, tiers.Space{Category: "c"}
		var all []tiers.Record
		for key, v := range values {
			r := record(key, v)
			r.Category, r.Version, r.Created, r.Updated = from.Category, 9, day, day
			all = append(all, r)
		}
		if err := w.db.Apply(t.Context(), all, nil); err != nil {
			t.Fatal(err)
		}
		if name == "database" {
			moves = append(moves, tiers.Move{From: from, To: to})
			continue
		}
		in = append(in, txn.Incoming{Tier: name, From: from, Gone: tiers.Space{Category: from.Category + "-gone"}, To: to})
	}
	return moves, in
}

var day = tiers.FromMicro(1_000_000_000_000_000)

// holding are keys and values of a tier.
func holding(t *testing.T, tier tiers.Tier) map[string]string {
	t.Helper()
	all := map[string]string{}
	for r, err := range tier.List(t.Context(), tiers.Query{Category: "c"}) {
		if err != nil {
			t.Fatal(err)
		}
		all[r.Name] = string(r.Value[1 : len(r.Value)-1])
		if got := loaded(t, tier, r.Name); got != all[r.Name] {
			t.Errorf("%s is listed as %q and loaded as %q", r.Name, all[r.Name], got)
		}
	}
	return all
}

func TestASwitchBringsInWhatWasPreparedForAllTiers(t *testing.T) {
	eachStore(t, func(t *testing.T, w *store) {
		t.Helper()
		want := map[string]string{}
		for i := range 260 { // more than a window of a list
			want[fmt.Sprintf("key/%03d", i)] = fmt.Sprint("new ", i)
		}
		moves, in := prepared(t, w, want)
		for _, name := range []string{"database", "cache", "file"} {
			for _, key := range []string{"key/003", "old", "zold"} {
				put(t, w.all[name], key, "old")
			}
			commit(t, w, name, "key/005", "a row")
			commit(t, w, name, "another", "a row")
		}
		moved, came, err := w.Switch(t.Context(), w.db, moves, in)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range append(moved, came...) {
			if m != (tiers.Moved{Brought: 260, Replaced: 5}) {
				t.Errorf("it says %+v", m)
			}
		}
		for _, when := range []string{"at once", "when it is applied"} {
			for _, name := range []string{"database", "cache", "file"} {
				if got := holding(t, w.all[name]); !maps.Equal(got, want) {
					t.Errorf("%s: %s has %d records, want %d", when, name, len(got), len(want))
				}
				j, journaled := w.all[name].(*txn.Journaled)
				if !journaled {
					continue
				}
				if r, err := j.Load(t.Context(), at("key/003")); err != nil || !r.Created.Equal(day) || r.Version <= 9 {
					t.Errorf("%s: %s has it as of %v in version %d: %v", when, name, r.Created, r.Version, err)
				}
				if left, err := j.Retry(t.Context(), true); left.Rows > 0 || err != nil {
					t.Errorf("%s: %+v wait: %v", name, left, err)
				}
			}
		}
		// What comes later goes over it.
		for _, name := range []string{"database", "cache", "file"} {
			before := put(t, w.all[name], "key/004", "later")
			commit(t, w, name, "key/004", "last")
			if r, err := w.all[name].Load(t.Context(), at("key/004")); err != nil || string(r.Value) != `"last"` || r.Version <= before.Version {
				t.Errorf("%s has %q in version %d after %d: %v", name, r.Value, r.Version, before.Version, err)
			}
		}
	})
}

// watched is a store in which something happens while a switch is decided.
type watched struct {
	*database.Tier
	meanwhile func(list int)
	lists     int
}

func (w *watched) List(ctx context.Context, q tiers.Query) iter.Seq2[tiers.Record, error] {
	w.lists++
	w.meanwhile(w.lists)
	return w.Tier.List(ctx, q)
}

func TestASwitchHoldsAgainstOtherProcesses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why  string
		does func(t *testing.T, other *store)
		want map[string]string
	}{
		{
			"a transaction comes before the switch, which begins anew",
			func(t *testing.T, other *store) { t.Helper(); commit(t, other, "file", "later", "theirs") },
			map[string]string{"a": "new"},
		},
		{
			"a transaction over what comes is before it as well",
			func(t *testing.T, other *store) { t.Helper(); commit(t, other, "file", "a", "theirs") },
			map[string]string{"a": "new"},
		},
		{
			"a bare save after the version was issued comes after the switch",
			func(t *testing.T, other *store) { t.Helper(); put(t, other.all["file"], "later", "theirs") },
			map[string]string{"a": "new", "later": "theirs"},
		},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			w, other := open(t, dir, false), open(t, dir, false)
			_, in := prepared(t, w, map[string]string{"a": "new"})
			put(t, w.all["file"], "old", "old")
			in = slices.DeleteFunc(in, func(i txn.Incoming) bool { return i.Tier != "file" })
			from := &watched{Tier: w.db, meanwhile: func(list int) {
				if list == 2 { // the first that counts
					c.does(t, other)
				}
			}}
			if _, _, err := w.Switch(t.Context(), from, nil, in); err != nil {
				t.Fatal(err)
			}
			for _, s := range []*store{w, other} {
				j, _ := s.all["file"].(*txn.Journaled)
				if left, err := j.Retry(t.Context(), true); left.Rows > 0 || err != nil {
					t.Errorf("%+v wait: %v", left, err)
				}
				if got := holding(t, j); !maps.Equal(got, c.want) {
					t.Errorf("it holds %v, want %v", got, c.want)
				}
			}
		})
	}
}

// TestNobodyOfTheProcessSavesWhileASwitchIsDecided: or what was saved would be seen, then
// what the switch brings, and then what was saved once more.
func TestNobodyOfTheProcessSavesWhileASwitchIsDecided(t *testing.T) {
	t.Parallel()
	w := open(t, t.TempDir(), false)
	_, in := prepared(t, w, map[string]string{"a": "new"})
	saved := make(chan error, 2)
	from := &watched{Tier: w.db, meanwhile: func(list int) {
		if list != 3 { // of the first of the two tiers, when both are held
			return
		}
		for _, name := range []string{"cache", "file"} {
			go func() {
				_, err := w.all[name].Save(context.Background(), record("a", "saved"), tiers.Cond{})
				saved <- err
			}()
		}
		select {
		case err := <-saved:
			t.Error("it is saved meanwhile")
			saved <- err
		case <-time.After(20 * time.Millisecond): // too short to see every fault, and it finds none where there is none
		}
	}}
	if _, _, err := w.Switch(t.Context(), from, nil, in); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-saved; err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"cache", "file"} {
		if got := loaded(t, w.all[name], "a"); got != "saved" {
			t.Errorf("%s has %q", name, got)
		}
	}
}

func TestASwitchIntoATierThatIsAwayChangesNothing(t *testing.T) {
	t.Parallel()
	w := open(t, t.TempDir(), true)
	moves, in := prepared(t, w, map[string]string{"a": "new"})
	for _, name := range []string{"database", "cache", "file"} {
		put(t, w.all[name], "old", "old")
	}
	w.server.set(true)
	if _, _, err := w.Switch(t.Context(), w.db, moves, in); !errors.Is(err, tiers.ErrUnavailable) {
		t.Errorf("it answers %v", err)
	}
	w.server.set(false)
	for _, name := range []string{"database", "cache", "file"} {
		if got := holding(t, w.all[name]); !maps.Equal(got, map[string]string{"old": "old"}) {
			t.Errorf("%s holds %v", name, got)
		}
	}
	for tier, want := range map[string]bool{"database": true, "cache": true, "file": true, "memory": false, "none": false} {
		if w.Switches(tier) != want {
			t.Errorf("something can be brought into %s: %v", tier, !want)
		}
	}
	if _, _, err := w.Switch(t.Context(), w.db, nil, []txn.Incoming{{Tier: "memory"}}); !errors.Is(err, tiers.ErrUnsupported) {
		t.Errorf("into memory: %v", err)
	}
}
