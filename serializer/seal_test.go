package serializer_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/internal/envelope"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

func key32(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

func TestEncryptedRecordsShowNothing(t *testing.T) {
	t.Parallel()
	r := registry(t).WithKeys(keyring{"k1", map[string][]byte{"k1": key32(1)}})
	o := serializer.Options{Encrypt: true}
	one, err := r.Encode(key, "a secret of some length", o)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(one.Value, []byte("secret")) {
		t.Error("the value is readable")
	}
	two, err := r.Encode(key, "a secret of some length", o)
	if err != nil || bytes.Equal(one.Value, two.Value) {
		t.Errorf("equal values are told apart by their nonces: %v", err)
	}
}

func TestKeysRotateByTheirID(t *testing.T) {
	t.Parallel()
	plain := registry(t)
	before := plain.WithKeys(keyring{"k1", map[string][]byte{"k1": key32(1)}})
	after := plain.WithKeys(keyring{"k2", map[string][]byte{"k1": key32(1), "k2": key32(2)}})
	gone := plain.WithKeys(keyring{"k2", map[string][]byte{"k2": key32(2)}})
	wrong := plain.WithKeys(keyring{"k1", map[string][]byte{"k1": key32(9)}})

	rec, err := before.Encode(key, "v", serializer.Options{Encrypt: true})
	if err != nil {
		t.Fatal(err)
	}
	renewed, err := after.Encode(key, "v", serializer.Options{Encrypt: true})
	if err != nil {
		t.Fatal(err)
	}
	if h, _, err := envelope.Parse(renewed.Value); err != nil || h.KeyID != "k2" {
		t.Errorf("saves use the current key: %+v, %v", h, err)
	}
	for _, c := range []struct {
		why  string
		r    *serializer.Registry
		rec  tiers.Record
		want error
		hint string
	}{
		{"the key it was saved with", before, rec, nil, ""},
		{"an old key stays in the list", after, rec, nil, ""},
		{"the new key", after, renewed, nil, ""},
		{"a key that was taken out", gone, rec, tiers.ErrCodec, `wrong or missing encryption key: add the one with the id "k1"`},
		{"no keys at all", plain, rec, tiers.ErrCodec, `"k1"`},
		{"another key under the same id", wrong, rec, tiers.ErrCorrupt, `wrong encryption key under the id "k1"`},
	} {
		var out string
		err := c.r.Decode(c.rec, &out)
		if !errors.Is(err, c.want) || c.want != nil && !strings.Contains(err.Error(), c.hint) {
			t.Errorf("%s: %v", c.why, err)
		}
		if c.want == nil && out != "v" || c.want != nil && out != "" {
			t.Errorf("%s: %q", c.why, out)
		}
	}
}

func TestAnEncryptedRecordIsBoundToItsPlace(t *testing.T) {
	t.Parallel()
	r := registry(t).WithKeys(keyring{"k1", map[string][]byte{"k1": key32(1)}})
	rec, err := r.Encode(tiers.Key{Namespace: "n", Category: "cat", Name: "key"}, "v", serializer.Options{Codec: "msgpack", Schema: 1, Encrypt: true})
	if err != nil {
		t.Fatal(err)
	}
	reframe := func(change func(*envelope.Header)) func(*tiers.Record) {
		return func(rec *tiers.Record) {
			h, payload, err := envelope.Parse(rec.Value)
			if err != nil {
				t.Fatal(err)
			}
			change(&h)
			rec.Codec, rec.Schema = h.Codec, h.Schema
			rec.Value = envelope.Append(nil, h, payload)
		}
	}
	for why, change := range map[string]func(*tiers.Record){
		"another namespace":     func(rec *tiers.Record) { rec.Namespace = "m" },
		"another category":      func(rec *tiers.Record) { rec.Category = "cat2" },
		"another key":           func(rec *tiers.Record) { rec.Name = "other" },
		"parts told apart":      func(rec *tiers.Record) { rec.Category, rec.Name = "catk", "ey" },
		"another codec":         reframe(func(h *envelope.Header) { h.Codec = "raw" }),
		"another schema":        reframe(func(h *envelope.Header) { h.Schema = 2 }),
		"another size":          reframe(func(h *envelope.Header) { h.Size++ }),
		"an altered ciphertext": func(rec *tiers.Record) { rec.Value = envelope.Seal(flip(rec.Value[:len(rec.Value)-4]), 0) },
		"cut off": func(rec *tiers.Record) {
			rec.Value = envelope.Append(nil, envelope.Header{Codec: "msgpack", Schema: 1, Flags: tiers.Encrypted, KeyID: "k1", Size: 2}, []byte("short"))
		},
	} {
		moved := rec
		change(&moved)
		var out string
		if err := r.Decode(moved, &out); !errors.Is(err, tiers.ErrCorrupt) || out != "" {
			t.Errorf("%s: %q, %v", why, out, err)
		}
	}
}

func flip(b []byte) []byte {
	b = bytes.Clone(b)
	b[len(b)-1] ^= 1
	return b
}

type brokenKeys struct{ id string }

func (b brokenKeys) Current() (string, []byte, error) { return b.id, key32(1)[:16], nil }
func (b brokenKeys) Key(string) ([]byte, error)       { return nil, errors.New("vault is sealed") }

func TestKeysThatCannotBeUsedRefuseTheSave(t *testing.T) {
	t.Parallel()
	r := registry(t)
	for why, k := range map[string]serializer.Keys{
		"no keys":        nil,
		"16 bytes":       brokenKeys{"k1"},
		"no id":          brokenKeys{""},
		"an id too long": brokenKeys{strings.Repeat("k", 65)},
		"an unknown one": keyring{current: "k1"},
	} {
		if _, err := r.WithKeys(k).Encode(key, "v", serializer.Options{Encrypt: true}); !errors.Is(err, tiers.ErrCodec) {
			t.Errorf("%s: %v", why, err)
		}
	}
}

func TestErrorsNeverHoldAKey(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdefXYZ")
	r := registry(t).WithKeys(keyring{"k1", map[string][]byte{"k1": secret}})
	_, err := r.Encode(key, "v", serializer.Options{Encrypt: true})
	if err == nil || strings.Contains(fmt.Sprintf("%+v %#v", err, err), "XYZ") {
		t.Error(err)
	}
}
