package backup_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/backup"
)

func at(text string) time.Time {
	for _, layout := range []string{"2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t
		}
	}
	panic("no time: " + text)
}

// copies makes a backup per line: "2026-03-01 03:30", and "no" behind it for one
// that is not verified. The time is the ID.
func copies(lines ...string) (ks []backup.Kept) {
	for _, line := range lines {
		text, no := strings.CutSuffix(line, " no")
		k := backup.Kept{ID: text, Created: at(text), Bytes: 1000}
		if !no {
			k.Verified = k.Created.Add(time.Minute)
		}
		ks = append(ks, k)
	}
	return ks
}

func nights(from string, n int) (lines []string) {
	for i := range n {
		lines = append(lines, at(from+" 03:30").AddDate(0, 0, i).Format("2006-01-02 15:04"))
	}
	return lines
}

func ids(ds []backup.Decision, keep bool) (out []string) {
	for _, d := range ds {
		if d.Keep == keep {
			out = append(out, d.ID)
		}
	}
	slices.Sort(out)
	return out
}

func TestDecide(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		why    string
		have   []string
		policy backup.Policy
		now    string
		gone   []string
	}{
		{"ten nights leave the seven newest", nights("2026-03-01", 10), backup.Policy{Last: 7}, "2026-03-10 04:00", nights("2026-03-01", 3)},
		{"a policy without a rule keeps seven", nights("2026-03-01", 10), backup.Policy{}, "2026-03-10 04:00", nights("2026-03-01", 3)},
		{
			"failing nights cost no good backup", append(nights("2026-03-01", 7), "2026-03-08 03:30 no", "2026-03-22 03:30 no"),
			backup.Policy{Last: 7},
			"2026-03-22 04:00", nil,
		},
		{"an age is counted from the newest", nights("2026-03-01", 10), backup.Policy{Age: 7 * day}, "2026-09-01", nights("2026-03-01", 3)},
		{"an age leaves one at least", nights("2026-03-01", 1), backup.Policy{Age: day}, "2026-09-01", nil},
		{
			"days are those of the zone",
			[]string{"2026-03-01 12:00", "2026-03-01 22:00", "2026-03-02 01:00", "2026-03-02 23:30"},
			backup.Policy{Daily: 2, Zone: time.FixedZone("", 3*3600)},
			"2026-03-03",
			[]string{"2026-03-01 12:00", "2026-03-01 22:00"},
		},
		{
			"days without a backup do not count",
			[]string{"2026-01-05", "2026-01-06 03:00", "2026-01-06 09:00", "2026-03-01", "2026-03-09"},
			backup.Policy{Daily: 3, Zone: time.UTC},
			"2026-03-09 12:00",
			[]string{"2026-01-05", "2026-01-06 03:00"},
		},
		{
			"weeks begin on Monday and belong to the year of their Thursday",
			[]string{"2026-12-28", "2027-01-03", "2027-01-04"},
			backup.Policy{Weekly: 2, Zone: time.UTC},
			"2027-01-04 12:00",
			[]string{"2026-12-28"},
		},
		{
			"rules add up",
			[]string{"2026-01-31", "2026-02-27", "2026-02-28", "2026-03-01", "2026-03-02", "2026-03-03"},
			backup.Policy{Last: 2, Monthly: 3, Zone: time.UTC},
			"2026-03-03 12:00",
			[]string{"2026-02-27", "2026-03-01"},
		},
		{
			"one not verified goes when the newest verified one is a week newer",
			[]string{"2026-03-01 no", "2026-03-03 no", "2026-03-08", "2026-03-09 no"},
			backup.Policy{Last: 1},
			"2026-12-01",
			[]string{"2026-03-01"},
		},
		{"without a verified one all stay", []string{"2026-03-01 no", "2026-04-01 no"}, backup.Policy{Last: 1}, "2026-12-01", nil},
		{"nothing to decide", nil, backup.Policy{Last: 1}, "2026-12-01", nil},
		{
			"a clock set back by a minute is no reason", nights("2026-03-01", 3),
			backup.Policy{Last: 2, Seen: at("2026-03-03 03:31")},
			"2026-03-03 03:29", nights("2026-03-01", 1),
		},
		{
			"an accepted clock leaves backups from the future alone", append(nights("2026-03-01", 3), "2036-03-01 03:30"),
			backup.Policy{Last: 2, Accepted: at("2026-03-03 03:00")},
			"2026-03-03 04:00", nights("2026-03-01", 1),
		},
	} {
		t.Run(c.why, func(t *testing.T) {
			ds, err := backup.Decide(copies(c.have...), c.policy, at(c.now))
			if err != nil {
				t.Fatal(err)
			}
			if len(ds) != len(c.have) || !slices.IsSortedFunc(ds, func(a, b backup.Decision) int { return strings.Compare(b.ID, a.ID) }) {
				t.Errorf("%d decisions, not one for each of %d newest first: %v", len(ds), len(c.have), ds)
			}
			if got := ids(ds, false); !slices.Equal(got, c.gone) {
				t.Errorf("removes %q, want %q: %v", got, c.gone, ds)
			}
			for _, d := range ds {
				if d.Why == "" || strings.ContainsAny(d.Why, "\n\r") {
					t.Errorf("%s is explained by %q", d.ID, d.Why)
				}
			}
		})
	}
}

