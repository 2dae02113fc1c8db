package serializer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

var key = tiers.Key{Category: "session.preferences", Name: "user-42"}

// upper is a codec of an app: text, in capitals.
type upper struct{ name string }

func (u upper) Name() string { return u.name }

func (u upper) Append(dst []byte, v any) ([]byte, error) {
	s, ok := v.(string)
	if !ok {
		return dst, tiers.ErrType
	}
	return append(dst, strings.ToUpper(s)...), nil
}

func (u upper) Decode(src []byte, v any) error {
	p, ok := v.(*string)
	if !ok {
		return tiers.ErrType
	}
	*p = strings.ToLower(string(src))
	return nil
}

func TestNamesOfCodecs(t *testing.T) {
	t.Parallel()
	r, err := serializer.New(upper{"upper"})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"gob", "json", "msgpack", "raw", "upper"}, r.Names()); d != "" {
		t.Error(d)
	}
	for _, c := range []struct {
		why string
		own []serializer.Codec
	}{
		{"a built-in name is taken", []serializer.Codec{upper{"json"}}},
		{"a name is registered once", []serializer.Codec{upper{"a"}, upper{"a"}}},
		{"a name is not empty", []serializer.Codec{upper{""}}},
		{"capitals would clash in file names", []serializer.Codec{upper{"JSON"}}},
		{"a dot would end the file name", []serializer.Codec{upper{"a.b"}}},
		{"a name begins with a letter", []serializer.Codec{upper{"1a"}}},
		{"33 letters are too many", []serializer.Codec{upper{strings.Repeat("a", 33)}}},
	} {
		if _, err := serializer.New(c.own...); !errors.Is(err, tiers.ErrCodec) {
			t.Errorf("%s: %v", c.why, err)
		}
	}
}

func TestUnknownCodecNamesTheNearest(t *testing.T) {
	t.Parallel()
	r := registry(t)
	for wrong, near := range map[string]string{"mspack": "msgpack", "msgpck": "msgpack", "jsno": "json", "JSON": "json", "pickle": "", "rwa": "raw"} {
		var out any
		_, byName := r.Codec(wrong)
		_, onSave := r.Encode(key, 1, serializer.Options{Codec: wrong})
		onLoad := r.Decode(tiers.Record{Key: key, Codec: wrong, Value: []byte("1")}, &out)
		for _, err := range []error{byName, onSave, onLoad} {
			if !errors.Is(err, tiers.ErrCodec) || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: %v", wrong, err)
			}
			if suggestion := fmt.Sprintf("did you mean %q", near); near != "" && !strings.Contains(err.Error(), suggestion) {
				t.Errorf("%s: no suggestion of %s in %v", wrong, near, err)
			}
		}
		for _, err := range []error{onSave, onLoad} {
			var e *tiers.Error
			if !errors.As(err, &e) || e.Key != key.Name || e.Category != key.Category {
				t.Errorf("%s: the key is not in %v", wrong, err)
			}
		}
		if out != nil {
			t.Errorf("%s: loaded as %v", wrong, out)
		}
	}
}

