package tiertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func publishRules() []rule {
	needs := []Capability{Publisher}
	return []rule{
		{
			name: "nothing is visible before publish", needs: needs,
			why: "what is prepared is not decided yet",
			run: func(t *T) { t.peek(false) },
		},
		{
			name: "who reads a prepared key waits", needs: needs,
			why: "else the decision is seen elsewhere while the old value is still read here",
			run: func(t *T) { t.peek(true) },
		},
		{
			name: "publish answers what it stored", needs: needs,
			why: "the caller of the transaction gets versions and times from it",
			run: publishAnswers,
		},
		{
			name: "abort leaves everything as it was", needs: needs,
			why: "a transaction that is not decided must not be seen, nor take room",
			run: abortLeavesAll,
		},
		{
			name: "a read that has changed is a conflict with its key", needs: needs,
			why: "the first committer wins, and the other one is told what it has lost",
			run: publishConflicts,
		},
		{
			name: "a read that is as it was holds until the end", needs: needs,
			why: "the transaction is decided after the check",
			run: readsHold,
		},
		{
			name: "a range that has changed is a conflict", needs: needs,
			why: "a transaction that acts on a list must notice what was added to it meanwhile",
			run: rangesConflict,
		},
		{
			name: "a range is as far as it was read", needs: needs,
			why: "a change beyond its end was not seen, so it is none",
			run: rangesEnd,
		},
		{
			name: "prepare refuses what save refuses", needs: needs,
			why: "an error has to come before the decision, since publish can't fail",
			run: prepareRefuses,
		},
		{
			name: "transactions on the same keys are as if one came after the other", needs: needs,
			why: "a lost update is what transactions are there to prevent, and they must not block each other for good",
			run: publishCounters,
		},
	}
}

func (t *T) prepare(c tiers.Commit) (publish func() []tiers.Record, abort func(), err error) {
	p, _ := tiers.As[tiers.Publisher](t.Tier)
	return p.Prepare(t.ctx, c)
}

// prepared prepares and ends the rule on an error.
func (t *T) prepared(c tiers.Commit) (publish func() []tiers.Record, abort func()) {
	publish, abort, err := t.prepare(c)
	if err != nil {
		t.Fatalf("prepare: %v", err)
	}
	return publish, abort
}

// conflicts notes a fault unless the commit is a conflict about the key, none when
// it has no name. Whatever it was, nothing is held afterwards.
func (t *T) conflicts(what string, c tiers.Commit, k tiers.Key) {
	_, abort, err := t.prepare(c)
	if err == nil {
		abort()
	}
	t.wantError(what, err, tiers.ErrConflict)
	var e *tiers.Error
	if k.Name != "" && (!errors.As(err, &e) || e.Namespace != k.Namespace || e.Category != k.Category || e.Key != k.Name) {
		t.Errorf("%s: %s, which does not name %s", what, said(err), show(k))
	}
}

func (t *T) passes(what string, c tiers.Commit) {
	_, abort, err := t.prepare(c)
	if err != nil {
		t.Errorf("%s: prepare answers %s", what, said(err))
		return
	}
	abort()
}

// waiting runs f in a goroutine of its own and tells whether it is still at it
// after a moment; done waits for its end. On a busy machine what should have waited may
// need longer than that to end, and passes.
func (t *T) waiting(f func()) (still bool, done func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t.guard(f)
	}()
	timer := time.NewTimer(t.moment)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		still = true
	}
	return still, func() {
		select {
		case <-ended:
		case <-t.ctx.Done():
			t.Fatalf("it still waits after the end of the transaction")
		}
	}
}

// peek reads while a commit is prepared, and wants to see nothing of it; with
// wait set, nothing at all before it is published.
func (t *T) peek(wait bool) {
	changed, gone, fresh := named("changed"), named("gone"), named("fresh")
	was := map[tiers.Key]string{changed: "old", gone: "old", fresh: ""}
	will := map[tiers.Key]string{changed: "new", gone: "", fresh: "new"}
	for k, v := range was {
		if v != "" {
			t.save(raw(k, v))
		}
	}
	publish, _ := t.prepared(tiers.Commit{Saves: []tiers.Record{
		raw(changed, "new"), {Key: gone, Deleted: true}, raw(fresh, "new"),
	}})

	for k := range was {
		var value string
		still, done := t.waiting(func() {
			r, err := t.Tier.Load(t.ctx, k)
			if err != nil && !errors.Is(err, tiers.ErrNotFound) {
				t.Errorf("load of %s answers %s", show(k), said(err))
			}
			value = string(r.Value)
		})
		switch {
		case still:
			defer func() {
				done()
				if value != will[k] {
					t.Errorf("who waited for %s got %q, want %q", show(k), value, will[k])
				}
			}()
		case wait:
			t.Errorf("a load of %s did not wait, and got %q", show(k), value)
		case value != was[k]:
			t.Errorf("before it was published %s holds %q, want %q", show(k), value, was[k])
		}
	}
	publish()

	t.wantValue("published", changed, "new")
	t.wantAbsent("published", gone)
	t.wantValue("published", fresh, "new")
	t.wantNames("published", t.names(tiers.Query{Category: category}), []string{"changed", "fresh"})
}

