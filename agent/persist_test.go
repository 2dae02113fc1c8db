package agent_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

func persist[T any](t testing.TB, f *agent.Fields, name string, initial T) *agent.Persisted[T] {
	t.Helper()
	p, err := agent.Persist(t.Context(), f, name, initial)
	ok(t, err)
	return p
}

func TestPersistedValueIsThereAgain(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		p := persist(t, h.Fields("a"), "count", 7)
		if there, err := h.Fields("a").Exists(ctx); there || err != nil || p.Get() != 7 {
			t.Errorf("opening a value stores it, or it is not the initial one: %v, %v", p.Get(), err)
		}
		ok(t, p.Set(ctx, 41))
		ok(t, p.Update(ctx, func(n *int) error { *n++; return nil }))
		h.reopen()
		if p = persist(t, h.Fields("a"), "count", 7); p.Get() != 42 {
			t.Errorf("it is %d, want 42", p.Get())
		}
		_, err := agent.Persist(ctx, h.Fields("a"), "count", "text")
		if !errors.Is(err, tiers.ErrType) || !strings.Contains(err.Error(), "a/count") {
			t.Errorf("a stored number opened as a text: %v", err)
		}
		ok(t, h.Fields("a").Save(ctx, "count", "made a text by hand"))
		_, err = agent.Persist(ctx, h.Fields("a"), "count", 7)
		if !errors.Is(err, tiers.ErrType) || !strings.Contains(err.Error(), "a/count") {
			t.Errorf("a stored text opened as a number: %v", err)
		}
		if p.Update(ctx, func(*int) error { t.Error("it runs"); return nil }) == nil {
			t.Error("a text is updated as a number")
		}
	})
}

func TestSetOfAnOldHandleIsAConflict(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx, f := t.Context(), h.Fields("a")
		one, other := persist(t, f, "v", "new"), persist(t, f, "v", "new")
		ok(t, one.Set(ctx, "one"))
		for range 2 {
			if err := other.Set(ctx, "other"); !errors.Is(err, tiers.ErrConflict) {
				t.Errorf("the second of two that saw nothing: %v", err)
			}
			if err := other.Checkpoint(ctx); !errors.Is(err, tiers.ErrConflict) {
				t.Errorf("a checkpoint of an old value: %v", err)
			}
		}
		if got, err := other.Reload(ctx); got != "one" || err != nil || other.Get() != "one" {
			t.Errorf("reloaded it is %q and %v", got, err)
		}
		ok(t, other.Set(ctx, "other"))
		ok(t, one.Update(ctx, func(v *string) error { *v += " and one"; return nil }))
		if one.Get() != "other and one" {
			t.Errorf("an update begins with what is stored: %q", one.Get())
		}
		ok(t, one.Checkpoint(ctx))
		_, err := f.Delete(ctx)
		ok(t, err)
		if err := one.Set(ctx, "x"); !errors.Is(err, tiers.ErrConflict) {
			t.Errorf("what was deleted is set: %v", err)
		}
		ok(t, one.Update(ctx, func(v *string) error {
			if *v != "new" {
				t.Errorf("after a deletion it begins with %q", *v)
			}
			return nil
		}))
		failed := errors.New("no")
		if err := one.Update(ctx, func(v *string) error { *v = "refused"; return failed }); err != failed { //nolint:errorlint // as it is
			t.Errorf("the error of the function is %v", err)
		}
		if one.Get() != "new" {
			t.Errorf("a refused update leaves %q", one.Get())
		}
	})
}

func TestPersistedValueInATransaction(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		p := persist(t, h.Fields("a"), "list", []int{1})
		failed := errors.New("no")
		work := func(answer error) error {
			return h.m.Update(ctx, func(tx *manager.Tx) error {
				in := p.In(tx)
				ok(t, in.Set(ctx, []int{1, 2}))
				ok(t, in.Update(ctx, func(v *[]int) error { *v = append(*v, 3); return nil }))
				if !slices.Equal(in.Get(), []int{1, 2, 3}) || !slices.Equal(p.Get(), []int{1}) {
					t.Errorf("inside it is %v, outside %v", in.Get(), p.Get())
				}
				return answer
			})
		}
		if err := work(failed); !errors.Is(err, failed) || !slices.Equal(p.Get(), []int{1}) {
			t.Errorf("rolled back it is %v, %v", p.Get(), err)
		}
		ok(t, work(nil))
		if !slices.Equal(p.Get(), []int{1, 2, 3}) {
			t.Errorf("committed it is %v", p.Get())
		}
		ok(t, p.Set(ctx, []int{4})) // it knows the version that the commit made
		p.Get()[0] = 5
		if got := p.Get(); got[0] != 4 {
			t.Errorf("who changes what was got changes the value: %v", got)
		}
	})
}

func TestUpdatesOfManyHandlesAreNotLost(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		var wg sync.WaitGroup
		for range 4 {
			p := persist(t, agent.New(h.m).Fields("a"), "n", 0)
			wg.Go(func() {
				for range 5 {
					if err := p.Update(context.WithoutCancel(t.Context()), func(n *int) error { *n++; return nil }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if p := persist(t, h.Fields("a"), "n", 0); p.Get() != 20 {
			t.Errorf("20 updates make %d", p.Get())
		}
	})
}

func TestWhatCantBeReadBackIsNotPersisted(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx, f := t.Context(), h.Fields("a")
		if _, err := agent.Persist(ctx, f, "x", math.NaN()); err == nil {
			t.Error("NaN is an initial value")
		}
		p := persist(t, f, "x", 1.5)
		if err := p.Set(ctx, math.Inf(1)); err == nil {
			t.Error("infinity is stored")
		}
		if there, err := f.Exists(ctx); there || err != nil || p.Get() != 1.5 {
			t.Errorf("a refused value leaves %v, %v, %v", there, p.Get(), err)
		}
	})
}

func TestHandEditOfAFieldIsSeenAndNotOverwritten(t *testing.T) {
	for _, r := range routings() {
		if r.name != "file" {
			continue
		}
		ctx, h := t.Context(), open(t, r)
		p := persist(t, h.Fields("a"), "count", 0)
		ok(t, p.Set(ctx, 1))
		found, err := filepath.Glob(filepath.Join(h.m.Config().DataDir, "data", "agent.fields", "a", "count.json"))
		ok(t, err)
		if len(found) != 1 {
			t.Fatalf("the field is in %v", found)
		}
		ok(t, os.WriteFile(found[0], []byte("5\n"), 0o600))
		if err := p.Set(ctx, 2); !errors.Is(err, tiers.ErrConflict) {
			t.Errorf("a save over the edit: %v", err)
		}
		if n, err := p.Reload(ctx); n != 5 || err != nil {
			t.Errorf("the edit is %d, %v", n, err)
		}
		ok(t, os.WriteFile(found[0], []byte("\"five\"\n"), 0o600))
		if _, err := agent.Persist(ctx, h.Fields("a"), "count", 0); !errors.Is(err, tiers.ErrType) || !strings.Contains(err.Error(), "count") {
			t.Errorf("a text: %v", err)
		}
	}
}
