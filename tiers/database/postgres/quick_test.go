package postgres

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func TestSaveWithoutAConditionIsOneExchange(t *testing.T) {
	c, p := behindProxy(t)
	tier := open1(t, c)
	once := 0
	const saves = 50
	for range saves {
		before := p.Sent()
		if _, err := tier.Save(t.Context(), record("k", "v"), tiers.Cond{}); err != nil {
			t.Fatal(err)
		}
		if p.Sent() == before+1 {
			once++
		}
	}
	// Where this program had to wait for a processor the next transaction may have been given up.
	if once < saves/5 {
		t.Errorf("%d of %d saves one after the other took one exchange", once, saves)
	}
}

func TestNobodyWritesWhileAnotherProcessHasTheTurn(t *testing.T) {
	tier := open1(t, shared(t))
	if _, err := tier.Save(t.Context(), record("k", "before"), tiers.Cond{}); err != nil {
		t.Fatal(err)
	}
	// The saves come while the next transaction is open, and after it was given up.
	for _, wait := range []time.Duration{0, 3 * held} {
		other, err := tier.read.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Exec(t.Context(), takeTurn, lockKey(tier.schema, "writer")); err != nil {
			t.Fatal(err)
		}
		_ = tiers.SystemClock().Sleep(t.Context(), wait)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, err = tier.Save(ctx, record("k", "after"), tiers.Cond{})
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, tiers.ErrCommitUnknown) {
				t.Errorf("a save that had no turn answers %v", err)
			}
		}
		if err := other.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := tier.Save(t.Context(), record("other", "v"), tiers.Cond{}); err != nil {
			t.Errorf("a save afterwards answers %v", err)
		}
		if r, err := tier.Load(t.Context(), named("k")); err != nil || string(r.Value) != "before" {
			t.Errorf("what nobody had a turn for is stored: %q, %v", r.Value, err)
		}
	}
}

// quickGroup stores records of several jobs in one group, as the writer does, and forgets
// the answer.
func quickGroup(t *testing.T, tier *Tier, groups ...[]tiers.Record) (x *tx, jobs []*job, got *[]tiers.Record) {
	t.Helper()
	c, err := tier.read.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	w := newWriter(tier, false)
	w.conn = c
	got = &[]tiers.Record{}
	q := &quick{}
	for _, records := range groups {
		ps, _, err := tier.prepareAll("save", records)
		if err != nil {
			t.Fatal(err)
		}
		j := &job{plain: ps, stored: func(_ int, r tiers.Record) { *got = append(*got, r) }, done: make(chan struct{})}
		jobs, q.jobs, q.all = append(jobs, j), append(q.jobs, j), append(q.all, ps...)
	}
	if !w.openFirst() {
		t.Fatal("no transaction is begun")
	}
	x = newTx(w, nil)
	x.xid, x.life, x.quick = w.open.xid, w.open.life, q
	if free, err := x.writeQuick(); !free || err != nil {
		t.Fatalf("the group is not stored: %v, %v", free, err)
	}
	if _, err := w.conn.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	return x, jobs, got
}

func TestAGroupGivesEachSaveAVersionAndStoresTheLastOfAKey(t *testing.T) {
	tier := open1(t, shared(t))
	first, err := tier.Save(t.Context(), record("a", "first"), tiers.Cond{})
	if err != nil {
		t.Fatal(err)
	}
	lasting := record("c", "c")
	lasting.TTL = time.Hour
	_, _, got := quickGroup(t, tier,
		[]tiers.Record{record("a", "1")}, []tiers.Record{record("b", "2"), record("a", "3")}, []tiers.Record{lasting, record("a", "4")})
	last := first.Version
	for i, r := range *got {
		if r.Version <= last {
			t.Errorf("save %d has version %d after %d", i, r.Version, last)
		}
		last = r.Version
		if want := r.Name == "a"; r.Created.Equal(first.Created) != want {
			t.Errorf("save %d of %q was created %v, the first %v", i, r.Name, r.Created, first.Created)
		}
	}
	for name, i := range map[string]int{"a": 4, "b": 1, "c": 3} {
		r, err := tier.Load(t.Context(), named(name))
		want := (*got)[i]
		if err != nil || r.Version != want.Version || !r.Created.Equal(want.Created) || !r.Updated.Equal(want.Updated) || !r.Expires.Equal(want.Expires) {
			t.Errorf("%q loads %+v with %v, want %+v", name, r, err, want)
		}
	}
	if r := (*got)[3]; r.Expires.Sub(r.Updated) != time.Hour {
		t.Errorf("it expires %v after it was saved, want an hour", r.Expires.Sub(r.Updated))
	}
	after, err := tier.Save(t.Context(), record("d", "v"), tiers.If(0))
	if err != nil || after.Version <= last {
		t.Errorf("a save afterwards has version %d with %v, want more than %d", after.Version, err, last)
	}
}

func TestLostAnswerOfAGroupIsFoundByWhatItHasStored(t *testing.T) {
	tier := open1(t, shared(t))
	x, jobs, got := quickGroup(t, tier, []tiers.Record{record("a", "1"), record("a", "2")}, []tiers.Record{record("b", "3")})
	want := slices.Clone(*got)
	recall := func() {
		*got = nil
		for _, j := range jobs {
			j.err = nil
		}
		x.quick.top, x.quick.now, x.quick.created = 0, 0, nil
		x.recall(t.Context(), jobs)
	}
	same := func(why string) {
		t.Helper()
		recall()
		for i, j := range jobs {
			if j.err != nil {
				t.Errorf("%s: job %d answers %v", why, i, j.err)
			}
		}
		for i, r := range *got {
			if r.Version != want[i].Version || !r.Updated.Equal(want[i].Updated) {
				t.Errorf("%s: save %d has version %d of %v, want %d of %v", why, i, r.Version, r.Updated, want[i].Version, want[i].Updated)
			}
		}
	}
	same("all of it is there")
	if _, err := tier.Delete(t.Context(), named("a"), tiers.Cond{}); err != nil {
		t.Fatal(err)
	}
	same("one key was deleted")
	if _, err := tier.Save(t.Context(), record("b", "another"), tiers.Cond{}); err != nil {
		t.Fatal(err)
	}
	recall()
	for i, j := range jobs {
		if !errors.Is(j.err, tiers.ErrCommitUnknown) {
			t.Errorf("after others have replaced all of it job %d answers %v, want ErrCommitUnknown", i, j.err)
		}
	}
}
