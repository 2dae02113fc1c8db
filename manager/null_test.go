package manager_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// A stored null, an empty text, an empty map, a zero struct and a key that was
// never saved are different answers.
func TestNothingIsNotMissingOnEveryRouting(t *testing.T) {
	t.Parallel()
	onEveryRouting(t, func(t *testing.T, m routed) {
		t.Helper()
		ctx, c := t.Context(), manager.For[any](m, "app.values")
		values := map[string]any{
			"null": nil, "text": "", "map": map[string]any{}, "list": []any{}, "false": false, "zero": int64(0),
			"star": "*", "the word null": "null", "the word nil": "nil", "deleted": "__deleted__", "struct": preferences{},
		}
		for key, v := range values {
			must(t, c.Save(ctx, key, v))
		}
		values["struct"] = map[string]any{"theme": "", "font": int64(0)}
		values["zero"] = int64(0)
		for key, want := range values {
			got, err := c.Load(ctx, key)
			if err != nil || !same(got, want) {
				t.Errorf("%s: %#v, %v, want %#v", key, got, err, want)
			}
			var untyped any = "something before"
			if err := m.Load(ctx, "app.values", key, &untyped); err != nil || !same(untyped, want) {
				t.Errorf("%s, untyped: %#v, %v, want %#v", key, untyped, err, want)
			}
			if there := value[bool](t)(c.Exists(ctx, key)); !there {
				t.Errorf("%s does not exist", key)
			}
		}
		if got := keysOf(t, c); len(got) != len(values) {
			t.Errorf("listed %q", got)
		}
		_, err := c.Load(ctx, "never saved")
		wantError(t, err, tiers.ErrNotFound, "a key that was never saved")
		if there := value[bool](t)(c.Exists(ctx, "never saved")); there {
			t.Error("a key that was never saved exists")
		}

		pointer := manager.For[*preferences](m, "app.values")
		if p, err := pointer.Load(ctx, "null"); p != nil || err != nil {
			t.Errorf("null as a pointer: %v, %v", p, err)
		}
		if p, err := pointer.Load(ctx, "struct"); p == nil || err != nil {
			t.Errorf("a zero struct as a pointer: %v, %v", p, err)
		}
		_, err = manager.For[preferences](m, "app.values").Load(ctx, "null")
		wantError(t, err, tiers.ErrType, "null as a struct")
	})
}

// same compares values that came through an any: whole numbers are equal
// whatever their type.
func same(a, b any) bool {
	if x, y := reflect.ValueOf(a), reflect.ValueOf(b); x.IsValid() && y.IsValid() && x.CanInt() && y.CanInt() {
		return x.Int() == y.Int()
	}
	am, ok1 := a.(map[string]any)
	bm, ok2 := b.(map[string]any)
	if !ok1 || !ok2 || len(am) != len(bm) {
		return reflect.DeepEqual(a, b)
	}
	for k := range am {
		if other, ok := bm[k]; !ok || !same(am[k], other) {
			return false
		}
	}
	return true
}

type exacting struct {
	Text    string         `json:"text"`
	At      time.Time      `json:"at"`
	Zero    time.Time      `json:"zero"`
	Numbers map[string]any `json:"numbers"`
}

func TestHardValuesAreTheSameOnEveryRouting(t *testing.T) {
	t.Parallel()
	want := exacting{
		Text:    "a\x00b <&> \u2028 😀 \\u0000 \"*\"\r\n",
		At:      time.Date(2026, 7, 1, 12, 30, 0, 123456789, time.FixedZone("", 2*60*60)),
		Numbers: map[string]any{"large": int64(9007199254740993), "least": int64(-1 << 63)},
	}
	onEveryRouting(t, func(t *testing.T, m routed) {
		t.Helper()
		ctx, c := t.Context(), manager.For[exacting](m, "app.values")
		v := want
		for range 2 { // save, load, save, load
			must(t, c.Save(ctx, "k", v))
			v = value[exacting](t)(c.Load(ctx, "k"))
		}
		_, offset := v.At.Zone()
		if v.Text != want.Text || !v.At.Equal(want.At) || offset != 2*60*60 || !v.Zero.IsZero() {
			t.Errorf("loaded %+v", v)
		}
		if !reflect.DeepEqual(v.Numbers, want.Numbers) {
			t.Errorf("loaded %#v", v.Numbers)
		}
	})
}