func TestPlainJSONIsReadableText(t *testing.T) {
	t.Parallel()
	rec, err := registry(t).Encode(key, map[string]any{"b": "<&>", "a": 1}, serializer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := tiers.Record{Key: key, Codec: "json", Schema: 1, Value: []byte(`{"a":1,"b":"<&>"}`)}
	if d := cmp.Diff(want, rec, cmp.AllowUnexported(tiers.Cond{})); d != "" {
		t.Error(d)
	}
}

func TestEveryMixOfOptionsComesBack(t *testing.T) {
	t.Parallel()
	r, err := serializer.New(upper{"upper"})
	if err != nil {
		t.Fatal(err)
	}
	r = r.WithKeys(keyring{"k1", map[string][]byte{"k1": make([]byte, 32)}})
	long := strings.Repeat("all work and no play ", 500)
	for _, codec := range r.Names() {
		for _, over := range []int{0, 100} {
			for _, encrypt := range []bool{false, true} {
				for _, v := range []string{"", "short", long} {
					o := serializer.Options{Codec: codec, CompressOver: over, Encrypt: encrypt, Schema: 3}
					rec, err := r.Encode(key, v, o)
					if err != nil {
						t.Fatalf("%+v: %v", o, err)
					}
					if rec.Codec != codec || rec.Schema != 3 {
						t.Errorf("%+v: codec %s, schema %d", o, rec.Codec, rec.Schema)
					}
					compressed := over > 0 && v == long
					want := map[bool]tiers.Flags{true: tiers.Compressed}[compressed] | map[bool]tiers.Flags{true: tiers.Encrypted}[encrypt]
					if codec != "json" || want != 0 {
						want |= tiers.Enveloped
					}
					if rec.Flags != want {
						t.Errorf("%+v: flags %b, want %b", o, rec.Flags, want)
					}
					if compressed && len(rec.Value) > len(long)/5 {
						t.Errorf("%+v: %d bytes", o, len(rec.Value))
					}
					got := "something before"
					if err := r.Decode(rec, &got); err != nil || got != v {
						t.Errorf("%+v: %.20q: %v", o, got, err)
					}
				}
			}
		}
	}
}

func TestWhatDoesNotGetSmallerIsNotCompressed(t *testing.T) {
	t.Parallel()
	r := registry(t)
	rec, err := r.Encode(key, "0123456789abcdef", serializer.Options{CompressOver: 1})
	if err != nil || rec.Flags != 0 || string(rec.Value) != `"0123456789abcdef"` {
		t.Errorf("%+v, %v", rec, err)
	}
}

func TestAValueThatIsTooLargeIsRefusedWhole(t *testing.T) {
	t.Parallel()
	r := registry(t).WithLimit(1000)
	for _, c := range []struct {
		why string
		max int64
		n   int
		err error
	}{
		{"the category's limit counts", 100, 99, tiers.ErrTooLarge}, // and two quotes
		{"at the limit it is stored", 101, 99, nil},
		{"the registry's limit counts", 0, 999, tiers.ErrTooLarge},
		{"the smaller of both counts", 5000, 999, tiers.ErrTooLarge},
	} {
		_, err := r.Encode(key, strings.Repeat("a", c.n), serializer.Options{Max: c.max})
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v", c.why, err)
		}
	}
	_, err := r.Encode(key, strings.Repeat("a", 200), serializer.Options{Max: 100})
	if err == nil || !strings.Contains(err.Error(), "202 bytes, 100 are allowed") {
		t.Errorf("the limit is not named: %v", err)
	}
}

func TestARecordThatContradictsItsEnvelopeIsCorrupt(t *testing.T) {
	t.Parallel()
	r := registry(t)
	whole, err := r.Encode(key, "v", serializer.Options{Codec: "msgpack", Schema: 2})
	if err != nil {
		t.Fatal(err)
	}
	for why, change := range map[string]func(*tiers.Record){
		"another codec":       func(rec *tiers.Record) { rec.Codec = "gob" },
		"another schema":      func(rec *tiers.Record) { rec.Schema = 3 },
		"a flag too many":     func(rec *tiers.Record) { rec.Flags |= tiers.Compressed },
		"no envelope":         func(rec *tiers.Record) { rec.Flags = tiers.Encrypted },
		"a cut-off envelope":  func(rec *tiers.Record) { rec.Value = rec.Value[:len(rec.Value)-1] },
		"a flipped bit":       func(rec *tiers.Record) { rec.Value = slices.Clone(rec.Value); rec.Value[9] ^= 1 },
		"nothing":             func(rec *tiers.Record) { rec.Value = nil },
		"text for a envelope": func(rec *tiers.Record) { rec.Value = []byte(`"v"`) },
	} {
		rec := whole
		change(&rec)
		var out string
		if err := r.Decode(rec, &out); !errors.Is(err, tiers.ErrCorrupt) {
			t.Errorf("%s: %q, %v", why, out, err)
		}
		if _, err := r.Payload(rec); !errors.Is(err, tiers.ErrCorrupt) {
			t.Errorf("%s: payload: %v", why, err)
		}
	}
}

func TestOldRecordsLoadAfterTheCodecOfTheCategoryChanged(t *testing.T) {
	t.Parallel()
	r := registry(t)
	v := map[string]any{"theme": "dark", "n": int64(9007199254740993), "size": 1.5, "none": nil, "list": []any{int64(1), "a"}}
	for _, codec := range []string{"json", "msgpack", "json", "msgpack"} { // save, load, save, load
		rec, err := r.Encode(key, v, serializer.Options{Codec: codec})
		if err != nil {
			t.Fatal(err)
		}
		var back map[string]any
		if err := r.Decode(rec, &back); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(v, back); d != "" {
			t.Errorf("%s: %s", codec, d)
		}
		v = back
	}
}