func publishAnswers(t *T) {
	old := t.save(raw(named("old"), "1"))
	gone := t.save(raw(named("gone"), "1"))
	t.pass(2 * time.Second)
	value := []byte("2")
	r := tiers.Record{Key: old.Key, Value: value, Codec: "json", Schema: 7, TTL: time.Hour}
	saves := []tiers.Record{r, {Key: gone.Key, Deleted: true}, raw(named("fresh"), ""), {Key: named("never"), Deleted: true}}
	publish, _ := t.prepared(tiers.Commit{Saves: saves})
	value[0] = 'x'
	out := publish()
	if len(out) != len(saves) {
		t.Fatalf("publish answers %d records for %d", len(out), len(saves))
	}
	for i := range out {
		if out[i].Key != saves[i].Key {
			t.Fatalf("publish answers %s at %d, want %s", show(out[i].Key), i, show(saves[i].Key))
		}
	}
	out[0].Value, out[0].TTL = []byte("2"), 0
	t.wantSame("published", t.load(old.Key), out[0])
	if out[0].Version <= old.Version || !out[0].Created.Equal(old.Created) || !out[0].Updated.After(old.Updated) {
		t.Errorf("version %d, created %v, updated %v after version %d, created %v, updated %v", out[0].Version,
			out[0].Created, out[0].Updated, old.Version, old.Created, old.Updated)
	}
	if want := t.now().Add(time.Hour); !t.near(out[0].Expires, want) {
		t.Errorf("it expires at %v, want %v", out[0].Expires, want)
	}
	t.wantSame("published", t.load(out[2].Key), out[2])
	t.wantAbsent("published", gone.Key)
	if out[1].Version != 0 || out[3].Version != 0 {
		t.Errorf("deletes are answered with versions %d and %d", out[1].Version, out[3].Version)
	}
	if v := t.save(raw(gone.Key, "again")).Version; v <= gone.Version {
		t.Errorf("re-created with version %d after %d", v, gone.Version)
	}
}

func abortLeavesAll(t *T) {
	large := strings.Repeat("x", 100<<10)
	if t.MaxValue > 0 {
		large = large[:min(int64(len(large)), t.MaxValue/4)]
	}
	kept := []tiers.Record{
		t.save(lasting(named("changed"), large, time.Hour)), t.save(raw(named("gone"), large)), t.save(raw(named("small"), "v")),
	}
	entries, bytes, err := tiers.Count(t.ctx, t.Tier, tiers.Space{Category: category})
	if err != nil {
		t.Fatalf("count: %v", err)
	}
	for range 10 {
		_, abort := t.prepared(tiers.Commit{
			Reads: []tiers.Read{{Key: kept[2].Key, Version: kept[2].Version}},
			Saves: []tiers.Record{
				raw(named("changed"), strings.ToUpper(large)),
				{Key: named("gone"), Deleted: true},
				raw(named("fresh"), large),
				lasting(named("small"), "over", -time.Second),
			},
		})
		abort()
	}
	for _, r := range kept {
		t.wantSame("aborted", t.load(r.Key), r)
	}
	t.wantAbsent("aborted", named("fresh"))
	t.wantNames("aborted", t.names(tiers.Query{Category: category}), []string{"changed", "gone", "small"})
	if e, b, err := tiers.Count(t.ctx, t.Tier, tiers.Space{Category: category}); err != nil || e != entries || b != bytes {
		t.Errorf("aborted: count answers %d entries, %d bytes and %s; want %d and %d", e, b, said(err), entries, bytes)
	}
	saved := t.save(raw(named("fresh"), "v"))
	t.wantSame("saved after an abort", t.load(saved.Key), saved)
}

