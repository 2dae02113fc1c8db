package tiertest

import (
	"fmt"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func applyRules() []rule {
	needs := []Capability{Applier}
	return []rule{
		{
			name: "applied records are stored as they are", needs: needs,
			why: "a journal, a migration and a restore bring back what was, versions and times included",
			run: appliedAsTheyAre,
		},
		{
			name: "apply keeps what is newer", needs: needs,
			why: "a late redo record must not undo a save",
			run: applyKeepsNewer,
		},
		{
			name: "apply is idempotent", needs: needs,
			why: "after a crash the journal is applied once more",
			run: func(t *T) {
				first, removed := t.applied("k", 10, "v"), t.applied("removed", 10, "")
				t.save(raw(removed.Key, "old"))
				removed.Version, removed.Deleted = t.load(removed.Key).Version+10, true
				for range 3 {
					t.apply(nil, first, removed)
					t.wantSame("applied again", t.load(first.Key), first)
					t.wantAbsent("deleted again", removed.Key)
				}
				t.wantNames("list", t.names(tiers.Query{Category: category}), []string{"k"})
			},
		},
		{
			name: "an applied delete follows the same rule", needs: needs,
			why: "a late delete must not take away a newer save",
			run: func(t *T) {
				stored := t.save(raw(named("k"), "v"))
				d := t.applied("k", 0, "")
				d.Deleted = true
				d.Version = stored.Version - 1
				t.apply(nil, d)
				t.wantSame("an older delete", t.load(stored.Key), stored)
				d.Version = stored.Version + 1
				t.apply(nil, d)
				t.wantAbsent("a newer delete", stored.Key)
				t.wantNames("list", t.names(tiers.Query{Category: category}), nil)
				t.apply(nil, d)
				t.wantAbsent("the same delete again", stored.Key)
			},
		},
		{
			name: "a condition replaces the rule", needs: needs,
			why: "a journal row goes only over the version that it was made for",
			run: applyOver,
		},
		{
			name: "an expired applied record is a delete", needs: needs,
			why: "passing it over would leave the value from before",
			run: func(t *T) {
				stored := t.save(raw(named("k"), "old"))
				r := t.applied("k", 0, "expired")
				r.Version = stored.Version + 1
				r.Expires = tiers.Micro(t.now().Add(-time.Second))
				t.apply(nil, r)
				t.wantAbsent("applied", r.Key)
				t.wantNames("list", t.names(tiers.Query{Category: category}), nil)
				older := t.save(raw(named("k"), "new"))
				t.apply(nil, r)
				t.wantSame("an older expired one", t.load(r.Key), older)
			},
		},
		{
			name: "an applied expiry is an instant", needs: needs,
			why: "a redo record that waited has less time left, not as much as before",
			run: func(t *T) {
				r := t.applied("k", 1, "v")
				r.TTL = time.Nanosecond // Apply ignores it
				r.Expires = tiers.Micro(t.now().Add(t.short()))
				t.apply(nil, r)
				t.wantValue("applied", r.Key, "v")
				r.TTL = 0
				if got := t.load(r.Key); got.Expires.Sub(r.Expires).Abs() > 2*time.Millisecond {
					t.Errorf("it expires at %v, want %v", got.Expires, r.Expires)
				}
				t.expire(r.Key)
				t.wantAbsent("after that instant", r.Key)
			},
		},
		{
			name: "later saves get higher versions than applied ones", needs: needs,
			why: "else a save that came after is taken for the older one",
			run: savesFollowApplied,
		},
		{
			name: "an expired record gives way to any applied one", needs: needs,
			why: "it is not there, whatever its version was",
			run: func(t *T) {
				old := t.save(lasting(named("k"), "old", t.short()))
				t.expire(old.Key)
				r := t.applied("k", 0, "new")
				r.Version = old.Version + 1
				t.apply([]tiers.Cond{tiers.If(0)}, r)
				t.wantValue("over an expired record if absent", r.Key, "new")
			},
		},
		{
			name: "an empty apply does nothing", needs: needs,
			why: "callers need no special case",
			run: func(t *T) { t.apply(nil) },
		},
	}
}

// applied is a record for Apply, step microseconds after the tier's time.
func (t *T) applied(name string, step int, value string) tiers.Record {
	now := tiers.Micro(t.now())
	r := raw(named(name), value)
	r.Version = version(now.Add(time.Duration(step) * time.Microsecond))
	r.Created, r.Updated = now.Add(-time.Hour), now.Add(-time.Minute)
	return r
}

// version is the one that the contract gives at a time.
func version(at time.Time) tiers.Version { return tiers.Version(at.UnixMicro()) }

func (t *T) apply(over []tiers.Cond, rs ...tiers.Record) {
	a, _ := tiers.As[tiers.Applier](t.Tier)
	if err := a.Apply(t.ctx, rs, over); err != nil {
		t.Fatalf("apply: %v", err)
	}
}

func appliedAsTheyAre(t *T) {
	lasting := t.applied("lasting", 100, "v")
	lasting.Expires = tiers.Micro(t.now().Add(time.Hour))
	described := t.applied("described", 200, `{"a":1}`)
	described.Codec, described.Schema = "json", 9
	old := t.applied("old", 0, "from long ago")
	old.Version = 17
	old.Created, old.Updated = time.UnixMicro(1).UTC(), time.UnixMicro(17).UTC()
	elsewhere := t.applied("k", 300, "v")
	elsewhere.Key = tiers.Key{Namespace: "n", Category: "elsewhere", Name: "k"}
	all := []tiers.Record{lasting, described, old, elsewhere}
	t.apply(nil, all...)
	same := func(when string) {
		for _, want := range all {
			got := t.load(want.Key)
			if d := got.Expires.Sub(want.Expires).Abs(); d <= time.Millisecond {
				got.Expires = want.Expires // servers keep milliseconds
			}
			t.wantSame(when, got, want)
		}
		t.wantNames(when, t.names(tiers.Query{Category: category}), []string{"described", "lasting", "old"})
	}
	same("applied")
	if t.Durable {
		t.Reopen()
		same("applied and opened again")
	}
}

func applyKeepsNewer(t *T) {
	stored := t.save(raw(named("k"), "stored"))
	older := t.applied("k", 0, "older")
	older.Version = stored.Version - 1
	t.apply(nil, older)
	t.wantSame("an older one applied", t.load(stored.Key), stored)

	newer := older
	newer.Value = []byte("newer")
	newer.Version = stored.Version + 1
	t.apply(nil, newer)
	t.wantSame("a newer one applied", t.load(newer.Key), newer)

	fresh := t.applied("fresh", 0, "v")
	t.apply(nil, older, fresh)
	t.wantSame("an older one in a batch", t.load(newer.Key), newer)
	t.wantSame("beside an older one", t.load(fresh.Key), fresh)

	var rs []tiers.Record
	for i := range 60 {
		r := t.applied(fmt.Sprintf("many%02d", i%20), i, fmt.Sprint(i))
		rs = append(rs, r)
	}
	t.apply(nil, rs...)
	for _, r := range rs[40:] {
		t.wantSame("the newest of three in one call", t.load(r.Key), r)
	}
}

func applyOver(t *T) {
	stored := t.save(raw(named("k"), "stored"))
	r := t.applied("k", 0, "applied")
	r.Version = stored.Version + 100
	for _, wrong := range []tiers.Cond{tiers.If(0), tiers.If(stored.Version + 1), tiers.If(1)} {
		t.apply([]tiers.Cond{wrong}, r)
		t.wantSame("over another version", t.load(r.Key), stored)
	}
	absent := t.applied("absent", 1, "v")
	t.apply([]tiers.Cond{tiers.If(5)}, absent)
	t.wantAbsent("over a version that is not there", absent.Key)
	t.apply([]tiers.Cond{tiers.If(stored.Version), tiers.If(0)}, r, absent)
	t.wantSame("over the right version", t.load(r.Key), r)
	t.wantSame("over nothing", t.load(absent.Key), absent)

	unconditional := absent
	unconditional.Version++
	refused := r
	refused.Value, refused.Version = []byte("refused"), r.Version+1
	t.apply([]tiers.Cond{tiers.If(stored.Version), {}}, refused, unconditional)
	t.wantSame("refused beside one without a condition", t.load(r.Key), r)
	t.wantSame("without a condition", t.load(absent.Key), unconditional)

	d := r
	d.Deleted, d.Version = true, r.Version+1
	t.apply([]tiers.Cond{tiers.If(stored.Version)}, d)
	t.wantSame("a delete over another version", t.load(r.Key), r)
	t.apply([]tiers.Cond{tiers.If(r.Version)}, d)
	t.wantAbsent("a delete over the right version", r.Key)
}

func savesFollowApplied(t *T) {
	ahead := t.applied("k", 3_600_000_000, "an hour ahead")
	t.apply(nil, ahead)
	if v := t.save(raw(ahead.Key, "v")).Version; v <= ahead.Version {
		t.Errorf("a save of the key gets version %d after %d was applied", v, ahead.Version)
	}
	if v := t.save(raw(named("other"), "v")).Version; v <= ahead.Version {
		t.Errorf("a save of another key gets version %d after %d was applied", v, ahead.Version)
	}
	removed := t.applied("removed", 7_200_000_000, "")
	t.save(raw(removed.Key, "v"))
	removed.Deleted = true
	t.apply(nil, removed)
	if v := t.save(raw(removed.Key, "v")).Version; v <= removed.Version {
		t.Errorf("a save after an applied delete gets version %d after %d was applied", v, removed.Version)
	}
	if t.Durable {
		again := t.applied("again", 10_800_000_000, "v")
		t.apply(nil, again)
		t.Reopen()
		if v := t.save(raw(again.Key, "v")).Version; v <= again.Version {
			t.Errorf("a save after opening again gets version %d after %d was applied", v, again.Version)
		}
	}
}
