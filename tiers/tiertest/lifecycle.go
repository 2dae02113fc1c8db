package tiertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func lifecycleRules() []rule {
	return []rule{
		{
			name: "closing twice is no error",
			why:  "a deferred Close after an explicit one is good style",
			run: func(t *T) {
				t.save(raw(named("k"), "v"))
				for i := range 3 {
					if err := t.Tier.Close(t.ctx); err != nil {
						t.Errorf("close number %d: %v", i+1, err)
					}
				}
			},
		},
		{
			name: "after Close everything answers ErrClosed",
			why:  "a late caller gets an error that it can tell, not a panic",
			run: func(t *T) {
				t.save(raw(named("k"), "v"))
				ops := t.operations(t.Tier)
				if err := t.Tier.Close(t.ctx); err != nil {
					t.Fatalf("close: %v", err)
				}
				for name, op := range ops {
					t.guard(func() { t.wantError(name, op(t.ctx), tiers.ErrClosed) })
				}
				t.guard(func() { tiers.Describe(t.Tier) })
				if d, ok := tiers.As[tiers.Diagnoser](t.Tier); ok {
					t.guard(func() { d.Diagnose(t.ctx) })
				}
			},
		},
		{
			name: "a list that was begun before Close ends",
			why:  "a loop in another goroutine is no reason to crash or to hang",
			run: func(t *T) {
				t.fill("k", 1100)
				seen := 0
				var last error
				for _, err := range t.Tier.List(t.ctx, tiers.Query{Category: category}) {
					if last = err; err != nil {
						break
					}
					if seen++; seen == 5 {
						// Not in this goroutine: Close may wait for the list.
						go func() { _ = t.Tier.Close(t.ctx) }()
					}
				}
				if last != nil && !errors.Is(last, tiers.ErrClosed) {
					t.Errorf("after %d records it ends with %s, want ErrClosed or the whole list", seen, said(last))
				}
				if last == nil && seen != 1100 {
					t.Errorf("it ends after %d of 1100 records without an error", seen)
				}
			},
		},
		{
			name: "closing among calls neither panics nor loses",
			why:  "an app shuts down while requests are running",
			run:  closesAmongCalls,
		},
		{
			name: "everything is there after opening again", when: durable,
			why: "it is what durable means",
			run: allThereAgain,
		},
		{
			name: "another handle sees every save at once", when: shared,
			why: "acknowledged means loadable for everybody in the tier's scope",
			run: otherHandleSees,
		},
		{
			name: "versions grow across handles", when: shared,
			why: "two processes must never give one version to two values",
			run: func(t *T) {
				other := t.Open()
				k := named("k")
				last := t.save(raw(k, "start")).Version
				for i := range 20 {
					h := []tiers.Tier{t.Tier, other}[i%2]
					if i%5 == 4 {
						if _, err := h.Delete(t.ctx, k, tiers.Cond{}); err != nil {
							t.Fatalf("delete: %v", err)
						}
						continue
					}
					r := t.saveIn(h, raw(k, fmt.Sprint(i)))
					if r.Version <= last {
						t.Errorf("step %d: version %d does not follow %d", i, r.Version, last)
					}
					last = r.Version
				}
				if !t.has(Applier) {
					return
				}
				ahead := t.applied("k", 3_600_000_000, "ahead")
				t.apply(nil, ahead)
				if r := t.saveIn(other, raw(k, "v")); r.Version <= ahead.Version {
					t.Errorf("a save of another handle gets version %d after %d was applied", r.Version, ahead.Version)
				}
			},
		},
		{
			name: "one of two handles wins if-absent", when: shared,
			why: "two owners of one lock are none",
			run: func(t *T) {
				handles := []tiers.Tier{t.Tier, t.Open()}
				for i := range 20 {
					t.oneWins(numbered("k", i), handles)
				}
			},
		},
		{
			name: "two handles count to 400", when: shared,
			why: "read-then-write in two processes must lose nothing",
			run: func(t *T) { t.counts(named("k"), []tiers.Tier{t.Tier, t.Open()}, 200) },
		},
		{
			name: "closing one handle leaves the other", when: shared,
			why: "they share the store, not their lives",
			run: func(t *T) {
				other := t.Open()
				t.save(raw(named("k"), "v"))
				if err := other.Close(t.ctx); err != nil {
					t.Fatalf("close: %v", err)
				}
				t.wantValue("after the other was closed", named("k"), "v")
				t.save(raw(named("k"), "next"))
				t.wantValue("saved after the other was closed", named("k"), "next")
			},
		},
	}
}

