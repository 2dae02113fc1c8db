package backup

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers/tiertest"
)

// judged answers what becomes of each backup, by its id.
func judged(t *testing.T, r *Repo, p Policy) map[string]Decision {
	t.Helper()
	p.Zone = time.UTC
	ds, err := r.Prune(t.Context(), p, false)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]Decision{}
	for _, d := range ds {
		all[d.ID] = d
	}
	return all
}

const cantJudge = "can't be judged here: "

func TestARotatedKeyCostsNoBackup(t *testing.T) {
	s := newStore(t, t.TempDir())
	clock := tiertest.NewClock(night)
	dir := Dir(filepath.Join(t.TempDir(), "backups"))
	with := func(key string, old ...string) *Repo {
		o := options(t)
		o.Clock, o.Key = clock, []byte(key)
		for _, k := range old {
			o.OldKeys = append(o.OldKeys, []byte(k))
		}
		return mustRepo(t, dir, o)
	}
	const first, second = "the first key of all", "the second key of all"
	var old []string
	for range 3 {
		old = append(old, mustCreate(t, with(first), s).ID)
		clock.Advance(24 * time.Hour)
	}
	clock.Advance(60 * 24 * time.Hour)
	m := mustCreate(t, with(second), s)
	if m.Number != 4 {
		t.Errorf("the fourth backup has number %d", m.Number)
	}
	for _, key := range []string{second, "a key that nobody knows"} {
		all := judged(t, with(key), Policy{Last: 1})
		for _, id := range old {
			if d := all[id]; !d.Keep || !strings.HasPrefix(d.Why, cantJudge) {
				t.Errorf("of another key, read with %q: %+v", key, d)
			}
		}
	}
	if n := len(entries(t, with(second))); n != 4 {
		t.Fatalf("%d backups are left", n)
	}
	// Whoever names the old key has them judged again.
	r := with(second, first)
	for _, e := range entries(t, r) {
		if e.Err != nil || !e.Authentic || e.Verified.IsZero() {
			t.Errorf("with the old key: %+v", e)
		}
	}
	if report, err := r.Verify(t.Context(), old[0], false); err != nil || !report.Authentic {
		t.Errorf("with the old key: %+v, %v", report, err)
	}
	judged(t, r, Policy{Last: 2})
	if left := entries(t, r); len(left) != 2 || left[0].ID != m.ID || left[1].ID != old[2] {
		t.Errorf("left are %+v", left)
	}
}

func TestABackupOfANewerVersionIsNeverPruned(t *testing.T) {
	for _, object := range []string{manifestObject, verifiedObject} {
		t.Run(object, func(t *testing.T) {
			s := newStore(t, t.TempDir())
			o, b := options(t), newBucket()
			clock := tiertest.NewClock(night)
			o.Clock = clock
			r := mustRepo(t, b, o)
			newer := mustCreate(t, r, s)
			name := newer.ID + "/" + object
			text := bytes.Replace(b.objects[name], []byte(`"format": 1,`), []byte(`"format": 2, "new": true,`), 1)
			b.objects[name] = bytes.Replace(text, []byte(`"number": 1,`), []byte(`"number": 7,`), 1)
			next := uint64(2)
			if object == manifestObject {
				next = 8
			}
			for i := range uint64(3) {
				clock.Advance(30 * 24 * time.Hour)
				if m := mustCreate(t, r, s); m.Number != next+i {
					t.Errorf("the next one has number %d, want %d", m.Number, next+i)
				}
				if d := judged(t, r, Policy{Last: 1})[newer.ID]; !d.Keep || !strings.HasPrefix(d.Why, cantJudge) {
					t.Errorf("of a newer version: %+v", d)
				}
			}
			if left := entries(t, r); len(left) != 2 {
				t.Errorf("left are %+v", left)
			}
		})
	}
}

// TestNoNumberIsGivenTwice: of two with one number nobody knows which is the newest.
func TestNoNumberIsGivenTwice(t *testing.T) {
	s := newStore(t, t.TempDir())
	for _, c := range []struct {
		why  string
		text string
		want uint64
	}{
		{"it is damaged", `{"format": 1, "id": "x", "number": 41, "created": `, 42},
		{"its number is the last one that can be written", `{"format": 2, "number": 18446744073709551615}`, 1},
		{"it has none", `{"format": 2, "number": -3}`, 1},
		{"it is empty", ``, 1},
	} {
		b := newBucket()
		b.objects["20261127T033000Z-00000001/"+manifestObject] = []byte(c.text)
		if m := mustCreate(t, mustRepo(t, b, options(t)), s); m.Number != c.want {
			t.Errorf("%s: the next one has number %d, want %d", c.why, m.Number, c.want)
		}
	}
}

func TestWhatCantBeJudgedCountsForNothing(t *testing.T) {
	now := night.AddDate(1, 0, 0)
	var all []Kept
	for i := range 6 {
		k := Kept{ID: fmt.Sprint(i), Created: night.AddDate(0, 0, i), Verified: night.AddDate(0, 0, i), Bytes: 1000}
		if i > 3 { // newer than all others, and larger
			k.Unjudged, k.Bytes = "no key", 1<<40
		}
		all = append(all, k)
	}
	ds, err := Decide(all, Policy{Last: 2, Zone: time.UTC}, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range ds {
		if want := d.ID >= "2"; d.Keep != want || d.ID >= "4" != (d.Why == cantJudge+"no key") {
			t.Errorf("%+v", d)
		}
	}
}
