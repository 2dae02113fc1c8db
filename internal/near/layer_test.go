package near

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

var start = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// first lets in what comes first, until the room is used up.
type first struct {
	mu     sync.Mutex
	room   int64
	costs  map[uint64]int64
	closed bool
}

func (f *first) Settle(come []tiers.Held, gone []uint64) (leave []uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range gone {
		f.room += f.costs[id]
		delete(f.costs, id)
	}
	for _, h := range come {
		f.room += f.costs[h.ID]
		delete(f.costs, h.ID)
		if f.room < h.Cost {
			leave = append(leave, h.ID)
			continue
		}
		f.room -= h.Cost
		f.costs[h.ID] = h.Cost
	}
	return leave
}

func (f *first) Touch(uint64) {}
func (f *first) Close()       { f.closed = true }

func newLayer(t testing.TB, ttl time.Duration) (*Layer, *tiertest.Clock) {
	t.Helper()
	clock := tiertest.NewClock(start)
	l := New(Config{TTL: ttl, Budget: 1 << 20, Evictor: &first{room: 1 << 20, costs: map[uint64]int64{}}, Clock: clock})
	t.Cleanup(l.Close)
	return l, clock
}

var k = Key{Name: "k"}

func record(v tiers.Version) *tiers.Record {
	return &tiers.Record{Key: tiers.Key{Category: "c", Name: "k"}, Value: []byte("v"), Version: v}
}

// lead begins a load, of which there must be none.
func lead(t testing.TB, l *Layer) *Flight {
	t.Helper()
	e, f, mine := l.Join(k)
	if e != nil || !mine {
		t.Fatalf("joining gives entry %v, lead %v", e, mine)
	}
	return f
}

// holds demands what the layer answers: 0 for nothing, -1 for an absent key.
func holds(t testing.TB, l *Layer, why string, want int64) {
	t.Helper()
	got := int64(0)
	if e := l.Get(k); e != nil && e.Absent() {
		got = -1
	} else if e != nil {
		got = int64(e.Record().Version)
	}
	if got != want {
		t.Errorf("%s: the layer holds %d, want %d", why, got, want)
	}
}

func TestWhatALoadFoundIsHeldOnlyIfNothingChangedMeanwhile(t *testing.T) {
	for _, c := range []struct {
		why  string
		do   func(l *Layer)
		want int64
	}{
		{"nothing happened", func(*Layer) {}, 1},
		{"a save was acknowledged: the load may have looked before", func(l *Layer) { l.Change(k).Saved(record(2)) }, 2},
		{"the key was deleted", func(l *Layer) { l.Change(k).Removed() }, -1},
		{"a save failed, and another load may have seen it come", func(l *Layer) { l.Change(k).Dropped() }, 0},
		{"a save may still come", func(l *Layer) { l.Change(k).Unknown() }, 0},
		{"a save is on its way", func(l *Layer) { l.Change(k) }, 0},
		{"another process has saved", func(l *Layer) { l.Drop(k, 2) }, 0},
		{"another process has deleted", func(l *Layer) { l.Drop(k, 0) }, 0},
		{"messages were lost", func(l *Layer) { l.Clear() }, 0},
		{"its session has ended", func(l *Layer) { l.DropIf(func(is Key) bool { return is == k }) }, 0},
		{"another key was changed", func(l *Layer) { l.Change(Key{Name: "other"}).Saved(record(2)) }, 1},
		{"the key of another namespace was changed", func(l *Layer) { l.Drop(Key{Namespace: "n", Name: "k"}, 0) }, 1},
		{"a later load has begun: it decides", func(l *Layer) { l.Lead(k) }, 0},
	} {
		l, _ := newLayer(t, time.Minute)
		f := lead(t, l)
		c.do(l)
		f.Land(record(1), nil, false)
		holds(t, l, c.why, c.want)
	}
}

func TestLoadThatBeginsDuringAChangeIsNotHeld(t *testing.T) {
	l, _ := newLayer(t, time.Minute)
	c := l.Change(k)
	f := lead(t, l)
	f.Land(record(1), nil, false)
	holds(t, l, "a change on its way", 0)
	f = lead(t, l)
	c.Dropped()
	f.Land(record(1), nil, false)
	holds(t, l, "a change that ended after the load began", 0)
	lead(t, l).Land(record(1), nil, false)
	holds(t, l, "a load after the change", 1)
}

func TestNobodyJoinsALoadThatBeganBeforeAnAcknowledgedChange(t *testing.T) {
	for why, end := range map[string]func(l *Layer, c Change){
		"saved":   func(_ *Layer, c Change) { c.Saved(record(2)) },
		"dropped": func(_ *Layer, c Change) { c.Dropped() },
		"heard":   func(l *Layer, c Change) { l.Drop(k, 5); c.Dropped() },
	} {
		l, _ := newLayer(t, time.Minute)
		old := lead(t, l)
		c := l.Change(k)
		if _, f, mine := l.Join(k); f != old || mine {
			t.Errorf("%s: a load is joined until the change is acknowledged", why)
		}
		end(l, c)
		if _, f, _ := l.Join(k); f == old {
			t.Errorf("%s: a load that may have looked before the change was joined after it", why)
		}
		old.Land(record(1), nil, false)
	}
}

