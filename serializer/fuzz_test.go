package serializer_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/sagestore/sagestore/internal/envelope"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

// allowed tells whether a decoder may answer this.
func allowed(err error) bool {
	for _, want := range []error{nil, tiers.ErrCorrupt, tiers.ErrType, tiers.ErrCodec, tiers.ErrTooLarge, tiers.ErrUnsupported} {
		if errors.Is(err, want) {
			return true
		}
	}
	return false
}

// fuzzCodec decodes any bytes into many types. What loads has to be storable
// again and to load as the same value.
func fuzzCodec(f *testing.F, name string) {
	f.Helper()
	r := registry(f)
	codec, err := r.Codec(name)
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range hard() {
		if b, err := codec.Append(nil, c.value); err == nil {
			f.Add(b)
		}
	}
	if b, err := codec.Append(nil, tree{List: []small{{N: 1}}, Map: map[string]small{"a": {U: 9}}}); err == nil {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		for _, into := range targets() {
			v := reflect.New(reflect.TypeOf(into).Elem())
			if err := codec.Decode(src, v.Interface()); err != nil {
				if !allowed(err) {
					t.Fatalf("%T: unexpected kind of error: %v", into, err)
				}
				continue
			}
			again, err := codec.Append(nil, v.Interface())
			if errors.Is(err, tiers.ErrType) {
				continue // bytes of elsewhere may hold what is never saved
			} else if err != nil {
				t.Fatalf("%T: %v", into, err)
			}
			back := reflect.New(v.Type().Elem())
			if err := codec.Decode(again, back.Interface()); err != nil {
				t.Fatalf("%T: saved as %q, which does not load: %v", into, again, err)
			}
			once := again
			if again, err = codec.Append(nil, back.Interface()); err != nil {
				t.Fatal(err)
			}
			if name == "json" && !bytes.Equal(once, again) {
				t.Fatalf("%T: %q became %q", into, once, again)
			}
		}
	})
}

func FuzzJSON(f *testing.F)    { fuzzCodec(f, "json") }
func FuzzMsgpack(f *testing.F) { fuzzCodec(f, "msgpack") }
func FuzzGob(f *testing.F)     { fuzzCodec(f, "gob") }

// FuzzJSONText holds the strict reader against encoding/json: what it takes is
// valid there too.
func FuzzJSONText(f *testing.F) {
	for _, s := range []string{`{"a":[1,-0.5e+3,"\u00e9\n",true,false,null,{}]}`, `01`, `1.`, `-`, `"\x"`, `[1 2]`, `{"a" 1}`, ` "" `, "\xff", `1e400`} {
		f.Add([]byte(s))
	}
	codec := serializer.JSON()
	f.Fuzz(func(t *testing.T, src []byte) {
		var out any
		err := codec.Decode(src, &out)
		if err == nil && !json.Valid(src) {
			t.Fatalf("%q was taken", src)
		}
	})
}

// FuzzDecode gives whole records to a registry, with right checksums as well.
func FuzzDecode(f *testing.F) {
	r := registry(f).WithKeys(keyring{"k", map[string][]byte{"k": key32(1)}}).WithLimit(1 << 20)
	for _, g := range golden {
		for _, codec := range []string{"json", "msgpack", "gob", "raw"} {
			o := g.options
			o.Codec = codec
			if rec, err := r.Encode(key, g.value, o); err == nil {
				f.Add(codec, rec.Schema, byte(rec.Flags), rec.Value)
			}
		}
	}
	f.Fuzz(func(t *testing.T, codec string, schema uint32, flags byte, value []byte) {
		for _, value := range [][]byte{value, envelope.Seal(bytes.Clone(value), 0)} {
			rec := tiers.Record{Key: key, Codec: codec, Schema: schema, Flags: tiers.Flags(flags), Value: value}
			for _, into := range []any{new(any), new(note), new([]byte)} {
				if err := r.Decode(rec, into); !allowed(err) {
					t.Fatalf("unexpected kind of error: %v", err)
				}
			}
			if _, err := r.Payload(rec); !allowed(err) {
				t.Fatalf("unexpected kind of error: %v", err)
			}
		}
	})
}
