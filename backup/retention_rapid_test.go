package backup_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sagestore/sagestore/backup"
)

func anyPolicy(t *rapid.T) backup.Policy {
	number := rapid.IntRange(0, 5)
	return backup.Policy{
		Last: number.Draw(t, "last"), Daily: number.Draw(t, "daily"), Weekly: number.Draw(t, "weekly"), Monthly: number.Draw(t, "monthly"),
		Age:  time.Duration(rapid.IntRange(0, 20).Draw(t, "days")) * 24 * time.Hour,
		Zone: time.FixedZone("", rapid.IntRange(-12, 14).Draw(t, "zone")*3600),
	}
}

// anyBackups draws backups of a year, hours to weeks apart, in order of time.
func anyBackups(t *rapid.T) (ks []backup.Kept) {
	when := at("2026-01-01")
	for i := range rapid.IntRange(0, 30).Draw(t, "backups") {
		when = when.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 5, 24, 24, 24, 25, 170, 800}).Draw(t, "hours")) * time.Hour)
		k := backup.Kept{ID: fmt.Sprintf("%04d", i), Created: when, Bytes: 1000}
		if rapid.IntRange(0, 3).Draw(t, "verified") > 0 {
			k.Verified = when
		}
		ks = append(ks, k)
	}
	return ks
}

func isVerified(k backup.Kept) bool { return !k.Verified.IsZero() }

func only(ks []backup.Kept, pred func(backup.Kept) bool) []backup.Kept {
	return slices.DeleteFunc(slices.Clone(ks), func(k backup.Kept) bool { return !pred(k) })
}

func decide(t *rapid.T, ks []backup.Kept, p backup.Policy, now time.Time) map[string]bool {
	ds, err := backup.Decide(ks, p, now)
	if err != nil {
		t.Fatal(err)
	}
	keep := make(map[string]bool)
	for _, d := range ds {
		keep[d.ID] = d.Keep
	}
	if len(keep) != len(ks) {
		t.Fatalf("%d decisions for %d backups", len(keep), len(ks))
	}
	return keep
}

func TestPruningLeavesEnoughAndIsDoneAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, ks := anyPolicy(t), anyBackups(t)
		now := at("2030-01-01")
		shuffled := rapid.Permutation(ks).Draw(t, "order")
		keep := decide(t, shuffled, p, now)
		verified := only(ks, isVerified)
		kept := only(ks, func(k backup.Kept) bool { return keep[k.ID] })
		if n := len(verified); n > 0 && !keep[verified[n-1].ID] {
			t.Fatalf("the newest verified one %s is removed", verified[n-1].ID)
		}
		want := p.Last
		if p.Last+p.Daily+p.Weekly+p.Monthly == 0 && p.Age == 0 {
			want = backup.DefaultLast
		}
		if got := len(only(kept, isVerified)); got < min(want, len(verified)) {
			t.Fatalf("%d verified ones are left of %d, with a last of %d", got, len(verified), want)
		}
		for id, again := range decide(t, kept, p, now.AddDate(1, 0, 0)) {
			if !again {
				t.Fatalf("%s was kept, and is removed the next time though nothing new came", id)
			}
		}
	})
}

// What one rule wanted and does not want now, it never wants again; what is gone
// would have been gone for good.
func TestWhatIsNoLongerNeededIsNeverNeededAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, ks := anyPolicy(t), anyBackups(t)
		pruned := rapid.Bool().Draw(t, "pruned between")
		gone := make(map[string]bool)
		var have []backup.Kept
		for _, k := range ks {
			have = append(have, k)
			keep := decide(t, have, p, k.Created)
			for id, stays := range keep {
				if gone[id] && stays {
					t.Fatalf("%s is kept again after %s came", id, k.ID)
				}
				gone[id] = !stays
			}
			if pruned {
				have = only(have, func(k backup.Kept) bool { return keep[k.ID] })
			}
		}
	})
}

// Pruning after each backup ends up with the same ones as pruning once.
func TestPruningOftenRemovesNoMoreThanPruningOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, ks := anyPolicy(t), anyBackups(t)
		var have []backup.Kept
		for _, k := range ks {
			have = append(have, k)
			keep := decide(t, have, p, k.Created)
			have = only(have, func(k backup.Kept) bool { return keep[k.ID] })
		}
		keep := decide(t, ks, p, at("2030-01-01"))
		for _, k := range ks {
			left := slices.ContainsFunc(have, func(h backup.Kept) bool { return h.ID == k.ID })
			if left != keep[k.ID] {
				t.Fatalf("%s: left %v, wanted %v", k.ID, left, keep[k.ID])
			}
		}
	})
}
