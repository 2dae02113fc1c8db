package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

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
			ctx, cancel := context.WithCancel(t.Context())
			answer := make(chan error, 1)
			go func() {
				_, err := tier.Save(ctx, record("k", "after"), tiers.Cond{})
				answer <- err
			}()
			stuck(t, tier, 1, `locktype = 'advisory' AND classid::bigint << 32 | objid::bigint = $1`, lockKey(tier.schema, "writer"))
			cancel()
			if err := <-answer; !errors.Is(err, context.Canceled) || errors.Is(err, tiers.ErrCommitUnknown) {
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
	for _, step := range []struct {
		why     string
		change  func() error
		unknown []bool // by job
	}{
		{"all of it is there", func() error { return nil }, []bool{false, false}},
		{"one key was deleted", func() error { _, err := tier.Delete(t.Context(), named("a"), tiers.Cond{}); return err }, []bool{true, false}},
		{"the other was replaced", func() error { _, err := tier.Save(t.Context(), record("b", "another"), tiers.Cond{}); return err }, []bool{true, true}},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		*got = nil
		for _, j := range jobs {
			j.err = nil
		}
		x.recall(t.Context(), jobs)
		var known []tiers.Record
		for i, unknown := range step.unknown {
			if errors.Is(jobs[i].err, tiers.ErrCommitUnknown) != unknown || (jobs[i].err != nil) != unknown {
				t.Errorf("%s: job %d answers %v", step.why, i, jobs[i].err)
			}
			if !unknown {
				known = append(known, want[2*i:min(2*i+2, 3)]...)
			}
		}
		if !slices.EqualFunc(*got, known, func(a, b tiers.Record) bool {
			return a.Key == b.Key && a.Version == b.Version && a.Updated.Equal(b.Updated) && a.Created.Equal(b.Created)
		}) {
			t.Errorf("%s: the results are %v, want %v", step.why, *got, known)
		}
	}
}

