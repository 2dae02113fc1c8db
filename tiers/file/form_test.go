package file_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/internal/envelope"
	"github.com/sagestore/sagestore/tiers"
)

func TestTheEndingSaysTheFormAndTheBytesComeBack(t *testing.T) {
	sealed := envelope.Append(nil, envelope.Header{Codec: "msgpack", Schema: 3, Flags: tiers.Compressed, Size: 9}, []byte("zstd"))
	deep := strings.Repeat("[", 3000) + strings.Repeat("]", 3000)
	for _, c := range []struct {
		why   string
		r     tiers.Record
		file  string
		bytes []byte // of the file; nil: not looked at
	}{
		{"plain JSON is for people", tiers.Record{Codec: "json", Schema: 1, Value: []byte(`{"a":"<&>"}`)}, "k.json", []byte("{\n  \"a\": \"<&>\"\n}\n")},
		{"deep JSON is not blown up", tiers.Record{Codec: "json", Schema: 1, Value: []byte(deep)}, "k.json", []byte(deep + "\n")},
		{"a schema other than 1 goes beside it", tiers.Record{Codec: "json", Schema: 2, Value: []byte(`1`)}, "k.json", nil},
		{"an envelope is kept as it is", tiers.Record{Codec: "msgpack", Schema: 3, Flags: tiers.Enveloped | tiers.Compressed, Value: sealed}, "k.msgpack.sage", sealed},
		{"a bare value gets an envelope", tiers.Record{Codec: "msgpack", Schema: 3, Value: []byte{0x80}}, "k.msgpack.sage", nil},
		{"what only says that it is an envelope gets one", tiers.Record{Codec: "gob", Schema: 1, Flags: tiers.Enveloped, Value: []byte("no")}, "k.gob.sage", nil},
		{"an envelope of another codec gets one", tiers.Record{Codec: "gob", Schema: 3, Flags: tiers.Enveloped | tiers.Compressed, Value: sealed}, "k.gob.sage", nil},
		{"text that indenting would change gets one", tiers.Record{Codec: "json", Schema: 1, Value: []byte(`{ "a": 1 }`)}, "k.json.sage", nil},
		{"what is no JSON gets one", tiers.Record{Codec: "json", Schema: 1, Value: []byte(`{`)}, "k.json.sage", nil},
		{"nothing is not JSON", tiers.Record{Codec: "json", Schema: 1, Value: []byte{}}, "k.json.sage", nil},
		{"no codec is raw", tiers.Record{Schema: 1, Value: []byte("x")}, "k.raw.sage", nil},
		{"the app's own codec", tiers.Record{Codec: "My.Codec/2", Schema: 1, Value: []byte("x")}, "k.%4Dy%2E%43odec%2F2.sage", nil},
	} {
		t.Run(c.why, func(t *testing.T) {
			dir := t.TempDir()
			c.r.Key = key("k")
			want := save(t, open(t, dir), c.r)
			for range 2 { // with another handle the codec comes from the disk
				got := load(t, open(t, dir), "k")
				if d := cmp.Diff(want, got); d != "" {
					t.Error(d)
				}
			}
			content := read(t, filepath.Join(dir, "config", c.file))
			if c.bytes != nil && content != string(c.bytes) {
				t.Errorf("the file holds %q", content)
			}
		})
	}
}

func TestALongCodecNameIsRefused(t *testing.T) {
	_, err := open(t, t.TempDir()).Save(t.Context(), tiers.Record{Key: key("k"), Codec: strings.Repeat("c", 49), Schema: 1}, tiers.Cond{})
	if !errors.Is(err, tiers.ErrCodec) {
		t.Errorf("%v, want a codec error", err)
	}
}

func TestASaveWithAnotherCodecLeavesOneFile(t *testing.T) {
	dir := t.TempDir()
	tier, other := open(t, dir), open(t, dir)
	var last tiers.Record
	for _, codec := range []string{"json", "msgpack", "cbor", "json"} {
		r := plain("k", `1`)
		r.Codec = codec
		saved := save(t, tier, r)
		if last.Version != 0 && (saved.Version <= last.Version || !saved.Created.Equal(last.Created)) {
			t.Errorf("%s: %+v after %+v", codec, saved, last)
		}
		last = saved
		if got := load(t, other, "k"); got.Codec != codec || got.Version != saved.Version {
			t.Errorf("another handle sees %s version %d, want %s version %d", got.Codec, got.Version, codec, saved.Version)
		}
	}
	var values []string
	for _, n := range names(t, dir) {
		if !strings.HasSuffix(n, ".meta") {
			values = append(values, n)
		}
	}
	if d := cmp.Diff([]string{"config/k.json"}, values); d != "" {
		t.Error(d)
	}
}

