package manager_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

type preferences struct {
	Theme string         `json:"theme"`
	Font  int            `json:"font"`
	Extra map[string]any `json:"extra,omitempty"`
}

func TestSaveLoadExistsDelete(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	prefs := manager.For[preferences](sagetest.Open(t), "session.preferences")
	want := preferences{Theme: "dark", Font: 12}
	must(t, prefs.Save(ctx, "u", want))
	if got, err := prefs.Load(ctx, "u"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("load: %+v, %v", got, err)
	}
	if ok, err := prefs.Exists(ctx, "u"); !ok || err != nil {
		t.Errorf("exists: %v, %v", ok, err)
	}
	if existed, err := prefs.Delete(ctx, "u"); !existed || err != nil {
		t.Errorf("delete: %v, %v", existed, err)
	}
	_, err := prefs.Load(ctx, "u")
	wantError(t, err, tiers.ErrNotFound, "load after the delete")
	if existed, err := prefs.Delete(ctx, "u"); existed || err != nil {
		t.Errorf("the second delete is no error: %v, %v", existed, err)
	}
	if ok, err := prefs.Exists(ctx, "u"); ok || err != nil {
		t.Errorf("exists after the delete: %v, %v", ok, err)
	}
	if got, err := prefs.LoadOr(ctx, "u", want); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("load or: %+v, %v", got, err)
	}
}

func TestSecondOfTwoQuickSavesWins(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, category := range []string{"session.preferences", "app.other"} {
		c := manager.For[int](sagetest.Open(t), category)
		var callers sync.WaitGroup
		for caller := range 8 {
			callers.Go(func() {
				for i := range 125 {
					key := fmt.Sprintf("%d-%d", caller, i)
					if err := errors.Join(c.Save(ctx, key, 1), c.Save(ctx, key, 2)); err != nil {
						t.Error(err)
					}
					if got, err := c.Load(ctx, key); err != nil || got != 2 {
						t.Errorf("%s: %d, %v", key, got, err)
					}
				}
			})
		}
		callers.Wait()
	}
}

func TestWhatTheCallerChangesIsNotWhatIsStored(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := manager.For[map[string][]int](sagetest.Open(t), "session.preferences")
	saved := map[string][]int{"a": {1}}
	must(t, c.Save(ctx, "k", saved))
	saved["a"][0] = 9
	loaded := value[map[string][]int](t)(c.Load(ctx, "k"))
	loaded["a"][0], loaded["b"] = 8, nil
	if got := value[map[string][]int](t)(c.Load(ctx, "k")); !reflect.DeepEqual(got, map[string][]int{"a": {1}}) {
		t.Errorf("stored: %v", got)
	}
}

func TestEmptyValuesAndMissingAreDifferentAnswers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := manager.For[any](sagetest.Open(t), "session.preferences")
	values := map[string]any{"null": nil, "text": "", "map": map[string]any{}, "star": "*", "word": "null"}
	for key, v := range values {
		must(t, c.Save(ctx, key, v))
	}
	for key, want := range values {
		if got, err := c.Load(ctx, key); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v, want %#v", key, got, err, want)
		}
	}
	_, err := c.Load(ctx, "never saved")
	wantError(t, err, tiers.ErrNotFound, "missing")
}

func TestLargeIntegersStayExact(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cfg := config.InMemory()
	cfg.Categories = map[string]config.Category{"app.packed": {Codec: "msgpack"}}
	m := sagetest.OpenWith(t, cfg, all())
	const big = 9007199254740993
	for _, category := range []string{"session.preferences", "app.packed"} {
		c := manager.For[map[string]any](m, category)
		v := map[string]any{"n": int64(big)}
		for range 2 {
			must(t, c.Save(ctx, "k", v))
			v = value[map[string]any](t)(c.Load(ctx, "k"))
		}
		if got := fmt.Sprint(v["n"]); got != "9007199254740993" {
			t.Errorf("%s: %s", category, got)
		}
	}
}

func TestValueThatCannotBeReadBackIsRefused(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	err := manager.For[chan int](m, "session.preferences").Save(ctx, "k", make(chan int))
	wantError(t, err, tiers.ErrType, "a channel")
	c := manager.For[preferences](m, "session.preferences")
	err = c.Save(ctx, "k", preferences{Extra: map[string]any{"score": math.NaN()}})
	if err == nil || !strings.Contains(err.Error(), "extra.score") {
		t.Errorf("the error names the field: %v", err)
	}
	err = c.SaveMany(ctx, map[string]preferences{"a": {}, "b": {Extra: map[string]any{"x": math.Inf(1)}}})
	if err == nil || asError(t, err).Key != "b" {
		t.Errorf("the batch names the key: %v", err)
	}
	if all := value[[]manager.Entry[preferences]](t)(c.All(ctx)); len(all) != 0 {
		t.Errorf("something was stored: %v", all)
	}
}

