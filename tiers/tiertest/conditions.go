package tiertest

import (
	"errors"
	"strconv"
	"sync/atomic"

	"github.com/sagestore/sagestore/tiers"
)

func conditionRules() []rule {
	return []rule{
		{
			name: "if-version saves over that version only",
			why:  "this is what makes read-then-write safe",
			run: func(t *T) {
				k := named("k")
				first := t.save(raw(k, "1"))
				second, err := t.Tier.Save(t.ctx, raw(k, "2"), tiers.If(first.Version))
				if err != nil {
					t.Fatalf("save over the right version: %v", err)
				}
				if second.Version <= first.Version {
					t.Errorf("version %d does not follow %d", second.Version, first.Version)
				}
				for _, wrong := range []tiers.Version{first.Version, second.Version + 1, second.Version - 1, 1} {
					if wrong == second.Version {
						continue
					}
					_, err = t.Tier.Save(t.ctx, raw(k, "3"), tiers.If(wrong))
					t.wantError("save over a wrong version", err, tiers.ErrConflict)
				}
				t.wantSame("after refused saves", t.load(k), second)
			},
		},
		{
			name: "if-version of an absent key is a conflict",
			why:  "a record that was deleted meanwhile must not come back by a save over its old version",
			run: func(t *T) {
				k := named("k")
				_, err := t.Tier.Save(t.ctx, raw(k, "v"), tiers.If(7))
				t.wantError("save over a version that never was", err, tiers.ErrConflict)
				t.wantAbsent("refused", k)
				old := t.save(raw(k, "v"))
				t.delete(k)
				_, err = t.Tier.Save(t.ctx, raw(k, "v"), tiers.If(old.Version))
				t.wantError("save over a deleted version", err, tiers.ErrConflict)
				t.wantAbsent("refused", k)
			},
		},
		{
			name: "if-absent saves once",
			why:  "it is how a lock, a lease and a first writer are made",
			run: func(t *T) {
				k := named("k")
				first, err := t.Tier.Save(t.ctx, raw(k, "1"), tiers.If(0))
				if err != nil {
					t.Fatalf("save of an absent key: %v", err)
				}
				_, err = t.Tier.Save(t.ctx, raw(k, "2"), tiers.If(0))
				t.wantError("save of a present key", err, tiers.ErrExists)
				if errors.Is(err, tiers.ErrConflict) {
					t.Errorf("it answers ErrConflict as well: %v", err)
				}
				t.wantSame("after a refused save", t.load(k), first)
				t.delete(k)
				if _, err = t.Tier.Save(t.ctx, raw(k, "3"), tiers.If(0)); err != nil {
					t.Errorf("save after a delete: %v", err)
				}
			},
		},
		{
			name: "if-absent sees an expired record as absent",
			why:  "else an expired lock is never taken again",
			run: func(t *T) {
				k := named("k")
				old := t.save(lasting(k, "old", t.short()))
				t.expire(k)
				_, err := t.Tier.Save(t.ctx, raw(k, "over"), tiers.If(old.Version))
				t.wantError("save over an expired version", err, tiers.ErrConflict)
				if _, err := t.Tier.Save(t.ctx, raw(k, "new"), tiers.If(0)); err != nil {
					t.Errorf("save if absent: %v", err)
				}
				t.wantValue("saved", k, "new")
			},
		},
		{
			name: "conditional delete",
			why:  "deleting what somebody changed meanwhile loses the change",
			run:  conditionalDelete,
		},
		{
			name: "one of many wins if-absent",
			why:  "two owners of one lock are none",
			run: func(t *T) {
				for i := range 10 {
					t.oneWins(numbered("k", i), []tiers.Tier{t.Tier})
				}
			},
		},
		{
			name: "no read-modify-write is lost",
			why:  "a counter under conditional saves must count",
			run:  func(t *T) { t.counts(named("k"), []tiers.Tier{t.Tier, t.Tier, t.Tier, t.Tier}, 25) },
		},
	}
}

func conditionalDelete(t *T) {
	k := named("k")
	existed, err := t.Tier.Delete(t.ctx, k, tiers.If(0))
	if err != nil || existed {
		t.Errorf("delete of an absent key if absent answers %v and %s", existed, said(err))
	}
	_, err = t.Tier.Delete(t.ctx, k, tiers.If(7))
	t.wantError("delete of an absent key if version", err, tiers.ErrConflict)

	first := t.save(raw(k, "1"))
	_, err = t.Tier.Delete(t.ctx, k, tiers.If(0))
	t.wantError("delete of a present key if absent", err, tiers.ErrExists)
	_, err = t.Tier.Delete(t.ctx, k, tiers.If(first.Version+1))
	t.wantError("delete of another version", err, tiers.ErrConflict)
	t.wantSame("after refused deletes", t.load(k), first)
	existed, err = t.Tier.Delete(t.ctx, k, tiers.If(first.Version))
	if err != nil || !existed {
		t.Errorf("delete of the right version answers %v and %s", existed, said(err))
	}
	t.wantAbsent("deleted", k)

	gone := t.save(lasting(k, "2", t.short()))
	t.expire(k)
	_, err = t.Tier.Delete(t.ctx, k, tiers.If(gone.Version))
	t.wantError("delete of an expired version", err, tiers.ErrConflict)
	existed, err = t.Tier.Delete(t.ctx, k, tiers.Cond{})
	if err != nil || existed {
		t.Errorf("delete of an expired record answers %v and %s, want false", existed, said(err))
	}
}

// oneWins lets several callers of each handle create one key.
func (t *T) oneWins(k tiers.Key, handles []tiers.Tier) {
	const callers = 4
	var won, lost atomic.Int64
	t.workers(callers*len(handles), func(worker int) {
		_, err := handles[worker%len(handles)].Save(t.ctx, raw(k, "v"), tiers.If(0))
		switch {
		case err == nil:
			won.Add(1)
		case errors.Is(err, tiers.ErrExists):
			lost.Add(1)
		default:
			t.Errorf("save if absent: %v", err)
		}
	})
	if won.Load() != 1 {
		t.Errorf("%s was created %d times, and refused %d times", show(k), won.Load(), lost.Load())
	}
}

// counts lets each handle add to one counter by load and conditional save.
func (t *T) counts(k tiers.Key, handles []tiers.Tier, each int) {
	t.save(raw(k, "0"))
	t.workers(len(handles), func(worker int) {
		h := handles[worker]
		for done := 0; done < each; {
			if t.ctx.Err() != nil {
				t.Fatalf("only %d of %d steps within the time", done, each)
			}
			r, err := h.Load(t.ctx, k)
			if err != nil {
				t.Fatalf("load: %v", err)
			}
			_, err = h.Save(t.ctx, raw(k, increment(string(r.Value))), tiers.If(r.Version))
			switch {
			case err == nil:
				done++
			case !errors.Is(err, tiers.ErrConflict):
				t.Fatalf("save: %v", err)
			}
		}
	})
	want := strconv.Itoa(each * len(handles))
	t.wantValue("all steps done", k, want)
	for _, h := range handles {
		t.wantValueIn(h, "in each handle", k, want)
	}
}

func increment(n string) string {
	i, err := strconv.Atoi(n)
	if err != nil {
		return "not a number: " + n
	}
	return strconv.Itoa(i + 1)
}
