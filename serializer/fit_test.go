package serializer_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

type small struct {
	N int8   `json:"n"`
	U uint16 `json:"u"`
	F float64
}

type tree struct {
	Leaf small            `json:"leaf"`
	List []small          `json:"list"`
	Map  map[string]small `json:"map"`
}

// fits are the rows of the second table of docs/FORMAT.md: what is stored, and
// a type that it is loaded into.
func fits() []struct {
	name   string
	stored any
	into   any
} {
	type wide struct {
		N int64 `json:"n"`
		U int64 `json:"u"`
	}
	return []struct {
		name   string
		stored any
		into   any
	}{
		{"300 into an `int8`", wide{N: 300}, new(small)},
		{"-129 into an `int8`", wide{N: -129}, new(small)},
		{"-1 into a `uint16`", wide{U: -1}, new(small)},
		{"-1 into a `uint64`", -1, new(uint64)},
		{"2^64-1 into an `int64`", uint64(1<<64 - 1), new(int64)},
		{"65536 into a `uint16`", wide{U: 65536}, new(small)},
		{"-128 and 65535 into an `int8` and a `uint16`", wide{N: -128, U: 65535}, new(small)},
		{"text into an `int`", "12", new(int)},
		{"a number into a `string`", 12, new(string)},
		{"1.5 into an `int`", 1.5, new(int)},
		{"12 into a `float64`", 12, new(float64)},
		{"a bool into an `int`", true, new(int)},
		{"a list into a struct", []int{1}, new(small)},
		{"a struct into a list", wide{}, new([]int)},
		{"a field that the type does not have", struct {
			N int8   `json:"n"`
			X string `json:"x"`
		}{1, "new"}, new(small)},
		{"a field that is not stored", struct {
			N int8 `json:"n"`
		}{1}, new(small)},
		{"five elements into a `[3]int`", [5]int{1, 2, 3, 4, 5}, new([3]int)},
	}
}

func TestWhatDoesNotFitIsRefusedAsTheFormatPageSays(t *testing.T) {
	t.Parallel()
	documented := tableOf(t, "what does not fit")
	r := registry(t)
	if n := len(fits()); len(documented) != n {
		t.Errorf("the page has %d rows, %d are tested", len(documented), n)
	}
	for _, c := range fits() {
		var row strings.Builder
		for i, codec := range codecs {
			rec, err := r.Encode(tiers.Key{Category: "c", Name: "k"}, c.stored, serializer.Options{Codec: codec})
			if err != nil {
				t.Fatal(err)
			}
			got := "loads"
			if err := r.Decode(rec, reflect.New(reflect.TypeOf(c.into).Elem()).Interface()); errors.Is(err, tiers.ErrType) {
				got = "`ErrType`"
			} else if err != nil {
				t.Errorf("%s, %s: %v", c.name, codec, err)
			}
			if cells := documented[c.name]; len(cells) != len(codecs) || cells[i] != got {
				t.Errorf("%s, %s: %s; documented is %q", c.name, codec, got, documented[c.name])
			}
			row.WriteString(" " + got + " |")
		}
		t.Logf("| %s |%s", c.name, row.String())
	}
}