// stuck waits until so many statements wait for a lock.
func stuck(t *testing.T, tier *Tier, n int, which string, args ...any) {
	t.Helper()
	clock := tiers.SystemClock()
	for deadline := clock.Now().Add(time.Minute); ; _ = clock.Sleep(t.Context(), time.Millisecond) {
		var got int
		err := tier.read.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND `+which, args...).Scan(&got)
		if err != nil {
			t.Fatal(err)
		}
		if got >= n {
			return
		}
		if clock.Now().After(deadline) {
			t.Fatalf("%d statements wait, want %d", got, n)
		}
	}
}

// blocked waits until a statement waits for a row.
func blocked(t *testing.T, tier *Tier) {
	t.Helper()
	stuck(t, tier, 1, `l.locktype IN ('transactionid', 'tuple') AND a.query LIKE '%' || $1 || '.records%'`, tier.schema)
}

// holding locks the row of a key as another writer does that is about to replace it.
func holding(t *testing.T, tier *Tier, name string) pgx.Tx {
	t.Helper()
	tx, err := tier.snapshots.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	if _, err := tx.Exec(t.Context(), "SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), tier.sql(`SELECT FROM ~.records WHERE key = $1 FOR UPDATE`), name); err != nil {
		t.Fatal(err)
	}
	return tx
}

// Groups of several processes get their versions before they get to the rows.
func TestGroupThatComesToAKeyLastHasTheHighestVersionOfIt(t *testing.T) {
	tier := open1(t, shared(t))
	if _, err := tier.Save(t.Context(), record("k", "before"), tiers.Cond{}); err != nil {
		t.Fatal(err)
	}
	other := holding(t, tier, "k")
	type result struct {
		got []tiers.Record
		err error
	}
	late := make(chan result, 1)
	go func() {
		got, err := tier.SaveMany(t.Context(), []tiers.Record{record("a", "1"), record("k", "2"), record("k", "3"), record("z", "4")}, nil)
		late <- result{got, err}
	}()
	blocked(t, tier)
	// Another group has got its versions since, and is committed first.
	var top, updated int64
	err := other.QueryRow(t.Context(), tier.sql(`UPDATE ~.records SET version = setval('~.version', pg_sequence_last_value('~.version') + 1000), updated = updated + 60000000
		WHERE key = 'k' RETURNING version, updated`)).Scan(&top, &updated)
	if err == nil {
		err = other.Commit(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	r := <-late
	if r.err != nil {
		t.Fatal(r.err)
	}
	a, k2, k3, z := r.got[0], r.got[1], r.got[2], r.got[3]
	if a.Version >= z.Version || z.Version >= version(top) {
		t.Errorf("keys that nobody else has stored have versions %d and %d, want them below %d and one below the other", a.Version, z.Version, top)
	}
	if k2.Version <= version(top) || k3.Version <= k2.Version {
		t.Errorf("the key has versions %d and %d after %d", k2.Version, k3.Version, top)
	}
	if !k3.Updated.Equal(tiers.FromMicro(updated)) {
		t.Errorf("it was updated %v, before the save that it replaces, %v", k3.Updated, tiers.FromMicro(updated))
	}
	if got, err := tier.Load(t.Context(), named("k")); err != nil || got.Version != k3.Version || string(got.Value) != "3" || !got.Updated.Equal(k3.Updated) {
		t.Errorf("it loads %+v with %v, want %+v", got, err, k3)
	}
	next, err := tier.Save(t.Context(), record("a", "5"), tiers.If(a.Version))
	if err != nil || next.Version <= k3.Version {
		t.Errorf("the next save has version %d with %v, want more than %d", next.Version, err, k3.Version)
	}
}

func TestManySavesGoOnWhileOneGroupWaitsForTheServer(t *testing.T) {
	tier := open1(t, shared(t))
	if _, err := tier.Save(t.Context(), record("k", "before"), tiers.Cond{}); err != nil {
		t.Fatal(err)
	}
	other := holding(t, tier, "k")
	late := make(chan error, 1)
	go func() {
		_, err := tier.Save(t.Context(), record("k", "after"), tiers.Cond{})
		late <- err
	}()
	blocked(t, tier)
	errs := make(chan error, 2*enough)
	for i := range cap(errs) {
		go func() {
			_, err := tier.Save(t.Context(), record(fmt.Sprint("other", i), "v"), tiers.Cond{})
			errs <- err
		}()
	}
	// What is too little for a group of its own waits for the writer.
	for range enough {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range enough {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if err := <-late; err != nil {
		t.Fatal(err)
	}
}

// Several handles save the same keys without a condition. No two saves get one version,
// and what is stored in the end is the save with the highest.
func TestSavesOfSeveralProcessesGetVersionsOfTheirOwn(t *testing.T) {
	c := shared(t)
	const handles, callers, saves, keys = 3, 10, 12, 5
	var mu sync.Mutex
	seen, last := map[tiers.Version]bool{}, map[string]tiers.Record{}
	var wg sync.WaitGroup
	for h := range handles {
		tier := open1(t, c)
		for n := range callers {
			wg.Go(func() {
				var before tiers.Version
				for i := range saves {
					// Each in another order, as groups must not wait for each other in a circle.
					var rs []tiers.Record
					for k := range 2 {
						rs = append(rs, record(fmt.Sprint("k", (h+n+i+k*h)%keys), fmt.Sprint(h, n, i, k)))
					}
					got, err := tier.SaveMany(t.Context(), rs, nil)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for _, r := range got {
						if seen[r.Version] || r.Version <= before {
							t.Errorf("a save after version %d has version %d, and another has it: %v", before, r.Version, seen[r.Version])
						}
						seen[r.Version] = true
						if r.Version > last[r.Name].Version {
							last[r.Name] = r
						}
					}
					before = max(before, got[0].Version, got[1].Version)
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	tier := open1(t, c)
	for name, want := range last {
		got, err := tier.Load(t.Context(), named(name))
		if err != nil || got.Version != want.Version || string(got.Value) != string(want.Value) {
			t.Errorf("%q loads %q of version %d with %v, want %q of %d", name, got.Value, got.Version, err, want.Value, want.Version)
		}
	}
}
