package tiertest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func snapshotRules() []rule {
	needs := []Capability{Snapshotter}
	return []rule{
		{
			name: "a snapshot does not see what comes later", needs: needs,
			why: "a transaction reads one state, whatever others do meanwhile",
			run: snapshotStays,
		},
		{
			name: "a snapshot is the state of one instant", needs: needs,
			why: "what was saved together, or one after the other, must not be seen half or the other way round",
			run: snapshotIsOneInstant,
		},
		{
			name: "a snapshot lists as the store does", needs: needs,
			why: "a query means the same in it",
			run: func(t *T) {
				t.fill("k", 30)
				t.save(raw(named("other"), "v"))
				t.save(raw(tiers.Key{Namespace: "n", Category: category, Name: "k"}, "elsewhere"))
				s, closed := t.snapshot(t.ctx)
				defer closed()
				for _, q := range []tiers.Query{
					{Category: category},
					{Category: category, Prefix: "k", Limit: 7},
					{Category: category, Prefix: "k", After: "k00010"},
					{Category: category, Reverse: true, After: "k00010", Limit: 3},
					{Category: category, KeysOnly: true},
					{Namespace: "n", Category: category},
					{Category: "tiertest.empty"},
				} {
					t.wantNames(fmt.Sprintf("%+v", q), t.listOf(s, q), t.names(q))
				}
			},
		},
		{
			name: "records expire in a snapshot too", needs: needs,
			why: "an expired record is returned by nothing",
			run: func(t *T) {
				short := t.save(lasting(named("short"), "v", t.short()))
				t.save(raw(named("stays"), "v"))
				s, closed := t.snapshot(t.ctx)
				defer closed()
				t.wantIn(s, "before", short.Key, "v")
				t.expire(short.Key)
				t.wantNotIn(s, "expired", short.Key)
				t.wantNames("expired", t.listOf(s, tiers.Query{Category: category}), []string{"stays"})
			},
		},
		{
			name: "values of a snapshot are copies", needs: needs,
			why: "who changes what was loaded must not change what is stored",
			run: func(t *T) {
				k := named("k")
				t.save(raw(k, "value"))
				s, closed := t.snapshot(t.ctx)
				defer closed()
				for range 2 {
					r, err := s.Load(t.ctx, k)
					if err != nil || string(r.Value) != "value" {
						t.Fatalf("load answers %q and %s", r.Value, said(err))
					}
					clear(r.Value)
				}
				t.wantValue("in the store", k, "value")
			},
		},
		{
			name: "a snapshot ends with its context and with close", needs: needs,
			why: "one that is forgotten would keep the store from tidying up for good",
			run: snapshotEnds,
		},
	}
}

// snapshot takes one and ends the rule on an error.
func (t *T) snapshot(ctx context.Context) (s tiers.Snapshot, closed func()) {
	c, _ := tiers.As[tiers.Snapshotter](t.Tier)
	s, err := c.Snapshot(ctx)
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	return s, func() {
		if err := s.Close(); err != nil {
			t.Errorf("close of a snapshot: %v", err)
		}
	}
}

func (t *T) listOf(s tiers.Snapshot, q tiers.Query) []string {
	var out []tiers.Record
	for r, err := range s.List(t.ctx, q) {
		if err != nil {
			t.Fatalf("list %+v of a snapshot: %v", q, err)
		}
		out = append(out, r)
	}
	return namesOf(out)
}

func (t *T) wantIn(s tiers.Snapshot, when string, k tiers.Key, value string) {
	if r, err := s.Load(t.ctx, k); err != nil || string(r.Value) != value {
		t.Errorf("%s: in the snapshot %s holds %s, with %s; want %s", when, show(k), cut(string(r.Value)), said(err), cut(value))
	}
}

func (t *T) wantNotIn(s tiers.Snapshot, when string, k tiers.Key) {
	if r, err := s.Load(t.ctx, k); !errors.Is(err, tiers.ErrNotFound) {
		t.Errorf("%s: in the snapshot %s holds %s, with %s; want ErrNotFound", when, show(k), cut(string(r.Value)), said(err))
	}
}

