package txn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/tiertest"
	"github.com/sagestore/sagestore/txn"
)

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func TestWorkGoesOnWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tiers.SystemClock())
	j := w.open()
	save(t, j, "kept", "1")
	save(t, j, "changed", "1")
	save(t, j, "deleted", "1")

	w.server.set(true)
	before := save(t, j, "changed", "2")
	after := save(t, j, "changed", "3")
	if after.Version <= before.Version {
		t.Errorf("version %d after %d", after.Version, before.Version)
	}
	if existed, err := j.Delete(t.Context(), key("deleted"), tiers.Cond{}); err != nil || !existed {
		t.Errorf("delete of what may be there: %v, %v", existed, err)
	}
	if existed, err := j.Delete(t.Context(), key("deleted"), tiers.Cond{}); err != nil || existed {
		t.Errorf("delete of what was deleted: %v, %v", existed, err)
	}
	for name, want := range map[string]string{"kept": "unavailable", "changed": "3", "deleted": "absent", "never": "unavailable"} {
		if got := shown(t, j, name); got != want {
			t.Errorf("%s while away: %s, want %s", name, got, want)
		}
	}
	if got := listed(t, j, tiers.Query{}); got != "unavailable" {
		t.Errorf("a list is never a part of the list: %s", got)
	}
	if rs, err := j.LoadMany(t.Context(), []tiers.Key{key("changed"), key("kept"), key("deleted")}); !errors.Is(err, tiers.ErrUnavailable) ||
		string(rs[0].Value) != "3" || rs[1].Version != 0 || strings.Contains(err.Error(), `"deleted"`) || !strings.Contains(err.Error(), `"kept"`) {
		t.Errorf("load many: %v, %v", rs, err)
	}
	for what, err := range map[string]error{
		"a condition on a row":          second(j.Save(t.Context(), rec("changed", "4"), tiers.If(after.Version))),
		"a condition on a key":          second(j.Save(t.Context(), rec("kept", "4"), tiers.If(0))),
		"a condition in a batch":        second(j.SaveMany(t.Context(), []tiers.Record{rec("a", "1"), rec("b", "1")}, []tiers.Cond{{}, tiers.If(0)})),
		"a delete with a condition":     second(j.Delete(t.Context(), key("changed"), tiers.If(after.Version))),
		"touching a key without a row":  second(j.Touch(t.Context(), key("kept"), time.Hour)),
		"whether one without a row is?": second(j.Exists(t.Context(), key("kept"))),
		"applying":                      j.Apply(t.Context(), []tiers.Record{after}, nil),
	} {
		if !errors.Is(err, tiers.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if existed, err := j.Touch(t.Context(), key("changed"), time.Hour); err != nil || !existed {
		t.Errorf("touching a row: %v, %v", existed, err)
	}
	if got := shown(t, j, "a"); got != "unavailable" {
		t.Errorf("a refused batch left %s", got)
	}

	w.server.set(false)
	eventually(t, "the journal is applied", func() bool { return w.backlog() == 0 })
	if got := listed(t, w.inner, tiers.Query{}); got != "changed=3 kept=1 " {
		t.Errorf("on the server: %s", got)
	}
	if r, err := w.inner.Load(t.Context(), key("changed")); err != nil || r.Expires.IsZero() {
		t.Errorf("touched: %+v, %v", r, err)
	}
	if got := listed(t, j, tiers.Query{}); got != "changed=3 kept=1 " {
		t.Errorf("in the end: %s", got)
	}
}

func second[T any](_ T, err error) error { return err }

func TestTheJournalIsTheWholeTruthUntilTheServerWasReached(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tiers.SystemClock())
	w.server.set(true)
	j := w.open()
	if got := shown(t, j, "a"); got != "absent" {
		t.Errorf("nothing can be there: %s", got)
	}
	a, err := j.Save(t.Context(), rec("a", "1"), tiers.If(0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Save(t.Context(), rec("a", "2"), tiers.If(0)); !errors.Is(err, tiers.ErrExists) {
		t.Errorf("a second creation: %v", err)
	}
	if _, err := j.Save(t.Context(), rec("a", "2"), tiers.If(a.Version+1)); !errors.Is(err, tiers.ErrConflict) {
		t.Errorf("another version: %v", err)
	}
	a2, err := j.Save(t.Context(), rec("a", "2"), tiers.If(a.Version))
	if err != nil || a2.Version <= a.Version || !a2.Created.Equal(a.Created) {
		t.Errorf("%+v after %+v: %v", a2, a, err)
	}
	save(t, j, "b", "1")
	if got := listed(t, j, tiers.Query{}); got != "a=2 b=1 " {
		t.Error(got)
	}
	if n, _, err := tiers.Count(t.Context(), j, key("").Space()); err != nil || n != 2 {
		t.Errorf("%d, %v", n, err)
	}

	w.server.set(false)
	eventually(t, "the journal is applied", func() bool { return w.backlog() == 0 })
	a3, err := j.Save(t.Context(), rec("a", "3"), tiers.If(a2.Version)) // now on the server
	if err != nil || a3.Version <= a2.Version {
		t.Errorf("%+v after %+v: %v", a3, a2, err)
	}
	w.server.set(true)
	if got := shown(t, j, "c"); got != "unavailable" {
		t.Errorf("the server was reached, so nobody knows: %s", got)
	}
	if got := shown(t, w.open(), "c"); got != "unavailable" {
		t.Errorf("the same for a process that starts now: %s", got)
	}
	w.config.Epoch = "e2"
	if got := shown(t, w.open(), "c"); got != "absent" {
		t.Errorf("under another epoch nothing is there: %s", got)
	}
}

func TestOneOfManyProcessesCreatesAKeyWhileTheServerComesUp(t *testing.T) {
	t.Parallel()
	for round := range 20 {
		w := newWorld(t, tiers.SystemClock())
		w.server.set(true)
		handles := []*txn.Journaled{w.open(), w.open(), w.open(), w.open()}
		results := make(chan error, len(handles))
		for i, j := range handles {
			go func() {
				_, err := j.Save(t.Context(), rec("k", fmt.Sprint(i)), tiers.If(0))
				results <- err
			}()
		}
		w.server.set(false)
		created := 0
		for range handles {
			err := <-results
			if err == nil {
				created++
			} else if !errors.Is(err, tiers.ErrExists) && !errors.Is(err, tiers.ErrUnavailable) {
				t.Error(err)
			}
		}
		if created > 1 {
			t.Fatalf("round %d: %d created the key", round, created)
		}
	}
}

func TestASaveWithoutAnAnswerIsKnownInTheEnd(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{true, false} {
		w := newWorld(t, tiers.SystemClock())
		j := w.open()
		fail := func() {
			w.server.mu.Lock()
			defer w.server.mu.Unlock()
			if done {
				w.server.unknown = 1
			} else {
				w.server.lost = 1
			}
		}
		save(t, j, "k", "1")
		save(t, j, "gone", "1")
		fail()
		if save(t, j, "k", "2"); shown(t, j, "k") != "2" {
			t.Errorf("done %v: %s", done, shown(t, j, "k"))
		}
		save(t, j, "k", "3")
		fail()
		if _, err := j.Delete(t.Context(), key("gone"), tiers.Cond{}); err != nil || shown(t, j, "gone") != "absent" {
			t.Errorf("done %v: %v, %s", done, err, shown(t, j, "gone"))
		}
		eventually(t, "the journal is applied", func() bool { return w.backlog() == 0 })
		if got := listed(t, w.inner, tiers.Query{}); got != "k=3 " {
			t.Errorf("done %v: %s", done, got)
		}
		// With a condition it can't be done again, and stays unknown.
		fail()
		if _, err := j.Save(t.Context(), rec("new", "1"), tiers.If(0)); !errors.Is(err, tiers.ErrCommitUnknown) {
			t.Errorf("done %v: %v", done, err)
		}
	}
}

// deaf is a system store that takes no rows while it has an error to say.
type deaf struct {
	tiers.System
	err atomic.Pointer[error]
}

func (d *deaf) Append(ctx context.Context, rows []tiers.Row, conds []tiers.Cond, limit int64) ([]tiers.Row, error) {
	if err := d.err.Load(); err != nil {
		return nil, *err
	}
	return d.System.Append(ctx, rows, conds, limit)
}

func TestAChangeWithoutAnAnswerThatTheJournalDoesNotTakeIsUnknown(t *testing.T) {
	t.Parallel()
	for _, why := range []error{tiers.ErrFull, tiers.ErrUnavailable, context.DeadlineExceeded} {
		w := newWorld(t, tiers.SystemClock())
		d := &deaf{System: w.system}
		w.system = d
		j := w.open()
		save(t, j, "k", "1")
		d.err.Store(&why)
		for name, change := range map[string]func() error{
			"save":        func() error { _, err := j.Save(t.Context(), rec("k", "2"), tiers.Cond{}); return err },
			"delete":      func() error { _, err := j.Delete(t.Context(), key("k"), tiers.Cond{}); return err },
			"save many":   func() error { _, err := j.SaveMany(t.Context(), []tiers.Record{rec("k", "3")}, nil); return err },
			"delete many": func() error { _, err := j.DeleteMany(t.Context(), []tiers.Key{key("k")}, nil); return err },
		} {
			w.server.mu.Lock()
			w.server.unknown = 1
			w.server.mu.Unlock()
			if err := change(); !errors.Is(err, tiers.ErrCommitUnknown) || errors.Is(err, tiers.ErrUnavailable) {
				t.Errorf("%s, of which the server has done and said nothing, and the journal %q: %v", name, why, err)
			}
			w.server.set(true)
			if err := change(); !errors.Is(err, why) || errors.Is(err, tiers.ErrCommitUnknown) {
				t.Errorf("%s, which reached no server, and of which the journal says %q: %v", name, why, err)
			}
			w.server.set(false)
		}
	}
}

func TestACallerThatLeftIsNotAnsweredByTheJournal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tiers.SystemClock())
	j := w.open()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.server.set(true)
	if _, err := j.Save(ctx, rec("k", "1"), tiers.Cond{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if w.backlog() != 0 {
		t.Error("the save became a row")
	}
}

func TestAnExpiredRowDeletesWhatIsOnTheServer(t *testing.T) {
	t.Parallel()
	clock := tiertest.NewClock(start)
	w := newWorld(t, clock)
	j := w.open()
	save(t, j, "k", "old")
	w.server.set(true)
	r := rec("k", "new")
	r.TTL = time.Second
	if _, err := j.Save(t.Context(), r, tiers.Cond{}); err != nil || shown(t, j, "k") != "new" {
		t.Fatal(err)
	}
	clock.Advance(time.Second)
	if got := shown(t, j, "k"); got != "absent" {
		t.Errorf("expired: %s", got)
	}
	if n, err := j.Sweep(t.Context(), 10); n != 0 || !errors.Is(err, tiers.ErrUnavailable) {
		t.Errorf("it is not swept while it has to delete: %d, %v", n, err)
	}
	w.server.set(false)
	eventually(t, "the journal is applied", func() bool { return w.backlog() == 0 })
	if got := shown(t, w.inner, "k"); got != "absent" {
		t.Errorf("on the server: %s", got)
	}
}

func TestTheJournalHasALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tiers.SystemClock())
	w.config.Limit = 100
	j := w.open()
	w.server.set(true)
	save(t, j, "a", strings.Repeat("x", 90))
	_, err := j.Save(t.Context(), rec("b", strings.Repeat("x", 90)), tiers.Cond{})
	if !errors.Is(err, tiers.ErrFull) || !strings.Contains(err.Error(), "100") {
		t.Errorf("over the limit: %v", err)
	}
	if _, err := j.Delete(t.Context(), key("b"), tiers.Cond{}); err != nil {
		t.Errorf("deletes always fit: %v", err)
	}
	found := j.Diagnose(t.Context())
	if f := found[len(found)-1]; f.OK || f.Subject != "journal" || !strings.Contains(f.Message, "2 records") || f.Hint == "" {
		t.Errorf("%+v", f)
	}
}

func TestAConditionWaitsForTheRowOfItsKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tiers.SystemClock())
	j := w.open()
	for i := range 20 {
		w.server.set(true)
		row := save(t, j, "k", "row")
		w.server.set(false)
		saved, err := j.Save(t.Context(), rec("k", "after"), tiers.If(row.Version))
		if err != nil || saved.Version <= row.Version {
			t.Fatalf("round %d: %v", i, err)
		}
		if got := shown(t, j, "k"); got != "after" {
			t.Fatalf("round %d: %s", i, got)
		}
	}
}

func TestARefusedRowStaysAndHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tiers.SystemClock())
	j := w.open()
	w.server.refuse = func(r tiers.Record) error {
		if string(r.Value) == "bad" {
			return fmt.Errorf("%w: this one", tiers.ErrTooLarge)
		}
		return nil
	}
	w.server.set(true)
	save(t, j, "a", "1")
	bad := save(t, j, "b", "bad")
	save(t, j, "c", "1")
	w.server.set(false)
	eventually(t, "the others are applied", func() bool { return w.backlog() == 1 })
	if got := shown(t, j, "b"); got != "bad" {
		t.Errorf("the row is the answer: %s", got)
	}
	if _, err := j.Save(t.Context(), rec("b", "2"), tiers.If(bad.Version)); !errors.Is(err, tiers.ErrTooLarge) {
		t.Errorf("a condition on it: %v", err)
	}
	save(t, j, "b", "good")
	eventually(t, "all is applied", func() bool { return w.backlog() == 0 })
	if got := listed(t, w.inner, tiers.Query{}); got != "a=1 b=good c=1 " {
		t.Error(got)
	}
}

