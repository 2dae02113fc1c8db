package serializer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

// in is a struct with one field.
type in[T any] struct {
	V T `json:"v"`
}

type hidden struct{ a, b int }

type outer struct {
	in[int]
	W string
}

type loop struct{ Next *loop }

type code struct{ n int }

func (c code) MarshalText() ([]byte, error) { return []byte{byte('0' + c.n)}, nil }

var codecs = []string{"json", "msgpack", "gob"}

// hard are the rows of the first table of docs/FORMAT.md: values that are easy
// to get wrong. Each is saved and loaded into its own type.
func hard() []struct {
	name  string
	value any
} {
	zone := time.FixedZone("", 2*60*60)
	zero := 0
	deep := &loop{}
	for range serializer.MaxDepth {
		deep = &loop{deep}
	}
	cycle := &loop{}
	cycle.Next = cycle
	return []struct {
		name  string
		value any
	}{
		{"`int64(9007199254740993)` in a `map[string]any`", map[string]any{"v": int64(9007199254740993)}},
		{"`uint64(18446744073709551615)` in a `map[string]any`", map[string]any{"v": uint64(math.MaxUint64)}},
		{"`int(5)` in an `any`", in[any]{5}},
		{"`uint8(5)` in an `any`", in[any]{uint8(5)}},
		{"`float64(1.5)` in an `any`", in[any]{1.5}},
		{"`float64(1)` in an `any`", in[any]{1.0}},
		{"`float32(1.5)` in an `any`", in[any]{float32(1.5)}},
		{"a `json.Number` of 30 digits in an `any`", in[any]{json.Number("123456789012345678901234567890")}},
		{"`[]byte` in an `any`", in[any]{[]byte("ab")}},
		{"`time.Time` in an `any`", in[any]{time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}},
		{"`[]any{}` in an `any`", in[any]{[]any{}}},
		{"`nil` in an `any`", in[any]{nil}},
		{"a struct in an `any`", in[any]{in[int]{1}}},
		{"`map[int]string`", map[int]string{1: "a"}},
		{"`map[int]string` in an `any`", in[any]{map[int]string{1: "a"}}},
		{"`map[bool]string`", map[bool]string{true: "a"}},
		{"`map[any]string`", map[any]string{"a": "b"}},
		{"time with an offset and nanoseconds", in[time.Time]{time.Date(2026, 1, 2, 3, 4, 5, 123456789, zone)}},
		{"time in UTC", in[time.Time]{time.Date(1969, 1, 2, 3, 4, 5, 0, time.UTC)}},
		{"zero time", in[time.Time]{}},
		{"year 10000", in[time.Time]{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}},
		{"NaN", in[float64]{math.NaN()}},
		{"+Inf", in[float64]{math.Inf(1)}},
		{"-0.0", in[float64]{math.Copysign(0, -1)}},
		{"complex number", in[complex128]{1i}},
		{"nil list", in[[]int]{nil}},
		{"empty list", in[[]int]{[]int{}}},
		{"nil map", in[map[string]int]{nil}},
		{"empty map", in[map[string]int]{map[string]int{}}},
		{"nil `[]byte`", in[[]byte]{nil}},
		{"empty `[]byte`", in[[]byte]{[]byte{}}},
		{"nil pointer", in[*int]{nil}},
		{"pointer to 0", in[*int]{&zero}},
		{"list of an empty list", [][]int{{}}},
		{"`[3]int`", in[[3]int]{[3]int{0, 1, 0}}},
		{"zero struct", in[int]{}},
		{"embedded struct", outer{in[int]{1}, "w"}},
		{"`nil` by itself, in an `any`", any(nil)},
		{"`\"\"`", ""},
		{"`\"*\"`", "*"},
		{"`\"a\\x00b\"`", "a\x00b"},
		{"`\"<a href=\\\"&\\\">\"`", "<a href=\"&\">"},
		{"U+FFFD", "\uFFFD"},
		{"the six letters `\\ufffd`", `\ufffd`},
		{"U+2028", "\u2028"},
		{"text that is not UTF-8", in[string]{"a\xff"}},
		{"key that is not UTF-8", map[string]any{"a\xff": 1.5}},
		{"channel", in[chan int]{make(chan int)}},
		{"function", in[func()]{func() {}}},
		{"struct with unexported fields only", in[hidden]{hidden{1, 2}}},
		{"interface with methods", in[error]{errors.New("e")}},
		{"marshaler without unmarshaler", in[code]{code{7}}},
		{"value that contains itself", cycle},
		{"1001 levels", deep},
	}
}