func TestWrongTypeNamesCategoryKeyAndBothTypes(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	must(t, manager.For[string](m, "session.preferences").Save(ctx, "k", "text"))
	_, err := manager.For[int](m, "session.preferences").Load(ctx, "k")
	wantError(t, err, tiers.ErrType, "a text as a number")
	for _, part := range []string{"session.preferences", `"k"`, "string", "int"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %s", err, part)
		}
	}
}

func TestTooLargeNamesLimitAndSize(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cfg := config.InMemory()
	cfg.Categories = map[string]config.Category{"app.small": {MaxValue: "1KiB", Codec: "raw"}}
	c := manager.For[[]byte](sagetest.OpenWith(t, cfg, all()), "app.small")
	must(t, c.Save(ctx, "k", make([]byte, 1024)))
	err := c.Save(ctx, "k", make([]byte, 1025))
	wantError(t, err, tiers.ErrTooLarge, "one byte more")
	if !strings.Contains(err.Error(), "1025") || !strings.Contains(err.Error(), "1024") {
		t.Errorf("%q does not name size and limit", err)
	}
}

func TestEntryTellsVersionAndTimes(t *testing.T) {
	t.Parallel()
	ctx, clock := t.Context(), sagetest.NewClock(start)
	c := manager.For[string](sagetest.Open(t, manager.WithClock(clock)), "session.preferences")
	first := value[manager.Entry[string]](t)(c.SaveEntry(ctx, "k", "a"))
	clock.Advance(time.Minute)
	second := value[manager.Entry[string]](t)(c.SaveEntry(ctx, "k", "b", manager.TTL(time.Hour)))
	got := value[manager.Entry[string]](t)(c.Entry(ctx, "k"))
	if !reflect.DeepEqual(got, second) {
		t.Errorf("saved %+v, loaded %+v", second, got)
	}
	want := manager.Entry[string]{
		Key: "k", Value: "b", Version: got.Version, Created: start, Updated: start.Add(time.Minute),
		Expires: start.Add(time.Minute + time.Hour), Tier: "memory",
	}
	if !reflect.DeepEqual(got, want) || second.Version <= first.Version {
		t.Errorf("entry %+v, want %+v above version %d", got, want, first.Version)
	}
}

func TestConditionsHoldOrTheCallChangesNothing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := manager.For[string](sagetest.Open(t), "session.preferences")
	e := value[manager.Entry[string]](t)(c.SaveEntry(ctx, "k", "a", manager.IfAbsent()))
	wantError(t, c.Save(ctx, "k", "x", manager.IfAbsent()), tiers.ErrExists, "if absent")
	wantError(t, c.Save(ctx, "k", "x", manager.IfVersion(e.Version+1)), tiers.ErrConflict, "another version")
	_, err := c.Delete(ctx, "k", manager.IfVersion(e.Version+1))
	wantError(t, err, tiers.ErrConflict, "delete of another version")
	must(t, c.Save(ctx, "k", "b", manager.IfVersion(e.Version)))
	if got := value[string](t)(c.Load(ctx, "k")); got != "b" {
		t.Errorf("loaded %q", got)
	}
}

func TestKeysThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := manager.For[string](sagetest.Open(t), "session.preferences")
	for _, key := range []string{"", "a\x00b", "\xff", strings.Repeat("x", 1025)} {
		wantError(t, c.Save(ctx, key, ""), tiers.ErrKey, "save")
		_, err := c.Load(ctx, key)
		wantError(t, err, tiers.ErrKey, "load")
		_, err = c.Delete(ctx, key)
		wantError(t, err, tiers.ErrKey, "delete")
		_, err = c.LoadMany(ctx, "fine", key)
		wantError(t, err, tiers.ErrKey, "load many")
	}
	must(t, c.Save(ctx, strings.Repeat("x", 1024), "fine"))
}

func TestBatches(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := manager.For[int](sagetest.Open(t), "session.preferences")
	must(t, c.SaveMany(ctx, map[string]int{"a": 1, "b": 2, "c": 3}))
	must(t, c.SaveMany(ctx, nil))
	got := value[map[string]int](t)(c.LoadMany(ctx, "a", "c", "missing", "a"))
	if !reflect.DeepEqual(got, map[string]int{"a": 1, "c": 3}) {
		t.Errorf("loaded %v", got)
	}
	if n, err := c.DeleteMany(ctx, "a", "missing", "c"); n != 2 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	err := c.SaveMany(ctx, map[string]int{"b": 9, "d": 9}, manager.IfAbsent())
	wantError(t, err, tiers.ErrExists, "a condition on each")
	if asError(t, err).Key != "b" {
		t.Errorf("the error names the key: %v", err)
	}
}