func TestOfTwoFormsTheNewerCountsAndTheOtherIsSwept(t *testing.T) {
	for _, newer := range []string{"json", "msgpack"} {
		t.Run(newer, func(t *testing.T) {
			dir := t.TempDir()
			tier := open(t, dir)
			r := plain("k", `1`)
			r.Codec = "msgpack"
			save(t, tier, r)
			// As a crash between the two steps of a save would leave it.
			path := filepath.Join(dir, "config", "k.json")
			edit(t, path, "2")
			if newer == "msgpack" {
				old := tiers.SystemClock().Now().Add(-time.Hour)
				if err := os.Chtimes(path, old, old); err != nil {
					t.Fatal(err)
				}
			}
			check := func(when string) {
				t.Helper()
				if got := load(t, tier, "k"); got.Codec != newer {
					t.Errorf("%s: load answers the %s", when, got.Codec)
				}
				n := 0
				for r, err := range tier.List(t.Context(), tiers.Query{Category: "config"}) {
					if err != nil || r.Codec != newer {
						t.Errorf("%s: listed %s %v", when, r.Codec, err)
					}
					n++
				}
				if n != 1 {
					t.Errorf("%s: listed %d times", when, n)
				}
			}
			check("both there")
			if n, err := tier.Sweep(t.Context(), 100); n != 0 || err != nil {
				t.Errorf("sweep: %d %v", n, err)
			}
			check("swept")
			if got := names(t, dir); len(got) != 1 {
				t.Errorf("after the sweep: %v", got)
			}
		})
	}
}

func TestADotFileOfADeletedRecordSaysNothingAboutTheNext(t *testing.T) {
	dir := t.TempDir()
	tier := open(t, dir)
	r := plain("k", `1`)
	r.TTL = time.Hour
	save(t, tier, r)
	// As a crash in the middle of a delete would leave it.
	if err := os.Remove(filepath.Join(dir, "config", "k.json")); err != nil {
		t.Fatal(err)
	}
	again := save(t, tier, plain("k", `2`))
	got := load(t, tier, "k")
	if !got.Expires.IsZero() || !got.Created.Equal(again.Updated) {
		t.Errorf("%+v has the times of the record before", got)
	}
	if err := os.Remove(filepath.Join(dir, "config", "k.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := tier.Sweep(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
}

func TestADamagedEnvelopeIsCorruptAndTheOthersStillList(t *testing.T) {
	dir := t.TempDir()
	tier := open(t, dir)
	for i := range 20 {
		r := plain(fmt.Sprintf("k%02d", i), "value")
		r.Codec = "msgpack"
		save(t, tier, r)
	}
	path := filepath.Join(dir, "config", "k07.msgpack.sage")
	content := []byte(read(t, path))
	content[len(content)/2] ^= 4
	edit(t, path, string(content))
	if _, err := tier.Load(t.Context(), key("k07")); !errors.Is(err, tiers.ErrCorrupt) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v, want corrupt with the path", err)
	}
	good, bad := 0, 0
	for r, err := range tier.List(t.Context(), tiers.Query{Category: "config"}) {
		if err == nil {
			good++
		} else if r.Name == "k07" {
			bad++
		}
	}
	if good != 19 || bad != 1 {
		t.Errorf("%d good and %d bad", good, bad)
	}
}

func FuzzValuesComeBackAsTheyAre(f *testing.F) {
	for _, s := range []string{`{"a":[1,2,{"b":null}]}`, `"\u2028"`, `{ }`, "", "\x00", `"\"  \\"`, "1\n", "[[[[", "\xff"} {
		f.Add([]byte(s), "json", byte(0))
	}
	f.Add([]byte("\xc1SG\x01"), "raw", byte(1))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, value []byte, codec string, flags byte) {
		if len(codec) > 16 {
			return
		}
		tier := open(t, dir)
		want := save(t, tier, tiers.Record{Key: key("k"), Codec: codec, Schema: 1, Value: value, Flags: tiers.Flags(flags)})
		got := load(t, tier, "k")
		if !bytes.Equal(got.Value, value) || got.Codec != codec || got.Flags != want.Flags || got.Version != want.Version {
			t.Errorf("saved %q as %q, flags %d; loaded %q as %q, flags %d", value, codec, flags, got.Value, got.Codec, got.Flags)
		}
	})
}

func TestADotFileIsReadable(t *testing.T) {
	dir := t.TempDir()
	tier := open(t, dir)
	r := plain("k", `1`)
	r.TTL = time.Hour
	saved := save(t, tier, r)
	var m struct {
		Entries []struct {
			From    tiers.Version
			Expires time.Time
		}
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(dir, "config", ".k.meta"))), &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Entries) != 1 || m.Entries[0].From != saved.Version || !m.Entries[0].Expires.Equal(saved.Expires) {
		t.Errorf("%+v, want version %d and %v", m, saved.Version, saved.Expires)
	}
}
