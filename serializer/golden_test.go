package serializer_test

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

var addGolden = flag.Bool("add-golden", false, "append records that testdata/records.txt does not have yet")

// note is the type that the records in testdata were made of. It never changes.
type note struct {
	ID    int64             `json:"id"`
	Title string            `json:"title"`
	Tags  []string          `json:"tags"`
	At    time.Time         `json:"at"`
	Score *float64          `json:"score"`
	Meta  map[string]string `json:"meta"`
	Blob  []byte            `json:"blob"`
	U     uint32
	In    struct{ Deep [2]int8 }
}

func goldenNote() note {
	score := 0.5
	n := note{
		ID: 9007199254740993, Title: "<caf\u00e9> \x00", Tags: []string{"a", ""},
		At: time.Date(2026, 11, 1, 2, 3, 4, 567891234, time.UTC), Score: &score, Meta: map[string]string{"k": "v"}, Blob: []byte{0, 255}, U: 1 << 31,
	}
	n.In.Deep = [2]int8{-128, 127}
	return n
}

// golden are the values of the records in testdata/records.txt. Neither is ever
// changed or removed: what was written once has to be readable for ever.
var golden = []struct {
	name    string
	value   any
	options serializer.Options
}{
	{"json", goldenNote(), serializer.Options{}},
	{"json-any", map[string]any{"n": int64(9007199254740993), "f": 1.5, "s": "x", "l": []any{nil, true}}, serializer.Options{Schema: 2}},
	{"msgpack", goldenNote(), serializer.Options{Codec: "msgpack"}},
	{"msgpack-any", map[string]any{"n": int64(9007199254740993), "f": 1.5, "s": "x", "l": []any{nil, true}}, serializer.Options{Codec: "msgpack", Schema: 7}},
	{"gob", goldenNote(), serializer.Options{Codec: "gob"}},
	{"gob-any", map[string]any{"n": int64(9007199254740993), "f": 1.5, "s": "x"}, serializer.Options{Codec: "gob"}},
	{"raw", []byte("\x00raw\xff"), serializer.Options{Codec: "raw", Schema: 1 << 20}},
	{"json-zstd", strings.Repeat("work ", 100), serializer.Options{CompressOver: 10}},
	{"msgpack-zstd", strings.Repeat("work ", 100), serializer.Options{Codec: "msgpack", CompressOver: 10}},
	{"json-aes", goldenNote(), serializer.Options{Encrypt: true}},
	{"raw-zstd-aes", []byte(strings.Repeat("work ", 100)), serializer.Options{Codec: "raw", CompressOver: 10, Encrypt: true}},
}

func TestRecordsOfEveryEarlierVersionLoad(t *testing.T) {
	const path = "testdata/records.txt"
	r := registry(t).WithKeys(keyring{"golden", map[string][]byte{"golden": key32(7)}})
	records := readRecords(t, path)
	if *addGolden {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		for _, g := range golden {
			if _, ok := records[g.name]; ok {
				continue
			}
			rec, err := r.Encode(key, g.value, g.options)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Fprintf(f, "%s %s %d %d %x\n", g.name, rec.Codec, rec.Schema, rec.Flags, rec.Value); err != nil {
				t.Fatal(err)
			}
		}
		records = readRecords(t, path)
	}
	if len(records) != len(golden) {
		t.Errorf("%d records, %d values", len(records), len(golden))
	}
	for _, g := range golden {
		into := reflect.New(reflect.TypeOf(g.value))
		if err := r.Decode(records[g.name], into.Interface()); err != nil {
			t.Errorf("%s: %v", g.name, err)
			continue
		}
		if d := cmp.Diff(g.value, into.Elem().Interface()); d != "" {
			t.Errorf("%s (-want +got):\n%s", g.name, d)
		}
	}
}

func readRecords(t *testing.T, path string) map[string]tiers.Record {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !*addGolden {
		t.Fatal(err)
	}
	out := map[string]tiers.Record{}
	for line := range strings.Lines(string(text)) {
		part := strings.Fields(line)
		if len(part) != 5 {
			t.Fatalf("%s: %q", path, line)
		}
		schema, err := strconv.ParseUint(part[2], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		flags, err := strconv.ParseUint(part[3], 10, 8)
		if err != nil {
			t.Fatal(err)
		}
		value, err := hex.DecodeString(part[4])
		if err != nil {
			t.Fatal(err)
		}
		out[part[0]] = tiers.Record{Key: key, Codec: part[1], Schema: uint32(schema), Flags: tiers.Flags(flags), Value: value}
	}
	return out
}
