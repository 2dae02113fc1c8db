package tiertest

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func sessionRules() []rule {
	return []rule{
		{
			name: "a session starts once",
			why:  "every use of a session starts it, and only the first makes it",
			run: func(t *T) {
				s := t.system()
				began := t.now()
				first := t.start(s, "", "s-1")
				if first.ID != "s-1" || first.Namespace != "" || !first.Ended.IsZero() || first.Seq == 0 ||
					!t.near(first.Started, began) || !t.near(first.Seen, began) {
					t.Errorf("start answers %+v at %v", first, began)
				}
				t.Clock.Advance(time.Hour)
				t.wantSession("started again", t.start(s, "", "s-1"), first)
				other := t.start(s, "n", "s-1")
				if other.Namespace != "n" || other.Seq == first.Seq {
					t.Errorf("the same id in a namespace is answered as %+v", other)
				}
				if t.reopened() {
					t.wantSession("after opening again", t.start(t.system(), "", "s-1"), first)
				}
			},
		},
		{
			name: "an ended session is answered as it is",
			why:  "a late save must learn that its session is over, and not start a new one",
			run: func(t *T) {
				s := t.system()
				first := t.start(s, "", "s-1")
				t.Clock.Advance(time.Hour)
				ended := t.endSession(s, "", "s-1")
				if !t.near(ended.Ended, t.now()) || ended.Generation <= first.Generation || ended.Seq <= first.Seq || !ended.Started.Equal(first.Started) {
					t.Errorf("end at %v answers %+v, before it was %+v", t.now(), ended, first)
				}
				t.wantSession("started after its end", t.start(s, "", "s-1"), ended)
				if t.reopened() {
					t.wantSession("after opening again", t.start(t.system(), "", "s-1"), ended)
				}
				if other, ok := t.second(); ok {
					t.wantSession("in another handle", t.start(other, "", "s-1"), ended)
				}
			},
		},
		{
			name: "ending what was never started says so",
			why:  "a mistyped id must not look like success",
			run: func(t *T) {
				s := t.system()
				if row, existed, err := s.EndSession(t.ctx, "", "never", time.Time{}); err != nil || existed {
					t.Errorf("end answers %+v, %v and %s", row, existed, said(err))
				}
				t.start(s, "n", "s-1")
				if _, existed, err := s.EndSession(t.ctx, "", "s-1", time.Time{}); err != nil || existed {
					t.Errorf("end of the same id in another namespace answers %v and %s", existed, said(err))
				}
				t.endSession(s, "n", "s-1")
				if row, existed, err := s.EndSession(t.ctx, "n", "s-1", time.Time{}); err != nil || !existed || row.Ended.IsZero() {
					t.Errorf("a second end answers %+v, %v and %s", row, existed, said(err))
				}
			},
		},
		{
			name: "an idle session ends only if it is still idle",
			why:  "it was used between the look and the end",
			run:  idleEnd,
		},
		{
			name: "seen is raised and never lowered",
			why:  "several processes report it, in any order",
			run:  seenRises,
		},
		{
			name: "a session is reopened",
			why:  "a user comes back to what was ended",
			run: func(t *T) {
				s := t.system()
				first := t.start(s, "", "s-1")
				ended := t.endSession(s, "", "s-1")
				again := t.reopenSession(s, "s-1")
				if !again.Ended.IsZero() || again.Generation <= ended.Generation || again.Seq <= ended.Seq || !again.Started.Equal(first.Started) {
					t.Errorf("reopen answers %+v, before it was %+v", again, ended)
				}
				t.wantSession("started after reopening", t.start(s, "", "s-1"), again)
				fresh := t.reopenSession(s, "unknown")
				if !fresh.Ended.IsZero() || fresh.ID != "unknown" || fresh.Seq <= again.Seq {
					t.Errorf("reopen of an unknown one answers %+v", fresh)
				}
				second := t.endSession(s, "", "s-1")
				if second.Generation <= again.Generation {
					t.Errorf("the second end has generation %d after %d", second.Generation, again.Generation)
				}
			},
		},
		{
			name: "sessions are listed by namespace and id",
			why:  "status shows them, ended ones too",
			run:  sessionsListed,
		},
		{
			name: "sessions since tells what is new",
			why:  "other processes learn of an end by it",
			run:  sessionsSince,
		},
		{
			name: "one of many ends a session",
			why:  "its end must count once",
			run: func(t *T) {
				s := t.system()
				first := t.start(s, "", "s-1")
				handles := []tiers.System{s}
				if other, ok := t.second(); ok {
					handles = append(handles, other)
				}
				var generation atomic.Uint64
				t.workers(8, func(worker int) {
					row := t.endSession(handles[worker%len(handles)], "", "s-1")
					if old := generation.Swap(row.Generation); old != 0 && old != row.Generation {
						t.Errorf("two ends answer the generations %d and %d", old, row.Generation)
					}
				})
				if now := t.start(s, "", "s-1"); now.Generation != generation.Load() || now.Generation <= first.Generation {
					t.Errorf("the generation is %d, before it was %d", now.Generation, first.Generation)
				}
			},
		},
	}
}

func (t *T) start(s tiers.System, namespace, id string) tiers.Session {
	row, err := s.StartSession(t.ctx, namespace, id)
	if err != nil {
		t.Fatalf("start session %q: %v", id, err)
	}
	return row
}

func (t *T) endSession(s tiers.System, namespace, id string) tiers.Session {
	row, existed, err := s.EndSession(t.ctx, namespace, id, time.Time{})
	if err != nil || !existed {
		t.Fatalf("end session %q answers %v and %s", id, existed, said(err))
	}
	return row
}