func TestUnknownCategoryIsTheErrorOfEveryCall(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cfg := config.Default()
	cfg.DataDir = t.TempDir()
	m := sagetest.OpenWith(t, cfg, all())
	c := manager.For[int](m, "session.preferencs")
	err := manager.Check(c, manager.For[int](m, "learning.patterns"))
	wantError(t, err, tiers.ErrCategory, "check")
	if !strings.Contains(err.Error(), "session.preferences") {
		t.Errorf("%q does not name the nearest", err)
	}
	wantError(t, c.Save(ctx, "k", 1), tiers.ErrCategory, "save")
	_, err = c.Load(ctx, "k")
	wantError(t, err, tiers.ErrCategory, "load")
	_, err = c.Modify(ctx, "k", func(*int, bool) error { return nil })
	wantError(t, err, tiers.ErrCategory, "modify")
	_, err = c.All(ctx)
	wantError(t, err, tiers.ErrCategory, "list")
	wantError(t, m.Save(ctx, "nobody.knows", "k", 1), tiers.ErrCategory, "untyped")
}

func TestLibrariesBringTheirPolicies(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	open := func() *manager.Manager {
		return value[*manager.Manager](t)(manager.OpenDir(context.WithoutCancel(ctx), dir, all()))
	}
	m := open()
	lib := manager.For[string](m, "lib.things", manager.Policy(config.Category{Tier: "file", TTL: "24h"}))
	must(t, manager.Check(lib))
	e := value[manager.Entry[string]](t)(lib.SaveEntry(ctx, "k", "v"))
	if e.Tier != "file" || e.Expires.Sub(e.Updated).Round(time.Second) != 24*time.Hour {
		t.Errorf("the policy holds: %+v", e)
	}
	closeNow(t, m)

	m = open()
	defer closeNow(t, m)
	var got string
	must(t, m.Load(ctx, "lib.things", "k", &got)) // the store remembers the policy
	if got != "v" || !slices.ContainsFunc(m.Policies(), func(p config.Policy) bool { return p.Category == "lib.things" && p.Tier == "file" }) {
		t.Errorf("loaded %q; policies %v", got, m.Policies())
	}
}

func TestNamespacesHaveTheirOwnKeys(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	acme := m.Namespace("acme")
	must(t, manager.For[int](m, "session.preferences").Save(ctx, "k", 1))
	must(t, manager.For[int](acme, "session.preferences").Save(ctx, "k", 2))
	must(t, acme.Close(ctx))
	if got := value[int](t)(manager.For[int](m, "session.preferences").Load(ctx, "k")); got != 1 {
		t.Errorf("the default namespace has %d", got)
	}
	all := value[[]manager.Entry[int]](t)(manager.For[int](acme, "session.preferences").All(ctx))
	if len(all) != 1 || all[0].Value != 2 {
		t.Errorf("the namespace has %v", all)
	}
	bad := m.Namespace("Not Valid")
	wantError(t, manager.For[int](bad, "session.preferences").Save(ctx, "k", 1), tiers.ErrKey, "a bad name")
	wantError(t, bad.EndSession(ctx, "s"), tiers.ErrKey, "a bad name")
}

func TestUntypedCallsSeeWhatCollectionsSaved(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	must(t, manager.For[preferences](m, "session.preferences").Save(ctx, "u", preferences{Theme: "dark", Font: 9}))
	var got map[string]any
	must(t, m.Load(ctx, "session.preferences", "u", &got))
	if got["theme"] != "dark" {
		t.Errorf("loaded %v", got)
	}
	var e manager.Encoded
	must(t, m.Load(ctx, "session.preferences", "u", &e))
	if e.Codec != "json" || string(e.Value) != `{"theme":"dark","font":9}` {
		t.Errorf("encoded: %s %s", e.Codec, e.Value)
	}
	must(t, m.Save(ctx, "session.preferences", "copy", e))
	for i, err := range m.List(ctx, "session.preferences", manager.Prefix("c")) {
		var p preferences
		if err != nil || i.Key != "copy" || i.Decode(&p) != nil || p.Font != 9 {
			t.Errorf("listed %+v, %v: %+v", i, err, p)
		}
	}
	for _, codec := range []string{"raw", "msgpack", "gob"} {
		must(t, m.Save(ctx, "app.blobs", codec, manager.Encoded{Codec: codec, Value: []byte("\x93\x01\x02\x03")}))
		must(t, m.Load(ctx, "app.blobs", codec, &e))
		if e.Codec != codec || string(e.Value) != "\x93\x01\x02\x03" {
			t.Errorf("%s: %q in %s", codec, e.Value, e.Codec)
		}
	}
	wantError(t, m.Save(ctx, "app.blobs", "x", manager.Encoded{Codec: "pickle"}), tiers.ErrCodec, "an unknown codec")
}
