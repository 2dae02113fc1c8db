package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

func wantFields(t testing.TB, f *agent.Fields, want map[string]string) {
	t.Helper()
	all, err := f.LoadAll(t.Context())
	ok(t, err)
	got := map[string]string{}
	for name, raw := range all {
		got[name] = string(raw)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the fields are %v, want %v", got, want)
	}
	if there, err := f.Exists(t.Context()); err != nil || there != (len(want) > 0) {
		t.Errorf("exists answers %v and %v with %d fields", there, err, len(want))
	}
}

func TestFieldsOfAnAgent(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		f, other := h.Fields("a/gent %"), h.Fields("a")
		wantFields(t, f, map[string]string{})
		var v any
		if err := f.Load(ctx, "count", &v); !errors.Is(err, tiers.ErrNotFound) {
			t.Errorf("a field that was never saved: %v", err)
		}
		ok(t, f.SaveAll(ctx, nil))
		wantFields(t, f, map[string]string{})
		ok(t, f.Save(ctx, "count", 42))
		ok(t, f.Load(ctx, "count", &v))
		if v != int64(42) {
			t.Errorf("it is %#v", v)
		}
		wantFields(t, f, map[string]string{"count": "42"})
		ok(t, other.Save(ctx, "count", nil))
		var n *int
		if err := other.Load(ctx, "count", &n); err != nil || n != nil {
			t.Errorf("a stored null is %v and %v, and not a field that is not there", n, err)
		}
		ok(t, f.SaveAll(ctx, map[string]any{"a/b": "x", "": 1, "%": []int{}}))
		wantFields(t, f, map[string]string{"count": "42", "a/b": `"x"`, "": "1", "%": "[]"})
		ok(t, f.ReplaceAll(ctx, map[string]any{"a/b": "y"}))
		wantFields(t, f, map[string]string{"a/b": `"y"`})
		ok(t, f.SaveAll(ctx, map[string]any{"c": 1, "d": 2}))
		if existed, err := f.DeleteField(ctx, "c"); !existed || err != nil {
			t.Errorf("delete of one field: %v and %v", existed, err)
		}
		h.reopen()
		f, other = h.Fields("a/gent %"), h.Fields("a")
		wantFields(t, f, map[string]string{"a/b": `"y"`, "d": "2"})
		for _, want := range []bool{true, false} {
			if existed, err := f.Delete(ctx); existed != want || err != nil {
				t.Errorf("delete answers %v and %v", existed, err)
			}
			wantFields(t, f, map[string]string{})
		}
		wantFields(t, other, map[string]string{"count": "null"})
		ok(t, other.ReplaceAll(ctx, nil))
		wantFields(t, other, map[string]string{})
	})
}

func TestDeletedAgentTakesItsFields(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx := t.Context()
		talk(t, h.Store, "a", "one")
		talk(t, h.Store, "a/b", "one")
		for _, key := range []string{"a", "a/b", "only fields"} {
			ok(t, h.Fields(key).SaveAll(ctx, map[string]any{"x": 1, "y": nil}))
		}
		counter := persist(t, h.Fields("a"), "x", 0)
		if existed := must(h.Delete(ctx, "a"))(t); !existed {
			t.Error("it was there")
		}
		if there := must(h.Fields("a").Exists(ctx))(t); there {
			t.Error("its fields are left")
		}
		isErr(t, counter.Set(ctx, 2), tiers.ErrConflict)
		wantFields(t, h.Fields("a"), map[string]string{})
		wantFields(t, h.Fields("a/b"), map[string]string{"x": "1", "y": "null"})
		for _, want := range []bool{true, false} {
			if existed := must(h.Delete(ctx, "only fields"))(t); existed != want {
				t.Errorf("of a key with nothing but fields it answers %v", existed)
			}
		}
		failed := errors.New("changed my mind")
		isErr(t, h.m.Update(ctx, func(tx *manager.Tx) error {
			must(h.In(tx).Delete(ctx, "a/b"))(t)
			return failed
		}), failed)
		wantFields(t, h.Fields("a/b"), map[string]string{"x": "1", "y": "null"})
	})
}

func TestFieldsAreSavedTogetherOrNot(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		t.Helper()
		ctx, f := t.Context(), h.Fields("a")
		ok(t, f.Save(ctx, "d", 1))
		for name, all := range map[string]map[string]any{
			"a value that JSON can't say":   {"a": 1, "b": math.NaN()},
			"a field that fits into no key": {"a": 1, strings.Repeat("x", 2000): 2},
			"a field with NUL":              {"a": 1, "x\x00": 2},
		} {
			err := f.SaveAll(ctx, all)
			if err == nil {
				t.Errorf("%s is saved", name)
			}
			if f.ReplaceAll(ctx, all) == nil {
				t.Errorf("%s replaces all", name)
			}
			wantFields(t, f, map[string]string{"d": "1"})
		}
		failed := errors.New("changed my mind")
		err := h.m.Update(ctx, func(tx *manager.Tx) error {
			in := h.In(tx).Fields("a")
			ok(t, in.SaveAll(ctx, map[string]any{"a": 1}))
			wantFields(t, in, map[string]string{"a": "1", "d": "1"})
			ok(t, in.ReplaceAll(ctx, map[string]any{"e": 1}))
			wantFields(t, in, map[string]string{"e": "1"})
			return failed
		})
		if !errors.Is(err, failed) {
			t.Error(err)
		}
		wantFields(t, f, map[string]string{"d": "1"})
		// Callers that replace all never leave a mixture.
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for range 5 {
					if err := f.ReplaceAll(ctx, map[string]any{fmt.Sprint("x", i): i, fmt.Sprint("y", i): i}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		all, err := f.LoadAll(ctx)
		ok(t, err)
		values := map[string]bool{}
		for _, raw := range all {
			values[string(raw)] = true
		}
		if len(all) != 2 || len(values) != 1 {
			t.Errorf("a mixture is left: %v", all)
		}
	})
}