func TestAMisfitNamesKeyCategoryFieldAndBothTypes(t *testing.T) {
	t.Parallel()
	r := registry(t)
	stored := map[string]any{
		"leaf": map[string]any{"n": 1},
		"list": []any{map[string]any{"n": 1}, map[string]any{"n": "text"}},
	}
	for _, codec := range []string{"json", "msgpack"} {
		rec, err := r.Encode(tiers.Key{Category: "app.notes", Name: "u1"}, stored, serializer.Options{Codec: codec})
		if err != nil {
			t.Fatal(err)
		}
		err = r.Decode(rec, new(tree))
		if !errors.Is(err, tiers.ErrType) {
			t.Fatalf("%s: %v", codec, err)
		}
		for _, part := range []string{"app.notes", `"u1"`, "list", "n", "int8"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", codec, err, part)
			}
		}
		if codec == "msgpack" && !strings.Contains(err.Error(), "list[1].n") {
			t.Errorf("%q has no path", err)
		}
	}
	rec, err := r.Encode(tiers.Key{Category: "app.notes", Name: "u1"}, "text", serializer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = r.Decode(rec, new(int))
	if want := `load app.notes "u1": wrong type: a JSON string is stored, int is wanted`; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestStoredNullIsNoZeroValue(t *testing.T) {
	t.Parallel()
	r := registry(t)
	for _, codec := range []string{"json", "msgpack"} {
		rec, err := r.Encode(tiers.Key{Category: "c", Name: "k"}, nil, serializer.Options{Codec: codec})
		if err != nil {
			t.Fatal(err)
		}
		for _, into := range []any{new(string), new(int), new(small), new(bool)} {
			if err := r.Decode(rec, into); !errors.Is(err, tiers.ErrType) {
				t.Errorf("%s: null into %T: %v", codec, into, err)
			}
		}
		pointer, list, anything := &small{}, []int{1}, any(1)
		for _, into := range []any{&pointer, &list, &anything} {
			if err := r.Decode(rec, into); err != nil {
				t.Errorf("%s: null into %T: %v", codec, into, err)
			}
		}
		if pointer != nil || list != nil || anything != nil {
			t.Errorf("%s: null loaded as %v, %v, %v", codec, pointer, list, anything)
		}
	}
}

func TestRefusalsNameThePathOfTheField(t *testing.T) {
	t.Parallel()
	r := registry(t)
	nan := 0.0
	nan /= nan
	zero := 0
	type message struct {
		Score float64           `json:"score"`
		Text  string            `json:"text"`
		Extra map[string]any    `json:"extra"`
		Tags  []string          `json:"tags"`
		Ref   *int              `json:"ref"`
		Meta  map[string]string `json:"meta"`
	}
	type conversation struct {
		Messages []message `json:"messages"`
	}
	for _, c := range []struct {
		codec string
		value message
		path  string
	}{
		{"json", message{Score: nan}, "messages[1].score"},
		{"json", message{Extra: map[string]any{"a": []any{1, nan}}}, "messages[1].extra.a[1]"},
		{"json", message{Text: "\xff"}, "messages[1].text"},
		{"json", message{Tags: []string{"", "\xff"}}, "messages[1].tags[1]"},
		{"json", message{Meta: map[string]string{"k": "\xff"}}, "messages[1].meta.k"},
		{"json", message{Extra: map[string]any{"f": func() {}}}, "messages[1].extra.f"},
		{"json", message{Extra: map[string]any{"f": hidden{1, 2}}}, "messages[1].extra.f"},
		{"msgpack", message{Extra: map[string]any{"f": make(chan int)}}, "messages[1].extra.f"},
		{"msgpack", message{Extra: map[string]any{"f": map[int]int{}}}, "messages[1].extra.f"},
		{"gob", message{Tags: []string{}}, "Messages[1].Tags"},
		{"gob", message{Ref: &zero}, "Messages[1].Ref"},
		{"gob", message{Extra: map[string]any{"f": small{}}}, "Messages[1].Extra.f"},
	} {
		// Through a pointer and by value, which take different ways.
		v := conversation{[]message{{}, c.value}}
		if c.codec == "gob" {
			path := c.path
			c.path = strings.ToLower(path)
		}
		for _, v := range []any{v, &v} {
			_, err := r.Encode(tiers.Key{Category: "c", Name: "k"}, v, serializer.Options{Codec: c.codec})
			if !errors.Is(err, tiers.ErrType) || !strings.Contains(strings.ToLower(err.Error()), "field "+c.path+":") {
				t.Errorf("%s: want %s: %v", c.codec, c.path, err)
			}
		}
	}
}

type byRef struct{ N int }

func (b *byRef) MarshalText() ([]byte, error)    { return []byte{'n', byte('0' + b.N)}, nil }
func (b *byRef) UnmarshalText(text []byte) error { b.N = int(text[1] - '0'); return nil }

func TestAValueAndAPointerToItGiveTheSameBytes(t *testing.T) {
	t.Parallel()
	r := registry(t)
	for _, codec := range codecs {
		v := in[byRef]{byRef{7}}
		byValue, err := r.Encode(tiers.Key{}, v, serializer.Options{Codec: codec})
		if err != nil {
			t.Fatal(codec, err)
		}
		byPointer, err := r.Encode(tiers.Key{}, &v, serializer.Options{Codec: codec})
		if err != nil || string(byValue.Value) != string(byPointer.Value) {
			t.Errorf("%s: %q and %q, %v", codec, byValue.Value, byPointer.Value, err)
		}
		var back in[byRef]
		if err := r.Decode(byValue, &back); err != nil || back != v {
			t.Errorf("%s: %v, %v", codec, back, err)
		}
	}
}

func TestMsgpackFieldsHaveTheNamesOfTheirJSONTags(t *testing.T) {
	t.Parallel()
	r := registry(t)
	rec, err := r.Encode(tiers.Key{}, small{N: 1}, serializer.Options{Codec: "msgpack"})
	if err != nil {
		t.Fatal(err)
	}
	payload, err := r.Payload(rec)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := msgpack.Unmarshal(payload, &m); err != nil || m["n"] == nil || m["F"] == nil {
		t.Errorf("%v, %v", m, err)
	}
}