func publishConflicts(t *T) {
	here, gone := t.save(raw(named("here"), "1")), t.save(raw(named("gone"), "1"))
	short := t.save(lasting(named("short"), "1", t.short()))
	newer := t.save(raw(here.Key, "2"))
	t.delete(gone.Key)
	t.expire(short.Key)
	other := tiers.Read{Key: tiers.Key{Namespace: "n", Category: category, Name: "here"}}
	save := []tiers.Record{raw(named("saved"), "v")}
	for _, c := range []struct {
		what string
		read tiers.Read
	}{
		{"an overwritten one", tiers.Read{Key: here.Key, Version: here.Version}},
		{"one that was absent", tiers.Read{Key: here.Key}},
		{"a deleted one", tiers.Read{Key: gone.Key, Version: gone.Version}},
		{"an expired one", tiers.Read{Key: short.Key, Version: short.Version}},
	} {
		t.conflicts(c.what, tiers.Commit{Reads: []tiers.Read{other, c.read}, Saves: save}, c.read.Key)
		t.wantAbsent(c.what, save[0].Key)
		t.conflicts(c.what+", saved as well", tiers.Commit{Reads: []tiers.Read{c.read}, Saves: []tiers.Record{raw(c.read.Key, "v")}}, c.read.Key)
	}
	t.wantSame("after conflicts", t.load(here.Key), newer)
	publish, _ := t.prepared(tiers.Commit{
		Reads: []tiers.Read{{Key: gone.Key}, {Key: short.Key}, {Key: here.Key, Version: newer.Version}, other, other},
		Saves: []tiers.Record{raw(here.Key, "3"), raw(gone.Key, "3"), raw(short.Key, "3")},
	})
	publish()
	for _, k := range []tiers.Key{here.Key, gone.Key, short.Key} {
		t.wantValue("all as it was", k, "3")
	}
}

func readsHold(t *T) {
	r := t.save(raw(named("read"), "1"))
	ranged := tiers.Commit{Ranges: []tiers.Range{t.ranged(tiers.Query{Category: "tiertest.empty"}, 0)}}
	for _, c := range []struct {
		what   string
		commit tiers.Commit
		save   tiers.Record
	}{
		{"a key", tiers.Commit{Reads: []tiers.Read{{Key: r.Key, Version: r.Version}}}, raw(r.Key, "2")},
		{"an absent key", tiers.Commit{Reads: []tiers.Read{{Key: named("fresh")}}}, raw(named("fresh"), "2")},
		{"a range", ranged, raw(tiers.Key{Category: "tiertest.empty", Name: "k"}, "2")},
	} {
		_, abort := t.prepared(c.commit)
		still, done := t.waiting(func() { t.save(c.save) })
		if !still {
			t.Errorf("%s that was read was changed before the end of the transaction", c.what)
		}
		abort()
		done()
		t.wantValue(c.what+", afterwards", c.save.Key, "2")
	}
}

func prepareRefuses(t *T) {
	long := strings.Repeat("k", tiers.MaxKey+1)
	_, _, err := t.prepare(tiers.Commit{Saves: []tiers.Record{raw(named("good"), "v"), raw(named(long), "v")}})
	t.wantError("a key that is too long", err, tiers.ErrKey)
	t.wantAbsent("refused", named("good"))
	if t.MaxValue > 0 {
		r := raw(named("large"), "")
		r.Value = make([]byte, t.MaxValue+1)
		_, _, err := t.prepare(tiers.Commit{Saves: []tiers.Record{raw(named("good"), "v"), r}})
		t.wantError("a value that is too large", err, tiers.ErrTooLarge)
		t.wantAbsent("refused", named("good"))
	}
	p, _ := tiers.As[tiers.Publisher](t.Tier)
	ended, end := context.WithCancel(t.ctx)
	end()
	_, _, err = p.Prepare(ended, tiers.Commit{Saves: []tiers.Record{raw(named("good"), "v")}})
	t.wantError("a context that has ended", err, context.Canceled)
	t.wantAbsent("refused", named("good"))
	if err := t.Tier.Close(t.ctx); err != nil {
		t.Fatalf("close: %v", err)
	}
	_, _, err = p.Prepare(t.ctx, tiers.Commit{Saves: []tiers.Record{raw(named("good"), "v")}})
	t.wantError("after close", err, tiers.ErrClosed)
}