func TestCheckpointKey(t *testing.T) {
	key := func(name string, beliefs any) string {
		t.Helper()
		k, err := agent.CheckpointKey(name, beliefs)
		ok(t, err)
		return k
	}
	page, err := os.ReadFile("../docs/FORMAT.md")
	ok(t, err)
	for _, c := range []struct {
		name, beliefs, want string
	}{
		{"Counter", `null`, "Counter_0e34f860769f2199"},
		{"Counter", `{}`, "Counter_ce9fa46a5c1c9582"},
		{"Counter", `{"count":0}`, "Counter_a76ba4cfecf6bc04"},
		{"Counter", `{"b":[1,2.5,-0.0,1e3],"a":{"x":true,"w":null}}`, "Counter_d44561111d8bfaee"},
		{"Counter", `9007199254740993`, "Counter_66adce83b781d0ac"},
		{"Counter", `"say \"hi\"\n\\"`, "Counter_f6ff7a888c21d594"},
		{"Zähler", `{"größe":"数据"}`, "Zähler_5ac0a86e02630529"},
		{"a/b%c", `[]`, "a%2Fb%25c_1f39c841edcb577f"},
		{"", `""`, "_f7e885441a52613f"},
		{strings.Repeat("n", 201), `1`, "%=291c4194382c6bd5c12b872660b0fb6d_c25c16204b0fb3cb"},
	} {
		got := key(c.name, json.RawMessage(c.beliefs))
		if len(c.name) > 200 {
			c.name = fmt.Sprintf("%d times %s", len(c.name), c.name[:1])
		}
		if got != c.want {
			t.Errorf("the key of %s and %s is %s, want %s", c.name, c.beliefs, got, c.want)
		}
		if line := "| `" + c.name + "` | `" + c.beliefs + "` | `" + got + "` |"; !strings.Contains(string(page), line) {
			t.Errorf("docs/FORMAT.md does not have the line\n%s", line)
		}
	}
	for why, same := range map[string][2]any{
		"the order of keys says nothing":       {json.RawMessage(`{"a":1,"b":2}`), json.RawMessage(`{"b":2,"a":1}`)},
		"white space says nothing":             {json.RawMessage(` [ 1 ] `), []int{1}},
		"1 and 1.0 are one number":             {json.RawMessage(`[1.0,100,0.5,-0]`), json.RawMessage(`[1,1e2,5e-1,0.0]`)},
		"a struct is what JSON says of it":     {struct{ A int }{1}, map[string]int{"A": 1}},
		"an escape is the character it stands": {json.RawMessage(`"\u00e4\/"`), "ä/"},
	} {
		if a, b := key("n", same[0]), key("n", same[1]); a != b {
			t.Errorf("%s: %s and %s", why, a, b)
		}
	}
	seen := map[string]string{}
	for _, c := range [][2]string{
		{"n", `1`},
		{"m", `1`},
		{"n", `2`},
		{"n", `"1"`},
		{"n", `[1]`},
		{"n", `9007199254740993`},
		{"n", `9007199254740992`},
		{"n", `{"a":"b\",\"c\":\"d"}`},
		{"n", `{"a":"b","c":"d"}`},
		{"n1", `1`},
		{"n", `11`},
		{"n", `10`},
		{"n", `-1`},
		{"n", `1e-1`},
	} {
		k := key(c[0], json.RawMessage(c[1]))
		if was, there := seen[k]; there {
			t.Errorf("%v and %s have the same key", c, was)
		}
		seen[k] = fmt.Sprint(c)
	}
	for why, bad := range map[string]any{
		"NaN":               math.NaN(),
		"a repeated key":    json.RawMessage(`{"a":1,"a":2}`),
		"no JSON":           json.RawMessage(`{`),
		"two values":        json.RawMessage(`1 2`),
		"a channel":         make(chan int),
		"an absurd number":  json.RawMessage(`1e99999999999999999999`),
		"text that is none": "\xff",
	} {
		if k, err := agent.CheckpointKey("n", bad); !errors.Is(err, tiers.ErrType) {
			t.Errorf("%s: %q and %v", why, k, err)
		}
	}
	if k := key("a\x00b\xff", 1); !strings.HasPrefix(k, "a%00b%FF_") {
		t.Errorf("the key is %q", k)
	}
	s := inMemory(t)
	for _, name := range []string{"a\x00b\xff", strings.Repeat("ä/", 300)} {
		ok(t, s.Fields(key(name, nil)).Save(t.Context(), "f", 1))
	}
}

func FuzzCheckpointKey(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.50,"x"]}`, `-0.0e5`, `"\ud800"`, `{"b":1,"a":{}}`} {
		f.Add("name", s)
	}
	f.Fuzz(func(t *testing.T, name, beliefs string) {
		k, err := agent.CheckpointKey(name, json.RawMessage(beliefs))
		if err != nil {
			return
		}
		if len(k) > 217 || tiers.CheckName(manager.Key(k, "f")) != nil {
			t.Errorf("%q fits no key", k)
		}
		var v any
		if json.Unmarshal([]byte(beliefs), &v) != nil {
			t.Fatalf("%q has the key %s and is no JSON", beliefs, k)
		}
	})
}