func closesAmongCalls(t *T) {
	const workers = 8
	acknowledged := make([][]tiers.Key, workers)
	var total atomic.Int64
	t.workers(workers+1, func(worker int) {
		if worker == workers {
			t.poll(10*time.Second, func() bool { return total.Load() > 100 })
			if err := t.Tier.Close(t.ctx); err != nil {
				t.Errorf("close: %v", err)
			}
			return
		}
		for i := range 100_000 {
			k := numbered(fmt.Sprintf("w%d-", worker), i)
			_, err := t.Tier.Save(t.ctx, raw(k, "v"), tiers.Cond{})
			if err != nil {
				t.wantError("save", err, tiers.ErrClosed)
				return
			}
			acknowledged[worker] = append(acknowledged[worker], k)
			total.Add(1)
			if i%10 == 0 {
				if err := lastError(t.Tier.List(t.ctx, tiers.Query{Category: category, Limit: 5})); err != nil {
					t.wantError("list", err, tiers.ErrClosed)
				}
				if _, err := t.Tier.Load(t.ctx, k); err != nil {
					t.wantError("load", err, tiers.ErrClosed)
				}
			}
		}
	})
	if !t.Durable {
		return
	}
	t.Tier = t.Open()
	stored := map[string]bool{}
	for _, r := range t.list(tiers.Query{Category: category, KeysOnly: true}) {
		stored[r.Name] = true
	}
	for _, ks := range acknowledged {
		for _, k := range ks {
			if !stored[k.Name] {
				t.Errorf("%s was acknowledged before Close and is gone", show(k))
			}
		}
	}
}

func allThereAgain(t *T) {
	t.fill("k", 50)
	t.save(lasting(named("lasting"), "v", time.Hour))
	t.save(raw(named("changed"), "old"))
	t.save(raw(named("changed"), "new"))
	t.save(raw(named("deleted"), "v"))
	t.delete(named("deleted"))
	t.save(raw(named("empty"), ""))
	elsewhere := tiers.Key{Namespace: "n", Category: "elsewhere", Name: "k"}
	described := raw(elsewhere, "v")
	described.Codec, described.Schema = "app-own", 5
	t.save(described)
	before, other, spaces := t.list(tiers.Query{Category: category}), t.load(elsewhere), t.spaces()
	for range 3 {
		t.Reopen()
		after := t.list(tiers.Query{Category: category})
		t.wantNames("list", namesOf(after), namesOf(before))
		for i := range min(len(before), len(after)) {
			t.wantSame("re-opened", after[i], before[i])
			t.wantSame("re-opened and loaded", t.load(before[i].Key), before[i])
		}
		t.wantSame("re-opened elsewhere", t.load(elsewhere), other)
		t.wantAbsent("re-opened", named("deleted"))
		if got := t.spaces(); !slices.Equal(got, spaces) {
			t.Errorf("spaces yields %v, before it was %v", got, spaces)
		}
	}
}

func otherHandleSees(t *T) {
	other := t.Open()
	handles := []tiers.Tier{t.Tier, other}
	k := named("k")
	for i := range 40 {
		writer, reader := handles[i%2], handles[(i+1)%2]
		value := fmt.Sprint(i)
		saved := t.saveIn(writer, raw(k, value))
		t.wantValueIn(reader, "saved by the other", k, value)
		if r, err := reader.Load(t.ctx, k); err == nil {
			t.wantSame("saved by the other", r, saved)
		}
		_, err := reader.Save(t.ctx, raw(k, "x"), tiers.If(0))
		t.wantError("save if absent, saved by the other", err, tiers.ErrExists)
		t.wantNames("list of the other", namesOf(t.listIn(reader, tiers.Query{Category: category})), []string{"k"})
		if i%4 == 3 {
			if existed, err := reader.Delete(t.ctx, k, tiers.If(saved.Version)); err != nil || !existed {
				t.Errorf("delete of what the other saved answers %v and %s", existed, said(err))
			}
			t.wantAbsentIn(writer, "deleted by the other", k)
			t.wantNames("list, deleted by the other", namesOf(t.listIn(writer, tiers.Query{Category: category})), nil)
		}
	}
	ctx, cancel := context.WithTimeout(t.ctx, 20*time.Second)
	defer cancel()
	if _, err := other.Save(ctx, lasting(k, "v", t.short()), tiers.Cond{}); err != nil {
		t.Fatalf("save: %v", err)
	}
	t.expire(k)
	t.wantAbsent("expired, saved by the other", k)
}