// publishCounters counts in two keys at once, named in either order.
func publishCounters(t *T) {
	const workers, rounds = 4, 12
	keys := []tiers.Key{named("one"), named("two")}
	t.workers(workers, func(worker int) {
		for n := 0; n < rounds; {
			var c tiers.Commit
			for i := range keys {
				k := keys[(i+worker)%2]
				r, err := t.Tier.Load(t.ctx, k)
				if err != nil && !errors.Is(err, tiers.ErrNotFound) {
					t.Fatalf("load: %v", err)
				}
				c.Reads = append(c.Reads, tiers.Read{Key: k, Version: r.Version})
				c.Saves = append(c.Saves, raw(k, string(r.Value)+"+"))
			}
			_ = tiers.SystemClock().Sleep(t.ctx, 100*time.Microsecond) // lets others come between
			publish, _, err := t.prepare(c)
			switch {
			case err == nil:
				publish()
				n++
			case !errors.Is(err, tiers.ErrConflict):
				t.Fatalf("prepare: %v", err)
			}
		}
	})
	for _, k := range keys {
		if got := len(t.load(k).Value); got != workers*rounds {
			t.Errorf("%s was counted up %d times, %d were told to have done it", show(k), got, workers*rounds)
		}
	}
}

// ranged is what a transaction notes of a listing of which it has read some
// records, or all with 0.
func (t *T) ranged(q tiers.Query, some int) tiers.Range {
	var d tiers.Digest
	r := tiers.Range{Query: q}
	for i, listed := range t.list(q) {
		d.Add(listed.Name, listed.Version)
		if i+1 == some {
			r.End = listed.Name
			break
		}
	}
	r.Sum = d.Sum()
	return r
}

func rangesConflict(t *T) {
	t.fill("k", 20)
	t.save(raw(named("other"), "v"))
	short := t.save(lasting(named("k00005x"), "v", t.short()))
	queries := []tiers.Query{
		{Category: category},
		{Category: category, Prefix: "k"},
		{Category: category, Prefix: "k", Reverse: true},
		{Category: category, Prefix: "k", After: "k00003"},
		{Category: category, Prefix: "k", After: "k00010", Reverse: true},
	}
	expiring := t.ranges(queries)
	t.expire(short.Key)
	for _, r := range expiring {
		t.conflicts(fmt.Sprintf("one has expired, %+v", r.Query), tiers.Commit{Ranges: []tiers.Range{r}}, tiers.Key{})
	}
	for _, step := range []struct {
		what   string
		change func()
	}{
		{"added", func() { t.save(raw(named("k00005a"), "v")) }},
		{"changed", func() { t.save(raw(named("k00005a"), "w")) }},
		{"deleted", func() { t.delete(named("k00005a")) }},
	} {
		before := t.ranges(queries)
		for _, r := range before {
			t.passes(fmt.Sprintf("as it was, %+v", r.Query), tiers.Commit{Ranges: []tiers.Range{r}})
		}
		step.change()
		for _, r := range before {
			t.conflicts(fmt.Sprintf("%s, %+v", step.what, r.Query), tiers.Commit{Ranges: []tiers.Range{r}}, tiers.Key{})
		}
	}
	empty := t.ranged(tiers.Query{Category: "tiertest.empty"}, 0)
	t.passes("an empty one", tiers.Commit{Ranges: []tiers.Range{empty}})
	t.save(raw(tiers.Key{Category: "tiertest.empty", Name: "k"}, "v"))
	t.conflicts("no longer empty", tiers.Commit{Ranges: []tiers.Range{empty}}, tiers.Key{})
}

func (t *T) ranges(queries []tiers.Query) []tiers.Range {
	out := make([]tiers.Range, len(queries))
	for i, q := range queries {
		out[i] = t.ranged(q, 0)
	}
	return out
}

func rangesEnd(t *T) {
	t.fill("k", 20)
	up := t.ranged(tiers.Query{Category: category, Prefix: "k"}, 5)
	down := t.ranged(tiers.Query{Category: category, Prefix: "k", Reverse: true}, 5)
	both := tiers.Commit{Ranges: []tiers.Range{up, down}, Saves: []tiers.Record{raw(named("k00001"), "own"), raw(named("k00001a"), "own")}}
	t.save(raw(named("k00010"), "changed"))
	t.save(raw(named("k00004a"), "just beyond"))
	t.save(raw(named("k00014a"), "just beyond"))
	t.save(raw(named("other"), "without the prefix"))
	t.save(raw(tiers.Key{Namespace: "n", Category: category, Name: "k00001"}, "elsewhere"))
	publish, _ := t.prepared(both)
	publish()
	t.wantValue("published", named("k00001a"), "own")
	t.conflicts("after its own saves", tiers.Commit{Ranges: []tiers.Range{up}}, tiers.Key{})
	t.save(raw(named("k00015"), "the last one"))
	t.conflicts("the last one that was read, downwards", tiers.Commit{Ranges: []tiers.Range{down}}, tiers.Key{})
}