func TestCloseAppliesWhatItCanAndLeavesTheRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tiers.SystemClock())
	j := w.open()
	w.server.set(true)
	save(t, j, "k", "1")
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.backlog() != 1 {
		t.Errorf("%d rows are left", w.backlog())
	}
	if _, err := j.Load(t.Context(), key("k")); !errors.Is(err, tiers.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Errorf("a second Close: %v", err)
	}

	// The next process serves the row at once, and applies it.
	j = w.open()
	if got := shown(t, j, "k"); got != "1" {
		t.Error(got)
	}
	w.server.set(false)
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := shown(t, w.inner, "k"); got != "1" || w.backlog() != 0 {
		t.Errorf("%s on the server, %d rows", got, w.backlog())
	}
}

func TestOneProcessAppliesAtATime(t *testing.T) {
	t.Parallel()
	clock := tiertest.NewClock(start)
	w := newWorld(t, clock)
	j := w.open()
	unlock, ok, err := w.system.Lock(t.Context(), "cache.applier") // as another process has it
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.server.set(true)
	save(t, j, "k", "1")
	w.server.set(false)
	for range 20 { // as good as it gets for something that must not happen
		clock.Advance(100 * time.Millisecond)
		_ = tiers.SystemClock().Sleep(t.Context(), time.Millisecond)
	}
	if w.backlog() != 1 || shown(t, j, "k") != "1" {
		t.Errorf("%d rows, %s", w.backlog(), shown(t, j, "k"))
	}
	unlock()
	eventually(t, "the other one is done", func() bool {
		clock.Advance(100 * time.Millisecond)
		return w.backlog() == 0
	})
}