func TestABackupOfUnknownTimeStaysAndDoesNotCount(t *testing.T) {
	for _, verified := range []time.Time{{}, at("2026-03-01")} {
		have := append(copies(nights("2026-03-01", 3)...), backup.Kept{ID: "damaged", Verified: verified, Bytes: 1 << 40})
		ds, err := backup.Decide(have, backup.Policy{Last: 2}, at("2026-03-03 04:00"))
		if got, want := ids(ds, false), nights("2026-03-01", 1); err != nil || !slices.Equal(got, want) {
			t.Errorf("removes %q, want %q: %v, %v", got, want, ds, err)
		}
	}
}

func TestBackupsOfAnotherStoreStayAndDoNotCount(t *testing.T) {
	have := copies(nights("2026-03-01", 6)...)
	for i := range have {
		have[i].Store = []string{"own", "other"}[i%2]
	}
	ds, err := backup.Decide(have, backup.Policy{Last: 2, Store: "own"}, at("2026-03-06 04:00"))
	if got, want := ids(ds, false), nights("2026-03-01", 1); err != nil || !slices.Equal(got, want) {
		t.Errorf("removes %q, want %q: %v, %v", got, want, ds, err)
	}
}

func TestWhatCouldLoseBackupsIsRefused(t *testing.T) {
	shrunk := copies(nights("2026-03-01", 10)...)
	shrunk[9].Bytes = 499
	fewer, nearly := copies(nights("2026-03-01", 10)...), copies(nights("2026-03-01", 10)...)
	for i := range fewer {
		fewer[i].Records, nearly[i].Records = 31, 19
	}
	fewer[9].Records, nearly[9].Records = 15, 9
	gone, leftOut, empty := copies(nights("2026-03-01", 10)...), copies(nights("2026-03-01", 10)...), copies(nights("2026-03-01", 10)...)
	for i := range gone {
		gone[i].Records, empty[i].Records = 9, 1
		empty[i].Parts = map[string]int64{"database": 1}
		gone[i].Parts, leftOut[i].Parts = map[string]int64{"database": 9, "file": 1}, map[string]int64{"database": 9, "file": 1}
	}
	gone[9].Parts, leftOut[9].Parts = map[string]int64{"database": 9, "file": 0}, map[string]int64{"database": 9}
	empty[9].Records, empty[9].Parts = 0, map[string]int64{"database": 0}
	smallSince := slices.Clone(shrunk)
	smallSince[8].Bytes = 499
	otherShrunk := slices.Clone(shrunk)
	otherShrunk[9].Store = "other"
	unverifiedShrunk := copies(nights("2026-03-01", 10)...)
	unverifiedShrunk[9].Bytes, unverifiedShrunk[9].Verified = 1, time.Time{}
	shared := copies(nights("2026-03-01", 10)...)
	for i := range shared {
		shared[i].Store = []string{"", "one", "other"}[i%3]
	}
	alone := copies(nights("2026-03-01", 10)...)
	alone[0].Store = "one"
	for _, c := range []struct {
		why    string
		have   []backup.Kept
		policy backup.Policy
		now    string
		text   string // of the error; "": none
	}{
		{"the newest lies in the future", copies(nights("2026-03-01", 10)...), backup.Policy{}, "2026-03-09", "clock went backwards"},
		{"one that is not verified lies in the future", copies("2026-03-01", "2036-03-01 no"), backup.Policy{}, "2026-03-09", "clock went backwards"},
		{"a later time was seen", copies(nights("2026-03-01", 10)...), backup.Policy{Seen: at("2036-01-01")}, "2026-03-10 04:00", "--accept-clock"},
		{"a later time was seen though the clock was accepted before", copies(nights("2026-03-01", 10)...), backup.Policy{Seen: at("2036-01-01"), Accepted: at("2026-01-01")}, "2026-03-10 04:00", "--accept-clock"},
		{"the newest has less than half", shrunk, backup.Policy{}, "2026-03-10 04:00", "--accept-smaller"},
		{"the one before the newest had", smallSince, backup.Policy{}, "2026-03-10 04:00", "--accept-smaller"},
		{"the newest has less than half of the records", fewer, backup.Policy{}, "2026-03-10 04:00", "has 15 records, less than half of the 31 of "},
		{"a few records are gone", nearly, backup.Policy{}, "2026-03-10 04:00", ""},
		{"the newest has nothing of a part", gone, backup.Policy{}, "2026-03-10 04:00", "has no record of the part file, of which "},
		{"that is accepted", gone, backup.Policy{Smaller: at("2026-03-10 04:00")}, "2026-03-10 04:00", ""},
		{"the newest is empty, which was allowed", empty, backup.Policy{}, "2026-03-10 04:00", ""},
		{"the newest leaves a part out", leftOut, backup.Policy{}, "2026-03-10 04:00", ""},
		{"fewer records are accepted", fewer, backup.Policy{Smaller: at("2026-03-10 04:00")}, "2026-03-10 04:00", ""},
		{"it is accepted", shrunk, backup.Policy{Smaller: at("2026-03-10 04:00")}, "2026-03-10 04:00", ""},
		{"an earlier one was accepted", shrunk, backup.Policy{Smaller: at("2026-03-09 04:00")}, "2026-03-10 04:00", "--accept-smaller"},
		{"it is accepted by a clock that was wrong", shrunk, backup.Policy{Smaller: at("2036-03-10")}, "2026-03-10 04:00", "--accept-smaller"},
		{"that of another store is compared with none", otherShrunk, backup.Policy{Store: "own"}, "2026-03-10 04:00", ""},
		{"one that is not verified is compared with none", unverifiedShrunk, backup.Policy{}, "2026-03-10 04:00", ""},
		{"they are of two stores", shared, backup.Policy{}, "2026-03-10 04:00", "they are of 2 stores"},
		{"they are of two stores, one of which is meant", shared, backup.Policy{Store: "one"}, "2026-03-10 04:00", ""},
		{"they are of one store", alone, backup.Policy{}, "2026-03-10 04:00", ""},
		{"none is known to be of the store", alone, backup.Policy{Unknown: "it is new"}, "2026-03-10 04:00", "it is new, so none of the backups is known to be its"},
		{"it is not known of any whose it is", copies(nights("2026-03-01", 10)...), backup.Policy{Unknown: "it is new"}, "2026-03-10 04:00", ""},
		{"one is there twice", copies("2026-03-01", "2026-03-02", "2026-03-01"), backup.Policy{}, "2026-03-09", "twice"},
		{"a number below 0", copies("2026-03-01", "2026-03-02"), backup.Policy{Last: 1, Daily: -1}, "2026-03-09", "below 0"},
	} {
		t.Run(c.why, func(t *testing.T) {
			ds, err := backup.Decide(c.have, c.policy, at(c.now))
			if c.text == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, backup.ErrRefused) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("the error is %v, want one with %q", err, c.text)
			}
			if got := ids(ds, true); len(got) != len(c.have) {
				t.Errorf("keeps %d of %d", len(got), len(c.have))
			}
		})
	}
}

func ExampleDecide() {
	backups := copies("2026-02-27", "2026-02-28", "2026-03-01", "2026-03-02 no", "2026-03-03")
	decisions, err := backup.Decide(backups, backup.Policy{Last: 2, Monthly: 2, Zone: time.UTC}, at("2026-03-03 12:00"))
	for _, d := range decisions {
		fmt.Println(d.ID, d.Keep, d.Why)
	}
	fmt.Println(err)

	_, err = backup.Decide(backups, backup.Policy{}, at("2026-02-01"))
	fmt.Println(err)
	// Output:
	// 2026-03-03 true the newest verified one, 1 of the last 2, the last of month 2026-03
	// 2026-03-02 true not verified; removed once a verified one is 7 days newer
	// 2026-03-01 true 2 of the last 2
	// 2026-02-28 true the last of month 2026-02
	// 2026-02-27 false not needed for the last 2 or 2 months
	// <nil>
	// prune: no backup is removed: the clock went backwards: it is 2026-02-01 00:00 UTC and backup 2026-03-03 is of 2026-03-03 00:00 UTC (correct the clock; if it is right now, accept it with `sagestore backup prune --accept-clock`)
}