func snapshotStays(t *T) {
	changed, gone := t.save(raw(named("changed"), "1")), t.save(raw(named("gone"), "1"))
	s, closed := t.snapshot(t.ctx)
	defer closed()
	t.save(raw(changed.Key, "2"))
	t.delete(gone.Key)
	fresh := t.save(raw(named("fresh"), "2"))
	for _, want := range []tiers.Record{changed, gone} {
		r, err := s.Load(t.ctx, want.Key)
		if err != nil {
			t.Errorf("load of %s from the snapshot: %v", show(want.Key), err)
			continue
		}
		t.wantSame("in the snapshot", r, want)
	}
	t.wantNotIn(s, "saved later", fresh.Key)
	many, err := s.LoadMany(t.ctx, []tiers.Key{fresh.Key, gone.Key, changed.Key})
	if err != nil || len(many) != 3 {
		t.Fatalf("load many from the snapshot answers %d records and %s", len(many), said(err))
	}
	if many[0].Key != fresh.Key || many[0].Version != 0 {
		t.Errorf("load many answers version %d of %s, which was saved later", many[0].Version, show(many[0].Key))
	}
	t.wantSame("load many from the snapshot", many[1], gone)
	t.wantSame("load many from the snapshot", many[2], changed)
	t.wantNames("list of the snapshot", t.listOf(s, tiers.Query{Category: category}), []string{"changed", "gone"})
	t.wantNames("list of the store", t.names(tiers.Query{Category: category}), []string{"changed", "fresh"})
	later, closedLater := t.snapshot(t.ctx)
	defer closedLater()
	t.wantNotIn(later, "a later snapshot", gone.Key)
	t.wantIn(later, "a later snapshot", changed.Key, "2")
}

// snapshotIsOneInstant looks at two keys that are saved one after the other, the
// one that comes later first: it can't be ahead.
func snapshotIsOneInstant(t *T) {
	first, second := named("a/first"), named("b/second")
	count := func(k tiers.Key, n int) { t.save(raw(k, fmt.Sprintf("%08d", n))) }
	count(first, 0)
	count(second, 0)
	var over atomic.Bool
	still, done := t.waiting(func() {
		for n := 1; !over.Load() && t.ctx.Err() == nil; n++ {
			count(first, n)
			count(second, n)
		}
	})
	defer done()
	defer over.Store(true)
	if !still {
		t.Fatalf("saves ended early")
	}
	for range 20 {
		s, closed := t.snapshot(t.ctx)
		one, err := s.Load(t.ctx, first)
		if err != nil {
			t.Fatalf("load: %v", err)
		}
		_ = tiers.SystemClock().Sleep(t.ctx, time.Millisecond)
		two, err := s.Load(t.ctx, second)
		if err != nil {
			t.Fatalf("load: %v", err)
		}
		if string(two.Value) > string(one.Value) {
			t.Errorf("the second key is at %s, the first at %s", two.Value, one.Value)
		}
		for r, err := range s.List(t.ctx, tiers.Query{Category: category}) {
			if want := map[tiers.Key]tiers.Version{first: one.Version, second: two.Version}[r.Key]; err != nil || r.Version != want {
				t.Errorf("%s is listed with version %d and %s, it was loaded with %d", show(r.Key), r.Version, said(err), want)
			}
		}
		closed()
	}
}

func snapshotEnds(t *T) {
	k := named("k")
	t.save(raw(k, "v"))
	dead := func(what string, s tiers.Snapshot) {
		ended := t.poll(5*time.Second, func() bool {
			_, err := s.Load(t.ctx, k)
			return err != nil && !errors.Is(err, tiers.ErrNotFound)
		})
		if !ended {
			t.Errorf("%s: it still answers", what)
		}
	}
	s, closed := t.snapshot(t.ctx)
	closed()
	dead("closed", s)
	ctx, end := context.WithCancel(t.ctx)
	defer end()
	s, closed = t.snapshot(ctx)
	t.wantIn(s, "before the end", k, "v")
	end()
	dead("the context has ended", s)
	closed()
	if _, err := func() (tiers.Snapshot, error) {
		c, _ := tiers.As[tiers.Snapshotter](t.Tier)
		return c.Snapshot(ctx)
	}(); !errors.Is(err, context.Canceled) {
		t.Errorf("a snapshot with a context that has ended answers %s", said(err))
	}
	t.wantValue("afterwards", k, "v")
}
