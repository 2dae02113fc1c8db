package txn_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sagestore/sagestore/internal/redistest"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/txn"
)

// The cells of the table of isolation in docs/ARCHITECTURE.md that are not tests
// of their own elsewhere in this package.

// eachPair runs a test on two handles of one store, with its cache on files and
// on Redis. seen waits for what the handles of a store see of each other's rows.
func eachPair(t *testing.T, run func(t *testing.T, one, two *store, seen func())) {
	t.Helper()
	t.Parallel()
	t.Run("files", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		run(t, open(t, dir, false), open(t, dir, false), func() {})
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		dir, url := t.TempDir(), redistest.Start(t).URL()
		one, two := openOn(t, dir, false, url), openOn(t, dir, false, url)
		run(t, one, two, func() { applied(t, one, "cache") })
	})
}

func TestBetweenProcessesACommitIsSeenAtOnce(t *testing.T) {
	eachPair(t, commitIsSeen)
}

func commitIsSeen(t *testing.T, one, two *store, seen func()) {
	t.Helper()
	ctx := context.Background()
	for _, name := range durable {
		for _, value := range []string{"1", "2"} {
			commit(t, one, name, "k", value)
			seen()
			if got := loaded(t, two.all[name], "k"); got != value {
				t.Errorf("%s: the other handle loads %q after the commit of %q", name, got, value)
			}
			var listed []string
			for r, err := range two.all[name].List(ctx, tiers.Query{Category: "c"}) {
				if err != nil {
					t.Fatal(err)
				}
				listed = append(listed, string(r.Value))
			}
			if len(listed) != 1 || listed[0] != `"`+value+`"` {
				t.Errorf("%s: the other handle lists %q", name, listed)
			}
		}
	}
}

func TestBetweenProcessesNobodySeesAPart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	nobodySeesAPart(t, open(t, dir, false), open(t, dir, false), durable)
}

func TestBetweenProcessesAChangeAfterTheReadIsAConflict(t *testing.T) {
	eachPair(t, changeAfterRead)
}

func changeAfterRead(t *testing.T, one, two *store, seen func()) {
	t.Helper()
	ctx := context.Background()
	for _, name := range durable {
		for why, change := range map[string]func(){
			"a bare save":   func() { put(t, two.all[name], "k", "2") },
			"a bare delete": func() { _, _ = two.all[name].Delete(ctx, at("k"), tiers.Cond{}) },
			"a commit":      func() { commit(t, two, name, "k", "3") },
		} {
			put(t, one.all[name], "k", "1")
			seen()
			err := one.Update(ctx, func(tx *txn.Tx) error {
				_ = loaded(t, tx.Tier(name), "k")
				change()
				_, err := tx.Tier(name).Save(ctx, record("mine", why), tiers.Cond{})
				return err
			}, txn.Options{})
			if !errors.Is(err, tiers.ErrConflict) {
				t.Errorf("%s: %s in another process: %v", name, why, err)
			}
		}
	}
}

func TestBetweenProcessesAListingIsProtected(t *testing.T) {
	eachPair(t, listingIsProtected)
}

func listingIsProtected(t *testing.T, one, two *store, _ func()) {
	t.Helper()
	ctx := context.Background()
	for _, name := range durable {
		put(t, one.all[name], "a", "1")
		err := one.Update(ctx, func(tx *txn.Tx) error {
			for _, err := range tx.Tier(name).List(ctx, tiers.Query{Category: "c"}) {
				if err != nil {
					return err
				}
			}
			commit(t, two, name, "b", "2")
			_, err := tx.Tier("database").Save(ctx, record("sum", "1"), tiers.Cond{})
			return err
		}, txn.Options{})
		if !errors.Is(err, tiers.ErrConflict) {
			t.Errorf("%s: a commit of another process into what was listed: %v", name, err)
		}
	}
}

// A save of one process follows what another has committed, and no row is applied
// over it later.
func TestBetweenProcessesABareSaveFollowsACommit(t *testing.T) {
	eachPair(t, saveFollowsCommit)
}

func saveFollowsCommit(t *testing.T, one, two *store, seen func()) {
	t.Helper()
	ctx := context.Background()
	for _, name := range durable {
		for round := range 8 {
			commit(t, one, name, "k", "committed")
			seen()
			r, err := one.all[name].Load(ctx, at("k"))
			if err != nil {
				t.Fatal(err)
			}
			if round%2 == 0 {
				if existed, err := two.all[name].Delete(ctx, at("k"), tiers.Cond{}); err != nil || !existed {
					t.Fatalf("%s: deleting answers %v, %v", name, existed, err)
				}
			} else if later := put(t, two.all[name], "k", "saved"); later.Version <= r.Version {
				t.Fatalf("%s: version %d follows %d", name, later.Version, r.Version)
			}
			want := []string{"", "saved"}[round%2]
			for wait := range 3 {
				if wait == 2 && name != "database" {
					applied(t, one, name)
				}
				for i, w := range []*store{one, two} {
					if got := loaded(t, w.all[name], "k"); got != want {
						t.Fatalf("%s, round %d, handle %d: %q is loaded, want %q", name, round, i, got, want)
					}
				}
			}
		}
	}
}