// A message comes while a load is on its way, and the next begins before that one ends.
func TestLoadThatEndsLateLetsTheNextOneGoOnUnlessItHasFoundMore(t *testing.T) {
	none := &tiers.Record{}
	for _, c := range []struct {
		why        string
		late, next *tiers.Record // none: the key is absent
		held       int64
	}{
		{"both have found the same", record(1), record(1), 1},
		{"the next has looked later", record(1), record(2), 2},
		{"the next has looked earlier", record(2), record(1), 0},
		{"the late one has found it, and the next has not: nobody knows which was first", record(1), none, 0},
		{"the next has found it, and the late one has not", none, record(1), 0},
		{"both have found none", none, none, -1},
	} {
		l, _ := newLayer(t, time.Hour)
		land := func(f *Flight, r *tiers.Record) {
			if r == none {
				f.Land(r, tiers.ErrNotFound, false)
			} else {
				f.Land(r, nil, false)
			}
		}
		late := lead(t, l)
		l.Drop(k, 0)
		next := lead(t, l)
		land(late, c.late)
		if e, f, leads := l.Join(k); e != nil || f != next || leads {
			t.Errorf("%s: a caller does not join the load that is on its way", c.why)
		}
		land(next, c.next)
		holds(t, l, c.why, c.held)
		if _, _, again, _ := next.Wait(t.Context()); again != (c.held == 0) {
			t.Errorf("%s: who has joined has to ask again: %v", c.why, again)
		}
	}
	l, _ := newLayer(t, time.Hour)
	late := lead(t, l)
	l.Drop(k, 0)
	next := lead(t, l)
	late.Land(&tiers.Record{}, tiers.ErrUnavailable, false)
	next.Land(record(1), nil, false)
	holds(t, l, "who has failed has seen nothing", 1)
}

func TestOfSeveralChangesTheHighestVersionIsHeldOnceAllHaveEnded(t *testing.T) {
	l, _ := newLayer(t, time.Minute)
	a, b := l.Change(k), l.Change(k)
	b.Saved(record(3))
	holds(t, l, "the other is on its way", 0)
	a.Saved(record(2))
	holds(t, l, "both have ended", 3)
	a, b = l.Change(k), l.Change(k)
	a.Saved(record(4))
	b.Removed()
	holds(t, l, "a save and a delete, in an order that nobody knows", 0)
	a, b = l.Change(k), l.Change(k)
	a.Saved(record(5))
	b.Unknown()
	holds(t, l, "one of which nobody knows", 0)
	a = l.Change(k)
	l.Drop(k, 9)
	a.Saved(record(6))
	holds(t, l, "another process saved meanwhile", 0)
}

func TestAfterAChangeOfWhichNobodyKnowsNothingIsHeldForATime(t *testing.T) {
	l, clock := newLayer(t, time.Minute)
	l.Change(k).Unknown()
	lead(t, l).Land(record(1), nil, false)
	holds(t, l, "a load after it may not have seen it", 0)
	l.Change(k).Saved(record(2))
	holds(t, l, "a save that it may overwrite", 0)
	clock.Advance(time.Minute)
	lead(t, l).Land(record(3), nil, false)
	holds(t, l, "when it is too late for it", 3)
	if n := len(l.shard(l.hash(k)).busy); n != 0 {
		t.Errorf("%d keys are still remembered", n)
	}
}

func TestMessageAboutWhatIsHeldDropsNothing(t *testing.T) {
	l, _ := newLayer(t, time.Minute)
	lead(t, l).Land(record(2), nil, false)
	l.Drop(k, 2)
	holds(t, l, "the version that is held", 2)
	l.Drop(k, 1)
	holds(t, l, "an older version: nobody can compare what came by the journal", 0)
}

func TestEntryIsServedNoLongerThanItsTTLSinceTheLoadBegan(t *testing.T) {
	expires := func(d time.Duration) *tiers.Record {
		r := record(1)
		r.Expires = start.Add(d)
		return r
	}
	for _, c := range []struct {
		why    string
		record *tiers.Record
		takes  time.Duration // of the load
		serves time.Duration
	}{
		{"it never expires", record(1), 0, time.Minute},
		{"the load took a while, and may have looked at its beginning", record(1), 10 * time.Second, 50 * time.Second},
		{"400 ms are left of the record", expires(400 * time.Millisecond), 0, 400 * time.Millisecond},
		{"the record lives longer than the entry", expires(time.Hour), 0, time.Minute},
		{"the record expired on the way", expires(time.Second), 2 * time.Second, 0},
	} {
		l, clock := newLayer(t, time.Minute)
		f := lead(t, l)
		clock.Advance(c.takes)
		f.Land(c.record, nil, false)
		if c.serves > 0 {
			clock.Advance(c.serves - time.Millisecond)
			holds(t, l, c.why+", just before", 1)
			clock.Advance(time.Millisecond)
		}
		holds(t, l, c.why+", then", 0)
	}
}