// outcome saves and loads, and says in words what came back.
func outcome(r *serializer.Registry, codec string, v any) (string, error) {
	k := tiers.Key{Category: "c", Name: "k"}
	rec, err := r.Encode(k, v, serializer.Options{Codec: codec})
	if err != nil {
		return "refused", err
	}
	into := reflect.New(reflect.TypeFor[any]())
	if v != nil {
		into = reflect.New(reflect.TypeOf(v))
	}
	if err := r.Decode(rec, into.Interface()); err != nil {
		return "", fmt.Errorf("saved, and not loaded: %w", err)
	}
	return compare(v, into.Elem().Interface()), nil
}

func compare(v, got any) string {
	// What differs shows in the field alone.
	if rv := reflect.ValueOf(v); rv.Kind() == reflect.Struct && rv.NumField() == 1 && rv.Type().Field(0).Name == "V" {
		v, got = rv.Field(0).Interface(), reflect.ValueOf(got).Field(0).Interface()
	}
	want, isTime := v.(time.Time)
	if have, ok := got.(time.Time); ok && isTime {
		_, a := want.Zone()
		_, b := have.Zone()
		switch {
		case want.Equal(have) && a == b && want.IsZero() == have.IsZero():
			return "as saved"
		case want.Equal(have) && have.Location() == time.UTC:
			return "the instant, in UTC"
		}
	}
	if f, ok := v.(float64); ok && math.IsNaN(f) {
		if g, ok := got.(float64); ok && math.IsNaN(g) {
			return "as saved"
		}
	}
	if f, ok := v.(float64); ok && f == 0 {
		if g, ok := got.(float64); ok && math.Float64bits(f) != math.Float64bits(g) {
			return "another zero"
		}
	}
	if reflect.DeepEqual(v, got) {
		return "as saved"
	}
	if e, ok := v.(error); ok && e.Error() == fmt.Sprint(got) {
		return "its text"
	}
	return fmt.Sprintf("`%T`", got)
}

func TestHardValuesDoWhatTheFormatPageSays(t *testing.T) {
	t.Parallel()
	documented := tableOf(t, "hard values")
	r := registry(t)
	cases := hard()
	if len(documented) != len(cases) {
		t.Errorf("the page has %d rows, %d are tested", len(documented), len(cases))
	}
	for _, c := range cases {
		var row strings.Builder
		for i, codec := range codecs {
			got, err := outcome(r, codec, c.value)
			if got == "refused" && !errors.Is(err, tiers.ErrType) {
				t.Errorf("%s, %s: refused with %v", c.name, codec, err)
			}
			if got == "" {
				t.Errorf("%s, %s: %v", c.name, codec, err)
			}
			if cells := documented[c.name]; len(cells) != len(codecs) || cells[i] != got {
				t.Errorf("%s, %s: %s (%v); documented is %q", c.name, codec, got, err, documented[c.name])
			}
			fmt.Fprintf(&row, " %s |", got)
		}
		t.Logf("| %s |%s", c.name, row.String())
	}
}

// tableOf reads the table of docs/FORMAT.md that follows the marker.
func tableOf(t *testing.T, marker string) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../docs/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "<!-- table: "+marker+" -->\n")
	if !ok {
		t.Fatalf("the page has no table %q", marker)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(rest) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows[cells[0]] = cells[1:]
	}
	for name := range rows {
		if strings.HasPrefix(name, "---") || name == "value" || name == "stored" {
			delete(rows, name)
		}
	}
	return rows
}

func registry(tb testing.TB) *serializer.Registry {
	tb.Helper()
	r, err := serializer.New()
	if err != nil {
		tb.Fatal(err)
	}
	return r
}
