package redis

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/tiers"
)

func sample() tiers.Record {
	return tiers.Record{
		Key: tiers.Key{Namespace: "acme", Category: "session.history", Name: "s-1/ü"}, Value: []byte("the \x00 value"), Codec: "msgpack",
		Schema: 7, Flags: tiers.Enveloped | tiers.Encrypted, Version: 1_790_000_000_000_001,
		Created: time.UnixMicro(1_780_000_000_000_001).UTC(), Updated: time.UnixMicro(1_790_000_000_000_001).UTC(),
		Expires: time.UnixMicro(1_790_000_000_500_001).UTC(),
	}
}

func TestRecordComesBackAsItWas(t *testing.T) {
	for _, change := range []func(*tiers.Record){
		func(*tiers.Record) {},
		func(r *tiers.Record) { r.Value = []byte{} },
		func(r *tiers.Record) { r.Codec = "" },
		func(r *tiers.Record) { r.Codec = string(bytes.Repeat([]byte("c"), 255)) },
		func(r *tiers.Record) { r.Expires = time.Time{} },
		func(r *tiers.Record) { r.Created = time.Date(1900, 1, 2, 3, 4, 5, 6000, time.UTC) },
		func(r *tiers.Record) { r.Version = maxVersion },
	} {
		want := sample()
		change(&want)
		b, err := encode(&want, magicIndexed)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(want.Key, b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("it changed (-want +got):\n%s", diff)
		}
		want.Value = nil
		if head, _, err := decodeHead(want.Key, b); err != nil || !cmp.Equal(head, want) {
			t.Errorf("its head is %+v, %v", head, err)
		}
	}
	r := sample()
	r.Codec = string(bytes.Repeat([]byte("c"), 256))
	if _, err := encode(&r, magicIndexed); !errors.Is(err, tiers.ErrCodec) {
		t.Errorf("a codec's name of 256 bytes: %v", err)
	}
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	r := sample()
	whole, err := encode(&r, magicIndexed)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 * len(whole) {
		b := bytes.Clone(whole)
		b[i/8] ^= 1 << (i % 8)
		if _, err := decode(r.Key, b); !errors.Is(err, tiers.ErrCorrupt) {
			t.Errorf("bit %d flipped: %v", i, err)
		}
	}
	for n := range whole {
		if _, err := decode(r.Key, whole[:n]); !errors.Is(err, tiers.ErrCorrupt) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
	other := r.Key
	other.Name += "x"
	if _, err := decode(other, whole); !errors.Is(err, tiers.ErrCorrupt) {
		t.Errorf("under another key: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	r := sample()
	whole, err := encode(&r, magicIndexed)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:headLen+bodyLen])
	f.Add([]byte(magicIndexed))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decode(r.Key, b)
		if err != nil {
			if !errors.Is(err, tiers.ErrCorrupt) {
				t.Fatalf("error is %v", err)
			}
			return
		}
		again, err := encode(&got, string(b[:2]))
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x became %x, %v", b, again, err)
		}
	})
}