func TestARowGoesOnlyOverTheVersionItWasMadeFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tiers.SystemClock())
	j := w.open()
	noted := save(t, j, "same", "1")
	other := save(t, j, "other", "1")
	later := save(t, j, "other", "later")
	w.server.set(true)
	rows := []tiers.Row{
		{Tier: "cache", Record: rec("same", "tx"), Over: tiers.If(noted.Version)},
		{Tier: "cache", Record: rec("other", "tx"), Over: tiers.If(other.Version)},
	}
	for i := range rows {
		rows[i].Version = later.Version + 100
	}
	if _, err := w.system.Append(t.Context(), rows, nil, 0); err != nil {
		t.Fatal(err)
	}
	w.server.set(false)
	eventually(t, "the journal is applied", func() bool { return w.backlog() == 0 })
	if got := listed(t, w.inner, tiers.Query{}); got != "other=later same=tx " {
		t.Error(got)
	}
}

func TestRowsOfAnotherProcessAreSeenSoon(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tiers.SystemClock())
	a, b := w.open(), w.open()
	save(t, a, "k", "1")
	w.server.set(true)
	save(t, a, "k", "2")
	eventually(t, "the other process sees the row", func() bool { return shown(t, b, "k") == "2" })
	save(t, b, "k", "3")
	if got := shown(t, a, "k"); got != "3" {
		t.Errorf("a row over a row: %s", got)
	}
	w.server.set(false)
	eventually(t, "the journal is applied", func() bool { return w.backlog() == 0 })
	if got := shown(t, w.inner, "k"); got != "3" {
		t.Error(got)
	}
}