func TestRecordThatExpiresByAClockThatNobodyKnowsIsNotHeld(t *testing.T) {
	l, _ := newLayer(t, time.Minute)
	ahead, known := time.Hour, true
	l.home = func() (time.Time, bool) { return start.Add(ahead), known }
	r := record(1)
	r.Expires = start.Add(ahead + time.Second)
	lead(t, l).Land(r, nil, false)
	holds(t, l, "a second is left by the clock of the home", 1)
	l.Clear()
	known = false
	lead(t, l).Land(r, nil, false)
	holds(t, l, "the clock of the home is not known", 0)
	lead(t, l).Land(record(2), nil, false)
	holds(t, l, "a record that never expires", 2)
	l.Lead(k).Land(r, nil, false)
	holds(t, l, "what was held before is out of date", 0)
}

func TestFreshLoadReplacesWhatIsHeld(t *testing.T) {
	l, _ := newLayer(t, time.Minute)
	lead(t, l).Land(record(1), nil, false)
	f := l.Lead(k)
	holds(t, l, "until it lands", 1)
	f.Land(record(2), nil, false)
	holds(t, l, "then", 2)
	l.Lead(k).Land(&tiers.Record{}, tiers.ErrUnavailable, false)
	holds(t, l, "a failure says nothing about the key", 2)
	l.Lead(k).Land(&tiers.Record{}, tiers.ErrNotFound, false)
	holds(t, l, "there is no such key any more", -1)
}

func TestFollowersGetTheAnswerOrTheRealError(t *testing.T) {
	l, _ := newLayer(t, time.Minute)
	ctx := t.Context()
	f := lead(t, l)
	_, same, mine := l.Join(k)
	if mine || same != f {
		t.Fatal("the second caller does not join")
	}
	f.Land(&tiers.Record{}, tiers.ErrUnavailable, false)
	if _, _, again, err := same.Wait(ctx); again || !errors.Is(err, tiers.ErrUnavailable) {
		t.Errorf("a failed load gives %v, again %v", err, again)
	}
	f = lead(t, l)
	f.Land(&tiers.Record{}, context.Canceled, true)
	if _, _, again, _ := f.Wait(ctx); !again {
		t.Error("a leader who left fails the others")
	}
	f = lead(t, l)
	over, cancel := context.WithCancelCause(ctx)
	why := errors.New("enough")
	cancel(why)
	if _, _, _, err := f.Wait(over); !errors.Is(err, why) {
		t.Errorf("a follower whose context is over gets %v", err)
	}
	f.Land(record(1), nil, false)
	if e, r, again, err := f.Wait(ctx); e == nil || r.Version != 1 || again || err != nil {
		t.Errorf("a follower gets %v, %v, %v", r, again, err)
	}
}

func TestLayerForgetsRatherThanExceedItsRoom(t *testing.T) {
	clock := tiertest.NewClock(start)
	evictor := &first{room: 10_000, costs: map[uint64]int64{}}
	l := New(Config{TTL: time.Minute, Budget: 10_000, Evictor: evictor, Clock: clock})
	for i := range 100 {
		c := l.Change(Key{Name: string(rune('a' + i))})
		c.Saved(&tiers.Record{Value: make([]byte, 100), Version: 1})
	}
	big := l.Change(k)
	big.Saved(&tiers.Record{Value: make([]byte, 2000), Version: 1})
	holds(t, l, "a value that would take up a quarter of the room", 0)
	for deadline := tiers.SystemClock().Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		s := l.Stats()
		if s.Bytes <= 10_000 && s.Entries+s.Evicted+s.Drops == 101 { // one dropped when k was still there
			break
		}
		if tiers.SystemClock().Now().After(deadline) {
			t.Fatalf("the layer holds %+v", s)
		}
	}
	l.Clear()
	for deadline := tiers.SystemClock().Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		evictor.mu.Lock()
		left := len(evictor.costs)
		evictor.mu.Unlock()
		if left == 0 {
			break
		}
		if tiers.SystemClock().Now().After(deadline) {
			t.Fatalf("the evictor still knows %d entries", left)
		}
	}
	l.Close()
	if !evictor.closed {
		t.Error("the evictor was not closed")
	}
}

func TestTwoKeysOfOneNumberAreNotBothHeld(t *testing.T) {
	l, _ := newLayer(t, time.Minute)
	a, b := &Entry{key: Key{Name: "a"}, id: 7}, &Entry{key: Key{Name: "b"}, id: 7}
	sh := l.shard(7)
	known := map[uint64]*Entry{}
	sh.entries[a.key] = a
	l.keep.settle(known, []*Entry{a})
	sh.entries[b.key] = b
	l.keep.settle(known, []*Entry{b})
	if known[7] != a || sh.entries[b.key] != nil {
		t.Errorf("the second is held as well: %v", known)
	}
	delete(sh.entries, a.key)
	sh.entries[b.key] = b
	l.keep.settle(known, []*Entry{b, a})
	if known[7] != b {
		t.Errorf("the second is not held in the place of the first: %v", known)
	}
	if got := l.keep.evictor.Settle(nil, []uint64{7}); slices.Contains(got, 7) {
		t.Error("what is gone leaves again")
	}
}
