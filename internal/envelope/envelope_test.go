package envelope_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/internal/envelope"
	"github.com/sagestore/sagestore/tiers"
)

// golden are the envelopes of testdata/v1.txt. Entries are never changed: what
// was written once has to be readable for ever.
var golden = []struct {
	name    string
	header  envelope.Header
	payload string
}{
	{"json", envelope.Header{Codec: "json", Schema: 1, Size: 2}, "{}"},
	{"msgpack", envelope.Header{Codec: "msgpack", Schema: 1, Size: 1}, "\x80"},
	{"gob", envelope.Header{Codec: "gob", Schema: 300, Size: 3}, "\x01\x02\x03"},
	{"raw-empty", envelope.Header{Codec: "raw", Schema: 1}, ""},
	{"own-codec", envelope.Header{Codec: "cbor", Schema: 1<<32 - 1, Size: 1}, "\xa0"},
	{"no-codec", envelope.Header{}, ""},
	{"compressed", envelope.Header{Codec: "json", Schema: 2, Flags: tiers.Compressed, Size: 1 << 20}, "zstd"},
	{"encrypted", envelope.Header{Codec: "msgpack", Schema: 1, Flags: tiers.Encrypted, KeyID: "2026-11", Size: 4}, "sealed"},
	{"both", envelope.Header{Codec: "raw", Schema: 1, Flags: tiers.Compressed | tiers.Encrypted, KeyID: "k", Size: 1<<63 - 1}, "x"},
}

func TestEveryFormatEverWrittenIsRead(t *testing.T) {
	t.Parallel()
	written := readGolden(t, "testdata/v1.txt")
	if len(written) != len(golden) {
		t.Fatalf("testdata/v1.txt has %d envelopes, the table %d", len(written), len(golden))
	}
	for _, g := range golden {
		b := written[g.name]
		h, payload, err := envelope.Parse(b)
		if err != nil {
			t.Errorf("%s: %v", g.name, err)
			continue
		}
		if d := cmp.Diff(g.header, h); d != "" || string(payload) != g.payload {
			t.Errorf("%s: payload %q, header (-want +got):\n%s", g.name, payload, d)
		}
		if got := envelope.Append(nil, g.header, []byte(g.payload)); !bytes.Equal(got, b) {
			t.Errorf("%s: the format that is written now is\n%x, it was\n%x", g.name, got, b)
		}
	}
}

func readGolden(t *testing.T, path string) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for line := range strings.Lines(string(text)) {
		name, digits, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		b, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = b
	}
	return out
}

func TestAFlippedBitIsFound(t *testing.T) {
	t.Parallel()
	for _, g := range golden {
		whole := envelope.Append(nil, g.header, []byte(g.payload))
		for i := range len(whole) * 8 {
			b := bytes.Clone(whole)
			b[i/8] ^= 1 << (i % 8)
			if _, _, err := envelope.Parse(b); !errors.Is(err, tiers.ErrCorrupt) {
				t.Fatalf("%s: bit %d flipped: %v", g.name, i, err)
			}
		}
		for n := range whole {
			if _, _, err := envelope.Parse(whole[:n]); !errors.Is(err, tiers.ErrCorrupt) {
				t.Fatalf("%s: cut to %d bytes: %v", g.name, n, err)
			}
		}
	}
}

func TestHeaderThatCouldNotHaveBeenWrittenIsRefused(t *testing.T) {
	t.Parallel()
	seal := func(body string) []byte { return envelope.Seal([]byte(body), 0) }
	for _, c := range []struct{ why, body string }{
		{"no envelope has the flag that says there is one", "\xc1SG\x01\x01\x00\x01\x00"},
		{"a number has one spelling", "\xc1SG\x01\x00\x00\x81\x00\x00"},
		{"a codec has one spelling", "\xc1SG\x01\x00\x08json\x01\x00"},
		{"a name ends within the envelope", "\xc1SG\x01\x00\x7fjson\x01\x00"},
		{"a schema number has 32 bits", "\xc1SG\x01\x00\x00\xff\xff\xff\xff\x7f\x00"},
		{"a size has 63 bits", "\xc1SG\x01\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
		{"an encrypted one names its key", "\xc1SG\x01\x04\x00\x01\x00"},
	} {
		if _, _, err := envelope.Parse(seal(c.body)); !errors.Is(err, tiers.ErrCorrupt) {
			t.Errorf("%s: %v", c.why, err)
		}
	}
	if _, _, err := envelope.Parse(seal("\xc1SG\x02anything that comes later")); !errors.Is(err, tiers.ErrUnsupported) {
		t.Errorf("a newer format: %v", err)
	}
}

func TestParseAllocatesNothingForBuiltInCodecs(t *testing.T) {
	b := envelope.Append(nil, envelope.Header{Codec: "msgpack", Schema: 1, Size: 1024}, make([]byte, 1024))
	buf := make([]byte, 0, 2048)
	if n := testing.AllocsPerRun(100, func() {
		_, payload, err := envelope.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		_ = envelope.Append(buf, envelope.Header{Codec: "msgpack", Schema: 1, Size: 1024}, payload)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	b := envelope.Append([]byte("before"), envelope.Header{Codec: "raw", Size: 1}, []byte("v"))
	if _, _, err := envelope.Parse(b[len("before"):]); err != nil || string(b[:6]) != "before" {
		t.Errorf("%q: %v", b, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, g := range golden {
		f.Add(envelope.Append(nil, g.header, []byte(g.payload)))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, envelope.Seal(bytes.Clone(b), 0)} { // the second gets past the checksum
			h, payload, err := envelope.Parse(b)
			if err != nil {
				if !errors.Is(err, tiers.ErrCorrupt) && !errors.Is(err, tiers.ErrUnsupported) {
					t.Fatalf("unexpected kind of error: %v", err)
				}
				continue
			}
			if again := envelope.Append(nil, h, payload); !bytes.Equal(again, b) {
				t.Fatalf("%x parsed to %+v, which is written as %x", b, h, again)
			}
		}
	})
}

func ExampleParse() {
	b := envelope.Append(nil, envelope.Header{Codec: "raw", Schema: 1, Size: 5}, []byte("hello"))
	h, payload, err := envelope.Parse(b)
	fmt.Println(h.Codec, string(payload), err)
	b[8] ^= 1
	_, _, err = envelope.Parse(b)
	fmt.Println(err)
	// Output:
	// raw hello <nil>
	// corrupt: its checksum is wrong
}

func BenchmarkParse(b *testing.B) {
	e := envelope.Append(nil, envelope.Header{Codec: "msgpack", Schema: 1, Size: 1024}, make([]byte, 1024))
	b.SetBytes(int64(len(e)))
	for b.Loop() {
		if _, _, err := envelope.Parse(e); err != nil {
			b.Fatal(err)
		}
	}
}