func (t *T) reopenSession(s tiers.System, id string) tiers.Session {
	row, err := s.ReopenSession(t.ctx, "", id)
	if err != nil {
		t.Fatalf("reopen session %q: %v", id, err)
	}
	return row
}

func (t *T) wantSession(when string, got, want tiers.Session) {
	if got.Namespace != want.Namespace || got.ID != want.ID || got.Generation != want.Generation || got.Seq != want.Seq ||
		!got.Started.Equal(want.Started) || !got.Ended.Equal(want.Ended) || !got.Seen.Equal(want.Seen) {
		t.Errorf("%s: %+v, want %+v", when, got, want)
	}
}

func idleEnd(t *T) {
	s := t.system()
	row := t.start(s, "", "s-1")
	seen := row.Seen
	t.Clock.Advance(time.Hour)
	_, _, err := s.EndSession(t.ctx, "", "s-1", seen.Add(-time.Second))
	t.wantError("end if idle for longer", err, tiers.ErrConflict)
	t.wantSession("refused", t.start(s, "", "s-1"), row)
	if err := s.SeenSessions(t.ctx, []tiers.Session{{ID: "s-1", Seen: seen.Add(30 * time.Minute)}}); err != nil {
		t.Fatalf("seen: %v", err)
	}
	_, _, err = s.EndSession(t.ctx, "", "s-1", seen)
	t.wantError("end if idle, seen meanwhile", err, tiers.ErrConflict)
	ended, existed, err := s.EndSession(t.ctx, "", "s-1", seen.Add(30*time.Minute))
	if err != nil || !existed || ended.Ended.IsZero() {
		t.Errorf("end at the very instant it was seen answers %+v, %v and %s", ended, existed, said(err))
	}
	if _, existed, err := s.EndSession(t.ctx, "", "never", seen); err != nil || existed {
		t.Errorf("end of an unknown one if idle answers %v and %s", existed, said(err))
	}
}

func seenRises(t *T) {
	s := t.system()
	a, b := t.start(s, "", "a"), t.start(s, "n", "b")
	ended := t.start(s, "", "ended")
	ended = t.endSession(s, "", ended.ID)
	later := tiers.Micro(a.Seen.Add(time.Hour))
	see := func(at time.Time) {
		err := s.SeenSessions(t.ctx, []tiers.Session{
			{ID: "a", Seen: at}, {Namespace: "n", ID: "b", Seen: at.Add(time.Second)}, {ID: "ended", Seen: at}, {ID: "never", Seen: at},
		})
		if err != nil {
			t.Fatalf("seen: %v", err)
		}
	}
	for _, at := range []time.Time{later, later.Add(-30 * time.Minute), a.Seen.Add(-time.Hour)} {
		see(at)
		if got := t.start(s, "", "a"); !got.Seen.Equal(later) || got.Generation != a.Generation || !got.Ended.IsZero() {
			t.Errorf("seen at %v, it is %+v; want it seen at %v and else unchanged", at, got, later)
		}
		if got := t.start(s, "n", "b"); !got.Seen.Equal(later.Add(time.Second)) || got.Generation != b.Generation {
			t.Errorf("seen at %v, it is %+v", at, got)
		}
		if got := t.start(s, "", "ended"); !got.Seen.Equal(ended.Seen) || got.Ended.IsZero() {
			t.Errorf("an ended session was changed to %+v", got)
		}
	}
	for _, row := range collect(t, "list sessions", s.ListSessions(t.ctx)) {
		if row.ID == "never" {
			t.Errorf("seeing an unknown session made it")
		}
	}
	if err := s.SeenSessions(t.ctx, nil); err != nil {
		t.Errorf("seeing nothing: %v", err)
	}
}

func sessionsListed(t *T) {
	s := t.system()
	if got := collect(t, "list sessions", s.ListSessions(t.ctx)); len(got) != 0 {
		t.Errorf("a new store has sessions: %+v", got)
	}
	var want []tiers.Session
	for _, namespace := range []string{"b", "", "a", "a-1"} {
		for _, id := range []string{"s-2", "s-10", "A", "é", "s/1", "%"} {
			want = append(want, t.start(s, namespace, id))
		}
	}
	want[3] = t.endSession(s, want[3].Namespace, want[3].ID)
	slices.SortFunc(want, func(a, b tiers.Session) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.ID, b.ID))
	})
	check := func(when string, s tiers.System) {
		got := collect(t, "list sessions", s.ListSessions(t.ctx))
		if len(got) != len(want) {
			t.Fatalf("%s: %d sessions, want %d", when, len(got), len(want))
		}
		for i := range want {
			t.wantSession(fmt.Sprintf("%s, number %d", when, i), got[i], want[i])
		}
	}
	check("listed", s)
	if other, ok := t.second(); ok {
		check("listed by another handle", other)
	}
}

func sessionsSince(t *T) {
	s := t.system()
	since := func(seq uint64, want ...string) uint64 {
		var got []string
		for _, row := range collect(t, "sessions since", s.SessionsSince(t.ctx, seq)) {
			if row.Seq <= seq {
				t.Errorf("seq %d is yielded since %d", row.Seq, seq)
			}
			seq = row.Seq
			got = append(got, row.ID)
		}
		t.wantNames("sessions since", got, want)
		return seq
	}
	since(0)
	for _, id := range []string{"c", "a", "b"} {
		t.start(s, "", id)
	}
	seq := since(0, "c", "a", "b")
	since(seq)
	t.start(s, "", "a") // nothing new
	since(seq)
	t.endSession(s, "", "a")
	since(0, "c", "b", "a")
	seq = since(seq, "a")
	t.start(s, "n", "d")
	t.reopenSession(s, "a")
	since(seq, "d", "a")
}
