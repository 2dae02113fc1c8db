package serializer_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

// message and entry are of the kind that agents store.
type message struct {
	ID      string            `json:"id"`
	Role    string            `json:"role"`
	Content string            `json:"content"`
	Tokens  int               `json:"tokens"`
	Meta    map[string]string `json:"meta"`
}

type entry struct {
	ID     int    `json:"id"`
	Name   string `json:"name"`
	Tokens int    `json:"tokens"`
	Plan   string `json:"plan"`
}

func conversation(n int) []message {
	out := make([]message, n)
	for i := range out {
		out[i] = message{fmt.Sprintf("m-%d", i), "user", strings.Repeat("the quick brown fox ", 40), 800, map[string]string{"model": "m"}}
	}
	return out
}

// TestSizes logs the sizes that docs/FORMAT.md shows.
func TestSizes(t *testing.T) {
	r := registry(t)
	one := entry{1, "user-42", 4096, "professional, yearly"}
	many := make([]entry, 200)
	for i := range many {
		many[i] = entry{i, fmt.Sprintf("user-%d", i), i * 100, "professional, yearly"}
	}
	size := func(v any, o serializer.Options) int {
		rec, err := r.Encode(key, v, o)
		if err != nil {
			t.Fatal(err)
		}
		return len(rec.Value)
	}
	for _, v := range []any{one, many, conversation(200)} {
		var row []string
		for _, codec := range codecs {
			row = append(row, fmt.Sprintf("%s %d", codec, size(v, serializer.Options{Codec: codec})))
		}
		row = append(row, fmt.Sprintf("json and zstd %d", size(v, serializer.Options{CompressOver: 64})))
		t.Logf("%T: %s", v, strings.Join(row, ", "))
		if json, mp := size(v, serializer.Options{}), size(v, serializer.Options{Codec: "msgpack"}); mp >= json {
			t.Errorf("%T: msgpack has %d bytes with its envelope, JSON %d", v, mp, json)
		}
	}
}

func TestARegistryAddsFewAllocations(t *testing.T) {
	r := registry(t).WithKeys(keyring{"k", map[string][]byte{"k": key32(1)}})
	v := &conversation(1)[0]
	if _, err := json.Marshal(v); err != nil {
		t.Fatal(err)
	}
	rawJSON := testing.AllocsPerRun(200, func() { _, _ = json.Marshal(v) })
	rawMsgpack := testing.AllocsPerRun(200, func() { _, _ = msgpack.Marshal(v) })
	text, _ := json.Marshal(v)
	packed, _ := msgpack.Marshal(v)
	loadJSON := testing.AllocsPerRun(200, func() { var m message; _ = json.Unmarshal(text, &m) })
	loadMsgpack := testing.AllocsPerRun(200, func() { var m message; _ = msgpack.Unmarshal(packed, &m) })
	for _, c := range []struct {
		why        string
		o          serializer.Options
		save, load float64 // of the library alone
	}{
		{"json", serializer.Options{}, rawJSON, loadJSON},
		{"msgpack", serializer.Options{Codec: "msgpack"}, rawMsgpack, loadMsgpack},
		{"json, encrypted", serializer.Options{Encrypt: true}, rawJSON, loadJSON},
		{"json, compressed", serializer.Options{CompressOver: 64}, rawJSON, loadJSON},
	} {
		rec, err := r.Encode(key, v, c.o)
		if err != nil {
			t.Fatal(err)
		}
		save := testing.AllocsPerRun(200, func() { _, _ = r.Encode(key, v, c.o) })
		load := testing.AllocsPerRun(200, func() { var m message; _ = r.Decode(rec, &m) })
		t.Logf("%s: save %v (library %v), load %v (library %v)", c.why, save, c.save, load, c.load)
		if (save > c.save+2 || load > c.load+2) && !racing {
			t.Errorf("%s: save %v allocations, the library %v; load %v, the library %v", c.why, save, c.save, load, c.load)
		}
	}
}

func BenchmarkRegistry(b *testing.B) {
	r := registry(b)
	v := &conversation(1)[0]
	open := map[string]any{"id": "m-1", "tokens": 800, "content": strings.Repeat("x", 800), "meta": map[string]any{"a": 1.5, "b": []any{"c"}}}
	for _, c := range []struct {
		name   string
		v      any
		into   func() any
		encode func(any) ([]byte, error)
		decode func([]byte, any) error
		codec  string
	}{
		{"json/struct", v, func() any { return new(message) }, json.Marshal, json.Unmarshal, "json"},
		{"json/map", open, func() any { return new(map[string]any) }, json.Marshal, json.Unmarshal, "json"},
		{"msgpack/struct", v, func() any { return new(message) }, msgpack.Marshal, msgpack.Unmarshal, "msgpack"},
		{"msgpack/map", open, func() any { return new(map[string]any) }, msgpack.Marshal, msgpack.Unmarshal, "msgpack"},
		{"gob/struct", v, func() any { return new(message) }, nil, nil, "gob"},
	} {
		o := serializer.Options{Codec: c.codec}
		rec, err := r.Encode(tiers.Key{}, c.v, o)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name+"/save", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = r.Encode(tiers.Key{}, c.v, o)
			}
		})
		b.Run(c.name+"/load", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = r.Decode(rec, c.into())
			}
		})
		if c.encode == nil {
			continue
		}
		raw, _ := c.encode(c.v)
		b.Run(c.name+"/save-library", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = c.encode(c.v)
			}
		})
		b.Run(c.name+"/load-library", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = c.decode(raw, c.into())
			}
		})
	}
}