// counting counts the questions about single keys.
type counting struct {
	tiers.System
	asked atomic.Int64
}

func (c *counting) Pending(ctx context.Context, tier string, k tiers.Key) (tiers.Row, error) {
	c.asked.Add(1)
	return c.System.Pending(ctx, tier, k)
}

func TestWithoutRowsTheJournalIsNotAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tiers.SystemClock())
	c := &counting{System: w.system}
	w.system = c
	j := w.open()
	before := c.asked.Load()
	for range 100 {
		save(t, j, "k", "1")
		if got := shown(t, j, "k"); got != "1" {
			t.Fatal(got)
		}
		if _, err := j.Save(t.Context(), rec("other", "1"), tiers.If(0)); err != nil && !errors.Is(err, tiers.ErrExists) {
			t.Fatal(err)
		}
	}
	if n := c.asked.Load() - before; n != 0 {
		t.Errorf("it was asked %d times", n)
	}
}

func TestRowsAreNewerThanWhatTheServerHasIssued(t *testing.T) {
	t.Parallel()
	clock := tiertest.NewClock(start)
	w := newWorld(t, clock)
	w.server.ahead = time.Hour
	j := w.open()
	stored := rec("k", "on the server")
	stored.Version = tiers.Version(start.Add(time.Hour).UnixMicro())
	if err := w.inner.Apply(t.Context(), []tiers.Record{stored}, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the clock of the server is noted", func() bool {
		clock.Advance(time.Second)
		_, err := w.system.Fact(t.Context(), "cache.clock")
		return err == nil
	})
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A process that starts while the server is away knows of it all the same.
	w.server.set(true)
	w.server.mu.Lock()
	w.server.unmet = true
	w.server.mu.Unlock()
	j = w.open()
	if r := save(t, j, "k", "row"); r.Version <= stored.Version {
		t.Errorf("version %d is not above %d", r.Version, stored.Version)
	}
	w.server.set(false)
	eventually(t, "the journal is applied", func() bool { clock.Advance(100 * time.Millisecond); return w.backlog() == 0 })
	if got := shown(t, w.inner, "k"); got != "row" {
		t.Errorf("the row was passed over: %s", got)
	}
}

func TestAListMergesRowsIntoWhatTheServerHas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tiers.SystemClock())
	j := w.open()
	const n = 700 // several windows of rows
	want := ""
	for i := range n {
		name := fmt.Sprintf("k%04d", i)
		save(t, j, name, "server")
	}
	w.server.refuse = func(tiers.Record) error { return tiers.ErrTooLarge } // rows stay
	w.server.set(true)
	for i := range n {
		name := fmt.Sprintf("k%04d", i)
		line := name + "=server "
		switch i % 7 {
		case 0, 1:
			save(t, j, name, "row")
			line = name + "=row "
		case 2:
			if _, err := j.Delete(t.Context(), key(name), tiers.Cond{}); err != nil {
				t.Fatal(err)
			}
			line = ""
		case 3:
			save(t, j, name+"+", "new")
			line += name + "+=new "
		}
		want += line
	}
	w.server.set(false)
	if got := listed(t, j, tiers.Query{}); got != want {
		t.Errorf("%.500s", got)
	}
	all := strings.Fields(want)
	backwards := strings.Fields(listed(t, j, tiers.Query{Reverse: true}))
	if slices.Reverse(backwards); !slices.Equal(backwards, all) {
		t.Errorf("in reverse: %.500s", backwards)
	}
	for limit := 1; limit < len(all); limit += 97 {
		if got := listed(t, j, tiers.Query{Limit: limit}); got != strings.Join(all[:limit], " ")+" " {
			t.Errorf("limit %d: %.300s", limit, got)
		}
		after, _, _ := strings.Cut(all[limit-1], "=")
		if got := listed(t, j, tiers.Query{After: after, Limit: 5}); got != strings.Join(all[limit:min(limit+5, len(all))], " ")+" " {
			t.Errorf("after %s: %s", after, got)
		}
	}
	if n, _, err := tiers.Count(t.Context(), j, key("").Space()); err != nil || int(n) != len(all) {
		t.Errorf("count: %d, %v, want %d", n, err, len(all))
	}
}