func TestRawTakesBytesAndTextOnly(t *testing.T) {
	t.Parallel()
	type text string
	type blob []byte
	r := registry(t)
	o := serializer.Options{Codec: "raw"}
	for _, v := range []any{"a\x00\xff", []byte("a\x00\xff"), text("a\x00\xff"), blob("a\x00\xff"), json.RawMessage("a\x00\xff"), new("a\x00\xff"), any("a\x00\xff")} {
		rec, err := r.Encode(key, v, o)
		if err != nil {
			t.Errorf("%T: %v", v, err)
			continue
		}
		for _, into := range []any{new(string), new([]byte), new(text), new(blob), new(any)} {
			if err := r.Decode(rec, into); err != nil {
				t.Errorf("%T into %T: %v", v, into, err)
			}
		}
		var s string
		if err := r.Decode(rec, &s); err != nil || s != "a\x00\xff" {
			t.Errorf("%T: %q, %v", v, s, err)
		}
		if err := r.Decode(rec, new(int)); !errors.Is(err, tiers.ErrType) {
			t.Errorf("%T into an int: %v", v, err)
		}
	}
	for _, v := range []any{nil, 1, small{}, map[string]any{}, []string{"a"}} {
		if _, err := r.Encode(key, v, o); !errors.Is(err, tiers.ErrType) {
			t.Errorf("%T: %v", v, err)
		}
	}
	for _, v := range []any{"", []byte(nil), []byte{}} {
		rec, err := r.Encode(key, v, o)
		back := []byte("x")
		if err := errors.Join(err, r.Decode(rec, &back)); err != nil || back == nil || len(back) != 0 {
			t.Errorf("%#v: %#v, %v", v, back, err)
		}
	}
}

func TestALoadedValueIsTheCallersOwn(t *testing.T) {
	t.Parallel()
	r := registry(t)
	for _, codec := range r.Names() {
		for _, over := range []int{0, 1} {
			v := []byte(strings.Repeat("abc", 100))
			rec, err := r.Encode(key, v, serializer.Options{Codec: codec, CompressOver: over})
			if err != nil {
				t.Fatal(err)
			}
			stored := slices.Clone(rec.Value)
			v[0] = 'X' // after the save
			var one, two []byte
			if err := r.Decode(rec, &one); err != nil {
				t.Fatal(err)
			}
			one[1] = 'Y' // after the load
			if err := r.Decode(rec, &two); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(stored, rec.Value) || string(two[:3]) != "abc" {
				t.Errorf("%s: %q", codec, two[:3])
			}
		}
	}
}

func TestWhatIsLoadedIntoMustBeAPointer(t *testing.T) {
	t.Parallel()
	r := registry(t)
	rec, err := r.Encode(key, "v", serializer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, into := range []any{nil, "", (*string)(nil), map[string]any{}} {
		if err := r.Decode(rec, into); !errors.Is(err, tiers.ErrType) {
			t.Errorf("%T: %v", into, err)
		}
	}
}

// keyring are keys in a map.
type keyring struct {
	current string
	keys    map[string][]byte
}

func (k keyring) Current() (string, []byte, error) {
	key, err := k.Key(k.current)
	return k.current, key, err
}

func (k keyring) Key(id string) ([]byte, error) {
	if key, ok := k.keys[id]; ok {
		return key, nil
	}
	return nil, fmt.Errorf("no key %q among %d", id, len(slices.Collect(maps.Keys(k.keys))))
}

func Example() {
	type preferences struct {
		Theme string `json:"theme"`
	}
	r, err := serializer.New()
	if err != nil {
		panic(err)
	}
	rec, err := r.Encode(tiers.Key{Category: "session.preferences", Name: "user-42"}, preferences{"dark"}, serializer.Options{})
	if err != nil {
		panic(err)
	}
	fmt.Println(rec.Codec, string(rec.Value))

	var p preferences
	fmt.Println(r.Decode(rec, &p), p.Theme)

	var n int
	fmt.Println(r.Decode(rec, &n))
	// Output:
	// json {"theme":"dark"}
	// <nil> dark
	// load session.preferences "user-42": wrong type: a JSON object is stored, int is wanted
}

func ExampleNew() {
	r, err := serializer.New(upper{"upper"})
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Names())
	_, err = r.Codec("uper")
	fmt.Println(err)
	// Output:
	// [gob json msgpack raw upper]
	// codec can't be used: no codec "uper" is registered (did you mean "upper"? registered are gob, json, msgpack, raw, upper)
}
