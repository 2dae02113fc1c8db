package misfit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/sagestore/sagestore/internal/misfit"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

type inner struct {
	At   time.Time `json:"at"`
	Tiny uint8     `json:"tiny"`
	Byte []byte    `json:"byte"`
}

type outer struct {
	inner

	Name  string            `json:"name"`
	Count *int              `json:"count"`
	Rate  float64           `json:"rate"`
	On    bool              `json:"on"`
	List  []inner           `json:"list"`
	Map   map[string]*inner `json:"map"`
	Raw   json.RawMessage   `json:"raw"`
	Plain int32
}

// ofGo is what only a programmer of Go can read.
var ofGo = regexp.MustCompile(`json:|unmarshal|Unmarshal|misfit_test|\b(int|int64|uint8|string|bool|float64)\b|time\.Time`)

func TestWhatDoesNotFitIsSaidByFieldAndLine(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"name":7}`, "line 1: wrong type: name is a number; a text is wanted"},
		{"{\n \"name\": \"x\",\n \"count\": \"1\"}", "line 3: wrong type: count is a text; a whole number is wanted"},
		{`{"count":1.5}`, "line 1: wrong type: count does not fit; a whole number is wanted"},
		{`{"count":10000000000000000000000}`, "line 1: wrong type: count is a number; a whole number is wanted"},
		{`{"rate":[]}`, "line 1: wrong type: rate is a list; a number is wanted"},
		{`{"on":"yes"}`, "line 1: wrong type: on is a text; true or false is wanted"},
		{`{"at":"yesterday"}`, "line 1: wrong type: at is a text; a time such as 2026-01-02T03:04:05Z is wanted"},
		{`{"tiny":256}`, "line 1: wrong type: tiny is a number; a whole number from 0 to 255 is wanted"},
		{`{"byte":"!"}`, "line 1: wrong type: byte is a text; a text in base64 is wanted"},
		{`{"Plain":true}`, "line 1: wrong type: Plain is true or false; a whole number from -2147483648 to 2147483647 is wanted"},
		{"{\"list\":[{},\n{\"at\":1}]}", "line 2: wrong type: list[1].at is a number; a time such as 2026-01-02T03:04:05Z is wanted"},
		{`{"list":{}}`, "line 1: wrong type: list is an object; a list is wanted"},
		{`{"map":{"k":{"tiny":-1}}}`, "line 1: wrong type: map.k.tiny is a number; a whole number from 0 to 255 is wanted"},
		{"\n\n[]", "line 3: wrong type: it is a list; an object is wanted"},
		{"null", "line 1: wrong type: it is null; an object is wanted"},
		{"{\"raw\":\n\"\\udc00\"}", "line 2: corrupt: the escape \\udc00 is half a character"},
		{"{\"name\":\n\"\xff\"}", "line 2: corrupt: it is no UTF-8"},
		{"{\"name\"\n}", "corrupt: line 2, column 1: \":\" is expected"},
	} {
		var v outer
		err := misfit.Decode([]byte(c.text), &v)
		if err == nil || err.Error() != c.want || ofGo.MatchString(err.Error()) {
			t.Errorf("%s: %v\nwant %s", c.text, err, c.want)
		}
		if !errors.Is(err, tiers.ErrType) && !errors.Is(err, tiers.ErrCorrupt) {
			t.Errorf("%s: %v is of no kind", c.text, err)
		}
	}
	var v outer
	if err := misfit.Decode([]byte(`{"name":"n","at":"2026-01-02T03:04:05Z","raw":{"any":[1]},"more":1}`), &v); err != nil || v.Name != "n" {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestErrorsOfOthersAreSaidInWords(t *testing.T) {
	var v outer
	var number int
	decoded := func(c serializer.Codec, text string, into any) error { return c.Decode([]byte(text), into) }
	var small uint8
	packed, err1 := serializer.Msgpack().Append(nil, "text")
	big, err2 := serializer.Msgpack().Append(nil, 300)
	gobbed, err3 := serializer.Gob().Append(nil, "text")
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{json.Unmarshal([]byte(`{"name":7}`), &v), "name is a number; a text is wanted"},
		{json.Unmarshal([]byte(`{"Plain":1e40}`), &v), "Plain does not fit; a whole number from -2147483648 to 2147483647 is wanted"},
		{decoded(serializer.JSON(), `{"name":7}`, &v), "name is a number; a text is wanted"},
		{decoded(serializer.JSON(), `null`, &number), "it is null; a whole number is wanted"},
		{decoded(serializer.JSON(), `{"at":7}`, &v), "what is stored does not fit: a time in it is none such as 2026-01-02T03:04:05Z"},
		{decoded(serializer.JSON(), `{"at":"x"}`, &v), "what is stored does not fit: a time in it is none such as 2026-01-02T03:04:05Z"},
		{decoded(serializer.Msgpack(), string(packed), &number), "it is a text; a whole number is wanted"},
		{decoded(serializer.Msgpack(), string(big), &small), "it does not fit; a whole number from 0 to 255 is wanted"},
		{decoded(serializer.Gob(), string(gobbed), &number), "what is stored does not fit; a whole number is wanted"},
		{decoded(serializer.Raw(), "x", &number), "what is stored does not fit; a whole number is wanted"},
		{fmt.Errorf("%w: %w", tiers.ErrCorrupt, json.Unmarshal([]byte(`[]`), &v)), "corrupt: it is a list; an object is wanted"},
		{errors.Join(errors.New("one"), json.Unmarshal([]byte(`"x"`), &number)), "one\nit is a text; a whole number is wanted"},
	} {
		got := misfit.Words(c.err)
		if c.err == nil || c.want != "" && got != c.want || ofGo.MatchString(got) {
			t.Errorf("%v: %s\nwant %s", c.err, got, c.want)
		}
	}
	if got := misfit.Words(nil); got != "" {
		t.Errorf("nil is %q", got)
	}
}

// FuzzDecode holds that whatever the text, the answer is an error in words or none, and
// the same as that of the codec.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"list":[{"at":1}]}`, `{"map":{"k":null}}`, "[", "{\"raw\":\n1}", `{"Byte":7,"tiny":"\ud800"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var v, w outer
		err, plain := misfit.Decode([]byte(text), &v), serializer.JSON().Decode([]byte(text), &w)
		if plain != nil && err == nil {
			t.Errorf("%q is taken, and not by the codec: %v", text, plain)
		}
		if e := (*misfit.Error)(nil); errors.As(err, &e) && e.Line < 1 {
			t.Errorf("%q: no line is known: %v", text, err)
		}
	})
}
