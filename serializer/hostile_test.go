package serializer_test

import (
	"bytes"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/internal/envelope"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

// targets are the types that hostile bytes are decoded into.
func targets() []any {
	return []any{
		new(any), new(map[string]any), new([]any), new([]int), new([]string), new([]byte), new(string), new(int),
		new(small), new(tree), new(loop), new(map[int]string), new(map[any]string), new(*tree), new([3]int), new(time.Time), new(in[error]),
		new(map[string]string), new(map[string]small),
	}
}

// gobOfMap is a gob stream that says it holds a map of n entries.
func gobOfMap(tb testing.TB, n byte) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(map[int]string{}); err != nil {
		tb.Fatal(err)
	}
	// The last message is its length, the type, 0, and the number of entries.
	out := b.Bytes()
	out[len(out)-4] += 4
	return append(out[:len(out)-1], 0xfc, n, 0xff, 0xff, 0xff)
}

func TestHostileBytesCostNothing(t *testing.T) {
	unhex := func(s string) string {
		b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, c := range []struct{ codec, why, src string }{
		{"msgpack", "a list of 4 billion elements", unhex("dd ff ff ff ff")},
		{"msgpack", "a map of 4 billion entries", unhex("df ff ff ff ff")},
		{"msgpack", "4 GB of bytes", unhex("c6 ff ff ff ff")},
		{"msgpack", "4 GB of text", unhex("db ff ff ff ff 61")},
		{"msgpack", "4 GB of an extension", unhex("c9 ff ff ff ff ff 00")},
		{"msgpack", "a list inside a field", unhex("81 a4 6c 69 73 74 dd 7f ff ff ff")},
		{"msgpack", "an extension before a map", unhex("d4 01 df 7f ff ff ff")},
		{"msgpack", "a map inside an extension's place", unhex("c7 05 01 df 7f ff ff ff")},
		{"msgpack", "100,000 levels of lists", strings.Repeat("\x91", 100_000) + "\xc0"},
		{"msgpack", "100,000 levels of maps", strings.Repeat("\x81\xa1a", 100_000) + "\xc0"},
		{"msgpack", "100,000 levels as the key of a map", strings.Repeat("\x81", 100_000)},
		{"msgpack", "a key that can't be compared", unhex("81 90 01")},
		{"msgpack", "an unknown code", "\xc1"},
		{"msgpack", "nothing", ""},
		{"msgpack", "two values", "\x01\x01"},
		{"msgpack", "a repeated key", unhex("82 a1 61 01 a1 61 02")},
		{"json", "100,000 levels of lists", strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)},
		{"json", "100,000 levels of objects", strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)},
		{"json", "nothing", ""},
		{"json", "two values", `1 2`},
		{"json", "a comma too many", `[1,]`},
		{"json", "a repeated key", `{"a":1,"b":{"a":1},"a":2}`},
		{"json", "a repeated key, escaped", `{"a":1,"\u0061":2}`},
		{"json", "a repeated key among many", `{"a":1,` + manyKeys(40) + `,"k7":2}`},
		{"json", "not UTF-8", "\"\xff\""},
		{"json", "a control character", "\"\x01\""},
		{"gob", "a map of billions of entries", string(gobOfMap(t, 0x7f))},
		{"gob", "a message of billions of bytes", "\xfc\x7f\xff\xff\xff\x00"},
		{"gob", "nothing", ""},
		{"gob", "a pickle", "\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01a\x94K\x01s."},
		{"gob", "a pickle of protocol 0", "(dp0\nVa\np1\nI1\ns."},
	} {
		codec, err := registry(t).Codec(c.codec)
		if err != nil {
			t.Fatal(err)
		}
		for _, into := range targets() {
			fresh := func() any { return reflect.New(reflect.TypeOf(into).Elem()).Interface() }
			_ = codec.Decode([]byte("x"), fresh()) // what is made once for a type is not what is measured
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := tiers.SystemClock().Now()
			err := codec.Decode([]byte(c.src), fresh())
			took := tiers.SystemClock().Now().Sub(start)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, tiers.ErrCorrupt) && !errors.Is(err, tiers.ErrType) {
				t.Errorf("%s: %s into %T: %v", c.codec, c.why, into, err)
			}
			if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 1<<20 {
				t.Errorf("%s: %s into %T: %d bytes allocated", c.codec, c.why, into, bytes)
			}
			if took > time.Second { // normally under 1 ms
				t.Errorf("%s: %s into %T: took %v", c.codec, c.why, into, took)
			}
		}
	}
}

func manyKeys(n int) string {
	var parts []string
	for i := range n {
		parts = append(parts, `"k`+string(rune('0'+i%10))+strings.Repeat("x", i/10)+`":1`)
	}
	return strings.Join(parts, ",")
}

func TestPicklesAreNamedAsSuch(t *testing.T) {
	t.Parallel()
	codec, err := registry(t).Codec("gob")
	if err != nil {
		t.Fatal(err)
	}
	err = codec.Decode([]byte("\x80\x05K\x01."), new(int))
	if err == nil || !strings.Contains(err.Error(), "pickle") {
		t.Error(err)
	}
}

func TestABombIsRefusedBeforeItIsUnpacked(t *testing.T) {
	r := registry(t)
	k := tiers.Key{Category: "c", Name: "k"}
	rec, err := r.Encode(k, make([]byte, 64<<20), serializer.Options{Codec: "raw", CompressOver: 1})
	if err != nil {
		t.Fatal(err)
	}
	measure := func(rec tiers.Record, r *serializer.Registry) (uint64, error) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var out []byte
		err := r.Decode(rec, &out)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc, err
	}
	if n, err := measure(rec, r.WithLimit(1<<20)); !errors.Is(err, tiers.ErrTooLarge) || n > 1<<20 {
		t.Errorf("over the limit: %v, %d bytes", err, n)
	}
	h, payload, err := envelope.Parse(rec.Value)
	if err != nil {
		t.Fatal(err)
	}
	h.Size = 1000 // a lie about the size
	rec.Value = envelope.Append(nil, h, payload)
	if n, err := measure(rec, r); !errors.Is(err, tiers.ErrCorrupt) || n > 1<<20 {
		t.Errorf("a false size: %v, %d bytes", err, n)
	}
}
